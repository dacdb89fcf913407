"""Logs of changes: what each statement adds to them. ScyllaDB's, not Cassandra's."""
import time
import uuid
from collections.abc import Mapping

from cassandra.util import SortedSet, unix_time_from_uuid1

PREIMAGE, UPDATE, INSERT, ROW, PARTITION, POSTIMAGE = 0, 1, 2, 3, 4, 9
START_WITH, START_AFTER, END_WITH, END_BEFORE = 5, 6, 7, 8
HIDDEN = ("cdc$stream_id", "cdc$time")


def logged(db, columns, **options):
    told = "".join(f", '{name}': '{value}'" for name, value in options.items())
    return db.table(columns, f"WITH cdc = {{'enabled': true{told}}}")


def bare(value):
    """A value without the driver's containers."""
    if isinstance(value, Mapping):
        return {bare(key): bare(one) for key, one in value.items()}
    if isinstance(value, (SortedSet, set, frozenset)):
        return {bare(one) for one in value}
    if isinstance(value, (tuple, list)):
        return type(value)(map(bare, value)) if type(value) in (tuple, list) else tuple(value)
    return value


def raw(db, t):
    """The rows of the log by time and number: all columns that have a value."""
    result = db.run(f"SELECT * FROM {t}_scylla_cdc_log")
    names = result.column_names
    rows = [{name: bare(value) for name, value in zip(names, row) if value is not None}
            for row in result]
    return sorted(rows, key=lambda row: (row["cdc$time"].time, row["cdc$time"].bytes,
                                         row["cdc$batch_seq_no"]))


def log(db, t):
    """The same, without stream and time; of each set the numbers and the end are checked."""
    rows = raw(db, t)
    for at, row in enumerate(rows):
        after = rows[at + 1] if at + 1 < len(rows) else None
        key = [row[name] for name in HIDDEN]
        ends = after is None or [after[name] for name in HIDDEN] != key
        assert row.pop("cdc$end_of_batch", False) == ends, (row, after)
        if ends:
            continue
        assert after["cdc$batch_seq_no"] == row["cdc$batch_seq_no"] + 1
    return [(row.pop("cdc$operation"),
             {name: value for name, value in row.items()
              if name not in (*HIDDEN, "cdc$batch_seq_no")}) for row in rows]


def delta(db, t, text, *values):
    """What a statement adds to the log."""
    before = len(log(db, t))
    db.run(text, *values)
    return log(db, t)[before:]


def test_rows_are_inserted_updated_and_deleted(db):
    t = logged(db, "p int, c int, s int static, v int, w text, PRIMARY KEY (p, c)")

    def check(text, *expected):
        assert delta(db, t, text) == list(expected), text

    check(f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 3)", (INSERT, {"p": 1, "c": 2, "v": 3}))
    check(f"INSERT INTO {t} (p, c) VALUES (1, 2)", (INSERT, {"p": 1, "c": 2}))
    check(f"UPDATE {t} SET v = 4, w = 'a' WHERE p = 1 AND c = 2",
          (UPDATE, {"p": 1, "c": 2, "v": 4, "w": "a"}))
    check(f"UPDATE {t} SET v = null WHERE p = 1 AND c = 2",
          (UPDATE, {"p": 1, "c": 2, "cdc$deleted_v": True}))
    check(f"DELETE w FROM {t} WHERE p = 1 AND c = 2",
          (UPDATE, {"p": 1, "c": 2, "cdc$deleted_w": True}))
    check(f"UPDATE {t} SET s = 7 WHERE p = 1", (UPDATE, {"p": 1, "s": 7}))
    check(f"DELETE FROM {t} WHERE p = 1 AND c = 2", (ROW, {"p": 1, "c": 2}))
    check(f"DELETE FROM {t} WHERE p = 1", (PARTITION, {"p": 1}))


def test_ranges_have_bounds(db):
    t = logged(db, "p int, c int, d int, v int, PRIMARY KEY (p, c, d)")
    for where, start, end in [
            ("c = 1", (START_WITH, {"p": 1, "c": 1}), (END_WITH, {"p": 1, "c": 1})),
            ("c > 1 AND c <= 3", (START_AFTER, {"p": 1, "c": 1}), (END_WITH, {"p": 1, "c": 3})),
            ("c >= 1 AND c < 3", (START_WITH, {"p": 1, "c": 1}), (END_BEFORE, {"p": 1, "c": 3})),
            ("c = 1 AND d > 5", (START_AFTER, {"p": 1, "c": 1, "d": 5}),
             (END_WITH, {"p": 1, "c": 1})),
            ("c > 4", (START_AFTER, {"p": 1, "c": 4}), (END_WITH, {"p": 1})),
            ("c < 4", (START_WITH, {"p": 1}), (END_BEFORE, {"p": 1, "c": 4}))]:
        assert delta(db, t, f"DELETE FROM {t} WHERE p = 1 AND {where}") == [start, end], where


def test_lifetimes_are_told(db):
    t = logged(db, "p int PRIMARY KEY, v int")
    assert delta(db, t, f"INSERT INTO {t} (p, v) VALUES (1, 2) USING TTL 1000") == [
        (INSERT, {"p": 1, "v": 2, "cdc$ttl": 1000})]
    assert delta(db, t, f"UPDATE {t} USING TTL 99 SET v = 3 WHERE p = 1") == [
        (UPDATE, {"p": 1, "v": 3, "cdc$ttl": 99})]


def test_collections_are_told_by_elements(db):
    u = db.type("a int, b text")
    t = logged(db, f"p int PRIMARY KEY, s set<int>, m map<int, text>, l list<int>, u {u}, "
               "f frozen<set<int>>")
    assert delta(db, t, f"UPDATE {t} SET s = s + {{1, 2}} WHERE p = 1") == [
        (UPDATE, {"p": 1, "s": {1, 2}})]
    assert delta(db, t, f"UPDATE {t} SET s = s - {{2}} WHERE p = 1") == [
        (UPDATE, {"p": 1, "cdc$deleted_elements_s": {2}})]
    assert delta(db, t, f"UPDATE {t} SET m[3] = 'x' WHERE p = 1") == [
        (UPDATE, {"p": 1, "m": {3: "x"}})]
    assert delta(db, t, f"DELETE m[3] FROM {t} WHERE p = 1") == [
        (UPDATE, {"p": 1, "cdc$deleted_elements_m": {3}})]
    assert delta(db, t, f"UPDATE {t} SET s = {{7}} WHERE p = 1") == [
        (UPDATE, {"p": 1, "cdc$deleted_s": True, "s": {7}})]
    assert delta(db, t, f"UPDATE {t} SET f = {{7}} WHERE p = 1") == [(UPDATE, {"p": 1, "f": {7}})]
    [(operation, added)] = delta(db, t, f"UPDATE {t} SET l = l + [5, 6] WHERE p = 1")
    assert operation == UPDATE and sorted(added["l"].values()) == [5, 6]
    assert all(isinstance(key, uuid.UUID) for key in added["l"])
    first = next(key for key, value in added["l"].items() if value == 5)
    assert delta(db, t, f"DELETE l[0] FROM {t} WHERE p = 1") == [
        (UPDATE, {"p": 1, "cdc$deleted_elements_l": {first}})]
    [(operation, fields)] = delta(db, t, f"UPDATE {t} SET u.b = 'x' WHERE p = 1")
    assert operation == UPDATE and tuple(fields["u"]) == (None, "x")
    assert delta(db, t, f"UPDATE {t} SET u.b = null WHERE p = 1") == [
        (UPDATE, {"p": 1, "cdc$deleted_elements_u": {1}})]
    inserted = delta(db, t, f"INSERT INTO {t} (p, s) VALUES (2, {{1}})")
    assert inserted == [(INSERT, {"p": 2}), (UPDATE, {"p": 2, "cdc$deleted_s": True, "s": {1}})]
    lives = delta(db, t, f"UPDATE {t} USING TTL 50 SET s = {{1}} WHERE p = 3")
    assert lives == [(UPDATE, {"p": 3, "cdc$deleted_s": True}),
                     (UPDATE, {"p": 3, "s": {1}, "cdc$ttl": 50})]


def test_a_batch_is_one_set_a_partition(db):
    t = logged(db, "p int, c int, v int, PRIMARY KEY (p, c)")
    other = logged(db, "p int PRIMARY KEY, v int")
    db.run(f"BEGIN BATCH INSERT INTO {t} (p, c, v) VALUES (1, 1, 1); "
           f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 2); UPDATE {t} SET v = 3 WHERE p = 2 AND c = 3; "
           f"INSERT INTO {other} (p, v) VALUES (9, 9) APPLY BATCH")
    rows = raw(db, t)
    of_one = [row for row in rows if row["p"] == 1]
    assert [row["cdc$batch_seq_no"] for row in of_one] == [0, 1]
    assert len({row["cdc$time"] for row in of_one}) == 1
    assert sorted((row["p"], row["c"], row["v"], row["cdc$operation"]) for row in rows) == [
        (1, 1, 1, INSERT), (1, 2, 2, INSERT), (2, 3, 3, UPDATE)]
    assert log(db, other) == [(INSERT, {"p": 9, "v": 9})]


def test_times_of_a_batch_are_sets_of_their_own(db):
    t = logged(db, "p int, c int, v int, PRIMARY KEY (p, c)")
    now = int(time.time() * 1e6)
    db.run(f"BEGIN BATCH INSERT INTO {t} (p, c, v) VALUES (1, 1, 1) USING TIMESTAMP {now}; "
           f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 2) USING TIMESTAMP {now + 1} APPLY BATCH")
    rows = raw(db, t)
    assert [(row["c"], row["cdc$batch_seq_no"]) for row in rows] == [(1, 0), (2, 0)]
    assert [round(unix_time_from_uuid1(row["cdc$time"]) * 1e6) for row in rows] == [now, now + 1]


def test_conditional_writes_are_told_if_they_are_applied(db):
    t = logged(db, "p int PRIMARY KEY, v int", preimage="true")
    assert delta(db, t, f"INSERT INTO {t} (p, v) VALUES (1, 1) IF NOT EXISTS") == [
        (INSERT, {"p": 1, "v": 1})]
    assert delta(db, t, f"INSERT INTO {t} (p, v) VALUES (1, 2) IF NOT EXISTS") == []
    assert delta(db, t, f"UPDATE {t} SET v = 2 WHERE p = 1 IF v = 9") == []
    assert delta(db, t, f"UPDATE {t} SET v = 2 WHERE p = 1 IF v = 1") == [
        (PREIMAGE, {"p": 1, "v": 1}), (UPDATE, {"p": 1, "v": 2})]
    assert delta(db, t, f"DELETE FROM {t} WHERE p = 1 IF EXISTS")[-1] == (PARTITION, {"p": 1})


def test_preimages_of_what_is_touched(db):
    t = logged(db, "p int, c int, s int static, v int, w int, PRIMARY KEY (p, c)", preimage="true")
    assert delta(db, t, f"INSERT INTO {t} (p, c, v, w) VALUES (1, 1, 1, 1)") == [
        (INSERT, {"p": 1, "c": 1, "v": 1, "w": 1})]
    assert delta(db, t, f"UPDATE {t} SET v = 2 WHERE p = 1 AND c = 1") == [
        (PREIMAGE, {"p": 1, "c": 1, "v": 1}), (UPDATE, {"p": 1, "c": 1, "v": 2})]
    assert delta(db, t, f"DELETE FROM {t} WHERE p = 1 AND c = 1") == [
        (PREIMAGE, {"p": 1, "c": 1, "v": 2, "w": 1}), (ROW, {"p": 1, "c": 1})]
    assert delta(db, t, f"DELETE FROM {t} WHERE p = 1") == [(PARTITION, {"p": 1})]


def test_full_images(db):
    t = logged(db, "p int, c int, v int, w int, PRIMARY KEY (p, c)", preimage="full",
               postimage="true")
    assert delta(db, t, f"INSERT INTO {t} (p, c, v, w) VALUES (1, 1, 1, 1)") == [
        (INSERT, {"p": 1, "c": 1, "v": 1, "w": 1}), (POSTIMAGE, {"p": 1, "c": 1, "v": 1, "w": 1})]
    before, change, after = delta(db, t, f"UPDATE {t} SET v = 2 WHERE p = 1 AND c = 1")
    assert before == (PREIMAGE, {"p": 1, "c": 1, "v": 1, "w": 1})
    assert change == (UPDATE, {"p": 1, "c": 1, "v": 2})
    assert after == (POSTIMAGE, {"p": 1, "c": 1, "v": 2, "w": 1})
    assert delta(db, t, f"DELETE FROM {t} WHERE p = 1 AND c = 1") == [
        (PREIMAGE, {"p": 1, "c": 1, "v": 2, "w": 1}), (ROW, {"p": 1, "c": 1})]


def test_keys_alone(db):
    t = logged(db, "p int, c int, v int, PRIMARY KEY (p, c)", delta="keys")
    assert delta(db, t, f"INSERT INTO {t} (p, c, v) VALUES (1, 2, 3) USING TTL 100") == [
        (INSERT, {"p": 1, "c": 2, "cdc$ttl": 100})]
    assert delta(db, t, f"DELETE v FROM {t} WHERE p = 1 AND c = 2") == [(UPDATE, {"p": 1, "c": 2})]


VALUES = [("ascii", "'a'"), ("bigint", "-5"), ("blob", "0x0102"), ("boolean", "true"),
          ("date", "'2026-11-27'"), ("decimal", "1.25"), ("double", "0.5"), ("duration", "1h2m"),
          ("float", "0.25"), ("inet", "'::1'"), ("int", "7"), ("smallint", "3"), ("text", "'ä'"),
          ("time", "'01:02:03'"), ("timestamp", "1700000000000"), ("tinyint", "1"),
          ("uuid", "123e4567-e89b-12d3-a456-426614174000"), ("varint", "123456789012345678901"),
          ("tuple<int, text>", "(1, 'a')"), ("frozen<list<int>>", "[1, 2]"),
          ("frozen<map<int, int>>", "{1: 2}"), ("vector<float, 2>", "[0.5, 0.25]")]


def test_values_of_all_types(db):
    columns = "".join(f", v{at} {kind}" for at, (kind, _) in enumerate(VALUES))
    t = logged(db, f"p int PRIMARY KEY{columns}")
    names = ", ".join(f"v{at}" for at in range(len(VALUES)))
    db.run(f"INSERT INTO {t} (p, {names}) VALUES (1, {', '.join(text for _, text in VALUES)})")
    [base] = db.rows(f"SELECT {names} FROM {t}")
    [told] = db.rows(f"SELECT {names} FROM {t}_scylla_cdc_log")
    assert told == base
    assert None not in told


def test_rows_of_a_log_expire(db):
    t = logged(db, "p int PRIMARY KEY, v int", ttl="2")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 1)")
    [ttl] = db.column(f'SELECT ttl("cdc$operation") FROM {t}_scylla_cdc_log')
    assert 0 < ttl <= 2
    deadline = time.monotonic() + 20
    while db.rows(f"SELECT * FROM {t}_scylla_cdc_log") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not db.rows(f"SELECT * FROM {t}_scylla_cdc_log")
    assert db.rows(f"SELECT * FROM {t}") == [(1, 1)]
    forever = logged(db, "p int PRIMARY KEY, v int", ttl="0")
    db.run(f"INSERT INTO {forever} (p, v) VALUES (1, 1)")
    assert db.one(f'SELECT ttl("cdc$operation") FROM {forever}_scylla_cdc_log') is None


def test_times_far_away_are_refused(db):
    t = logged(db, "p int PRIMARY KEY, v int")
    now = int(time.time() * 1e6)
    for far in (60_000_000, -86_400_000_000):
        db.refuse(f"INSERT INTO {t} (p, v) VALUES (1, 1) USING TIMESTAMP {now + far}",
                  "cdc: attempted to get a stream")
    assert not db.rows(f"SELECT * FROM {t}")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 1) USING TIMESTAMP {now}")
    assert log(db, t) == [(INSERT, {"p": 1, "v": 1})]


def test_what_readers_ask(db):
    t = logged(db, "p int PRIMARY KEY, v int")
    for p in range(20):
        db.run(f"INSERT INTO {t} (p, v) VALUES ({p}, {p})")
    streams = {row["cdc$stream_id"] for row in raw(db, t)}
    names = ", ".join(f"0x{stream.hex()}" for stream in streams)
    now = int(time.time() * 1000)
    text = (f'SELECT p FROM {t}_scylla_cdc_log WHERE "cdc$stream_id" IN ({names}) AND '
            f'"cdc$time" >= minTimeuuid({now - 60_000}) AND "cdc$time" < maxTimeuuid({now + 10_000}) '
            "BYPASS CACHE")
    assert sorted(db.column(text)) == list(range(20))


def test_views_and_a_log_of_one_table(db):
    t = logged(db, "p int PRIMARY KEY, v int", preimage="full")
    view = db.name()
    db.run(f"CREATE MATERIALIZED VIEW {view} AS SELECT * FROM {t} WHERE v IS NOT NULL AND p IS NOT "
           "NULL PRIMARY KEY (v, p)")
    db.run(f"INSERT INTO {t} (p, v) VALUES (1, 1)")
    assert delta(db, t, f"UPDATE {t} SET v = 2 WHERE p = 1") == [
        (PREIMAGE, {"p": 1, "v": 1}), (UPDATE, {"p": 1, "v": 2})]
    assert db.rows(f"SELECT v, p FROM {view}") == [(2, 1)]


def test_rows_that_expire_by_their_column_are_told(db):
    period = "UPDATE system.config SET value = '%s' WHERE name = 'alternator_ttl_period_in_seconds'"
    t = logged(db, "p int, c int, e bigint TTL, PRIMARY KEY (p, c)")
    k = logged(db, "p int PRIMARY KEY, e bigint TTL")
    before = db.one("SELECT value FROM system.config "
                    "WHERE name = 'alternator_ttl_period_in_seconds'")
    now = int(time.time()) - 5
    db.run(f"INSERT INTO {t} (p, c, e) VALUES (1, 2, {now})")
    db.run(f"INSERT INTO {k} (p, e) VALUES (1, {now})")
    db.run(period % "0.2")
    try:
        deadline = time.monotonic() + 20
        while db.rows(f"SELECT * FROM {t}") + db.rows(f"SELECT * FROM {k}"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        db.run(period % before)
    assert log(db, t)[1:] == [(-3, {"p": 1, "c": 2})]
    assert log(db, k)[1:] == [(-4, {"p": 1})]


def extension(db, t):
    """What drivers of ScyllaDB read of a table's log: texts with their lengths, by name."""
    found = db.run(f"SELECT extensions FROM system_schema.tables WHERE keyspace_name = "
                   f"'{t.split('.')[0]}' AND table_name = '{t.split('.')[1]}'").one()[0]
    if "cdc" not in found:
        return None
    stored, texts = found["cdc"], []
    count, stored = int.from_bytes(stored[:4], "little"), stored[4:]
    while stored:
        end = 4 + int.from_bytes(stored[:4], "little")
        texts.append(stored[4:end].decode())
        stored = stored[end:]
    assert len(texts) == 2 * count
    return dict(zip(texts[::2], texts[1::2]))


def test_drivers_find_what_a_table_says_of_its_log(db):
    t = logged(db, "k int PRIMARY KEY, v int", ttl=100, preimage="full")
    expected = {"enabled": "true", "preimage": "full", "postimage": "false", "delta": "full",
                "ttl": "100"}
    assert extension(db, t) == expected
    db.run(f"ALTER TABLE {t} WITH cdc = {{'enabled': true, 'ttl': 0}}")
    assert extension(db, t) == expected | {"preimage": "false", "ttl": "0"}
    db.run(f"ALTER TABLE {t} WITH cdc = {{'enabled': false}}")
    assert extension(db, t) is None
