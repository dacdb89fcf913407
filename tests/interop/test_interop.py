"""Apache Cassandra's own export of files against our dump of the same files: of files that
CQLSSTableWriter made, and of files that we made. Skipped where Maven cannot resolve Cassandra."""
import json
import subprocess

import pytest
from node import NEREID
from normal import ours, theirs
from peer import Cassandra, Unavailable

VERSIONS = ["nb", "oa", "da"]
TABLES = (["types", "collections", "usertypes", "rows", "overlapping", "large"]
          + [f"deletions{number}" for number in range(9)]
          + [f"compressed_{name}" for name in ("lz4", "snappy", "deflate", "zstd", "none")])
COMPRESSORS = ["LZ4", "Snappy", "Deflate", "Zstd", "none"]


def tool(operation, *words, cwd=None):
    command = [NEREID, "sstable", operation, *[str(word) for word in words]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def dump(operation, data, cwd):
    # The schema is that of the file: no schema.cql is here.
    (only,) = json.loads(tool(operation, "--sstable-schema", data, cwd=cwd))["sstables"].values()
    return only


def time(seconds):
    return f"2033-05-18 03:33:{20 + seconds:02}z"


COUNTERS = [{"key": {"raw": f"0004{p:08x}"}, "clustering_elements": [
    {"type": "clustering-row", "key": {"raw": "", "value": ""}, "columns": {"v": {
        "is_live": True, "type": "counter-shards", "timestamp": 4, "value": [
            {"id": "59b82720-99b0-4033-885c-e94d62106a35", "value": p, "clock": 7},
            {"id": "69b82720-99b0-4033-885c-e94d62106a35", "value": -1, "clock": 8}]}}}]}
    for p in (5, 1)]

# Times, ttls and tombstones that CQLSSTableWriter cannot make.
MARKERS = [{
    "key": {"raw": "000400000005"},
    "tombstone": {"timestamp": 3, "deletion_time": time(0)},
    "static_row": {"s": {"is_live": False, "type": "regular", "timestamp": 8,
                         "deletion_time": time(1)}},
    "clustering_elements": [
        {"type": "range-tombstone-change", "weight": -1,
         "tombstone": {"timestamp": 4, "deletion_time": time(2)}},
        {"type": "clustering-row", "key": {"raw": "000400000001"},
         "marker": {"timestamp": 9, "ttl": "100s", "expiry": time(3)}, "columns": {
             "v": {"is_live": True, "type": "regular", "timestamp": 10, "ttl": "50s",
                   "expiry": time(4), "value": "7"},
             "m": {"type": "collection", "tombstone": {"timestamp": 7, "deletion_time": time(5)},
                   "cells": [{"key": "1", "value": {
                       "is_live": True, "type": "regular", "timestamp": 11, "ttl": "60s",
                       "expiry": time(6), "value": "2"}},
                       {"key": "2", "value": {"is_live": False, "type": "regular", "timestamp": 12,
                                              "deletion_time": time(7)}}]}}},
        {"type": "range-tombstone-change", "key": {"raw": "000400000002"}, "weight": 1,
         "tombstone": {"timestamp": 5, "deletion_time": time(8)}},
        {"type": "clustering-row", "key": {"raw": "000400000003"},
         "tombstone": {"timestamp": 6, "deletion_time": time(9)}, "columns": {
             "v": {"is_live": True, "type": "regular", "timestamp": 20, "value": "1"}}},
        {"type": "range-tombstone-change", "weight": 1, "tombstone": {}},
    ]}]

WRITTEN = {
    "counters": ("CREATE TABLE k.counters (p int PRIMARY KEY, v counter)", COUNTERS),
    "markers": ("CREATE TABLE k.markers (p int, c int, s int STATIC, v int, m map<int, int>, "
                "PRIMARY KEY (p, c))", MARKERS),
}


def one_row(name, text, kind="regular"):
    """A partition of one row with one cell."""
    cell = {"is_live": True, "type": kind, "timestamp": 4, "value": text}
    row = {"type": "clustering-row", "key": {"raw": ""}, "columns": {name: cell}}
    return [{"key": {"raw": "000400000001"}, "clustering_elements": [row]}]


def of_type(name, ty, text, types=""):
    return (f"{types} CREATE TABLE k.{name} (p int PRIMARY KEY, v {ty})", one_row("v", text))


WRITTEN |= {
    "nested": of_type("nested", "frozen<map<frozen<list<int>>, frozen<set<text>>>>",
                      "{[1, 2]: {'q', 'z'}}"),
    "empty_int": of_type("empty_int", "int", ""),
    "empty_timestamp": of_type("empty_timestamp", "timestamp", ""),
    "short_user_type": of_type("short_user_type", "frozen<u>", "0x0000000400000001",
                               "CREATE TYPE k.u (a int, b text);"),
}

# What SSTableExport cannot print, and what it says.
LIMITS = {
    "short_tuple": (of_type("short_tuple", "tuple<int, text, int>", "(1)"),
                    "IndexOutOfBoundsException"),
    "empty_counter": (("CREATE TABLE k.empty_counter (p int PRIMARY KEY, v counter)",
                       one_row("v", [], "counter-shards")), "IndexOutOfBoundsException"),
    "empty_boolean": (of_type("empty_boolean", "boolean", ""), "NullPointerException"),
}


def write_ours(folder, made):
    """Our files, by name: Cassandra's rewritten, and what it cannot make."""
    files = {}
    for table in TABLES:
        out = folder / table
        out.mkdir(parents=True)
        tool("upgrade", "--all", "--sstable-version", "me", "--sstable-schema", "--output-dir", out,
             made["nb"][table], cwd=folder)
        (files[table],) = out.glob("*-Data.db")
    for name in COMPRESSORS:
        out = folder / f"ours_{name}"
        out.mkdir()
        options = ("{'enabled': false}" if name == "none" else
                   f"{{'sstable_compression': '{name}Compressor', 'chunk_length_in_kb': 4}}")
        (out / "schema").write_text(
            "CREATE TABLE k.t (p int, c int, v text, PRIMARY KEY (p, c)) "
            f"WITH compression = {options}")
        tool("upgrade", "--all", "--sstable-version", "me", "--schema-file", out / "schema",
             "--unsafe-accept-nonempty-output-dir", "--output-dir", out, made["nb"]["large"])
        (files[f"ours_{name}"],) = out.glob("*-Data.db")
        compression = dump("dump-compression-info", files[f"ours_{name}"], folder)
        assert (compression or {"name": "noneCompressor"})["name"] == f"{name}Compressor"
    limits = {name: limit for name, (limit, _) in LIMITS.items()}
    for name, (schema, partitions) in (WRITTEN | limits).items():
        out = folder / name
        out.mkdir()
        (out / "schema").write_text(schema)
        (out / "in").write_text(json.dumps(partitions))
        tool("write", "--sstable-version", "me", "--schema-file", out / "schema", "--input-file",
             out / "in", "--output-dir", out)
        (files[name],) = out.glob("*-Data.db")
    return files


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """By version, `us` for ours, and table: our dump and Cassandra's, normalised."""
    folder = tmp_path_factory.mktemp("interop")
    try:
        cassandra = Cassandra(folder)
    except Unavailable as why:
        pytest.skip(str(why))
    files = {}
    for version in VERSIONS:
        cassandra.write(version, folder / version)
        files[version] = {table: data for table in TABLES
                          for data in (folder / version / "k" / table).glob(f"{version}-*-Data.db")}
        assert set(files[version]) == set(TABLES)
    files["us"] = write_ours(folder / "us", files)
    names = [(version, table) for version in files for table in files[version]]
    exports = cassandra.export([files[version][table] for version, table in names])
    out = {}
    for (version, table), (text, complaint) in zip(names, exports):
        data = files[version][table]
        out[version, table] = (data, text, complaint, folder)
    out["totals"] = cassandra.totals(files["us"]["counters"])
    return out


def check(exported, version, table):
    data, text, complaint, folder = exported[version, table]
    assert not complaint, complaint
    statistics = dump("dump-statistics", data, folder)
    expected = theirs(text, statistics)
    got = ours(dump("dump-data", data, folder), statistics)
    assert len(expected) and len(got) == len(expected)
    for mine, other in zip(got, expected):
        assert mine == other
    assert dump("validate", data, folder) == {"errors": 0, "valid": True}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("version", VERSIONS)
def test_we_read_what_cassandra_writes(exported, version, table):
    check(exported, version, table)


@pytest.mark.parametrize("table", TABLES + [f"ours_{name}" for name in COMPRESSORS]
                         + list(WRITTEN))
def test_cassandra_reads_what_we_write(exported, table):
    check(exported, "us", table)


def test_cassandra_reads_the_totals_of_our_counters(exported):
    shards = [partition["clustering_elements"][0]["columns"]["v"]["value"] for partition in COUNTERS]
    assert exported["totals"] == [sum(shard["value"] for shard in one) for one in shards]


@pytest.mark.parametrize("table", LIMITS)
def test_what_the_export_cannot_print(exported, table):
    """Limits of the tool, as docs/compatibility.md tells; a version without one is compared."""
    data, _, complaint, folder = exported["us", table]
    if complaint:
        assert LIMITS[table][1] in complaint
        assert dump("validate", data, folder) == {"errors": 0, "valid": True}
    else:
        check(exported, "us", table)
