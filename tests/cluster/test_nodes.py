"""Three nodes are one database, whichever of them is asked, and while one of them is away."""
import json
import re
import signal
import subprocess
import urllib.request

import pytest
from cassandra import (
    ConsistencyLevel, OperationTimedOut, ReadFailure, ReadTimeout, Unavailable, WriteFailure,
    WriteTimeout)
from cassandra.query import SimpleStatement
from node import NEREID, Node
from trio import Nodes, agree, keyspace, registers, rest, status, until, wait_for_driver


@pytest.fixture(name="nodes")
def three_nodes():
    with Nodes(3) as nodes:
        yield nodes


def at(level, text):
    return SimpleStatement(text, consistency_level=getattr(ConsistencyLevel, level))


def test_nodes_that_start_at_once_are_one(nodes):
    sessions = [node.connect() for node in nodes]
    addresses = {node.address for node in nodes}
    for node, session in zip(nodes, sessions):
        peers = {str(row.peer) for row in session.execute("SELECT peer FROM system.peers")}
        assert peers == addresses - {node.address}
    keyspace(sessions[0], "ks", True)
    sessions[1].execute("CREATE TYPE ks.u (a int)")
    for session in sessions:
        until(lambda s=session: s.execute(
            "SELECT type_name FROM system_schema.types WHERE keyspace_name = 'ks'").one())
        names = session.execute(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'ks'")
        assert [row.table_name for row in names] == ["t"]
    versions = {session.execute("SELECT schema_version FROM system.local").one().schema_version
                for session in sessions}
    assert len(versions) == 1


@pytest.mark.parametrize("tablets", [True, False])
def test_what_one_node_is_told_all_know(nodes, tablets):
    sessions = [node.connect() for node in nodes]
    keyspace(sessions[0], "ks", tablets)
    sessions[0].execute("CREATE TABLE ks.r (p int, c int, s text, PRIMARY KEY (p, c))")
    sessions[0].execute("CREATE TABLE ks.n (p int PRIMARY KEY, n counter)")
    agree(sessions)
    for number in range(90):
        sessions[number % 3].execute(at(
            "QUORUM", f"INSERT INTO ks.r (p, c, s) VALUES ({number // 10}, {number}, 'x{number}')"))
        sessions[number % 3].execute(at("QUORUM", "UPDATE ks.n SET n = n + 2 WHERE p = 7"))
    sessions[1].execute(at("QUORUM", "DELETE FROM ks.r WHERE p = 3"))
    sessions[2].execute(at("ALL", "BEGIN BATCH INSERT INTO ks.r (p, c, s) VALUES (70, 1, 'b'); "
                                  "INSERT INTO ks.r (p, c, s) VALUES (71, 1, 'b'); APPLY BATCH"))
    for session in sessions:
        for level in "ONE", "QUORUM", "ALL":
            rows = list(session.execute(at(level, "SELECT p, c FROM ks.r")))
            assert len(rows) == 82 and not [row for row in rows if row.p == 3]
        paged = SimpleStatement("SELECT p, c FROM ks.r", fetch_size=7,
                                consistency_level=ConsistencyLevel.QUORUM)
        assert len({(row.p, row.c) for row in session.execute(paged)}) == 82
        count = session.execute(at("QUORUM", "SELECT count(*), max(c) FROM ks.r")).one()
        assert tuple(count) == (82, 89)
        assert session.execute(at("QUORUM", "SELECT n FROM ks.n WHERE p = 7")).one().n == 180
        slice_ = session.execute(at("ALL", "SELECT c FROM ks.r WHERE p = 8 AND c > 84 "
                                           "ORDER BY c DESC LIMIT 3"))
        assert [row.c for row in slice_] == [89, 88, 87]


@pytest.mark.parametrize("tablets", [True, False])
def test_nothing_is_lost_while_each_node_is_killed(nodes, tablets):
    session = nodes.connect()
    keyspace(session, "ks", tablets)
    with registers(session, "ks.t") as load:
        for node in nodes:
            load.goes_on()
            node.kill()
            load.goes_on()
            node.start()
            wait_for_driver(session)
        load.goes_on()


def test_a_node_that_is_paused_is_not_waited_for(nodes):
    session = nodes.connect(patience=2)
    keyspace(session, "ks", True)
    # What the node itself was to answer is late, and the driver does not know that it is paused.
    # When it goes on after a long pause, it has heard nothing of the others for as long.
    late = WriteTimeout, ReadTimeout, WriteFailure, ReadFailure, OperationTimedOut
    with registers(session, "ks.t", tolerated=late) as load:
        for node in nodes:
            load.goes_on()
            node.process.send_signal(signal.SIGSTOP)
            load.goes_on(rounds=5)
            node.process.send_signal(signal.SIGCONT)
        load.goes_on()


def test_nodes_are_restarted_one_after_the_other(nodes):
    session = nodes.connect()
    keyspace(session, "ks", True)
    with registers(session, "ks.t") as load:
        for node in nodes:
            load.goes_on()
            assert node.stop() == 0
            load.goes_on()
            node.start()
            nodes.wait_for_peers()
            wait_for_driver(session)


def test_a_node_that_stops_is_down_at_once_and_levels_say_so(nodes):
    session = nodes[0].connect()
    keyspace(session, "ks", True)
    session.execute(at("ALL", "INSERT INTO ks.t (k, v) VALUES (1, 1)"))
    assert nodes[2].stop() == 0
    until(lambda: "DN" in status(nodes[0]), 5)
    assert len(re.findall("^UN", status(nodes[0]), re.M)) == 2
    session.execute(at("QUORUM", "INSERT INTO ks.t (k, v) VALUES (1, 2)"))
    for text in "INSERT INTO ks.t (k, v) VALUES (1, 3)", "SELECT * FROM ks.t WHERE k = 1":
        with pytest.raises(Exception) as refused:
            session.execute(at("ALL", text))
        error = refused.value
        assert isinstance(error, Unavailable) or "Unavailable" in str(error), error
    session.execute("CREATE TABLE ks.without (k int PRIMARY KEY)")
    nodes[2].start()
    nodes.wait_for_peers()
    back = nodes[2].connect()
    until(lambda: back.execute("SELECT table_name FROM system_schema.tables WHERE keyspace_name = "
                               "'ks' AND table_name = 'without'").one())
    # What it missed it does not answer for: two others have it.
    assert back.execute(at("QUORUM", "SELECT v FROM ks.t WHERE k = 1")).one().v == 2


def test_who_leads_is_told_by_all_and_can_be_changed(nodes):
    hosts = {rest(node, "/storage_service/hostid/local"): node for node in nodes}

    def leaders():
        return {rest(node, "/raft/leader_host") for node in nodes}
    until(lambda: len(leaders()) == 1 and leaders() <= set(hosts))
    [first] = leaders()
    rest(hosts[first], "/raft/trigger_stepdown", "POST")
    until(lambda: len(leaders()) == 1 and leaders() != {first})
    for node in nodes:
        rest(node, "/raft/read_barrier?timeout=20", "POST")
    [second] = leaders()
    hosts[second].kill()
    others = [node for host, node in hosts.items() if host != second]
    until(lambda: {rest(node, "/raft/leader_host") for node in others} in (
        {host} for host in set(hosts) - {second}))
    for node in others:
        rest(node, "/raft/read_barrier", "POST")


def test_without_a_majority_nothing_is_changed(nodes):
    session = nodes[0].connect()
    keyspace(session, "ks", True)
    nodes[1].stop()
    nodes[2].stop()
    until(lambda: status(nodes[0]).count("DN") == 2, 5)
    with pytest.raises(Exception):
        session.execute(at("QUORUM", "INSERT INTO ks.t (k, v) VALUES (1, 1)"))
    session.execute(at("ONE", "INSERT INTO ks.t (k, v) VALUES (2, 2)"))
    assert session.execute(at("ONE", "SELECT v FROM ks.t WHERE k = 2")).one().v == 2
    nodes[1].start()
    until(lambda: status(nodes[0]).count("UN") == 2)
    session.execute(at("QUORUM", "INSERT INTO ks.t (k, v) VALUES (1, 1)"))
    session.execute("CREATE TABLE ks.again (k int PRIMARY KEY)")


def test_who_may_not_join_is_told_why(nodes):
    other = Node("--seeds", nodes[0].address, "--cluster-name", "Other")
    with pytest.raises(RuntimeError, match="Other"):
        other.start()
    # Nobody else noticed.
    assert nodes[0].connect().execute("SELECT count(*) FROM system.topology").one()[0] == 3


def console_nodes(node):
    """The nodes that the console of one shows, by address."""
    headers = {"X-Nereid-Console": "1"}
    request = urllib.request.Request(f"http://{node.address}:10000/console/api/state",
                                     headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return {row["address"]: row for row in json.load(answer)["nodes"]}


def test_the_console_of_each_node_shows_what_all_of_them_do(nodes):
    session = nodes.connect()
    keyspace(session, "ks", True)
    with registers(session, "ks.t", threads=2) as load:
        # Each coordinates a part of the requests.
        for node in nodes:
            until(lambda node=node: all(row["reads"] and row["writes"] and row["busy"] is not None
                                        for row in console_nodes(node).values()))
        load.goes_on()
    for node in nodes:
        subprocess.run([NEREID, "nodetool", "-h", node.address, "flush", "ks"], check=True)
    for node in nodes:
        until(lambda node=node: all(row["load_bytes"] for row in console_nodes(node).values()))
        shown = console_nodes(node)
        assert sorted(shown) == sorted(other.address for other in nodes)
        assert [address for address, row in shown.items() if row["here"]] == [node.address]
        assert {(row["state"], row["rack"], row["shards"], row["agrees"])
                for row in shown.values()} == {("UN", "rack1", 1, True)}
    nodes[2].stop()
    gone = nodes[2].address
    until(lambda: console_nodes(nodes[0])[gone]["state"] == "DN")
    assert console_nodes(nodes[0])[gone]["reads"] is None
