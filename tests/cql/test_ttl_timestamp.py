"""Times to live and timestamps: what wins, what expires, what is refused."""
import time

import pytest
from cassandra import InvalidRequest
from cassandra.query import UNSET_VALUE

COLUMNS = "p int, c int, v int, w int, m map<int, int>, PRIMARY KEY (p, c)"
FUTURE = int(time.time() * 1_000_000) + 4 * 24 * 3600 * 1_000_000


@pytest.fixture(name="t")
def fixture_t(db):
    return db.table(COLUMNS)


@pytest.mark.parametrize("writes, expected", [
    # (timestamp, value or None for a deletion of the row)
    ([(10, 1), (20, 2)], 2), ([(20, 2), (10, 1)], 2), ([(10, 1), (10, 2)], 2),
    ([(10, 2), (10, 1)], 2), ([(10, 1), (20, None)], "gone"), ([(20, None), (10, 1)], "gone"),
    ([(20, None), (30, 3)], 3), ([(10, 1), (10, None)], "gone"), ([(10, None), (10, 1)], "gone"),
])
def test_the_newest_wins_in_any_order(db, t, writes, expected):
    for timestamp, value in writes:
        if value is None:
            db.run(f"DELETE FROM {t} USING TIMESTAMP {timestamp} WHERE p = 1 AND c = 1")
        else:
            db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, {value}) USING TIMESTAMP {timestamp}")
    assert db.column(f"SELECT v FROM {t}") == ([] if expected == "gone" else [expected])


def test_writetime_and_ttl(db, t):
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 5) USING TIMESTAMP 1234 AND TTL 1000")
    db.run(f"UPDATE {t} USING TIMESTAMP 99 SET w = 6 WHERE p = 1 AND c = 1")
    ((written, left, other, none),) = db.rows(
        f"SELECT writetime(v), ttl(v), writetime(w), ttl(w) FROM {t}")
    assert (written, other, none) == (1234, 99, None) and 990 <= left <= 1000
    before = time.time() * 1e6
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (2, 1, 5)")
    now = db.one(f"SELECT writetime(v) FROM {t} WHERE p = 2")
    assert before - 60e6 < now < time.time() * 1e6 + 60e6


def test_what_lives_for_a_second_goes(db, t):
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 5) USING TTL 1")
    db.run(f"UPDATE {t} USING TTL 1 SET v = 5 WHERE p = 2 AND c = 1")
    db.run(f"INSERT INTO {t} (p, c, v, w) VALUES (3, 1, 5, 6)")
    db.run(f"UPDATE {t} USING TTL 1 SET v = 7, m[1] = 1 WHERE p = 3 AND c = 1")
    db.run(f"UPDATE {t} SET m[2] = 2 WHERE p = 3 AND c = 1")
    deadline = time.monotonic() + 10
    while db.rows(f"SELECT v FROM {t} WHERE p IN (1, 2)") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert db.rows(f"SELECT p, v, w, m FROM {t}") == [(3, None, 6, {2: 2})]
    assert db.rows(f"SELECT p FROM {t} WHERE v = 5 ALLOW FILTERING") == []


def test_default_time_to_live(db):
    t = db.table("k int PRIMARY KEY, v int", "WITH default_time_to_live = 500")
    db.run(f"INSERT INTO {t} (k, v) VALUES (1, 1)")
    db.run(f"INSERT INTO {t} (k, v) VALUES (2, 1) USING TTL 0")
    db.run(f"INSERT INTO {t} (k, v) VALUES (3, 1) USING TTL 50")
    insert = f"INSERT INTO {t} (k, v) VALUES (?, 1) USING TTL ?"
    db.prepared(insert, 4, None)
    db.prepared(insert, 5, UNSET_VALUE)
    left = dict(db.rows(f"SELECT k, ttl(v) FROM {t}"))
    assert 490 <= left[1] <= 500 and left[2] is None and 40 <= left[3] <= 50
    # Null is no time to live, unset is the table's.
    assert left[4] is None and 490 <= left[5] <= 500


def test_a_partition_deletion_covers_what_is_older(db, t):
    for c in range(4):
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, {c}, {c}) USING TIMESTAMP {10 * c}")
    db.run(f"DELETE FROM {t} USING TIMESTAMP 15 WHERE p = 1")
    assert db.column(f"SELECT c FROM {t} WHERE p = 1") == [2, 3]
    db.run(f"DELETE FROM {t} USING TIMESTAMP 25 WHERE p = 1 AND c >= 0 AND c < 10")
    assert db.column(f"SELECT c FROM {t} WHERE p = 1") == [3]


@pytest.mark.parametrize("using, words", [
    ("TTL -1", "TTL must be greater or equal to 0"),
    ("TTL 630720001", "ttl is too large"),
    (f"TIMESTAMP {FUTURE}", "into the future"),
    ("TTL 'text'", ""),
    ("TIMESTAMP null", ""),
])
def test_refused(db, t, using, words):
    with pytest.raises(Exception) as caught:
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1) USING {using}")
    assert words.lower() in str(caught.value).lower(), caught.value
    assert db.rows(f"SELECT * FROM {t}") == []


def test_a_ttl_is_not_for_deletions(db, t):
    with pytest.raises(Exception):
        db.run(f"DELETE FROM {t} USING TTL 5 WHERE p = 1")


def test_bound(db, t):
    insert = f"INSERT INTO {t} (p, c, v) VALUES (?, ?, ?) USING TTL ? AND TIMESTAMP ?"
    db.prepared(insert, 1, 1, 1, 100, 777)
    ((written, left),) = db.rows(f"SELECT writetime(v), ttl(v) FROM {t}")
    assert written == 777 and 90 <= left <= 100
    with pytest.raises(InvalidRequest):
        db.prepared(insert, 1, 1, 1, -5, 777)


def test_timeout_is_taken(db, t):
    db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, 1, 1) USING TIMEOUT 5s")
    assert db.rows(f"SELECT v FROM {t} USING TIMEOUT 1m") == [(1,)]
    with pytest.raises(Exception):
        db.run(f"SELECT v FROM {t} USING TIMEOUT -5s")
