"""Options of tables, and sub-options of compaction, compression, caching and the rest."""
import pytest
from cassandra import InvalidRequest
from cassandra.protocol import ConfigurationException, SyntaxException

REFUSALS = (InvalidRequest, ConfigurationException, SyntaxException)


def of_table(db, table, *names):
    keyspace, name = table.split(".")
    return db.rows(f"SELECT {', '.join(names)} FROM system_schema.tables "
                   "WHERE keyspace_name = %s AND table_name = %s", keyspace, name)[0]


def test_defaults(db):
    t = db.table("a int PRIMARY KEY")
    assert of_table(db, t, "comment", "gc_grace_seconds", "bloom_filter_fp_chance",
                    "default_time_to_live", "crc_check_chance", "min_index_interval",
                    "max_index_interval", "memtable_flush_period_in_ms") \
        == ("", 864000, 0.01, 0, 1.0, 128, 2048, 0)
    (caching, compression) = of_table(db, t, "caching", "compression")
    assert caching["keys"] == "ALL" and caching["rows_per_partition"] in ("ALL", "NONE")
    assert any("LZ4" in value for value in compression.values())


def test_an_id_is_kept(db):
    t = db.name()
    wanted = "5bc52802-de25-11ed-aeab-188eecebb090"
    db.run(f"CREATE TABLE {t} (a int PRIMARY KEY) WITH id = {wanted}")
    assert str(of_table(db, t, "id")[0]) == wanted


@pytest.mark.parametrize("option", [
    "gc_grace_seconds = -1", "gc_grace_seconds = 'x'", "bloom_filter_fp_chance = 0",
    "bloom_filter_fp_chance = 1.1", "default_time_to_live = -1", "default_time_to_live = 630720001",
    "crc_check_chance = 2", "crc_check_chance = -0.1", "min_index_interval = 0",
    "min_index_interval = 4096", "max_index_interval = 64", "memtable_flush_period_in_ms = -1",
    "speculative_retry = 'sometimes'", "speculative_retry = '101percentile'",
    "speculative_retry = '-1ms'", "no_such_option = 1", "id = 'x'",
    "caching = {'keys': 'SOME'}", "caching = {'rows_per_partition': '-1'}", "caching = {'x': 'ALL'}",
    "caching = 'x'", "cdc = 'x'",
])
def test_refused(db, option):
    with pytest.raises(REFUSALS):
        db.table("a int PRIMARY KEY", f"WITH {option}")
    t = db.table("a int PRIMARY KEY")
    before = db.rows(f"DESCRIBE TABLE {t}")
    with pytest.raises(REFUSALS):
        db.run(f"ALTER TABLE {t} WITH {option}")
    assert db.rows(f"DESCRIBE TABLE {t}") == before


@pytest.mark.parametrize("option", [
    "speculative_retry = 'ALWAYS'", "speculative_retry = 'none'", "speculative_retry = '10ms'",
    "speculative_retry = '50.5percentile'", "caching = {'keys': 'NONE'}",
    "caching = {'rows_per_partition': '7'}", "bloom_filter_fp_chance = 1.0",
    "comment = '' AND gc_grace_seconds = 0", "compression = {}", "compression = {'enabled': false}",
    "memtable_flush_period_in_ms = 60001", "read_repair_chance = 0.5",
    "dclocal_read_repair_chance = 0.1",
])
def test_taken(db, option):
    t = db.table("a int PRIMARY KEY", f"WITH {option}")
    db.run(f"ALTER TABLE {t} WITH {option}")
    db.run(f"INSERT INTO {t} (a) VALUES (1)")
    assert db.rows(f"SELECT a FROM {t}") == [(1,)]


@pytest.mark.parametrize("option, found", [
    ("tombstone_gc = {'mode': 'immediate'}", "tombstone_gc = {'mode': 'immediate'"),
    ("tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '7'}", "'7'"),
    ("paxos_grace_seconds = 77", "paxos_grace_seconds = 77"),
    ("per_partition_rate_limit = {'max_reads_per_second': 5, 'max_writes_per_second': 6}",
     "'max_reads_per_second': '5'"),
    ("compression = {'sstable_compression': 'ZstdWithDictsCompressor'}", "ZstdWithDicts"),
])
def test_options_of_scylladb(db, option, found):
    t = db.table("a int PRIMARY KEY", f"WITH {option}")
    assert found in db.rows(f"DESCRIBE TABLE {t}")[0][3]


@pytest.mark.parametrize("option, words", [
    ("tombstone_gc = {'mode': 'never'}", "mode: never"),
    ("tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '-7'}", "-7"),
    ("per_partition_rate_limit = {'max_reads_per_second': -5}", "max_reads_per_second"),
    ("per_partition_rate_limit = {'max': 5}", "Unknown sub-option 'max'"),
    ("synchronous_updates = true", "only applicable to materialized views"),
    ("tablets = {'min_tablet_count': 'x'}", "tablet"), ("paxos_grace_seconds = -1", "paxos_grace"),
])
def test_refused_options_of_scylladb(db, option, words):
    with pytest.raises(REFUSALS) as caught:
        db.table("a int PRIMARY KEY", f"WITH {option}")
    assert words in str(caught.value), caught.value


SIZED = "'class': 'SizeTieredCompactionStrategy', "
LEVELED = "'class': 'LeveledCompactionStrategy', "
WINDOWS = "'class': 'TimeWindowCompactionStrategy', "


@pytest.mark.parametrize("options", [
    "'class': 'SizeTieredCompactionStrategy'", "'class': 'LeveledCompactionStrategy'",
    "'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy'",
    SIZED + "'enabled': 'false'", SIZED + "'min_threshold': 2, 'max_threshold': 2",
    SIZED + "'bucket_low': 0.1, 'bucket_high': 2, 'min_sstable_size': 10",
    SIZED + "'tombstone_threshold': 0.3, 'tombstone_compaction_interval': 1, "
    "'unchecked_tombstone_compaction': 'true'",
    LEVELED + "'sstable_size_in_mb': 1",
    WINDOWS + "'compaction_window_unit': 'HOURS', 'compaction_window_size': 2",
    WINDOWS + "'timestamp_resolution': 'MILLISECONDS'",
    WINDOWS + "'expired_sstable_check_frequency_seconds': 60",
])
def test_compaction(db, options):
    t = db.table("a int PRIMARY KEY", f"WITH default_time_to_live = 3600 AND compaction = {{{options}}}")
    found = of_table(db, t, "compaction")[0]
    for part in options.split(", "):
        name, value = (word.strip().strip("'") for word in part.split(":"))
        assert found[name].split(".")[-1] == value.split(".")[-1] or found[name] == value, found


@pytest.mark.parametrize("options, words", [
    (SIZED + "'min_threshold': 1", "min_threshold"), (SIZED + "'min_threshold': 'x'", "min_threshold"),
    (SIZED + "'min_threshold': 9, 'max_threshold': 5", "max"), (SIZED + "'no_such': 1", "no_such"),
    (SIZED + "'bucket_low': 2, 'bucket_high': 1", "bucket_"), (SIZED + "'enabled': 'maybe'", "enabled"),
    (SIZED + "'min_sstable_size': -1", "min_sstable_size"),
    (SIZED + "'tombstone_threshold': -0.1", "tombstone_threshold"),
    (SIZED + "'tombstone_compaction_interval': -1", "tombstone_compaction_interval"),
    (LEVELED + "'sstable_size_in_mb': -1", "sstable_size_in_mb"),
    (LEVELED + "'bucket_low': 0.5", "bucket_low"),
    (WINDOWS + "'compaction_window_unit': 'YEARS'", "YEARS"),
    (WINDOWS + "'compaction_window_size': -1", "compaction_window_size"),
    (WINDOWS + "'timestamp_resolution': 'FORTNIGHTS'", "timestamp_resolution"),
    ("'class': 'NoSuchStrategy'", "NoSuchStrategy"), ("'min_threshold': 5", "class"),
])
def test_refused_compaction(db, options, words):
    with pytest.raises(REFUSALS) as caught:
        db.table("a int PRIMARY KEY", f"WITH compaction = {{{options}}}")
    assert words in str(caught.value), caught.value


def test_incremental_compaction_is_the_default(db):
    t = db.table("a int PRIMARY KEY")
    assert "IncrementalCompactionStrategy" in of_table(db, t, "compaction")[0]["class"]
    db.run(f"ALTER TABLE {t} WITH compaction = {{'class': 'NullCompactionStrategy'}}")
    db.run(f"ALTER TABLE {t} WITH compaction = {{'class': 'IncrementalCompactionStrategy', "
           "'space_amplification_goal': 1.5}")
    assert of_table(db, t, "compaction")[0]["space_amplification_goal"] == "1.5"


@pytest.mark.parametrize("options", [
    "'class': 'LZ4Compressor'", "'class': 'SnappyCompressor'", "'class': 'DeflateCompressor'",
    "'class': 'ZstdCompressor', 'compression_level': 5",
    "'class': 'LZ4Compressor', 'chunk_length_in_kb': 1",
    "'class': 'org.apache.cassandra.io.compress.LZ4Compressor', 'chunk_length_in_kb': 128",
])
def test_compression(db, options):
    t = db.table("a int PRIMARY KEY, v text", f"WITH compression = {{{options}}}")
    name = options.split("'")[3].rsplit(".", 1)[-1]
    assert any(name in value for value in of_table(db, t, "compression")[0].values())
    db.run(f"INSERT INTO {t} (a, v) VALUES (1, 'x')")
    assert db.rows(f"SELECT v FROM {t}") == [("x",)]


@pytest.mark.parametrize("options, words", [
    ("'class': 'NoSuchCompressor'", "NoSuchCompressor"),
    ("'class': 'LZ4Compressor', 'chunk_length_in_kb': 3", "power of 2"),
    ("'class': 'LZ4Compressor', 'chunk_length_in_kb': 0", "chunk_length_in_kb"),
    ("'class': 'LZ4Compressor', 'chunk_length_in_kb': -4", "chunk_length_in_kb"),
    ("'class': 'LZ4Compressor', 'chunk_length_in_kb': 'x'", "chunk_length_in_kb"),
    ("'class': 'LZ4Compressor', 'no_such': 1", "no_such"),
    ("'class': 'ZstdCompressor', 'compression_level': 99", "compression_level"),
    ("'chunk_length_in_kb': 4", ""),
])
def test_refused_compression(db, options, words):
    with pytest.raises(REFUSALS) as caught:
        db.table("a int PRIMARY KEY", f"WITH compression = {{{options}}}")
    assert words in str(caught.value), caught.value


def test_compact_storage_must_be_allowed(db):
    db.refuse(f"CREATE TABLE {db.name()} (a int PRIMARY KEY, v int) WITH COMPACT STORAGE",
              "CREATE TABLE WITH COMPACT STORAGE")
