"""Operations on files that `write` made: what they print, what they leave, how they end."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from node import NEREID
from tool import component, of_json, ok, one, run, write

PLAIN = "CREATE TABLE ks.t (p int, c int, v text, PRIMARY KEY (p, c)) WITH compression = {}"
PACKED = PLAIN.replace("{}", "{'sstable_compression': 'LZ4Compressor', 'chunk_length_in_kb': 4}")
# Keys in the order of their tokens.
KEYS = [5, 1, 8, 0, 2, 4, 7, 6, 9, 3]


def raw(value):
    return f"0004{value:08x}"


def live(text, timestamp=1000):
    return {"is_live": True, "type": "regular", "timestamp": timestamp, "value": text}


def row(clustering, text="v", timestamp=1000):
    return {"type": "clustering-row", "key": {"raw": raw(clustering)},
            "marker": {"timestamp": timestamp}, "columns": {"v": live(text, timestamp)}}


def partition(key, rows):
    return {"key": {"raw": raw(key)}, "clustering_elements": rows}


def partitions(count=4, rows=3):
    return [partition(key, [row(c) for c in range(rows)]) for key in KEYS[:count]]


@pytest.fixture(params=[(PLAIN, "me"), (PACKED, "me"), (PACKED, "ms")],
                ids=["me plain", "me packed", "ms packed"])
def table(request, tmp_path):
    """The path of Data.db and the schema's file."""
    schema, version = request.param
    data = write(tmp_path / "table", schema, partitions(), "--sstable-version", version)
    assert data.name.startswith(f"{version}-")
    return data, tmp_path / "table" / "schema.cql"


def keys_of(dump):
    return [int(it["key"]["value"]) for it in dump]


def test_dump_data_has_what_was_written(table):
    data, schema = table
    dump = one("dump-data", "--schema-file", schema, data)
    assert keys_of(dump) == KEYS[:4]
    assert dump[0]["key"] == {"token": "-7509452495886106294", "raw": raw(5), "value": "5"}
    assert [element["key"] for element in dump[0]["clustering_elements"]] == [
        {"raw": raw(c), "value": str(c)} for c in range(3)]
    assert dump[0]["clustering_elements"][0]["columns"] == {"v": live("v")}
    text = ok("dump-data", "--output-format", "text", "--schema-file", schema, data)
    assert text.count("partition ") == 4 and f"sstable {data}" in text


def test_any_component_names_the_sstable_and_a_directory_all(table):
    data, schema = table
    expected = of_json("dump-data", "--schema-file", schema, data)
    for suffix in ("TOC.txt", "Statistics.db", "Scylla.db"):
        assert of_json("dump-data", "--schema-file", schema, component(data, suffix)) == expected
    assert of_json("dump-data", "--schema-file", schema, data.parent) == expected
    assert of_json("dump-data", "--schema-file", schema.name, data.name, cwd=data.parent).keys() \
        == {f"./{data.name}"}


def test_partitions_can_be_chosen(table, tmp_path):
    data, schema = table
    chosen = one("dump-data", "--schema-file", schema, "--partition", raw(8), "--partition",
                 raw(5), "--partition", raw(99), data)
    assert keys_of(chosen) == [5, 8]
    listed = tmp_path / "keys"
    listed.write_text(f"{raw(1)}\n{raw(8)}\n")
    assert keys_of(one("dump-data", "--schema-file", schema, "--partitions-file", listed, data)) \
        == [1, 8]
    refused = run("dump-data", "--schema-file", schema, "--partition", "zz", data)
    assert refused.code == 1 and "not hex" in refused.err


def test_a_round_trip_is_equal(tmp_path):
    schema = ("CREATE TYPE ks.u (a int, b text); CREATE TABLE ks.t (p int, q text, c int, d text, "
              "s text STATIC, v int, l list<int>, m map<text, int>, e set<text>, w u, "
              "f frozen<map<text, int>>, t tuple<int, text>, x vector<float, 2>, "
              "PRIMARY KEY ((p, q), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC)")
    time = "2024-02-29 12:34:56z"
    tombstone = {"timestamp": 5, "deletion_time": time}
    expiring = {"is_live": True, "type": "regular", "timestamp": 9, "ttl": "600s", "expiry": time,
                "value": "7"}
    dead = {"is_live": False, "type": "regular", "timestamp": 9, "deletion_time": time}
    uuids = ["50554d6e-29bb-11e5-b345-feff819cdc9f", "50554d6f-29bb-11e5-b345-feff819cdc9f"]
    columns = {
        "v": expiring,
        "l": {"tombstone": tombstone, "cells": [
            {"key": uuid, "value": live("4", 9)} for uuid in uuids]},
        "m": {"cells": [{"key": "a", "value": expiring}, {"key": "it's", "value": dead}]},
        "e": {"cells": [{"key": "x", "value": live("", 9)}]},
        "w": {"cells": [{"key": "a", "value": live("3", 9)}, {"key": "b", "value": live("t", 9)}]},
        "f": {**live("{'k': 1, 'l': 2}", 9), "type": "frozen-collection"},
        "t": live("(1, null)", 9),
        "x": live("[0.5, -1.0]", 9),
    }
    columns = {name: columns[name] for name in sorted(columns)}

    def key(*parts):
        sizes = [part.to_bytes(4, "big") if isinstance(part, int) else part.encode()
                 for part in parts]
        return {"raw": "".join(f"{len(part):04x}{part.hex()}" for part in sizes),
                "value": ":".join(str(part) for part in parts)}

    change = {"type": "range-tombstone-change"}
    written = [{
        "key": key(1, "pq"),
        "tombstone": tombstone,
        "static_row": {"s": live("static", 8)},
        "clustering_elements": [
            {"type": "clustering-row", "key": key(9, "a"), "marker": {"timestamp": 9},
             "columns": columns},
            {**change, "key": key(8), "weight": -1, "tombstone": tombstone},
            {"type": "clustering-row", "key": key(8, "b"),
             "tombstone": {"timestamp": 6, "deletion_time": time},
             "shadowable_tombstone": {"timestamp": 6, "deletion_time": time},
             "marker": {"timestamp": 9, "ttl": "600s", "expiry": time}, "columns": {}},
            {**change, "weight": 1, "tombstone": {}},
        ],
    }]
    data = write(tmp_path / "t", schema, written)
    dump = one("dump-data", "--schema-file", tmp_path / "t" / "schema.cql", data)
    assert dump[0]["key"].pop("token")
    assert dump == written
    # The same again, of the dump as it was printed.
    again = tmp_path / "again"
    again.mkdir()
    text = ok("dump-data", "--schema-file", tmp_path / "t" / "schema.cql", data)
    (again / "in").write_text(text)
    ok("write", "--schema-file", tmp_path / "t" / "schema.cql", "--input-file", again / "in",
       "--output-dir", again)
    (copy,) = again.glob("*-Data.db")
    assert copy.read_bytes() == data.read_bytes()


def test_counters_are_written(tmp_path):
    shards = [{"id": "59b82720-99b0-4033-885c-e94d62106a35", "value": 3, "clock": 7}]
    cell = {"is_live": True, "type": "counter-shards", "timestamp": 4, "value": shards}
    element = {"type": "clustering-row", "key": {"raw": "", "value": ""}, "columns": {"v": cell}}
    data = write(tmp_path, "CREATE TABLE ks.t (p int PRIMARY KEY, v counter)",
                 [{"key": {"raw": raw(1)}, "clustering_elements": [element]}])
    assert one("dump-data", data)[0]["clustering_elements"] == [element]


def test_the_schema_comes_from_the_file_itself(table, tmp_path):
    data, _ = table
    dump = one("dump-data", "--sstable-schema", data, cwd=tmp_path)
    assert keys_of(dump) == KEYS[:4]
    assert "CREATE TABLE ks.t" in ok("dump-schema", data, cwd=tmp_path)
    shutil.copy(tmp_path / "table" / "schema.cql", tmp_path / "schema.cql")
    assert "CREATE TABLE ks.t" in ok("dump-schema", data, cwd=tmp_path)
    component(data, "Scylla.db").unlink()
    (tmp_path / "schema.cql").unlink()
    schema = ok("dump-schema", data, cwd=tmp_path)
    assert '"$pk0" int' in schema and "my_table" in schema


def test_components_are_dumped(table):
    data, schema = table
    words = ("--schema-file", schema, data)
    index = one("dump-index", *words)
    assert [entry["key"]["value"] for entry in index] == [str(key) for key in KEYS[:4]]
    assert index[0]["pos"] == 0 and sorted(index, key=lambda it: it["pos"]) == index
    summary = one("dump-summary", *words)
    if summary is not None:
        assert summary["header"]["size"] == len(summary["entries"]) == len(summary["positions"])
        assert (summary["first_key"]["value"], summary["last_key"]["value"]) == ("5", "0")
    statistics = one("dump-statistics", *words)
    assert set(statistics["offsets"]) == {"validation", "compaction", "stats",
                                          "serialization_header"}
    assert statistics["stats"]["min_timestamp"] == statistics["stats"]["max_timestamp"] == 1000
    assert statistics["stats"]["rows_count"] == 12
    assert statistics["serialization_header"]["regular_columns"] == [
        {"name": "v", "type_name": "org.apache.cassandra.db.marshal.UTF8Type"}]
    metadata = one("dump-scylla-metadata", *words)
    assert metadata["sharding"] and metadata["sstable_origin"] == "write"
    assert "CorrectLastPiBlockWidth" in metadata["features"]["features"]
    assert metadata["schema"]["columns"][0]["name"] == "p"
    compression = one("dump-compression-info", *words)
    if "LZ4" in schema.read_text():
        assert compression["name"] == "LZ4Compressor" and compression["chunk_len"] == 4096
        assert compression["offsets"] == [0]
    else:
        assert compression is None


def test_dump_has_the_same_as_each(table):
    data, schema = table
    names = ["data", "index", "compression-info", "summary", "statistics", "scylla-metadata"]
    everything = one("dump", "--all-components", "--schema-file", schema, data)
    assert list(everything) == names
    for name in names:
        assert everything[name] == one(f"dump-{name}", "--schema-file", schema, data)
    some = one("dump", "--components", "index,statistics", "--schema-file", schema, data)
    assert set(some) == {"index", "statistics"}


def test_what_is_whole_is_valid(table):
    data, schema = table
    assert one("validate", "--schema-file", schema, data) == {"errors": 0, "valid": True}
    assert one("validate-checksums", "--schema-file", schema, data) == {
        "has_checksums": True, "has_digest": True, "valid": True}


def flip(path, at):
    bytes_ = bytearray(path.read_bytes())
    bytes_[at] ^= 0x41
    path.write_bytes(bytes_)


def test_damage_is_named(table):
    data, schema = table
    flip(data, 30)
    result = run("validate-checksums", "--schema-file", schema, data)
    assert result.code == 0 and json.loads(result.out)["sstables"][str(data)]["valid"] is False
    assert data.name in result.err and "offset" in result.err
    # The digest of the statistics is in Scylla.db.
    flip(component(data, "Statistics.db"), 60)
    result = run("validate", "--schema-file", schema, data)
    assert result.code == 0 and json.loads(result.out)["sstables"][str(data)]["valid"] is False
    assert "Statistics.db" in result.err
    result = run("dump-data", "--schema-file", schema, data)
    assert result.code == 2 and "Statistics.db is damaged" in result.err


@pytest.mark.parametrize("suffix", ["Data.db", "Statistics.db", "TOC.txt", "Scylla.db"])
def test_no_damage_makes_it_panic(table, suffix):
    data, schema = table
    path = component(data, suffix)
    whole = path.read_bytes()
    for bytes_ in (whole[:len(whole) // 2], b"", whole[::-1]):
        path.write_bytes(bytes_)
        for operation in ("dump-data", "validate", "validate-checksums", "dump-index"):
            result = run(operation, "--schema-file", schema, data)
            assert result.code in (0, 2) and "panicked" not in result.err, result
    path.write_bytes(whole)


def test_an_index_of_another_file_is_seen(tmp_path):
    first = write(tmp_path / "a", PLAIN, [partition(5, [row(1)]), partition(8, [row(1)])])
    second = write(tmp_path / "b", PLAIN, [partition(5, [row(1, "longer")]), partition(8, [row(1)])])
    names = [name for name in ("Index.db", "Partitions.db") if component(first, name).exists()]
    for name in names:
        shutil.copy(component(second, name), component(first, name))
    forget(first, "Scylla.db")
    result = run("validate", "--schema-file", tmp_path / "a" / "schema.cql", first)
    assert result.code == 0 and '"valid":false' in result.out
    assert "mismatching index/data: position mismatch" in result.err


@pytest.mark.parametrize("version", ["me", "ms"])
def test_an_index_of_the_rows_of_another_file_is_seen(tmp_path, version):
    """Partitions of one length, whose rows start at other places."""
    def large(first, second):
        return [partition(5, [row(0, "a" * first), row(1, "b" * second)]
                          + [row(c, "v" * 1000) for c in range(2, 150)])]
    words = (PLAIN, large(100, 70_000)), (PLAIN, large(70_000, 100))
    first, second = (write(tmp_path / name, *it, "--sstable-version", version)
                     for name, it in zip("ab", words))
    schema = tmp_path / "a" / "schema.cql"
    assert one("validate", "--schema-file", schema, first)["valid"]
    assert first.stat().st_size == second.stat().st_size
    for name in ("Index.db", "Partitions.db", "Rows.db"):
        if component(first, name).exists():
            shutil.copy(component(second, name), component(first, name))
    forget(first, "Scylla.db")
    result = run("validate", "--schema-file", schema, first)
    assert result.code == 0 and '"valid":false' in result.out, result
    assert "mismatching index/data" in result.err


def forget(data, *suffixes):
    """Removes components, as if they had never been."""
    toc = component(data, "TOC.txt")
    lines = toc.read_text().splitlines(keepends=True)
    toc.write_text("".join(line for line in lines if line.strip() not in suffixes))
    for suffix in suffixes:
        component(data, suffix).unlink()


def disordered(folder):
    """Two partitions of two rows each, both pairs exchanged, in an uncompressed file."""
    data = write(folder, PLAIN, [partition(key, [row(c) for c in range(4)]) for key in (5, 1)])
    bytes_ = data.read_bytes()
    half = len(bytes_) // 2
    data.write_bytes(bytes_[half:] + bytes_[:half])
    forget(data, "Digest.crc32", "CRC.db", "Scylla.db")
    return data, folder / "schema.cql"


def outputs(folder):
    return sorted(folder.glob("*-Data.db"))


def test_scrub(tmp_path):
    data, schema = disordered(tmp_path / "in")
    folders = {mode: tmp_path / mode for mode in ("abort", "skip", "segregate", "validate")}
    results = {}
    for mode, folder in folders.items():
        folder.mkdir()
        results[mode] = run("scrub", "--scrub-mode", mode, "--schema-file", schema,
                            "--output-dir", folder, data)
        assert "partitions out of order" in results[mode].err, results[mode]
    assert results["abort"].code == 2 and not list(folders["abort"].iterdir())
    assert results["validate"].code == 0 and not list(folders["validate"].iterdir())
    assert json.loads(results["validate"].out)["sstables"][str(data)]["valid"] is False
    assert results["skip"].code == results["segregate"].code == 0
    (skipped,) = outputs(folders["skip"])
    assert keys_of(one("dump-data", "--schema-file", schema, skipped)) == [1]
    parts = outputs(folders["segregate"])
    assert len(parts) == 2
    merged = one("dump-data", "--merge", "--schema-file", schema, *parts)
    assert keys_of(merged) == [5, 1]
    assert all(len(it["clustering_elements"]) == 4 for it in merged)
    for path in (skipped, *parts):
        assert str(path) in results["skip"].out + results["segregate"].out
        assert one("validate", "--schema-file", schema, path)["valid"]


def test_scrub_wants_an_empty_directory(table, tmp_path):
    data, schema = table
    out = tmp_path / "out"
    words = ("--scrub-mode", "skip", "--schema-file", schema, "--output-dir", out, data)
    assert run("scrub", *words).code == 2
    out.mkdir()
    (out / "file").write_text("")
    refused = run("scrub", *words)
    assert refused.code == 2 and "not empty" in refused.err
    assert "nothing wrong" in ok("scrub", "--unsafe-accept-nonempty-output-dir", *words)
    assert len(outputs(out)) == 1


def test_split(table, tmp_path):
    data, schema = table
    out = tmp_path / "out"
    out.mkdir()
    tokens = [int(it["key"]["token"]) for it in one("dump-data", "--schema-file", schema, data)]
    printed = ok("split", "-t", tokens[1], "--token", tokens[3], "--schema-file", schema,
                 "--output-dir", out, data)
    paths = re.findall(r"^\s+(.+-Data\.db)$", printed, re.MULTILINE)
    assert [keys_of(one("dump-data", "--schema-file", schema, path)) for path in paths] == [
        KEYS[:1], KEYS[1:3], KEYS[3:4]]


def test_filter(table, tmp_path):
    data, schema = table
    for flag, expected in (("--include", [5, 8]), ("--exclude", [1, 0])):
        out = tmp_path / flag
        out.mkdir()
        printed = ok("filter", flag, "--partition", raw(5), "--partition", raw(8), "--schema-file",
                     schema, "--output-dir", out, data)
        path = re.match(r"^Filtering.*\.\.\. output written to (.*)$", printed).group(1)
        assert keys_of(one("dump-data", "--schema-file", schema, path)) == expected


def test_upgrade(table, tmp_path):
    data, schema = table
    out = tmp_path / "out"
    out.mkdir()
    words = ("--schema-file", schema, "--output-dir", out, data)
    same = ("--sstable-version", data.name[:2], *words)
    assert ok("upgrade", *same).startswith(f"Nothing to do for sstable {data}, skipping")
    assert not list(out.iterdir())
    assert ok("upgrade", "--all", *same).startswith(f"Upgraded sstable {data} to {out}/")
    other = {"me": "ms", "ms": "me"}[data.name[:2]]
    printed = ok("upgrade", "--unsafe-accept-nonempty-output-dir", "--sstable-version", other, *words)
    assert f"{out}/{other}-" in printed
    assert len(outputs(out)) == 2
    for copy in outputs(out):
        assert one("dump-data", "--schema-file", schema, copy) == \
            one("dump-data", "--schema-file", schema, data)
        assert one("validate", "--schema-file", schema, copy)["valid"]
    assert run("upgrade", "--sstable-version", "mc", *words).code == 1


def test_an_upgrade_goes_forward(tmp_path):
    old = write(tmp_path / "old", PACKED, partitions(), "--sstable-version", "md")
    new = write(tmp_path / "new", PACKED, partitions(), "--sstable-version", "mt")
    assert old.name.startswith("md-") and new.name.startswith("mt-")
    out = tmp_path / "out"
    out.mkdir()
    words = ("upgrade", "--schema-file", tmp_path / "old" / "schema.cql", "--output-dir", out)
    lines = ok(*words, old, new).splitlines()
    assert lines[0].startswith(f"Upgraded sstable {old} to {out}/ms-")
    assert lines[1].startswith(f"Nothing to do for sstable {new}, skipping")
    # As the node is told to write.
    (tmp_path / "scylla.yaml").write_text("sstable_format: mt\nfoo: bar\n")
    accept = "--unsafe-accept-nonempty-output-dir"
    printed = ok(*words, accept, "--scylla-yaml", tmp_path / "scylla.yaml", old)
    assert printed.startswith(f"Upgraded sstable {old} to {out}/mt-")
    printed = ok(*words, accept, "--sstable-version", "md", new)
    assert printed.startswith(f"Upgraded sstable {new} to {out}/md-")
    (back,) = out.glob("md-*-Data.db")
    assert one("dump-data", "--sstable-schema", back) == one("dump-data", "--sstable-schema", new)
    assert "originating_host_id" not in one("dump-statistics", back)["stats"]


def test_digests_of_components_are_compared(table, tmp_path):
    data, schema = table
    with component(data, "Statistics.db").open("ab") as file:
        file.write(b"\0")
    out = tmp_path / "out"
    out.mkdir()
    words = ("upgrade", "--all", "--schema-file", schema, "--output-dir", out, data)
    result = run(*words)
    assert result.code == 2 and "digest of the component does not match" in result.err, result
    assert not list(out.iterdir())
    result = run(*words, "--ignore-component-digest-mismatch")
    assert result.code == 0 and "digest of the component does not match" in result.err, result
    (copy,) = outputs(out)
    assert len(one("dump-data", "--schema-file", schema, copy)) == 4


def test_decompress(table):
    data, schema = table
    printed = ok("decompress", "--schema-file", schema, data)
    result = data.with_name(data.name + ".decompressed")
    if "LZ4" not in schema.read_text():
        assert "not compressed" in printed and not result.exists()
        return
    bytes_ = result.read_bytes()
    assert bytes_[:6] == bytes.fromhex(raw(5))
    assert bytes_[one("dump-index", "--schema-file", schema, data)[1]["pos"]:][:6] == \
        bytes.fromhex(raw(1))


def test_shard_of(table):
    data, schema = table
    assert one("shard-of", "--shards", 1, "--schema-file", schema, data) == [0]
    assert one("shard-of", "--shards", 2, "--ignore-msb-bits", 0, "--schema-file", schema, data) \
        == [0]
    assert run("shard-of", "--schema-file", schema, data).code == 1
    # Which table it is stands in the path alone.
    result = run("shard-of", "--tablets", "--schema-file", schema, data)
    assert result.code == 1 and "in the directory of its table" in result.err, result


def test_query(table):
    data, schema = table
    words = ("--schema-file", schema, "--output-format", "json", data)
    rows = json.loads(ok("query", *words))
    assert sorted((it["p"], it["c"], it["v"]) for it in rows) == sorted(
        (key, c, "v") for key in KEYS[:4] for c in range(3))
    query = "SELECT c FROM scylla_sstable.t WHERE p = 5 AND c > 0 ORDER BY c DESC"
    assert json.loads(ok("query", "-q", query, *words)) == [{"c": 2}, {"c": 1}]
    count = json.loads(ok("query", "-q", "SELECT count(*) AS n FROM scylla_sstable.t", *words))
    assert count == [{"n": 12}]
    text = ok("query", "-q", query, "--schema-file", schema, data)
    assert [line.strip() for line in text.splitlines()] == ["c", "---", "2", "1"]


@pytest.mark.parametrize("query, why", [
    ("SELECT * FROM ,", "failed to parse query: exceptions::syntax_exception"),
    ("SELECT * FROM scylla_sstable.t; SELECT * FROM scylla_sstable.t",
     "expected exactly 1 query, got 2"),
    ("SELECT * FROM t", "query must have keyspace and the keyspace has to be scylla_sstable"),
    ("SELECT * FROM ks.t", "query must be against scylla_sstable keyspace, got ks instead"),
    ("SELECT * FROM scylla_sstable.x", "query must be against t table, got x instead"),
    ("INSERT INTO scylla_sstable.t (p, c) VALUES (1, 1)", "query must be a select query"),
])
def test_queries_that_are_refused(tmp_path, query, why):
    data = write(tmp_path, PLAIN, partitions(1))
    result = run("query", "--schema-file", tmp_path / "schema.cql", "-q", query, data)
    assert result.code == 1 and result.out == ""
    assert f"error processing arguments: {why}" in result.err


def test_files_are_merged_by_a_query(tmp_path):
    old = write(tmp_path / "a", PLAIN, [partition(5, [row(1, "old", 1), row(2, "kept", 1)])])
    gone = {"type": "clustering-row", "key": {"raw": raw(2)},
            "tombstone": {"timestamp": 9, "deletion_time": "2100-01-01 00:00:00z"}, "columns": {}}
    new = write(tmp_path / "b", PLAIN, [partition(5, [row(1, "new", 2), gone])])
    words = ("--schema-file", tmp_path / "a" / "schema.cql", "--output-format", "json")
    assert json.loads(ok("query", *words, old, new)) == [{"p": 5, "c": 1, "v": "new"}]
    merged = one("dump-data", "--merge", "--schema-file", tmp_path / "a" / "schema.cql", old, new)
    assert len(merged) == 1 and merged[0]["clustering_elements"][0]["columns"]["v"]["value"] == "new"


def test_cql_is_written(tmp_path):
    (tmp_path / "schema.cql").write_text(PLAIN)
    (tmp_path / "input.cql").write_text(
        "  INSERT INTO scylla_sstable.t (p, c, v) VALUES (5, 1, 'a;b') USING TIMESTAMP 7;\n;"
        "DELETE FROM scylla_sstable.t USING TIMESTAMP 8 WHERE p = 1")
    words = ("--schema-file", tmp_path / "schema.cql", "--input-format", "cql", "--input-file",
             tmp_path / "input.cql", "--output-dir", tmp_path)
    generation = ok("write", *words).strip()
    (data,) = tmp_path.glob(f"*-{generation}-*-Data.db")
    dump = one("dump-data", "--schema-file", tmp_path / "schema.cql", data)
    assert keys_of(dump) == [5, 1] and dump[1]["tombstone"]["timestamp"] == 8
    assert dump[0]["clustering_elements"][0]["columns"]["v"] == live("a;b", 7)
    (tmp_path / "input.cql").write_text("SELECT * FROM scylla_sstable.t")
    refused = run("write", *words)
    assert refused.code == 1 and "insert, update or delete" in refused.err


@pytest.mark.parametrize("input_, why", [
    ([partition(1, [row(1)]), partition(5, [row(1)])], "out of order"),
    ([partition(5, [row(2), row(1)])], "out of order"),
    ([partition(5, [row(1), row(1)])], "out of order"),
    ([{"clustering_elements": [row(1)]}], "without a key"),
    ([partition(5, [{**row(1), "columns": {"x": live("v")}}])], "no such column"),
    ([partition(5, [{**row(1), "type": "strange"}])], "unknown type"),
    ([{"key": {"raw": "0004"}}], "partition key"),
    ([], "nothing was written"),
    ({"sstables": []}, "'{' expected"),
])
def test_input_that_is_wrong(tmp_path, input_, why):
    (tmp_path / "schema.cql").write_text(PLAIN)
    (tmp_path / "input.json").write_text(json.dumps(input_))
    result = run("write", "--schema-file", tmp_path / "schema.cql", "--input-file",
                 tmp_path / "input.json", "--output-dir", tmp_path)
    assert result.code == 2 and why in result.err, result
    assert {path.name for path in tmp_path.iterdir()} == {"schema.cql", "input.json"}


def test_a_configuration_with_mistakes(table, tmp_path):
    data, schema = table
    yaml = tmp_path / "scylla.yaml"
    yaml.write_text("foo: bar\n")
    words = ("dump-data", "--schema-file", schema, "--logger-log-level", "scylla-sstable=debug")
    told = run(*words, "--scylla-yaml-file", yaml, data)
    assert told.code == 0
    assert "error processing configuration item: Unknown option : foo" in told.err
    assert f"Successfully read scylla.yaml from {yaml}" in told.err
    missing = run(*words, "--scylla-yaml-file", tmp_path / "none.yaml", data)
    assert missing.code == 0 and "none.yaml" in missing.err


@pytest.mark.parametrize("variable", ["TMPDIR", "TEMPDIR"])
def test_a_temporary_directory_that_is_none(table, tmp_path, variable):
    data, schema = table
    (tmp_path / "in").write_text("INSERT INTO scylla_sstable.t (p, c) VALUES (1, 1)")
    write_ = ("write", "--schema-file", schema, "--input-format", "cql", "--input-file",
              tmp_path / "in", "--output-dir", tmp_path)
    for words in (("query", "--schema-file", schema, data), write_):
        result = run(*words, env={variable: str(schema)})
        assert result.code == 2 and not result.out
        assert f"temp_directory_path: Not a directory [{schema}]" in result.err


def test_the_command_line():
    result = subprocess.run([NEREID, "sstable"], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and not result.stdout
    assert result.stderr.startswith(f"Usage: {Path(NEREID).name} sstable OPERATION")
    assert run("--help").code == 0 and "dump-data" in run("--help").out
    for operation in ("dump-data", "scrub", "query", "write"):
        assert run(operation, "--help").code == 0
    for words in (("unknown",), ("dump-data",), ("dump-data", "--nonsense", "x"),
                  ("dump-data", "/no/such/me-1-big-Data.db"), ("scrub", "x"),
                  ("dump-data", __file__)):
        assert run(*words).code == 1, words


def test_old_versions_are_refused_by_name(tmp_path):
    for name in ("la-1-big-Data.db", "ks-t-ka-1-Data.db"):
        (tmp_path / name).write_text("")
        result = run("dump-data", tmp_path / name)
        assert result.code == 1 and "Cassandra 2" in result.err, result


def promoted(folder, rows):
    """An SSTable whose index of rows is that of other rows: (data, schema) of the first one."""
    # Packed: small files have few samples in their summaries, which must fit the other index.
    first, second = (write(folder / name, PACKED, [partition(5, some), partition(8, [row(1)])],
                           "--sstable-version", "me")
                     for name, some in zip("ab", rows))
    shutil.copy(component(second, "Index.db"), component(first, "Index.db"))
    forget(first, "Scylla.db")
    return first, folder / "a" / "schema.cql"


@pytest.mark.parametrize("rows, others, words", [
    (range(128), range(96), "promoted index has no more blocks, but partition"),
    (range(1), range(128), "promoted index has more blocks, but it is end of partition"),
    ([1, *range(4, 128)], [2, *range(4, 128)], "clustering element"),
])
def test_what_a_promoted_index_says_wrong_is_told(tmp_path, rows, others, words):
    large = [[row(c, "v" * 1024) for c in some] for some in (rows, others)]
    first, schema = promoted(tmp_path, large)
    result = run("validate", "--schema-file", schema, first)
    assert result.code == 0 and '"valid":false' in result.out
    assert f"mismatching index/data: {words}" in result.err


def test_an_index_that_ends_early_is_told(tmp_path):
    first = write(tmp_path / "a", PLAIN, [partition(5, [row(1)]), partition(8, [row(1)])],
                  "--sstable-version", "me")
    second = write(tmp_path / "b", PLAIN, [partition(5, [row(1)])], "--sstable-version", "me")
    shutil.copy(component(second, "Index.db"), component(first, "Index.db"))
    forget(first, "Scylla.db")
    result = run("validate", "--schema-file", tmp_path / "a" / "schema.cql", first)
    assert '"valid":false' in result.out
    assert "index is at EOF, but data file has more data" in result.err


def test_rows_out_of_order_are_written_where_that_is_wanted(tmp_path):
    partitions = [partition(5, [row(2), row(1), row(3)])]
    with pytest.raises(AssertionError):
        write(tmp_path / "a", PLAIN, partitions)
    for level in ("none", "partition_key"):
        data = write(tmp_path / level, PLAIN, partitions, "--validation-level", level)
        schema = tmp_path / level / "schema.cql"
        assert not one("validate", "--schema-file", schema, data)["valid"]
        out = tmp_path / f"{level}-out"
        out.mkdir()
        result = run("scrub", "--schema-file", schema, "--scrub-mode", "abort",
                     "--output-dir", out, data)
        assert result.code == 2 and "was aborted due to: scrub compaction" in result.err
        assert not list(out.iterdir())
        result = run("scrub", "--schema-file", schema, "--scrub-mode", "segregate",
                     "--output-dir", out, data)
        assert result.code == 0 and len(list(out.glob("*-Data.db"))) == 2
    result = run("scrub", "--schema-file", schema, data)
    assert result.code == 1 and "missing mandatory command-line argument --scrub-mode" in result.err


def test_statements_make_an_sstable_for_each_limit_of_memory(tmp_path):
    schema = tmp_path / "schema.cql"
    schema.write_text("CREATE TABLE ks.tbl (pk int PRIMARY KEY, v text)")
    statements = tmp_path / "input.cql"
    statements.write_text("".join(
        f"INSERT INTO scylla_sstable.tbl (pk, v) VALUES ({pk}, '{'a' * 5000}');" for pk in range(9)))

    def made(*words):
        result = run("write", "--schema-file", schema, "--input-format", "cql", "--input-file",
                     statements, "--output-dir", tmp_path, *words)
        assert result.code == 0, result
        return result.out.split()

    assert len(made()) == 1
    several = made("--memory-limit", "10000")
    assert 3 <= len(several) <= 5
    files = [next(tmp_path.glob(f"*-{generation}-*-Data.db")) for generation in several]
    result = run("query", "--schema-file", schema, "--output-format", "json", *files)
    assert sorted(found["pk"] for found in json.loads(result.out)) == list(range(9))
