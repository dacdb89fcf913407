"""Change data capture as part of the schema: logs that come with tables, follow them and go with them."""
import pytest
from cassandra import Unauthorized
from cassandra.protocol import ConfigurationException, SyntaxException

ON = "cdc = {'enabled': true}"
OFF = "cdc = {'enabled': false}"


@pytest.fixture
def base(db):
    return db.table("p int, c int, v int, l list<int>, m map<int, text>, s int static, PRIMARY KEY (p, c)", f"WITH {ON}")


def log(table):
    return f"{table}_scylla_cdc_log"


def is_there(db, table):
    keyspace, name = table.split(".")
    return bool(db.rows("SELECT id FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s",
                        keyspace, name))


def columns(db, table):
    rows = db.rows(f"SELECT column_name, type FROM system_schema.columns WHERE keyspace_name = '{db.keyspace}' AND "
                   f"table_name = '{table.split('.')[1]}'")
    return {name: kind for name, kind in rows}


def test_a_log_has_columns_for_those_of_its_table(db, base):
    assert columns(db, log(base)) == {
        "cdc$stream_id": "blob", "cdc$time": "timeuuid", "cdc$batch_seq_no": "int", "cdc$operation": "tinyint",
        "cdc$ttl": "bigint", "cdc$end_of_batch": "boolean", "p": "int", "c": "int", "v": "int", "s": "int",
        "cdc$deleted_v": "boolean", "cdc$deleted_s": "boolean", "l": "frozen<map<timeuuid, int>>",
        "cdc$deleted_l": "boolean", "cdc$deleted_elements_l": "frozen<set<timeuuid>>",
        "m": "frozen<map<int, text>>", "cdc$deleted_m": "boolean", "cdc$deleted_elements_m": "frozen<set<int>>"}
    assert db.rows(f"SELECT * FROM {log(base)} WHERE \"cdc$stream_id\" = 0x00") == []


def test_drivers_see_a_log(db, base):
    db.session.cluster.refresh_schema_metadata()
    known = db.session.cluster.metadata.keyspaces[db.keyspace].tables[log(base).split(".")[1]]
    assert [column.name for column in known.primary_key] == ["cdc$stream_id", "cdc$time", "cdc$batch_seq_no"]
    assert known.options["comment"] == f"CDC log for {base}"


def test_options_are_kept(db, base):
    def stored():
        return db.one("SELECT cdc FROM system_schema.scylla_tables WHERE keyspace_name = "
                      f"'{db.keyspace}' AND table_name = '{base.split('.')[1]}'")
    defaults = {"delta": "full", "enabled": "true", "postimage": "false", "preimage": "false", "ttl": "86400"}
    assert dict(stored()) == defaults
    db.run(f"ALTER TABLE {base} WITH cdc = {{'ENABLED': 1, 'Preimage': 'FULL', 'postimage': 'True', 'delta': 'Keys', "
           "'ttl': 60}")
    assert dict(stored()) == {"delta": "keys", "enabled": "true", "postimage": "true", "preimage": "full",
                              "ttl": "60"}


@pytest.mark.parametrize("given, words, kind", [
    ("{'enabled': 'on'}", 'Invalid value for CDC option "enabled": on', ConfigurationException),
    ("{'enabled': true, 'delta': 'some'}", 'Invalid value for CDC option "delta": some', ConfigurationException),
    ("{'enabled': true, 'ttl': -1}", "ttl must be >= 0", ConfigurationException),
    ("{'enabled': true, 'ttl': 99999999999}", "ttl too large", ConfigurationException),
    ("{'enabled': true, 'what': 1}", "Invalid CDC option: what", ConfigurationException),
    ("'x'", "should be a map", SyntaxException),
])
def test_bad_options_are_refused(db, given, words, kind):
    name = db.name()
    db.refuse(f"CREATE TABLE {name} (p int PRIMARY KEY) WITH cdc = {given}", words, kind=kind)
    assert not is_there(db, name) and not is_there(db, log(name))


def test_altering_says_whether_it_is_on(db, base):
    db.refuse(f"ALTER TABLE {base} WITH cdc = {{'preimage': true}}", "requires specifying \"enabled\" flag")


def test_a_log_follows_its_table(db, base):
    db.run(f"ALTER TABLE {base} RENAME c TO d")
    db.run(f"ALTER TABLE {base} ADD x set<int>")
    db.run(f"ALTER TABLE {base} DROP v")
    found = columns(db, log(base))
    assert found["d"] == "int" and "c" not in found
    assert found["x"] == "frozen<set<int>>" and found["cdc$deleted_elements_x"] == "frozen<set<int>>"
    assert "v" not in found and "cdc$deleted_v" not in found
    db.refuse(f"ALTER TABLE {base} ADD v int", "dropped too recently. Please retry after")


def test_a_log_that_is_let_go_is_taken_again(db, base):
    def id_of():
        return db.one("SELECT id FROM system_schema.tables WHERE keyspace_name = "
                      f"'{db.keyspace}' AND table_name = '{log(base).split('.')[1]}'")
    before = id_of()
    db.run(f"ALTER TABLE {log(base)} WITH comment = 'mine'")
    db.run(f"ALTER TABLE {base} WITH {OFF}")
    db.run(f"ALTER TABLE {base} DROP m")
    assert "m" in columns(db, log(base))
    db.run(f"INSERT INTO {base} (p, c) VALUES (1, 1)")
    db.run(f"ALTER TABLE {base} WITH {ON}")
    assert "m" not in columns(db, log(base)) and id_of() == before
    db.session.cluster.refresh_schema_metadata()
    known = db.session.cluster.metadata.keyspaces[db.keyspace].tables[log(base).split(".")[1]]
    assert known.options["comment"] == "mine"


def test_a_log_is_dropped_with_its_table_or_when_it_was_let_go(db, base):
    db.refuse(f"DROP TABLE {log(base)}", "Cannot DROP cdc log table", kind=Unauthorized)
    db.run(f"ALTER TABLE {base} WITH {OFF}")
    db.run(f"DROP TABLE {log(base)}")
    assert is_there(db, base) and not is_there(db, log(base))
    db.run(f"ALTER TABLE {base} WITH {ON}")
    assert is_there(db, log(base))
    db.run(f"DROP TABLE {base}")
    assert not is_there(db, base) and not is_there(db, log(base))


def test_what_cannot_have_a_log_is_refused(db, base):
    counters = db.table("p int PRIMARY KEY, v counter")
    db.refuse(f"ALTER TABLE {counters} WITH {ON}", "Counter support not implemented")
    db.refuse(f"ALTER TABLE {log(base)} WITH {ON}", "creating nested CDC logs is not allowed")
    taken = db.table("p int PRIMARY KEY")
    db.run(f"CREATE TABLE {log(taken)} (p int PRIMARY KEY)")
    db.refuse(f"ALTER TABLE {taken} WITH {ON}", f"{log(taken)} already exists")
    db.refuse(f"CREATE INDEX ON {log(base)} (v)", "not supported on CDC log tables")
    for action in ("ADD x int", "DROP v", "ALTER v TYPE blob"):
        db.refuse(f"ALTER TABLE {log(base)} {action}", "You cannot modify the set of columns of a CDC log table")
    db.refuse(f"ALTER TABLE {log(base)} WITH tombstone_gc = {{'mode': 'repair'}}", "not allowed on CDC log tables",
              kind=ConfigurationException)


def test_a_table_and_its_log_are_described_and_made_again(db, base):
    db.run(f"ALTER TABLE {log(base)} WITH comment = 'of mine'")
    rows = db.rows(f"DESCRIBE TABLE {base}")
    create, alter = [row[-1] for row in rows]
    assert "cdc = {'delta': 'full', 'enabled': 'true'" in create
    assert alter.startswith(f"ALTER TABLE {log(base)} WITH ") and "comment = 'of mine'" in alter
    own = db.rows(f"DESCRIBE TABLE {log(base)}")
    assert len(own) == 1 and own[0][-1].startswith("/* Do NOT execute this statement!")
    assert log(base).split(".")[1] not in [row[2] for row in db.rows("DESCRIBE TABLES")]
    db.run(f"DROP TABLE {base}")
    for statement in (create, alter):
        db.run(statement)
    assert [row[-1] for row in db.rows(f"DESCRIBE TABLE {base}")] == [create, alter]


def test_streams_are_told(db, base):
    keyspace, name = base.split(".")
    own = db.rows("SELECT stream_id, stream_state FROM system.cdc_streams WHERE keyspace_name = %s AND table_name = "
                  "%s", keyspace, name)
    times = db.rows("SELECT timestamp FROM system.cdc_timestamps WHERE keyspace_name = %s AND table_name = %s",
                    keyspace, name)
    generations = db.rows("SELECT time FROM system_distributed.cdc_generation_timestamps WHERE key = 'timestamps'")
    if not own:
        # Of the ring, in a keyspace without tablets.
        assert times == [] and generations
        own = [(stream, 0) for streams in db.column("SELECT streams FROM "
                                                    "system_distributed.cdc_streams_descriptions_v2")
               for stream in streams]
    else:
        assert len(times) == 1
    assert own and all(len(stream) == 16 and state == 0 and stream[15] & 15 == 1 for stream, state in own)
    assert len({stream for stream, _ in own}) == len(own)
