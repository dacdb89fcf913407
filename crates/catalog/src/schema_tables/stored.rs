//! The rows of the schema's tables as they were read, and checked access to one of them. Every row
//! is foreign.
//!
//! Invariants
//!  - *by-owner*: [`Stored`] has a row under the keyspace and table that its key names, and nowhere
//!    else; rows of one owner are in clustering order.

use crate::placement::{Hosts, TabletMove};
use crate::rows::{DamagedSchema, Row};
use crate::topology::Stage;
use model::value::collection::{fields, list_elements, map_entries};
use model::{ColumnKind, Uuid};
use std::collections::BTreeMap;

/// The tables of which a schema is loaded; those of `system_schema` but for
/// the last two, whose partitions are tables.
pub const TABLES: [&str; 17] = [
    "keyspaces",
    "scylla_keyspaces",
    "types",
    "functions",
    "aggregates",
    "scylla_aggregates",
    "tables",
    "scylla_tables",
    "columns",
    "nereid_columns",
    "nereid_indexes",
    "views",
    "view_virtual_columns",
    "nereid_views",
    "nereid_logs",
    TABLETS,
    STREAMS,
];

/// Those whose partitions are tables.
pub const PER_TABLE: [&str; 2] = [TABLETS, STREAMS];

const TABLETS: &str = "tablets";
const STREAMS: &str = "nereid_streams";

/// The keyspace of one of [`TABLES`].
pub fn keyspace_of(table: &str) -> &'static str {
    debug_assert!(!table.contains('.'), "the name of a table, without its keyspace: {table}");
    if PER_TABLE.contains(&table) { "system" } else { "system_schema" }
}

/// Keyspace and table, as their rows name them; the table's id in place of both in [`PER_TABLE`].
type Owner = (Vec<u8>, Vec<u8>);

/// The rows of the schema's tables, by table and owner, in clustering order.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    rows: BTreeMap<&'static str, BTreeMap<Owner, Vec<Row>>>,
}

impl Stored {
    /// Adds the rows of one of [`TABLES`].
    pub fn add(&mut self, table: &'static str, rows: Vec<Row>) {
        assert!(TABLES.contains(&table), "by-owner: no schema is loaded from {table}");
        let by_owner = self.rows.entry(table).or_default();
        for row in rows {
            let get = |name: &str| row.get(name).cloned().unwrap_or_default();
            let owner = match table {
                TABLETS | STREAMS => (get("table_id"), Vec::new()),
                "keyspaces" | "scylla_keyspaces" | "types" | "functions" | "aggregates"
                | "scylla_aggregates" => (get("keyspace_name"), Vec::new()),
                "views" | "view_virtual_columns" | "nereid_views" => {
                    (get("keyspace_name"), get("view_name"))
                }
                _ => (get("keyspace_name"), get("table_name")),
            };
            by_owner.entry(owner).or_default().push(row);
        }
    }

    pub(super) fn all(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.rows.get(table).into_iter().flat_map(|owners| owners.values().flatten())
    }

    pub(super) fn of(
        &self,
        table: &'static str,
        owner: &[u8],
        name: &str,
    ) -> impl Iterator<Item = Reader<'_>> {
        debug_assert!(TABLES.contains(&table), "by-owner: rows of {table} are not loaded");
        let owner = (owner.to_vec(), name.as_bytes().to_vec());
        let rows = self.rows.get(table).and_then(|owners| owners.get(&owner));
        rows.into_iter().flatten().map(move |row| Reader { row, table })
    }
}

pub(super) type Read<T> = Result<T, DamagedSchema>;

pub(super) fn damaged(table: &str, what: String) -> DamagedSchema {
    DamagedSchema { table: format!("{}.{table}", keyspace_of(table)), what }
}

/// Checked access to one row.
pub(super) struct Reader<'a> {
    pub(super) row: &'a Row,
    pub(super) table: &'static str,
}

impl Reader<'_> {
    pub(super) fn damaged(&self, what: String) -> DamagedSchema {
        damaged(self.table, what)
    }
    pub(super) fn optional(&self, name: &str) -> Option<&[u8]> {
        self.row.get(name).map(Vec::as_slice)
    }
    fn needed(&self, name: &str) -> Read<&[u8]> {
        self.optional(name).ok_or_else(|| self.damaged(format!("a row without {name}")))
    }
    fn fixed<const N: usize>(&self, name: &str) -> Read<[u8; N]> {
        let bytes = self.needed(name)?;
        let wrong = || self.damaged(format!("{name} has {} bytes instead of {N}", bytes.len()));
        bytes.try_into().map_err(|_| wrong())
    }
    pub(super) fn text(&self, name: &str) -> Read<String> {
        let text = std::str::from_utf8(self.needed(name)?);
        text.map(str::to_owned).map_err(|_| self.damaged(format!("{name} is not UTF-8")))
    }
    pub(super) fn int(&self, name: &str) -> Read<i32> {
        self.fixed(name).map(i32::from_be_bytes)
    }
    pub(super) fn optional_int(&self, name: &str) -> Read<Option<i32>> {
        self.optional(name).map(|_| self.int(name)).transpose()
    }
    pub(super) fn bigint(&self, name: &str) -> Read<i64> {
        self.fixed(name).map(i64::from_be_bytes)
    }
    pub(super) fn double(&self, name: &str) -> Read<f64> {
        self.fixed(name).map(f64::from_be_bytes)
    }
    pub(super) fn uuid(&self, name: &str) -> Read<Uuid> {
        self.fixed(name).map(Uuid::from_bytes)
    }
    pub(super) fn kind(&self) -> Read<ColumnKind> {
        let name = self.text("kind")?;
        let kinds = [
            ColumnKind::PartitionKey,
            ColumnKind::Clustering,
            ColumnKind::Static,
            ColumnKind::Regular,
        ];
        let kind = kinds.into_iter().find(|kind| kind_name(*kind) == name);
        kind.ok_or_else(|| self.damaged(format!("unknown kind of column {name}")))
    }
    pub(super) fn blob_map(&self, name: &str) -> Read<Vec<(String, Vec<u8>)>> {
        let Some(bytes) = self.optional(name) else { return Ok(Vec::new()) };
        let entry = |(key, value): (&[u8], &[u8])| match std::str::from_utf8(key) {
            Ok(key) => Ok((key.to_owned(), value.to_vec())),
            Err(_) => Err(self.damaged(format!("a key of {name} is not UTF-8"))),
        };
        map_entries(bytes).map(entry).collect()
    }
    pub(super) fn map(&self, name: &str) -> Read<Vec<(String, String)>> {
        let entry = |(key, value): (String, Vec<u8>)| match String::from_utf8(value) {
            Ok(value) => Ok((key, value)),
            Err(_) => Err(self.damaged(format!("a value of {name} is not UTF-8"))),
        };
        self.blob_map(name)?.into_iter().map(entry).collect()
    }
    pub(super) fn texts(&self, name: &str) -> Read<Vec<String>> {
        let Some(bytes) = self.optional(name) else { return Ok(Vec::new()) };
        let text = |part| match part {
            Ok(Some(bytes)) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            _ => None,
        };
        let texts: Option<Vec<String>> = list_elements(bytes).map(text).collect();
        texts.ok_or_else(|| self.damaged(format!("{name} is not a list of strings")))
    }
    pub(super) fn blobs(&self, name: &str) -> Read<Vec<&[u8]>> {
        let Some(bytes) = self.optional(name) else { return Ok(Vec::new()) };
        let blobs: Option<Vec<&[u8]>> = list_elements(bytes).map(|part| part.ok()?).collect();
        blobs.ok_or_else(|| self.damaged(format!("{name} is not a list of values")))
    }
    pub(super) fn optional_text(&self, name: &str) -> Read<Option<String>> {
        self.optional(name).map(|_| self.text(name)).transpose()
    }
    pub(super) fn boolean(&self, name: &str) -> bool {
        self.optional(name).is_some_and(|bytes| bytes != [0])
    }
    /// The hosts of a tablet and its shard on each.
    pub(super) fn replicas(&self, name: &str) -> Read<Vec<(Uuid, i32)>> {
        let replica = |tuple: &[u8]| {
            let mut fields = fields(tuple);
            let host = <[u8; 16]>::try_from(fields.next()?.ok()??).ok()?;
            let shard = <[u8; 4]>::try_from(fields.next()?.ok()??).ok()?;
            Some((Uuid::from_bytes(host), i32::from_be_bytes(shard)))
        };
        let tuples = list_elements(self.needed(name)?);
        let replicas = tuples.map(|tuple| replica(tuple.ok()??)).collect::<Option<Vec<_>>>();
        replicas.ok_or_else(|| self.damaged(format!("{name} is not a list of hosts and shards")))
    }
    /// The same, where each host is named once and each shard can be one.
    pub(super) fn checked_replicas(&self, name: &str) -> Read<Hosts> {
        let mut out: Vec<(Uuid, u16)> = Vec::new();
        for (host, shard) in self.replicas(name)? {
            let shard = u16::try_from(shard);
            let shard = shard.map_err(|_| self.damaged("a tablet on no shard".to_owned()))?;
            if out.iter().any(|(known, _)| *known == host) {
                return Err(self.damaged(format!("a tablet is twice on node {host}")));
            }
            out.push((host, shard));
        }
        Ok(out.into_boxed_slice())
    }
    /// Where a tablet goes that is on its way.
    pub(super) fn tablet_move(&self) -> Read<TabletMove> {
        let (to, stage) = (self.checked_replicas("new_replicas")?, self.text("stage")?);
        let stage = Stage::from_name(&stage)
            .ok_or_else(|| self.damaged(format!("a tablet in the stage {stage}")))?;
        let session = u64::try_from(self.uuid("session")?.as_u128());
        let session = session.map_err(|_| self.damaged("a session that is none".to_owned()))?;
        Ok(TabletMove { to, stage, session })
    }
}

/// The kind's name in `system_schema.columns`.
pub(super) fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}
