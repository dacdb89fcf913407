"""Batches, as text and as messages."""
import pytest
from cassandra import InvalidRequest, WriteTimeout
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table("p int, c int, v int, s int static, PRIMARY KEY (p, c)")


@pytest.mark.parametrize("kind", ["", "UNLOGGED"])
def test_text(db, t, kind):
    db.run(f"BEGIN {kind} BATCH "
           f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1); "
           f"UPDATE {t} SET v = 2 WHERE p = 2 AND c = 2; "
           f"INSERT INTO {t} (p, s) VALUES (1, 9) "
           f"DELETE FROM {t} WHERE p = 3 APPLY BATCH")
    assert sorted(db.rows(f"SELECT p, c, v, s FROM {t}")) == [(1, 1, 1, 9), (2, 2, 2, None)]


def test_one_timestamp_for_all(db, t):
    db.run(f"BEGIN BATCH USING TIMESTAMP 1000 INSERT INTO {t} (p, c, v) VALUES (1, 1, 1); "
           f"INSERT INTO {t} (p, c, v) VALUES (2, 1, 1); APPLY BATCH")
    assert db.column(f"SELECT writetime(v) FROM {t}") == [1000, 1000]
    # Within a batch a deletion wins over a write of the same time.
    db.run(f"BEGIN BATCH USING TIMESTAMP 2000 INSERT INTO {t} (p, c, v) VALUES (1, 1, 5); "
           f"DELETE FROM {t} WHERE p = 1 AND c = 1; APPLY BATCH")
    assert db.rows(f"SELECT v FROM {t} WHERE p = 1") == []
    db.run(f"BEGIN BATCH INSERT INTO {t} (p, c, v) VALUES (7, 1, 1) USING TIMESTAMP 5; "
           f"INSERT INTO {t} (p, c, v) VALUES (7, 2, 1) USING TIMESTAMP 6; APPLY BATCH")
    assert db.column(f"SELECT writetime(v) FROM {t} WHERE p = 7") == [5, 6]


def test_what_a_batch_takes(db, t):
    one = f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1)"
    for text, words in [
        (f"BEGIN BATCH USING TIMESTAMP 5 {one} USING TIMESTAMP 6 APPLY BATCH",
         "timestamp must be set either on batch or individual statements"),
        (f"BEGIN BATCH USING TTL 5 {one} APPLY BATCH", "ttl on the batch statement"),
    ]:
        db.refuse(text, words)
    with pytest.raises(SyntaxException):
        db.run(f"BEGIN BATCH SELECT * FROM {t} APPLY BATCH")
    assert db.rows(f"SELECT * FROM {t}") == []
    text = (f"BEGIN BATCH INSERT INTO {t} (p, c, v) VALUES (:p, 1, :v); "
            f"INSERT INTO {t} (p, c, v) VALUES (:p, 2, :v); APPLY BATCH")
    prepared = db.session.prepare(text)
    db.session.execute(prepared, {"p": 3, "v": 4})
    assert db.rows(f"SELECT p, c, v FROM {t}") == [(3, 1, 4), (3, 2, 4)]


def test_a_timeout_of_all(db, t):
    db.run(f"BEGIN BATCH USING TIMEOUT 5s AND TIMESTAMP 5 "
           f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1); APPLY BATCH")
    assert db.column(f"SELECT writetime(v) FROM {t}") == [5]
    db.refuse(f"BEGIN BATCH USING TIMEOUT 0s INSERT INTO {t} (p, c) VALUES (1, 2); APPLY BATCH", "",
              kind=WriteTimeout)


def test_a_large_batch_is_warned_of(db):
    t = db.table("k int PRIMARY KEY, v blob")
    insert = db.session.prepare(f"INSERT INTO {t} (k, v) VALUES (?, ?)")
    for bytes_each, warned in [(1000, False), (80_000, True)]:
        batch = BatchStatement(BatchType.LOGGED)
        for k in range(2):
            batch.add(insert, (k, bytes(bytes_each)))
        future = db.session.execute_async(batch)
        future.result()
        found = any("exceeding specified" in warning for warning in future.warnings or [])
        assert found == warned


def test_messages_of_counters(db):
    t = db.table("k int PRIMARY KEY, n counter")
    add = db.session.prepare(f"UPDATE {t} SET n = n + ? WHERE k = ?")
    batch = BatchStatement(BatchType.COUNTER)
    for number in range(10):
        batch.add(add, (number, number % 2))
    db.session.execute(batch)
    assert dict(db.rows(f"SELECT k, n FROM {t}")) == {0: 20, 1: 25}


def test_empty(db):
    db.run("BEGIN BATCH APPLY BATCH")


@pytest.mark.parametrize("kind", [BatchType.LOGGED, BatchType.UNLOGGED])
def test_messages(db, t, kind):
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?)")
    batch = BatchStatement(kind)
    for n in range(100):
        batch.add(insert, (n % 7, n, n))
    batch.add(SimpleStatement(f"INSERT INTO {t} (p, c, v) VALUES (%s, %s, %s)"), (100, 1, 2))
    batch.add(SimpleStatement(f"DELETE FROM {t} WHERE p = 0"))
    db.session.execute(batch)
    assert len(db.rows(f"SELECT * FROM {t}")) == sum(n % 7 != 0 for n in range(100)) + 1


def test_counters(db):
    t = db.table("k int PRIMARY KEY, n counter")
    db.run(f"BEGIN COUNTER BATCH UPDATE {t} SET n = n + 1 WHERE k = 1; "
           f"UPDATE {t} SET n = n + 2 WHERE k = 1; UPDATE {t} SET n = n - 5 WHERE k = 2; "
           "APPLY BATCH")
    assert dict(db.rows(f"SELECT k, n FROM {t}")) == {1: 3, 2: -5}
    plain = db.table("k int PRIMARY KEY, v int")
    for text in [f"BEGIN BATCH UPDATE {t} SET n = n + 1 WHERE k = 1 APPLY BATCH",
                 f"BEGIN COUNTER BATCH INSERT INTO {plain} (k, v) VALUES (1, 1) APPLY BATCH"]:
        with pytest.raises(InvalidRequest):
            db.run(text)


def test_a_bad_statement_spoils_all(db, t):
    with pytest.raises(InvalidRequest):
        db.run(f"BEGIN BATCH INSERT INTO {t} (p, c, v) VALUES (1, 1, 1); "
               f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 'text'); APPLY BATCH")
    assert db.rows(f"SELECT * FROM {t}") == []


def test_a_batch_that_is_too_large(db):
    t = db.table("k int PRIMARY KEY, v blob")
    insert = db.session.prepare(f"INSERT INTO {t} (k, v) VALUES (?, ?)")
    batch = BatchStatement(BatchType.LOGGED)
    for k in range(20):
        batch.add(insert, (k, bytes(100_000)))
    with pytest.raises(InvalidRequest, match="(?i)batch too large"):
        db.session.execute(batch)
    assert db.rows(f"SELECT k FROM {t}") == []
