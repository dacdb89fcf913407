"""Conditional writes and serial reads: one at a time, whichever node is asked, and while one is away."""
import threading

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, ReadTimeout, WriteTimeout
from cassandra.cluster import NoHostAvailable
from cassandra.query import SimpleStatement
from trio import Nodes, agree, keyspace, until, wait_for_driver


@pytest.fixture(name="nodes")
def three_nodes():
    with Nodes(3) as nodes:
        yield nodes


def serial(text):
    return SimpleStatement(text, consistency_level=ConsistencyLevel.SERIAL)


@pytest.mark.parametrize("tablets", [True, False])
def test_conditions_are_judged_on_what_all_nodes_wrote(nodes, tablets):
    sessions = [node.connect() for node in nodes]
    keyspace(sessions[0], "ks", tablets)
    sessions[0].execute("CREATE TABLE ks.r (p int, c int, s int static, v text, PRIMARY KEY (p, c))")
    agree(sessions)
    for key in range(9):
        first, second, third = (sessions[(key + turn) % 3] for turn in range(3))
        insert = f"INSERT INTO ks.t (k, v) VALUES ({key}, 1) IF NOT EXISTS"
        assert first.execute(insert).one().applied
        again = second.execute(insert).one()
        assert (again.applied, again.k, again.v) == (False, key, 1)
        assert third.execute(f"UPDATE ks.t SET v = 2 WHERE k = {key} IF v = 1").one().applied
        missed = first.execute(f"UPDATE ks.t SET v = 3 WHERE k = {key} IF v = 1").one()
        assert (missed.applied, missed.v) == (False, 2)
        for session in sessions:
            row = session.execute(serial(f"SELECT v FROM ks.t WHERE k = {key}")).one()
            assert row.v == 2
        assert second.execute(f"DELETE FROM ks.t WHERE k = {key} IF EXISTS").one().applied
        assert third.execute(serial(f"SELECT v FROM ks.t WHERE k = {key}")).one() is None
        batch = (f"BEGIN BATCH UPDATE ks.r SET s = 1 WHERE p = {key} IF s = null; "
                 f"INSERT INTO ks.r (p, c, v) VALUES ({key}, 1, 'a'); "
                 f"INSERT INTO ks.r (p, c, v) VALUES ({key}, 2, 'b'); APPLY BATCH")
        assert first.execute(batch).one().applied
        assert not third.execute(batch).one().applied
        rows = second.execute(serial(f"SELECT c, s, v FROM ks.r WHERE p = {key}"))
        assert [tuple(row) for row in rows] == [(1, 1, "a"), (2, 1, "b")]
    with pytest.raises(Exception, match="one partition at a time"):
        sessions[1].execute(serial("SELECT * FROM ks.t"))
    with pytest.raises(Exception, match="unmentioned|Undefined|Unrecognized|nknown"):
        sessions[2].execute("UPDATE ks.t SET v = 2 WHERE k = 1 IF nothing = 1")


def add(session, statements, failures):
    """Adds one to a counter of int, for sure, maybe, or not at all."""
    read, write = statements
    while True:
        try:
            found = session.execute(read).one().v
            if session.execute(write, (found + 1, found)).one().applied:
                return True
        except (WriteTimeout, ReadTimeout, OperationTimedOut, NoHostAvailable) as error:
            failures.append(error)
            if not isinstance(error, ReadTimeout):
                return False


@pytest.mark.parametrize("killed", [False, True])
def test_contended_additions_are_all_there(nodes, killed):
    session = nodes.connect()
    keyspace(session, "ks", True)
    session.execute("INSERT INTO ks.t (k, v) VALUES (1, 0) IF NOT EXISTS")
    read = session.prepare("SELECT v FROM ks.t WHERE k = 1")
    read.consistency_level = ConsistencyLevel.SERIAL
    statements = read, session.prepare("UPDATE ks.t SET v = ? WHERE k = 1 IF v = ?")
    added, failures, stops = [], [], threading.Event()

    def work():
        while not stops.is_set():
            added.append(add(session, statements, failures))

    clients = [threading.Thread(target=work) for _ in range(16)]
    for client in clients:
        client.start()
    try:
        for node in nodes if killed else ():
            goal = len(added) + 30
            until(lambda g=goal: len(added) >= g, 60)
            node.kill()
            goal = len(added) + 30
            until(lambda g=goal: len(added) >= g, 60)
            node.start()
            wait_for_driver(session)
        goal = len(added) + 100
        until(lambda: len(added) >= goal, 60)
    finally:
        stops.set()
        for client in clients:
            client.join()
    sure = sum(added)
    assert sure <= session.execute(read).one().v <= len(added)
    assert killed or not failures, failures[:3]
