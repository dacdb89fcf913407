"""A majority that is lost for ever, and what all nodes have to be able to do."""
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from node import Node
from trio import Nodes, agree, keyspace, nodetool, until


def at_one(text):
    return SimpleStatement(text, consistency_level=ConsistencyLevel.ONE)


def host_id(session):
    return str(session.execute("SELECT host_id FROM system.local").one().host_id)


def report(node, **parameters):
    url = f"http://{node.address}:10000/raft/recover_majority?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(url, method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def test_two_of_three_are_lost_and_the_third_goes_on():
    with Nodes(3) as nodes:
        sessions = [node.connect() for node in nodes]
        keyspace(sessions[0], "ks", True)
        ids = [host_id(session) for session in sessions]
        agree(sessions)
        for key in range(20):
            sessions[2].execute(SimpleStatement(
                f"INSERT INTO ks.t (k, v) VALUES ({key}, {key})",
                consistency_level=ConsistencyLevel.ALL))
        refused = nodetool(nodes[2], "recover-majority")
        assert refused.returncode == 0 and "nothing is lost" in refused.stdout, refused
        for node in nodes[0], nodes[1]:
            node.disconnect()
            node.kill()
        # The dry run, when the node has noticed.
        until(lambda: report(nodes[2])["refused"] is None, 60)
        told = nodetool(nodes[2], "recover-majority").stdout
        assert f"* {ids[2]}" in told and ids[0] in told and ids[1] in told, told
        assert "1 have to agree" in told and "--execute --lost" in told, told
        wrong = nodetool(nodes[2], "recover-majority", "--execute", "--lost", ids[2])
        assert wrong.returncode == 1 and "is said to be lost, and answers" in wrong.stdout, wrong
        unnamed = nodetool(nodes[2], "recover-majority", "--execute")
        assert unnamed.returncode == 1 and "have to be named" in unnamed.stdout, unnamed
        done = nodetool(nodes[2], "recover-majority", "--execute", "--lost", ",".join(ids[:2]))
        assert done.returncode == 0 and "generation 1 works" in done.stdout, done
        session = sessions[2]
        session.execute("CREATE TABLE ks.after (k int PRIMARY KEY, v int)", timeout=60)
        for key in range(20):
            assert session.execute(at_one(f"SELECT v FROM ks.t WHERE k = {key}")).one().v == key
            session.execute(at_one(f"INSERT INTO ks.after (k, v) VALUES ({key}, {key})"))
            row = session.execute(at_one(f"SELECT v FROM ks.after WHERE k = {key}")).one()
            assert row.v == key
        lost = session.execute("SELECT ignore_nodes FROM system.topology "
                               "WHERE key = 'topology' LIMIT 1").one().ignore_nodes
        assert {str(node) for node in lost} == set(ids[:2])
        assert report(nodes[2])["generation"] == 1
        # One that was killed does not come back.
        with pytest.raises(RuntimeError) as ended:
            nodes[0].start()
        line = re.search(r"this node, \S+, is no longer one of its cluster.*", str(ended.value))
        assert line and "empty data directory" in line[0], ended.value
        for key in range(20):
            assert session.execute(at_one(f"SELECT v FROM ks.after WHERE k = {key}")).one().v == key
        # What it has become is there after a restart.
        nodes[2].disconnect()
        assert nodes[2].stop() == 0
        nodes[2].start()
        session = nodes[2].connect()
        session.execute("CREATE TABLE ks.later (k int PRIMARY KEY)", timeout=60)


@pytest.mark.parametrize("withheld", ["LWT"])
def test_features_come_when_all_have_them_and_stay(withheld):
    with Node("--smp", "1", "--memory", "512M", "--withheld-features", withheld) as node:
        def enabled():
            row = node.connect().execute("SELECT value FROM system.scylla_local "
                                         "WHERE key = 'enabled_features'").one()
            return set(row.value.split(",")) if row else set()

        until(enabled)
        local = node.connect().execute("SELECT supported_features FROM system.local").one()
        assert withheld not in local.supported_features.split(",")
        assert enabled() == set(local.supported_features.split(","))
        node.disconnect()
        assert node.stop() == 0
        node.options.remove("--withheld-features")
        node.options.remove(withheld)
        node.start()
        until(lambda: withheld in enabled())
        shown = node.connect().execute("SELECT enabled_features, supported_features "
                                       "FROM system.topology WHERE key = 'topology'").one()
        assert set(shown.enabled_features) == set(shown.supported_features) == enabled()
        node.disconnect()
        assert node.stop() == 0
        node.options += ["--withheld-features", withheld]
        with pytest.raises(RuntimeError, match=f"lacks features that its cluster has: {withheld}"):
            node.start()


def test_a_barrier_without_a_majority_says_who_is_missing():
    with Nodes(3, "--group0-raft-op-timeout-in-ms", "1000") as nodes:
        agree([node.connect() for node in nodes])
        for node in nodes:
            node.disconnect()
            node.kill()
        nodes[0].start()
        request = urllib.request.Request(
            f"http://{nodes[0].address}:10000/raft/read_barrier", method="POST")
        began = time.monotonic()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert time.monotonic() - began < 20
        assert ("raft operation [read_barrier] timed out, there is no raft quorum, total voters "
                "count 3, alive voters count 1") in refused.value.read().decode()
