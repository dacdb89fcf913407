"""What a node misses while it is away, it is sent when it is back, before anybody reads it."""
import json
import subprocess
import urllib.parse
import urllib.request

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from node import NEREID
from trio import Nodes, keyspace, until


@pytest.fixture(name="nodes")
def three_nodes():
    with Nodes(3, "--hinted-handoff-throttle-in-kb", "0") as nodes:
        yield nodes


def at(level, text):
    return SimpleStatement(text, consistency_level=getattr(ConsistencyLevel, level))


def write(session, keys, value):
    for key in keys:
        session.execute(at("QUORUM", f"INSERT INTO ks.t (k, v) VALUES ({key}, {value})"))


def count(session, keys, value):
    """How many of the keys the session's own node has with that value: it is the nearest."""
    rows = [session.execute(at("ONE", f"SELECT v FROM ks.t WHERE k = {key}")).one() for key in keys]
    return sum(row is not None and row.v == value for row in rows)


def api(node, path, method="GET", **parameters):
    url = f"http://{node.address}:10000{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60) as answer:
        body = answer.read()
    return json.loads(body) if body else None


def nodetool(node, *arguments):
    command = [NEREID, "nodetool", "-h", node.address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def host_id(node):
    return api(node, "/storage_service/hostid/local")


def down(nodes, node):
    """Kills a node, and waits until the first one knows."""
    nodes[node].kill()
    address = nodes[node].address
    until(lambda: address in api(nodes[0], "/gossiper/endpoint/down"))


@pytest.mark.parametrize("tablets", [True, False])
def test_a_node_that_was_away_is_sent_what_it_missed(nodes, tablets):
    session = nodes[0].connect()
    keyspace(session, "ks", tablets)
    write(session, range(20), 1)
    gone = host_id(nodes[2])
    down(nodes, 2)
    # A node that is busy may have been sent hints of the first writes, too.
    before = api(nodes[0], "/storage_proxy/total_hints")
    write(session, range(50), 2)
    until(lambda: api(nodes[0], "/hinted_handoff/hints") == [gone])
    point = api(nodes[0], "/hinted_handoff/sync_point", "POST")
    assert api(nodes[0], "/hinted_handoff/sync_point", id=point) == "IN_PROGRESS"
    assert api(nodes[0], "/storage_proxy/total_hints") == before + 50
    # Who has the hints dies, and comes back.
    nodes[0].kill()
    nodes[0].start()
    nodes[2].start()
    nodes.wait_for_peers()
    assert api(nodes[0], "/hinted_handoff/sync_point", id=point, timeout=60) == "DONE"
    assert count(nodes[2].connect(), range(50), 2) == 50
    until(lambda: "does not have any" in nodetool(nodes[0], "listpendinghints"))


def test_operators_turn_hints_on_and_off(nodes):
    session = nodes[0].connect()
    keyspace(session, "ks", True)
    gone = host_id(nodes[2])
    assert nodetool(nodes[0], "statushandoff") == "Hinted handoff is running\n"
    nodetool(nodes[0], "disablehandoff")
    assert nodetool(nodes[0], "statushandoff") == "Hinted handoff is not running\n"
    down(nodes, 2)
    write(session, range(10), 1)
    nodetool(nodes[0], "enablehandoff")
    nodetool(nodes[0], "pausehandoff")
    write(session, range(10, 20), 1)
    nodes[2].start()
    nodes.wait_for_peers()
    there = nodes[2].connect()
    assert count(there, range(20), 1) == 0
    assert nodetool(nodes[0], "listpendinghints") == gone + "\n"
    nodetool(nodes[0], "resumehandoff")
    until(lambda: count(there, range(10, 20), 1) == 10)
    assert count(there, range(10), 1) == 0
    down(nodes, 2)
    session = nodes[0].connect()
    write(session, range(20, 30), 1)
    nodetool(nodes[0], "truncatehints", gone)
    until(lambda: "does not have any" in nodetool(nodes[0], "listpendinghints"))
    nodetool(nodes[0], "setmaxhintwindow", "0")
    assert nodetool(nodes[0], "getmaxhintwindow") == "Current max hint window: 0 ms\n"
    write(session, range(30, 40), 1)
    nodes[2].start()
    nodes.wait_for_peers()
    assert api(nodes[0], "/hinted_handoff/sync_point", id=api(
        nodes[0], "/hinted_handoff/sync_point", "POST"), timeout=30) == "DONE"
    assert count(nodes[2].connect(), range(20, 40), 1) == 0
    for centers, expected in ("datacenter1", ["datacenter1"]), ("true", []):
        api(nodes[0], "/storage_proxy/hinted_handoff_enabled_by_dc", "POST", dcs=centers)
        assert api(nodes[0], "/storage_proxy/hinted_handoff_enabled_by_dc") == expected
