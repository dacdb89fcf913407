"""What a node has missed for good, it gets by a repair; nodes keep no hints here."""
import datetime
import json
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from node import NEREID
from trio import Nodes, agree, keyspace, until


@pytest.fixture(name="nodes")
def three_nodes():
    with Nodes(3, "--hinted-handoff-enabled", "false") as nodes:
        yield nodes


@pytest.fixture(name="even")
def three_of_even_shares():
    """Of one token each a node may be the first of so small a range that no row is in it."""
    with Nodes(3, "--hinted-handoff-enabled", "false", "--num-tokens", "32") as nodes:
        yield nodes


def at(level, text):
    return SimpleStatement(text, consistency_level=getattr(ConsistencyLevel, level))


def api(node, path, method="GET", **parameters):
    url = f"http://{node.address}:10000{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=120) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def refused(node, path, **parameters):
    """Why a request is refused."""
    with pytest.raises(urllib.error.HTTPError) as refusal:
        api(node, path, "POST", **parameters)
    assert refusal.value.code == 400
    return json.loads(refusal.value.read())["message"]


def nodetool(node, *arguments):
    command = [NEREID, "nodetool", "-h", node.address, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def repair(node, tablets, *arguments):
    done = nodetool(node, *(["cluster"] if tablets else []), "repair", *arguments)
    assert done.returncode == 0 and "finished" in done.stdout, done.stdout + done.stderr
    return done.stdout


def down(nodes, node):
    """Kills a node, and waits until the others know."""
    nodes[node].kill()
    address = nodes[node].address
    for other in range(3):
        if other != node:
            until(lambda other=other: address in api(nodes[other], "/gossiper/endpoint/down"))


def back(nodes, node):
    nodes[node].start()
    nodes.wait_for_peers()


def tables(session, tablets):
    keyspace(session, "ks", tablets)
    session.execute("CREATE TABLE ks.r (k int, c int, s int STATIC, v int, m map<int, int>, "
                    "PRIMARY KEY (k, c))")
    session.execute("CREATE TABLE ks.n (k int PRIMARY KEY, n counter)")


def rows(node):
    """All that one node has, which asks nobody: it is the nearest replica of everything."""
    session = node.connect()
    return {table: sorted(map(repr, session.execute(at("ONE", f"SELECT * FROM ks.{table}"))))
            for table in ("t", "r", "n")}


@pytest.mark.parametrize("tablets", [True, False])
def test_a_node_that_has_missed_writes_has_all_after_a_repair(nodes, tablets):
    session = nodes[0].connect()
    tables(session, tablets)
    for k in range(30):
        session.execute(at("ALL", f"INSERT INTO ks.t (k, v) VALUES ({k}, 1)"))
        session.execute(at("ALL", f"INSERT INTO ks.r (k, c, s, v, m) "
                                  f"VALUES ({k % 5}, {k}, 1, 1, {{1: 1}})"))
    down(nodes, 2)
    for k in range(20, 50):
        session.execute(at("QUORUM", f"INSERT INTO ks.t (k, v) VALUES ({k}, 2)"))
        session.execute(at("QUORUM", f"UPDATE ks.n SET n = n + {k} WHERE k = {k % 3}"))
    for text in ("DELETE FROM ks.t WHERE k = 3", "DELETE FROM ks.r WHERE k = 0",
                 "DELETE FROM ks.r WHERE k = 1 AND c > 5 AND c < 20",
                 "DELETE v FROM ks.r WHERE k = 2 AND c = 2",
                 "DELETE FROM ks.r WHERE k = 2 AND c = 7",
                 "UPDATE ks.r SET s = 7 WHERE k = 3",
                 "UPDATE ks.r SET m[2] = 2, m[1] = null WHERE k = 4 AND c = 4",
                 "INSERT INTO ks.r (k, c, v) VALUES (4, 100, 1) USING TTL 1000"):
        session.execute(at("QUORUM", text))
    back(nodes, 2)
    own = nodes[2].connect()
    assert own.execute(at("ONE", "SELECT count(*) FROM ks.t WHERE k = 40")).one().count == 0
    repair(nodes[1], tablets, "ks")
    expected = rows(nodes[0])
    assert len(expected["t"]) == 49 and len(expected["n"]) == 3
    assert rows(nodes[1]) == expected
    assert rows(nodes[2]) == expected
    # Nothing is left to be told.
    repair(nodes[2], tablets, "ks")
    log = nodes[2].log.read_text()
    done = re.findall(r"repair of ks ended: .* (\d+) hashes, (\d+) rows fetched, .* (\d+) sent;", log)
    assert done and all(figures == ("0", "0", "0") for figures in done), done


def test_each_node_repairs_the_ranges_of_which_it_is_the_first(even):
    session = even[0].connect()
    tables(session, False)
    down(even, 1)
    for k in range(100):
        session.execute(at("QUORUM", f"INSERT INTO ks.t (k, v) VALUES ({k}, 1)"))
    back(even, 1)
    have = []
    for node in even:
        repair(node, False, "-pr", "ks", "t")
        have.append(len(rows(even[1])["t"]))
    assert 0 < have[0] < have[1] < have[2] == 100, have


def test_a_replica_that_is_down_is_named(nodes):
    session = nodes[0].connect()
    tables(session, False)
    keyspace(session, "tablets", True)
    keyspace(session, "one", False, copies=1)
    agree([node.connect() for node in nodes])
    down(nodes, 2)
    number = api(nodes[0], "/storage_service/repair_async/ks", "POST")
    assert api(nodes[0], "/storage_service/repair_status", id=number) == "FAILED"
    assert api(nodes[0], "/storage_service/repair_async/ks", id=number) == "FAILED"
    assert re.search(rf"repair of ks failed: .*{re.escape(nodes[2].address)}.* is down",
                     nodes[0].log.read_text())
    done = nodetool(nodes[0], "cluster", "repair", "tablets")
    assert done.returncode != 0 and f"node {nodes[2].address}" in done.stderr + done.stdout
    assert nodetool(nodes[0], "repair", "ks").returncode != 0
    # The others are compared without it.
    number = api(nodes[0], "/storage_service/repair_async/ks", "POST",
                 ignore_nodes=nodes[2].address)
    assert api(nodes[0], "/storage_service/repair_status", id=number) == "SUCCESSFUL"
    repair(nodes[0], False, "-hosts", f"{nodes[0].address},{nodes[1].address}", "ks")
    # Nothing has to be compared of what is there once.
    assert api(nodes[0], "/storage_service/repair_async/one", "POST") > number


def test_a_node_that_lacks_data_is_rebuilt_from_others(nodes):
    session = nodes[0].connect()
    tables(session, False)
    keyspace(session, "cut", True)
    agree([node.connect() for node in nodes])
    down(nodes, 2)
    for k in range(100):
        session.execute(at("QUORUM", f"INSERT INTO ks.t (k, v) VALUES ({k}, 1)"))
        session.execute(at("QUORUM", f"INSERT INTO cut.t (k, v) VALUES ({k}, 1)"))
    back(nodes, 2)
    path = "/storage_service/rebuild"
    assert "'elsewhere'" in refused(nodes[2], path, source_dc="elsewhere")
    down(nodes, 1)
    failed = nodetool(nodes[2], "rebuild")
    assert failed.returncode != 0 and "is down" in failed.stderr, failed
    assert nodes[1].address in failed.stderr, failed
    # The one that is left has all.
    done = nodetool(nodes[2], "rebuild", "--force", "datacenter1")
    assert done.returncode == 0, done.stderr
    own = nodes[2].connect()
    for table in "ks.t", "cut.t":
        assert own.execute(at("ONE", f"SELECT count(*) FROM {table}")).one().count == 100
    assert "rebuild from data center datacenter1 ended: " in nodes[2].log.read_text()
    tasks = api(nodes[2], "/task_manager/list_module_tasks/node_ops")
    assert [task["state"] for task in tasks if task["type"] == "rebuild"] == ["failed", "done"]


def test_what_cannot_be_is_refused(nodes):
    session = nodes[0].connect()
    tables(session, False)
    agree([node.connect() for node in nodes])
    path = "/storage_service/repair_async/ks"
    assert "incremental" in refused(nodes[0], path, incremental="true")
    assert "trace" in refused(nodes[0], path, trace="true")
    assert "parallelism" in refused(nodes[0], path, parallelism="dc_parallel")
    assert "different" in refused(nodes[0], path, startToken=1, endToken=1)
    assert "Unknown data center" in refused(nodes[0], path, dataCenters="elsewhere")
    assert "current host" in refused(nodes[0], path, hosts=nodes[1].address)
    assert "at least two" in refused(nodes[0], path, hosts=nodes[0].address)
    assert "is no node" in refused(nodes[0], path, hosts="127.9.9.9")
    assert "primary range" in refused(nodes[0], path, primaryRange="true",
                                      dataCenters="datacenter1")
    assert "ranges_parallelism" in refused(nodes[0], path, ranges_parallelism=-1)
    assert "ignored" in refused(nodes[0], path, ignore_nodes=nodes[0].address)
    assert refused(nodes[0], path, unheard="of")
    for wanted in (dict(ranges="1:5,-9:-3"), dict(startToken=1, endToken=5), dict(jobThreads=3),
                   dict(dataCenters="datacenter1"), dict(ranges_parallelism=1),
                   dict(parallelism=0), dict(columnFamilies="t,r")):
        number = api(nodes[0], path, "POST", **wanted)
        assert api(nodes[0], "/storage_service/repair_status", id=number) == "SUCCESSFUL", wanted
    assert api(nodes[0], "/storage_service/active_repair") == []


def test_what_was_missed_comes_without_a_word(nodes):
    """No hints, no reads, and nobody asks for a repair."""
    session = nodes[0].connect()
    tables(session, False)
    keyspace(session, "cut", True)
    agree([node.connect() for node in nodes])
    down(nodes, 2)
    for k in range(100):
        session.execute(at("QUORUM", f"INSERT INTO ks.t (k, v) VALUES ({k}, 1)"))
        session.execute(at("QUORUM", f"INSERT INTO cut.t (k, v) VALUES ({k}, 1)"))
    back(nodes, 2)
    own = nodes[2].connect()

    def found(table):
        return own.execute(at("ONE", f"SELECT count(*) FROM {table}")).one().count

    assert found("ks.t") == found("cut.t") == 0
    for node in nodes:
        node.connect().execute("UPDATE system.config SET value = '5' WHERE name = "
                               "'auto_repair_threshold_default_in_seconds'")
    until(lambda: found("ks.t") == found("cut.t") == 100, seconds=60)
    logs = "".join(node.log.read_text() for node in nodes)
    until(lambda: re.search(r"ks\.t: \d+ ranges were repaired by themselves",
                            "".join(node.log.read_text() for node in nodes)))
    assert "repair of ks" not in logs


def test_tablets_tell_when_they_were_repaired(nodes):
    session = nodes[0].connect()
    tables(session, True)
    agree([node.connect() for node in nodes])

    def times(node):
        rows = node.connect().execute("SELECT table_name, last_token, repair_time FROM "
                                      "system.tablets WHERE keyspace_name = 'ks' ALLOW FILTERING")
        return {(row.table_name, row.last_token): row.repair_time for row in rows}

    before = times(nodes[0])
    assert before and not any(before.values())
    # Where nothing is said, deletions are forgotten by these repairs.
    described = session.execute("DESCRIBE TABLE ks.t").one().create_statement
    assert "tombstone_gc = {'mode': 'repair'" in described
    repair(nodes[1], True, "ks", "t")
    after = times(nodes[1])
    assert before.keys() == after.keys()
    first = {key: at for key, at in after.items() if at}
    assert first.keys() == {key for key in before if key[0] == "t"}
    # What was there when the repair began: a minute later the same would still be said.
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    assert all(now - datetime.timedelta(seconds=60) < at <= now for at in first.values()), first
    # Others hear of it, and know it when they start again.
    until(lambda: times(nodes[0]) == times(nodes[2]) == after)
    # Without one of the replicas nothing is said.
    repair(nodes[0], True, "-hosts", f"{nodes[0].address},{nodes[1].address}", "ks", "r")
    for node in (0, 1, 2):
        down(nodes, node)
        back(nodes, node)
    assert times(nodes[0]) == times(nodes[1]) == times(nodes[2]) == after
