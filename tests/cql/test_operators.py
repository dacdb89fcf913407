"""Arithmetic: numbers of every pair of types, texts, dates with durations, and its refusals."""
import datetime
from decimal import Decimal

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import FunctionFailure

COLUMNS = ("k int PRIMARY KEY, ti tinyint, si smallint, i int, b bigint, f float, d double, "
           "v varint, e decimal, t text, ts timestamp, dt date, bo boolean")

CASES = [
    ("ti + ti", 2), ("ti + si", 3), ("si * i", 6), ("i - b", -1), ("b / ti", 4), ("b % i", 1),
    ("i + f", 8.5), ("f / d", 5.5 / 6.5), ("v + b", 11), ("v / i", 2), ("v % i", 1),
    ("v + d", Decimal("13.5")), ("e * ti", Decimal("8.5")), ("e / i", Decimal("2." + "83" + "3" * 30)),
    ("e % i", Decimal("2.5")), ("-e", Decimal("-8.5")), ("-ti", -1), ("- -i", 3),
    ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 / 2", 3), ("7.0 / 2", 3.5), ("100 + 50", 150),
    ("i + null", None), ("t + ' ' + t", "a a"), ("(i + 1) * 2 - ti", 7),
    ("ts - 10m", datetime.datetime(2016, 9, 27, 16, 0)),
    ("ts + 1mo", datetime.datetime(2016, 10, 27, 16, 10)),
    ("toUnixTimestamp(dt - 2d)", 1474761600000),
    ("f / 0", float("inf")),
]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table(COLUMNS)
    db.run(f"INSERT INTO {t} (k, ti, si, i, b, f, d, v, e, t, ts, dt, bo) VALUES (1, 1, 2, 3, 4, "
           "5.5, 6.5, 7, 8.5, 'a', '2016-09-27 16:10:00+0000', '2016-09-27', true)")
    return t


@pytest.mark.parametrize("term, expected", CASES, ids=[case[0] for case in CASES])
def test_results(db, t, term, expected):
    if term == "i + null":
        with pytest.raises(InvalidRequest):
            db.run(f"SELECT {term} FROM {t}")
    else:
        assert db.one(f"SELECT {term} FROM {t}") == expected


@pytest.mark.parametrize("term, words", [
    ("i / 0", "the operation 'int / int' failed: / by zero"),
    ("v / 0", "the operation 'varint / int' failed: BigInteger divide by zero"),
    ("e % 0", "the operation 'decimal % int' failed"),
    ("e + NaN", "A NaN cannot be converted into a decimal"),
    ("e + Infinity", "An infinite number cannot be converted into a decimal"),
    ("ts - 10us", "The duration must have a millisecond precision. Was: 10us"),
    ("dt - 10m", "The duration must have a day precision. Was: 10m"),
])
def test_failures(db, t, term, words):
    db.refuse(f"SELECT {term} FROM {t}", words, kind=FunctionFailure)


@pytest.mark.parametrize("term, words", [
    ("i + bo", "the '+' operation is not supported between i and bo"),
    ("bo / 1", "the '/' operation is not supported between bo and 1"),
    ("ts * 10m", "the '*' operation is not supported between ts and 10m"),
    ("dt % 10m", "the '%' operation is not supported between dt and 10m"),
])
def test_types_without_operation(db, t, term, words):
    db.refuse(f"SELECT {term} FROM {t}", words)


def test_bind_markers_need_a_type(db, t):
    words = "use type hint to disambiguate"
    db.refuse(f"SELECT %s + 1 FROM {t}".replace("%s", "?"), words)
    assert db.prepared(f"SELECT i + (int) ? FROM {t}", 2147483647) == [(-2147483646,)]
    assert db.prepared(f"SELECT ti + (tinyint) ? FROM {t}", 127) == [(-128,)]


def test_in_values_and_restrictions(db):
    t = db.table("k int, c smallint, v double, PRIMARY KEY (k, c)")
    db.run(f"INSERT INTO {t} (k, c, v) VALUES (1 + 1, 2 * (1 + 1), 1.5 - 1)")
    assert db.rows(f"SELECT k, c, v FROM {t} WHERE k = 4 - 2 AND c = 8 / 2") == [(2, 4, 0.5)]
    db.run(f"UPDATE {t} SET v = -(2 + 1) WHERE k = 2 AND c = 4")
    assert db.prepared(f"SELECT v FROM {t} WHERE k = (int) ? / 2 AND c > 1 + 1", 4) == [(-3.0,)]
    db.refuse(f"INSERT INTO {t} (k, c) VALUES (1.5 + 1, 1)", "is not supported between")
    db.refuse(f"SELECT v FROM {t} WHERE k = 1 AND c = 1 / 0", "'smallint / smallint' failed: / by",
              kind=FunctionFailure)


def test_casts_in_values(db):
    t = db.table("k int PRIMARY KEY, v int")
    db.run(f"INSERT INTO {t} (k, v) VALUES (CAST(1.7 AS int), CAST(CAST(2.3 AS float) AS int))")
    assert db.rows(f"SELECT * FROM {t} WHERE k = CAST(1.2 AS int)") == [(1, 2)]
    db.refuse(f"INSERT INTO {t} (k, v) VALUES (1, CAST(? AS int))", "castAsInt")


def test_names_of_results(db, t):
    names = db.run(f"SELECT i + 1, CAST(i AS int), CAST(i AS text) FROM {t}").column_names
    assert names[1] == "i"
