"""Prepared statements: markers, metadata, what happens when the schema changes."""
import pytest
from cassandra import InvalidRequest

COLUMNS = "p int, c text, v int, l list<int>, PRIMARY KEY (p, c)"


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table(COLUMNS)


def test_markers_know_their_columns(db, t):
    statement = db.session.prepare(f"UPDATE {t} USING TTL ? SET v = ?, l = l + ? "
                                   "WHERE c = ? AND p = ?")
    names = [column.name for column in statement.column_metadata]
    assert names == ["[ttl]", "v", "l", "c", "p"]
    assert list(statement.routing_key_indexes) == [4]
    db.session.execute(statement, (100, 5, [1], "x", 1))
    assert db.rows(f"SELECT p, c, v, l FROM {t}") == [(1, "x", 5, [1])]


def test_the_routing_key_is_in_order_of_the_key(db):
    t = db.table("a int, b text, c int, PRIMARY KEY ((a, b), c)")
    select = db.session.prepare(f"SELECT * FROM {t} WHERE c = ? AND b = ? AND a = ?")
    assert list(select.routing_key_indexes) == [2, 1]
    partial = db.session.prepare(f"SELECT * FROM {t} WHERE c = ? AND b = ? AND a = 5")
    assert not partial.routing_key_indexes


def test_named_markers(db, t):
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (:key, :name, :value)")
    db.session.execute(insert, {"value": 3, "name": "x", "key": 1})
    assert db.rows(f"SELECT p, c, v FROM {t}") == [(1, "x", 3)]
    db.session.execute(f"INSERT INTO {t} (p, c, v) VALUES (%(p)s, %(c)s, %(v)s)",
                       {"p": 2, "c": "y", "v": 4})
    assert db.rows(f"SELECT v FROM {t} WHERE p = 2") == [(4,)]


def test_one_text_is_one_statement(db, t):
    text = f"SELECT * FROM {t} WHERE p = ?"
    first, second = db.session.prepare(text), db.session.prepare(text)
    assert first.query_id == second.query_id and len(first.query_id) == 16
    assert db.session.prepare(text + " ").query_id != first.query_id


@pytest.mark.parametrize("values, kind", [
    ((1,), (InvalidRequest, ValueError, Exception)),
    ((None, "x", 1), InvalidRequest),
    ((1, None, 1), InvalidRequest),
])
def test_refused_values(db, t, values, kind):
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?)")
    with pytest.raises(kind):
        db.session.execute(insert, values)
        assert len(values) < 3
        raise InvalidRequest("the driver filled up with unset")
    assert db.rows(f"SELECT * FROM {t}") in ([], [(1, None, None, None)])


@pytest.mark.parametrize("text", [
    "SELECT * FROM {t} WHERE nope = ?", "SELECT * FROM {n} WHERE p = ?",
    "INSERT INTO {t} (p, c) VALUES (?)", "SELECT * FROM {t} WHERE p = ? AND v = ?",
])
def test_statements_that_cannot_be_prepared(db, t, text):
    with pytest.raises(InvalidRequest):
        db.session.prepare(text.format(t=t, n=db.name()))


def test_a_new_column_is_seen(db, t):
    select = db.session.prepare(f"SELECT p, v FROM {t} WHERE p = ?")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?)")
    db.session.execute(insert, (1, "x", 5))
    db.run(f"ALTER TABLE {t} ADD w int")
    db.session.execute(insert, (2, "x", 6))
    assert tuple(db.session.execute(select, (2,)).one()) == (2, 6)
    db.run(f"ALTER TABLE {t} DROP v")
    with pytest.raises(Exception):
        db.session.execute(select, (1,))
        db.session.execute(select, (1,))


def test_a_table_made_anew(db, t):
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?)")
    db.session.execute(insert, (1, "x", 5))
    db.run(f"DROP TABLE {t}")
    with pytest.raises(Exception):
        db.session.execute(insert, (1, "x", 5))
    db.run(f"CREATE TABLE {t} ({COLUMNS})")
    db.session.execute(insert, (2, "y", 6))
    assert db.rows(f"SELECT p, c, v FROM {t}") == [(2, "y", 6)]


def test_many_statements_at_once(db, t):
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?)")
    futures = [db.session.execute_async(insert, (n % 50, f"c{n}", n)) for n in range(2000)]
    for future in futures:
        future.result()
    select = db.session.prepare(f"SELECT v FROM {t} WHERE p = ? AND c = ?")
    futures = [db.session.execute_async(select, (n % 50, f"c{n}")) for n in range(2000)]
    assert [future.result().one().v for future in futures] == list(range(2000))


def test_many_different_statements(db, t):
    for n in range(300):
        statement = db.session.prepare(f"SELECT v FROM {t} WHERE p = ? LIMIT {n + 1}")
        assert list(db.session.execute(statement, (n,))) == []
