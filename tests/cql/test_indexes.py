"""SELECT by secondary indexes: what it answers, page by page, and what it refuses."""
import pytest
from cassandra import InvalidRequest

KEY = "p int, q int, c int, d int, PRIMARY KEY ((p, q), c, d)"
ROWS = [(p, q, c, d) for p in range(3) for q in range(2) for c in range(3) for d in range(2)]
SIZES = [1, 2, 3, 7, 100]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    """A table with an index of each kind, and the same without."""
    columns = "s int STATIC, v int, w int, m map<int, text>, z set<int>, l list<int>, " + KEY
    indexed, plain = db.table(columns), db.table(columns)
    for target in ["q", "c", "d", "s", "v", "(p, q), w", "keys(m)", "values(m)", "entries(m)", "z",
                   "l"]:
        db.run(f"CREATE INDEX ON {indexed} ({target})")
    for name in (indexed, plain):
        insert = db.session.prepare(f"INSERT INTO {name} (p, q, c, d, s, v, w, m, z, l) "
                                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        for p, q, c, d in ROWS:
            m = {k: str((p + k) % 3) for k in range(d + 1)}
            row = (p, q, c, d, p + q, (c + d) % 3, c, m, {c, d}, [d, d])
            db.session.execute(insert, row)
    return indexed, plain


CONDITIONS = [
    "v = 1", "v = 9", "v IN (0, 2)", "q = 1", "c = 2", "(c) = (2)", "d = 1", "s = 2",
    "m CONTAINS '1'", "m CONTAINS KEY 1", "m[0] = '2'", "z CONTAINS 2", "l CONTAINS 1",
    "v = 1 AND p = 1 AND q = 0", "v = 1 AND p = 1 AND q = 0 AND c = 2",
    "v = 1 AND p = 1 AND q = 0 AND (c, d) > (0, 1)", "w = 1 AND p = 1 AND q = 0",
    "v = 1 AND token(p, q) > 0", "s = 1 AND p = 1 AND q = 0 AND c = 2",
]
FILTERED = ["v = 1 AND w = 1", "v = 1 AND v = 2", "v = 1 AND p = 1", "v = 1 AND c > 0",
            "c = 1 AND d = 1", "s = 2 AND c = 1", "v = 1 AND m CONTAINS '1'", "w = 1", "v > 0"]


@pytest.mark.parametrize("condition", CONDITIONS + FILTERED)
@pytest.mark.parametrize("what", ["*", "p, q, c, d, w", "JSON v, z"])
def test_rows_are_those_of_a_scan(db, t, condition, what):
    indexed, plain = t
    expected = db.rows(f"SELECT {what} FROM {plain} WHERE {condition} ALLOW FILTERING")
    assert db.rows(f"SELECT {what} FROM {indexed} WHERE {condition} ALLOW FILTERING") == expected
    if condition in CONDITIONS:
        select = f"SELECT {what} FROM {indexed} WHERE {condition}"
        assert db.rows(select) == expected
        for size in SIZES:
            pages = db.pages(select, size)
            assert [row for page in pages for row in page] == expected
            assert all(len(page) <= size for page in pages)
    else:
        with pytest.raises(InvalidRequest):
            db.run(f"SELECT {what} FROM {indexed} WHERE {condition}")


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("what,behind", [
    ("count(*), sum(w), max(v)", ""), ("p, q, count(*)", "GROUP BY p, q"),
    ("p, q, c, min(d)", "GROUP BY p, q, c"), ("p, c, d", "LIMIT 3"),
    ("p, c, d", "PER PARTITION LIMIT 2"), ("p, c, d", "PER PARTITION LIMIT 1 LIMIT 2")])
def test_groups_and_limits_are_those_of_a_scan(db, t, condition, what, behind):
    indexed, plain = t
    expected = db.rows(f"SELECT {what} FROM {plain} WHERE {condition} {behind} ALLOW FILTERING")
    select = f"SELECT {what} FROM {indexed} WHERE {condition} {behind}"
    assert db.rows(select) == expected
    for size in SIZES:
        assert [row for page in db.pages(select, size) for row in page] == expected


def test_rows_follow_writes(db):
    t = db.table("p int PRIMARY KEY, v text, m map<text, int>")
    for target in ("v", "keys(m)", "entries(m)"):
        db.run(f"CREATE INDEX ON {t} ({target})")
    by_v = "SELECT p FROM " + t + " WHERE v = '{}'"
    db.run(f"INSERT INTO {t} (p, v, m) VALUES (1, 'a', {{'x': 1}})")
    db.run(f"INSERT INTO {t} (p, v) VALUES (2, 'a')")
    assert sorted(db.rows(by_v.format("a"))) == [(1,), (2,)]
    db.run(f"UPDATE {t} SET v = 'b' WHERE p = 1")
    assert db.rows(by_v.format("a")) == [(2,)] and db.rows(by_v.format("b")) == [(1,)]
    db.run(f"UPDATE {t} SET m['y'] = 2, m['x'] = null WHERE p = 1")
    assert db.rows(f"SELECT p FROM {t} WHERE m CONTAINS KEY 'x'") == []
    assert db.rows(f"SELECT p FROM {t} WHERE m CONTAINS KEY 'y'") == [(1,)]
    assert db.rows(f"SELECT p FROM {t} WHERE m['y'] = 2") == [(1,)]
    db.run(f"DELETE v FROM {t} WHERE p = 2")
    db.run(f"DELETE FROM {t} WHERE p = 1")
    assert db.rows(by_v.format("a")) == [] and db.rows(by_v.format("b")) == []
    # An empty text is a value, a null is none.
    db.run(f"INSERT INTO {t} (p, v) VALUES (3, '')")
    assert db.rows(by_v.format("")) == [(3,)]
    assert db.rows(f"SELECT p FROM {t} WHERE v = null") == []


def test_refusals(db, t):
    indexed, _ = t
    with pytest.raises(InvalidRequest, match="ORDER BY with 2ndary indexes is not supported."):
        db.run(f"SELECT * FROM {indexed} WHERE v = 1 AND p = 1 AND q = 1 ORDER BY c DESC")
    with pytest.raises(InvalidRequest):
        db.run(f"DELETE FROM {indexed} WHERE v = 1")
    with pytest.raises(InvalidRequest):
        db.run(f"UPDATE {indexed} SET w = 1 WHERE v = 1")
