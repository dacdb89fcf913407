"""SELECT clause by clause: their order, how a statement may be written, what columns are called,
JSON, and patterns."""
import json

import pytest
from cassandra.protocol import SyntaxException


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    user = db.type("a int, b text").split(".")[1]
    t = db.table("p int, c int, s int static, v int, m map<text, int>, l list<int>, "
                 f"u frozen<{user}>, \"Up\" text, d date, PRIMARY KEY (p, c)")
    for c in range(4):
        db.run(f"INSERT INTO {t} (p, c, s, v, m, l, u, \"Up\", d) VALUES (1, {c}, 9, {10 * c}, "
               f"{{'a': {c}}}, [{c}, 7], {{a: {c}, b: 'x'}}, 'it''s {c}', '2020-01-0{c + 1}')")
    return t


@pytest.mark.parametrize("tail, expected", [
    ("", [0, 1, 2, 3]),
    ("WHERE p = 1", [0, 1, 2, 3]),
    ("WHERE p = 1 ORDER BY c DESC", [3, 2, 1, 0]),
    ("WHERE p = 1 GROUP BY c ORDER BY c DESC LIMIT 2", [3, 2]),
    ("WHERE p = 1 GROUP BY p, c PER PARTITION LIMIT 3", [0, 1, 2]),
    ("WHERE p = 1 ORDER BY c DESC PER PARTITION LIMIT 3 LIMIT 2 ALLOW FILTERING", [3, 2]),
    ("WHERE v > 0 GROUP BY p, c LIMIT 2 ALLOW FILTERING", [1, 2]),
    ("GROUP BY p", [0]),
    ("PER PARTITION LIMIT 2", [0, 1]),
    ("ALLOW FILTERING", [0, 1, 2, 3]),
    ("WHERE p = 1 AND c = 2;", [2]),
])
def test_clauses(db, t, tail, expected):
    assert db.column(f"SELECT c FROM {t} {tail}") == expected


@pytest.mark.parametrize("tail", [
    "ORDER BY c WHERE p = 1", "GROUP BY c WHERE p = 1", "WHERE p = 1 ORDER BY c GROUP BY c",
    "WHERE p = 1 LIMIT 1 ORDER BY c", "WHERE p = 1 LIMIT 1 PER PARTITION LIMIT 1",
    "WHERE p = 1 PER PARTITION LIMIT 1 GROUP BY c", "ALLOW FILTERING LIMIT 1",
    "ALLOW FILTERING WHERE p = 1", "LIMIT 1 LIMIT 2", "ALLOW FILTERING ALLOW FILTERING",
    "WHERE p = 1 WHERE c = 1", "WHERE p = 1, c = 1", "WHERE p = 1 OR c = 1", "WHERE NOT p = 1",
    "WHERE p", "WHERE 1 = p", "LIMIT", "LIMIT 1.5", "LIMIT 'x'", "PER PARTITION LIMIT", "ORDER BY",
    "WHERE p = 1 ORDER BY c UPWARDS", "GROUP BY", "GROUP BY p DESC", "ALLOW", "HAVING p = 1",
    "WHERE p BETWEEN 1", "WHERE p IN", "WHERE p IN (1", "WHERE (p, c) = ", "WHERE token(p",
    "WHERE m CONTAINS", "BYPASS CACHE ALLOW FILTERING", "BYPASS CACHE LIMIT 1",
    "USING TIMEOUT 1s BYPASS CACHE", "USING TIMEOUT 1s ALLOW FILTERING", "; SELECT",
])
def test_clauses_out_of_order(db, t, tail):
    db.refuse(f"SELECT c FROM {t} {tail}", "line", kind=SyntaxException)


@pytest.mark.parametrize("tail", [
    "BYPASS CACHE", "USING TIMEOUT 1m", "WHERE p = 1 LIMIT 9 ALLOW FILTERING BYPASS CACHE",
    "WHERE p = 1 ORDER BY c ALLOW FILTERING BYPASS CACHE USING TIMEOUT 10s", "LIMIT 5 BYPASS CACHE",
])
def test_clauses_of_scylladb(db, t, tail):
    assert db.column(f"SELECT c FROM {t} {tail}") == [0, 1, 2, 3]


@pytest.mark.parametrize("text", [
    "select c from {t} where p = 1 and c = 2", "SELECT C FROM {t} WHERE P=1 AND C=2;",
    "\n\tSELECT\tc\nFROM {t}\r\nWHERE p = 1 AND c = 2\n", 'SELECT "c" FROM {t} WHERE "p"=1 AND "c"=2',
    "SELECT /* what */ c FROM {t} -- where from\nWHERE p = 1 // who\nAND c = 2",
    "SELECT c FROM {t} WHERE p = 1 AND c = 2 -- the end\n", "/**/SELECT c FROM {t} WHERE p=1 AND c=2",
    "SELECT c FROM {t} WHERE (p = 1) AND ((c = 2))",
    "SELECT c FROM {t} WHERE p = (int)1 AND c = 2", "SELECT c FROM {t} WHERE c = 2 AND p = 1",
    "SELECT c FROM {t} WHERE \"Up\" = 'it''s 2' ALLOW FILTERING",
    "SELECT c FROM {t} WHERE \"Up\" = $$it's 2$$ ALLOW FILTERING",
])
def test_ways_of_writing(db, t, text):
    assert db.column(text.format(t=t)) == [2]


def test_a_comment_at_the_end(db, t):
    assert db.column(f"SELECT c FROM {t} WHERE p = 1 AND c = 2 -- the end") == [2]


KEYWORDS_FOR_NAMES = [
    "key", "type", "types", "count", "ttl", "timestamp", "timeout", "values", "list", "map", "json",
    "role", "roles", "user", "users", "all", "as", "static", "writetime", "contains", "distinct",
    "filtering", "language", "options", "partition", "password", "per", "tables", "text", "int",
    "date", "time", "trigger", "tuple", "uuid", "counter", "compact", "storage", "function", "group",
    "like", "cast", "duration", "login", "hashed", "internals", "only", "cluster",
]
KEYWORDS_ONLY_QUOTED = [
    "add", "allow", "alter", "and", "apply", "asc", "authorize", "batch", "begin", "by",
    "columnfamily", "create", "delete", "desc", "describe", "drop", "entries", "execute", "from",
    "full", "grant", "if", "in", "index", "infinity", "insert", "into", "is", "keyspace", "limit",
    "materialized", "modify", "nan", "norecursive", "not", "null", "of", "on", "or", "order",
    "primary", "rename", "revoke", "schema", "select", "set", "table", "to", "token", "truncate",
    "unlogged", "update", "use", "using", "view", "where", "with",
]


def test_keywords_that_are_names(db):
    columns = ", ".join(f"{word} int" for word in KEYWORDS_FOR_NAMES)
    t = db.table(f"id int PRIMARY KEY, {columns}")
    for number, word in enumerate(KEYWORDS_FOR_NAMES):
        db.run(f"INSERT INTO {t} (id, {word}) VALUES ({number}, {number})")
        assert db.rows(f"SELECT {word} FROM {t} WHERE {word} = {number} ALLOW FILTERING") \
            == [(number,)], word


def test_keywords_that_are_names_in_quotes_only(db):
    columns = ", ".join(f'"{word}" int' for word in KEYWORDS_ONLY_QUOTED)
    t = db.table(f"id int PRIMARY KEY, {columns}")
    for word in KEYWORDS_ONLY_QUOTED:
        db.run(f'INSERT INTO {t} (id, "{word}") VALUES (1, 5)')
        assert db.rows(f'SELECT "{word}" FROM {t}') == [(5,)]
        db.refuse(f"INSERT INTO {t} (id, {word}) VALUES (1, 5)", "line 1", kind=SyntaxException)


@pytest.mark.parametrize("selected, name", [
    ("c", "c"), ("C", "c"), ('"Up"', "Up"), ("c AS one", "one"), ("c AS ONE", "one"),
    ('c AS "One"', "One"), ("count(*)", "count"), ("COUNT(1)", "count"),
    ("count(v)", "system.count(v)"), ("max(v)", "system.max(v)"), ('min("Up")', "system.min(Up)"),
    ("writetime(v)", "writetime(v)"), ("TTL(v)", "ttl(v)"), ("token(p)", "system.token(p)"),
    ("m['a']", "m['a']"), ("u.a", "u.a"), ("u.a AS a", "a"), ("toJson(v)", "system.tojson(v)"),
    ("intAsBlob(c)", "system.intasblob(c)"), ("sum(v) AS total", "total"),
    ("max(intAsBlob(c))", "system.max(system.intasblob(c))"),
    ("CAST(v AS text)", "cast(v as text)"), ("CAST(v AS text) AS w", "w"),
])
def test_names_of_what_is_selected(db, t, selected, name):
    assert db.run(f"SELECT {selected} FROM {t} WHERE p = 1 AND c = 1").column_names == [name]


@pytest.mark.parametrize("selected, expected", [
    ("p, c", '{"p": 1, "c": 2}'),
    ('"Up"', '{"\\"Up\\"": "it\'s 2"}'),
    ("c AS one", '{"one": 2}'),
    ('c AS "One"', '{"\\"One\\"": 2}'),
    ("s, v", '{"s": 9, "v": 20}'),
    ("m, l", '{"m": {"a": 2}, "l": [2, 7]}'),
    ("u", '{"u": {"a": 2, "b": "x"}}'),
    ("u.b", '{"u.b": "x"}'),
    ("d", '{"d": "2020-01-03"}'),
    ("count(*)", '{"count": 1}'),
    ("max(v) AS most, min(l) AS least", '{"most": 20, "least": [2, 7]}'),
    ("ttl(v)", '{"ttl(v)": null}'),
    ("(text) 'a\"b' AS q", '{"q": "a\\"b"}'),
])
def test_json(db, t, selected, expected):
    result = db.run(f"SELECT JSON {selected} FROM {t} WHERE p = 1 AND c = 2")
    assert result.column_names == ["[json]"]
    assert [tuple(row) for row in result] == [(expected,)]


def test_json_of_whole_rows(db, t):
    rows = [json.loads(text) for text in db.column(f"SELECT JSON * FROM {t}")]
    assert [row["c"] for row in rows] == [0, 1, 2, 3]
    assert list(rows[1]) == ["p", "c", "s", '"Up"', "d", "l", "m", "u", "v"]
    assert db.column(f"SELECT JSON DISTINCT p, s FROM {t}") == ['{"p": 1, "s": 9}']
    pages = db.pages(f"SELECT JSON c FROM {t} WHERE p = 1 ORDER BY c DESC LIMIT 3", 2)
    assert pages == [[('{"c": 3}',), ('{"c": 2}',)], [('{"c": 1}',)]]
    assert db.column(f"SELECT JSON p, max(c) AS c FROM {t} GROUP BY p") == ['{"p": 1, "c": 3}']
    db.refuse(f"SELECT JSON nope FROM {t}", "nope")


WORDS = ["", "a", "ab", "abc", "b", "ba", "a%", "a_c", "a\\b", "Stra\u00dfe", "a\nb", "%", "ABC"]


@pytest.mark.parametrize("pattern, expected", [
    ("%", WORDS), ("", [""]), ("a", ["a"]), ("abc", ["abc"]), ("b%", ["b", "ba"]),
    ("%b", ["ab", "b", "a\\b", "a\nb"]), ("%b%", ["ab", "abc", "b", "ba", "a\\b", "a\nb"]),
    ("_", ["a", "b", "%"]), ("__", ["ab", "ba", "a%"]), ("a_", ["ab", "a%"]),
    ("a_b", ["a\\b", "a\nb"]), ("_b_", ["abc"]), ("a\\%", ["a%"]), ("a\\_c", ["a_c"]),
    ("a\\\\b", ["a\\b"]), ("\\%", ["%"]), ("Stra_e", ["Stra\u00dfe"]), ("%\u00df%", ["Stra\u00dfe"]),
    ("%_%", [word for word in WORDS if word]), ("%%a%%c%%", ["abc", "a_c"]), ("z%", []),
])
def test_patterns(db, words, pattern, expected):
    for column in ("v", "s"):
        got = db.prepared(f"SELECT c FROM {words} WHERE {column} LIKE ? ALLOW FILTERING", pattern)
        assert sorted(WORDS[c] for c, in got) == sorted(expected), column


@pytest.fixture(name="words", scope="module")
def fixture_words(db):
    t = db.table("p int, c int, s text static, v text, PRIMARY KEY (p, c)")
    for c, word in enumerate(WORDS):
        db.prepared(f"INSERT INTO {t} (p, c, s, v) VALUES (?, ?, ?, ?)", c, c, word, word)
    db.run(f"INSERT INTO {t} (p, c) VALUES (100, 100)")
    return t


def test_patterns_of_keys(db):
    t = db.table("p ascii, q text, c varchar, PRIMARY KEY ((p, q), c)")
    for word in ("ab", "abc", "b"):
        db.run(f"INSERT INTO {t} (p, q, c) VALUES ('{word}', '{word}', '{word}')")
    for column in "pqc":
        for pattern, expected in [("ab%", ["ab", "abc"]), ("%b", ["ab", "b"]), ("_", ["b"])]:
            select = f"SELECT c FROM {t} WHERE {column} LIKE '{pattern}' ALLOW FILTERING"
            assert sorted(db.column(select)) == expected, select
    assert db.rows(f"SELECT c FROM {t} WHERE c LIKE null ALLOW FILTERING") == []


def test_a_table_of_keys_only(db):
    t = db.table("p int PRIMARY KEY")
    for p in range(5):
        db.run(f"INSERT INTO {t} (p) VALUES ({p})")
    assert sorted(db.column(f"SELECT * FROM {t}")) == [0, 1, 2, 3, 4]
    assert db.rows(f"SELECT count(*), max(p), min(p), sum(p) FROM {t}") == [(5, 4, 0, 10)]
    assert sorted(db.column(f"SELECT DISTINCT p FROM {t} WHERE p IN (1, 2, 9)")) == [1, 2]
    assert sorted(db.column(f"SELECT p FROM {t} WHERE p > 2 ALLOW FILTERING")) == [3, 4]
    db.run(f"DELETE FROM {t} WHERE p = 4")
    assert db.one(f"SELECT count(*) FROM {t} WHERE p IN (3, 4)") == 1


def test_values_in_the_select_list(db, t):
    where = "WHERE p = 1 AND c = 2"
    assert db.rows(f"SELECT (int) 5, (text) 'x', c FROM {t} {where}") == [(5, "x", 2)]
    assert db.rows(f"SELECT (list<int>) [1, 2], (map<text, int>) {{'a': 1}} FROM {t} {where}") \
        == [([1, 2], {"a": 1})]
    assert db.prepared(f"SELECT (bigint) ?, (set<int>) ? FROM {t} {where}", 7, {3, 4}) == [(7, {3, 4})]
    assert db.prepared(f"SELECT c FROM {t} {where} AND v = :v ALLOW FILTERING", 20) == [(2,)]


def test_plain_literals_in_the_select_list(db, t):
    where = "WHERE p = 1 AND c = 2"
    assert db.rows(f"SELECT 5, 'x', c, 2.5, true FROM {t} {where}") == [(5, "x", 2, 2.5, True)]
    assert db.rows(f"SELECT count(*), 7 FROM {t} WHERE p = 1") == [(4, 7)]
