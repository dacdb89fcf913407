"""What is derived from a table says what the table says, though nodes are killed while it is written."""
import random
import threading

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, Timeout, Unavailable, WriteFailure
from cassandra.cluster import NoHostAvailable
from cassandra.query import SimpleStatement
from trio import Nodes, until, wait_for_driver

TOLERATED = (OperationTimedOut, Timeout, Unavailable, WriteFailure, NoHostAvailable)
VALUES = 12


@pytest.fixture(name="nodes", scope="module")
def three_nodes():
    """On three racks, as views of tables with tablets want it."""
    with Nodes(3, "--hinted-handoff-throttle-in-kb", "0", "--smp", "2", in_racks=True) as nodes:
        yield nodes


def tables(session, name, tablets):
    """A table of rows with a value, a view by the value, and an index on it."""
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', "
        f"'replication_factor': 3}} AND tablets = {{'enabled': {str(tablets).lower()}}}")
    session.execute(f"CREATE TABLE {name}.t (k int, c int, v int, w text, PRIMARY KEY (k, c))")
    session.execute(
        f"CREATE MATERIALIZED VIEW {name}.by_v AS SELECT k, c, v, w FROM {name}.t WHERE v IS NOT NULL "
        "AND k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (v, k, c)")
    session.execute(f"CREATE INDEX t_v ON {name}.t (v)")


class Writers:
    """Clients that write, overwrite and delete rows at random, all of them the same ones."""

    def __init__(self, session, name):
        self.session, self.wrong, self.stops, self.count = session, [], threading.Event(), 0
        self.texts = [session.prepare(text.format(f"{name}.t")) for text in (
            "INSERT INTO {} (k, c, v, w) VALUES (?, ?, ?, ?)",
            "UPDATE {} SET v = ? WHERE k = ? AND c = ?",
            "UPDATE {} SET w = ? WHERE k = ? AND c = ?",
            "DELETE v FROM {} WHERE k = ? AND c = ?",
            "DELETE FROM {} WHERE k = ? AND c = ?",
            "DELETE FROM {} WHERE k = ?")]
        self.threads = [threading.Thread(target=self.work, args=(seed,)) for seed in range(4)]

    def work(self, seed):
        chance = random.Random(seed)
        while not self.stops.is_set():
            row = chance.randrange(10), chance.randrange(5)
            value, text = chance.randrange(VALUES), str(chance.random())
            kind, values = chance.choices(list(enumerate([
                (*row, value, text), (value, *row), (text, *row), row, row, row[:1]])),
                [8, 8, 4, 2, 2, 1])[0]
            try:
                self.session.execute(self.texts[kind], values)
                self.count += 1
            except TOLERATED:
                pass
            except Exception as error:  # pylint: disable=broad-except
                self.wrong.append(f"{type(error).__name__}: {error}")

    def go_on(self, writes):
        until(lambda enough=self.count + writes: self.wrong or enough <= self.count, 120)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stops.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong[:5]


def rows(session, text):
    """Those with a value, at ALL."""
    statement = SimpleStatement(text, consistency_level=ConsistencyLevel.ALL, fetch_size=7)
    found = (tuple(row) for row in session.execute(statement))
    return sorted((row for row in found if row[0] is not None), key=str)


def differ(session, name):
    """What view and index do not say as the table does."""
    base = rows(session, f"SELECT v, k, c, w FROM {name}.t")
    view = rows(session, f"SELECT v, k, c, w FROM {name}.by_v")
    wrong = {"view": set(base) ^ set(view)} if base != view else {}
    for value in range(VALUES):
        found = rows(session, f"SELECT v, k, c, w FROM {name}.t WHERE v = {value}")
        if found != [row for row in base if row[0] == value]:
            wrong[value] = found
    return wrong


@pytest.mark.parametrize("tablets", [True, False])
def test_views_and_indexes_agree_with_their_table_after_nodes_were_killed(nodes, tablets):
    name = f"views_{tablets}".lower()
    session = nodes.connect()
    tables(nodes[0].connect(), name, tablets)
    with Writers(session, name) as writers:
        for node in nodes:
            writers.go_on(300)
            node.kill()
            writers.go_on(300)
            node.start()
            wait_for_driver(session)
        writers.go_on(300)
    assert rows(session, f"SELECT v, k, c, w FROM {name}.by_v")
    until(lambda: not differ(session, name), 60)
