//! Facts: rows of `system.scylla_local`, a name and a text each, among them the version of the
//! schema, which `system.local` shows, too. Pure.

use crate::rows::Row;
use crate::rows::partition::{PartitionWriter, text, uuid};
use crate::schema::Schema;
use model::Uuid;
use mutation::FrozenMutation;

/// The key of the only row of `system.local`.
pub const LOCAL_KEY: &[u8] = b"local";
/// The fact of the schema's version.
const SCHEMA_VERSION: &str = "group0_schema_version";
/// The fact of when roles, grants or service levels changed last, microseconds.
pub const ACCESS_CHANGED_AT: &str = "nereid_access_changed_at";
/// The fact that the service level of drivers was made once.
pub const DRIVER_LEVEL_MADE: &str = "service_level_driver_created";
/// The fact of which features the cluster has.
pub const ENABLED_FEATURES: &str = "enabled_features";
/// The fact of which system tables `system_schema` shows: their digest.
pub const SYSTEM_TABLES_SHOWN: &str = "nereid_system_tables";

/// The row of a fact.
pub fn fact<L>(schema: &Schema<L>, key: &str, value: &str, timestamp: i64) -> FrozenMutation {
    assert!(!key.is_empty(), "a fact without a name: {value}");
    let table = &schema.table("system", "scylla_local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(table, &[key.as_bytes()], timestamp);
    partition.row(&[], vec![("value", text(value))]);
    partition.freeze()
}

/// The value of a fact; empty where there is none.
pub fn find(rows: &[Row], key: &str) -> String {
    let row = rows.iter().find(|row| row.get("key").is_some_and(|it| it == key.as_bytes()));
    let value = row.and_then(|row| row.get("value"));
    value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

/// The new version of the schema, for both tables.
pub fn version<L>(schema: &Schema<L>, version: Uuid, timestamp: i64) -> [FrozenMutation; 2] {
    assert!(!version.is_nil(), "versions-differ: a schema without a version");
    let local = &schema.table("system", "local").expect("a system table").schema;
    let mut partition = PartitionWriter::new(local, &[LOCAL_KEY], timestamp);
    partition.row(&[], vec![("schema_version", uuid(version))]);
    let version = version.to_string();
    [partition.freeze(), fact(schema, SCHEMA_VERSION, &version, timestamp)]
}
