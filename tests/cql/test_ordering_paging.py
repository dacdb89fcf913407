"""Order, limits and pages."""
import pytest
from cassandra import InvalidRequest
from cassandra.query import UNSET_VALUE, SimpleStatement

PARTITIONS, ROWS = 5, 40


@pytest.fixture(name="t", scope="module", params=["ASC", "DESC"])
def fixture_t(db, request):
    t = db.table("p int, a int, b int, v text, PRIMARY KEY (p, a, b)",
                 f"WITH CLUSTERING ORDER BY (a {request.param}, b ASC)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, a, b, v) VALUES (?, ?, ?, ?)")
    for p in range(PARTITIONS):
        for c in range(ROWS):
            db.session.execute(insert, (p, c // 4, c % 4, f"{p}-{c}"))
    return t, request.param == "DESC"


def in_order(descending):
    rows = [(c // 4, c % 4) for c in range(ROWS)]
    return sorted(rows, key=lambda row: (-row[0] if descending else row[0], row[1]))


def test_order_of_the_table_and_its_reverse(db, t):
    t, descending = t
    forward = in_order(descending)
    select = f"SELECT a, b FROM {t} WHERE p = 1"
    same, other = ("DESC", "ASC") if descending else ("ASC", "DESC")
    assert db.rows(select) == forward
    assert db.rows(f"{select} ORDER BY a {same}") == forward
    assert db.rows(f"{select} ORDER BY a {other}") == forward[::-1]
    assert db.rows(f"{select} ORDER BY a {other}, b DESC") == forward[::-1]
    assert db.rows(f"{select} ORDER BY a {other} LIMIT 7") == forward[::-1][:7]
    assert db.rows(f"{select} AND a = 3 ORDER BY a {other}") \
        == [row for row in forward[::-1] if row[0] == 3]
    assert db.rows(f"{select} AND a = 3 AND b IN (0, 2) ORDER BY a {other}") == [(3, 2), (3, 0)]


@pytest.mark.parametrize("order", ["v ASC", "p ASC", "b ASC", "a ASC, b DESC", "nope ASC"])
def test_refused_orders(db, order):
    t = db.table("p int, a int, b int, v text, PRIMARY KEY (p, a, b)")
    with pytest.raises(InvalidRequest):
        db.run(f"SELECT * FROM {t} WHERE p = 1 ORDER BY {order}")


def test_order_by_needs_partitions(db, t):
    with pytest.raises(InvalidRequest):
        db.run(f"SELECT * FROM {t[0]} ORDER BY a ASC")


@pytest.mark.parametrize("size", [1, 3, 7, 40, 41, 1000])
def test_pages_hold_everything_once(db, t, size):
    t, descending = t
    forward = in_order(descending)
    pages = db.pages(f"SELECT a, b FROM {t} WHERE p = 2", size)
    assert all(len(page) <= size for page in pages)
    assert [row for page in pages for row in page] == forward
    other = "ASC" if descending else "DESC"
    pages = db.pages(f"SELECT a, b FROM {t} WHERE p = 2 ORDER BY a {other}", size)
    assert [row for page in pages for row in page] == forward[::-1]
    pages = db.pages(f"SELECT p, a, b FROM {t}", size)
    rows = [row for page in pages for row in page]
    assert len(rows) == len(set(rows)) == PARTITIONS * ROWS
    pages = db.pages(f"SELECT p, a, b FROM {t} WHERE p IN (0, 3) AND a > 5", size)
    rows = [row for page in pages for row in page]
    assert len(rows) == len(set(rows)) == 2 * (ROWS - 24)
    pages = db.pages(f"SELECT v FROM {t} WHERE b = 1 ALLOW FILTERING", size)
    assert len({row for page in pages for row in page}) == PARTITIONS * ROWS // 4


@pytest.mark.parametrize("tail, count", [
    ("LIMIT 1", 1), ("LIMIT 57", 57), ("LIMIT 100000", PARTITIONS * ROWS),
    ("PER PARTITION LIMIT 3", 3 * PARTITIONS), ("PER PARTITION LIMIT 3 LIMIT 8", 8),
    ("WHERE p IN (1, 2) PER PARTITION LIMIT 5", 10), ("WHERE p = 1 LIMIT 5", 5),
])
@pytest.mark.parametrize("size", [2, 5000])
def test_limits(db, t, tail, count, size):
    pages = db.pages(f"SELECT p, a, b FROM {t[0]} {tail}", size)
    rows = [row for page in pages for row in page]
    assert len(rows) == len(set(rows)) == count


@pytest.mark.parametrize("tail, words", [
    ("LIMIT 0", "LIMIT must be strictly positive"),
    ("LIMIT -1", ""),
    ("PER PARTITION LIMIT 0", "PER PARTITION LIMIT must be strictly positive"),
])
def test_refused_limits(db, t, tail, words):
    with pytest.raises(Exception) as caught:
        db.run(f"SELECT * FROM {t[0]} {tail}")
    assert words in str(caught.value)


def test_bound_limits(db, t):
    select = f"SELECT a FROM {t[0]} WHERE p = ? PER PARTITION LIMIT ? LIMIT ?"
    assert len(db.prepared(select, 1, 5, 3)) == 3
    assert len(db.prepared(select, 1, 2, 30)) == 2
    assert len(db.prepared(select, 1, UNSET_VALUE, UNSET_VALUE)) == ROWS
    for limits in [(0, 3), (3, 0), (-1, 3), (None, 3), (3, None)]:
        with pytest.raises(InvalidRequest):
            db.prepared(select, 1, *limits)


def test_order_of_several_partitions_without_pages(db, t):
    t, descending = t
    other = "ASC" if descending else "DESC"
    text = f"SELECT a, b, p FROM {t} WHERE p IN (3, 1) ORDER BY a {other}"
    with pytest.raises(InvalidRequest, match="Cannot page queries with both ORDER BY and a IN"):
        db.session.execute(SimpleStatement(text, fetch_size=10))
    rows = [tuple(row) for row in db.session.execute(SimpleStatement(text, fetch_size=None))]
    assert sorted(rows) == sorted((a, b, p) for a, b in in_order(False) for p in (1, 3))
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=not descending)


def test_aggregates_read_pages_of_their_own(db, t):
    name = "select_internal_page_size"
    before = db.one(f"SELECT value FROM system.config WHERE name = '{name}'")
    change = db.session.prepare(f"UPDATE system.config SET value = ? WHERE name = '{name}'")
    db.session.execute(change, ["7"])
    try:
        assert db.rows(f"SELECT count(*), max(b) FROM {t[0]}") == [(PARTITIONS * ROWS, 3)]
        assert db.rows(f"SELECT count(v), min(a) FROM {t[0]} WHERE p = 1 AND b > 1 "
                       "ALLOW FILTERING") == [(ROWS // 2, 0)]
        assert db.column(f"SELECT a FROM {t[0]} WHERE p = 1 AND b = 1 ALLOW FILTERING") \
            == [a for a, b in in_order(t[1]) if b == 1]
    finally:
        db.session.execute(change, [before])


def test_pages_stay_right_while_rows_come_and_go(db):
    t = db.table("p int, c int, PRIMARY KEY (p, c)")
    for c in range(100):
        db.run(f"INSERT INTO {t} (p, c) VALUES (1, {c})")
    result = db.session.execute(SimpleStatement(f"SELECT c FROM {t} WHERE p = 1", fetch_size=10))
    seen = [row.c for row in result.current_rows]
    db.run(f"DELETE FROM {t} WHERE p = 1 AND c IN (9, 10, 50)")
    db.run(f"INSERT INTO {t} (p, c) VALUES (1, -5)")
    db.run(f"INSERT INTO {t} (p, c) VALUES (1, 1000)")
    while result.has_more_pages:
        result.fetch_next_page()
        seen += [row.c for row in result.current_rows]
    assert seen == [c for c in range(100) if c not in (10, 50)] + [1000]


def test_large_rows_cut_pages_by_their_size(db):
    t = db.table("p int, c int, v blob, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (1, ?, ?)")
    for c in range(40):
        db.session.execute(insert, (c, bytes(100_000)))
    pages = db.pages(f"SELECT c, v FROM {t} WHERE p = 1", 5000)
    assert 2 <= len(pages) and [row[0] for page in pages for row in page] == list(range(40))


def test_pages_end_with_their_bytes(db):
    """1 MiB of what is read, and no row more."""
    t = db.table("p int, c int, v blob, PRIMARY KEY (p, c)")
    insert = db.session.prepare(f"INSERT INTO {t} (p, c, v) VALUES (1, ?, ?)")
    for c in range(30):
        db.session.execute(insert, (c, bytes(100_000)))
    for select in ["v", "c, v", "*"]:
        pages = db.pages(f"SELECT {select} FROM {t} WHERE p = 1", 5000)
        assert [len(page) for page in pages] == [11, 11, 8], select


def test_pages_end_with_their_tombstones(db):
    t = db.table("p int, c int, v int, PRIMARY KEY (p, c)")
    limit = db.one("SELECT value FROM system.config WHERE name = 'query_tombstone_page_limit'")
    change = db.session.prepare(
        "UPDATE system.config SET value = ? WHERE name = 'query_tombstone_page_limit'")
    db.session.execute(change, ["10"])
    try:
        for c in range(25):
            db.run(f"DELETE FROM {t} WHERE p = 1 AND c = {c}")
        for c in (30, 31):
            db.run(f"INSERT INTO {t} (p, c, v) VALUES (1, {c}, 0)")
        for tail in ["", " AND v = 0 ALLOW FILTERING"]:
            assert db.pages(f"SELECT c FROM {t} WHERE p = 1{tail}", 100) == [[], [], [(30,), (31,)]]
        # Both ends of a range count.
        for c in range(0, 24, 4):
            db.run(f"DELETE FROM {t} WHERE p = 2 AND c > {c} AND c < {c + 3}")
        db.run(f"INSERT INTO {t} (p, c, v) VALUES (2, 99, 0)")
        assert db.pages(f"SELECT c FROM {t} WHERE p = 2", 100) == [[], [(99,)]]
        assert db.column(f"SELECT count(*) FROM {t}") == [3]
    finally:
        db.session.execute(change, [limit])


def test_many_tombstones_are_warned_of(db):
    t = db.table("p int, c int, v int, PRIMARY KEY (p, c)")
    delete = db.session.prepare(f"DELETE FROM {t} WHERE p = 1 AND c = ?")
    for c in range(1001):
        db.session.execute(delete, [c])
    result = db.session.execute_async(f"SELECT * FROM {t} WHERE p = 1")
    assert list(result.result()) == []
    assert any("tombstone_warn_threshold" in warning for warning in result.warnings)


def test_a_false_paging_state_is_refused(node, db, t):
    # The driver leaves a connection on which it sees a protocol error, so each has its own.
    for state in (b"nonsense", b"\x00" * 40, b"\xff" * 1000):
        with pytest.raises(Exception, match="(?i)paging state"):
            node.connect().execute(SimpleStatement(f"SELECT * FROM {t[0]}", fetch_size=5),
                                   paging_state=state)
    assert db.one(f"SELECT count(*) FROM {t[0]}") == PARTITIONS * ROWS
