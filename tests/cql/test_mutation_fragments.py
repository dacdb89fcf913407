"""SELECT .. FROM MUTATION_FRAGMENTS(t): what is stored of a partition, and where."""
import json

import pytest
from cassandra.protocol import SyntaxException

SHOWN = ("mutation_source, partition_region, c, d, position_weight, mutation_fragment_kind")


@pytest.fixture
def t(db):
    return db.table("p int, c int, d int, s text static, v text, m map<int, text>, "
                    "PRIMARY KEY (p, c, d)")


def of(t, clause="", shown=SHOWN):
    return f"SELECT {shown} FROM MUTATION_FRAGMENTS({t}) {clause}"


def kinds(db, t, clause):
    """The places and what each has, in the order in which it comes."""
    rows = db.rows(of(t, clause, "mutation_source, mutation_fragment_kind"))
    return [(place.split(":")[0], kind) for place, kind in rows]


def test_the_columns(db, t):
    names = db.run(f"SELECT * FROM MUTATION_FRAGMENTS({t})").column_names
    assert names == ["p", "mutation_source", "partition_region", "c", "d", "position_weight",
                     "metadata", "mutation_fragment_kind", "value"]


def test_a_partition_piece_by_piece(db, t, flush):
    db.run(f"DELETE FROM {t} USING TIMESTAMP 1 WHERE p = 1")
    db.run(f"UPDATE {t} USING TIMESTAMP 2 SET s = 'x' WHERE p = 1")
    db.run(f"DELETE FROM {t} USING TIMESTAMP 3 WHERE p = 1 AND c = 0 AND d > 0 AND d < 3")
    db.run(f"INSERT INTO {t} (p, c, d, v) VALUES (1, 0, 1, 'y') USING TIMESTAMP 4")
    pieces = [
        (0, None, None, None, "partition start"),
        (1, None, None, None, "static row"),
        (2, 0, 0, 1, "range tombstone change"),
        (2, 0, 1, 0, "clustering row"),
        (2, 0, 3, -1, "range tombstone change"),
        (3, None, None, None, "partition end"),
    ]
    assert [row[1:] for row in db.rows(of(t, "WHERE p = 1"))] == pieces
    flush(t)
    rows = db.rows(of(t, "WHERE p = 1 AND mutation_source > 'sstable:'"))
    assert [row[1:] for row in rows] == pieces
    assert all(row[0].endswith("-Data.db") for row in rows)


def test_places_come_and_go(db, t, flush, api):
    def places():
        return [place for place, kind in kinds(db, t, "WHERE p = 7") if kind == "partition start"]

    assert places() == []
    db.run(f"INSERT INTO {t} (p, c, d) VALUES (7, 1, 1)")
    assert places() == ["memtable"]
    flush(t)
    assert places() == ["row-cache", "sstable"]
    api("/system/drop_sstable_caches")
    assert places() == ["sstable"]
    db.run(f"SELECT * FROM {t} WHERE p = 7 BYPASS CACHE")
    assert places() == ["sstable"]
    db.run(f"SELECT * FROM {t} WHERE p = 7")
    assert places() == ["row-cache", "sstable"]
    db.run(f"INSERT INTO {t} (p, c, d) VALUES (7, 1, 1)")
    assert places() == ["memtable", "row-cache", "sstable"]


def test_metadata_and_value(db, t):
    db.run(f"INSERT INTO {t} (p, c, d, v, m) VALUES (1, 1, 1, 'v', {{1: 'one'}}) "
           "USING TIMESTAMP 10 AND TTL 1000")
    db.run(f"DELETE v FROM {t} USING TIMESTAMP 5 WHERE p = 1 AND c = 2 AND d = 2")
    db.run(f"DELETE FROM {t} USING TIMESTAMP 6 WHERE p = 1 AND c = 3 AND d = 3")
    clause = "WHERE p = 1 AND mutation_source = 'memtable:0' AND partition_region = 2"
    rows = db.rows(of(t, clause, "metadata, value"))
    (written, values), (deleted, dead), (gone, nothing) = [map(json.loads, row) for row in rows]
    assert values == {"m": [{"key": "1", "value": "one"}], "v": "v"}
    assert written["marker"].items() >= {"timestamp": 10, "ttl": "1000s"}.items()
    v = written["columns"]["v"]
    assert v.items() >= {"is_live": True, "type": "regular", "timestamp": 10}.items()
    cell, = written["columns"]["m"]["cells"]
    assert cell["key"] == "1" and cell["value"]["ttl"] == "1000s"
    assert written["columns"]["m"]["tombstone"]["timestamp"] == 9
    assert not deleted["columns"]["v"]["is_live"] and dead == {"v": None}
    assert gone["tombstone"]["timestamp"] == 6 and gone["columns"] == {} and nothing == {}


def test_restrictions(db, t):
    for c in range(3):
        for d in range(3):
            db.run(f"INSERT INTO {t} (p, c, d) VALUES (1, {c}, {d})")
    whole = db.rows(of(t, "WHERE p = 1"))
    place = "p = 1 AND mutation_source = 'memtable:0'"
    for clause, wanted in [
        ("mutation_source = 'memtable:0'", lambda row: True),
        ("mutation_source > 'memtable:0'", lambda row: False),
        ("mutation_source >= 'memtable' AND mutation_source < 'memtable;'", lambda row: True),
    ]:
        rows = db.rows(of(t, f"WHERE p = 1 AND {clause}"))
        assert rows == [row for row in whole if wanted(row)], clause
    for clause, wanted in [
        ("partition_region = 0", lambda row: row[1] == 0),
        ("partition_region > 1", lambda row: row[1] > 1),
        ("partition_region IN (0, 3)", lambda row: row[1] in (0, 3)),
        ("partition_region = 2 AND c = 1", lambda row: row[2] == 1),
        ("partition_region = 2 AND c >= 1", lambda row: row[2] in (1, 2)),
        ("partition_region = 2 AND c IN (0, 2) AND d = 1",
         lambda row: row[2] in (0, 2) and row[3] == 1),
        ("partition_region = 2 AND c = 1 AND d > 0 AND d < 2", lambda row: row[2:4] == (1, 1)),
        ("partition_region = 2 AND c = 1 AND d = 1 AND position_weight = 0",
         lambda row: row[2:4] == (1, 1)),
        ("partition_region = 2 AND c = 1 AND d = 1 AND position_weight = 1", lambda row: False),
    ]:
        rows = db.rows(of(t, f"WHERE {place} AND {clause}"))
        assert rows == [row for row in whole if wanted(row)], clause
    rows = "(mutation_source, partition_region, c, d, position_weight)"
    found = db.rows(of(t, f"WHERE p = 1 AND {rows} IN (('memtable:0', 2, 0, 1, 0), "
                          "('memtable:0', 2, 2, 2, 0))"))
    assert [row[2:4] for row in found] == [(0, 1), (2, 2)]
    count = f"SELECT count(*) FROM MUTATION_FRAGMENTS({t})"
    rows = "mutation_fragment_kind = 'clustering row' ALLOW FILTERING"
    assert db.one(f"{count} WHERE {rows}") == 9
    assert db.one(f"{count} WHERE p = 1 AND {rows}") == 9
    assert db.rows(of(t, "WHERE p = 1 LIMIT 2")) == whole[:2]
    token = db.one(f"SELECT DISTINCT token(p) FROM {t}")
    assert db.one(f"{count} WHERE token(p) = {token}") == len(whole)
    assert db.one(f"{count} WHERE token(p) > {token}") == 0


def test_a_slice_opens_and_closes_range_tombstones(db, t, flush):
    db.run(f"DELETE FROM {t} USING TIMESTAMP 1 WHERE p = 1 AND c = 0")
    db.run(f"DELETE FROM {t} USING TIMESTAMP 2 WHERE p = 1 AND c = 0 AND d > 10 AND d < 20")

    def check_slices(wanted):
        places = list(dict.fromkeys(row[0] for row in db.rows(of(t, "WHERE p = 1"))))
        assert [place.split(":")[0] for place in places] == wanted
        for place in places:
            for low, high, expected in [(0, 8, [0, 8]), (10, 28, [10, 10, 20, 28]),
                                        (15, 16, [15, 16]), (20, 28, [20, 20, 28])]:
                clause = (f"WHERE p = 1 AND mutation_source = '{place}' AND "
                          f"partition_region = 2 AND c = 0 AND d >= {low} AND d < {high}")
                assert db.column(of(t, clause, "d")) == expected, (place, low, high)

    check_slices(["memtable"])
    flush(t)
    check_slices(["row-cache", "sstable"])


def test_pages(db, t, flush):
    for p in range(5):
        db.run(f"DELETE FROM {t} WHERE p = {p} AND c = 0 AND d > 5")
        for d in range(4, 8):
            db.run(f"INSERT INTO {t} (p, c, d) VALUES ({p}, 0, {d})")
        if p % 2:
            flush(t)
    for clause in ["", "WHERE p = 1", "WHERE p IN (4, 2)",
                   "WHERE p = 1 AND mutation_source > 'sstable:'"]:
        whole = db.rows(of(t, clause))
        assert whole
        for size in (1, 2, 5, 17):
            pages = db.pages(of(t, clause), size)
            assert all(len(page) <= size for page in pages)
            assert [row for page in pages for row in page] == whole, (clause, size)


def test_dead_partitions_are_there(db, flush):
    t = db.table("p int PRIMARY KEY, v int")
    for p in range(2100):  # More than are looked at for one page.
        db.run(f"DELETE FROM {t} WHERE p = {p}")
    flush(t)
    rows = db.rows(f"SELECT p, mutation_fragment_kind FROM MUTATION_FRAGMENTS({t}) "
                   "WHERE mutation_source > 'sstable:' ALLOW FILTERING")
    assert sorted(p for p, kind in rows if kind == "partition start") == list(range(2100))
    assert len(rows) == 4200


def test_collections_and_user_types(db):
    user = db.type("a int, b text")
    t = db.table(f"p int PRIMARY KEY, l list<int>, s set<text>, u {user}, f frozen<list<int>>")
    db.run(f"INSERT INTO {t} (p, l, s, u, f) VALUES (1, [3], {{'x'}}, {{a: 1}}, [1, 2])")
    value, = db.column(f"SELECT value FROM MUTATION_FRAGMENTS({t}) WHERE p = 1 AND "
                       "mutation_source = 'memtable:0' AND partition_region = 2")
    value = json.loads(value)
    assert [item["value"] for item in value["l"]] == ["3"]
    assert [item["key"] for item in value["s"]] == ["x"]
    assert value["u"][0] == {"key": "a", "value": "1"} and value["f"] == "[1, 2]"


def test_virtual_tables_have_one_place(db):
    rows = db.rows("SELECT mutation_source, mutation_fragment_kind FROM "
                   "MUTATION_FRAGMENTS(system.clients)")
    assert {place for place, _ in rows} == {"virtual-table"}
    assert "clustering row" in {kind for _, kind in rows}


def test_what_is_refused(db, t):
    db.refuse(of(t, "WHERE p = 1 ORDER BY mutation_source DESC"),
              "ORDER BY is not supported in SELECT FROM MUTATION_FRAGMENTS() statements")
    db.refuse(f"SELECT v FROM MUTATION_FRAGMENTS({t})", "v")
    db.refuse(of(t, "WHERE value = 'x'"), "ALLOW FILTERING")
    db.refuse(of("tests.nothing"), "unconfigured table nothing")
    for text in (f"INSERT INTO MUTATION_FRAGMENTS({t}) (p) VALUES (1)",
                 f"DELETE FROM MUTATION_FRAGMENTS({t}) WHERE p = 1",
                 f"UPDATE MUTATION_FRAGMENTS({t}) SET value = 'x' WHERE p = 1"):
        db.refuse(text, "", kind=SyntaxException)


def test_prepared(db, t):
    db.run(f"INSERT INTO {t} (p, c, d) VALUES (3, 1, 1)")
    text = of(t, "WHERE p = ? AND mutation_source = ? AND partition_region = ?")
    assert len(db.prepared(text, 3, "memtable:0", 2)) == 1
    assert db.prepared(text, 4, "memtable:0", 2) == []
    rows = db.session.execute(db.session.prepare(of(t, "WHERE p = :p")), {"p": 3})
    kinds = [row.mutation_fragment_kind for row in rows]
    assert kinds == ["partition start", "clustering row", "partition end"]
