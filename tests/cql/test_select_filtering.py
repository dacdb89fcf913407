"""ALLOW FILTERING against a model: any mix of conditions, limits and page sizes."""
import itertools

import pytest

# (p, c, v, x, s, e): key, clustering, values, a static column, a set.
ROWS = [(p, c, (p * 7 + c * 3) % 5, None if c % 4 == 3 else f"x{(p + c) % 3}", p % 2, {c % 3, 9})
        for p in range(4) for c in range(12)]
# Partitions with nothing but a static row.
LONE = [(10, 0), (11, 1)]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int, c int, v int, x text, s int static, e set<int>, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v, x, s, e) VALUES (?, ?, ?, ?, ?, ?)")
    for row in ROWS:
        db.session.execute(insert, row)
    for p, s in LONE:
        db.run(f"INSERT INTO {t} (p, s) VALUES ({p}, {s})")
    return t


def model(t, db, test):
    """The rows that pass, in the order of the table."""
    order = db.column(f"SELECT DISTINCT p FROM {t}")
    alone = [(p, None, None, None, s, set()) for p, s in LONE]
    rows = ROWS + alone
    passing = [row for row in rows if test(*row)]
    return sorted(passing, key=lambda row: (order.index(row[0]), row[1] or 0))


CONDITIONS = [
    ("v = 2", lambda p, c, v, x, s, e: v == 2),
    ("v > 1 AND v < 4", lambda p, c, v, x, s, e: v in (2, 3)),
    ("x = 'x1'", lambda p, c, v, x, s, e: x == "x1"),
    ("x >= 'x1' AND c < 6", lambda p, c, v, x, s, e: x is not None and x >= "x1" and c < 6),
    ("s = 1", lambda p, c, v, x, s, e: s == 1),
    ("s = 0 AND v = 1", lambda p, c, v, x, s, e: s == 0 and v == 1),
    ("c = 5", lambda p, c, v, x, s, e: c == 5),
    ("c IN (1, 4, 20) AND x IN ('x0', 'x2')",
     lambda p, c, v, x, s, e: c in (1, 4) and x in ("x0", "x2")),
    ("p > 0 AND p < 3", lambda p, c, v, x, s, e: 0 < p < 3),
    ("p IN (1, 10) AND s = 0", lambda p, c, v, x, s, e: p in (1, 10) and s == 0),
    ("e CONTAINS 1", lambda p, c, v, x, s, e: 1 in e),
    ("e CONTAINS 2 AND e CONTAINS 9 AND v NOT IN (0, 1)",
     lambda p, c, v, x, s, e: 2 in e and v not in (0, 1)),
    ("x LIKE '%2'", lambda p, c, v, x, s, e: x == "x2"),
    ("v = 9", lambda *row: False),
]


def pairs(rows):
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("where, test", CONDITIONS, ids=[case[0] for case in CONDITIONS])
def test_filters_limits_and_pages(db, t, where, test):
    expected = pairs(model(t, db, test))
    select = f"SELECT p, c FROM {t} WHERE {where} "
    if where.startswith("p IN"):  # Partitions that are named come in the order of their names.
        expected.sort(key=lambda row: (row[0], row[1] or 0))
    for size in (1, 2, 5, 5000):
        pages = db.pages(select + "ALLOW FILTERING", size)
        assert [row for page in pages for row in page] == expected
        assert all(len(page) <= size for page in pages)
        for limit in (1, 3, 7, 100):
            pages = db.pages(select + f"LIMIT {limit} ALLOW FILTERING", size)
            assert [row for page in pages for row in page] == expected[:limit]
        for each in (1, 2, 4):
            groups = itertools.groupby(expected, key=lambda row: row[0])
            some = [row for _, rows in groups for row in itertools.islice(rows, each)]
            pages = db.pages(select + f"PER PARTITION LIMIT {each} ALLOW FILTERING", size)
            assert [row for page in pages for row in page] == some
            pages = db.pages(select + f"PER PARTITION LIMIT {each} LIMIT 3 ALLOW FILTERING", size)
            assert [row for page in pages for row in page] == some[:3]
    assert db.column(f"SELECT count(*) FROM {t} WHERE {where} ALLOW FILTERING") == [len(expected)]


@pytest.mark.parametrize("where, test", [
    ("v < 3", lambda p, c, v, x, s, e: v is not None and v < 3),
    ("s = 1 AND c > 2", lambda p, c, v, x, s, e: s == 1 and c is not None and c > 2),
])
def test_reversed_with_filters_and_pages(db, t, where, test):
    rows = [c for p, c in pairs(model(t, db, test)) if p == 1][::-1]
    for size in (1, 3, 100):
        pages = db.pages(f"SELECT c FROM {t} WHERE p = 1 AND {where} ORDER BY c DESC "
                         "ALLOW FILTERING", size)
        assert [row[0] for page in pages for row in page] == rows


def test_distinct_with_statics_and_pages(db, t):
    everything = db.rows(f"SELECT DISTINCT p, s FROM {t}")
    assert sorted(everything) == sorted({(row[0], row[4]) for row in ROWS} | set(LONE))
    for size in (1, 2, 50):
        pages = db.pages(f"SELECT DISTINCT p, s FROM {t}", size)
        assert [row for page in pages for row in page] == everything
        pages = db.pages(f"SELECT DISTINCT p, s FROM {t} WHERE s = 1 ALLOW FILTERING", size)
        assert [row for page in pages for row in page] == [row for row in everything if row[1] == 1]
    assert db.rows(f"SELECT DISTINCT s FROM {t} WHERE p = 10") == [(0,)]
    assert db.rows(f"SELECT DISTINCT s FROM {t} WHERE p IN (11, 10)") == [(0,), (1,)]


def test_filters_on_counters_tuples_and_parts(db):
    t = db.table("p int, c int, n counter, PRIMARY KEY (p, c)")
    for c in range(5):
        db.run(f"UPDATE {t} SET n = n + {c} WHERE p = 1 AND c = {c}")
    assert db.column(f"SELECT c FROM {t} WHERE n > 2 ALLOW FILTERING") == [3, 4]
    assert db.column(f"SELECT c FROM {t} WHERE n = 1 AND p = 1 ALLOW FILTERING") == [1]
    user = db.type("a int, b text")
    t = db.table(f"p int PRIMARY KEY, t tuple<int, text>, f frozen<list<int>>, u frozen<{user}>, "
                 "m frozen<map<int, int>>")
    for p in range(4):
        db.run(f"INSERT INTO {t} (p, t, f, u, m) VALUES ({p}, ({p}, 'x'), [{p}, 1], "
               f"{{a: {p}, b: 'y'}}, {{1: {p}}})")
    check = lambda where, expected: \
        sorted(db.column(f"SELECT p FROM {t} WHERE {where} ALLOW FILTERING")) == expected
    assert check("t = (2, 'x')", [2])
    assert check("t > (1, 'x')", [2, 3])
    assert check("t IN ((0, 'x'), (3, 'x'), (3, 'y'))", [0, 3])
    assert check("f = [2, 1]", [2])
    assert check("f CONTAINS 3", [3])
    assert check("u = {a: 1, b: 'y'}", [1])
    assert check("m = {1: 2}", [2])
    assert check("m CONTAINS KEY 1 AND m CONTAINS 0", [0])
    db.refuse(f"SELECT p FROM {t} WHERE m[1] = 2 ALLOW FILTERING", "Map-entry equality predicates")
    json = db.column(f"SELECT JSON p, t FROM {t} WHERE u = {{a: 3, b: 'y'}} ALLOW FILTERING")
    assert json == ['{"p": 3, "t": [3, "x"]}']


def test_durations_have_no_order(db):
    user = db.type("i int, d duration")
    t = db.table(f"p int PRIMARY KEY, d duration, l frozen<list<duration>>, u frozen<{user}>, "
                 "t tuple<int, duration>")
    for column, value in [("d", "1h"), ("l", "[1h]"), ("u", "{i: 1, d: 1h}"), ("t", "(1, 1h)")]:
        db.refuse(f"SELECT * FROM {t} WHERE {column} > {value} ALLOW FILTERING", "duration")
