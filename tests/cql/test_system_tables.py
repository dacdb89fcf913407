"""What drivers and people look up about the server."""
import re
import uuid

import pytest
from cassandra import InvalidRequest


def test_local(db, node):
    row = db.run("SELECT * FROM system.local WHERE key = 'local'").one()
    assert row.key == "local" and row.bootstrapped == "COMPLETED"
    assert re.fullmatch(r"\d+\.\d+\.\d+", row.release_version) and row.cql_version == "3.3.1"
    assert row.partitioner == "org.apache.cassandra.dht.Murmur3Partitioner"
    assert isinstance(row.host_id, uuid.UUID) and isinstance(row.schema_version, uuid.UUID)
    assert row.rpc_address == node.address and row.tokens
    assert row.cluster_name and row.data_center and row.rack
    assert (row.rpc_port, row.listen_port, row.broadcast_port) == (node.port, 7000, 7000)


def test_peers(db):
    assert db.rows("SELECT * FROM system.peers") == []
    columns = db.run("SELECT * FROM system.peers_v2").column_names
    assert set(columns) == {
        "peer", "peer_port", "data_center", "host_id", "native_address", "native_port",
        "preferred_ip", "preferred_port", "rack", "release_version", "schema_version", "tokens"}
    assert db.rows("SELECT * FROM system.peers_v2") == []


@pytest.mark.parametrize("table, columns", [
    ("keyspaces", "keyspace_name, durable_writes, replication"),
    ("tables", "keyspace_name, table_name, id, comment, compaction, compression, caching"),
    ("columns", "keyspace_name, table_name, column_name, clustering_order, kind, position, type"),
    ("types", "keyspace_name, type_name, field_names, field_types"),
    ("views", "keyspace_name, view_name, base_table_name"),
    ("indexes", "keyspace_name, table_name, index_name, kind, options"),
    ("functions", "keyspace_name, function_name, argument_types, body"),
    ("aggregates", "keyspace_name, aggregate_name, argument_types, state_func"),
    ("triggers", "keyspace_name, table_name, trigger_name"),
    ("dropped_columns", "keyspace_name, table_name, column_name, type"),
    ("scylla_tables", "keyspace_name, table_name"),
    ("scylla_keyspaces", "keyspace_name"),
])
def test_schema_tables(db, table, columns):
    db.rows(f"SELECT {columns} FROM system_schema.{table}")
    db.rows(f"SELECT * FROM system_schema.{table} WHERE keyspace_name = %s", db.keyspace)


def test_a_table_describes_itself(db):
    t = db.table("a int, b text, c int, d int static, v map<int, text>, "
                 "PRIMARY KEY ((a, b), c)", "WITH CLUSTERING ORDER BY (c DESC)")
    keyspace, name = t.split(".")
    rows = db.rows("SELECT column_name, kind, position, clustering_order, type FROM "
                   "system_schema.columns WHERE keyspace_name = %s AND table_name = %s",
                   keyspace, name)
    assert sorted(rows) == [
        ("a", "partition_key", 0, "none", "int"), ("b", "partition_key", 1, "none", "text"),
        ("c", "clustering", 0, "desc", "int"), ("d", "static", -1, "none", "int"),
        ("v", "regular", -1, "none", "map<int, text>")]


def test_the_system_describes_itself(db):
    tables = set(db.column("SELECT table_name FROM system_schema.tables "
                           "WHERE keyspace_name = 'system'"))
    assert {"local", "peers"} <= tables
    tables = set(db.column("SELECT table_name FROM system_schema.tables "
                           "WHERE keyspace_name = 'system_schema'"))
    assert {"keyspaces", "tables", "columns", "types"} <= tables


def test_virtual_tables(db):
    names = dict(db.rows("SELECT name, value FROM system.config"))
    assert "native_transport_port" in names or "cluster_name" in names
    assert db.rows("SELECT * FROM system.versions")
    clients = db.rows("SELECT address, port, client_type, driver_name FROM system.clients")
    assert clients and any("Python" in str(row[3]) for row in clients)


def test_dropped_tables_do_not_end_a_page(db):
    limit = db.one("SELECT value FROM system.config WHERE name = 'query_tombstone_page_limit'")
    change = db.session.prepare(
        "UPDATE system.config SET value = ? WHERE name = 'query_tombstone_page_limit'")
    db.session.execute(change, ["3"])
    try:
        dropped = [db.table("a int PRIMARY KEY") for _ in range(8)]
        last = db.table("a int PRIMARY KEY")
        for t in dropped:
            db.run(f"DROP TABLE {t}")
        keyspace, name = last.split(".")
        for where in [f"keyspace_name = '{keyspace}'", f"table_name = '{name}' ALLOW FILTERING"]:
            first = db.pages(f"SELECT table_name FROM system_schema.tables WHERE {where}", 5000)[0]
            assert (name,) in first, where
    finally:
        db.session.execute(change, [limit])


@pytest.mark.parametrize("text", [
    "INSERT INTO system_schema.keyspaces (keyspace_name) VALUES ('x')",
    "DELETE FROM system.local WHERE key = 'local'",
    "TRUNCATE system_schema.tables", "DROP KEYSPACE system_schema",
    "CREATE TABLE system.mine (a int PRIMARY KEY)",
])
def test_the_system_is_not_for_users_to_change(db, text):
    with pytest.raises(Exception) as caught:
        db.run(text)
    assert isinstance(caught.value, InvalidRequest) or "Unauthorized" in str(type(caught.value))
    assert db.one("SELECT key FROM system.local") == "local"


def test_what_is_known_of_a_truncation_goes_with_its_table(db):
    t = db.table("a int PRIMARY KEY")
    name = t.partition(".")[2]
    table = db.one(f"SELECT id FROM system_schema.tables WHERE keyspace_name = '{db.keyspace}' "
                   f"AND table_name = '{name}'")
    db.run(f"INSERT INTO {t} (a) VALUES (1)")
    db.run(f"TRUNCATE {t}")
    known = f"SELECT truncated_at FROM system.truncated WHERE table_uuid = {table}"
    assert db.rows(known)
    db.run(f"DROP TABLE {t}")
    assert db.rows(known) == []


def test_schema_events_reach_other_clients(node, db):
    session = node.connect()
    t = db.table("a int PRIMARY KEY")
    keyspace, name = t.split(".")
    cluster = session.cluster
    cluster.refresh_schema_metadata()
    assert name in cluster.metadata.keyspaces[keyspace].tables
    assert cluster.control_connection.wait_for_schema_agreement()
