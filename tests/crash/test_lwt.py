"""Conditional writes and counters of clients that the server is killed under, again and again: the
conditional ones must be linearizable over all restarts, increments neither lost nor counted twice.

NEREID_CRASH_SEED replays the choices of a failed run; NEREID_LWT_ROUNDS changes their number.
"""
import os
import random
import threading
import time

import pytest
from cassandra import ConsistencyLevel

from linear import CAS, READ, WRITE, Operation, is_linearizable
from node import Node

ROUNDS = int(os.environ.get("NEREID_LWT_ROUNDS", "20"))
SEED = int(os.environ.get("NEREID_CRASH_SEED", "0")) or random.randrange(1, 2**32)
CLIENTS = 8
KEYS = 6


class Client:
    """What one client does in one round, and what it was answered."""

    def __init__(self, session, number, seed, fresh):
        self.dice = random.Random(seed)
        self.fresh = fresh
        self.number = number
        self.history = []
        self.session = session
        self.read = session.prepare("SELECT v FROM lwt.t WHERE k = ?")
        self.read.consistency_level = ConsistencyLevel.SERIAL
        self.write = session.prepare("UPDATE lwt.t SET v = ? WHERE k = ? IF EXISTS")
        self.cas = session.prepare("UPDATE lwt.t SET v = ? WHERE k = ? IF v = ?")
        self.seen = {}

    def run(self, stop):
        while not stop.is_set():
            key = self.dice.randrange(KEYS)
            try:
                self.one(key)
            except Exception:  # pylint: disable=broad-except
                return

    def one(self, key):
        kind = self.dice.choice([READ, WRITE, CAS, CAS])
        value = next(self.fresh)
        arguments = {READ: (), WRITE: (value,), CAS: (self.seen.get(key, 0), value)}[kind]
        it = Operation(kind, arguments, time.monotonic())
        self.history.append((key, it))
        if kind == READ:
            row = self.session.execute(self.read, (key,)).one()
            found = (row.v,)
        elif kind == WRITE:
            row = self.session.execute(self.write, (value, key)).one()
            assert row.applied, row
            found = (row.v,)
        else:
            row = self.session.execute(self.cas, (value, key, arguments[0])).one()
            it.applied = row.applied
            found = (row.v,)
        # Set at last: what failed halfway has no answer.
        it.found = found
        it.returned = time.monotonic()
        self.seen[key] = value if kind != READ and it.applied is not False else found[0]


def fresh_values(client):
    value = client + CLIENTS
    while True:
        yield value
        value += CLIENTS


def run_round(clients, dice, node):
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(dice.uniform(0.1, 0.6))
    node.kill()
    stop.set()
    for thread in threads:
        thread.join(60)
    node.disconnect()


@pytest.mark.parametrize("mode", ["batch", "periodic"])
def test_conditional_writes_are_linearizable(mode):
    print(f"replay with NEREID_CRASH_SEED={SEED}")
    dice = random.Random(SEED)
    fresh = [fresh_values(number) for number in range(CLIENTS)]
    history = {key: [] for key in range(KEYS)}
    # Nothing but consensus itself syncs in the periodic mode while this runs.
    options = ("--commitlog-sync", mode, "--commitlog-sync-period-in-ms", "600000")
    with Node(*options) as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE lwt WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE lwt.t (k int PRIMARY KEY, v int)")
        for key in range(KEYS):
            session.execute(f"INSERT INTO lwt.t (k, v) VALUES ({key}, 0) IF NOT EXISTS")
        for number in range(ROUNDS if mode == "batch" else ROUNDS // 2):
            clients = [Client(session, it, dice.randrange(2**32), fresh[it])
                       for it in range(CLIENTS)]
            run_round(clients, dice, node)
            for client in clients:
                for key, it in client.history:
                    history[key].append(it)
            node.start()
            session = node.connect()
            # Also without consensus: what was acknowledged is there as soon as the node serves.
            called = time.monotonic()
            rows = {row.k: row.v for row in session.execute("SELECT k, v FROM lwt.t")}
            for key in range(KEYS):
                history[key].append(Operation(READ, (), called, time.monotonic(), (rows[key],)))
                assert is_linearizable(history[key], 0), f"round {number}, key {key}, seed {SEED}"
        answered = sum(it.returned is not None for it in sum(history.values(), []))
        assert answered > 5 * ROUNDS, "too few operations to tell anything"
        print(f"{sum(map(len, history.values()))} operations, {answered} of them answered")
        assert node.stop() == 0


def count(session, statement, counts, dice, stop):
    while not stop.is_set():
        key = dice.randrange(KEYS)
        counts[key][1] += 1
        try:
            session.execute(statement, (1, key))
        except Exception:  # pylint: disable=broad-except
            return
        counts[key][0] += 1


def test_increments_count_once():
    print(f"replay with NEREID_CRASH_SEED={SEED}")
    dice = random.Random(SEED)
    known = {key: 0 for key in range(KEYS)}
    with Node("--commitlog-sync", "batch") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE lwt WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE lwt.c (k int PRIMARY KEY, n counter)")
        for number in range(ROUNDS // 2):
            statement = session.prepare("UPDATE lwt.c SET n = n + ? WHERE k = ?")
            counts = [{key: [0, 0] for key in range(KEYS)} for _ in range(CLIENTS)]
            stop = threading.Event()
            threads = [threading.Thread(target=count, args=(
                session, statement, mine, random.Random(dice.randrange(2**32)), stop))
                       for mine in counts]
            for thread in threads:
                thread.start()
            time.sleep(dice.uniform(0.1, 0.4))
            node.kill()
            stop.set()
            for thread in threads:
                thread.join(60)
            node.disconnect()
            node.start()
            session = node.connect()
            rows = {row.k: row.n for row in session.execute("SELECT k, n FROM lwt.c")}
            for key in range(KEYS):
                least = known[key] + sum(mine[key][0] for mine in counts)
                most = known[key] + sum(mine[key][1] for mine in counts)
                found = rows.get(key, 0)
                assert least <= found <= most, f"round {number}, key {key}, seed {SEED}"
                known[key] = found
        assert sum(known.values()) > 5 * ROUNDS, "too few increments to tell anything"
        assert node.stop() == 0
