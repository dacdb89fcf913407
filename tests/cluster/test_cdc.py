"""The log of a table tells of each acknowledged write once, though nodes are killed meanwhile."""
import itertools
import threading
import time
from collections import Counter

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, Timeout, Unavailable, WriteFailure
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from trio import Nodes, until, wait_for_driver

TOLERATED = (OperationTimedOut, Timeout, Unavailable, WriteFailure, NoHostAvailable,
             ConnectionException)


@pytest.fixture(name="nodes", scope="module")
def three_nodes():
    with Nodes(3, "--hinted-handoff-throttle-in-kb", "0", "--smp", "2", in_racks=True) as nodes:
        yield nodes


def table(session, name, tablets):
    session.execute(
        f"CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy', "
        f"'replication_factor': 3}} AND tablets = {{'enabled': {str(tablets).lower()}}}")
    session.execute(f"CREATE TABLE {name}.t (k int, c int, v int, PRIMARY KEY (k, c)) "
                    "WITH cdc = {'enabled': true, 'preimage': true}")


class Writers:
    """Clients each of whose writes has a value of its own."""

    def __init__(self, session, name):
        self.session, self.wrong, self.stops = session, [], threading.Event()
        self.next, self.acknowledged, self.doubtful = itertools.count(1), set(), set()
        self.insert = session.prepare(f"INSERT INTO {name}.t (k, c, v) VALUES (?, ?, ?)")
        self.insert.consistency_level = ConsistencyLevel.QUORUM
        self.once = session.prepare(f"INSERT INTO {name}.t (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS")
        self.threads = [threading.Thread(target=self.work) for _ in range(4)]

    def work(self):
        while not self.stops.is_set():
            values = [next(self.next) for _ in range(2)]
            rows = [(value % 20, value, value) for value in values]
            kind = values[0] % 4
            if kind == 0:
                statement = BatchStatement(BatchType.LOGGED,
                                           consistency_level=ConsistencyLevel.QUORUM)
                for row in rows:
                    statement.add(self.insert, row)
            else:
                values = values[:1]
                statement = (self.once if kind == 1 else self.insert).bind(rows[0])
            try:
                self.session.execute(statement)
                self.acknowledged.update(values)
            except TOLERATED:
                self.doubtful.update(values)
            except Exception as error:  # pylint: disable=broad-except
                self.wrong.append(f"{type(error).__name__}: {error}")

    def go_on(self, writes):
        enough = len(self.acknowledged) + writes
        until(lambda: self.wrong or enough <= len(self.acknowledged), 120)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stops.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong[:5]


def values(session, text):
    statement = SimpleStatement(text, consistency_level=ConsistencyLevel.ALL, fetch_size=500)
    return [row[0] for row in session.execute(statement) if row[0] is not None]


def differs(session, name, writers):
    """What log, table and clients do not say alike."""
    told = Counter(values(session, f"SELECT v FROM {name}.t_scylla_cdc_log"))
    there = set(values(session, f"SELECT v FROM {name}.t"))
    return {kind: found for kind, found in {
        "told twice": [value for value, times in told.items() if 1 < times],
        "not told": sorted(writers.acknowledged - set(told)),
        "there and not told": sorted(there - set(told)),
        "told and not there": sorted(set(told) - there),
    }.items() if found}


def wait_until_agreed(session, name, writers):
    """Hints are sent within seconds."""
    deadline = time.monotonic() + 60
    while (found := differs(session, name, writers)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not found


@pytest.mark.parametrize("tablets", [True, False])
def test_a_log_tells_of_each_write_once_after_nodes_were_killed(nodes, tablets):
    name = f"cdc_{tablets}".lower()
    # What a driver sends again is another write, of which the log tells too.
    session = nodes.connect(retries=False)
    table(nodes[0].connect(), name, tablets)
    with Writers(session, name) as writers:
        for node in nodes:
            writers.go_on(300)
            node.kill()
            writers.go_on(300)
            node.start()
            wait_for_driver(session)
        writers.go_on(300)
    wait_until_agreed(session, name, writers)
