"""Files that a node wrote: the tool shows what CQL showed."""
import json
import shutil

import pytest
from node import Node
from tool import of_json, ok, one, run

SIMPLE = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
NETWORK = "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}"
TYPES = {
    "ascii_": ("ascii", "'a'"), "bigint_": ("bigint", "-5"), "blob_": ("blob", "0x00ff"),
    "boolean_": ("boolean", "true"), "date_": ("date", "'2024-02-29'"),
    "decimal_": ("decimal", "1.50"), "double_": ("double", "0.25"),
    "duration_": ("duration", "1h30m"), "float_": ("float", "0.5"),
    "inet_": ("inet", "'127.0.0.1'"), "int_": ("int", "7"), "smallint_": ("smallint", "-3"),
    "text_": ("text", "'it''s'"), "time_": ("time", "'08:12:54.123'"),
    "timestamp_": ("timestamp", "'2011-03-02 04:05:06.789+0000'"),
    "timeuuid_": ("timeuuid", "50554d6e-29bb-11e5-b345-feff819cdc9f"),
    "tinyint_": ("tinyint", "1"), "uuid_": ("uuid", "123e4567-e89b-12d3-a456-426655440000"),
    "varint_": ("varint", "123456789012345678901234567890"),
    "list_": ("list<int>", "[3, 1]"), "set_": ("set<text>", "{'a', 'b'}"),
    "map_": ("map<text, int>", "{'k': 1}"), "frozen_": ("frozen<list<text>>", "['x']"),
    "tuple_": ("tuple<int, text>", "(1, 'a')"), "udt_": ("u", "{a: 1, b: 'x'}"),
    "frozen_udt_": ("frozen<u>", "{a: 2}"), "vector_": ("vector<float, 2>", "[0.5, 1.5]"),
}

VIEWED = """CREATE TABLE k.viewed (p int PRIMARY KEY, v text, w text);
    CREATE MATERIALIZED VIEW k.of_v AS SELECT p FROM k.viewed WHERE p IS NOT NULL PRIMARY KEY (p);
    CREATE INDEX by_v ON k.viewed (v)"""


@pytest.fixture(scope="module")
def stopped():
    """A node that wrote some tables and was stopped, and what CQL said of them."""
    with Node("--smp", "1") as node:
        session = node.connect()
        session.execute(f"CREATE KEYSPACE k WITH replication = {SIMPLE}")
        session.execute("CREATE TYPE k.u (a int, b text)")
        columns = ", ".join(f"{name} {ty}" for name, (ty, _) in TYPES.items())
        session.execute(f"CREATE TABLE k.types (p int PRIMARY KEY, {columns})")
        names, literals = ", ".join(TYPES), ", ".join(literal for _, literal in TYPES.values())
        session.execute(f"INSERT INTO k.types (p, {names}) VALUES (1, {literals})")
        session.execute("INSERT INTO k.types (p) VALUES (2)")
        session.execute("CREATE TABLE k.rows (p int, c int, s int STATIC, v int, "
                        "PRIMARY KEY (p, c))")
        for p in range(5):
            session.execute(f"UPDATE k.rows SET s = {p} WHERE p = {p}")
            for c in range(10):
                session.execute(f"INSERT INTO k.rows (p, c, v) VALUES ({p}, {c}, {p * c})")
            session.execute(f"DELETE FROM k.rows WHERE p = {p} AND c > 2 AND c <= 4")
            session.execute(f"DELETE v FROM k.rows WHERE p = {p} AND c = 6")
            session.execute(f"UPDATE k.rows USING TTL 100000 SET v = 1 WHERE p = {p} AND c = 7")
        session.execute("DELETE FROM k.rows WHERE p = 4")
        session.execute("CREATE TABLE k.counts (p int PRIMARY KEY, v counter)")
        for p in range(3):
            session.execute(f"UPDATE k.counts SET v = v + {p} WHERE p = {p}")
        session.execute(f"CREATE KEYSPACE tabled WITH replication = {NETWORK} "
                        "AND tablets = {'initial': 4}")
        session.execute("CREATE TABLE tabled.tablets (p int PRIMARY KEY)")
        for p in range(5):
            session.execute(f"INSERT INTO tabled.tablets (p) VALUES ({p})")
        session.execute("CREATE TABLE k.dropped (p int PRIMARY KEY, v int, w int)")
        session.execute("INSERT INTO k.dropped (p, v, w) VALUES (1, 2, 3)")
        session.execute("ALTER TABLE k.dropped DROP v")
        for statement in VIEWED.split(";"):
            session.execute(statement)
        session.execute("INSERT INTO k.viewed (p, v, w) VALUES (1, 'a', 'b')")
        session.execute("INSERT INTO k.viewed (p, v) VALUES (2, 'a')")
        said = {table: [json.loads(row[0]) for row in session.execute(
            f"SELECT JSON * FROM k.{table}")] for table in ("types", "rows", "counts", "dropped")}
        node.disconnect()
        assert node.stop() == 0
        yield node, said


def folder(node, table, keyspace="k"):
    (found,) = [path for path in (node.workdir / "data").rglob(f"{table}-*")
                if path.is_dir() and path.parent.name == keyspace]
    return found


def sorted_rows(rows):
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def test_shards_of_tablets(stopped):
    node, _ = stopped
    for found in of_json("shard-of", "--tablets", folder(node, "tablets", "tabled")).values():
        (replica,) = found
        assert replica["shard"] == 0 and len(replica["host"]) == 36
    result = run("shard-of", "--tablets", folder(node, "rows"))
    assert result.code == 2 and "no tablets" in result.err, result


# In the order of dump-data, of the fields that it has.
DUMP = """
local w, elements = Scylla.new_json_writer(), false
local function key(of)
    w:start_object()
    if of.token then w:key("token") w:string(tostring(of.token)) end
    w:key("raw") w:string(of.key:to_hex())
    w:key("value") w:string(tostring(of.key))
    w:end_object()
end
local function tombstone(of)
    w:start_object()
    if of then
        w:key("timestamp") w:int(of.timestamp)
        w:key("deletion_time") w:string(tostring(of.deletion_time))
    end
    w:end_object()
end
local function life(of)
    if of.is_live and of.has_ttl then
        w:key("ttl") w:string(string.format("%ds", of.ttl))
        w:key("expiry") w:string(tostring(of.expiry))
    elseif not of.is_live then
        w:key("deletion_time") w:string(tostring(of.deletion_time))
    end
end
local function cell(of)
    w:start_object()
    w:key("is_live") w:bool(of.is_live)
    w:key("type") w:string(of.type)
    w:key("timestamp") w:int(of.timestamp)
    life(of)
    if of.type == "counter-shards" then
        w:key("value") w:start_array()
        for _, shard in ipairs(of.value.shards) do
            w:start_object()
            w:key("id") w:string(shard.id)
            w:key("value") w:int(shard.value)
            w:key("clock") w:int(shard.clock)
            w:end_object()
        end
        w:end_array()
    elseif of.is_live then
        w:key("value") w:string(tostring(of.value))
    end
    w:end_object()
end
local function cells(of)
    w:start_object()
    for name, one in pairs(of) do
        w:key(name)
        if one.type == "collection" then
            w:start_object()
            if one.tombstone then w:key("tombstone") tombstone(one.tombstone) end
            w:key("cells") w:start_array()
            for _, element in ipairs(one.cells) do
                w:start_object()
                w:key("key") w:string(tostring(element.key))
                w:key("value") cell(element.value)
                w:end_object()
            end
            w:end_array()
            w:end_object()
        else
            cell(one)
        end
    end
    w:end_object()
end
local function element(kind)
    if not elements then w:key("clustering_elements") w:start_array() end
    elements = true
    w:start_object()
    w:key("type") w:string(kind)
end
function consume_stream_start() w:start_object() w:key("sstables") w:start_object() end
function consume_sstable_start(of) w:key(of and of.filename or "anonymous") w:start_array() end
function consume_partition_start(of)
    elements = false
    w:start_object()
    w:key("key") key(of)
    if of.tombstone then w:key("tombstone") tombstone(of.tombstone) end
end
function consume_static_row(of) w:key("static_row") cells(of.cells) end
function consume_clustering_row(of)
    element("clustering-row")
    w:key("key") key(of)
    if of.tombstone then
        w:key("tombstone") tombstone(of.tombstone)
        w:key("shadowable_tombstone") tombstone(of.shadowable_tombstone)
    end
    if of.marker then
        w:key("marker")
        w:start_object()
        w:key("timestamp") w:int(of.marker.timestamp)
        life(of.marker)
        w:end_object()
    end
    w:key("columns") cells(of.cells)
    w:end_object()
end
function consume_range_tombstone_change(of)
    element("range-tombstone-change")
    if of.key then w:key("key") key(of) end
    w:key("weight") w:int(of.key_weight)
    w:key("tombstone") tombstone(of.tombstone)
    w:end_object()
end
function consume_partition_end()
    if elements then w:end_array() end
    w:end_object()
end
function consume_sstable_end() w:end_array() end
function consume_stream_end() w:end_object() w:end_object() end
"""

WHOLE = """
local w = Scylla.new_json_writer()
function consume_stream_start() w:start_stream() end
function consume_sstable_start(of) w:start_sstable(of) end
function consume_partition_start(of) w:start_partition(of) end
function consume_static_row(of) w:static_row(of) end
function consume_clustering_row(of) w:clustering_row(of) end
function consume_range_tombstone_change(of) w:range_tombstone_change(of) end
function consume_partition_end() w:end_partition() end
function consume_sstable_end() w:end_sstable() end
function consume_stream_end() w:end_stream() end
"""


@pytest.mark.parametrize("table", ["types", "rows", "counts"])
@pytest.mark.parametrize("text", [DUMP, WHOLE], ids=["fields", "whole"])
def test_a_script_sees_what_a_dump_shows(stopped, tmp_path, table, text):
    node, _ = stopped
    (tmp_path / "script.lua").write_text(text)
    for merge in ((), ("--merge",)):
        dump = json.loads(ok("dump-data", *merge, folder(node, table)))
        words = ("script", "--script-file", tmp_path / "script.lua", *merge, folder(node, table))
        assert json.loads(ok(*words)) == dump


@pytest.mark.parametrize("table", ["types", "rows", "counts", "dropped"])
def test_a_query_answers_as_the_node_did(stopped, table):
    node, said = stopped
    rows = json.loads(ok("query", "--output-format", "json", folder(node, table)))
    assert sorted_rows(rows) == sorted_rows(said[table])


def test_the_schema_is_found_in_the_data_directory(stopped, tmp_path):
    node, _ = stopped
    text = ok("dump-schema", folder(node, "rows"))
    assert "CREATE TABLE k.rows" in text and "s int static" in text
    assert "CREATE TYPE k.u" in ok("dump-schema", folder(node, "types"))
    copy = tmp_path / "copy"
    shutil.copytree(folder(node, "rows"), copy)
    data_dir = folder(node, "rows").parent.parent
    named = ("--schema-tables", "--scylla-data-dir", data_dir, "--keyspace", "k", "--table", "rows")
    assert list(of_json("dump-data", *named, copy).values()) == \
        list(of_json("dump-data", folder(node, "rows")).values())
    (tmp_path / "scylla.yaml").write_text(f"data_file_directories: ['{data_dir}']\n")
    assert "CREATE TABLE k.rows" in ok(
        "dump-schema", "--schema-tables", "--scylla-yaml-file", tmp_path / "scylla.yaml",
        "--keyspace", "k", "--table", "rows")
    missing = run("dump-data", "--schema-tables", "--scylla-data-dir", data_dir, "--keyspace", "k",
                  "--table", "nothing", copy)
    assert missing.code == 1 and "Failed to find k.nothing in schema tables" in missing.err
    system = [path for path in data_dir.glob("system/local-*") if list(path.glob("*-Data.db"))]
    assert "cluster_name" in ok("dump-data", "--system-schema", system[0])


def test_the_schema_of_a_view_is_in_the_file_of_its_table(stopped, tmp_path):
    node, _ = stopped
    table, view, index = VIEWED.split(";")
    for name, keys, more in (("of_v", ["1", "2"], view), ("by_v_index", ["a"], index)):
        dump = one("dump-data", "--merge", folder(node, name))
        assert sorted(partition["key"]["value"] for partition in dump) == keys
        file, copy = tmp_path / f"{name}.cql", tmp_path / name
        shutil.copytree(folder(node, name), copy)
        # The only view of the file, or the one that the directory or the options name.
        file.write_text(f"{table};{more};")
        assert one("dump-data", "--schema-file", file, "--merge", copy) == dump
        file.write_text(VIEWED)
        assert one("dump-data", "--schema-file", file, "--merge", folder(node, name)) == dump
        open_ = run("dump-data", "--schema-file", file, "--merge", copy)
        assert open_.code == 1 and "it has several tables; give --keyspace" in open_.err, open_
        assert one("dump-data", "--schema-file", file, "--keyspace", "k", "--table", name,
                   "--merge", copy) == dump
    assert "CREATE MATERIALIZED VIEW k.of_v AS\n    SELECT p\n" in ok(
        "dump-schema", folder(node, "of_v"), "--schema-file", file)


def test_dumps_have_what_was_deleted(stopped):
    node, _ = stopped
    dump = one("dump-data", "--merge", folder(node, "rows"))
    by_key = {it["key"]["value"]: it for it in dump}
    assert len(by_key) == 5 and "tombstone" in by_key["4"] and "tombstone" not in by_key["3"]
    three = by_key["3"]
    assert three["static_row"]["s"]["value"] == "3"
    changes = [it for it in three["clustering_elements"] if it["type"] != "clustering-row"]
    assert [(it["key"]["value"], it["weight"]) for it in changes] == [("2", 1), ("4", 1)]
    assert changes[0]["tombstone"]["timestamp"] and changes[1]["tombstone"] == {}
    rows = {it["key"]["value"]: it for it in three["clustering_elements"] if "columns" in it}
    assert rows["6"]["columns"]["v"]["is_live"] is False
    assert rows["7"]["columns"]["v"]["ttl"] == "100000s"
    # What a tombstone covers stays until a compaction.
    assert set(rows) == {str(c) for c in range(10)}


def test_a_dump_can_be_written_again(stopped, tmp_path):
    node, said = stopped
    for table in ("types", "rows", "counts"):
        out = tmp_path / table
        out.mkdir()
        dump = ok("dump-data", "--merge", folder(node, table))
        (out / "in.json").write_text(dump)
        (out / "schema.cql").write_text(ok("dump-schema", folder(node, table)))
        ok("write", "--schema-file", out / "schema.cql", "--input-file", out / "in.json",
           "--output-dir", out)
        (copy,) = out.glob("*-Data.db")
        assert one("dump-data", "--merge", copy) == json.loads(dump)["sstables"]["anonymous"]
        rows = json.loads(ok("query", "--output-format", "json", "--schema-file",
                             out / "schema.cql", copy))
        assert sorted_rows(rows) == sorted_rows(said[table])


def test_dropped_columns_are_masked(stopped, tmp_path):
    node, _ = stopped
    text = ok("dump-data", folder(node, "dropped"))
    assert '"w"' in text and '"v"' not in text
    (tmp_path / "schema.cql").write_text(
        "CREATE TABLE k.dropped (p int PRIMARY KEY, v int, w int);"
        "ALTER TABLE k.dropped DROP v USING TIMESTAMP 4000000000000000;")
    text = ok("dump-data", "--schema-file", tmp_path / "schema.cql", folder(node, "dropped"))
    assert '"w"' in text and '"v"' not in text


def test_all_that_a_node_wrote_is_valid(stopped):
    node, _ = stopped
    data_dir = folder(node, "rows").parent.parent
    folders = {path.parent for path in data_dir.rglob("*-Data.db")}
    assert len(folders) > 6
    for path in folders:
        for verdict in of_json("validate", "--sstable-schema", path).values():
            assert verdict == {"errors": 0, "valid": True}, path
        for verdict in of_json("validate-checksums", "--sstable-schema", path).values():
            assert verdict["valid"], path
