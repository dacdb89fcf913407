"""Options of the node: read from `system.config`, changed by UPDATE."""
import json

import pytest
from cassandra import WriteFailure



def value(db, name):
    return db.one(f"SELECT value FROM system.config WHERE name = '{name}'")


def test_options_have_name_type_source_and_value(db):
    rows = {row[0]: row[1:] for row in db.rows("SELECT name, type, source, value FROM system.config")}
    assert rows["num_tokens"][0] == "integer"
    assert rows["auto_snapshot"][0] == "bool"
    assert rows["replication_strategy_warn_list"] == ("string list", "default", '["SimpleStrategy"]')
    for kind, source, shown in rows.values():
        assert kind and source in (
            "default", "config", "cli", "cql", "api", "internal"), (kind, source)
        json.loads(shown)


@pytest.mark.parametrize("name, text, shown", [
    ("query_page_size_in_bytes", "1000", "1000"),
    ("query_page_size_in_bytes", '"1000"', "1000"),
    ("restrict_future_timestamp", "0", "false"),
    ("strict_allow_filtering", "true", '"true"'),
    ("replication_strategy_warn_list", "[SimpleStrategy]", '["SimpleStrategy"]'),
    ("replication_strategy_warn_list", "", "[]"),
    ("write_consistency_levels_warned", "any, ALL", '["ANY","ALL"]'),
    ("read_request_timeout_in_ms", "7000", "7000"),
    ("truncate_request_timeout_in_ms", "7000", "7000"),
    ("reader_concurrency_semaphore_cpu_concurrency", "3", "3"),
    ("sstable_format", "me", '"me"'),
    ("auto_snapshot_ttl", "60", "60"),
    # Nothing depends on it: it is stored and shown.
    ("compaction_enforce_min_threshold", "yes", "true"),
])
def test_a_live_option_shows_its_new_value_at_once(db, name, text, shown):
    before = value(db, name)
    update = db.session.prepare("UPDATE system.config SET value = ? WHERE name = ?")
    db.session.execute(update, (text, name))
    try:
        assert {value(db, name) for _ in range(8)} == {shown}
    finally:
        db.session.execute(update, (before, name))
    assert value(db, name) == before


@pytest.mark.parametrize("statement, words", [
    ("UPDATE system.config SET value = '1' WHERE name = 'nothing'", "no such option"),
    ("UPDATE system.config SET value = '1' WHERE name = 'num_tokens'", "not live-updateable"),
    ("UPDATE system.config SET value = 'x' WHERE name = 'query_page_size_in_bytes'", "cannot parse"),
    ("UPDATE system.config SET value = '-1' WHERE name = 'query_page_size_in_bytes'", "less than 0"),
    ("UPDATE system.config SET value = '0' WHERE name = 'write_request_timeout_in_ms'", "greater than 0"),
    ("UPDATE system.config SET value = '1.5' WHERE name = "
     "'reader_concurrency_semaphore_preemptive_abort_factor'", "between 0 and 1"),
    ("UPDATE system.config SET value = 'mc' WHERE name = 'sstable_format'", "neither me nor ms"),
    ("UPDATE system.config SET value = 'NO, ANY' WHERE name = 'write_consistency_levels_warned'",
     "cannot parse"),
    ("UPDATE system.config SET type = 'x' WHERE name = 'num_tokens'", "type is immutable"),
    ("UPDATE system.config SET source = 'x' WHERE name = 'num_tokens'", "source is not updateable"),
    ("DELETE FROM system.config WHERE name = 'num_tokens'", "virtual table"),
    ("INSERT INTO system.one_row (\"system$dummy\") VALUES ('Y')", "virtual table"),
    ("UPDATE system.versions SET version = 'x' WHERE key = 'local'", "virtual table"),
    ("BEGIN BATCH UPDATE system.config SET value = '1' WHERE name = 'x' APPLY BATCH", "virtual table"),
])
def test_what_cannot_be_changed_is_a_write_failure(db, statement, words):
    db.refuse(statement, words, kind=WriteFailure)
