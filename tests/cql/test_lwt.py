"""Conditional writes. A result holds, whether the write was applied or not, the row as it was: all
columns of IF [NOT] EXISTS, those of the conditions otherwise, and of each statement of a batch.
Cassandra shows them of refused writes alone, and of a batch those of the first refused statement."""
import pytest
from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.protocol import SyntaxException
from cassandra.query import UNSET_VALUE, BatchStatement, SimpleStatement


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table("p int, c int, s int static, v int, w text, PRIMARY KEY (p, c)")


@pytest.fixture(name="k")
def fixture_k(db):
    return db.table("k int PRIMARY KEY, v int, w text")


def test_existence(db, k):
    assert db.rows(f"UPDATE {k} SET v = 1 WHERE k = 1 IF EXISTS") == [(False, None, None, None)]
    insert = f"INSERT INTO {k} (k, v) VALUES (1, 2) IF NOT EXISTS"
    assert db.rows(insert) == [(True, None, None, None)]
    assert db.rows(insert) == [(False, 1, 2, None)]
    assert db.rows(f"DELETE v FROM {k} WHERE k = 1 IF EXISTS") == [(True, 1, 2, None)]
    assert db.rows(f"DELETE FROM {k} WHERE k = 1 IF EXISTS") == [(True, 1, None, None)]
    assert db.rows(f"DELETE FROM {k} WHERE k = 1 IF EXISTS") == [(False, None, None, None)]
    json = """INSERT INTO %s JSON '{"k": 5, "v": 1}' IF NOT EXISTS""" % k
    assert [db.rows(json)[0][0] for _ in range(2)] == [True, False]


@pytest.mark.parametrize("condition, applied", [
    ("v = 5", True), ("v = 4", False), ("v != 4", True), ("v < 6", True), ("v <= 4", False),
    ("v > 5", False), ("v >= 5", True), ("v IN (1, 5)", True), ("v IN ()", False),
    ("v IN (1, null)", False), ("v NOT IN (1, 2)", True), ("v NOT IN (5)", False),
    ("v = null", False), ("v != null", True), ("w = null", True), ("w IN (null)", True),
    ("w != 'a'", True), ("w < 'a'", False), ("w LIKE 'a%'", False), ("w NOT IN (null)", False),
    ("v = 5 AND w = null", True), ("v = 5 AND w = 'a'", False),
])
def test_conditions_on_columns(db, k, condition, applied):
    db.run(f"INSERT INTO {k} (k, v) VALUES (1, 5)")
    rows = db.rows(f"UPDATE {k} SET v = 9 WHERE k = 1 IF {condition}")
    shown = [{"v": 5, "w": None}[name] for name in "vw" if f"{name} " in condition]
    assert rows == [(applied, *shown)]
    assert db.one(f"SELECT v FROM {k} WHERE k = 1") == (9 if applied else 5)


def test_like(db, k):
    db.run(f"INSERT INTO {k} (k, w) VALUES (1, 'horse')")
    for pattern, applied in [("h%", True), ("%rs%", True), ("h_rse", True), ("%x%", False)]:
        rows = db.rows(f"UPDATE {k} SET v = 1 WHERE k = 1 IF w LIKE '{pattern}'")
        assert rows == [(applied, "horse")]


def test_null_has_no_order_and_unset_is_no_value(db, k):
    for operator in ["<", "<=", ">", ">="]:
        db.refuse(f"UPDATE {k} SET v = 1 WHERE k = 1 IF v {operator} null",
                  "Invalid comparison with null")
    statement = db.session.prepare(f"UPDATE {k} SET v = 1 WHERE k = 1 IF v = ?")
    with pytest.raises(InvalidRequest, match="unset"):
        db.session.execute(statement, (UNSET_VALUE,))
    assert db.prepared(f"UPDATE {k} SET v = 1 WHERE k = 1 IF v IN ?", [3, None]) == [(True, None)]


def test_elements_and_fields(db):
    name = db.type("a int, b text")
    t = db.table(f"k int PRIMARY KEY, m map<text, int>, l list<int>, s set<int>, u {name}")
    db.run(f"INSERT INTO {t} (k, m, l, s, u) VALUES (1, {{'a': 1}}, [7, 8], {{3}}, {{a: 1}})")

    def check(condition, applied):
        found = db.rows(f"UPDATE {t} SET s = s + {{4}} WHERE k = 1 IF {condition}")
        assert [row[0] for row in found] == [applied], condition

    check("m['a'] = 1", True)
    check("m['b'] = null", True)
    check("m['a'] IN (2, 3)", False)
    check("l[1] = 8", True)
    check("l[5] = null", True)
    check("l[0] > 7", False)
    check("u.a = 1", True)
    check("u.b = null AND u.a < 2", True)
    check("l CONTAINS 8", True)
    check("s CONTAINS 9", False)
    check("m CONTAINS KEY 'a'", True)
    check("l = [7, 8]", True)
    check("s != {3}", True)
    db.refuse(f"UPDATE {t} SET s = {{}} WHERE k = 1 IF u.c = 1", "does not have a field named c")
    db.refuse(f"UPDATE {t} SET s = {{}} WHERE k = 1 IF l[0] CONTAINS 1", "CONTAINS",
              kind=SyntaxException)


def test_static_columns(db, t):
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1)")
    # There are rows, but nothing static: INSERT asks for that alone.
    assert db.rows(f"INSERT INTO {t} (p, s) VALUES (1, 5) IF NOT EXISTS") == [
        (True, 1, None, None, None, None)]
    assert db.rows(f"UPDATE {t} SET s = 6 WHERE p = 1 IF s = 5") == [(True, 5)]
    assert db.rows(f"UPDATE {t} SET s = 7 WHERE p = 1 IF EXISTS") == [
        (True, 1, None, 6, None, None)]
    # A row that is not there has the partition's static columns all the same.
    assert db.rows(f"UPDATE {t} SET v = 2 WHERE p = 1 AND c = 2 IF s = 7 AND v = null") == [
        (True, 7, None)]
    assert db.rows(f"DELETE FROM {t} WHERE p = 1 AND c = 9 IF EXISTS") == [
        (False, None, None, None, None, None)]
    # The row decides what happens to what is static.
    assert db.rows(f"UPDATE {t} SET s = 8 WHERE p = 1 AND c = 2 IF v = 2") == [(True, 2)]
    db.refuse(f"UPDATE {t} SET s = 9 WHERE p = 1 IF v = 2", "missing")
    db.refuse(f"DELETE s FROM {t} WHERE p = 1 IF v = 2", "PRIMARY KEY")
    db.refuse(f"UPDATE {t} SET s = 9 WHERE p = 1 AND c = 2 IF s = 8", "only static columns")


def test_batches(db, t):
    db.run(f"INSERT INTO {t} (p, c, s, v) VALUES (1, 1, 5, 1)")
    text = (f"BEGIN BATCH UPDATE {t} SET v = 2 WHERE p = 1 AND c = 1 IF v = %d; "
            f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 2) IF NOT EXISTS; "
            f"UPDATE {t} SET s = 6 WHERE p = 1; APPLY BATCH")
    columns = ("p", "c", "s", "v", "w")
    refused = db.run(text % 9)
    assert refused.column_names == ["[applied]", *columns]
    assert [tuple(row) for row in refused] == [
        (False, 1, 1, 5, 1, None), (False, None, None, None, None, None),
        (False, 1, None, 5, None, None)]
    assert [row[0] for row in db.rows(text % 1)] == [True] * 3
    assert db.rows(f"SELECT c, s, v FROM {t} WHERE p = 1") == [(1, 6, 2), (2, 6, 2)]
    message = BatchStatement()
    message.add(db.session.prepare(f"UPDATE {t} SET v = ? WHERE p = 1 AND c = ? IF v = ?"),
                (3, 1, 2))
    message.add(SimpleStatement(f"DELETE FROM {t} WHERE p = 1 AND c = 2"))
    rows = [tuple(row) for row in db.session.execute(message)]
    assert rows == [(True, 1, 1, 2), (True, 1, None, None)]
    assert db.rows(f"SELECT c, v FROM {t} WHERE p = 1") == [(1, 3)]
    other = db.table("p int PRIMARY KEY, v int")
    for second in (f"UPDATE {t} SET v = 1 WHERE p = 2 AND c = 1",
                   f"UPDATE {other} SET v = 1 WHERE p = 1"):
        db.refuse(f"BEGIN BATCH UPDATE {t} SET v = 1 WHERE p = 1 AND c = 1 IF v = 1; {second}; "
                  "APPLY BATCH", "conditions cannot span multiple")


@pytest.fixture(name="unextended", scope="module")
def fixture_unextended(node, db):
    """A session of a driver that does not ask for ScyllaDB's extensions of the protocol."""
    return type(db)(node.connect_unextended(), db.keyspace)


def test_batches_of_other_drivers(unextended, t):
    """They are answered as by Cassandra: all at once, with rows that are there, each once."""
    run = unextended.run
    run(f"INSERT INTO {t} (p, s) VALUES (1, 5)")
    for c in (1, 2, 3):
        run(f"INSERT INTO {t} (p, c, v, w) VALUES (1, {c}, {c}, 'w{c}')")

    def batch(*statements):
        text = f"BEGIN BATCH {'; '.join(statements)}; APPLY BATCH"
        found = run(text)
        again = unextended.session.execute(unextended.session.prepare(text))
        message = BatchStatement()
        for statement in statements:
            message.add(SimpleStatement(statement))
        last = unextended.session.execute(message)
        answers = [(each.column_names, [tuple(row) for row in each]) for each in (found, again, last)]
        if not answers[0][1][0][0]:
            assert answers[0] == answers[1] == answers[2]
        return answers[0]

    update = f"UPDATE {t} SET %s WHERE p = 1 AND c = %d"
    assert batch(update % ("v = 3", 3) + " IF v = 9", update % ("v = 1", 1) + " IF w = 'w1'",
                 update % ("v = 1", 1) + " IF v = 1", update % ("v = 7", 7) + " IF v = 1") == (
        ["[applied]", "p", "c", "v", "w"], [(False, 1, 1, 1, "w1"), (False, 1, 3, 3, "w3")])
    assert batch(update % ("v = 7", 7) + " IF v = 1", update % ("v = 2", 2)) == (
        ["[applied]"], [(False,)])
    assert batch(f"UPDATE {t} SET s = 1 WHERE p = 1 IF s = 1", update % ("v = 2", 2)) == (
        ["[applied]", "p", "c", "s"], [(False, 1, 1, 5)])
    assert batch(f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 2) IF NOT EXISTS",
                 update % ("v = 3", 3) + " IF EXISTS") == (
        ["[applied]", "p", "c", "s", "v", "w"],
        [(False, 1, 2, None, 2, "w2"), (False, 1, 3, None, 3, "w3")])
    assert batch(update % ("v = 3", 3) + " IF v = 3", update % ("v = 2", 2)) == (
        ["[applied]"], [(True,)])
    assert unextended.rows(f"UPDATE {t} SET v = 9 WHERE p = 1 AND c = 1 IF v = 8") == [(False, 1)]


def test_conditional_writes_are_refused(db, t, k):
    counters = db.table("k int PRIMARY KEY, n counter")
    d = db.table("k int PRIMARY KEY, d duration")
    for text, words in [
        (f"UPDATE {k} USING TIMESTAMP 5 SET v = 1 WHERE k = 1 IF EXISTS", "custom timestamp"),
        (f"UPDATE {k} SET v = 1 WHERE k IN (1, 2) IF EXISTS",
         "IN on the partition key is not supported with conditional updates"),
        (f"UPDATE {t} SET v = 1 WHERE p = 1 AND c IN (1, 2) IF EXISTS",
         "IN on the clustering key columns is not supported with conditional updates"),
        (f"DELETE FROM {t} WHERE p = 1 AND c IN (1, 2) IF EXISTS",
         "IN on the clustering key columns is not supported with conditional deletions"),
        (f"DELETE FROM {t} WHERE p = 1 IF EXISTS", "must restrict all PRIMARY KEY columns"),
        (f"UPDATE {k} SET v = 1 WHERE k = 1 IF k = 1", "PRIMARY KEY column 'k' cannot have IF"),
        (f"UPDATE {counters} SET n = n + 1 WHERE k = 1 IF n = 1", "counter"),
        (f"UPDATE {d} SET d = 1s WHERE k = 1 IF d > 1s", "duration"),
        (f"BEGIN BATCH USING TIMESTAMP 5 UPDATE {k} SET v = 1 WHERE k = 1 IF EXISTS; APPLY BATCH",
         "custom timestamp"),
    ]:
        db.refuse(text, words)


def test_levels(db, k):
    text = f"UPDATE {k} SET v = 1 WHERE k = 1 IF v = null"
    statement = SimpleStatement(text, serial_consistency_level=ConsistencyLevel.LOCAL_SERIAL)
    assert db.session.execute(statement).one().applied
    plain = SimpleStatement(f"UPDATE {k} SET v = 1 WHERE k = 1",
                            consistency_level=ConsistencyLevel.SERIAL)
    with pytest.raises(InvalidRequest, match="conditional updates for serializable writes"):
        db.session.execute(plain)
    read = SimpleStatement(f"SELECT v FROM {k} WHERE k = 1",
                           consistency_level=ConsistencyLevel.SERIAL)
    assert db.session.execute(read).one().v == 1


def test_later_than_what_was_there(db, k):
    """Of two conditional writes the second one wins, however close they are."""
    for n in range(50):
        db.run(f"UPDATE {k} SET v = {n} WHERE k = 1 IF v != {n}")
        assert db.one(f"SELECT v FROM {k} WHERE k = 1") == n
