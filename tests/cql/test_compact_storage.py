"""Tables WITH COMPACT STORAGE: static, dense with a value and without one."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException

NAME = "enable_create_table_with_compact_storage"


@pytest.fixture(name="compact", scope="module")
def fixture_compact(db):
    """Makes tables WITH COMPACT STORAGE, which have to be allowed here."""
    guarded = ("system", "table", "config") in db.rows("DESCRIBE TABLES")
    allow = f"UPDATE system.config SET value = '%s' WHERE name = '{NAME}'"
    if guarded:
        db.run(allow % "true")

    def make(columns, options=""):
        name = db.name()
        db.run(f"CREATE TABLE {name} ({columns}) WITH COMPACT STORAGE {options}")
        return name

    yield make
    if guarded:
        db.run(allow % "false")


def test_a_static_one(db, compact):
    t = compact("p int PRIMARY KEY, a int, b text")
    db.run(f"INSERT INTO {t} (p, a, b) VALUES (1, 2, 'x')")
    db.run(f"INSERT INTO {t} (p, a) VALUES (2, 3)")
    assert sorted(db.rows(f"SELECT * FROM {t}")) == [(1, 2, "x"), (2, 3, None)]
    assert db.rows(f"SELECT p, a FROM {t} WHERE a = 3 ALLOW FILTERING") == [(2, 3)]
    db.run(f"UPDATE {t} SET a = null WHERE p = 1")
    assert db.rows(f"SELECT * FROM {t} WHERE p = 1") == [(1, None, "x")]
    # A row has no marker: it goes with its last column.
    db.run(f"DELETE b FROM {t} WHERE p = 1")
    assert db.rows(f"SELECT * FROM {t} WHERE p = 1") == []
    assert db.one(f"SELECT count(*) FROM {t}") == 1


def test_a_dense_one(db, compact):
    t = compact("p int, c int, v text, PRIMARY KEY (p, c)", "AND CLUSTERING ORDER BY (c DESC)")
    for c in range(4):
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, {c}, 'v{c}')")
    assert db.column(f"SELECT c FROM {t} WHERE p = 1") == [3, 2, 1, 0]
    assert db.column(f"SELECT v FROM {t} WHERE p = 1 AND c > 1 ORDER BY c ASC") == ["v2", "v3"]
    assert db.rows(f"SELECT * FROM {t} WHERE p = 1 AND c = 2") == [(1, 2, "v2")]
    db.run(f"UPDATE {t} SET v = null WHERE p = 1 AND c = 2")
    db.run(f"DELETE FROM {t} WHERE p = 1 AND c = 3")
    assert db.column(f"SELECT c FROM {t} WHERE p = 1") == [1, 0]
    assert sum(db.pages(f"SELECT c FROM {t}", 1), []) == [(1,), (0,)]


def test_a_dense_one_of_several_columns(db, compact):
    t = compact("p int, c int, d text, v int, PRIMARY KEY (p, c, d)")
    for c, d in [(1, "a"), (1, "b"), (2, "a")]:
        db.run(f"INSERT INTO {t} (p, c, d, v) VALUES (1, {c}, '{d}', {c})")
    assert db.rows(f"SELECT c, d FROM {t} WHERE p = 1 AND c = 1") == [(1, "a"), (1, "b")]
    assert db.rows(f"SELECT c, d FROM {t} WHERE p = 1 AND (c, d) > (1, 'a')") == [(1, "b"), (2, "a")]
    # A prefix of the clustering columns makes a row as well.
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (2, 5, 9)")
    assert db.rows(f"SELECT c, d, v FROM {t} WHERE p = 2") == [(5, None, 9)]


def test_one_without_a_value(db, compact):
    t = compact("p int, c int, PRIMARY KEY (p, c)")
    for c in range(3):
        db.run(f"INSERT INTO {t} (p, c) VALUES (1, {c})")
    assert db.rows(f"SELECT * FROM {t}") == [(1, 0), (1, 1), (1, 2)]
    db.run(f"DELETE FROM {t} WHERE p = 1 AND c = 1")
    assert db.column(f"SELECT c FROM {t} WHERE p = 1 AND c >= 1") == [2]


def test_counters_and_frozen_collections(db, compact):
    t = compact("p int PRIMARY KEY, n counter")
    db.run(f"UPDATE {t} SET n = n + 5 WHERE p = 1")
    assert db.rows(f"SELECT * FROM {t}") == [(1, 5)]
    t = compact("p int, c frozen<list<int>>, v frozen<map<int, int>>, PRIMARY KEY (p, c)")
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, [1, 2], {{3: 4}})")
    assert db.rows(f"SELECT c, v FROM {t} WHERE p = 1 AND c = [1, 2]") == [([1, 2], {3: 4})]


@pytest.mark.parametrize("columns", [
    "p int PRIMARY KEY, l list<int>", "p int PRIMARY KEY, m map<int, int>",
    "p int, c int, v int, w int, PRIMARY KEY (p, c)", "p int, c int, s int static, PRIMARY KEY (p, c)",
    "p int PRIMARY KEY",
])
def test_refused(db, compact, columns):
    with pytest.raises((InvalidRequest, ConfigurationException, SyntaxException)):
        compact(columns)


@pytest.mark.parametrize("columns, change", [
    ("p int PRIMARY KEY, v int", "RENAME v TO w"),
    ("p int, c int, v int, PRIMARY KEY (p, c)", "ADD w int"),
    ("p int PRIMARY KEY, v int", "ADD l list<int>"), ("p int PRIMARY KEY, v int", "ADD v int"),
])
def test_refused_changes(db, compact, columns, change):
    t = compact(columns)
    with pytest.raises((InvalidRequest, ConfigurationException)):
        db.run(f"ALTER TABLE {t} {change}")


@pytest.mark.parametrize("columns", ["p int PRIMARY KEY, v int, w int",
                                     "p int, c int, v int, PRIMARY KEY (p, c)"])
def test_no_column_is_dropped(db, compact, columns):
    db.refuse(f"ALTER TABLE {compact(columns)} DROP v", "COMPACT STORAGE")


def test_what_has_no_meaning_here(db, compact):
    t = compact("p int, c int, d int, v int, PRIMARY KEY (p, c, d)")
    for text in [f"SELECT * FROM {t} WHERE p = 1 AND d = 1", f"DELETE v FROM {t} WHERE p = 1 AND d = 1",
                 f"UPDATE {t} SET v = 1 WHERE p = 1", f"SELECT DISTINCT p, c FROM {t}",
                 f"INSERT INTO {t} (p, d, v) VALUES (1, 1, 1)"]:
        with pytest.raises(InvalidRequest):
            db.run(text)


def test_it_is_described(db, compact):
    t = compact("p int, c int, v int, PRIMARY KEY (p, c)")
    described = db.rows(f"DESCRIBE TABLE {t}")[0][3]
    assert "COMPACT STORAGE" in described


def test_it_is_dropped(db, compact):
    t = compact("p int, c int, v int, PRIMARY KEY (p, c)")
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 3)")
    db.run(f"ALTER TABLE {t} DROP COMPACT STORAGE")
    db.run(f"ALTER TABLE {t} ADD w int")
    db.run(f"INSERT INTO {t} (p, c, w) VALUES (1, 4, 5)")
    assert db.rows(f"SELECT p, c, v, w FROM {t}") == [(1, 2, 3, None), (1, 4, None, 5)]
    assert "COMPACT STORAGE" not in db.rows(f"DESCRIBE TABLE {t}")[0][3]
    with pytest.raises((InvalidRequest, ConfigurationException)):
        db.run(f"ALTER TABLE {t} DROP COMPACT STORAGE")
