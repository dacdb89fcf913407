//! The keyspaces and tables of the system itself: `system`, `system_schema`, `system_traces`,
//! `system_distributed`.
//!
//! Invariants
//!  - *same-everywhere*: ids and column ids depend on nothing but the definitions, so every start
//!    of every node gives the same tables. A table's id is the name-based (version 3) UUID of
//!    keyspace and name, as in Cassandra.
//!
//! Where a table's rows live is its [`Home`]: the schema log and shard 0 (what must be there
//! before any user table can be), the data log, or nowhere (virtual).

mod definitions;

use crate::uuids::time_uuid;
use definitions::{DEFINITIONS, TYPES};
use model::schema::{ColumnIndex, TableOptions};
use model::{
    ClusteringOrder, Column, ColumnId, ColumnKind, Keyspace, TableSchema, Type, UserType, Uuid,
};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Where the rows of a system table are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// On shard 0, logged with the schema: replayed before user tables exist.
    SchemaLog,
    /// Logged with user data.
    DataLog,
    /// Computed when read.
    Virtual,
}

/// One system table as text; see [`definitions`].
#[derive(Clone, Copy, Debug)]
struct Definition {
    keyspace: &'static str,
    name: &'static str,
    home: Home,
    /// For how many seconds its deletions are kept at least.
    gc_grace_secs: i32,
    columns: &'static str,
}

/// The system keyspaces, without tables.
pub fn keyspaces() -> Vec<Keyspace> {
    let local: &[(&str, &str)] = &[("class", "org.apache.cassandra.locator.LocalStrategy")];
    let simple = "org.apache.cassandra.locator.SimpleStrategy";
    vec![
        keyspace("system", local),
        keyspace("system_schema", local),
        keyspace("system_virtual_schema", local),
        keyspace("system_traces", &[("class", simple), ("replication_factor", "2")]),
        keyspace("system_distributed", &[("class", simple), ("replication_factor", "3")]),
    ]
}

/// The keyspace that roles were in once: there is none of this name, and none may be.
pub const FORMER_ROLES: &str = "system_auth";

/// The keyspace of the outcomes of transactions, which is there from the first one on. Its
/// replication is the operator's; what is in it is nobody's: without an outcome a transaction that
/// was committed may become half of one.
pub const TRANSACTIONS: &str = "nereid_transactions";

/// The keyspace of what is known of backups, which is there from the first one on. Its replication
/// is the operator's; what is in it is nobody's: a backup that nobody knows of is never removed.
pub const BACKUPS: &str = "nereid_backups";

/// Whether a keyspace is part of the system: not to be altered or dropped.
pub fn is_system_keyspace(name: &str) -> bool {
    matches!(
        name,
        "system"
            | "system_schema"
            | "system_virtual_schema"
            | "system_distributed"
            | "system_traces"
            | FORMER_ROLES
    )
}

/// The user types of the system. Panics where their text is wrong: a test reads all of them.
pub fn types() -> Vec<UserType> {
    let user_type = |(keyspace, name, fields): &(&str, &str, &str)| {
        let field = |text: &str| {
            let (name, ty) = text.trim().split_once(' ').expect("a name and a type");
            let ty = Type::from_cql(ty, &|_| None).unwrap_or_else(|| panic!("type {ty} of {name}"));
            (name.to_owned(), ty)
        };
        let fields: Vec<_> = fields.split(';').map(field).collect();
        assert!(is_system_keyspace(keyspace), "type {name} is of no keyspace of the system");
        UserType { keyspace: keyspace.to_string(), name: name.to_string(), fields }
    };
    TYPES.iter().map(user_type).collect()
}

/// All system tables and where their rows are kept.
pub fn tables() -> Vec<(TableSchema, Home)> {
    let all = DEFINITIONS.iter().map(|definition| (build(definition), definition.home));
    let all: Vec<(TableSchema, Home)> = all.collect();
    let in_system = all.iter().all(|(table, _)| is_system_keyspace(&table.keyspace));
    debug_assert!(in_system, "same-everywhere: a system table of no keyspace of the system");
    all
}

/// One system table. Panics when there is none of that name: names are literals of this program.
pub fn table(keyspace: &str, name: &str) -> TableSchema {
    let named =
        |definition: &&Definition| definition.keyspace == keyspace && definition.name == name;
    match DEFINITIONS.iter().find(named) {
        Some(definition) => build(definition),
        None => panic!("no system table {keyspace}.{name}"),
    }
}

/// Where the rows of the system table of that id are kept; `None` for other tables.
pub fn home(id: Uuid) -> Option<Home> {
    static HOMES: LazyLock<BTreeMap<Uuid, Home>> = LazyLock::new(|| {
        let place = |it: &Definition| (table_id(it.keyspace, it.name), it.home);
        DEFINITIONS.iter().map(place).collect()
    });
    HOMES.get(&id).copied()
}

/// Changes when a definition does.
pub fn digest() -> String {
    use md5::{Digest, Md5};
    let mut digest = Md5::new();
    for (keyspace, name, fields) in TYPES {
        for part in [keyspace, name, fields] {
            digest.update(part);
            digest.update([0]);
        }
    }
    for definition in DEFINITIONS {
        for part in [definition.keyspace, definition.name, definition.columns] {
            digest.update(part);
            digest.update([0]);
        }
        digest.update(definition.gc_grace_secs.to_be_bytes());
    }
    uuid_v3(digest.finalize().into()).to_string()
}

/// The id of a system table: UUID version 3 of keyspace and name.
pub fn table_id(keyspace: &str, name: &str) -> Uuid {
    use md5::{Digest, Md5};
    let digest = Md5::new().chain_update(keyspace).chain_update(name).finalize();
    uuid_v3(digest.into())
}

/// Stamps variant and version 3 on a hash.
pub fn uuid_v3(mut bytes: [u8; 16]) -> Uuid {
    bytes[6] = (bytes[6] & 0x0f) | 0x30;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    Uuid::from_bytes(bytes)
}

fn keyspace(name: &str, replication: &[(&str, &str)]) -> Keyspace {
    Keyspace {
        name: name.to_owned(),
        replication: pairs(replication),
        durable_writes: true,
        previous: None,
        initial_tablets: None,
        storage: Vec::new(),
    }
}

fn pairs(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Reads a definition's text. Panics where the text is wrong: a test reads all of them.
fn build(definition: &Definition) -> TableSchema {
    let mut columns: Vec<Column> = Vec::new();
    let of_keyspace = |user: &UserType| user.keyspace == definition.keyspace;
    let user = |name: &str| types().into_iter().find(|user| of_keyspace(user) && user.name == name);
    for (index, text) in definition.columns.split(';').enumerate() {
        let mut words = text.split_whitespace();
        let (Some(name), Some(ty)) = (words.next(), words.next()) else {
            panic!("column {index} of {}.{}", definition.keyspace, definition.name);
        };
        let (kind, reversed) = match words.next() {
            Some("p") => (ColumnKind::PartitionKey, false),
            Some("c") => (ColumnKind::Clustering, false),
            Some("d") => (ColumnKind::Clustering, true),
            Some("s") => (ColumnKind::Static, false),
            None => (ColumnKind::Regular, false),
            Some(other) => panic!("role {other} of {}.{name}", definition.name),
        };
        let ty = Type::from_cql(ty, &user).unwrap_or_else(|| panic!("type {ty} of {name}"));
        let id = ColumnId(index as u32);
        columns.push(Column { id, name: name.to_owned(), kind, position: 0, ty, reversed });
    }
    let id = table_id(definition.keyspace, definition.name);
    let next_column_id = columns.len() as u32;
    let is_key = |column: &Column| column.kind == ColumnKind::PartitionKey;
    assert!(columns.iter().any(is_key), "{} has no partition key", definition.name);
    arrange(TableSchema {
        id,
        version: time_uuid(0, id.as_u64_pair().1),
        keyspace: definition.keyspace.to_owned(),
        name: definition.name.to_owned(),
        columns,
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id,
        dropped: Vec::new(),
        options: options(definition.gc_grace_secs),
        compact_storage: false,
        view: None,
        log: None,
        indexes: Vec::new(),
        order: ClusteringOrder { columns: Vec::new() },
        index: Default::default(),
    })
}

/// Puts the columns of a table in order (keys as they stand, others by name) and derives what
/// follows from them: positions, counts, clustering order.
pub fn arrange(mut table: TableSchema) -> TableSchema {
    table.columns.sort_by(|a, b| {
        let names = if a.kind < ColumnKind::Static {
            std::cmp::Ordering::Equal
        } else {
            a.name.as_bytes().cmp(b.name.as_bytes())
        };
        a.kind.cmp(&b.kind).then(names)
    });
    let count = |kind| table.columns.iter().filter(|column| column.kind == kind).count();
    let counts =
        [count(ColumnKind::PartitionKey), count(ColumnKind::Clustering), count(ColumnKind::Static)];
    [table.partition_key_count, table.clustering_count, table.static_count] = counts;
    let starts = [0, counts[0], counts[0] + counts[1], counts.iter().sum()];
    debug_assert!(starts[3] <= table.columns.len(), "arranged: {counts:?} of fewer columns");
    for (index, column) in table.columns.iter_mut().enumerate() {
        column.position = (index - starts[column.kind as usize]) as u16;
    }
    let order = table.clustering().iter().map(|column| (column.ty.clone(), column.reversed));
    table.order = ClusteringOrder { columns: order.collect() };
    table.index = ColumnIndex::of(&table.columns);
    table
}

/// The options of a system table.
fn options(gc_grace_seconds: i32) -> TableOptions {
    assert!(0 <= gc_grace_seconds, "a deletion is kept for {gc_grace_seconds} seconds");
    TableOptions {
        comment: String::new(),
        gc_grace_seconds,
        bloom_filter_fp_chance: 0.01,
        default_time_to_live: 0,
        compaction: pairs(&[("class", "SizeTieredCompactionStrategy")]),
        compression: pairs(&[(
            "sstable_compression",
            "org.apache.cassandra.io.compress.LZ4Compressor",
        )]),
        caching: pairs(&[("keys", "ALL"), ("rows_per_partition", "ALL")]),
        speculative_retry: "99.0PERCENTILE".to_owned(),
        crc_check_chance: 1.0,
        min_index_interval: 128,
        max_index_interval: 2048,
        memtable_flush_period_in_ms: 0,
        read_repair_chance: 0.0,
        dclocal_read_repair_chance: 0.0,
        extensions: Vec::new(),
        tombstone_gc: Vec::new(),
        cdc: Vec::new(),
        per_partition_rate_limit: Vec::new(),
        paxos_grace_seconds: None,
        tablets: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_a_table() {
        let tables = tables();
        let names = keyspaces();
        for (table, _) in &tables {
            assert!(0 < table.partition_key_count, "{}", table.name);
            assert!(names.iter().any(|keyspace| keyspace.name == table.keyspace));
            let same = |(other, _): &&(TableSchema, Home)| other.id == table.id;
            assert_eq!(tables.iter().filter(same).count(), 1, "{}", table.name);
            let ids: std::collections::BTreeSet<_> =
                table.columns.iter().map(|column| column.id).collect();
            assert_eq!(ids.len(), table.columns.len());
        }
    }

    #[test]
    fn ids_are_those_of_cassandra() {
        let check = |keyspace, name, id: &str| {
            assert_eq!(table_id(keyspace, name).to_string(), id);
        };
        check("system", "local", "7ad54392-bcdd-35a6-8417-4e047860b377");
        check("system", "peers", "37f71aca-7dc2-383b-a706-72528af04d4f");
        check("system_schema", "keyspaces", "abac5682-dea6-31c5-b535-b3d6cffd0fb6");
    }

    #[test]
    fn keys_keep_their_order_and_others_go_by_name() {
        let table = table("system", "tablets");
        assert_eq!(table.partition_key()[0].name, "table_id");
        assert_eq!(table.clustering()[0].name, "last_token");
        let statics: Vec<_> = table.statics().iter().map(|column| column.name.as_str()).collect();
        assert!(statics.is_sorted() && statics.contains(&"tablet_count"));
        assert_eq!(table.regulars()[0].position, 0);
        assert!(super::table("system", "group0_history").clustering()[0].reversed);
    }

    #[test]
    fn deletions_of_the_log_of_the_group_need_not_be_kept() {
        let grace = |name| table("system", name).options.gc_grace_seconds;
        let of_raft = ["raft", "raft_snapshots", "raft_snapshot_config"].map(grace);
        assert_eq!((of_raft, grace("local")), ([0; 3], 604_800));
    }
}
