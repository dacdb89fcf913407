"""Every type: its bytes on the wire, of every wrong length, empty, as a key, and as a blob."""
import struct

import pytest
from cassandra import InvalidRequest

UUID4 = bytes.fromhex("0f5f4bd05f0f4f0f8f0f0123456789ab")
UUID1 = bytes.fromhex("c4e2f8a01d3b11f08de90242ac120002")

# type: (bytes of a value, lengths that are right)
TYPES = {
    "ascii": (b"abc", None),
    "bigint": (struct.pack(">q", -5), {8}),
    "blob": (b"\x00\xff", None),
    "boolean": (b"\x01", {1}),
    "date": (struct.pack(">I", 1 << 31), {4}),
    "decimal": (struct.pack(">ib", 2, 5), "decimal"),
    "double": (struct.pack(">d", 1.5), {8}),
    "float": (struct.pack(">f", 1.5), {4}),
    "inet": (b"\x7f\0\0\1", {4, 16}),
    "int": (struct.pack(">i", 7), {4}),
    "smallint": (struct.pack(">h", 7), {2}),
    "text": ("\u00e9".encode(), None),
    "time": (struct.pack(">q", 10**9), {8}),
    "timestamp": (struct.pack(">q", 1000), {8}),
    "timeuuid": (UUID1, {16}),
    "tinyint": (b"\x07", {1}),
    "uuid": (UUID4, {16}),
    "varint": (b"\x05", None),
}
KEYS = sorted(TYPES)
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17]


def bind(db, statement, *values):
    bound = statement.bind([None] * len(values))
    bound.values = list(values)
    return list(db.session.execute(bound))


@pytest.fixture(name="plain", scope="module")
def fixture_plain(db):
    t = db.table("k int PRIMARY KEY, " + ", ".join(f"c_{kind} {kind}" for kind in KEYS))
    return t, {kind: db.session.prepare(f"INSERT INTO {t} (k, c_{kind}) VALUES (?, ?)")
               for kind in KEYS}


@pytest.mark.parametrize("kind", [kind for kind in KEYS if isinstance(TYPES[kind][1], set)])
def test_every_wrong_length_is_refused(db, plain, kind):
    t, inserts = plain
    for length in LENGTHS:
        value = (TYPES[kind][0] * length)[:length]
        if length in TYPES[kind][1]:
            continue
        with pytest.raises(InvalidRequest) as caught:
            bind(db, inserts[kind], struct.pack(">i", 1), value)
        assert str(length) in str(caught.value) or "inet" in kind or "uuid" in kind, caught.value
    assert db.rows(f"SELECT c_{kind} FROM {t} WHERE k = 1") in ([], [(None,)])


@pytest.mark.parametrize("kind", KEYS)
def test_a_value_comes_back_as_it_was_sent(db, plain, kind):
    t, inserts = plain
    value = TYPES[kind][0]
    bind(db, inserts[kind], struct.pack(">i", 2), value)
    assert db.one(f"SELECT {kind}AsBlob(c_{kind}) FROM {t} WHERE k = 2") == value
    assert db.one(f"SELECT {kind}_as_blob(blob_as_{kind}({kind}AsBlob(c_{kind}))) FROM {t} "
                  "WHERE k = 2") == value
    bind(db, inserts[kind], struct.pack(">i", 2), None)
    assert db.one(f"SELECT c_{kind} FROM {t} WHERE k = 2") is None


@pytest.mark.parametrize("kind", KEYS)
def test_empty_values(db, plain, kind):
    t, inserts = plain
    three = struct.pack(">i", 3)
    bind(db, inserts[kind], three, b"")
    assert db.one(f"SELECT {kind}AsBlob(c_{kind}) FROM {t} WHERE k = 3") == b""


@pytest.mark.parametrize("kind", KEYS)
def test_keys(db, kind):
    value = TYPES[kind][0]
    t = db.table(f"a {kind}, b {kind}, c {kind}, v int, PRIMARY KEY ((a, b), c)")
    insert = db.session.prepare(f"INSERT INTO {t} (a, b, c, v) VALUES (?, ?, ?, 1)")
    bind(db, insert, value, value, value)
    select = db.session.prepare(f"SELECT v FROM {t} WHERE a = ? AND b = ? AND c = ?")
    assert [tuple(row) for row in bind(db, select, value, value, value)] == [(1,)]
    select = db.session.prepare(f"SELECT v FROM {t} WHERE token(a, b) = token(?, ?) AND c >= ? "
                                "ALLOW FILTERING")
    assert [tuple(row) for row in bind(db, select, value, value, value)] == [(1,)]
    literal = db.one(f"SELECT {kind}AsBlob(a) FROM {t}").hex()
    for place in range(3):
        values = [f"blobAs{kind}(0x{literal})"] * 3
        values[place] = "null"
        db.refuse(f"INSERT INTO {t} (a, b, c) VALUES ({', '.join(values)})", "null")


@pytest.mark.parametrize("kind, values", [
    ("decimal", [b"\0", b"\0\0\0"]),
    ("ascii", [b"\x80", b"a\xff"]),
    ("text", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"a\xe2\x82"]),
    ("time", [struct.pack(">q", -1), struct.pack(">q", 86400 * 10**9)]),
    ("timeuuid", [UUID4]),
])
def test_refused_bytes(db, plain, kind, values):
    t, inserts = plain
    for value in values:
        with pytest.raises(InvalidRequest):
            bind(db, inserts[kind], struct.pack(">i", 50 + KEYS.index(kind)), value)
    assert db.rows(f"SELECT k FROM {t} WHERE k = {50 + KEYS.index(kind)}") == []


SHORT = struct.pack(">i", 1)
ONE = struct.pack(">ii", 4, 1)


@pytest.mark.parametrize("kind, values", [
    ("list<int>", [b"\0", SHORT, SHORT + ONE[:6], SHORT + struct.pack(">i", 9) + b"\0" * 4,
                   struct.pack(">i", 1 << 30), SHORT + struct.pack(">i", 3) + b"\0" * 3]),
    ("set<int>", [b"\0\0", SHORT + ONE[:5], struct.pack(">i", 2) + ONE]),
    ("map<int, int>", [SHORT + ONE, SHORT + ONE + ONE[:7], struct.pack(">i", 1 << 30)]),
    ("frozen<list<int>>", [b"\0", SHORT + struct.pack(">i", 2) + b"\0\0"]),
    ("tuple<int, text>", [b"\0", ONE[:6], struct.pack(">i", 3) + b"\0" * 3]),
    ("vector<float, 2>", [b"\0" * 4, b"\0" * 7, b"\0" * 9, b"\0" * 12]),
    ("vector<text, 2>", [b"\x05a", b"\x01a", b"\x01a\x01b\x01c"]),
    ("duration", [b"", b"\0", b"\0\0", b"\xff" * 9]),
])
def test_refused_bytes_of_what_is_composed(db, kind, values):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    insert = db.session.prepare(f"INSERT INTO {t} (k, v) VALUES (?, ?)")
    for value in values:
        with pytest.raises(InvalidRequest):
            bind(db, insert, SHORT, value)
    assert db.rows(f"SELECT k FROM {t}") == []


@pytest.mark.parametrize("kind, name", [
    ("AsciiType", "ascii"), ("LongType", "bigint"), ("BytesType", "blob"),
    ("BooleanType", "boolean"), ("SimpleDateType", "date"), ("DecimalType", "decimal"),
    ("DoubleType", "double"), ("DurationType", "duration"), ("FloatType", "float"),
    ("InetAddressType", "inet"), ("Int32Type", "int"), ("ShortType", "smallint"),
    ("UTF8Type", "text"), ("TimeType", "time"), ("TimestampType", "timestamp"),
    ("TimeUUIDType", "timeuuid"), ("ByteType", "tinyint"), ("UUIDType", "uuid"),
    ("IntegerType", "varint"), ("ListType(org.apache.cassandra.db.marshal.Int32Type)", "list<int>"),
    ("FrozenType(org.apache.cassandra.db.marshal.SetType(org.apache.cassandra.db.marshal.UTF8Type))",
     "frozen<set<text>>"),
    ("MapType(org.apache.cassandra.db.marshal.UTF8Type,org.apache.cassandra.db.marshal.Int32Type)",
     "map<text, int>"),
])
def test_types_by_their_classes(db, kind, name):
    t = db.table(f"k int PRIMARY KEY, v 'org.apache.cassandra.db.marshal.{kind}'")
    keyspace, table = t.split(".")
    assert db.one("SELECT type FROM system_schema.columns WHERE keyspace_name = %s AND "
                  "table_name = %s AND column_name = 'v'", keyspace, table) == name


@pytest.mark.parametrize("kind, low, high", [
    ("tinyint", -128, 127), ("smallint", -(1 << 15), (1 << 15) - 1),
    ("int", -(1 << 31), (1 << 31) - 1), ("bigint", -(1 << 63), (1 << 63) - 1),
])
def test_bounds_of_integers(db, kind, low, high):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    for k, value in enumerate([low, high]):
        db.run(f"INSERT INTO {t} (k, v) VALUES ({k}, {value})")
        assert db.one(f"SELECT v FROM {t} WHERE k = {k}") == value
    for value in [low - 1, high + 1]:
        db.refuse(f"INSERT INTO {t} (k, v) VALUES (1, {value})", str(value))


@pytest.mark.parametrize("part", ["p", "c"])
def test_the_longest_key(db, part):
    t = db.table("p blob, c blob, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c) VALUES (?, ?)")
    for length, taken in [(65535, True), (65536, False)]:
        values = [bytes(length) if part == name else b"x" for name in "pc"]
        if taken:
            db.session.execute(insert, values)
            assert db.column(f"SELECT {part} FROM {t}") == [bytes(length)]
        else:
            with pytest.raises(InvalidRequest, match="65535"):
                db.session.execute(insert, values)
