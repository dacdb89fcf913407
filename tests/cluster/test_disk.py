"""The disk of one node is full: the others serve on, and it catches up when there is room again."""
import os
import threading

import pytest
from cassandra import ConsistencyLevel
from cassandra.query import SimpleStatement
from small_disk import Unavailable, put_on, small_disk
from trio import Nodes, agree, keyspace, registers, until

FULL = "writes of clients are refused"
ROOM = "writes are accepted"


@pytest.fixture(name="nodes")
def three_nodes(tmp_path):
    """The first has 64 MiB."""
    nodes = Nodes(3, "--commitlog-segment-size-in-mb", "4", "--auto-snapshot", "false")
    try:
        with small_disk(tmp_path, 64) as inside:
            put_on(nodes[0], inside, tmp_path)
            with nodes:
                yield nodes
    except Unavailable as reason:
        pytest.skip(str(reason))


def fill(session, stops):
    """Writes rows of 50 kB at QUORUM until it is stopped: how many, and what failed."""
    insert = session.prepare("INSERT INTO ks.large (k, v) VALUES (?, ?)")
    count, wrong = 0, []
    while not stops.is_set() and count < 20_000:
        try:
            session.execute(insert, (count, os.urandom(50_000)))
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"{count}: {type(error).__name__}: {error}")
        count += 1
    return count, wrong


@pytest.mark.parametrize("tablets", [True, False])
def test_a_node_whose_disk_is_full_holds_nobody_up(nodes, tablets):
    session = nodes.connect()
    keyspace(session, "ks", tablets)
    session.execute("CREATE TABLE ks.large (k int PRIMARY KEY, v blob)")
    sessions = [node.connect() for node in nodes]
    agree(sessions)
    stops, filled = threading.Event(), []
    filling = threading.Thread(target=lambda: filled.append(fill(session, stops)))
    with registers(session, "ks.t", threads=2) as load:
        filling.start()
        try:
            nodes[0].wait_for_log(FULL, seconds=120)
            # Each client goes on, whichever node it asks; so does what changes the schema.
            load.goes_on(60)
            sessions[1].execute("CREATE TABLE ks.later (k int PRIMARY KEY)")
            agree(sessions)
            load.goes_on(30)
        finally:
            stops.set()
            filling.join()
        (count, wrong), = filled
        assert not wrong, wrong[:5]
        for k in 0, count // 2, count - 1:
            for one in sessions:
                assert one.execute(SimpleStatement(
                    "SELECT k FROM ks.large WHERE k = %s",
                    consistency_level=ConsistencyLevel.QUORUM), (k,)).one() == (k,)
        # Nobody takes it for dead.
        ups = [row.up for row in sessions[1].execute("SELECT up FROM system.cluster_status")]
        assert ups == [True] * 3

        offset = len(nodes[0].log.read_text())
        sessions[1].execute("DROP TABLE ks.large")
        nodes[0].wait_for_log(ROOM, offset=offset, seconds=60)
        load.goes_on(30)
    # What it has missed comes by hints.
    keys = list(load.acknowledged)

    def has_all():
        rows = (sessions[0].execute(SimpleStatement(
            "SELECT v FROM ks.t WHERE k = %s", consistency_level=ConsistencyLevel.ONE), (key,)).one()
            for key in keys)
        return all(load.may_be(key, row) for key, row in zip(keys, rows))

    until(has_all, 60)
    assert all(node.is_running() for node in nodes)
    assert not any("panicked" in node.log.read_text() for node in nodes)
