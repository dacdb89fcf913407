"""The native protocol as clients see it: what is negotiated, results, errors with what goes with
them, events, warnings. Bytes that no client sends are in tests/server."""
import socket
import struct
import sys
from pathlib import Path

import pytest
from cassandra.query import SimpleStatement

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "server"))
from wire import (BATCH, ERROR, EXECUTE, OPTIONS, PREPARE, QUERY, READY, REGISTER,  # noqa: E402
                  RESULT, STARTUP, SUPPORTED, Client, frame, string)

EVENT = 12
ONE = struct.pack(">ii", 4, 1)


def long_string(text):
    data = text.encode()
    return struct.pack(">I", len(data)) + data


class Body:
    """Reads what a response holds."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return values[0] if len(values) == 1 else values

    def bytes(self, form="i"):
        length = self.take(form)
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length:self.at]

    def string(self):
        return self.bytes("H").decode()

    def strings(self):
        return [self.string() for _ in range(self.take("H"))]

    def rest(self):
        return self.data[self.at:]


class Wire(Client):
    """A started connection that asks and reads answers."""

    def __init__(self, node):
        super().__init__(node)
        self.node = node

    def ask(self, opcode, body=b"", version=4, flags=0):
        self.send(frame(opcode, body, version, flags))
        return self.response()

    def response(self):
        """(opcode, flags, stream, body) of the next frame."""
        version, flags, stream, opcode, length = struct.unpack(">BBhBI", self.take(9))
        assert version & 0x80
        return opcode, flags, stream, Body(self.take(length))

    def query(self, text, parameters=b"\0\1\0", **facts):
        return self.ask(QUERY, long_string(text) + parameters, **facts)

    def result(self, text, parameters=b"\0\1\0"):
        opcode, flags, _, body = self.query(text, parameters)
        assert opcode == RESULT, body.data
        if flags & 8:
            assert body.strings()
        return body.take("i"), body

    def error(self, text, parameters=b"\0\1\0"):
        opcode, _, _, body = self.query(text, parameters)
        assert opcode == ERROR
        return body.take("I"), body.string(), body


def started_with(node, extension):
    """A connection whose client says that it knows an extension, if one is named."""
    options = {"CQL_VERSION": "3.0.0", **({extension: ""} if extension else {})}
    body = struct.pack(">H", len(options))
    for name, value in options.items():
        body += string(name) + string(value)
    wire = Wire(node)
    assert wire.ask(STARTUP, body)[0] == READY
    return wire


@pytest.fixture(name="wire")
def fixture_wire(node):
    with Wire(node).started() as wire:
        yield wire


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int, c int, v text, l list<int>, PRIMARY KEY (p, c)")
    for c in range(5):
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, {c}, 'v{c}')")
    return t


def options(node, wire=None):
    with wire or Wire(node) as wire:
        opcode, _, _, body = wire.ask(OPTIONS)
        assert opcode == SUPPORTED
        return {body.string(): body.strings() for _ in range(body.take("H"))}


def test_options(node):
    found = options(node)
    assert {"lz4", "snappy"} <= set(found["COMPRESSION"])
    assert all(part.isdigit() for part in found["CQL_VERSION"][0].split("."))


def test_options_of_shards(node):
    found = options(node)
    assert found["CQL_VERSION"] == ["3.3.1"]
    assert found["SCYLLA_SHARDING_ALGORITHM"] == ["biased-token-round-robin"]
    assert found["SCYLLA_PARTITIONER"] == ["org.apache.cassandra.dht.Murmur3Partitioner"]
    assert found["SCYLLA_SHARDING_IGNORE_MSB"] == ["12"] and found["SCYLLA_NR_SHARDS"] == ["2"]
    assert found["SCYLLA_LWT_ADD_METADATA_MARK"] == ["LWT_OPTIMIZATION_META_BIT_MASK=2147483648"]
    assert found["SCYLLA_RATE_LIMIT_ERROR"] == ["ERROR_CODE=61440"]
    assert "SCYLLA_USE_METADATA_ID" in found and found["SCYLLA_SHARD_AWARE_PORT"] == ["19042"]


def test_the_port_of_a_client_chooses_its_shard(node):
    found = set()
    for port in range(41_000, 41_008):
        with Wire(node) as wire:
            wire.socket.close()
            try:
                wire.socket = socket.create_connection((node.address, 19042), 10, ("", port))
            except OSError:  # Somebody has that port.
                continue
            shard = options(node, wire)["SCYLLA_SHARD"]
            assert shard == [str(port % 2)]
            found.update(shard)
    assert found == {"0", "1"}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_versions(node, version):
    with Wire(node) as wire:
        body = struct.pack(">H", 1) + string("CQL_VERSION") + string("3.0.0")
        opcode, _, stream, _ = wire.ask(STARTUP, body, version)
        assert (opcode, stream) == (READY, 1)


@pytest.mark.parametrize("algorithm", ["lz4", "snappy"])
def test_compression(node, algorithm):
    session = node.connect(compression=algorithm)
    assert session.execute("SELECT * FROM system_schema.columns").one()
    assert session.execute(f"SELECT key FROM system.local /* {'x' * 100_000} */").one().key == "local"


def test_stream_numbers_come_back(node):
    with Client(node).started() as client:
        for stream in (0, 1, 77, 32767):
            client.send(frame(QUERY, long_string("SELECT key FROM system.local") + b"\0\1\0",
                              stream=stream))
            assert struct.unpack(">BBhBI", client.take(9)[:9])[2] == stream
            client.socket.recv(1 << 16)


def test_kinds_of_results(wire, db, t):
    keyspace, name = t.split(".")
    assert wire.result(f"INSERT INTO {t} (p, c) VALUES (9, 9)")[0] == 1
    kind, body = wire.result(f"USE {keyspace}")
    assert (kind, body.string()) == (3, keyspace)
    for statement, change in [
        (f"CREATE TABLE {t}x (a int PRIMARY KEY)", ["CREATED", "TABLE", keyspace, name + "x"]),
        (f"ALTER TABLE {t}x ADD b int", ["UPDATED", "TABLE", keyspace, name + "x"]),
        (f"DROP TABLE {t}x", ["DROPPED", "TABLE", keyspace, name + "x"]),
        (f"CREATE TYPE {t}y (a int)", ["CREATED", "TYPE", keyspace, name + "y"]),
        (f"DROP TYPE {t}y", ["DROPPED", "TYPE", keyspace, name + "y"]),
        ("CREATE KEYSPACE zz WITH replication = {'class': 'SimpleStrategy', "
         "'replication_factor': 1}", ["CREATED", "KEYSPACE", "zz"]),
        ("DROP KEYSPACE zz", ["DROPPED", "KEYSPACE", "zz"]),
    ]:
        kind, body = wire.result(statement)
        assert kind == 5 and [body.string() for _ in change] == change and body.rest() == b""
    assert wire.result(f"CREATE TABLE IF NOT EXISTS {t} (a int PRIMARY KEY)")[0] in (1, 5)


def test_rows(wire, t):
    keyspace, name = t.split(".")
    kind, body = wire.result(f"SELECT c, v FROM {t} WHERE p = 1 AND c = 2")
    assert (kind, body.take("Ii")) == (2, (1, 2))
    assert (body.string(), body.string()) == (keyspace, name)
    assert (body.string(), body.take("H")) == ("c", 9)
    assert (body.string(), body.take("H")) == ("v", 13)
    assert body.take("i") == 1 and (body.bytes(), body.bytes()) == (b"\0\0\0\2", b"v2")
    # The client knows what is in the rows.
    kind, body = wire.result(f"SELECT c, v FROM {t} WHERE p = 1 AND c = 2", b"\0\1\2")
    (flags, columns, count) = body.take("Iii")
    assert (kind, flags & 4, columns, count) == (2, 4, 2, 1)


def test_pages(wire, t):
    select, state, found = f"SELECT c FROM {t} WHERE p = 1", None, []
    while True:
        flags = 0x02 | 0x04 | (0 if state is None else 0x08)
        tail = b"" if state is None else struct.pack(">i", len(state)) + state
        kind, body = wire.result(select, struct.pack(">HBi", 1, flags, 2) + tail)
        assert kind == 2
        (metadata, columns) = body.take("Ii")
        state = body.bytes() if metadata & 2 else None
        assert metadata & 4 and columns == 1
        found += [body.bytes()[-1] for _ in range(body.take("i"))]
        if state is None:
            break
        assert len(found) % 2 == 0
    assert found == list(range(5))


def prepared(wire, text, version=4):
    opcode, _, _, body = wire.ask(PREPARE, long_string(text), version)
    assert opcode == RESULT and body.take("i") == 4, body.data
    return body.bytes("H"), body


def test_prepared(wire, t):
    identity, body = prepared(wire, f"SELECT v FROM {t} WHERE c = ? AND p = ?")
    assert len(identity) == 16
    assert body.take("Iii") == (1, 2, 1) and body.take("H") == 1
    assert [body.string() for _ in range(2)] == t.split(".")
    assert [(body.string(), body.take("H")) for _ in range(2)] == [("c", 9), ("p", 9)]
    assert body.take("Ii") == (1, 1)
    for values, count in [(ONE + ONE, 1), (ONE + struct.pack(">ii", 4, 9), 0)]:
        opcode, _, _, body = wire.ask(EXECUTE, struct.pack(">H", 16) + identity
                                      + struct.pack(">HBH", 1, 1 | 2, 2) + values)
        (kind, flags, columns, rows) = body.take("iIii")
        assert (opcode, kind, flags & 4, columns, rows) == (RESULT, 2, 4, 1, count)
    # Version 3 says nothing of the partition key.
    with Wire(wire.node).started(3) as older:
        body = prepared(older, f"SELECT v FROM {t} WHERE c = ? AND p = ?", 3)[1]
        assert body.take("Ii") == (1, 2) and body.string() == t.split(".")[0]


def test_ids_of_metadata(node, db):
    t = db.table("p int PRIMARY KEY, v int")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 2)")
    with started_with(node, "SCYLLA_USE_METADATA_ID") as wire:
        identity, body = prepared(wire, f"SELECT * FROM {t}")

        def execute(known):
            """(flags, columns, the new id) of the answer."""
            ids = b"".join(struct.pack(">H", len(part)) + part for part in (identity, known))
            opcode, _, _, answer = wire.ask(EXECUTE, ids + b"\0\1\2")
            kind, flags, columns = answer.take("iIi")
            assert (opcode, kind) == (RESULT, 2)
            return flags, columns, answer.bytes("H") if flags & 8 else None

        old = body.bytes("H")
        assert len(old) == 16 and execute(old) == (4, 2, None)
        db.run(f"ALTER TABLE {t} ADD w int")
        flags, columns, new = execute(old)
        assert flags & 12 == 8 and columns == 3 and new != old
        assert execute(new) == (4, 3, None)


def tablet_of(wire, identity, key):
    """(after, last, shard) of the payload that comes with the row of a key, or None."""
    value = struct.pack(">Hii", 1, 4, key)
    opcode, flags, _, body = wire.ask(EXECUTE, struct.pack(">H", 16) + identity
                                      + struct.pack(">HB", 1, 1 | 2) + value)
    assert opcode == RESULT and flags & ~4 == 0
    if not flags & 4:
        return None
    assert (body.take("H"), body.string()) == (1, "tablets-routing-v1")
    payload = Body(body.bytes())
    after, last = (struct.unpack(">q", payload.bytes())[0] for _ in range(2))
    replicas = Body(payload.bytes())
    assert payload.rest() == b"" and replicas.take("i") == 1
    replica = Body(replicas.bytes())
    assert replicas.rest() == b"" and len(replica.bytes()) == 16
    (shard,) = struct.unpack(">i", replica.bytes())
    return after, last, shard


@pytest.mark.parametrize("tablets", [1, 4, None])
def test_who_knows_of_tablets_is_told_where_they_are(node, db, tablets):
    enabled = "{'enabled': false}" if tablets is None else f"{{'enabled': true, 'initial': {tablets}}}"
    db.run("CREATE KEYSPACE of_tablets WITH replication = {'class': 'NetworkTopologyStrategy', "
           f"'replication_factor': 1}} AND tablets = {enabled}")
    db.run("CREATE TABLE of_tablets.t (p int PRIMARY KEY, v int)")
    tokens = {p: None for p in range(20)}
    for p in tokens:
        db.run(f"INSERT INTO of_tablets.t (p) VALUES ({p})")
        tokens[p] = db.one(f"SELECT token(p) FROM of_tablets.t WHERE p = {p}")
    for text in ("SELECT v FROM of_tablets.t WHERE p = ?", "DELETE FROM of_tablets.t WHERE p = ?"):
        with started_with(node, "TABLETS_ROUTING_V1") as wire, started_with(node, None) as unaware:
            opcode, _, _, body = wire.ask(OPTIONS)
            facts = {body.string(): body.strings() for _ in range(body.take("H"))}
            here = int(facts["SCYLLA_SHARD"][0])
            assert opcode == SUPPORTED and "TABLETS_ROUTING_V1" in facts
            identity, _ = prepared(wire, text)
            found = {p: tablet_of(wire, identity, p) for p in tokens}
            assert all(tablet_of(unaware, identity, p) is None for p in tokens)
        elsewhere = {p: place for p, place in found.items() if place}
        for p, (after, last, shard) in elsewhere.items():
            assert after < tokens[p] <= last and shard != here
        ranges = {place[:2] for place in elsewhere.values()}
        assert all(not after < tokens[p] <= last
                   for after, last in ranges for p in tokens if p not in elsewhere)
        if tablets == 4:
            assert len(ranges) == 2 and {last - after for after, last in ranges} <= {2**62, 2**62 - 1}
        if tablets is None:
            assert not elsewhere
    db.run("DROP KEYSPACE of_tablets")


def test_a_keyspace_of_a_request(node, t):
    """Version 5 has it in each request."""
    keyspace, name = t.split(".")
    session = node.connect(protocol_version=5)
    text = f"SELECT c FROM {name} WHERE p = 1 AND c = 2"
    assert session.execute(SimpleStatement(text, keyspace=keyspace)).one().c == 2
    statement = session.prepare(f"SELECT c FROM {name} WHERE p = ? AND c = ?", keyspace=keyspace)
    assert session.execute(statement, (1, 3)).one().c == 3
    with pytest.raises(Exception, match="(?i)keyspace"):
        session.execute(text)


def test_a_prepared_row_gets_a_column(node, db):
    t = db.table("p int PRIMARY KEY, v int")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 2)")
    session = node.connect(protocol_version=5)
    select = session.prepare(f"SELECT * FROM {t}")
    assert tuple(session.execute(select).one()) == (1, 2)
    db.run(f"ALTER TABLE {t} ADD w int")
    for expected in [(1, 2, None), (1, 2, None)]:
        assert tuple(session.execute(select).one()) == expected


def test_what_a_client_says_of_itself(node, db):
    options = {"CQL_VERSION": "3.0.0", "DRIVER_NAME": "tests", "DRIVER_VERSION": "1.2",
               "CLIENT_OPTIONS": "{}"}
    body = struct.pack(">H", len(options))
    with Wire(node) as wire:
        assert wire.ask(STARTUP, body + b"".join(
            string(name) + string(value) for name, value in options.items()))[0] == READY
        rows = db.rows("SELECT driver_name, driver_version, client_options, protocol_version "
                       "FROM system.clients")
        found = [row for row in rows if row[0] == "tests"]
        assert [(row[1], row[3]) for row in found] == [("1.2", 4)]
        assert found[0][2]["DRIVER_NAME"] == "tests"


@pytest.mark.parametrize("extension", ["SCYLLA_LWT_ADD_METADATA_MARK", None])
def test_conditional_writes_are_marked(node, t, extension):
    with started_with(node, extension) as wire:
        for text, conditional in [(f"UPDATE {t} SET v = ? WHERE p = ? AND c = ?", False),
                                  (f"UPDATE {t} SET v = ? WHERE p = ? AND c = ? IF v = ?", True),
                                  (f"INSERT INTO {t} (p, c) VALUES (?, 1) IF NOT EXISTS", True),
                                  (f"SELECT * FROM {t} WHERE p = ?", False)]:
            opcode, _, _, answer = wire.ask(PREPARE, long_string(text))
            assert opcode == RESULT and answer.take("i") == 4 and answer.bytes("H")
            assert bool(answer.take("I") & 0x80000000) == (conditional and extension is not None)


def test_values_by_name(wire, t):
    names = string("b") + struct.pack(">ii", 4, 3) + string("a") + ONE
    kind, body = wire.result(f"SELECT v FROM {t} WHERE p = :a AND c = :b",
                             struct.pack(">HBH", 1, 1 | 0x40 | 2, 2) + names)
    (flags, columns, rows) = body.take("Iii")
    assert (kind, flags & 4, columns, rows) == (2, 4, 1, 1) and body.bytes() == b"v3"


def test_timestamp_of_a_request(db, wire, t):
    wire.result(f"INSERT INTO {t} (p, c, v) VALUES (5, 5, 'x')",
                struct.pack(">HBq", 1, 0x20, 123456))
    assert db.one(f"SELECT writetime(v) FROM {t} WHERE p = 5") == 123456
    wire.result(f"INSERT INTO {t} (p, c, v) VALUES (5, 5, 'y') USING TIMESTAMP 200000",
                struct.pack(">HBq", 1, 0x20, 999999))
    assert db.one(f"SELECT writetime(v) FROM {t} WHERE p = 5") == 200000


def test_batches(db, wire, t):
    text = f"INSERT INTO {t} (p, c, v) VALUES (6, ?, 'x')"
    identity, _ = prepared(wire, text)
    body = struct.pack(">BH", 0, 2)
    body += b"\0" + long_string(text) + struct.pack(">H", 1) + ONE
    body += b"\1" + struct.pack(">H", 16) + identity + struct.pack(">Hii", 1, 4, 2)
    opcode, _, _, answer = wire.ask(BATCH, body + struct.pack(">HBHq", 1, 0x30, 8, 777))
    assert opcode == RESULT and answer.take("i") == 1
    assert db.rows(f"SELECT c, writetime(v) FROM {t} WHERE p = 6") == [(1, 777), (2, 777)]


@pytest.mark.parametrize("text, code", [
    ("SELEC", 0x2000), ("SELECT * FROM nowhere.t", 0x2200), ("SELECT nope FROM {t}", 0x2200),
    ("CREATE KEYSPACE x WITH replication = {{'class': 'Nothing'}}", 0x2300),
    ("DROP TABLE system.local", 0x2100), ("DROP KEYSPACE is_not_there", 0x2300),
])
def test_codes_of_errors(wire, t, text, code):
    found, message, body = wire.error(text.format(t=t))
    assert found == code and message and body.rest() == b""


def test_errors_with_more(wire, db, t):
    code, _, body = wire.error(f"CREATE TABLE {t} (a int PRIMARY KEY)")
    assert (code, [body.string(), body.string()]) == (0x2400, t.split("."))
    code, _, body = wire.error(f"CREATE KEYSPACE {db.keyspace} WITH replication = "
                               "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    assert (code, [body.string(), body.string()]) == (0x2400, [db.keyspace, ""])
    code, _, body = wire.error(f"INSERT INTO {t} (p, c) VALUES (1, 1)", struct.pack(">HB", 3, 0))
    assert (code, body.take("Hii")) == (0x1000, (3, 3, 1))
    code, _, body = wire.error(f"SELECT * FROM {t} WHERE p = 1", struct.pack(">HB", 2, 0))
    assert (code, body.take("Hii")) == (0x1000, (2, 2, 1))
    opcode, _, _, body = wire.ask(EXECUTE, struct.pack(">H", 16) + bytes(16) + b"\0\1\0")
    assert (opcode, body.take("I")) == (ERROR, 0x2500)
    assert body.string() and body.bytes("H") == bytes(16)


@pytest.mark.parametrize("extension, code", [("SCYLLA_RATE_LIMIT_ERROR", 0xf000), (None, 0x2300)])
def test_who_knows_of_rate_limits_is_told_so(node, db, extension, code):
    t = db.table("p int PRIMARY KEY", "WITH per_partition_rate_limit = "
                 "{'max_reads_per_second': 0, 'max_writes_per_second': 0}")
    with started_with(node, extension) as wire:
        for text, operation in [(f"SELECT * FROM {t} WHERE p = 1", 0),
                                (f"INSERT INTO {t} (p) VALUES (1)", 1)]:
            found, message, body = wire.error(text)
            assert found == code
            assert f"Per-partition rate limit reached for {['read', 'write'][operation]} in " \
                   f"table {t}, rejected by" in message
            if extension:
                assert body.take("B") == operation and body.take("B") in (0, 1)
            assert body.rest() == b""


def test_a_trace_is_named_in_the_answer(wire, db, t):
    opcode, flags, _, body = wire.query(f"SELECT * FROM {t} WHERE p = 1", flags=2)
    assert opcode == RESULT and flags & 2
    identity = body.data[:16]
    body.at = 16
    assert body.take("i") == 2 and identity[6] >> 4 == 1


def test_warnings_travel_in_front(wire, db):
    t = db.table("k int, c int, v blob, PRIMARY KEY (k, c)")
    one = "INSERT INTO %s (k, c, v) VALUES (%d, 1, 0x%s);"
    large = "00" * 80_000
    opcode, flags, _, body = wire.query(
        f"BEGIN UNLOGGED BATCH {one % (t, 1, large)} {one % (t, 2, large)} APPLY BATCH")
    assert opcode == RESULT and flags & 8
    assert any("atch" in text for text in body.strings()) and body.take("i") == 1


def test_custom_payloads_are_taken(wire):
    payload = struct.pack(">H", 1) + string("key") + struct.pack(">i", 3) + b"abc"
    body = payload + long_string("SELECT key FROM system.local") + b"\0\1\0"
    opcode, _, _, _ = wire.ask(QUERY, body, flags=4)
    assert opcode == RESULT


def test_events(node, wire, db):
    body = struct.pack(">H", 3) + b"".join(map(string, (
        "SCHEMA_CHANGE", "STATUS_CHANGE", "TOPOLOGY_CHANGE")))
    assert wire.ask(REGISTER, body)[0] == READY
    t = db.table("a int PRIMARY KEY")
    opcode, _, stream, body = wire.response()
    assert (opcode, stream) == (EVENT, -1)
    assert [body.string() for _ in range(5)] == ["SCHEMA_CHANGE", "CREATED", "TABLE", *t.split(".")]
    db.run(f"DROP TABLE {t}")
    assert b"DROPPED" in wire.response()[3].data
    opcode, _, _, body = wire.ask(REGISTER, struct.pack(">H", 1) + string("NO_SUCH_EVENT"))
    assert (opcode, body.take("I")) == (ERROR, 0x000A)


@pytest.mark.parametrize("text", [
    "SELECT * FROM system.local WHERE key='local'", "SELECT * FROM system.peers",
    *(f"SELECT * FROM system_schema.{table}" for table in (
        "keyspaces", "tables", "columns", "views", "indexes", "types", "functions", "aggregates",
        "triggers")),
    "SELECT * FROM system_traces.sessions", "SELECT * FROM system_traces.events",
    "SELECT schema_version FROM system.local WHERE key='local'",
])
def test_what_drivers_ask_at_first(wire, text):
    assert wire.result(text)[0] == 2


def test_both_tables_of_peers_can_be_asked(wire):
    for table in ("peers", "peers_v2"):
        assert wire.result(f"SELECT * FROM system.{table}")[0] == 2
