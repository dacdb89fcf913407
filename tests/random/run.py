#!/usr/bin/env python3
"""Random statements against a node, compared with a naive model of CQL.

  run.py --seconds 3600               histories one after the other, for an hour
  run.py --seed 17 --count 1          that history alone; the same seed, the same statements
  run.py --seconds 600 --beside-cassandra     the same statements on Apache Cassandra 5.0 too

A history is a schema and some hundred statements in a keyspace of its own. One that fails is
shortened and printed as a script, with the seed that repeats it. NEREID names the server.
"""
import argparse
import collections
import functools
import os
import random
import re
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

# pylint: disable=wrong-import-position
from cassandra import AlreadyExists, DriverException, InvalidRequest
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import (ConfigurationException, ErrorMessage, ResultMessage,
                                SyntaxException, _ProtocolHandler)
from cassandra.query import (UNSET_VALUE, BatchStatement, BatchType, BoundStatement,
                             SimpleStatement)

import known
from generator import Generator
from model import UNSET, Applied, Model, Near, Refused, Rows
from node import Node
from shrink import shrink, simplify
from statements import Writer, flat, show_values

KINDS = {"logged": BatchType.LOGGED, "unlogged": BatchType.UNLOGGED, "counter": BatchType.COUNTER}
STATEMENTS = 160


class RawResult(ResultMessage):
    """Rows as the bytes of their values."""

    def recv_results_rows(self, f, protocol_version, user_type_map, result_metadata, *_):
        from cassandra.marshal import int32_unpack
        self.recv_results_metadata(f, user_type_map)
        metadata = self.column_metadata or result_metadata
        number = lambda: int32_unpack(f.read(4))
        rows = []
        for _ in range(number()):
            sizes = ((f.read(size) if 0 < size else b"") if 0 <= size else None
                     for size in (number() for _ in metadata))
            rows.append(tuple(sizes))
        self.column_names = [c[2] for c in metadata]
        self.column_types = [c[3] for c in metadata]
        self.parsed_rows = rows


class RawHandler(_ProtocolHandler):
    message_types_by_opcode = dict(_ProtocolHandler.message_types_by_opcode)
    message_types_by_opcode[ResultMessage.opcode] = RawResult


class Failure(Exception):
    """An answer that is not what it must be. `sort` tells one kind of failure from another."""

    def __init__(self, sort, told):
        super().__init__(told)
        self.sort = sort


class Skipped(Exception):
    """A refusal that is known: the statement did nothing. Its argument says whether another server
    has executed it already; then their data differ, and the history is at its end."""


class Target:
    """A server to ask, as Nereid is asked: by a session whose rows are bytes."""

    def __init__(self, node, name):
        self.node, self.name, self.session, self.prepared = node, name, None, {}
        self.extended = True
        self.connect()

    def connect(self):
        """`extended`: as a driver that asks for ScyllaDB's extensions of the protocol."""
        self.node.disconnect()
        connect = self.node.connect if self.extended else self.node.connect_unextended
        self.session = connect(schema_metadata_enabled=False, token_metadata_enabled=False)
        self.session.client_protocol_handler = RawHandler
        profile = self.session.cluster.profile_manager.default
        profile.row_factory = lambda names, rows: rows
        self.session.use_client_timestamp = False
        self.prepared = {}

    def be(self, extended):
        if self.extended != extended:
            self.extended = extended
            self.connect()

    def form(self):
        """Of answers to conditional batches."""
        return "scylla" if self.extended else "cassandra"

    def run(self, statement, **facts):
        return self.session.execute(statement, timeout=60, **facts)

    def drop(self, keyspace):
        try:
            self.run(f"DROP KEYSPACE {keyspace}")
        except NoHostAvailable as error:
            log = self.node.log.read_text(errors="replace")[-5000:]
            raise RuntimeError(f"{self.name} does not answer; its log ends so:\n{log}") from error

    def bind(self, text, values):
        """A bound statement whose values are bytes already."""
        if text not in self.prepared:
            self.prepared[text] = self.session.prepare(text)
            self.prepared[text].routing_key_indexes = None
        bound = BoundStatement(self.prepared[text])
        bound.values = [UNSET_VALUE if v is UNSET else v for v in values]
        return bound

    def statement(self, s, model, keyspace):
        writer = Writer(model.tables, keyspace, s["bound"])
        if s["kind"] == "batch" and s["form"] == "request":
            batch = BatchStatement(KINDS[s["type"]])
            for part in s["statements"]:
                writer.values = []
                text = writer.write(part)
                batch.add(self.bind(text, writer.values) if s["bound"] else SimpleStatement(text))
            return batch
        text = writer.write(s)
        return self.bind(text, writer.values) if s["bound"] else SimpleStatement(text)

    def ask(self, s, model, keyspace):
        """All rows of all pages, or the kind of the error."""
        try:
            statement = self.statement(s, model, keyspace)
            if s["kind"] != "select":
                found = self.run(statement)
                return list(found.column_names or ()), list(found.current_rows or ())
            statement.fetch_size = s.get("page")
            rows, state = [], None
            while True:
                found = self.run(statement, paging_state=state)
                page = found.current_rows
                if s.get("page") and s["page"] < len(page):
                    raise Failure("page", f"a page of {len(page)} rows")
                rows += page
                state = found.paging_state
                if not state:
                    return found.column_names, rows
        except SyntaxException as error:
            return "Syntax", error
        except AlreadyExists as error:
            return "Exists", error
        except (InvalidRequest, ConfigurationException) as error:
            return "Invalid", error
        except (DriverException, ErrorMessage, NoHostAvailable) as error:
            return type(error).__name__, error

    def act(self, action, keyspace):
        if action in ("kill", "restart"):
            if action == "kill":
                self.node.kill()
            else:
                self.node.stop(60)
            self.node.start()
            self.connect()
            return
        from server.rest import told
        told(self.node, "POST", f"/storage_service/keyspace_flush/{keyspace}")
        if action == "compact":
            told(self.node, "POST", f"/storage_service/keyspace_compaction/{keyspace}")


class Cassandra(Target):
    def be(self, extended):
        """It has none of the extensions."""

    def form(self):
        return "cassandra"

    def run(self, statement, **facts):
        return self.again(lambda: super(Cassandra, self).run(statement, **facts))

    def bind(self, text, values):
        return self.again(lambda: super(Cassandra, self).bind(text, values))

    def again(self, ask):
        """The driver takes a server that is slow for one that is down, and sends nothing."""
        try:
            return ask()
        except NoHostAvailable as error:
            if not all("shutdown" in str(one) for one in error.errors.values()):
                raise
            self.connect()
            return ask()

    def act(self, action, keyspace):
        """Merging by its tools takes a start of a virtual machine each: it keeps its memtables."""


def agrees(cell, wanted):
    if isinstance(wanted, Near):
        number = None if cell is None else int.from_bytes(cell, "big", signed=True)
        return number is not None and wanted.low <= number <= wanted.high
    return cell == wanted


def compare(s, expected, answer, form, any_row=False):
    """Raises Failure unless the answer is what the model says. `form`: of conditional batches.
    `any_row`: beside a static row the answer may have some row of its partition, as Cassandra's."""
    kind, told = answer
    if isinstance(expected, Refused):
        if kind != expected.kind:
            raise Failure("taken" if isinstance(kind, list) else f"error {kind}",
                          f"it must be refused ({expected}), but: {kind} {told}")
        return
    if not isinstance(kind, list):
        words = re.sub(r"[^a-z ]", "", str(told).rsplit("message=", 1)[-1])[:40]
        raise Failure(f"error {kind} {words}", f"{kind}: {told}")
    if isinstance(expected, Applied):
        compare_applied(expected, kind, told)
        if s["kind"] == "batch" and form == "cassandra":
            compare_existing(expected, kind, told)
        else:
            compare_before(expected, kind, told, any_row)
    if isinstance(expected, Rows):
        same = len(told) == len(expected.rows) and all(
            len(a) == len(b) and all(map(agrees, a, b)) for a, b in zip(told, expected.rows))
        if not same:
            raise Failure("rows", "expected:\n" + show(expected.rows) + "\nfound:\n" + show(told))


def compare_applied(expected, names, rows):
    applied = bool(rows) and rows[0][0] == b"\1"
    wrong = not rows or names[0] != "[applied]" or any(row[0] != rows[0][0] for row in rows)
    if wrong or applied != expected.applied:
        raise Failure("applied", f"[applied] is {applied}, expected {expected.applied}")


def compare_before(expected, names, rows, any_row):
    """Of each statement what it found."""
    before = [b for b in expected.before if b]
    if expected.applied or len(rows) != len(before):
        return
    for row, found in zip(rows, before):
        for name, cell in zip(names[1:], row[1:]):
            if any_row and name not in found:
                continue
            if cell is not None and cell != found.get(name):
                raise Failure("before", f"{name} was {found.get(name)}, but it says {cell}")


def compare_existing(expected, names, rows):
    """`[applied]` alone, or the rows that conditions are about."""
    columns, wanted = ([], []) if expected.applied else expected.existing
    if not wanted:
        columns, wanted = [], [()]
    found = [row[1:] for row in rows]
    if names[1:] != columns or found != wanted:
        raise Failure("existing", f"expected {columns}:\n{show(wanted)}\n"
                      f"found {names[1:]}:\n{show(found)}")


def show(rows):
    def text(cell):
        if cell is None or isinstance(cell, Near):
            return "null" if cell is None else repr(cell)
        return "0x" + cell.hex()
    return "\n".join("  " + " | ".join(map(text, row)) for row in rows) or "  none"


class History:
    """Statements over the user types of one schema; each run has a keyspace of its own."""

    numbers = iter(range(1, 10**9))

    def __init__(self, seed, count=STATEMENTS, mutate=None):
        generator = Generator(seed)
        self.seed, self.statements = seed, generator.history(count)
        self.types = generator.types
        self.extended = seed % 2 == 1
        self.mutate = mutate or (lambda s, answer: answer)

    def prologue(self, keyspace):
        yield (f"CREATE KEYSPACE {keyspace} WITH replication = "
               "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        for kind in self.types:
            inner = ", ".join(f"{f} {p.cql()}" for f, p in zip(kind.fields, kind.parts))
            yield f"CREATE TYPE {keyspace}.{kind.name} ({inner})"

    def run(self, targets, statements, counts=None):
        """The failure and the number of its statement, or None."""
        keyspace = f"r{next(self.numbers)}"
        for target in targets:
            target.be(self.extended)
            for text in self.prologue(keyspace):
                target.run(text)
        try:
            return self.run_in(targets, statements, keyspace, counts)
        finally:
            for target in targets:
                target.drop(keyspace)

    def run_in(self, targets, statements, keyspace, counts):
        model = Model()
        for number, s in enumerate(statements):
            if counts is not None:
                counts[s["kind"]] += 1
            if s["kind"] == "wait":
                time.sleep(2.2)
            if s["kind"] == "node":
                for target in targets:
                    target.act(s["action"], keyspace)
            try:
                self.step(targets, model, s, keyspace)
            except Failure as failure:
                return failure, number
            except Skipped as skipped:
                if skipped.args[0]:
                    return None
        return None

    def step(self, targets, model, s, keyspace):
        answers = []
        for target in targets if s["kind"] not in ("wait", "node") else ():
            answer = target.ask(s, model, keyspace)
            if known.is_refusal(target.name, answer):
                raise Skipped(bool(answers))
            answers.append(answer)
        try:
            expected = model.apply(s)
        except Refused as refused:
            expected = refused
        for target, answer in zip(targets, answers):
            if isinstance(expected, Refused) and known.is_answer(target.name, expected, answer):
                continue
            try:
                compare(s, expected, self.mutate(s, answer), target.form(),
                        isinstance(target, Cassandra))
            except Failure as failure:
                raise Failure(f"{target.name}: {failure.sort}",
                              f"{target.name}: {failure}") from failure

    def shorten(self, targets, found, seconds=120):
        """The least statements that fail in the same way."""
        failure, number = found
        deadline = time.monotonic() + seconds
        left = lambda: deadline - time.monotonic()

        def fails(statements):
            again = self.run(targets, statements)
            return again is not None and again[0].sort == failure.sort
        statements = self.statements[:number + 1]
        if not fails(statements):
            return statements, False
        return simplify(shrink(statements, fails, left), fails, left), True

    def script(self, statements):
        model, lines = Model(), [text + ";" for text in self.prologue("ks")]
        for s in statements:
            if s["kind"] in ("node", "wait"):
                lines.append(f"-- {s.get('action', 'wait for 2 s')}")
                continue
            parts = flat(s) if s.get("form") == "request" else [s]
            if s.get("form") == "request":
                lines.append(f"-- one BATCH request, {s['type']}:")
            for part in parts:
                writer = Writer(model.tables, "ks", s["bound"])
                text = writer.write(part) + ";"
                lines.append(text + (f"  -- {show_values(writer.values)}" if writer.values else "")
                             + (f"  -- pages of {s['page']}" if s.get("page") else ""))
            try:
                model.apply(s)
            except Refused:
                pass
        return "\n".join(lines)


def report(history, targets, found, say):
    failure, _ = found
    statements, again = history.shorten(targets, found)
    last = history.run(targets, statements) if again else None
    say(f"\nFAILED: seed {history.seed} ({len(statements)} statements"
        + ("" if again else "; it did not fail a second time") + ")\n")
    say(history.script(statements))
    say(f"\n{last[0] if last else failure}\n")
    say(f"again: tests/random/run.py --seed {history.seed} --count 1")


def seeds(first, count):
    """`first` alone names one history; those that follow are drawn from it."""
    yield first
    dice = random.Random(first)
    number = 1
    while count is None or number < count:
        yield dice.randrange(1, 2**32)
        number += 1


def session(arguments, targets, say=functools.partial(print, flush=True)):
    """Runs histories until the time is over; the numbers of failures and of statements."""
    started, counts, failures, done = time.monotonic(), collections.Counter(), 0, 0
    for seed in seeds(arguments.seed, arguments.count):
        if arguments.seconds and arguments.seconds < time.monotonic() - started:
            break
        history = History(seed, arguments.statements)
        found = history.run(targets, history.statements, counts)
        done += 1
        if found:
            failures += 1
            report(history, targets, found, say)
            if arguments.failures <= failures:
                break
    say(f"{done} histories, {sum(counts.values())} statements in "
        f"{time.monotonic() - started:.0f} s: " + ", ".join(
            f"{k} {n}" for k, n in counts.most_common()))
    return failures, counts


def start_node():
    node = Node("--commitlog-sync", "batch", "--smp", "2", "-m", "512M")
    return node


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long; 60 unless --count is given")
    parser.add_argument("--seed", type=int, default=None, help="the first history")
    parser.add_argument("--count", type=int, help="so many histories")
    parser.add_argument("--statements", type=int, default=STATEMENTS, help="of a history")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--beside-cassandra", action="store_true")
    found = parser.parse_args(words)
    if found.seed is None:
        found.seed = int(os.environ.get("NEREID_RANDOM_SEED", "0")) or random.randrange(1, 2**32)
    if found.seconds is None and found.count is None:
        found.seconds = 60
    return found


def main():
    arguments = parse()
    print(f"the first seed is {arguments.seed}", flush=True)
    with start_node() as node:
        targets = [Target(node, "nereid")]
        if not arguments.beside_cassandra:
            failures, _ = session(arguments, targets)
            return int(0 < failures)
        from cassandra_node import CassandraNode
        with CassandraNode() as peer:
            failures, _ = session(arguments, [Cassandra(peer, "cassandra")] + targets)
        return int(0 < failures)


if __name__ == "__main__":
    sys.exit(main())
