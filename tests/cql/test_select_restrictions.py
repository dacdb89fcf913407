"""WHERE: what each relation selects, and what is refused."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    """Rows (p, q, c, d, v): p 0..1, q 0..1, c 0..3, d 'a'..'c', v = 100p + 10c + ord."""
    t = db.table("p int, q int, c int, d text, v int, s set<int>, l list<int>, m map<text, int>, "
                 "PRIMARY KEY ((p, q), c, d)", "WITH CLUSTERING ORDER BY (c ASC, d DESC)")
    insert = db.session.prepare(
        f"INSERT INTO {t} (p, q, c, d, v, s, l, m) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
    for p, q, c, d in ALL:
        v = 100 * p + 10 * c + "abc".index(d)
        db.session.execute(insert, (p, q, c, d, v, {c, 10}, [c, q], {d: c}))
    return t


ALL = [(p, q, c, d) for p in range(2) for q in range(2) for c in range(4) for d in "cba"]
ONE = "p = 1 AND q = 0 AND "

CASES = [
    ("p = 1 AND q = 0", lambda p, q, c, d: (p, q) == (1, 0)),
    ("p = 1 AND q IN (0, 1)", lambda p, q, c, d: p == 1),
    ("p IN (0, 1, 7) AND q IN (1)", lambda p, q, c, d: q == 1),
    ("p = 1 AND q IN ()", lambda p, q, c, d: False),
    ("p = 7 AND q = 0", lambda p, q, c, d: False),
    (ONE + "c = 2", lambda p, q, c, d: (p, q, c) == (1, 0, 2)),
    (ONE + "c = 2 AND d = 'b'", lambda p, q, c, d: (p, q, c, d) == (1, 0, 2, "b")),
    (ONE + "c = 2 AND d > 'a'", lambda p, q, c, d: (p, q, c) == (1, 0, 2) and d > "a"),
    (ONE + "c = 2 AND d >= 'b' AND d < 'c'",
     lambda p, q, c, d: (p, q, c) == (1, 0, 2) and d == "b"),
    (ONE + "c = 2 AND d <= 'b'", lambda p, q, c, d: (p, q, c) == (1, 0, 2) and d <= "b"),
    (ONE + "c > 1", lambda p, q, c, d: (p, q) == (1, 0) and c > 1),
    (ONE + "c > 1 AND c <= 2", lambda p, q, c, d: (p, q) == (1, 0) and c == 2),
    (ONE + "c > 2 AND c < 2", lambda p, q, c, d: False),
    (ONE + "c IN (0, 3, 5)", lambda p, q, c, d: (p, q) == (1, 0) and c in (0, 3)),
    (ONE + "c IN (3, 0) AND d IN ('a', 'c')",
     lambda p, q, c, d: (p, q) == (1, 0) and c in (0, 3) and d in "ac"),
    (ONE + "c IN (0, 3) AND d > 'a'",
     lambda p, q, c, d: (p, q) == (1, 0) and c in (0, 3) and d > "a"),
    (ONE + "(c, d) = (1, 'b')", lambda p, q, c, d: (p, q, c, d) == (1, 0, 1, "b")),
    (ONE + "(c, d) IN ((1, 'b'), (2, 'z'), (0, 'a'))",
     lambda p, q, c, d: (p, q) == (1, 0) and (c, d) in ((1, "b"), (0, "a"))),
    (ONE + "(c) > (2)", lambda p, q, c, d: (p, q) == (1, 0) and c > 2),
    (ONE + "(c, d) > (1, 'b')", lambda p, q, c, d: (p, q) == (1, 0) and (c, d) > (1, "b")),
    (ONE + "(c, d) >= (1, 'b') AND (c, d) < (3, 'b')",
     lambda p, q, c, d: (p, q) == (1, 0) and (1, "b") <= (c, d) < (3, "b")),
    (ONE + "(c, d) > (1, 'b') AND (c) < (3)",
     lambda p, q, c, d: (p, q) == (1, 0) and (1, "b") < (c, d) and c < 3),
    # Relations that need filtering.
    ("v = 20 ALLOW FILTERING", lambda p, q, c, d: (p, c, d) == (0, 2, "a")),
    ("v > 120 AND v <= 130 ALLOW FILTERING",
     lambda p, q, c, d: 120 < 100 * p + 10 * c + "abc".index(d) <= 130),
    ("d = 'b' ALLOW FILTERING", lambda p, q, c, d: d == "b"),
    ("p = 1 ALLOW FILTERING", lambda p, q, c, d: p == 1),
    ("c = 2 AND q = 1 ALLOW FILTERING", lambda p, q, c, d: (c, q) == (2, 1)),
    (ONE + "d = 'b' ALLOW FILTERING", lambda p, q, c, d: (p, q, d) == (1, 0, "b")),
    (ONE + "c > 1 AND d = 'b' ALLOW FILTERING",
     lambda p, q, c, d: (p, q, d) == (1, 0, "b") and c > 1),
    ("s CONTAINS 3 ALLOW FILTERING", lambda p, q, c, d: c == 3),
    ("s CONTAINS 10 AND c = 0 ALLOW FILTERING", lambda p, q, c, d: c == 0),
    ("l CONTAINS 1 ALLOW FILTERING", lambda p, q, c, d: 1 in (c, q)),
    ("m CONTAINS 2 ALLOW FILTERING", lambda p, q, c, d: c == 2),
    ("m CONTAINS KEY 'a' ALLOW FILTERING", lambda p, q, c, d: d == "a"),
    ("m['a'] = 1 ALLOW FILTERING", lambda p, q, c, d: (d, c) == ("a", 1)),
    (ONE + "(c) = (2) AND (d) > ('a')", lambda p, q, c, d: (p, q, c) == (1, 0, 2) and d > "a"),
    (ONE + "c IN (1, 2) AND (d) IN (('a'), ('b'))",
     lambda p, q, c, d: (p, q) == (1, 0) and c in (1, 2) and d in "ab"),
    (ONE + "(c, d) > (1, 'b') AND c <= 2",
     lambda p, q, c, d: (p, q) == (1, 0) and (1, "b") < (c, d) and c <= 2),
    ("(c, d) > (1, 'b') AND q = 0 ALLOW FILTERING",
     lambda p, q, c, d: (1, "b") < (c, d) and q == 0),
    ("p > 0 AND q <= 0 ALLOW FILTERING", lambda p, q, c, d: p > 0 and q <= 0),
    ("p IN (1, 2) AND v < 111 ALLOW FILTERING",
     lambda p, q, c, d: p == 1 and 10 * c + "abc".index(d) < 11),
    ("(((c = 1))) AND (d = 'a') ALLOW FILTERING", lambda p, q, c, d: (c, d) == (1, "a")),
    ("v IN (0, 131, 999) ALLOW FILTERING",
     lambda p, q, c, d: 100 * p + 10 * c + "abc".index(d) in (0, 131)),
    # null is equal to nothing.
    ("v = null ALLOW FILTERING", lambda p, q, c, d: False),
]


@pytest.mark.parametrize("where, expected", CASES, ids=[case[0] for case in CASES])
def test_what_is_selected(db, t, where, expected):
    rows = db.rows(f"SELECT p, q, c, d FROM {t} WHERE {where}")
    assert sorted(rows) == sorted(row for row in ALL if expected(*row))
    # Within a partition, clustering order holds.
    for partition in {row[:2] for row in rows}:
        mine = [row for row in rows if row[:2] == partition]
        assert mine == sorted(mine, key=lambda row: (row[2], -ord(row[3])))


def test_without_where_everything_comes(db, t):
    rows = db.rows(f"SELECT p, q, c, d FROM {t}")
    assert sorted(rows) == sorted(ALL)
    assert db.one(f"SELECT count(*) FROM {t}") == len(ALL)


@pytest.mark.parametrize("where, words", [
    ("p = 1", "filtering"),
    ("q = 1", "filtering"),
    ("v = 1", "filtering"),
    (ONE + "d = 'a'", ""),
    (ONE + "c > 1 AND d = 'a'", ""),
    (ONE + "v = 1", "filtering"),
    ("p > 1 AND q = 1", "filtering"),
    (ONE + "(c) > (1) AND (c, d) > (2, 'a')", "more than one restriction"),
    (ONE + "(c, d) > (1, 'a') AND d < 'b'", "not starting with the same column"),
    (ONE + "(c, d) = (1, 'a') AND c = 1", "cannot be restricted by more than one relation"),
    (ONE + "c > 1 AND (d) > ('a')", "preceding column \"c\" is restricted by a non-EQ relation"),
    (ONE + "(c, d) = (1, null)", "null value in condition for column d"),
    (ONE + "(c, d) = (1, 'a', 2)", "expected 2 elements in value tuple, but got 3"),
    ("v != 1 ALLOW FILTERING", "unsupported \"!=\" relation: v != 1"),
    ("v IS NOT NULL ALLOW FILTERING", "is not null"),
    ("s[1] = 1 ALLOW FILTERING", "cannot be subscripted"),
    ("v LIKE 'a%' ALLOW FILTERING", "LIKE is allowed only on string types"),
    ("token(p, q) > 1 AND p = 1 AND q = 1", "both a normal relation and a token relation"),
    ("token(p, p) > 1", "duplicate partition key"),
    (ONE + "(d, c) > ('a', 1)", ""),
    (ONE + "(c, v) > (1, 1)", ""),
    ("(p, q) = (1, 0)", "multi-column"),
    (ONE + "c = 'text'", ""),
    (ONE + "nope = 1", "nope"),
    ("s = {1} ALLOW FILTERING", "collection column"),
    ("v CONTAINS 1 ALLOW FILTERING", ""),
    ("s CONTAINS KEY 1 ALLOW FILTERING", "CONTAINS KEY"),
    (ONE + "c IN 5", ""),
    ("token(p) > 1", ""),
    ("token(q, p) > 1", ""),
])
def test_refused(db, t, where, words):
    with pytest.raises((InvalidRequest, SyntaxException)) as caught:
        db.run(f"SELECT * FROM {t} WHERE {where}")
    assert words.lower() in str(caught.value).lower(), caught.value


def test_bound_in_lists_and_tuples(db, t):
    select = f"SELECT c, d FROM {t} WHERE p = 1 AND q = 0 AND "
    assert db.prepared(select + "c IN ? AND d = ?", [1, 2], "a") == [(1, "a"), (2, "a")]
    assert db.prepared(select + "(c, d) IN ?", [(1, "b"), (3, "c")]) == [(1, "b"), (3, "c")]
    assert db.prepared(select + "(c, d) = ?", (1, "b")) == [(1, "b")]
    assert db.prepared(select + "(c, d) > (?, ?) AND (c, d) <= ?", 1, "b", (2, "a")) \
        == [(1, "c"), (2, "a")]
    assert db.prepared(f"SELECT DISTINCT p, q FROM {t} WHERE p IN ? AND q = 1", [0, 1]) \
        in ([(0, 1), (1, 1)], [(1, 1), (0, 1)])


def test_null_and_empty_in_where_select_nothing(db, t):
    select = f"SELECT c FROM {t} WHERE p = ? AND q = 0"
    assert db.prepared(select + " AND c = ?", 1, None) == []
    assert db.prepared(select + " AND c IN ?", 1, []) == []


def test_values_of_in_come_in_their_order(db, t):
    rows = db.rows(f"SELECT p, q FROM {t} WHERE p IN (1, 0, 1) AND q IN (1, 0)")
    assert rows == sorted(rows) and len(rows) == len(ALL)
    pages = db.pages(f"SELECT p, q FROM {t} WHERE p IN (1, 0, 1) AND q IN (1, 0)", 5)
    assert [row for page in pages for row in page] == rows
    assert [len(page) for page in pages[:-1]] == [5] * (len(pages) - 1)


def test_too_many_relations_are_refused(db, t):
    many = ", ".join(str(n) for n in range(101))
    with pytest.raises(InvalidRequest):
        db.run(f"SELECT * FROM {t} WHERE p IN ({many}) AND q = 1")
    db.run(f"SELECT * FROM {t} WHERE p IN ({many[:-5]}) AND q = 1")


def test_order_of_columns_and_aliases(db, t):
    result = db.run(f"SELECT d AS first, c, v AS \"V\", c AS again FROM {t} "
                    "WHERE p = 0 AND q = 0 AND c = 1 LIMIT 1")
    assert result.column_names == ["first", "c", "V", "again"]
    assert [tuple(row) for row in result.current_rows] == [("c", 1, 12, 1)]
    result = db.run(f"SELECT * FROM {t} LIMIT 1")
    assert result.column_names == ["p", "q", "c", "d", "l", "m", "s", "v"]


@pytest.mark.parametrize("selected, expected", [
    ("m['a']", 1), ("m['z']", None), ("l[0]", 1), ("l[5]", None), ("s[10]", 10), ("s[4]", None),
    ("cast(v AS text)", "110"), ("(int) 5", 5),
])
def test_selected_parts(db, t, selected, expected):
    where = "p = 1 AND q = 0 AND c = 1 AND d = 'a'"
    assert db.one(f"SELECT {selected} FROM {t} WHERE {where}") == expected


def test_values_that_are_bound_are_selected(db, t):
    where = "p = 1 AND q = 0 AND c = 1 AND d = 'a'"
    assert db.prepared(f"SELECT (int) ?, v, m[?], (text) ? FROM {t} WHERE {where}", 7, "a", "x") \
        == [(7, 110, 1, "x")]


def test_the_newest_part_of_a_column(db):
    t = db.table("k int PRIMARY KEY, v int, m map<int, int>")
    db.run(f"UPDATE {t} USING TIMESTAMP 10 SET v = 1, m[1] = 1 WHERE k = 1")
    db.run(f"UPDATE {t} USING TIMESTAMP 20 SET m[2] = 2 WHERE k = 1")
    assert db.rows(f"SELECT maxwritetime(v), maxwritetime(m) FROM {t}") == [(10, 20)]


def test_slices_of_sets_and_maps(db):
    t = db.table("p int PRIMARY KEY, s set<int>, m map<text, int>, fs frozen<set<int>>, l list<int>")
    db.run(f"INSERT INTO {t} (p, s, m, fs) VALUES (1, {{1, 3, 5}}, {{'a': 1, 'b': 2, 'c': 3}}, "
           "{1, 3, 5})")
    db.run(f"INSERT INTO {t} (p) VALUES (2)")
    one = f"FROM {t} WHERE p = 1"
    assert db.rows(f"SELECT s[2..5], s[..3], s[5..], s[3..3] {one}") == [({3, 5}, {1, 3}, {5}, {3})]
    assert db.rows(f"SELECT m['a'..'b'], m['b'..], m[..'a'] {one}") \
        == [({"a": 1, "b": 2}, {"b": 2, "c": 3}, {"a": 1})]
    # Nothing between the bounds: a multi-cell column has no empty value.
    assert db.rows(f"SELECT s[7..8], m['x'..], fs[7..8] {one}") == [(None, None, set())]
    assert db.rows(f"SELECT s[1..3], fs[1..3] FROM {t} WHERE p = 2") == [(None, None)]
    assert db.rows(f"SELECT m['a'..'b']['b'], s[1..3][3..] {one}") == [(2, {3})]
    assert db.prepared(f"SELECT s[?..?] {one}", 3, 9) == [({3, 5},)]
    db.refuse(f"SELECT l[0..1] {one}",
              "slice selection is only allowed on sets and maps, but l is a list")
    db.refuse(f"SELECT p[0..1] {one}", "invalid slice selection: p of type int is not a collection")
    db.refuse(f"SELECT s['a'..] {one}", '"value(s)" of type int')
    db.refuse(f"SELECT m[..0] {one}", '"key(m)" of type text')


def test_select_distinct(db, t):
    assert sorted(db.rows(f"SELECT DISTINCT p, q FROM {t}")) \
        == [(p, q) for p in range(2) for q in range(2)]
    assert len(db.rows(f"SELECT DISTINCT p, q FROM {t} LIMIT 3")) == 3
    db.refuse(f"SELECT DISTINCT p FROM {t}", "partition key columns")
    db.refuse(f"SELECT DISTINCT p, q, c FROM {t}", "must only request partition key columns")
