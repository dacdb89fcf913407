"""Types: what their literals and JSON may look like, and what is refused."""
import datetime
import json
from decimal import Decimal
from uuid import UUID

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import FunctionFailure, SyntaxException
from cassandra.util import Date, Duration, Time

U4 = "0f5f4bd0-5f0f-4f0f-8f0f-0123456789ab"
U1 = "c4e2f8a0-1d3b-11f0-8de9-0242ac120002"

GOOD = [
    # type, literal, what is read
    ("ascii", "'a''b'", "a'b"), ("text", "$$it's$$", "it's"), ("blob", "0xCAFE", b"\xca\xfe"),
    ("blob", "0x", b""), ("boolean", "TRUE", True), ("tinyint", "-128", -128),
    ("smallint", "32767", 32767), ("int", "-2147483648", -2147483648),
    ("bigint", "9223372036854775807", 9223372036854775807),
    ("varint", "-" + "9" * 60, -int("9" * 60)), ("decimal", "1.50", Decimal("1.50")),
    ("decimal", "12e40", Decimal("12e40")), ("double", "1e-3", 0.001), ("float", "2.5", 2.5),
    ("double", "-Infinity", float("-inf")), ("uuid", U4, UUID(U4)), ("timeuuid", U1, UUID(U1)),
    ("inet", "'127.0.0.1'", "127.0.0.1"), ("inet", "'::1'", "::1"),
    ("date", "'2024-02-29'", Date("2024-02-29")), ("date", "2147483648", Date("1970-01-01")),
    ("time", "'08:12:54.123456789'", Time("08:12:54.123456789")),
    ("timestamp", "'2011-02-03T04:05:06.789+0100'", datetime.datetime(2011, 2, 3, 3, 5, 6, 789000)),
    ("timestamp", "'2011-02-03 GMT'", datetime.datetime(2011, 2, 3)), ("timestamp", "5", None),
    ("duration", "1y2mo3w4d5h6m7s8ms9us10ns",
     Duration(14, 25, ((5 * 60 + 6) * 60 + 7) * 10**9 + 8009010)),
    ("duration", "-P1Y2M3DT4H", Duration(-14, -3, -4 * 3600 * 10**9)),
    ("list<int>", "[1, 2, 1]", [1, 2, 1]), ("set<text>", "{'b', 'a', 'b'}", {"a", "b"}),
    ("map<int, text>", "{2: 'b', 1: 'a'}", {1: "a", 2: "b"}),
    ("tuple<int, text>", "(1, null)", (1, None)), ("tuple<int, text>", "(1)", (1, None)),
    ("tuple<int, text>", "'1:a\\:b'", (1, "a:b")), ("vector<float, 2>", "[1.5, 2]", [1.5, 2.0]),
    ("frozen<map<text, frozen<list<int>>>>", "{'a': [1]}", {"a": [1]}),
    ("'org.apache.cassandra.db.marshal.Int32Type'", "7", 7),
]


@pytest.mark.parametrize("kind, literal, expected", GOOD, ids=lambda value: str(value)[:30])
def test_literals(db, kind, literal, expected):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, {literal})")
    if expected is not None:
        assert db.one(f"SELECT v FROM {t}") == expected
    # What toJson makes, fromJson takes.
    text = db.one(f"SELECT toJson(v) FROM {t}")
    finite = "nfinity" not in literal
    if finite and "duration" not in kind:
        json.loads(text)
        db.run(f"INSERT INTO {t} (k, v) VALUES (2, fromJson(%s))", text)
        assert len(set(map(str, db.column(f"SELECT v FROM {t}")))) == 1
        db.run(f"INSERT INTO {t} JSON %s", json.dumps({"k": 3, "v": json.loads(text)}))


BAD = [
    ("int", "'a'", 'Invalid STRING constant'), ("int", "1.5", "Invalid FLOAT constant"),
    ("int", "2147483648", "Unable to make int from '2147483648'"),
    ("tinyint", "128", "128"), ("blob", "'ff'", "Invalid STRING constant"),
    ("date", "''", "date"), ("time", "''", "time"), ("timestamp", "''", "timestamp"),
    ("inet", "''", "inet"), ("inet", "'localhost'", "inet"), ("date", "-1", "unsigned int"),
    ("date", "'2023-02-29'", "Unable to coerce"), ("time", "'24:00:00'", "Unable to coerce"),
    ("timestamp", "'2011-02-03 04:05:06.7890'", "Milliseconds length exceeds expected"),
    ("decimal", "1e2147483649", "unable to make BigDecimal"), ("timeuuid", U4, "UUID version"),
    ("duration", "1h1d", "should be after"), ("duration", "1h1h", "multiple times"),
    ("list<int>", "[1, 'a']", "Invalid list literal for v: value 'a' is not of type int"),
    ("set<int>", "{'a'}", "Invalid set literal for v: value 'a' is not of type int"),
    ("map<int, int>", "{'a': 1}", "Invalid map literal for v: key 'a' is not of type int"),
    ("list<int>", "[null]", "null is not supported inside collections"),
    ("tuple<int>", "(1, 2)", "too many elements"),
    ("tuple<int>", "('a')", "is not of type int"),
    ("tuple<int>", "'1:2'", "too many elements. Type frozen<tuple<int>> expects 1 but got 2"),
    ("vector<float, 2>", "[1]", "expected 2 elements but got 1"),
]


@pytest.mark.parametrize("kind, literal, words", BAD, ids=lambda value: str(value)[:30])
def test_refused_literals(db, kind, literal, words):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    db.refuse(f"INSERT INTO {t} (k, v) VALUES (1, {literal})", words)


@pytest.mark.parametrize("kind, words", [
    ("vector<int, 0>", "Vectors must have a dimension greater than 0"),
    ("vector<float, 16001>", "less than or equal to 16000"),
    ("'com.example.Nothing'", "com.example.Nothing"),
    ("set<duration>", "duration"), ("map<duration, int>", "duration"),
])
def test_refused_types(db, kind, words):
    with pytest.raises((InvalidRequest, SyntaxException)) as caught:
        db.table(f"k int PRIMARY KEY, v {kind}")
    assert words.lower() in str(caught.value).lower()


JSON = [
    ("int", "1e3", 1000), ("bigint", "115292150460684697.5e1", 1152921504606846975),
    ("varint", "1" * 40, int("1" * 40)), ("decimal", "1.500", Decimal("1.500")),
    ("int", '"7"', 7), ("boolean", '"tRue"', True), ("timestamp", "0", datetime.datetime(1970, 1, 1)),
    ("double", "null", None), ("tuple<int, text>", '[null, "a"]', (None, "a")),
    ("map<int, int>", '{"1": 2}', {1: 2}), ("vector<float, 2>", "[1, 2.5]", [1.0, 2.5]),
    ("map<frozen<list<int>>, int>", '{"[1, 2]": 3}', None),
]


@pytest.mark.parametrize("kind, text, expected", JSON, ids=lambda value: str(value)[:30])
def test_json(db, kind, text, expected):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, fromJson(%s))", text)
    if kind.startswith("map<frozen"):
        assert json.loads(db.one(f"SELECT toJson(v) FROM {t}")) == json.loads(text)
    else:
        assert db.one(f"SELECT v FROM {t}") == expected


@pytest.mark.parametrize("kind, text", [
    ("int", "dog"), ("int", "1.2"), ("int", "2147483648"), ("int", '""'), ("int", "true"),
    ("varint", '""'), ("text", "3"), ("ascii", '"\u00e9"'), ("date", "123"), ("date", '"xyz"'),
    ("inet", "123"), ("uuid", "123"), ("blob", '"123"'), ("blob", "123"), ("boolean", "1"),
    ("list<int>", "[null]"), ("list<int>", "123"), ("set<int>", '["a"]'), ("map<int, int>", "{1: 2}"),
    ("map<text, int>", '{"a": null}'), ("tuple<int, int>", "[1]"), ("tuple<int, int>", "[1, 2, 3]"),
    ("vector<float, 2>", "[1]"), ("timestamp", '"2014-01-01 12:15:45.0000000Z"'),
])
def test_refused_json(db, kind, text):
    t = db.table(f"k int PRIMARY KEY, v {kind}")
    with pytest.raises(FunctionFailure):
        db.run(f"INSERT INTO {t} (k, v) VALUES (1, fromJson(%s))", text)
    # The same within a row is an invalid request.
    if text != "dog" and "1:" not in text:
        db.refuse(f"INSERT INTO {t} JSON %s", "Error decoding JSON value for v",
                  f'{{"k": 1, "v": {text}}}')
