"""count, min, max, sum, avg; GROUP BY."""
from decimal import Decimal

import pytest
from cassandra import InvalidRequest


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int, c int, d int, i int, b bigint, f double, e decimal, v varint, x text, "
                 "s int static, PRIMARY KEY (p, c, d)")
    for p in range(3):
        db.run(f"INSERT INTO {t} (p, s) VALUES ({p}, {p})")
        for c in range(4):
            for d in range(2):
                n = p * 100 + c * 10 + d
                i = "null" if d else n
                db.run(f"INSERT INTO {t} (p, c, d, i, b, f, e, v, x) VALUES "
                       f"({p}, {c}, {d}, {i}, {n}, {n}.5, {n}.25, {n}, 'x{n:03}')")
    return t


NUMBERS = [p * 100 + c * 10 + d for p in range(3) for c in range(4) for d in range(2)]
EVEN = [n for n in NUMBERS if n % 10 == 0]

CASES = [
    ("count(*)", "", 24),
    ("count(1)", "", 24),
    ("count(i)", "", 12),
    ("count(*)", "WHERE p = 1", 8),
    ("count(*)", "WHERE p = 1 AND c > 1", 4),
    ("count(*)", "WHERE p = 9", 0),
    ("count(*)", "WHERE p IN (0, 2)", 16),
    ("sum(i)", "", sum(EVEN)),
    ("sum(b)", "", sum(NUMBERS)),
    ("sum(f)", "", sum(n + 0.5 for n in NUMBERS)),
    ("sum(e)", "", sum(Decimal(f"{n}.25") for n in NUMBERS)),
    ("sum(v)", "", sum(NUMBERS)),
    ("avg(b)", "", sum(NUMBERS) // len(NUMBERS)),
    ("avg(f)", "", sum(n + 0.5 for n in NUMBERS) / len(NUMBERS)),
    ("min(b)", "", 0), ("max(b)", "", 231), ("min(x)", "", "x000"), ("max(x)", "", "x231"),
    ("min(f)", "WHERE p = 1", 100.5), ("max(e)", "WHERE p = 0", Decimal("31.25")),
    ("min(i)", "WHERE p = 9", None), ("max(i)", "WHERE p = 9", None),
    ("sum(i)", "WHERE p = 9", 0),
    ("max(s)", "", 2),
    ("count(*)", "WHERE b > 120 ALLOW FILTERING", sum(n > 120 for n in NUMBERS)),
]


@pytest.mark.parametrize("call, tail, expected", CASES)
def test_results(db, t, call, tail, expected):
    got = db.one(f"SELECT {call} FROM {t} {tail}")
    assert got == pytest.approx(expected) if isinstance(expected, float) else got == expected


def test_several_at_once_and_small_pages(db, t):
    text = f"SELECT count(*), min(b), max(b), sum(b), count(i) FROM {t}"
    expected = (24, 0, 231, sum(NUMBERS), 12)
    assert db.rows(text) == [expected]
    assert [row for page in db.pages(text, 3) for row in page] == [expected]


@pytest.mark.parametrize("group, tail, expected", [
    ("p", "", [(p, None, 8, p * 100 + 31) for p in range(3)]),
    ("p, c", "WHERE p = 1", [(1, c, 2, 100 + c * 10 + 1) for c in range(4)]),
    ("p, c", "WHERE p = 1 AND c > 1", [(1, c, 2, 100 + c * 10 + 1) for c in range(2, 4)]),
])
def test_groups(db, t, group, tail, expected):
    rows = db.rows(f"SELECT p, c, count(*), max(b) FROM {t} {tail} GROUP BY {group}")
    rows = [(p, None if group == "p" else c, n, m) for p, c, n, m in rows]
    assert sorted(rows, key=str) == sorted(expected, key=str)
    pages = db.pages(f"SELECT p, c, count(*), max(b) FROM {t} {tail} GROUP BY {group}", 1)
    assert len([row for page in pages for row in page]) == len(expected)


def test_limits_of_groups(db, t):
    select = f"SELECT p, c, count(*) FROM {t}"
    assert len(db.rows(f"{select} GROUP BY p, c LIMIT 5")) == 5
    assert len(db.rows(f"{select} GROUP BY p, c PER PARTITION LIMIT 2")) == 6
    assert db.rows(f"SELECT count(*) FROM {t} LIMIT 1") == [(24,)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 100])
@pytest.mark.parametrize("tail", [
    "GROUP BY p", "GROUP BY p, c", "GROUP BY p, c, d", "GROUP BY p, c LIMIT 5",
    "GROUP BY p, c PER PARTITION LIMIT 3", "GROUP BY p, c PER PARTITION LIMIT 2 LIMIT 5",
    "WHERE p = 1 GROUP BY c", "WHERE p = 1 GROUP BY c ORDER BY c DESC",
    "WHERE p IN (2, 0) GROUP BY p, c", "WHERE b > 11 GROUP BY p, c ALLOW FILTERING",
])
def test_pages_of_groups(db, t, size, tail):
    select = f"SELECT p, c, count(*), max(b) FROM {t} {tail}"
    whole = db.pages(select, 5000)
    pages = db.pages(select, size)
    assert [row for page in pages for row in page] == [row for page in whole for row in page]
    assert all(len(page) == size for page in pages[:-1]) and len(pages[-1]) <= size


def test_groups_in_an_order_of_their_own(db, t):
    from cassandra.query import SimpleStatement
    text = f"SELECT p, c, count(*) FROM {t} WHERE p IN (0, 1) GROUP BY p, c ORDER BY c DESC LIMIT 3"
    rows = db.session.execute(SimpleStatement(text, fetch_size=None))
    assert [tuple(row) for row in rows] == [(0, 3, 2), (1, 3, 2), (0, 2, 2)]


@pytest.mark.parametrize("statement", [
    "SELECT sum(x) FROM {t}", "SELECT avg(x) FROM {t}", "SELECT count(nope) FROM {t}",
    "SELECT p, count(*) FROM {t} GROUP BY c", "SELECT count(*) FROM {t} GROUP BY i",
    "SELECT sum(p, c) FROM {t}", "SELECT count(*) FROM {t} PER PARTITION LIMIT 1",
    "SELECT sum(count(i)) FROM {t}", "SELECT p FROM {t} WHERE p = sum((int) 1)",
    "SELECT count(?) FROM {t}", "SELECT DISTINCT p, count(*) FROM {t} GROUP BY p, c",
])
def test_refused(db, t, statement):
    with pytest.raises(InvalidRequest):
        db.run(statement.format(t=t))


@pytest.mark.parametrize("column, values", [
    ("tinyint", [127, 1]), ("smallint", [32767, 1]), ("int", [2**31 - 1, 1]),
    ("bigint", [2**63 - 1, 1]),
])
def test_a_sum_beyond_its_type(db, column, values):
    t = db.table(f"k int PRIMARY KEY, v {column}")
    for k, value in enumerate(values):
        db.run(f"INSERT INTO {t} (k, v) VALUES ({k}, {value})")
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[column]
    try:
        got = db.one(f"SELECT sum(v) FROM {t}")
    except InvalidRequest:
        return
    assert got == -(2 ** (bits - 1))
