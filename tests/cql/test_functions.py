"""Functions of the language: time, uuid, blob, token, cast, JSON."""
import datetime
import json
import uuid

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException

TIMEUUID = "c4e2f8a0-1d3b-11f0-8de9-0242ac120002"


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("k int PRIMARY KEY, i int, b bigint, d double, e decimal, t text, u timeuuid, "
                 "ts timestamp, dt date, bl blob, bo boolean, f float, si smallint, vi varint")
    db.run(f"INSERT INTO {t} (k, i, b, d, e, t, u, ts, dt, bl, bo, f, si, vi) VALUES (1, 7, "
           f"5000000000, 2.75, 1.50, 'txt', {TIMEUUID}, '2026-11-21 10:00:00.123+0000', "
           "'2026-11-21', 0x0102, true, 0.5, 300, 99999999999999999999)")
    return t


DAY = datetime.date(2026, 11, 21)
CASES = [
    ("intAsBlob(i)", b"\x00\x00\x00\x07"),
    ("bigintAsBlob(b)", (5000000000).to_bytes(8, "big")),
    ("textAsBlob(t)", b"txt"),
    ("blobAsSmallint(bl)", 258),
    ("blobAsText(textAsBlob(t))", "txt"),
    ("toUnixTimestamp(ts)", 1795255200123),
    ("toUnixTimestamp(dt)", 1795219200000),
    ("cast(i AS text)", "7"),
    ("cast(i AS bigint)", 7),
    ("cast(d AS int)", 2),
    ("cast(e AS double)", 1.5),
    ("cast(b AS double)", 5000000000.0),
    ("cast(f AS text)", "0.5"),
    ("cast(si AS varint)", 300),
    ("cast(bo AS text)", "true"),
    ("cast(dt AS text)", "2026-11-21"),
    ("toJson(t)", '"txt"'),
    ("toJson(bo)", "true"),
    ("toJson(bl)", '"0x0102"'),
    ("toJson(i)", "7"),
]


@pytest.mark.parametrize("call, expected", CASES, ids=[case[0] for case in CASES])
def test_results(db, t, call, expected):
    assert db.one(f"SELECT {call} FROM {t}") == expected


def test_dates_of_time_uuids(db, t):
    row = db.run(f"SELECT toTimestamp(u) AS a, toDate(u) AS b, toUnixTimestamp(u) AS c, "
                 f"toDate(ts) AS d, toTimestamp(dt) AS e FROM {t}").one()
    ticks = uuid.UUID(TIMEUUID).time
    millis = (ticks - 0x01b21dd213814000) // 10_000
    assert row.c == millis
    assert abs((row.a - datetime.datetime(1970, 1, 1)).total_seconds() * 1000 - millis) < 1
    assert row.b.date() == row.a.date()
    assert row.d.date() == DAY and row.e == datetime.datetime(2026, 11, 21)


def test_time_goes_on(db, t):
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    row = db.run("SELECT currentTimestamp() AS a, currentDate() AS b, currentTimeUUID() AS c, "
                 f"now() AS d, uuid() AS e FROM {t}").one()
    assert abs((row.a - now).total_seconds()) < 60
    assert abs((row.b.date() - now.date()).days) <= 1
    assert row.c.version == 1 and row.d.version == 1 and row.e.version == 4
    assert db.one(f"SELECT uuid() FROM {t}") != db.one(f"SELECT uuid() FROM {t}")


def test_functions_in_values_and_restrictions(db):
    t = db.table("p int, c timeuuid, v blob, w text, PRIMARY KEY (p, c)")
    db.run(f"INSERT INTO {t} (p, c, v, w) VALUES (1, now(), intAsBlob(5), blobAsText(0x6162))")
    assert db.rows(f"SELECT v, w FROM {t}") == [(b"\x00\x00\x00\x05", "ab")]
    past, future = "'2020-01-01 00:00+0000'", "'2099-01-01 00:00+0000'"
    inside = f"c > minTimeuuid({past}) AND c < maxTimeuuid({future})"
    assert len(db.rows(f"SELECT c FROM {t} WHERE p = 1 AND {inside}")) == 1
    assert db.rows(f"SELECT c FROM {t} WHERE p = 1 AND c < minTimeuuid({past})") == []


def test_token(db, t):
    (token,) = db.column(f"SELECT token(k) FROM {t}")
    assert db.rows(f"SELECT k FROM {t} WHERE token(k) = {token}") == [(1,)]
    # Murmur3 of the four bytes of 1, as every driver computes it.
    assert token == -4069959284402364209


def test_json(db):
    t = db.table('k int PRIMARY KEY, "Mixed" text, l list<int>, m map<text, int>, '
                 "u uuid, d double, n decimal")
    db.run(f"INSERT INTO {t} JSON '{{\"k\": 1, \"\\\"Mixed\\\"\": \"a\\nb\", \"l\": [1, 2], "
           "\"m\": {\"x\": 1}, \"d\": 1.5}'")
    assert db.rows(f'SELECT k, "Mixed", l, m, d, u FROM {t}') \
        == [(1, "a\nb", [1, 2], {"x": 1}, 1.5, None)]
    text = db.one(f'SELECT JSON k, "Mixed", l, m, u FROM {t}')
    assert json.loads(text) == {"k": 1, '"Mixed"': "a\nb", "l": [1, 2], "m": {"x": 1}, "u": None}
    assert json.loads(db.one(f"SELECT toJson(m) FROM {t}")) == {"x": 1}
    db.run(f"INSERT INTO {t} JSON '{{\"k\": 1, \"d\": 2}}'")
    assert db.rows(f'SELECT "Mixed", d FROM {t}') == [(None, 2.0)]
    db.run(f"INSERT INTO {t} JSON '{{\"k\": 1, \"n\": 5}}' DEFAULT UNSET")
    assert db.rows(f"SELECT d FROM {t}") == [(2.0,)]
    for text in ["nonsense", "{}", '{"k": "text"}', '{"k": 1, "nope": 2}', '{"k": null}']:
        with pytest.raises(InvalidRequest):
            db.run(f"INSERT INTO {t} JSON '{text}'")


@pytest.mark.parametrize("call", [
    "noSuchFunction(k)", "intAsBlob(t)", "intAsBlob()", "intAsBlob(i, i)", "toDate(i)",
    "cast(t AS int)", "cast(bl AS int)", "blobAsInt(bl)", "token(t)", "token(i, i)", "writetime(k)", "ttl(k)",
])
def test_refused_calls(db, t, call):
    with pytest.raises((InvalidRequest, SyntaxException)):
        db.run(f"SELECT {call} FROM {t}")


def test_blobs_of_counters(db):
    numbers = db.table("p int PRIMARY KEY, i bigint, c int")
    counters = db.table("p int PRIMARY KEY, c counter")
    db.run(f"INSERT INTO {numbers} (p, i, c) VALUES (1, 1000, 7)")
    db.run(f"UPDATE {counters} SET c = c + 1000 WHERE p = 1")
    for name in ("counterAsBlob", "counter_as_blob"):
        assert db.one(f"SELECT {name}(c) FROM {counters}") == (1000).to_bytes(8, "big")
    assert db.one(f"SELECT blobAsCounter(bigintAsBlob(i)) FROM {numbers}") == 1000
    db.refuse(f"SELECT counterAsBlob(i) FROM {numbers}", "counterasblob")
    db.refuse(f"SELECT blobAsCounter(intAsBlob(c)) FROM {numbers}", "blobascounter")
