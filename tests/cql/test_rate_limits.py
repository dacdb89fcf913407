"""Limits of requests to one partition: the option `per_partition_rate_limit` of tables."""
import pytest
from cassandra import OperationType, RateLimitReached

NONE = {"read": "'max_reads_per_second': 0", "write": "'max_writes_per_second': 0"}

READS = ["SELECT * FROM {t} WHERE p = 1", "SELECT * FROM {t} WHERE p IN (1, 2)",
         "SELECT count(*) FROM {t} WHERE p = 1", "SELECT v FROM {t} WHERE p = 1 AND c = 1"]
WRITES = ["INSERT INTO {t} (p, c, v) VALUES (1, 1, 1)", "UPDATE {t} SET v = 2 WHERE p = 1 AND c = 1",
          "DELETE FROM {t} WHERE p = 2", "DELETE FROM {t} WHERE p IN (2, 3)",
          "BEGIN BATCH INSERT INTO {t} (p, c) VALUES (3, 1); "
          "INSERT INTO {t} (p, c) VALUES (4, 1); APPLY BATCH",
          "BEGIN UNLOGGED BATCH DELETE FROM {t} WHERE p = 3; APPLY BATCH"]
# What is no read or write of one partition.
NEITHER = ["SELECT * FROM {t}", "SELECT * FROM {t} WHERE token(p) > 5",
           "UPDATE {t} SET v = 3 WHERE p = 1 AND c = 1 IF EXISTS", "TRUNCATE {t}"]


@pytest.fixture(name="t", scope="module")
def fixture_t(db):
    return db.table("p int, c int, v int, PRIMARY KEY (p, c)")


def limit(db, t, *names):
    limits = ", ".join(NONE[name] for name in names)
    db.run(f"ALTER TABLE {t} WITH per_partition_rate_limit = {{{limits}}}")


@pytest.mark.parametrize("limited, refused, taken", [
    (["read"], READS, WRITES + NEITHER), (["write"], WRITES, READS + NEITHER),
    ([], [], READS + WRITES + NEITHER),
], ids=["reads", "writes", "nothing"])
def test_what_is_over_the_limit_is_refused(db, t, limited, refused, taken):
    limit(db, t, *limited)
    for text in taken:
        db.run(text.format(t=t))
    for text in refused:
        with pytest.raises(RateLimitReached) as caught:
            db.run(text.format(t=t))
        expected = OperationType.Read if limited == ["read"] else OperationType.Write
        assert caught.value.op_type == expected
        prepared = db.session.prepare(text.format(t=t))
        with pytest.raises(RateLimitReached):
            db.session.execute(prepared)


def test_nothing_of_a_refused_batch_is_written(db, t):
    free = db.table("p int PRIMARY KEY")
    limit(db, t, "write")
    with pytest.raises(RateLimitReached):
        db.run(f"BEGIN BATCH INSERT INTO {free} (p) VALUES (1); "
               f"INSERT INTO {t} (p, c) VALUES (1, 1); APPLY BATCH")
    assert db.rows(f"SELECT * FROM {free}") == []


def test_some_go_on_when_there_are_too_many(db):
    t = db.table("p int PRIMARY KEY, v int",
                 "WITH per_partition_rate_limit = {'max_writes_per_second': 1}")
    refused = 0
    for number in range(300):
        try:
            db.run(f"INSERT INTO {t} (p, v) VALUES (1, {number})")
        except RateLimitReached:
            refused += 1
    assert 0 < refused < 300
    # Other partitions are not to pay for it.
    for number in range(2, 50):
        db.run(f"INSERT INTO {t} (p, v) VALUES ({number}, 1)")


def test_counters_are_not_limited(db):
    t = db.table("p int PRIMARY KEY, n counter", f"WITH per_partition_rate_limit = {{{NONE['write']}}}")
    db.run(f"UPDATE {t} SET n = n + 1 WHERE p = 1")
    assert db.rows(f"SELECT n FROM {t}") == [(1,)]
