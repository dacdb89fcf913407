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


LONG = "x" * 65_536


@pytest.mark.parametrize("target, columns, value, found_by", [
    ("v", "v text", "{}", "v = %s"), ("(p), v", "v text", "{}", "p = 1 AND v = %s"),
    ("s", "s text STATIC", "{}", "s = %s"), ("z", "z set<text>", {"{}"}, "z CONTAINS %s"),
    ("l", "l list<text>", ["a", "{}"], "l CONTAINS %s"),
    ("values(m)", "m map<int, text>", {1: "{}"}, "m CONTAINS %s"),
    ("keys(m)", "m map<text, int>", {"a": 1, "{}": 2}, "m CONTAINS KEY %s"),
    ("entries(m)", "m map<text, text>", {"a": "{}"}, "m['a'] = %s"),
    ("full(f)", "f frozen<list<text>>", ["{}"], "f = [%s]"),
])
def test_what_is_too_long_for_an_index_is_not_written(db, target, columns, value, found_by):
    def filled(value, text):
        if isinstance(value, str):
            return value.replace("{}", text)
        if isinstance(value, dict):
            return {filled(key, text) if isinstance(key, str) else key:
                    filled(it, text) if isinstance(it, str) else it for key, it in value.items()}
        return type(value)(filled(it, text) for it in value)

    t = db.table(f"p int, c int, w text, {columns}, PRIMARY KEY (p, c)")
    name = columns.split()[0]
    # What is there before there is the index has no row in it.
    db.run(f"INSERT INTO {t} (p, c, {name}) VALUES (0, 0, %s)", filled(value, LONG))
    db.run(f"CREATE INDEX ON {t} ({target})")
    writes = [f"INSERT INTO {t} (p, c, w, {name}) VALUES (1, 1, 'w', %s)",
              f"UPDATE {t} SET w = 'w', {name} = %s WHERE p = 1 AND c = 1",
              f"INSERT INTO {t} (p, c, w, {name}) VALUES (1, 1, 'w', %s) IF NOT EXISTS",
              f"BEGIN BATCH INSERT INTO {t} (p, c, w) VALUES (2, 2, 'w'); "
              f"UPDATE {t} SET {name} = %s WHERE p = 1 AND c = 1; APPLY BATCH"]
    if name == "s":
        writes = [text.replace("WHERE p = 1 AND c = 1", "WHERE p = 1").replace("w = 'w', ", "")
                  for text in writes]
    if "<" in columns and "frozen" not in columns:
        writes.append(f"UPDATE {t} SET {name} = {name} + %s WHERE p = 1 AND c = 1")
    for write in writes:
        db.refuse(write, "cannot index value of size", filled(value, LONG))
        assert db.rows(f"SELECT p FROM {t} WHERE p IN (1, 2)") == [], write
    db.refuse(f"SELECT p FROM {t} WHERE {found_by}", "may not be larger than 64K", LONG)
    # Of what is as long as can be the row is found.
    longest = LONG[:65_000]
    db.run(writes[0], filled(value, longest))
    assert db.rows(f"SELECT p, c FROM {t} WHERE {found_by}", longest) == [(1, 1)]


@pytest.fixture(name="attached", scope="module")
def fixture_attached(db):
    """A table with storage-attached indexes and one of another class, and the same without."""
    columns = ("p int, c int, d int, v int, w int, x text, y int, z text, m map<int, text>, t timestamp, "
               "PRIMARY KEY (p, c, d)")
    indexed, plain = db.table(columns), db.table(columns)
    for target in ("v", "w", "x", "t", "d", "m", "keys(m)"):
        db.run(f"CREATE CUSTOM INDEX ON {indexed} ({target}) USING 'sai'")
    db.run(f"CREATE INDEX ON {indexed} (y)")
    db.run(f"CREATE INDEX ON {indexed} (z)")
    for name in (indexed, plain):
        insert = db.session.prepare(f"INSERT INTO {name} (p, c, d, v, w, x, y, z, m, t) "
                                    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        for p, c, d in [(p, c, d) for p in range(4) for c in range(3) for d in range(2)]:
            row = (p, c, d, c, p + d, "ab"[d], c, "ab"[d], {d: "xy"[d]}, p * 1000)
            db.session.execute(insert, row)
    return indexed, plain


@pytest.mark.parametrize("condition", [
    "v > 0", "v >= 1 AND v < 2", "v > 5", "v = 1 AND w = 2", "w = 2 AND v = 1", "v = 1 AND w > 1",
    "v > 0 AND w <= 2", "x = 'a' AND v < 2", "t > '1970-01-01 00:00:01+0000'", "v > 0 AND v > 1",
    "m CONTAINS 'x' AND v = 1", "m CONTAINS KEY 1 AND m CONTAINS 'y'", "v = 1 AND d = 0",
    "p = 1 AND v > 1", "p = 1 AND c = 2 AND w > 0", "p IN (1, 2) AND w >= 2 AND x = 'b'",
    "v IN (0, 2) AND w < 3", "v = 1 AND token(p) > 0 AND w > 0", "x LIKE 'a%'", "x LIKE '%b'",
    "x LIKE 'a%' AND v = 1", "v = 1 AND x LIKE '_' AND x LIKE 'b%'", "p = 1 AND x LIKE 'b%' AND w > 0",
    "x LIKE 'c%'"])
def test_storage_attached_indexes_answer_together(db, attached, condition):
    indexed, plain = attached
    select = f"SELECT p, c, d, v, w FROM {{}} WHERE {condition}"
    expected = db.rows(select.format(plain) + " ALLOW FILTERING")
    for size in SIZES:
        pages = db.pages(select.format(indexed), size)
        assert [row for page in pages for row in page] == expected
    assert db.rows(select.format(indexed)) == expected
    limited = select.format("{}") + " LIMIT 3"
    assert db.rows(limited.format(indexed)) == expected[:3]
    with pytest.raises(InvalidRequest):
        db.run(select.format(plain))


@pytest.mark.parametrize("condition", [
    # An order of texts, what another index or none is on, what an index on elements does not know.
    "x > 'a'", "v = 1 AND y = 1", "y = 1 AND v = 1", "y > 1",
    "v = 1 AND m[1] = 'x'", "z LIKE 'a%'", "v = 1 AND z LIKE '%'", "v = 1 AND (c, d) > (0, 0)"])
def test_what_they_do_not_answer_has_to_be_asked_for(db, attached, condition):
    indexed, plain = attached
    select = f"SELECT p, c, d FROM {{}} WHERE {condition}"
    db.refuse(select.format(indexed), "ALLOW FILTERING")
    select += " ALLOW FILTERING"
    assert db.rows(select.format(indexed)) == db.rows(select.format(plain))
