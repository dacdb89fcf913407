"""SELECT where this server follows ScyllaDB and Cassandra has another answer: it refuses most of
these."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException
from cassandra.query import UNSET_VALUE


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int, c int, v int, s set<int>, m map<int, int>, l list<text>, n text, "
                 "PRIMARY KEY (p, c)")
    for c in range(6):
        db.run(f"INSERT INTO {t} (p, c, v, n) VALUES (1, {c}, {c % 3}, 'n{c}')")
    db.run(f"UPDATE {t} SET s = {{1, 2}}, m = {{1: 2, 3: 4}}, l = ['zero', 'one'] "
           "WHERE p = 1 AND c = 0")
    db.run(f"INSERT INTO {t} (p, c) VALUES (1, 6)")
    return t


@pytest.mark.parametrize("where, expected", [
    # Several relations on one column: all hold.
    ("c = 1 AND c = 1", [1]),
    ("c = 1 AND c = 2", []),
    ("c = 1 AND c > 0 AND c < 5", [1]),
    ("c > 0 AND c > 3 AND c <= 5 AND c < 9", [4, 5]),
    ("c IN (1, 2, 3) AND c > 1", [2, 3]),
    ("c IN (1, 2, 3) AND c IN (3, 4)", [3]),
    ("c > 2 AND c = 4", [4]),
    ("p = 1 AND c = 2", [2]),
    ("p = 2", []),
    # NOT IN: null is no answer, and a null in the list might be any value.
    ("c NOT IN (1, 2, 3) ALLOW FILTERING", [0, 4, 5, 6]),
    # Of the first clustering column that is free it is a slice with holes.
    ("c NOT IN (1, 2, 3)", [0, 4, 5, 6]),
    ("c > 2 AND c NOT IN (5)", [3, 4, 6]),
    ("v NOT IN (0, 1) ALLOW FILTERING", [2, 5]),
    ("v NOT IN () ALLOW FILTERING", [0, 1, 2, 3, 4, 5]),
    ("v NOT IN (0, null) ALLOW FILTERING", []),
    # Null equals nothing.
    ("c = null", []),
    ("c > null", []),
    ("c IN (null, 1)", [1]),
    ("v < null ALLOW FILTERING", []),
    ("s CONTAINS null ALLOW FILTERING", []),
    ("m CONTAINS KEY null ALLOW FILTERING", []),
    ("m[null] = 2 ALLOW FILTERING", []),
    ("m[1] = null ALLOW FILTERING", []),
    # Elements.
    ("m[1] = 2 ALLOW FILTERING", [0]),
    ("m[1] > 2 ALLOW FILTERING", []),
    ("m[1] IN (1, 2) ALLOW FILTERING", [0]),
    ("l[1] = 'one' ALLOW FILTERING", [0]),
    ("l[-1] = 'one' ALLOW FILTERING", []),
    ("l[9] = 'one' ALLOW FILTERING", []),
    # LIKE by filtering.
    ("n LIKE 'n_' ALLOW FILTERING", [0, 1, 2, 3, 4, 5]),
    ("n LIKE '%4' ALLOW FILTERING", [4]),
])
def test_what_is_selected(db, t, where, expected):
    assert db.column(f"SELECT c FROM {t} WHERE p = 1 AND {where}") == expected


@pytest.mark.parametrize("where", ["v NOT IN (1)", "v > 1 AND v > 2", "n LIKE 'a'"])
def test_what_needs_filtering(db, t, where):
    db.refuse(f"SELECT c FROM {t} WHERE p = 1 AND {where}", "ALLOW FILTERING")


def test_unset_values_are_refused(db, t):
    for where in ["m[?] = 2 ALLOW FILTERING", "v = ? ALLOW FILTERING", "c = ?", "c IN ?",
                  "v NOT IN ? ALLOW FILTERING", "(c) > (?)", "v IN (?) ALLOW FILTERING"]:
        with pytest.raises(InvalidRequest, match="unset"):
            db.prepared(f"SELECT c FROM {t} WHERE p = 1 AND {where}", UNSET_VALUE)


def test_the_names_of_markers_for_lists(db, t):
    select = db.session.prepare(f"SELECT c FROM {t} WHERE p = ? AND c IN ? AND v NOT IN ? "
                                "ALLOW FILTERING")
    assert [column.name for column in select.column_metadata] == ["p", "IN(c)", "NOT IN(v)"]
    assert [row.c for row in db.session.execute(select, [1, [0, 1, 2], [0]])] == [1, 2]


def test_the_same_rows_of_all_partitions_come_with_a_warning(db, t):
    result = db.session.execute_async(f"SELECT c FROM {t} WHERE c = 4")
    assert [row.c for row in result.result()] == [4]
    assert any("ALLOW FILTERING" in warning for warning in result.warnings)
    result = db.session.execute_async(f"SELECT c FROM {t} WHERE c = 4 ALLOW FILTERING")
    assert [row.c for row in result.result()] == [4] and not result.warnings


def test_whole_user_types_are_compared(db):
    user = db.type("a int, b int")
    t = db.table(f"p int PRIMARY KEY, u {user}, f frozen<{user}>")
    for p in range(4):
        db.run(f"INSERT INTO {t} (p, u, f) VALUES ({p}, {{a: 1, b: {p}}}, {{a: 1, b: {p}}})")
    for column in "uf":
        select = f"SELECT p FROM {t} WHERE {column} "
        assert db.column(select + "= {a: 1, b: 2} ALLOW FILTERING") == [2]
        assert sorted(db.column(select + "> {a: 1, b: 1} ALLOW FILTERING")) == [2, 3]
        assert sorted(db.column(select + "IN ({a: 1, b: 1}, {a: 1, b: 3}) ALLOW FILTERING")) \
            == [1, 3]


@pytest.mark.parametrize("select, expected", [
    ("1", [(1,)]),
    ("'a', 2.5", [("a", 2.5)]),
    ("[1, 2] AS l", [([1, 2],)]),
    ("{'a': 1}", [({"a": 1},)]),
    ("(1, 'a')", [((1, "a"),)]),
    ("CAST(1 AS bigint)", [(1,)]),
    ("count(*)", [(1,)]),
    ("count(1), max(7), sum(3), min('x')", [(1, 7, 3, "x")]),
    ('"system$dummy"', [("",)]),
    ("1 WHERE \"system$dummy\" = ''", [(1,)]),
    ("1 WHERE \"system$dummy\" = 'x'", []),
    ("1 WHERE \"system$dummy\" IN ('', 'x')", [(1,)]),
    ("count(*) WHERE \"system$dummy\" = 'x'", [(0,)]),
    ("1 GROUP BY \"system$dummy\"", [(1,)]),
    ("1 PER PARTITION LIMIT 1 LIMIT 3 ALLOW FILTERING BYPASS CACHE USING TIMEOUT 5s", [(1,)]),
    ("JSON 1 AS one, 'x' AS \"X\"", [('{"one": 1, "\\"X\\"": "x"}',)]),
    ("JSON 1", [('{"1": 1}',)]),
])
def test_without_from(db, select, expected):
    assert db.rows(f"SELECT {select}") == expected


@pytest.mark.parametrize("select, words, kind", [
    ("*", "FROM", InvalidRequest),
    ("JSON *", "FROM", InvalidRequest),
    ("nope", "nope", InvalidRequest),
    ("1 WHERE nope = 1", "nope", InvalidRequest),
    ("1 GROUP BY nope", "nope", InvalidRequest),
    ("1 ORDER BY nope", "ORDER BY", InvalidRequest),
    ("1 LIMIT 0", "positive", InvalidRequest),
    ("?", "", InvalidRequest),
    ("DISTINCT 1", "", SyntaxException),
])
def test_refused_without_from(db, select, words, kind):
    db.refuse(f"SELECT {select}", words, kind=kind)


def test_times_of_elements(db):
    t = db.table("p int PRIMARY KEY, m map<int, int>, s set<int>, l list<int>, v int")
    db.run(f"UPDATE {t} USING TIMESTAMP 1000 SET m = m + {{1: 1}}, s = s + {{5}} WHERE p = 1")
    db.run(f"UPDATE {t} USING TIMESTAMP 2000 AND TTL 500 SET m = m + {{2: 2}} WHERE p = 1")
    select = "writetime(m[1]), writetime(m[2]), writetime(m[3]), writetime(s[5]), ttl(m[1])"
    assert db.rows(f"SELECT {select} FROM {t}") == [(1000, 2000, None, 1000, None)]
    assert 400 < db.one(f"SELECT ttl(m[2]) FROM {t}") <= 500
    assert db.one(f"SELECT writetime(m[null]) FROM {t}") is None
    db.refuse(f"SELECT writetime(l[0]) FROM {t}", "element")
    db.refuse(f"SELECT writetime(v[0]) FROM {t}", " v ")
    db.refuse(f"SELECT writetime(m) FROM {t}", "writetime")
    db.refuse(f"SELECT v[0] FROM {t}", "not a collection")


def test_no_time_at_all_is_a_timeout(db, t):
    from cassandra import ReadTimeout, WriteTimeout
    db.refuse(f"SELECT * FROM {t} USING TIMEOUT 0ms", "", kind=ReadTimeout)
    db.refuse(f"INSERT INTO {t} (p, c) VALUES (1, 9) USING TIMEOUT 0s", "", kind=WriteTimeout)
    db.run(f"SELECT * FROM {t} USING TIMEOUT 1h")
    for span in ["null", "1mo", "5ns", "-5s", "17", "'x'"]:
        db.refuse(f"SELECT * FROM {t} USING TIMEOUT {span}", "")
