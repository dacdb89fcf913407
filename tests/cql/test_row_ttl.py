"""Rows that say when they expire: `c type TTL`. ScyllaDB's, not Cassandra's."""
import time

import pytest


def described(db, t):
    text = db.rows(f"DESCRIBE TABLE {t}")[0][3]
    return [line.split()[0].strip('"') for line in text.splitlines() if line.endswith(" TTL,")]


@pytest.mark.parametrize("kind", ["int", "bigint", "timestamp"])
def test_the_column_is_part_of_the_table(db, kind):
    t = db.table(f"k int PRIMARY KEY, v int, e {kind} TTL")
    assert described(db, t) == ["e"]
    db.refuse(f"ALTER TABLE {t} TTL v", "already has a TTL column")
    db.run(f"ALTER TABLE {t} TTL NULL")
    assert described(db, t) == []
    db.refuse(f"ALTER TABLE {t} TTL NULL", "does not have a TTL column")
    db.run(f"ALTER TABLE {t} TTL e")
    db.run(f"ALTER TABLE {t} DROP e")
    db.run(f"ALTER TABLE {t} ADD e {kind}")
    assert described(db, t) == []


def test_columns_that_cannot_be_it(db):
    t = db.table("p timestamp, c timestamp, s timestamp static, v text, PRIMARY KEY (p, c)")
    for column, words in [("p", "Cannot use a primary key"), ("c", "Cannot use a primary key"),
                          ("s", "Cannot use a static"), ("v", "must be of type"),
                          ("x", "does not exist")]:
        db.refuse(f"ALTER TABLE {t} TTL {column}", words)
    for columns, words in [("k int TTL PRIMARY KEY", "TTL column k"),
                           ("k int PRIMARY KEY, a int TTL, b int TTL", "more than one"),
                           ("k int PRIMARY KEY, a text TTL", "must be of type")]:
        db.refuse(f"CREATE TABLE {db.name()} ({columns})", words)


def wait_for(expected, found, seconds=20):
    deadline = time.monotonic() + seconds
    while found() != expected and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found() == expected


def test_rows_expire(db):
    update = "UPDATE system.config SET value = '%s' WHERE name = 'alternator_ttl_period_in_seconds'"
    before = db.one("SELECT value FROM system.config "
                    "WHERE name = 'alternator_ttl_period_in_seconds'")
    now = int(time.time())
    k = db.table("k int PRIMARY KEY, e bigint")
    t = db.table("p int, c int, s int static, e timestamp TTL, PRIMARY KEY (p, c)")
    for key, at in [(1, now - 60), (2, now + 3600), (3, now - 6 * 365 * 86400), (4, "null")]:
        db.run(f"INSERT INTO {k} (k, e) VALUES ({key}, {at})")
    for c, at in [(1, now - 5), (2, now + 3600)]:
        db.run(f"INSERT INTO {t} (p, c, s, e) VALUES (1, {c}, 9, {at * 1000})")
    db.run(f"INSERT INTO {t} (p, c, s, e) VALUES (2, 1, 7, {now * 1000 - 1})")
    db.run(update % "0.2")
    try:
        wait_for([(1, 2, 9), (2, None, 7)],
                 lambda: sorted(db.rows(f"SELECT p, c, s FROM {t}"), key=lambda row: row[0]))
        assert sorted(db.column(f"SELECT k FROM {k}")) == [1, 2, 3, 4]
        db.run(f"ALTER TABLE {k} TTL e")
        # Long ago is a mistake, and no time is for ever.
        wait_for([2, 3, 4], lambda: sorted(db.column(f"SELECT k FROM {k}")))
        db.run(f"UPDATE {k} SET e = {now - 1} WHERE k = 4")
        wait_for([2, 3], lambda: sorted(db.column(f"SELECT k FROM {k}")))
    finally:
        db.run(update % before)
