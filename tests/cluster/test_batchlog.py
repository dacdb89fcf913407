"""Logged batches are whole although the node that coordinates them dies for ever."""
import collections
import json
import subprocess
import threading
import urllib.request

import pytest
from cassandra import ConsistencyLevel, OperationTimedOut, Unavailable, WriteFailure, WriteTimeout
from cassandra.cluster import NoHostAvailable
from cassandra.query import BatchStatement, SimpleStatement
from node import NEREID
from trio import Nodes, keyspace, until

# Batches of a group write the same keys, and each a later value.
GROUP = 5
UNCERTAIN = OperationTimedOut, WriteFailure, WriteTimeout, NoHostAvailable


@pytest.fixture(name="nodes")
def three_nodes():
    with Nodes(3, "--batchlog-replay-throttle-in-kb", "0") as nodes:
        yield nodes


def metric(node, name):
    with urllib.request.urlopen(f"http://{node.address}:9180/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("scylla_" + name)]
    assert values, name
    return sum(values)


def replay(node):
    done = subprocess.run([NEREID, "nodetool", "-h", node.address, "replaybatchlog"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def kept(node):
    return metric(node, "batchlog_manager_batches")


class Batches:
    """A client of one node: each batch sets all keys of a group, at a time of its own."""

    def __init__(self, node, level):
        self.session = node.connect()
        self.insert = self.session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)")
        self.level = level
        self.begun, self.acknowledged = collections.defaultdict(set), {}
        self.wrong, self.number = [], 0
        self.stops = threading.Event()

    def write(self, group, value):
        batch = BatchStatement(consistency_level=self.level)
        for key in range(GROUP * group, GROUP * (group + 1)):
            batch.add(self.insert, (key, value))
        self.begun[group].add(value)
        try:
            self.session.execute(batch, timeout=10)
            self.acknowledged[group] = value
        except Unavailable:
            self.begun[group].remove(value)
        except UNCERTAIN:
            pass

    def work(self, first):
        """Groups from `first` on, each written twice by nobody else."""
        group = first
        while not self.stops.is_set():
            for value in 1, 2:
                try:
                    self.write(group, value)
                except Exception as error:  # pylint: disable=broad-except
                    self.wrong.append(f"{type(error).__name__}: {error}")
                    return
                self.number += 1
            group += 1


def check(session, client):
    """All of a group is of one batch, no earlier one than was acknowledged."""
    whole = 0
    for group, begun in client.begun.items():
        keys = ", ".join(str(key) for key in range(GROUP * group, GROUP * (group + 1)))
        read = SimpleStatement(f"SELECT v FROM ks.t WHERE k IN ({keys})",
                               consistency_level=ConsistencyLevel.QUORUM)
        values = [row.v for row in session.execute(read)]
        if not values:
            assert group not in client.acknowledged, group
            continue
        assert len(values) == GROUP and len(set(values)) == 1, f"group {group}: {values}"
        assert values[0] in begun and values[0] >= client.acknowledged.get(group, 0), group
        whole += 1
    return whole


@pytest.mark.parametrize("tablets", [True, False])
def test_a_batch_is_whole_when_its_coordinator_never_comes_back(nodes, tablets):
    session = nodes[0].connect()
    keyspace(session, "ks", tablets)
    clients = [Batches(nodes[2], ConsistencyLevel.QUORUM) for _ in range(4)]
    threads = [threading.Thread(target=client.work, args=(10_000 * number,))
               for number, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: all(client.number > 50 for client in clients), 60)
    finally:
        # In the middle of some.
        nodes[2].kill()
        for client in clients:
            client.stops.set()
        for thread in threads:
            thread.join()
    for client in clients:
        # What a client is told of a node that is gone is no answer.
        assert not client.wrong, client.wrong[:3]
    address = nodes[2].address
    url = f"http://{nodes[0].address}:10000/gossiper/endpoint/down"
    until(lambda: address in json.load(urllib.request.urlopen(url, timeout=60)), 60)
    # Those that are kept are applied once their coordinator should have done so.
    received = [metric(node, "batchlog_manager_received") for node in (nodes[0], nodes[1])]
    assert all(count > 100 for count in received), received

    def forgotten():
        replay(nodes[0])
        replay(nodes[1])
        return kept(nodes[0]) == kept(nodes[1]) == 0

    until(forgotten, 90)
    for reader in nodes[0].connect(), nodes[1].connect():
        assert sum(check(reader, client) for client in clients) > 100


def test_who_keeps_batches_has_them_after_a_crash_too(nodes):
    session = nodes[0].connect()
    keyspace(session, "ks", True)
    client = Batches(nodes[2], ConsistencyLevel.QUORUM)
    thread = threading.Thread(target=client.work, args=(0,))
    thread.start()
    try:
        until(lambda: client.number > 50, 60)
    finally:
        nodes[2].kill()
        client.stops.set()
        thread.join()
    for node in nodes[0], nodes[1]:
        node.kill()
        node.start()
    # The replays that follow a start are enough.
    until(lambda: kept(nodes[0]) == kept(nodes[1]) == 0, 120)
    assert check(nodes[0].connect(), client) > 20
