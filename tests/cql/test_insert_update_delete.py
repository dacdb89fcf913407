"""What writes leave behind: rows, cells, markers, and the deletions of each."""
import pytest
from cassandra import InvalidRequest
from cassandra.query import UNSET_VALUE

COLUMNS = "p int, c int, v int, w text, PRIMARY KEY (p, c)"


@pytest.mark.parametrize("statements, expected", [
    (["INSERT INTO {t} (p, c, v) VALUES (1, 1, 5)"], [(1, 1, 5, None)]),
    (["INSERT INTO {t} (p, c) VALUES (1, 1)"], [(1, 1, None, None)]),
    (["INSERT INTO {t} (p, c, v) VALUES (1, 1, 5)", "INSERT INTO {t} (p, c, w) VALUES (1, 1, 'x')"],
     [(1, 1, 5, "x")]),
    (["INSERT INTO {t} (p, c, v) VALUES (1, 1, 5)", "INSERT INTO {t} (p, c, v) VALUES (1, 1, null)"],
     [(1, 1, None, None)]),
    # A row that UPDATE made is there while it has a value.
    (["UPDATE {t} SET v = 5 WHERE p = 1 AND c = 1"], [(1, 1, 5, None)]),
    (["UPDATE {t} SET v = 5 WHERE p = 1 AND c = 1", "DELETE v FROM {t} WHERE p = 1 AND c = 1"], []),
    (["INSERT INTO {t} (p, c, v) VALUES (1, 1, 5)", "DELETE v FROM {t} WHERE p = 1 AND c = 1"],
     [(1, 1, None, None)]),
    (["UPDATE {t} SET v = null WHERE p = 1 AND c = 1"], []),
    (["UPDATE {t} SET v = 5, w = 'x' WHERE p = 1 AND c IN (1, 3)"],
     [(1, 1, 5, "x"), (1, 3, 5, "x")]),
    (["UPDATE {t} SET v = 5 WHERE p IN (1, 1) AND c = 2"], [(1, 2, 5, None)]),
    (["INSERT INTO {t} JSON '{{\"p\": 1, \"c\": 2, \"v\": 3, \"w\": \"x\"}}'"], [(1, 2, 3, "x")]),
])
def test_writes(db, statements, expected):
    t = db.table(COLUMNS)
    for statement in statements:
        db.run(statement.format(t=t))
    assert db.rows(f"SELECT p, c, v, w FROM {t}") == expected


@pytest.mark.parametrize("where, left", [
    ("p = 1", []),
    ("p = 2", range(8)),
    ("p = 1 AND c = 3", [0, 1, 2, 4, 5, 6, 7]),
    ("p = 1 AND c IN (0, 3, 9)", [1, 2, 4, 5, 6, 7]),
    ("p IN (1, 2) AND c IN (0, 3)", [1, 2, 4, 5, 6, 7]),
    ("p = 1 AND c > 3", [0, 1, 2, 3]),
    ("p = 1 AND c >= 3 AND c < 6", [0, 1, 2, 6, 7]),
    ("p = 1 AND c <= 3", [4, 5, 6, 7]),
    ("p = 1 AND c > 3 AND c < 4", range(8)),
    ("p = 1 AND c > 5 AND c < 2", range(8)),
])
@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_deletes(db, where, left, order):
    t = db.table(COLUMNS, f"WITH CLUSTERING ORDER BY (c {order})")
    for c in range(8):
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, {c}, {c})")
    db.run(f"DELETE FROM {t} WHERE {where}")
    assert sorted(db.column(f"SELECT c FROM {t}")) == list(left)
    # What is written afterwards is there.
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 3, 9)")
    assert db.rows(f"SELECT v FROM {t} WHERE p = 1 AND c = 3") == [(9,)]


def test_deletes_of_a_clustering_prefix(db):
    t = db.table("p int, a int, b text, c int, PRIMARY KEY (p, a, b, c)",
                 "WITH CLUSTERING ORDER BY (a ASC, b DESC, c ASC)")
    everything = [(a, b, c) for a in range(3) for b in "xyz" for c in range(2)]

    def left_after(where):
        for a, b, c in everything:
            db.run(f"INSERT INTO {t} (p, a, b, c) VALUES (1, {a}, '{b}', {c})")
        db.run(f"DELETE FROM {t} WHERE p = 1 AND {where}")
        return set(db.rows(f"SELECT a, b, c FROM {t} WHERE p = 1"))

    for where, gone in [
        ("a = 1", lambda a, b, c: a == 1),
        ("a = 1 AND b = 'y'", lambda a, b, c: (a, b) == (1, "y")),
        ("a = 1 AND b >= 'y'", lambda a, b, c: a == 1 and b >= "y"),
        ("a = 1 AND b < 'y'", lambda a, b, c: a == 1 and b < "y"),
        ("a = 2 AND b = 'z' AND c > 0", lambda a, b, c: (a, b) == (2, "z") and c > 0),
        ("a > 0", lambda a, b, c: a > 0),
        ("(a, b) >= (1, 'y')", None),
    ]:
        left = left_after(where)
        if gone is None:
            assert left < set(everything) and (0, "x", 0) in left
        else:
            assert left == {row for row in everything if not gone(*row)}, where


def test_unset_leaves_and_null_deletes(db):
    t = db.table(COLUMNS)
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v, w) VALUES (?, ?, ?, ?)")
    db.session.execute(insert, (1, 1, 5, "x"))
    db.session.execute(insert, (1, 1, UNSET_VALUE, "y"))
    assert db.rows(f"SELECT v, w FROM {t}") == [(5, "y")]
    db.session.execute(insert, (1, 1, None, UNSET_VALUE))
    assert db.rows(f"SELECT v, w FROM {t}") == [(None, "y")]
    with pytest.raises(InvalidRequest):
        db.session.execute(insert, (1, UNSET_VALUE, 1, "x"))


def test_empty_values_are_not_null(db):
    t = db.table("p int PRIMARY KEY, t text, b blob, i int")
    db.run(f"INSERT INTO {t} (p, t, b) VALUES (1, '', 0x)")
    assert db.rows(f"SELECT t, b, i FROM {t}") == [("", b"", None)]


def test_many_columns_and_large_values(db):
    names = [f"c{n}" for n in range(200)]
    t = db.table("p int PRIMARY KEY, " + ", ".join(f"{name} text" for name in names))
    insert = db.session.prepare(
        f"INSERT INTO {t} (p, {', '.join(names)}) VALUES (?{', ?' * len(names)})")
    values = [f"{n}" * (n + 1) for n in range(len(names))]
    db.session.execute(insert, [1, *values])
    assert db.rows(f"SELECT {', '.join(names)} FROM {t}") == [tuple(values)]
    big = db.table("p int PRIMARY KEY, v blob")
    value = bytes(range(256)) * 8000
    statement = db.session.prepare(f"INSERT INTO {big} (p, v) VALUES (?, ?)")
    db.session.execute(statement, (1, value))
    assert db.rows(f"SELECT v FROM {big}") == [(value,)]


@pytest.mark.parametrize("statement, words", [
    ("INSERT INTO {t} (p, v) VALUES (1, 1)", "missing"),
    ("INSERT INTO {t} (p, c, v) VALUES (1, 1)", "unmatched"),
    ("INSERT INTO {t} (p, c, nope) VALUES (1, 1, 1)", "nope"),
    ("INSERT INTO {t} (p, c, c) VALUES (1, 1, 1)", ""),
    ("INSERT INTO {t} (p, c, v) VALUES (1, 1, 'text')", "v"),
    ("INSERT INTO {t} (p, c, v) VALUES (1, null, 1)", "null value"),
    ("INSERT INTO {t} (p, c, v) VALUES (null, 1, 1)", "null value"),
    ("UPDATE {t} SET v = 1 WHERE p = 1", ""),
    ("UPDATE {t} SET v = 1 WHERE c = 1", ""),
    ("UPDATE {t} SET c = 2 WHERE p = 1 AND c = 1", "PRIMARY KEY"),
    ("UPDATE {t} SET v = 1 WHERE p = 1 AND c > 1", ""),
    ("UPDATE {t} SET v = 1 WHERE p = 1 AND c = 1 AND v = 2", ""),
    ("UPDATE {t} SET v = 1, v = 2 WHERE p = 1 AND c = 1", ""),
    ("UPDATE {t} SET nope = 1 WHERE p = 1 AND c = 1", "nope"),
    ("DELETE FROM {t} WHERE c = 1", ""),
    ("DELETE FROM {t} WHERE p > 1", ""),
    ("DELETE v FROM {t} WHERE p = 1 AND c > 1", ""),
    ("DELETE v FROM {t} WHERE p = 1", ""),
    ("DELETE p FROM {t} WHERE p = 1 AND c = 1", ""),
    ("DELETE nope FROM {t} WHERE p = 1 AND c = 1", "nope"),
    ("UPDATE {t} SET v = v + 1 WHERE p = 1 AND c = 1", ""),
])
def test_refused_writes(db, statement, words):
    t = db.table(COLUMNS)
    db.refuse(statement.format(t=t), words)
    assert db.rows(f"SELECT * FROM {t}") == []


def test_key_limits(db):
    t = db.table("p text, c text, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c) VALUES (?, ?)")
    db.session.execute(insert, ("x" * 65_000, "y" * 65_000))
    assert len(db.rows(f"SELECT p, c FROM {t}")[0][1]) == 65_000
    for values, words in [(("x" * 65_536, "y"), "65535"), (("", "y"), "Key may not be empty")]:
        with pytest.raises(InvalidRequest, match=words):
            db.session.execute(insert, values)


def test_what_stands_behind_using(db):
    t = db.table(COLUMNS)
    insert = f"INSERT INTO {t} (p, c, v) VALUES (1, ?, 5) IF NOT EXISTS USING TTL ?"
    assert db.prepared(insert, 1, 1000)[0][0]
    assert 990 <= db.one(f"SELECT ttl(v) FROM {t}") <= 1000
    update = db.session.prepare(f"UPDATE {t} USING TIMESTAMP ? AND TTL ? SET w = ? "
                                "WHERE p = 1 AND c = 2")
    db.session.execute(update, (9, UNSET_VALUE, "x"))
    assert db.rows(f"SELECT writetime(w), ttl(w) FROM {t} WHERE p = 1 AND c = 2") == [(9, None)]
    with pytest.raises(InvalidRequest, match="Invalid null value of timestamp"):
        db.session.execute(update, (None, 5, "y"))
    with pytest.raises(InvalidRequest):
        db.session.execute(update, (9, -1, "y"))
    db.run(f"DELETE FROM {t} USING TIMESTAMP 8 WHERE p = 1 AND c = 2")
    assert db.column(f"SELECT w FROM {t} WHERE p = 1 AND c = 2") == ["x"]
    db.run(f"DELETE w FROM {t} USING TIMESTAMP 10 WHERE p = 1 AND c = 2")
    assert db.column(f"SELECT w FROM {t} WHERE p = 1 AND c = 2") == []


def test_counters_that_are_refused(db):
    t = db.table("k int PRIMARY KEY, n counter")
    add = db.session.prepare(f"UPDATE {t} SET n = n + ? WHERE k = 1")
    db.session.execute(add, (5,))
    db.session.execute(add, (UNSET_VALUE,))
    with pytest.raises(InvalidRequest, match="(?i)null value for counter"):
        db.session.execute(add, (None,))
    assert db.rows(f"SELECT k, n FROM {t}") == [(1, 5)]
    db.refuse(f"INSERT INTO {t} (k, n) VALUES (1, 1)", "not allowed on counter tables, use UPDATE")
    db.refuse(f"UPDATE {t} SET n = 3 WHERE k = 1", "cannot set the value of counter column n")
    db.refuse(f"CREATE TABLE {db.name()} (k int PRIMARY KEY, n counter, v int)", "mix counter")
    db.refuse(f"CREATE TABLE {db.name()} (k int PRIMARY KEY, n set<counter>)", "counter")


def test_counters(db):
    t = db.table("p int, c int, n counter, m counter, PRIMARY KEY (p, c)")
    for _ in range(3):
        db.run(f"UPDATE {t} SET n = n + 5, m = m - 1 WHERE p = 1 AND c = 1")
    db.run(f"UPDATE {t} SET n += 2 WHERE p = 1 AND c = 2")
    assert db.rows(f"SELECT c, n, m FROM {t}") == [(1, 15, -3), (2, 2, None)]
    db.run(f"DELETE n FROM {t} WHERE p = 1 AND c = 1")
    assert db.rows(f"SELECT c, n, m FROM {t}") == [(1, None, -3), (2, 2, None)]
    update = db.session.prepare(f"UPDATE {t} SET n = n + ? WHERE p = ? AND c = ?")
    futures = [db.session.execute_async(update, (k % 3, 9, k % 2)) for k in range(100)]
    for future in futures:
        future.result()
    assert sum(db.column(f"SELECT n FROM {t} WHERE p = 9")) == sum(k % 3 for k in range(100))
    for statement in [f"INSERT INTO {t} (p, c, n) VALUES (1, 1, 1)",
                      f"UPDATE {t} SET n = 3 WHERE p = 1 AND c = 1",
                      f"UPDATE {t} USING TTL 5 SET n = n + 1 WHERE p = 1 AND c = 1",
                      f"UPDATE {t} USING TIMESTAMP 5 SET n = n + 1 WHERE p = 1 AND c = 1"]:
        with pytest.raises(InvalidRequest):
            db.run(statement)
