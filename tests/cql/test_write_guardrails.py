"""What the node's options allow of writes. These options are ScyllaDB's; Cassandra has others."""
import urllib.request
from contextlib import contextmanager

import pytest
from cassandra import ConsistencyLevel, InvalidRequest, WriteFailure
from cassandra.query import BatchStatement, BatchType, SimpleStatement

MIB = 1 << 20


@contextmanager
def option(db, **values):
    update = db.session.prepare("UPDATE system.config SET value = ? WHERE name = ?")
    before = {}
    try:
        for name, value in values.items():
            before[name] = db.one(f"SELECT value FROM system.config WHERE name = '{name}'")
            db.session.execute(update, (value, name))
        yield
    finally:
        for name, value in before.items():
            db.session.execute(update, (value, name))


def warnings(db, text, *values, level=ConsistencyLevel.ONE):
    statement = db.session.prepare(text)
    statement.consistency_level = level
    return db.session.execute(statement, values).response_future.warnings or []


WRITES = ["INSERT INTO {t} (k, v) VALUES (1, 0x00)", "UPDATE {t} SET v = 0x00 WHERE k = 1",
          "DELETE FROM {t} WHERE k = 1", "INSERT INTO {t} (k) VALUES (2) IF NOT EXISTS",
          "BEGIN BATCH INSERT INTO {t} (k) VALUES (1); DELETE FROM {t} WHERE k = 5; APPLY BATCH"]


def test_levels(db):
    t = db.table("k int PRIMARY KEY, v blob")
    for text in WRITES:
        text = text.format(t=t)
        assert warnings(db, text) == []
        with option(db, write_consistency_levels_warned="ONE,ANY"):
            found, = warnings(db, text)
            assert "ONE" in found and "write_consistency_levels_warned" in found
            assert warnings(db, text, level=ConsistencyLevel.QUORUM) == []
        with option(db, write_consistency_levels_disallowed="ONE"):
            with pytest.raises(InvalidRequest, match="ONE.*write_consistency_levels_disallowed"):
                db.session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.ONE))
            db.session.execute(SimpleStatement(text, consistency_level=ConsistencyLevel.ALL))
    with option(db, write_consistency_levels_disallowed="ONE"):
        read = SimpleStatement(f"SELECT * FROM {t}", consistency_level=ConsistencyLevel.ONE)
        db.session.execute(read)


@pytest.fixture(name="large")
def fixture_large(db):
    return db.table("p int, c int, s blob static, v blob, w set<int>, PRIMARY KEY (p, c)",
                    "WITH large_data_guardrails_enabled = true")


@pytest.mark.parametrize("column, limit, value, words", [
    ("v", "large_cell_fail_threshold_mb", bytes(MIB + 1), "cell value size"),
    ("s", "large_cell_fail_threshold_mb", bytes(MIB + 1), "column=s"),
    ("v", "large_row_fail_threshold_mb", bytes(MIB + 1), "row size"),
    ("w", "large_collection_elements_fail_threshold", {1, 2}, "collection element count"),
])
def test_large_data_is_refused(db, large, column, limit, value, words):
    insert = db.session.prepare(f"INSERT INTO {large} (p, c, {column}) VALUES (?, ?, ?)")
    conditional = db.session.prepare(
        f"INSERT INTO {large} (p, c, {column}) VALUES (?, ?, ?) IF NOT EXISTS")
    db.session.execute(insert, (1, 1, value))
    keyspace, table = large.split(".")
    with option(db, **{limit: "1"}):
        for statement in (insert, conditional):
            with pytest.raises(InvalidRequest) as caught:
                db.session.execute(statement, (5, 5, value))
            for part in ("Large data guardrail", words, f"keyspace={keyspace}", f"table={table}"):
                assert part in str(caught.value)
        batch = BatchStatement(BatchType.UNLOGGED)
        batch.add(insert, (6, 6, value))
        with pytest.raises(InvalidRequest, match="Large data guardrail"):
            db.session.execute(batch)
        # What is as large as the limit is not over it, and what deletes is never.
        less = {1} if column == "w" else bytes(MIB // 2)
        db.session.execute(insert, (7, 7, less))
        db.run(f"DELETE FROM {large} WHERE p = 1 AND c = 1 BYPASS LARGE_DATA_GUARDRAILS")
        assert db.rows(f"SELECT p FROM {large} WHERE p IN (5, 6)") == []
        db.run(f"ALTER TABLE {large} WITH large_data_guardrails_enabled = false")
        db.session.execute(insert, (8, 8, value))
    with option(db, **{limit: "0"}):
        db.run(f"ALTER TABLE {large} WITH large_data_guardrails_enabled = true")
        db.session.execute(insert, (9, 9, value))


def test_large_data_is_warned_of(db, large):
    text = f"INSERT INTO {large} (p, c, v) VALUES (1, 1, ?)"
    with option(db, compaction_large_cell_warning_threshold_mb="1",
                compaction_large_row_warning_threshold_mb="1"):
        assert warnings(db, text, bytes(MIB + 1)) == []
        with option(db, large_data_cql_warnings="true"):
            found, = warnings(db, text, bytes(MIB + 1))
            assert "soft limit violation" in found and "row" in found and "cell" in found
            text = f"INSERT INTO {large} (p, c, v) VALUES (1, 2, ?)"
            assert warnings(db, text, bytes(MIB)) == []


def flush(node, table):
    keyspace, name = table.split(".")
    url = f"http://{node.address}:10000/storage_service/keyspace_flush/{keyspace}?cf={name}"
    urllib.request.urlopen(urllib.request.Request(url, method="POST")).close()


# What makes something large little by little, by the options whose limits it then exceeds: writes
# of row (1, 1) alone meet the limits of the row.
GROWTH = {
    "partition size": ("large_partition_fail_threshold_mb",
                       "compaction_large_partition_warning_threshold_mb", 1,
                       [(1, c, bytes(MIB // 2), {0}) for c in range(3)]),
    "partition row count": ("rows_count_fail_threshold",
                            "compaction_rows_count_warning_threshold", 5,
                            [(1, c, b"", {0}) for c in range(7)]),
    "row size": ("large_row_fail_threshold_mb", "compaction_large_row_warning_threshold_mb", 1,
                 [(1, 1, bytes(MIB * 15 // 16), set()), (1, 1, None, set(range(19_000)))]),
    "collection element count": ("large_collection_elements_fail_threshold",
                                 "compaction_collection_elements_count_warning_threshold", 8,
                                 [(1, 1, b"", {n, n + 1, n + 2}) for n in range(0, 12, 3)]),
}


def refusal(db, text, values=()):
    with pytest.raises(WriteFailure) as caught:
        db.session.execute(text, values)
    return str(caught.value)


# Partitions count once they are flushed.
@pytest.mark.parametrize("what, where", [
    *((what, "SSTable") for what in GROWTH), ("row size", "memtable"),
    ("collection element count", "memtable"),
])
def test_what_has_grown_is_refused(db, node, large, what, where):
    hard, soft, limit, writes = GROWTH[what]
    set_value = db.session.prepare(f"UPDATE {large} SET v = ? WHERE p = ? AND c = ?")
    add = db.session.prepare(f"UPDATE {large} SET w = w + ? WHERE p = ? AND c = ?")
    with option(db, **{hard: "0", soft: str(limit)}):
        for p, c, v, w in writes:
            if v is not None:
                db.session.execute(set_value, (v, p, c))
            if w:
                db.session.execute(add, (w, p, c))
        if where == "SSTable":
            flush(node, large)
        with option(db, large_data_cql_warnings="true"):
            found = db.session.execute(add, ({1}, 1, 1)).response_future.warnings
            assert len(found) == 1 and "soft limit violation" in found[0] and what in found[0]
            assert not db.session.execute(add, ({1}, 2, 1)).response_future.warnings
    with option(db, **{hard: str(limit), soft: "0"}):
        said = refusal(db, add, ({1}, 1, 1))
        assert "Write rejected" in said and what in said and f"table={large.split('.')[1]}" in said
        batch = BatchStatement(BatchType.LOGGED)
        batch.add(add, ({1}, 3, 1))
        batch.add(add, ({1}, 1, 1))
        assert what in refusal(db, batch)
        assert db.rows(f"SELECT p FROM {large} WHERE p = 3") == []
        # What consensus agrees on is let in.
        several = f"UPDATE {large} SET w = {{1}}, v = 0x00 WHERE p IN (1, 4) AND c = 1"
        assert what in refusal(db, several)
        db.run(f"INSERT INTO {large} (p, c, w) VALUES (1, 1, {{1}}) IF NOT EXISTS")
        db.session.execute(add, ({1}, 2, 1))
        if not what.startswith("partition"):
            db.session.execute(add, ({1}, 1, 2))
        if what == "collection element count":
            db.session.execute(set_value, (b"other", 1, 1))
        else:
            assert what in refusal(db, f"DELETE FROM {large} WHERE p = 1 AND c = 1")
        db.run(f"DELETE FROM {large} WHERE p = 1 AND c = 1 BYPASS LARGE_DATA_GUARDRAILS")
        db.run(f"ALTER TABLE {large} WITH large_data_guardrails_enabled = false")
        db.session.execute(add, ({1}, 1, 1))


def test_options_of_tables(db):
    t = db.table("k int PRIMARY KEY", "WITH large_data_guardrails_enabled = true")
    text = db.rows(f"DESCRIBE TABLE {t}")[0][3]
    assert "large_data_guardrails_enabled = true" in text
    db.refuse(f"ALTER TABLE {t} WITH large_data_guardrails_enabled = 'maybe'", "boolean",
              kind=Exception)


def test_large_batches(db):
    t = db.table("k int PRIMARY KEY, v blob")
    insert = db.session.prepare(f"INSERT INTO {t} (k, v) VALUES (?, ?)")

    def run(count, size):
        batch = BatchStatement(BatchType.UNLOGGED)
        for k in range(count):
            batch.add(insert, (k, bytes(size)))
        return db.session.execute(batch).response_future.warnings or []

    assert run(2, 1000) == []
    found, = run(2, 100_000)
    assert "WARN threshold" in found
    with pytest.raises(InvalidRequest, match="Batch too large"):
        run(2, 600_000)
    # One partition is one write.
    assert run(1, 2_000_000) == []
