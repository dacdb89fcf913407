"""A process is killed under load and started again; what it acknowledged must be there, what was
deleted must stay away, and it must start.

NEREID_CRASH_SEED replays the choices of a failed run; NEREID_CRASH_ROUNDS changes their number.
"""
import os
import random
import threading
import time

from node import Node

ROUNDS = int(os.environ.get("NEREID_CRASH_ROUNDS", "100"))
SEED = int(os.environ.get("NEREID_CRASH_SEED", "0")) or random.randrange(1, 2**32)


class Expected:
    """What the table may hold, key by key: the last acknowledged version and those under way."""

    def __init__(self):
        self.acknowledged = {}
        self.pending = {}

    def begin(self, key, value):
        self.pending.setdefault(key, []).append(value)

    def done(self, key, value):
        self.acknowledged[key] = value
        self.pending[key] = []

    def check(self, rows):
        for key in set(self.acknowledged) | set(rows):
            got = rows.get(key)
            allowed = [self.acknowledged.get(key)] + self.pending.get(key, [])
            assert got in allowed, f"key {key}: {got!r}, but only {allowed!r} can be"
        for key, got in rows.items():
            self.done(key, got)
        for key in set(self.acknowledged) - set(rows):
            self.done(key, None)
        self.pending.clear()


def write(session, statements, expected, keys, seed, stop):
    """Writes and deletes its own keys, one after the other, until the server goes."""
    dice = random.Random(seed)
    insert, delete = statements
    while not stop.is_set():
        key = dice.choice(keys)
        value = None if dice.randrange(8) == 0 else dice.randrange(1 << 30)
        expected.begin(key, value)
        try:
            if value is None:
                session.execute(delete, (key,))
            else:
                session.execute(insert, (value, "x" * dice.randrange(400), key))
        except Exception:  # pylint: disable=broad-except
            return
        expected.done(key, value)


def one_round(node, expected, dice, workers=6):
    session = node.connect()
    statements = (session.prepare("UPDATE crash.t SET v = ?, pad = ? WHERE k = ?"),
                  session.prepare("DELETE FROM crash.t WHERE k = ?"))
    stop = threading.Event()
    threads = [threading.Thread(target=write, args=(session, statements, expected[worker],
                                                    range(worker * 50, worker * 50 + 50),
                                                    dice.randrange(2**32), stop))
               for worker in range(workers)]
    for thread in threads:
        thread.start()
    time.sleep(dice.uniform(0.02, 0.25))
    node.kill()
    stop.set()
    for thread in threads:
        thread.join(30)
    node.disconnect()


def test_what_is_acknowledged_survives_kill():
    print(f"replay with NEREID_CRASH_SEED={SEED}")
    dice = random.Random(SEED)
    expected = [Expected() for _ in range(6)]
    with Node("--commitlog-sync", "batch") as node:
        session = node.connect()
        session.execute("CREATE KEYSPACE crash WITH replication = "
                        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        session.execute("CREATE TABLE crash.t (k int PRIMARY KEY, v int, pad text)")
        node.disconnect()
        for number in range(ROUNDS):
            one_round(node, expected, dice)
            node.start()
            session = node.connect()
            rows = {row.k: row.v for row in session.execute("SELECT k, v FROM crash.t")}
            for worker, known in enumerate(expected):
                mine = range(worker * 50, worker * 50 + 50)
                try:
                    known.check({k: v for k, v in rows.items() if k in mine})
                except AssertionError as error:
                    raise AssertionError(f"round {number}, seed {SEED}: {error}") from error
            node.disconnect()
        assert node.stop() == 0
