"""Clients that write down what they saw, and who makes their nodes fail meanwhile.

`Registers`: conditional writes and serial reads of a few registers at a time, by all clients; the history
of each register is to be linearizable. `GrowingSet`: rows that are written at QUORUM and never deleted;
all that was acknowledged is to be there, in any later read at QUORUM. `Nemesis`: kills, freezes, restarts
and cuts off nodes, one fault after another.
"""
import collections
import dataclasses
import random
import signal
import threading
import time
import typing

from cassandra import (ConsistencyLevel, OperationTimedOut, ReadFailure, ReadTimeout, Unavailable,
                       WriteFailure, WriteTimeout)
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionException
from cassandra.protocol import OverloadedErrorMessage
from linear import CAS, READ, Operation, is_linearizable

# What happened nobody knows, or nothing did.
UNANSWERED = (OperationTimedOut, ReadFailure, ReadTimeout, Unavailable, WriteFailure, WriteTimeout,
              NoHostAvailable, ConnectionException,
              # Of a node that stops.
              OverloadedErrorMessage)
# All nodes may be killed at once: what is acknowledged is to be on the disk.
DURABLE = ("--commitlog-sync", "batch")


class Client:
    """Threads that go on until they are stopped, whatever fails as is expected."""

    def __init__(self):
        self.stops, self.wrong = threading.Event(), []
        self.answers, self.unanswered = 0, collections.Counter()
        self._threads, self._lock = [], threading.Lock()

    def start(self, threads, seed):
        for number in range(threads):
            thread = threading.Thread(target=self._work, args=(random.Random(f"{seed}{number}"),))
            self._threads.append(thread)
            thread.start()

    def end(self):
        self.stops.set()
        for thread in self._threads:
            thread.join()

    def _work(self, chance):
        while not self.stops.is_set():
            try:
                self.step(chance)
                with self._lock:
                    self.answers += 1
            except UNANSWERED as error:
                with self._lock:
                    self.unanswered[type(error).__name__] += 1
                time.sleep(0.05)
            except Exception as error:  # pylint: disable=broad-except
                self.wrong.append(f"{type(error).__name__}: {error}")
                return

    def step(self, chance):
        raise NotImplementedError


@dataclasses.dataclass
class Register:
    key: int
    value: typing.Optional[int] = None
    history: list = dataclasses.field(default_factory=list)


class Registers(Client):
    """`table` has `k int PRIMARY KEY, v int`; a register begins without a row, and
    without a value."""

    def __init__(self, session, table, at_once=3, length=60):
        super().__init__()
        self.session, self.length = session, length
        self._read = session.prepare(f"SELECT v FROM {table} WHERE k = ?")
        self._read.consistency_level = ConsistencyLevel.SERIAL
        self._change = session.prepare(f"UPDATE {table} SET v = ? WHERE k = ? IF v = ?")
        self._change.consistency_level = ConsistencyLevel.QUORUM
        self._change.serial_consistency_level = ConsistencyLevel.SERIAL
        self._next_key, self._next_value = at_once, 0
        self._open = [Register(key) for key in range(at_once)]
        self.registers = list(self._open)

    def _draw(self, chance):
        """A register, and a value that none had before."""
        with self._lock:
            at = chance.randrange(len(self._open))
            if self.length <= len(self._open[at].history):
                self._open[at] = Register(self._next_key)
                self.registers.append(self._open[at])
                self._next_key += 1
            self._next_value += 1
            return self._open[at], self._next_value

    def step(self, chance):
        register, new = self._draw(chance)
        reads = chance.random() < 0.3
        operation = (Operation(READ, (), time.monotonic()) if reads
                     else Operation(CAS, (register.value, new), time.monotonic()))
        with self._lock:
            register.history.append(operation)
        if reads:
            row = self.session.execute(self._read, (register.key,)).one()
        else:
            old, new = operation.arguments
            row = self.session.execute(self._change, (new, register.key, old)).one()
            operation.applied = row.applied
        found = getattr(row, "v", None)
        # Set at last: what failed halfway has no answer.
        operation.found, operation.returned = (found,), time.monotonic()
        register.value = new if operation.applied else found

    def check(self):
        """The histories that no register has."""
        self.wrong += [f"register {one.key}: {one.history}" for one in self.registers
                       if not is_linearizable(one.history)]
        return self.wrong


class GrowingSet(Client):
    """`table` has `k int, e int, PRIMARY KEY (k, e)`."""

    KEYS = 8

    def __init__(self, session, table):
        super().__init__()
        self.session = session
        self._write = session.prepare(f"INSERT INTO {table} (k, e) VALUES (?, ?)")
        self._read = session.prepare(f"SELECT e FROM {table} WHERE k = ?")
        self._next = 0
        self.acknowledged = collections.defaultdict(set)

    def step(self, chance):
        with self._lock:
            self._next += 1
            element = self._next
        key = element % self.KEYS
        if chance.random() < 0.02:
            self._look(key)
            return
        self.session.execute(self._write, (key, element))
        with self._lock:
            self.acknowledged[key].add(element)

    def _look(self, key):
        with self._lock:
            before = set(self.acknowledged[key])
        lost = before - {row.e for row in self.session.execute(self._read, (key,))}
        if lost:
            self.wrong.append(f"{len(lost)} of {len(before)} are not in {key}: {sorted(lost)[:5]}")

    def check(self):
        """What was acknowledged and is not there."""
        for key in range(self.KEYS):
            self._look(key)
        return self.wrong


@dataclasses.dataclass
class Fault:
    name: str
    begin: typing.Callable
    end: typing.Callable


class Nemesis(threading.Thread):
    """One fault after another, with pauses between them, until `stops`; then all is well again.
    `network` is what the nodes are in, or None: then no links are cut."""

    def __init__(self, nodes, seed, network=None, fault=(1.0, 8.0), pause=(1.0, 6.0)):
        super().__init__()
        self.nodes, self.network, self.chance = list(nodes), network, random.Random(seed)
        self.fault, self.pause = fault, pause
        self.stops, self.faults, self.error = threading.Event(), collections.Counter(), None

    def run(self):
        try:
            while not self.stops.wait(self.chance.uniform(*self.pause)):
                fault = self._draw()
                self.faults[fault.name] += 1
                fault.begin()
                try:
                    self.stops.wait(self.chance.uniform(*self.fault))
                finally:
                    fault.end()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def end(self):
        self.stops.set()
        self.join()
        if self.error:
            raise self.error

    def _draw(self):
        count = len(self.nodes)
        order = self.chance.sample(range(count), count)
        few = order[:self.chance.randint(1, (count - 1) // 2)]
        kinds = [self._killed("kill a minority", few), self._killed("kill all", order),
                 self._stopped(order[:1]), self._frozen("freeze a minority", few),
                 self._frozen("freeze all", order)]
        if self.network:
            pairs = [(order[0], order[1]), (order[1], order[0])]
            split = [(one, other) for one in few for other in order if other not in few]
            kinds += [self._cut("cut one way", pairs[:1]), self._cut("cut a pair", pairs),
                      self._cut("split", split + [pair[::-1] for pair in split]),
                      Fault("unplug", lambda: self.network.unplug(order[0]), self.network.heal)]
        return self.chance.choice(kinds)

    def _start(self, numbers):
        threads = [threading.Thread(target=self.nodes[at].start) for at in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(self.nodes[at].is_running() for at in numbers), "a node did not come back"

    def _killed(self, name, numbers):
        return Fault(name, lambda: [self.nodes[at].kill() for at in numbers],
                     lambda: self._start(numbers))

    def _stopped(self, numbers):
        return Fault("stop", lambda: [self.nodes[at].stop() for at in numbers],
                     lambda: self._start(numbers))

    def _frozen(self, name, numbers):
        def tell(what):
            return lambda: [self.nodes[at].process.send_signal(what) for at in numbers]
        return Fault(name, tell(signal.SIGSTOP), tell(signal.SIGCONT))

    def _cut(self, name, pairs):
        return Fault(name, lambda: [self.network.cut(*pair) for pair in pairs], self.network.heal)
