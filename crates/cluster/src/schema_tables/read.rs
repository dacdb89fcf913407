//! The schema from the rows of its tables. Pure; every row is foreign.

use super::functions;
use super::racks;
use super::write::kind_name;
use crate::schema::{Schema, TableKind, normalize_table};
use crate::tablets;
use model::schema::{DroppedColumn, TableOptions};
use model::value::collection::{fields, list_elements, map_entries};
use model::{ClusteringOrder, Column, ColumnId, ColumnKind, Keyspace, TableSchema, TabletMap};
use model::{Token, Type, UserType, Uuid};
use std::collections::BTreeMap;

/// A row's values by column name, keys among them; nulls are missing.
pub(crate) type Row = BTreeMap<String, Vec<u8>>;

/// The tables that [`load`] reads; those of `system_schema` but for the last one.
pub(crate) const TABLES: [&str; 11] = [
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
    "tablets",
];

/// The keyspace of one of [`TABLES`].
pub(crate) fn keyspace_of(table: &str) -> &'static str {
    if table == "tablets" { "system" } else { "system_schema" }
}

/// Keyspace and table, as their rows name them; the table's id in place of both for tablets.
type Owner = (Vec<u8>, Vec<u8>);

/// The rows of the schema's tables, by table and owner, in clustering order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    rows: BTreeMap<&'static str, BTreeMap<Owner, Vec<Row>>>,
}

impl Stored {
    /// Adds the rows of one of [`TABLES`].
    pub(crate) fn add(&mut self, table: &'static str, rows: Vec<Row>) {
        let by_owner = self.rows.entry(table).or_default();
        for row in rows {
            let get = |name: &str| row.get(name).cloned().unwrap_or_default();
            let owner = match table {
                "tablets" => (get("table_id"), Vec::new()),
                "keyspaces" | "scylla_keyspaces" | "types" | "functions" | "aggregates"
                | "scylla_aggregates" => (get("keyspace_name"), Vec::new()),
                _ => (get("keyspace_name"), get("table_name")),
            };
            by_owner.entry(owner).or_default().push(row);
        }
    }

    fn all(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.rows.get(table).into_iter().flat_map(|owners| owners.values().flatten())
    }

    pub(super) fn of(
        &self,
        table: &'static str,
        owner: &[u8],
        name: &str,
    ) -> impl Iterator<Item = Reader<'_>> {
        let owner = (owner.to_vec(), name.as_bytes().to_vec());
        let rows = self.rows.get(table).and_then(|owners| owners.get(&owner));
        rows.into_iter().flatten().map(move |row| Reader { row, table })
    }
}

/// A row that is not what it should be: of which table, and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSchema {
    pub table: String,
    pub what: String,
}

impl std::fmt::Display for DamagedSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is damaged: {}", self.table, self.what)
    }
}

pub(super) type Read<T> = Result<T, DamagedSchema>;

/// Adds the stored user keyspaces, with types and tables, to `schema`.
pub(crate) fn load(schema: &mut Schema, stored: &Stored, shards: u16) -> Read<()> {
    for row in stored.all("keyspaces") {
        let row = Reader { row, table: "keyspaces" };
        let name = row.text("keyspace_name")?;
        if Schema::is_system(&name) {
            continue;
        }
        let mut keyspace = read_keyspace(&row, &name)?;
        if let Some(row) = stored.of("scylla_keyspaces", name.as_bytes(), "").next() {
            keyspace.initial_tablets = row.optional_int("initial_tablets")?.map(|n| n as u32);
            keyspace.storage = row.map("storage_options")?;
        }
        crate::Replication::parse(&keyspace.replication)
            .map_err(|reason| row.damaged(format!("keyspace {name}: {reason}")))?;
        schema.insert_keyspace(keyspace);
        load_types(schema, stored, &name)?;
        functions::load(schema, stored, &name)?;
    }
    for row in stored.all("tables") {
        let row = Reader { row, table: "tables" };
        let keyspace = row.text("keyspace_name")?;
        if Schema::is_system(&keyspace) {
            continue;
        }
        let Some(entry) = schema.keyspace(&keyspace) else {
            return Err(row.damaged(format!("a table of keyspace {keyspace}, which is missing")));
        };
        let table = read_table(schema, stored, &row, &keyspace)?;
        let map = match read_tablets(stored, table.id)? {
            Some(map) => tablets::adapt(map, shards),
            None => tablets::map_for(&entry.keyspace, shards),
        };
        schema.insert_table(table, map, TableKind::Stored);
    }
    Ok(())
}

fn read_keyspace(row: &Reader<'_>, name: &str) -> Read<Keyspace> {
    Ok(Keyspace {
        name: name.to_owned(),
        replication: match row.optional("replication_v2") {
            Some(_) => racks::gathered(row.map("replication_v2")?),
            None => row.map("replication")?,
        },
        durable_writes: row.optional("durable_writes").is_none_or(|bytes| bytes != [0]),
        initial_tablets: None,
        storage: Vec::new(),
    })
}

/// Types may mention each other in any order, but not in circles.
fn load_types(schema: &mut Schema, stored: &Stored, keyspace: &str) -> Read<()> {
    let mut texts = BTreeMap::new();
    for row in stored.of("types", keyspace.as_bytes(), "") {
        let name = row.text("type_name")?;
        let fields: Vec<_> =
            row.texts("field_names")?.into_iter().zip(row.texts("field_types")?).collect();
        texts.insert(name, fields);
    }
    for name in texts.keys() {
        let Some(user) = resolve(&texts, keyspace, name, texts.len()) else {
            let what = format!("type {keyspace}.{name} has a field of an unknown type");
            return Err(damaged("types", what));
        };
        schema.insert_type(user);
    }
    Ok(())
}

/// The type `name` with those it mentions, at most `depth_left` deep.
pub(super) fn resolve(
    texts: &BTreeMap<String, Vec<(String, String)>>,
    keyspace: &str,
    name: &str,
    depth_left: usize,
) -> Option<UserType> {
    let depth_left = depth_left.checked_sub(1)?;
    let inner = |name: &str| resolve(texts, keyspace, name, depth_left);
    let field = |(name, ty): &(String, String)| Some((name.clone(), Type::from_cql(ty, &inner)?));
    let fields: Option<Vec<_>> = texts.get(name)?.iter().map(field).collect();
    Some(UserType { keyspace: keyspace.to_owned(), name: name.to_owned(), fields: fields? })
}

fn read_table(
    schema: &Schema,
    stored: &Stored,
    row: &Reader<'_>,
    keyspace: &str,
) -> Read<TableSchema> {
    let name = row.text("table_name")?;
    let mut options = read_options(row)?;
    let of_table = |table| stored.of(table, keyspace.as_bytes(), &name);
    let mut version = None;
    if let Some(row) = of_table("scylla_tables").next() {
        options.cdc = row.map("cdc")?;
        options.paxos_grace_seconds = row.optional_int("paxos_grace_seconds")?;
        options.per_partition_rate_limit = row.map("per_partition_rate_limit")?;
        options.tablets = row.map("tablets")?;
        options.tombstone_gc = row.map("tombstone_gc")?;
        version = row.optional("version").map(|_| row.uuid("version")).transpose()?;
    }
    let flags = row.texts("flags")?;
    let is = |flag: &str| flags.iter().any(|it| it == flag);
    let id = row.uuid("id")?;
    let mut table = TableSchema {
        id,
        version: version.unwrap_or(id),
        keyspace: keyspace.to_owned(),
        name: name.clone(),
        columns: Vec::new(),
        partition_key_count: 0,
        clustering_count: 0,
        static_count: 0,
        next_column_id: 0,
        dropped: Vec::new(),
        options,
        compact_storage: is("dense") || !is("compound"),
        order: ClusteringOrder { columns: Vec::new() },
        index: Default::default(),
    };
    for row in of_table("nereid_columns") {
        read_column_id(schema, &row, &mut table)?;
    }
    for row in of_table("columns") {
        read_column_shape(&row, &mut table)?;
    }
    table.columns.sort_by_key(|column| (column.kind, column.position));
    normalize_table(&mut table);
    if table.partition_key_count == 0 {
        return Err(row.damaged(format!("table {keyspace}.{name} has no partition key")));
    }
    Ok(table)
}

/// Adds a column, dropped or not, that `nereid_columns` names.
fn read_column_id(schema: &Schema, row: &Reader<'_>, table: &mut TableSchema) -> Read<()> {
    let id = ColumnId(row.int("column_id")? as u32);
    let name = row.text("column_name")?;
    let kind = row.kind()?;
    let text = row.text("type")?;
    let resolve = |name: &str| schema.user_type(&table.keyspace, name).map(|user| (**user).clone());
    let Some(ty) = Type::from_cql(&text, &resolve) else {
        let TableSchema { keyspace, name: table, .. } = table;
        return Err(row.damaged(format!("{keyspace}.{table}.{name} has unknown type {text}")));
    };
    table.next_column_id = table.next_column_id.max(id.0.saturating_add(1));
    match row.optional("dropped_at") {
        Some(_) => {
            let dropped_at = row.bigint("dropped_at")?;
            table.dropped.push(DroppedColumn { id, name, ty, kind, dropped_at });
        }
        None => {
            table.columns.push(Column { id, name, kind, position: 0, ty, reversed: false });
        }
    }
    Ok(())
}

/// Position and order, from `columns`.
fn read_column_shape(row: &Reader<'_>, table: &mut TableSchema) -> Read<()> {
    let name = row.text("column_name")?;
    let Some(column) = table.columns.iter_mut().find(|column| column.name == name) else {
        return Err(row.damaged(format!("{}.{}.{name} has no id", table.keyspace, table.name)));
    };
    column.position = u16::try_from(row.int("position")?).unwrap_or(0);
    column.reversed = row.text("clustering_order")? == "desc";
    Ok(())
}

fn read_options(row: &Reader<'_>) -> Read<TableOptions> {
    Ok(TableOptions {
        comment: row.text("comment")?,
        gc_grace_seconds: row.int("gc_grace_seconds")?,
        bloom_filter_fp_chance: row.double("bloom_filter_fp_chance")?,
        default_time_to_live: row.int("default_time_to_live")?,
        compaction: row.map("compaction")?,
        compression: row.map("compression")?,
        caching: row.map("caching")?,
        speculative_retry: row.text("speculative_retry")?,
        crc_check_chance: row.double("crc_check_chance")?,
        min_index_interval: row.int("min_index_interval")?,
        max_index_interval: row.int("max_index_interval")?,
        memtable_flush_period_in_ms: row.int("memtable_flush_period_in_ms")?,
        read_repair_chance: row.double("read_repair_chance")?,
        dclocal_read_repair_chance: row.double("dclocal_read_repair_chance")?,
        extensions: row.blob_map("extensions")?,
        tombstone_gc: Vec::new(),
        cdc: Vec::new(),
        per_partition_rate_limit: Vec::new(),
        paxos_grace_seconds: None,
        tablets: Vec::new(),
    })
}

/// The stored tablet map of a table; `None` when it has none.
fn read_tablets(stored: &Stored, id: Uuid) -> Read<Option<TabletMap>> {
    let (mut last_tokens, mut shards) = (Vec::new(), Vec::new());
    for row in stored.of("tablets", id.as_bytes(), "") {
        last_tokens.push(Token(row.bigint("last_token")?));
        shards.push(row.shard()?);
    }
    match last_tokens.last() {
        None => Ok(None),
        Some(last) if *last == Token::MAX && last_tokens.is_sorted() => {
            Ok(Some(TabletMap::new(last_tokens, shards)))
        }
        Some(_) => {
            let what = format!("the tablets of table {id} do not cover the ring");
            Err(damaged("tablets", what))
        }
    }
}

fn damaged(table: &str, what: String) -> DamagedSchema {
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
    fn optional_int(&self, name: &str) -> Read<Option<i32>> {
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
    /// The hosts of a tablet and its shard on each.
    pub(super) fn replicas(&self) -> Read<Vec<(Uuid, i32)>> {
        let replica = |tuple: &[u8]| {
            let mut fields = fields(tuple);
            let host = <[u8; 16]>::try_from(fields.next()?.ok()??).ok()?;
            let shard = <[u8; 4]>::try_from(fields.next()?.ok()??).ok()?;
            Some((Uuid::from_bytes(host), i32::from_be_bytes(shard)))
        };
        let tuples = list_elements(self.needed("replicas")?);
        let replicas = tuples.map(|tuple| replica(tuple.ok()??)).collect::<Option<Vec<_>>>();
        replicas
            .ok_or_else(|| self.damaged("replicas is not a list of hosts and shards".to_owned()))
    }
    /// The shard of the one replica of a tablet.
    fn shard(&self) -> Read<u16> {
        let shard = self.replicas()?.first().and_then(|(_, shard)| u16::try_from(*shard).ok());
        shard.ok_or_else(|| self.damaged("a tablet without a shard".to_owned()))
    }
}
