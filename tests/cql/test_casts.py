"""cast(x AS t) between every two types, (t) x, times of timeuuids, and arithmetic."""
import datetime
import uuid
from decimal import Decimal

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException

NUMBERS = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "varint"]
TEXTS = ["ascii", "text"]
VALUES = {
    "tinyint": "7", "smallint": "7", "int": "7", "bigint": "7", "float": "7", "double": "7",
    "decimal": "7", "varint": "7", "ascii": "'7'", "text": "'7'", "boolean": "true",
    "date": "'2020-01-02'", "timestamp": "'2020-01-02 03:04:05+0000'",
    "timeuuid": "c4e2f8a0-1d3b-11f0-8de9-0242ac120002",
    "uuid": "0f5f4bd0-5f0f-4f0f-8f0f-0123456789ab", "inet": "'127.0.0.1'", "time": "'01:02:03'",
    "blob": "0xff", "counter": None, "duration": "1d",
}
ALLOWED = {
    **{kind: set(NUMBERS + TEXTS) for kind in NUMBERS},
    "ascii": set(TEXTS), "text": set(TEXTS), "boolean": set(TEXTS + ["boolean"]),
    "date": set(TEXTS + ["date", "timestamp"]), "timestamp": set(TEXTS + ["date", "timestamp"]),
    "timeuuid": set(TEXTS + ["date", "timestamp", "timeuuid"]),
    "uuid": set(TEXTS + ["uuid"]), "inet": set(TEXTS + ["inet"]), "time": set(TEXTS + ["time"]),
}
STORED = [kind for kind in VALUES if kind != "counter"]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("k int PRIMARY KEY, " + ", ".join(f"c_{kind} {kind}" for kind in STORED))
    db.run(f"INSERT INTO {t} (k, {', '.join('c_' + kind for kind in STORED)}) VALUES "
           f"(1, {', '.join(VALUES[kind] for kind in STORED)})")
    db.run(f"INSERT INTO {t} (k) VALUES (2)")
    return t


@pytest.mark.parametrize("kind", [kind for kind in STORED if kind in ALLOWED])
def test_from_each_type(db, t, kind):
    for to in STORED:
        call = f"SELECT cast(c_{kind} AS {to}) FROM {t} WHERE k = "
        if to in ALLOWED[kind]:
            value = db.one(call + "1")
            assert value is not None, to
            if kind in NUMBERS:
                assert float(value) == 7, to
            assert db.one(call + "2") is None
        elif to != kind:
            # As a blob, so that no driver has to read what a peer may make of it.
            with pytest.raises((InvalidRequest, SyntaxException)):
                db.run(f"SELECT {to}AsBlob(cast(c_{kind} AS {to})) FROM {t} WHERE k = 1")


@pytest.mark.parametrize("call, expected", [
    ("cast(c_date AS text)", "2020-01-02"),
    ("cast(c_date AS timestamp)", datetime.datetime(2020, 1, 2)),
    ("cast(c_timestamp AS text)", "2020-01-02T03:04:05.000Z"),
    ("cast(c_boolean AS text)", "true"), ("cast(c_inet AS text)", "127.0.0.1"),
    ("cast(c_time AS text)", "01:02:03.000000000"),
    ("cast(c_uuid AS text)", VALUES["uuid"]), ("cast(c_decimal AS text)", "7"),
    ("cast(c_double AS text)", "7.0"), ("cast(c_int AS decimal)", Decimal(7)),
    ("cast(cast(c_int AS double) AS text)", "7.0"), ("cast(cast(c_int AS text) AS text)", "7"),
])
def test_results(db, t, call, expected):
    found = db.one(f"SELECT {call} FROM {t} WHERE k = 1")
    assert found == expected or str(found).rstrip("0") == expected.rstrip("0"), found


@pytest.mark.parametrize("call, expected", [
    ("cast(300 AS tinyint)", 44), ("cast(3000000000 AS int)", -1294967296),
    ("cast(1.9 AS int)", 1), ("cast(-1.9 AS int)", -1),
])
def test_numbers_that_do_not_fit(db, call, expected):
    assert db.rows(f"SELECT {call}") == [(expected,)]


@pytest.mark.parametrize("text, expected", [
    ("(int) 5", 5), ("(bigint) 5", 5), ("(text) 'x'", "x"), ("(list<int>) [1, 2]", [1, 2]),
    ("(set<text>) {{'a'}}", {"a"}), ("(map<text, int>) {{'a': 1}}", {"a": 1}),
    ("(tuple<int, text>) (1, 'a')", (1, "a")), ("(decimal) 1.5", Decimal("1.5")),
])
def test_type_hints(db, t, text, expected):
    assert db.one(f"SELECT {text.format()} FROM {t} WHERE k = 1") == expected


@pytest.mark.parametrize("text", ["(int) 'x'", "(text) 5", "(list<int>) ['a']", "(int) c_text",
                                  "(nothing) 5"])
def test_refused_type_hints(db, t, text):
    with pytest.raises((InvalidRequest, SyntaxException)):
        db.run(f"SELECT {text} FROM {t}")


@pytest.mark.parametrize("call, kind", [
    ("toDate(c_timeuuid)", "date"), ("toTimestamp(c_timeuuid)", "timestamp"),
    ("toUnixTimestamp(c_timeuuid)", "number"), ("to_unix_timestamp(c_timeuuid)", "number"),
    ("toUnixTimestamp(c_date)", "number"), ("toUnixTimestamp(c_timestamp)", "number"),
    ("toDate(c_timestamp)", "date"), ("toTimestamp(c_date)", "timestamp"),
    ("min_timeuuid(c_timestamp)", "uuid"), ("max_timeuuid(c_timestamp)", "uuid"),
    ("current_timestamp()", "timestamp"), ("current_date()", "date"), ("current_time()", "time"),
    ("current_timeuuid()", "uuid"), ("now()", "uuid"), ("uuid()", "uuid"),
])
def test_kinds_of_times(db, t, call, kind):
    value = db.one(f"SELECT {call} FROM {t} WHERE k = 1")
    names = {"date": "Date", "timestamp": "datetime", "number": "int", "uuid": "UUID",
             "time": "Time"}
    assert type(value).__name__ == names[kind]


@pytest.mark.parametrize("old, new", [
    ("minTimeuuid(c_timestamp)", "min_timeuuid(c_timestamp)"),
    ("maxTimeuuid(c_timestamp)", "max_timeuuid(c_timestamp)"),
    ("toDate(c_timeuuid)", "to_date(c_timeuuid)"), ("toJson(c_int)", "to_json(c_int)"),
])
def test_old_names_mean_the_same(db, t, old, new):
    assert len(set(map(str, db.rows(f"SELECT {old}, {new} FROM {t} WHERE k = 1")[0]))) == 1


@pytest.mark.parametrize("call", ["dateOf(c_timeuuid)", "unixTimestampOf(c_timeuuid)"])
def test_names_that_cassandra_took_away(db, t, call):
    new = {"dateOf": "toTimestamp", "unixTimestampOf": "toUnixTimestamp"}[call.split("(")[0]]
    row = db.rows(f"SELECT {call}, {new}(c_timeuuid) FROM {t} WHERE k = 1")[0]
    assert row[0] == row[1] is not None


def test_bounds_of_the_timeuuids_of_a_time(db):
    t = db.table("k int, u timeuuid, PRIMARY KEY (k, u)")
    for stamp in ("2020-01-01 00:00:00.000+0000", "2020-01-01 00:00:00.001+0000"):
        for bound in ("min", "max"):
            db.run(f"INSERT INTO {t} (k, u) VALUES (1, {bound}Timeuuid('{stamp}'))")
    select = f"SELECT count(*) FROM {t} WHERE k = 1 AND u"
    assert db.one(f"{select} > maxTimeuuid('2020-01-01 00:00+0000')") == 2
    assert db.one(f"{select} >= minTimeuuid('2020-01-01 00:00+0000') AND u <= "
                  "maxTimeuuid('2020-01-01 00:00+0000')") == 2
    low, high = db.rows("SELECT minTimeuuid('2020-01-01 00:00+0000'), "
                        f"maxTimeuuid('2020-01-01 00:00+0000') FROM {t} LIMIT 1")[0]
    assert low.version == 1 and isinstance(high, uuid.UUID)
    assert low.time == high.time - 9999


@pytest.mark.parametrize("expression, expected", [
    ("c_int + 1", 8), ("c_int - 10", -3), ("c_int * 3", 21), ("c_int / 2", 3), ("c_int % 4", 3),
    ("-c_int", -7), ("c_int + 2 * 3", 13), ("(c_int + 2) * 3", 27), ("c_double / 2", 3.5),
    ("c_decimal + 0.5", Decimal("7.5")), ("c_bigint * 1000000000000", 7000000000000),
    ("c_varint * c_varint", 49), ("c_timestamp + 1d", datetime.datetime(2020, 1, 3, 3, 4, 5)),
])
def test_arithmetic(db, t, expression, expected):
    assert db.one(f"SELECT {expression} FROM {t} WHERE k = 1") == expected
    assert db.one(f"SELECT {expression} FROM {t} WHERE k = 2") is None


@pytest.mark.parametrize("expression", ["c_int / 0", "c_int % 0", "c_text + 1", "c_boolean * 2",
                                        "c_int + c_text", "c_date - 1h"])
def test_refused_arithmetic(db, t, expression):
    with pytest.raises(Exception) as caught:
        db.run(f"SELECT {expression} FROM {t} WHERE k = 1")
    assert "Server" not in type(caught.value).__name__, caught.value
