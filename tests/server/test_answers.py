"""Every answer is decoded to its last byte by a decoder that is not the server's: kinds of requests x
kinds of statements x versions of the protocol x flags, each of a table and many drawn at random.

A seed is printed with a failure; NEREID_SEED repeats it.
"""
import os
import random
import socket
import struct

import pytest
from cassandra.auth import PlainTextAuthProvider
from answers import GLOBAL_TABLE, METADATA_CHANGED, NO_METADATA, Answer, Broken, check, read_segment, segment
from node import Node
from wire import BATCH, EXECUTE, PREPARE, QUERY, frame, startup

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
DRAWS = int(os.environ.get("NEREID_DRAWS", "1500"))
# Bits of requests' parameters.
VALUES, SKIP, PAGE_SIZE, PAGING, SERIAL, TIMESTAMP, NAMES, KEYSPACE, NOW = (
    1, 2, 4, 8, 16, 32, 64, 128, 256)

SETUP = [
    f"CREATE KEYSPACE answers WITH replication = {SIMPLE}",
    "CREATE TYPE answers.pair (a int, b frozen<list<text>>)",
    "CREATE TABLE answers.t (p int, c int, d text, s text STATIC, v int, w text, l list<int>, "
    "m map<text, int>, u pair, n frozen<tuple<int, text>>, e vector<float, 2>, "
    "PRIMARY KEY (p, c, d))",
    "CREATE TABLE answers.k (p int PRIMARY KEY, v int, x double, y decimal, z duration)",
    "CREATE TABLE answers.n (p int PRIMARY KEY, c counter)",
    "CREATE ROLE IF NOT EXISTS someone",
]
FILL = [f"INSERT INTO answers.t (p, c, d, s, v, w, l, m, u, n, e) VALUES ({p}, {c}, 'd', 's{p}', {c}, "
        f"'w', [1, {c}], {{'a': {c}}}, {{a: {c}, b: ['x']}}, ({p}, 'y'), [1, 2])"
        for p in range(3) for c in range(6)]
FILL += [f"INSERT INTO answers.k (p, v, x, y, z) VALUES ({p}, {p}, 0.5, 1.25, 1mo2d)" for p in range(4)]
FILL += [f"UPDATE answers.n SET c = c + {p} WHERE p = {p}" for p in range(3)]

# Statements that change data, which may stand in batches: (text with markers, values).
INT, TEXT = (lambda number: struct.pack(">i", number)), (lambda text: text.encode())
ONE, TWO, DEE, NULL = INT(1), INT(2), TEXT("d"), None
T_KEY = "p = ? AND c = ? AND d = ?"
PLAIN = [
    ("INSERT INTO answers.t (p, c, d, v) VALUES (?, ?, ?, ?)", [ONE, TWO, DEE, TWO]),
    ("INSERT INTO answers.t JSON ?", [TEXT('{"p": 1, "c": 2, "d": "d", "l": [1]}')]),
    (f"UPDATE answers.t USING TTL 1000 SET w = ? WHERE {T_KEY}", [DEE, ONE, TWO, DEE]),
    (f"UPDATE answers.t SET l = l + [5], m['b'] = 2 WHERE {T_KEY}", [ONE, TWO, DEE]),
    (f"DELETE w, m['b'] FROM answers.t WHERE {T_KEY}", [ONE, TWO, DEE]),
    ("DELETE FROM answers.t WHERE p = ? AND c > ?", [ONE, INT(100)]),
    ("UPDATE answers.t SET s = ? WHERE p = ?", [DEE, ONE]),
]
CONDITIONAL = [
    ("INSERT INTO answers.t (p, c, d) VALUES (?, ?, ?) IF NOT EXISTS", [ONE, TWO, DEE]),
    ("INSERT INTO answers.t (p, c, d) VALUES (?, ?, 'new') IF NOT EXISTS", [ONE, TWO]),
    (f"UPDATE answers.t SET v = ? WHERE {T_KEY} IF v = ?", [TWO, ONE, TWO, DEE, TWO]),
    (f"UPDATE answers.t SET v = ? WHERE {T_KEY} IF v = ? AND w != ?",
     [TWO, ONE, TWO, DEE, INT(99), DEE]),
    (f"UPDATE answers.t SET v = 2 WHERE {T_KEY} IF v IN (1, 2) AND l = [1, 2]", [ONE, TWO, DEE]),
    (f"UPDATE answers.t SET v = 2 WHERE {T_KEY} IF m['a'] = ? AND u.a > ?", [ONE, TWO, DEE, ONE, ONE]),
    (f"UPDATE answers.t SET v = 2 WHERE {T_KEY} IF EXISTS", [ONE, INT(77), DEE]),
    (f"DELETE w FROM answers.t WHERE {T_KEY} IF s = ?", [ONE, TWO, DEE, DEE]),
    (f"DELETE FROM answers.t WHERE {T_KEY} IF EXISTS", [ONE, INT(78), DEE]),
    (f"DELETE v FROM answers.t WHERE {T_KEY} IF w = NULL", [ONE, TWO, DEE]),
    ("UPDATE answers.t SET s = ? WHERE p = ? IF s = ?", [DEE, ONE, TEXT("s1")]),
    ("UPDATE answers.t SET s = ? WHERE p = ? IF EXISTS", [DEE, ONE]),
    ("DELETE s FROM answers.t WHERE p = ? IF s = NULL", [ONE]),
]
COUNTERS = [("UPDATE answers.n SET c = c + 1 WHERE p = ?", [ONE]),
            ("UPDATE answers.n SET c = c - ? WHERE p = ?", [struct.pack(">q", 1), TWO])]
READS = [
    ("SELECT * FROM answers.t", []),
    ("SELECT * FROM answers.k", []),
    ("SELECT * FROM answers.t WHERE p = ?", [ONE]),
    (f"SELECT * FROM answers.t WHERE {T_KEY}", [ONE, TWO, DEE]),
    ("SELECT * FROM answers.t WHERE p = ? AND c >= ? ORDER BY c DESC", [ONE, TWO]),
    ("SELECT p, c, v FROM answers.t WHERE p IN ? AND c IN (1, 2)",
     [struct.pack(">i", 2) + b"".join(struct.pack(">i", 4) + INT(p) for p in (1, 2))]),
    ("SELECT * FROM answers.t WHERE p = ?", [INT(1000)]),
    ("SELECT p FROM answers.t WHERE v = ? ALLOW FILTERING", [TWO]),
    ("SELECT DISTINCT p, s FROM answers.t", []),
    ("SELECT p, count(*), max(v) FROM answers.t GROUP BY p", []),
    ("SELECT count(*) AS n, avg(v), min(w) FROM answers.t", []),
    ("SELECT JSON * FROM answers.t WHERE p = ? LIMIT 3", [ONE]),
    ("SELECT v AS a, w AS b, token(p), writetime(v), ttl(v), m['a'], u.a FROM answers.t "
     "PER PARTITION LIMIT 2", []),
    ("SELECT CAST(v AS text), toJson(u), (int)3, v + (int)? FROM answers.t LIMIT ?", [ONE, TWO]),
    ("SELECT * FROM answers.t WHERE token(p) > ?", [struct.pack(">q", 0)]),
    ("SELECT * FROM answers.n", []),
    ("SELECT * FROM system.local", []),
    ("SELECT * FROM system.peers", []),
    ("SELECT * FROM system_schema.columns WHERE keyspace_name = ?", [TEXT("answers")]),
    ("SELECT * FROM system.clients", []),
    ("SELECT * FROM MUTATION_FRAGMENTS(answers.k) WHERE p = ?", [ONE]),
]
OTHERS = [
    "USE answers", "USE no_such_keyspace", "DESCRIBE KEYSPACES", "DESCRIBE TABLE answers.t",
    "DESCRIBE SCHEMA", "DESCRIBE CLUSTER", "LIST ROLES", "LIST ALL PERMISSIONS", "LIST USERS",
    "LIST ALL SERVICE LEVELS",
    f"CREATE KEYSPACE IF NOT EXISTS answers WITH replication = {SIMPLE}",
    f"CREATE KEYSPACE answers WITH replication = {SIMPLE}",
    f"CREATE KEYSPACE answers_wide WITH replication = {SIMPLE.replace('1', '3')}",
    "ALTER KEYSPACE answers WITH durable_writes = true", "DROP KEYSPACE IF EXISTS answers_wide",
    "CREATE TABLE answers.k (p int PRIMARY KEY)", "CREATE TABLE answers.new (p int PRIMARY KEY)",
    "ALTER TABLE answers.new ADD v int", "ALTER TABLE answers.new WITH comment = 'x'",
    "TRUNCATE answers.new", "DROP TABLE answers.new", "DROP TABLE IF EXISTS answers.new",
    "CREATE TYPE answers.newtype (a int)", "ALTER TYPE answers.newtype ADD b int",
    "DROP TYPE answers.newtype", "DROP TYPE IF EXISTS answers.newtype",
    "CREATE FUNCTION answers.f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua "
    "AS 'return a + 1'",
    "CREATE AGGREGATE answers.a (int) SFUNC f STYPE int", "DROP AGGREGATE IF EXISTS answers.a",
    "DROP FUNCTION IF EXISTS answers.f", "DROP FUNCTION answers.nothing",
    "CREATE FUNCTION answers.g (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE lua "
    "AS 'return nothing.x'", "SELECT answers.g(v) FROM answers.k", "DROP FUNCTION answers.g",
    "CREATE ROLE another", "ALTER ROLE another WITH LOGIN = false", "GRANT SELECT ON answers.t TO another",
    "REVOKE SELECT ON answers.t FROM another", "DROP ROLE another", "GRANT nothing TO nobody",
    "CREATE INDEX ON answers.t (v)", "CREATE MATERIALIZED VIEW answers.mv AS SELECT * FROM answers.k "
    "WHERE p IS NOT NULL PRIMARY KEY (p)", "SELEC 1", "", ";", "SELECT * FROM nowhere.nothing",
    "SELECT nothing FROM answers.t", "SELECT * FROM answers.t WHERE v = 1",
    "INSERT INTO answers.t (p) VALUES (1)", "INSERT INTO answers.k (p) VALUES ('x')",
    "UPDATE answers.n SET c = 5 WHERE p = 1", "BEGIN BATCH APPLY BATCH",
    "PRUNE MATERIALIZED VIEW answers.mv",
]


def literal(text, values):
    """The same statement without markers."""
    out, rest = "", text
    for value in values:
        head, rest = rest.split("?", 1)
        out += head + written(head, value)
    return out + rest


def written(head, value):
    if value is None:
        return "null"
    if " JSON " in head or (value[:1].isalpha() and value.isalnum()):
        return "'" + value.decode() + "'"
    if len(value) in (4, 8):
        return str(int.from_bytes(value, "big", signed=True))
    return "(1, 2)"


class Client:
    """One connection of a version; every answer is decoded strictly."""

    def __init__(self, node, version, compression=None, lwt_mark=False):
        self.version, self.lwt_mark, self.compression = version, lwt_mark, compression
        self.socket = socket.create_connection((node.address, node.port), timeout=30)
        self.in_segments, self.pending, self.stream = False, b"", 0
        options = {"SCYLLA_LWT_ADD_METADATA_MARK": "x"} if lwt_mark else {}
        if compression:
            options["COMPRESSION"] = compression
        self.socket.sendall(startup(version, **options))
        assert self.answer().opcode == 3
        self.in_segments = version == 5
        assert self.ask(0x0f, value_of(b"\0cassandra\0cassandra")).opcode == 16
        self.metadata = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def _receive(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            check(part, "the server ended the connection", data)
            data += part
        return data

    def _take(self, count):
        if not self.in_segments:
            return self._receive(count)
        while len(self.pending) < count:
            payload, alone = read_segment(self._receive)
            check(alone or payload, "an empty segment")
            self.pending += payload
        data, self.pending = self.pending[:count], self.pending[count:]
        return data

    def answer(self, stream=None):
        head = self._take(9)
        body = self._take(struct.unpack(">I", head[5:])[0])
        if head[1] & 1:
            check(self.compression and not self.in_segments, "compressed")
            import lz4.block
            size = struct.unpack(">I", body[:4])[0]
            body = lz4.block.decompress(body[4:], uncompressed_size=size)
            head = head[:1] + bytes([head[1] & ~1]) + head[2:5] + struct.pack(">I", len(body))
        answer = Answer(head + body, self.version, self.lwt_mark)
        check(stream is None or answer.stream == stream, "stream", answer.stream, stream)
        check(not self.pending, "bytes after the only answer", self.pending)
        return answer

    def ask(self, opcode, body, tracing=False, payload=False):
        self.stream = (self.stream + 1) % 30000
        flags = 0
        if payload:
            flags |= 4
            body = b"\0\1\0\1k\0\0\0\1v" + body
        flags |= 2 if tracing else 0
        request = frame(opcode, body, self.version, flags, self.stream)
        self.socket.sendall(segment(request) if self.in_segments else request)
        answer = self.answer(self.stream)
        is_answered = answer.kind in ("void", "rows", "prepared", "schema", "keyspace")
        if tracing and is_answered:
            check(answer.tracing is not None, "not traced", opcode)
        check(tracing or answer.tracing is None, "traced, but nobody asked")
        return answer

    def parameters(self, values=(), flags=0, page_size=100, paging=None, names=(), keyspace=None,
                   now=1_800_000_000):
        out = b""
        if values:
            flags |= VALUES | (NAMES if names else 0)
            out += struct.pack(">H", len(values))
            for number, value in enumerate(values):
                if names:
                    out += struct.pack(">H", len(names[number])) + names[number].encode()
                out += value_of(value)
        if flags & PAGE_SIZE:
            out += struct.pack(">i", page_size)
        if paging:
            flags |= PAGING
            out += value_of(paging)
        out += self.tail(flags, keyspace, now)
        form = ">HI" if self.version == 5 else ">HB"
        return struct.pack(form, 1, self.known(flags)) + out

    def known(self, flags):
        return flags if self.version == 5 else flags & 0x7f

    def tail(self, flags, keyspace, now=1_800_000_000):
        out = b""
        if flags & SERIAL:
            out += struct.pack(">H", 8)
        if flags & TIMESTAMP:
            out += struct.pack(">q", 1_700_000_000_000_000)
        if self.version == 5 and flags & KEYSPACE:
            out += struct.pack(">H", len(keyspace)) + keyspace.encode()
        if self.version == 5 and flags & NOW:
            out += struct.pack(">i", now)
        return out

    def query(self, text, parameters, **header):
        data = text.encode()
        return self.ask(QUERY, struct.pack(">I", len(data)) + data + parameters, **header)

    def prepare(self, text, **header):
        data = text.encode()
        flags = struct.pack(">I", 0) if self.version == 5 else b""
        answer = self.ask(PREPARE, struct.pack(">I", len(data)) + data + flags, **header)
        if answer.kind == "prepared":
            self.metadata[answer.id] = answer.metadata
        return answer

    def execute(self, prepared, parameters, **header):
        body = struct.pack(">H", len(prepared.id)) + prepared.id
        if self.version == 5:
            body += struct.pack(">H", len(prepared.metadata_id)) + prepared.metadata_id
        return self.ask(EXECUTE, body + parameters, **header)

    def batch(self, kind, entries, flags=0, keyspace=None, now=1_800_000_000, **header):
        body = struct.pack(">BH", kind, len(entries))
        for statement, values in entries:
            if isinstance(statement, str):
                data = statement.encode()
                body += b"\0" + struct.pack(">I", len(data)) + data
            else:
                body += b"\1" + struct.pack(">H", len(statement.id)) + statement.id
            body += struct.pack(">H", len(values)) + b"".join(map(value_of, values))
        form = ">HI" if self.version == 5 else ">HB"
        flags &= SERIAL | TIMESTAMP | KEYSPACE | NOW
        body += struct.pack(form, 1, self.known(flags)) + self.tail(flags, keyspace, now)
        return self.ask(BATCH, body, **header)


def value_of(value):
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def finish(answer, asked_to_skip, known=None, is_conditional=False):
    """Decodes the rows of an answer and holds it against what was asked."""
    if answer.kind != "rows":
        return answer
    has_none = bool(answer.metadata.flags & NO_METADATA)
    check(asked_to_skip or not has_none, "metadata are left out, but nobody asked")
    answer.read_rows(known)
    if is_conditional and answer.metadata.columns:
        check(answer.metadata.columns[0][2] == "[applied]", answer.metadata.columns)
        verdicts = {row[0] for row in answer.rows}
        check(len(verdicts) == 1 and None not in verdicts, "[applied]", verdicts)
    return answer


@pytest.fixture(name="node", scope="module")
def fixture_node():
    # However slow the disk is meanwhile, statements are answered.
    patience = ("--cas-contention-timeout-in-ms", "60000", "--write-request-timeout-in-ms", "60000")
    with Node("--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer",
              *patience) as node:
        session = node.connect(auth_provider=PlainTextAuthProvider("cassandra", "cassandra"))
        for text in SETUP + FILL:
            session.execute(text)
        node.disconnect()
        yield node


def run_pages(client, text, values, form, size):
    """All rows of a read in pages of a size, each page decoded."""
    prepared = client.prepare(text) if form == "prepared" else None
    rows, paging = [], None
    while True:
        parameters = client.parameters(values, PAGE_SIZE | (SKIP if prepared else 0), size, paging)
        if prepared:
            answer = client.execute(prepared, parameters)
            finish(answer, True, prepared.metadata.columns)
        else:
            answer = finish(client.query(text, parameters), False)
        check(answer.kind == "rows", text, vars(answer))
        check(len(answer.rows) <= size, "a page is too large", text, len(answer.rows))
        rows += answer.rows
        paging = answer.metadata.paging_state
        if paging is None:
            return rows


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("text, values", READS)
def test_reads_in_pages(node, version, text, values):
    if "system.clients" in text:
        return
    with Client(node, version) as client:
        whole = run_pages(client, text, values, "text", 5000)
        for form in ("text", "prepared"):
            for size in (1, 2, 7):
                rows = run_pages(client, text, values, form, size)
                check(len(rows) == len(whole), text, len(rows), len(whole))
                check("random" in text or rows == whole, text)


def check_batch(answer, lwt_mark, count, known=None):
    """Of a conditional batch: ScyllaDB's drivers get a row for each statement; others `[applied]`
    alone, or false with the key and columns of rows that are there. `known`: what PREPARED told."""
    check(lwt_mark or answer.metadata.columns, "metadata are left out, but the columns vary")
    names = [column[2] for column in answer.metadata.columns or known]
    check(not answer.metadata.flags & (METADATA_CHANGED if not lwt_mark else 0), "changed")
    if lwt_mark:
        check(len(answer.rows) == count and names[:4] == ["[applied]", "p", "c", "d"], names)
    elif len(names) == 1:
        check(len(answer.rows) == 1, answer.rows)
    else:
        check(names[:4] == ["[applied]", "p", "c", "d"], names)
        keys = [tuple(row[:4]) for row in answer.rows]
        check(keys == sorted(set(keys), key=lambda key: (key[2] or b"", key[3] or b"")), keys)
        check(0 < len(keys) <= count and all(key[0] == b"\0" for key in keys), keys)


@pytest.mark.parametrize("lwt_mark", [False, True])
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("text, values", PLAIN + CONDITIONAL + COUNTERS)
def test_writes_of_every_form(node, version, text, values, lwt_mark):
    is_conditional = " IF " in text
    kind = 2 if (text, values) in COUNTERS else 0
    with Client(node, version, lwt_mark=lwt_mark) as client:
        forms = {
            "text": lambda: client.query(literal(text, values), client.parameters()),
            "values": lambda: client.query(text, client.parameters(values)),
            "prepared": lambda: client.execute(prepared, client.parameters(values)),
            "skip": lambda: client.execute(prepared, client.parameters(values, SKIP)),
            "batch of text": lambda: client.batch(kind, [(literal(text, values), [])]),
            "batch of values": lambda: client.batch(kind, [(text, values)]),
            "batch of prepared": lambda: client.batch(kind, [(prepared, values)]),
            "written batch": lambda: client.query(written_batch, client.parameters()),
            "prepared batch": lambda: client.execute(prepared_batch, client.parameters(values, SKIP)),
        }
        word = "COUNTER " if kind else ""
        written_batch = f"BEGIN {word}BATCH {literal(text, values)}; APPLY BATCH"
        prepared = client.prepare(text)
        prepared_batch = client.prepare(f"BEGIN {word}BATCH {text}; APPLY BATCH")
        check(prepared.kind == prepared_batch.kind == "prepared", text, vars(prepared))
        for name, run in forms.items():
            of = {"skip": prepared, "prepared batch": prepared_batch}.get(name)
            answer = finish(run(), of is not None, of and of.metadata.columns, is_conditional)
            check(answer.kind == ("rows" if is_conditional else "void"), name, vars(answer))
            if is_conditional and "batch" in name:
                check_batch(answer, lwt_mark, 1, of and of.metadata.columns)


@pytest.mark.parametrize("lwt_mark", [False, True])
@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_conditional_batches(node, version, count, lwt_mark):
    """Of one to three statements, conditional or not: their rows have what their metadata name."""
    draw = random.Random(count)
    with Client(node, version, lwt_mark=lwt_mark) as client:
        for _ in range(40):
            entries = [draw.choice(CONDITIONAL)]
            entries += [draw.choice(CONDITIONAL + PLAIN[:5]) for _ in range(count - 1)]
            draw.shuffle(entries)
            sent = [(literal(*entry), []) if draw.random() < 0.5 else entry for entry in entries]
            answer = finish(client.batch(0, sent), False, None, True)
            check(answer.kind == "rows", entries, vars(answer))
            check_batch(answer, lwt_mark, count)
            text = "BEGIN BATCH " + "; ".join(literal(*entry) for entry in entries) + "; APPLY BATCH"
            again = finish(client.query(text, client.parameters()), False, None, True)
            check_batch(again, lwt_mark, count)
            names = [column[2] for column in answer.metadata.columns]
            if lwt_mark:
                check(names == [column[2] for column in again.metadata.columns], text)


@pytest.mark.parametrize("lwt_mark", [False, True])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_what_a_conditional_batch_answers(node, version, lwt_mark):
    """Text, prepared, and as a request: the same rows in the form that the driver expects. Apache
    Cassandra 5.0 answers a driver without the mark in the same way, flags included."""
    one, two, three, nine = map(INT, (1, 2, 3, 9))
    parts = [("UPDATE answers.t SET v = ? WHERE p = 7 AND c = 3 AND d = 'd' IF v = ?", [nine, nine]),
             ("UPDATE answers.t SET v = ? WHERE p = 7 AND c = 1 AND d = 'd' IF v = ?", [one, one]),
             ("UPDATE answers.t SET v = ? WHERE p = 7 AND c = 1 AND d = 'd'", [one])]
    written = "BEGIN BATCH " + "; ".join(text for text, _ in parts) + "; APPLY BATCH"

    def values(last):
        return [nine, last, one, one, one]

    with Client(node, version, lwt_mark=lwt_mark) as client:
        def again(run, *facts, **more):
            for c in (1, 2, 3):
                text = f"INSERT INTO answers.t (p, c, d, v) VALUES (7, {c}, 'd', {c})"
                check(client.query(text, client.parameters()).kind == "void", text)
            return finish(run(), *facts, **more)

        batch = client.prepare(written)
        singles = [client.prepare(text) for text, _ in parts]
        check((batch.metadata.columns is None) != lwt_mark, vars(batch.metadata))
        check(all(single.metadata.columns for single in singles[:2]), "single statements")
        for last in (nine, three):
            split = [values(last)[:2], values(last)[2:4], values(last)[4:]]
            text = literal(written, values(last))
            forms = {
                "text": lambda t=text: client.query(t, client.parameters()),
                "values": lambda v=values(last): client.query(written, client.parameters(v)),
                "prepared": lambda v=values(last): client.execute(batch, client.parameters(v)),
                "skip": lambda v=values(last): client.execute(batch, client.parameters(v, SKIP)),
                "request of text": lambda s=split: client.batch(
                    0, [(literal(text, v), []) for (text, _), v in zip(parts, s)]),
                "request of prepared": lambda s=split: client.batch(0, list(zip(singles, s))),
            }
            for name, run in forms.items():
                answer = again(run, name == "skip", batch.metadata.columns, True)
                columns = answer.metadata.columns or batch.metadata.columns
                found = [column[2] for column in columns], answer.rows
                applied = b"\1" if last == three else b"\0"
                key = lambda c, first=applied: [first, INT(7), INT(c), DEE]  # noqa: E731
                if lwt_mark:
                    wanted = [key(3) + [three], key(1) + [one], key(1) + [one]]
                    check(found == (["[applied]", "p", "c", "d", "v"], wanted), name, found)
                    continue
                check(answer.metadata.flags == GLOBAL_TABLE, name, answer.metadata.flags)
                if last == three:
                    check(found == (["[applied]"], [[applied]]), name, found)
                else:
                    wanted = [key(1) + [one], key(3) + [three]]
                    check(found == (["[applied]", "p", "c", "d", "v"], wanted), name, found)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_other_statements(node, version):
    for text in OTHERS:
        with Client(node, version) as client:
            answer = finish(client.query(text, client.parameters()), False)
            check(answer.opcode in (0, 8), text)
            prepared = client.prepare(text)
            if prepared.kind == "prepared":
                finish(client.execute(prepared, client.parameters((), SKIP)), True,
                       prepared.metadata.columns)


def test_prepared_metadata_that_changed(node):
    """A client of version 5 is told of new columns, one of version 4 is answered by the old ones or
    with the new metadata."""
    with Client(node, 4) as four, Client(node, 5) as five:
        for text in ("DROP TABLE IF EXISTS answers.altered",
                     "CREATE TABLE answers.altered (p int PRIMARY KEY, v int)",
                     "INSERT INTO answers.altered (p, v) VALUES (1, 2)"):
            check(four.query(text, four.parameters()).opcode == 8, text)
        select = "SELECT * FROM answers.altered"
        of_four, of_five = four.prepare(select), five.prepare(select)
        four.query("ALTER TABLE answers.altered ADD w int", four.parameters())
        answer = finish(five.execute(of_five, five.parameters((), SKIP)), True)
        check(answer.metadata.id and len(answer.rows[0]) == 3, vars(answer.metadata))
        answer = four.execute(of_four, four.parameters((), SKIP))
        finish(answer, True, of_four.metadata.columns)


def test_the_clients_now(node):
    """What a client of version 5 says that it is now decides what has expired and when."""
    with Client(node, 5) as client:
        def run(text, now, batch=False):
            if batch:
                data = [(text, [])]
                return client.batch(0, data, NOW, now=now)
            return finish(client.query(text, client.parameters((), NOW, now=now)), False)

        for number, batch in enumerate([False, True], 50):
            insert = f"INSERT INTO answers.k (p, v) VALUES ({number}, 1) USING TTL 20"
            assert run(insert, 1_000, batch).kind == "void"
            select = f"SELECT v, TTL(v) FROM answers.k WHERE p = {number}"
            for now, rows in [(1_000, [[INT(1), INT(20)]]), (1_010, [[INT(1), INT(10)]]),
                              (1_020, []), (2_000_000_000, [])]:
                assert run(select, now).rows == rows, (now, batch)
            prepared = client.prepare(select)
            for now, count in [(1_019, 1), (1_021, 0)]:
                answer = client.execute(prepared, client.parameters((), NOW, now=now))
                assert len(finish(answer, False).rows) == count
            update = f"UPDATE answers.k SET v = 2 WHERE p = {number} IF v = 1"
            assert run(update, 1_021).rows[0][0] == b"\0"
            assert run(update, 1_005).rows[0][0] == b"\1"


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_prepare_is_traced(node, version):
    with Client(node, version) as client:
        answer = client.prepare("SELECT v FROM answers.k WHERE p = ?", tracing=True)
        for _ in range(200):
            found = finish(client.query(
                f"SELECT command, request FROM system_traces.sessions WHERE session_id = "
                f"{answer.tracing}", client.parameters()), False).rows
            if found:
                break
        assert found == [[b"PREPARE", b"Preparing CQL3 query"]]
        events = finish(client.query(
            f"SELECT activity FROM system_traces.events WHERE session_id = {answer.tracing}",
            client.parameters()), False).rows
        assert [b"Preparing a statement"] in events


def drawn(client, draw):
    """A request drawn at random, sent and decoded; what was sent, for a failure."""
    header = {"tracing": draw.random() < 0.05,
              "payload": 4 <= client.version and draw.random() < 0.2}
    flags = 0
    for bit in (SERIAL, TIMESTAMP, NOW, KEYSPACE):
        flags |= bit if draw.random() < 0.2 else 0
    shape = draw.choice(["read", "read", "write", "batch", "batch", "other"])
    if shape == "other":
        text, values = draw.choice(OTHERS), []
    elif shape == "read":
        text, values = draw.choice(READS)
        flags |= PAGE_SIZE if draw.random() < 0.7 else 0
    else:
        text, values = draw.choice(PLAIN + CONDITIONAL + COUNTERS)
    values = list(values)
    if values and draw.random() < 0.1:
        values[draw.randrange(len(values))] = draw.choice([None, b"", b"\1\2\3"])
    if values and draw.random() < 0.05:
        values.pop()
    size = draw.choice([1, 2, 3, 100])
    told = (client.version, shape, text, values, hex(flags), size, header)
    if shape == "batch":
        others = [draw.choice(PLAIN + CONDITIONAL) for _ in range(draw.choice([0, 0, 1, 2]))]
        entries = [(client.prepare(text) if draw.random() < 0.5 else text, values)
                   for text, values in [(text, values), *others]]
        entries = [(text, values) for text, values in entries
                   if isinstance(text, str) or text.kind == "prepared"]
        told += (others,)
        answer = client.batch(draw.choice([0, 1, 2]), entries, flags, "answers", **header)
        return told, finish(answer, False)
    if draw.random() < 0.5:
        parameters = client.parameters(values, flags, size, keyspace="answers")
        return told, finish(client.query(text, parameters, **header), False)
    prepared = client.prepare(text, tracing=header["tracing"])
    if prepared.kind != "prepared":
        return told, prepared
    skip = draw.choice([0, SKIP])
    parameters = client.parameters(values, flags | skip, size, keyspace="answers")
    answer = client.execute(prepared, parameters, **header)
    return told, finish(answer, bool(skip), prepared.metadata.columns)


def test_requests_drawn_at_random(node):
    seed = int(os.environ.get("NEREID_SEED", random.randrange(1 << 32)))
    draw = random.Random(seed)
    told, kinds = None, set()
    wanted = {(version, kind) for version in (3, 4, 5)
              for kind in ("void", "rows", "schema", "keyspace", "error")}
    clients = [Client(node, 3), Client(node, 4), Client(node, 5), Client(node, 4, "lz4", True),
               Client(node, 3, "lz4"), Client(node, 5, lwt_mark=True)]
    try:
        # Some kinds are drawn seldom: on until all were seen, within bounds.
        for number in range(10 * DRAWS):
            if DRAWS <= number and (wanted <= kinds or DRAWS < 1000):
                break
            try:
                told, answer = drawn(draw.choice(clients), draw)
                kinds.add((answer.version, answer.kind))
            except (Broken, struct.error, UnicodeDecodeError, OSError) as error:
                raise AssertionError(f"NEREID_SEED={seed}, request {number} after {told}: {error}") \
                    from error
    finally:
        for client in clients:
            client.socket.close()
    assert wanted <= kinds or DRAWS < 1000
