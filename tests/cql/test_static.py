"""Static columns: one value per partition."""
import pytest
from cassandra import InvalidRequest


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table("p int, c int, s text static, sm map<int, int> static, v int, "
                    "PRIMARY KEY (p, c)")


@pytest.mark.parametrize("statements, expected", [
    (["INSERT INTO {t} (p, s) VALUES (1, 'x')"], [(1, None, "x", None)]),
    (["UPDATE {t} SET s = 'x' WHERE p = 1"], [(1, None, "x", None)]),
    (["INSERT INTO {t} (p, s) VALUES (1, 'x')", "INSERT INTO {t} (p, c, v) VALUES (1, 5, 6)"],
     [(1, 5, "x", 6)]),
    (["INSERT INTO {t} (p, c, s, v) VALUES (1, 5, 'x', 6)",
      "INSERT INTO {t} (p, c, s, v) VALUES (1, 7, 'y', 8)"],
     [(1, 5, "y", 6), (1, 7, "y", 8)]),
    (["INSERT INTO {t} (p, c, s, v) VALUES (1, 5, 'x', 6)", "DELETE s FROM {t} WHERE p = 1"],
     [(1, 5, None, 6)]),
    (["INSERT INTO {t} (p, c, s, v) VALUES (1, 5, 'x', 6)",
      "DELETE FROM {t} WHERE p = 1 AND c = 5"], [(1, None, "x", None)]),
    (["INSERT INTO {t} (p, c, s, v) VALUES (1, 5, 'x', 6)", "DELETE FROM {t} WHERE p = 1"], []),
    (["INSERT INTO {t} (p, c, s, v) VALUES (1, 5, 'x', 6)",
      "DELETE FROM {t} WHERE p = 1 AND c > 0"], [(1, None, "x", None)]),
])
def test_writes(db, t, statements, expected):
    for statement in statements:
        db.run(statement.format(t=t))
    assert db.rows(f"SELECT p, c, s, v FROM {t}") == expected
    assert db.rows(f"SELECT p, c, s, v FROM {t} WHERE p = 1") == expected


def test_selections(db, t):
    for p in range(3):
        db.run(f"INSERT INTO {t} (p, s, sm) VALUES ({p}, 's{p}', {{1: {p}}})")
        for c in range(p):
            db.run(f"INSERT INTO {t} (p, c, v) VALUES ({p}, {c}, {c})")
    assert sorted(db.rows(f"SELECT DISTINCT p, s FROM {t}")) == [(0, "s0"), (1, "s1"), (2, "s2")]
    assert db.rows(f"SELECT s, sm FROM {t} WHERE p = 0") == [("s0", {1: 0})]
    assert db.rows(f"SELECT s, c FROM {t} WHERE p = 2") == [("s2", 0), ("s2", 1)]
    assert db.rows(f"SELECT s, c FROM {t} WHERE p = 2 ORDER BY c DESC") == [("s2", 1), ("s2", 0)]
    # A restriction of rows leaves no room for a partition without one.
    assert db.rows(f"SELECT s FROM {t} WHERE p = 0 AND c = 0") == []
    assert db.rows(f"SELECT s FROM {t} WHERE p = 0 AND c > 0") == []
    assert db.rows(f"SELECT s FROM {t} WHERE p = 2 AND c = 1") == [("s2",)]
    assert sorted(db.rows(f"SELECT p FROM {t} WHERE s = 's2' ALLOW FILTERING")) == [(2,), (2,)]
    assert db.one(f"SELECT count(*) FROM {t}") == 4
    pages = db.pages(f"SELECT p, c, s FROM {t}", 1)
    assert sorted((row for page in pages for row in page), key=str) \
        == sorted([(0, None, "s0"), (1, 0, "s1"), (2, 0, "s2"), (2, 1, "s2")], key=str)


def test_elements_of_static_collections(db, t):
    db.run(f"UPDATE {t} SET sm[1] = 2 WHERE p = 1")
    db.run(f"UPDATE {t} SET sm = sm + {{3: 4}} WHERE p = 1")
    db.run(f"DELETE sm[1] FROM {t} WHERE p = 1")
    assert db.rows(f"SELECT sm FROM {t} WHERE p = 1") == [({3: 4},)]


@pytest.mark.parametrize("statement", [
    "UPDATE {t} SET v = 1 WHERE p = 1",
    "UPDATE {t} SET s = 'x', v = 1 WHERE p = 1",
    "INSERT INTO {t} (p, s, v) VALUES (1, 'x', 1)",
    "DELETE s, v FROM {t} WHERE p = 1",
    "SELECT DISTINCT p, v FROM {t}",
])
def test_refused(db, t, statement):
    with pytest.raises(InvalidRequest):
        db.run(statement.format(t=t))
