"""What a SELECT is refused for: size, depth, numbers, and what is later work."""
from contextlib import contextmanager

import pytest
from cassandra import InvalidRequest
from cassandra.protocol import SyntaxException


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    t = db.table("p int, q int, c int, d int, v bigint, x text, PRIMARY KEY ((p, q), c, d)")
    db.run(f"INSERT INTO {t} (p, q, c, d, v) VALUES (1, 1, 1, 1, 1)")
    return t


@contextmanager
def option(db, name, value):
    before = db.one(f"SELECT value FROM system.config WHERE name = '{name}'")
    change = db.session.prepare(f"UPDATE system.config SET value = ? WHERE name = '{name}'")
    db.session.execute(change, [value])
    try:
        yield
    finally:
        db.session.execute(change, [before])


DEPTH = 100_000


@pytest.mark.parametrize("text", [
    "SELECT * FROM {t} WHERE " + "(" * DEPTH + "v = 1" + ")" * DEPTH + " ALLOW FILTERING",
    "SELECT * FROM {t} WHERE " + "(" * DEPTH,
    "SELECT " + "blobasbigint(bigintasblob(" * DEPTH + "v" + "))" * DEPTH + " FROM {t}",
    "SELECT " + "CAST(" * DEPTH + "v" + " AS bigint)" * DEPTH + " FROM {t}",
    "SELECT * FROM {t} WHERE v = " + "(bigint)" * DEPTH + "1 ALLOW FILTERING",
    "SELECT " + "[" * DEPTH + "1" + "]" * DEPTH + " FROM {t}",
    "SELECT x" + "[1]" * DEPTH + " FROM {t}",
], ids=["relations", "open", "calls", "casts", "hints", "lists", "elements"])
def test_deep_nesting(db, t, text):
    with pytest.raises(SyntaxException):
        db.run(text.replace("{t}", t))
    assert db.one(f"SELECT count(*) FROM {t}") == 1


def test_a_megabyte_of_text(db, t):
    text = "x" * (1 << 20)
    assert db.rows(f"SELECT p FROM {t} WHERE x = '{text}' ALLOW FILTERING") == []
    assert db.one(f"SELECT count(*) FROM {t} /* {text} */") == 1


def test_markers_are_counted_in_16_bits(db, t):
    many = ", ".join("?" * 65_536)
    with pytest.raises((InvalidRequest, SyntaxException)):
        db.session.prepare(f"SELECT * FROM {t} WHERE v IN ({many}) ALLOW FILTERING")


def test_relations_are_counted(db, t):
    select = f"SELECT c FROM {t} WHERE p = 1 AND q = 1" + " AND v = 1" * 98
    assert db.rows(select + " ALLOW FILTERING") == [(1,)]
    db.refuse(select + " AND v = 1 ALLOW FILTERING", "number of relations", kind=SyntaxException)
    with option(db, "max_relations_in_where_clause", "101"):
        assert db.rows(select + " AND v = 1 ALLOW FILTERING") == [(1,)]


def test_combinations_are_counted(db, t):
    eleven = ", ".join(map(str, range(11)))
    words = "cartesian product size 121 is greater than maximum 100"
    keys = f"SELECT c FROM {t} WHERE p IN ({eleven}) AND q IN ({eleven})"
    rows = f"SELECT c FROM {t} WHERE p = 1 AND q = 1 AND c IN ({eleven}) AND d IN ({eleven})"
    db.refuse(keys, "partition key " + words)
    db.refuse(rows, "clustering key " + words)
    with option(db, "max_partition_key_restrictions_per_query", "121"):
        assert db.rows(keys) == [(1,)]
    with option(db, "max_clustering_key_restrictions_per_query", "121"):
        assert db.rows(rows) == [(1,)]


def test_large_answers_without_pages(db):
    from cassandra.query import SimpleStatement
    t = db.table("p int, c int, v blob, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (1, ?, ?)")
    for c in range(30):
        db.session.execute(insert, (c, bytes(100_000)))
    select = SimpleStatement(f"SELECT v FROM {t} WHERE p = 1", fetch_size=None)
    assert len(list(db.session.execute(select))) == 30
    with option(db, "max_memory_for_unlimited_query_hard_limit", "2000000"):
        with pytest.raises(InvalidRequest, match="exceeds hard limit of 2000000"):
            db.session.execute(select)
        assert sum(len(page) for page in db.pages(f"SELECT v FROM {t} WHERE p = 1", 5000)) == 30


def test_strictness_can_be_changed(db, t):
    select = f"SELECT c FROM {t} WHERE c = 1"
    for value, refused in [("true", True), ("warn", False), ("false", False)]:
        with option(db, "strict_allow_filtering", value):
            if refused:
                db.refuse(select, "use ALLOW FILTERING")
            else:
                assert db.rows(select) == [(1,)]
            assert db.rows(select + " ALLOW FILTERING") == [(1,)]


@pytest.mark.parametrize("tail, words", [
    ("ORDER BY x ANN OF [1.0] LIMIT 3", "requires the column to be indexed"),
    ("ORDER BY ANN(x, [1.0]) LIMIT 3", "requires the column to be indexed"),
    ("WHERE BM25(x, 'a') > 0 ORDER BY BM25(x, 'a') LIMIT 3", "No fulltext index found"),
    ("ORDER BY round(x) LIMIT 3", "Only ANN() and BM25()"),
    ("WHERE BM25(x, 'a') > 0", "not supported yet"),
    ("USING SERVICE LEVEL gold", "Service level 'gold' doesn't exist"),
])
def test_what_needs_what_is_not_there_is_refused(db, t, tail, words):
    db.refuse(f"SELECT * FROM {t} {tail}", words)


def test_around_the_cache(db, t):
    assert db.rows(f"SELECT v FROM {t} WHERE p = 1 AND q = 1 BYPASS CACHE") == [(1,)]
    assert db.rows(f"SELECT v FROM {t} LIMIT 1 ALLOW FILTERING BYPASS CACHE USING TIMEOUT 9s") \
        == [(1,)]
    with pytest.raises(SyntaxException):
        db.run(f"SELECT v FROM {t} BYPASS CACHE ALLOW FILTERING")
