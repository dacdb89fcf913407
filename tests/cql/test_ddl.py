"""Keyspaces, tables, types: created, altered, dropped, and found in the schema tables."""
import pytest
from cassandra import AlreadyExists, InvalidRequest
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import ConfigurationException, SyntaxException, TruncateError

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


def options_of(db, table):
    keyspace, name = table.split(".")
    text = "SELECT * FROM system_schema.tables WHERE keyspace_name = %s AND table_name = %s"
    return db.session.execute(text, (keyspace, name)).one()._asdict()


def columns_of(db, table):
    keyspace, name = table.split(".")
    return dict(db.rows("SELECT column_name, type FROM system_schema.columns "
                        "WHERE keyspace_name = %s AND table_name = %s", keyspace, name))


def test_a_keyspace_lives_and_dies(db):
    where = "WHERE keyspace_name = 'life'"
    read = f"SELECT durable_writes, replication FROM system_schema.keyspaces {where}"
    db.run(f"CREATE KEYSPACE life WITH replication = {SIMPLE} AND durable_writes = false")
    durable, replication = db.rows(read)[0]
    assert durable is False and replication["replication_factor"] == "1"
    db.run("ALTER KEYSPACE life WITH durable_writes = true")
    assert db.rows(read)[0][0] is True
    with pytest.raises(AlreadyExists):
        db.run(f"CREATE KEYSPACE life WITH replication = {SIMPLE}")
    db.run(f"CREATE KEYSPACE IF NOT EXISTS life WITH replication = {SIMPLE}")
    db.run("CREATE TABLE life.t (a int PRIMARY KEY)")
    db.run("DROP KEYSPACE life")
    assert db.rows(read) == []
    db.refuse("SELECT * FROM life.t", "keyspace 'life' does not exist")
    db.run("DROP KEYSPACE IF EXISTS life")


@pytest.mark.parametrize("statement, kind", [
    ("CREATE KEYSPACE bad WITH replication = {'class': 'NoStrategy'}", None),
    ("CREATE KEYSPACE bad WITH no_option = 1", None),
    ("CREATE KEYSPACE system_mine WITH replication = " + SIMPLE, None),
    ('CREATE KEYSPACE "a-b" WITH replication = ' + SIMPLE, None),
    ("CREATE KEYSPACE " + "x" * 200 + " WITH replication = " + SIMPLE, None),
    ("DROP KEYSPACE not_there", None),
    ("ALTER KEYSPACE not_there WITH durable_writes = true", None),
    ("DROP KEYSPACE system", None),
    ("CREATE KEYSPACE", SyntaxException),
])
def test_refused_keyspaces(db, statement, kind):
    kinds = kind or (InvalidRequest, ConfigurationException, SyntaxException, Exception)
    with pytest.raises(kinds):
        db.run(statement)
    db.run("SELECT key FROM system.local")


def test_use(node):
    session = node.connect()
    session.execute(f"CREATE KEYSPACE used WITH replication = {SIMPLE}")
    with pytest.raises(InvalidRequest, match="(?i)no keyspace has been specified"):
        session.execute("SELECT * FROM t")
    session.execute("USE used")
    session.execute("CREATE TABLE t (a int PRIMARY KEY)")
    session.execute("INSERT INTO t (a) VALUES (1)")
    assert session.execute("SELECT a FROM used.t").one() == (1,)
    with pytest.raises(InvalidRequest, match="does not exist"):
        session.execute("USE not_there")


OPTIONS = [
    ("comment", "'it''s'", "it's"),
    ("gc_grace_seconds", "1000", 1000),
    ("bloom_filter_fp_chance", "0.05", 0.05),
    ("default_time_to_live", "3600", 3600),
    ("crc_check_chance", "0.5", 0.5),
    ("min_index_interval", "64", 64),
    ("max_index_interval", "256", 256),
    ("memtable_flush_period_in_ms", "60000", 60000),
    ("speculative_retry", "'99.0PERCENTILE'", "99.0PERCENTILE"),
    ("caching", "{'keys': 'NONE', 'rows_per_partition': '10'}",
     {"keys": "NONE", "rows_per_partition": "10"}),
]


@pytest.mark.parametrize("name, text, expected", OPTIONS, ids=[row[0] for row in OPTIONS])
def test_options_are_stored(db, name, text, expected):
    table = db.table("a int PRIMARY KEY", f"WITH {name} = {text}")
    got = options_of(db, table)[name]
    assert (dict(got) if isinstance(expected, dict) else got) == expected
    other = db.table("a int PRIMARY KEY")
    db.run(f"ALTER TABLE {other} WITH {name} = {text}")
    got = options_of(db, other)[name]
    assert (dict(got) if isinstance(expected, dict) else got) == expected


def test_compaction_and_compression_options(db):
    table = db.table(
        "a int PRIMARY KEY",
        "WITH compaction = {'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '10'} "
        "AND compression = {'sstable_compression': 'LZ4Compressor', 'chunk_length_in_kb': '16'}")
    options = options_of(db, table)
    assert options["compaction"]["class"].endswith("LeveledCompactionStrategy")
    assert options["compaction"]["sstable_size_in_mb"] == "10"
    assert options["compression"]["chunk_length_in_kb"] == "16"
    db.run(f"ALTER TABLE {table} WITH compression = {{'sstable_compression': ''}}")
    assert not any("LZ4" in value for value in options_of(db, table)["compression"].values())


@pytest.mark.parametrize("columns, options", [
    ("a int", ""),
    ("a int PRIMARY KEY, a text", ""),
    ("a int PRIMARY KEY, b int PRIMARY KEY", ""),
    ("a int, PRIMARY KEY (b)", ""),
    ("a int, b int, PRIMARY KEY (a, a)", ""),
    ("a list<int> PRIMARY KEY", ""),
    ("a int, b map<int, int>, PRIMARY KEY (a, b)", ""),
    ("a duration PRIMARY KEY", ""),
    ("a counter PRIMARY KEY", ""),
    ("a int PRIMARY KEY, b counter, c int", ""),
    ("a int PRIMARY KEY, b int STATIC", ""),
    ("a int PRIMARY KEY, b list<list<int>>", ""),
    ("a int PRIMARY KEY, b no_such_type", ""),
    ("a int PRIMARY KEY, b vector<float, 0>", ""),
    ("a int, b int, PRIMARY KEY (a, b)", "WITH CLUSTERING ORDER BY (a ASC)"),
    ("a int, b int, c int, PRIMARY KEY (a, b, c)", "WITH CLUSTERING ORDER BY (c ASC, b ASC)"),
    ("a int PRIMARY KEY", "WITH no_option = 1"),
    ("a int PRIMARY KEY", "WITH gc_grace_seconds = -1"),
    ("a int PRIMARY KEY", "WITH bloom_filter_fp_chance = 2"),
    ("a int PRIMARY KEY", "WITH default_time_to_live = 630720001"),
    ("a int PRIMARY KEY", "WITH compaction = {'class': 'NoSuchStrategy'}"),
    ("a int PRIMARY KEY", "WITH compression = {'sstable_compression': 'NoSuchCompressor'}"),
    ("a int PRIMARY KEY", "WITH compression = {'chunk_length_in_kb': '3'}"),
])
def test_refused_tables(db, columns, options):
    name = db.name()
    with pytest.raises((InvalidRequest, ConfigurationException, SyntaxException)):
        db.run(f"CREATE TABLE {name} ({columns}) {options}")
    assert columns_of(db, name) == {}


def test_a_table_exists_once(db):
    table = db.table("a int PRIMARY KEY")
    with pytest.raises(AlreadyExists):
        db.run(f"CREATE TABLE {table} (b int PRIMARY KEY)")
    db.run(f"CREATE TABLE IF NOT EXISTS {table} (b int PRIMARY KEY)")
    assert columns_of(db, table) == {"a": "int"}
    db.run(f"DROP TABLE {table}")
    db.run(f"DROP TABLE IF EXISTS {table}")
    name = table.split(".")[1]
    db.refuse(f"SELECT * FROM {table}", f"unconfigured table {name}")
    with pytest.raises(InvalidRequest):
        db.run(f"DROP TABLE {table}")
    db.run(f"CREATE TABLE {table} (a int PRIMARY KEY, fresh int)")
    assert db.rows(f"SELECT * FROM {table}") == []


def test_names_keep_their_case_in_quotes(db):
    table = db.table('Plain int PRIMARY KEY, "Quoted" int, "with ""quotes""" int')
    db.run(f'INSERT INTO {table} (PLAIN, "Quoted", "with ""quotes""") VALUES (1, 2, 3)')
    assert db.rows(f'SELECT plain, "Quoted", "with ""quotes""" FROM {table}') == [(1, 2, 3)]
    assert set(columns_of(db, table)) == {"plain", "Quoted", 'with "quotes"'}
    db.refuse(f"SELECT quoted FROM {table}", "unrecognized name quoted")


def test_alter_adds_drops_and_renames(db):
    table = db.table("a int, b int, v text, PRIMARY KEY (a, b)")
    db.run(f"INSERT INTO {table} (a, b, v) VALUES (1, 2, 'x')")
    db.run(f"ALTER TABLE {table} ADD w int")
    db.run(f"ALTER TABLE {table} ADD (s text static, m map<int, text>)")
    assert db.rows(f"SELECT a, b, v, w, s, m FROM {table}") == [(1, 2, "x", None, None, None)]
    db.run(f"UPDATE {table} SET w = 5, m[1] = 'y', s = 'z' WHERE a = 1 AND b = 2")
    db.run(f"ALTER TABLE {table} RENAME b TO bb")
    assert db.rows(f"SELECT bb, w, m, s FROM {table}") == [(2, 5, {1: "y"}, "z")]
    db.run(f"ALTER TABLE {table} DROP (m, s)")
    assert set(columns_of(db, table)) == {"a", "bb", "v", "w"}
    for change in ["ADD v int", "DROP a", "DROP bb", "DROP nothing", "RENAME v TO u",
                   "RENAME bb TO a", "ADD x no_type", "ADD y counter"]:
        with pytest.raises((InvalidRequest, ConfigurationException)):
            db.run(f"ALTER TABLE {table} {change}")


def test_a_dropped_columns_data_does_not_come_back(db):
    table = db.table("a int PRIMARY KEY, v int, w int")
    for a in range(3):
        db.run(f"INSERT INTO {table} (a, v, w) VALUES ({a}, {a}, {a})")
    db.run(f"ALTER TABLE {table} DROP v")
    db.run(f"ALTER TABLE {table} ADD v int")
    assert sorted(db.rows(f"SELECT a, v, w FROM {table}")) == [(a, None, a) for a in range(3)]
    db.run(f"UPDATE {table} SET v = 7 WHERE a = 1")
    assert db.rows(f"SELECT v, w FROM {table} WHERE a = 1") == [(7, 1)]
    db.run(f"ALTER TABLE {table} DROP v")
    with pytest.raises(InvalidRequest):
        db.run(f"ALTER TABLE {table} ADD v text")


def test_truncate(db):
    table = db.table("a int PRIMARY KEY, v int")
    for a in range(20):
        db.run(f"INSERT INTO {table} (a, v) VALUES ({a}, 1)")
    db.run(f"TRUNCATE TABLE {table}")
    assert db.rows(f"SELECT * FROM {table}") == []
    db.run(f"INSERT INTO {table} (a, v) VALUES (1, 2)")
    assert db.rows(f"SELECT * FROM {table}") == [(1, 2)]
    db.run(f"TRUNCATE {table}")
    assert db.rows(f"SELECT * FROM {table}") == []
    db.refuse(f"TRUNCATE {db.name()}", "unconfigured table")


def test_a_truncation_in_no_time(db):
    table = db.table("a int PRIMARY KEY")
    db.run(f"INSERT INTO {table} (a) VALUES (1)")
    # The driver tries other hosts before it says what the first one said.
    with pytest.raises(NoHostAvailable) as caught:
        db.run(f"TRUNCATE {table} USING TIMEOUT 0ms")
    (error,) = caught.value.errors.values()
    assert isinstance(error, TruncateError)
    assert f"Error during truncate: Timeout during TRUNCATE TABLE of {table}" in str(error)
    assert db.rows(f"SELECT * FROM {table}") == [(1,)]
    db.run(f"TRUNCATE {table} USING TIMEOUT 1m")
    assert db.rows(f"SELECT * FROM {table}") == []


def test_user_types(db):
    name = db.type("x int, y text")
    keyspace, short = name.split(".")
    fields = ("SELECT field_names, field_types FROM system_schema.types "
              "WHERE keyspace_name = %s AND type_name = %s")
    assert db.rows(fields, keyspace, short) == [(["x", "y"], ["int", "text"])]
    db.run(f"CREATE TYPE IF NOT EXISTS {name} (z int)")
    db.run(f"ALTER TYPE {name} ADD z frozen<list<int>>")
    db.run(f"ALTER TYPE {name} RENAME x TO xx")
    assert db.rows(fields, keyspace, short)[0][0] == ["xx", "y", "z"]
    table = db.table(f"a int PRIMARY KEY, v frozen<{short}>")
    db.refuse(f"DROP TYPE {name}", "used by")
    db.run(f"DROP TABLE {table}")
    db.run(f"DROP TYPE {name}")
    db.run(f"DROP TYPE IF EXISTS {name}")
    assert db.rows(fields, keyspace, short) == []
    for text in [f"ALTER TYPE {name} ADD a int", f"DROP TYPE {name}",
                 f"CREATE TYPE {name} (a counter)", f"CREATE TYPE {name} (a int, a int)"]:
        with pytest.raises(InvalidRequest):
            db.run(text)


def test_schema_version_changes_with_the_schema(db):
    read = "SELECT schema_version FROM system.local"
    before = db.one(read)
    db.table("a int PRIMARY KEY")
    assert db.one(read) != before


def test_describe(db):
    table = db.table("a int, b text, s int static, v frozen<map<int, text>>, PRIMARY KEY (a, b)",
                     "WITH CLUSTERING ORDER BY (b DESC) AND comment = 'x'")
    (text,) = [row[3] for row in db.rows(f"DESCRIBE TABLE {table}")]
    for part in [f"CREATE TABLE {table} (", "s int static", "v frozen<map<int, text>>",
                 "PRIMARY KEY (a, b)", "CLUSTERING ORDER BY (b DESC)", "comment = 'x'"]:
        assert part in text, text
    db.run(f"DROP TABLE {table}")
    db.run(text)
    assert [row[3] for row in db.rows(f"DESCRIBE TABLE {table}")] == [text]
    db.refuse(f"DESCRIBE TABLE {db.name()}", "not found")
