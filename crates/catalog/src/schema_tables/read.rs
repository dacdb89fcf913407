//! The schema from the rows of its tables. Pure; every row is foreign.

mod functions;
mod logs;
mod views;

use super::CDC_EXTENSION;
use super::racks;
use super::stored::{Read, Reader, Stored, damaged};
use crate::placement::tablets::{Asked, Load, SCALE, divide};
use crate::placement::{Division, Here, Replication, TabletReplicas};
use crate::schema::{Local, Schema, TableKind, check_tablets, normalize_table};
use crate::system_tables::is_system_keyspace;
use crate::topology::Topology;
use model::schema::{DroppedColumn, TableOptions};
use model::{ClusteringOrder, Column, ColumnId, Keyspace, TableSchema};
use model::{Token, Type, UserType, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Adds the stored user keyspaces, with types and tables, to `schema`, as this node has them.
pub fn load<L: Local>(schema: &mut Schema<L>, stored: &Stored, here: Here) -> Read<()> {
    for row in stored.all("keyspaces") {
        let row = Reader { row, table: "keyspaces" };
        let name = row.text("keyspace_name")?;
        if is_system_keyspace(&name) {
            continue;
        }
        let mut keyspace = read_keyspace(&row, &name)?;
        if let Some(row) = stored.of("scylla_keyspaces", name.as_bytes(), "").next() {
            keyspace.initial_tablets = row.optional_int("initial_tablets")?.map(|n| n as u32);
            keyspace.storage = row.map("storage_options")?;
            if row.optional("previous_replication").is_some() {
                keyspace.previous = Some(row.map("previous_replication")?);
            }
        }
        Replication::of(&keyspace)
            .map_err(|reason| row.damaged(format!("keyspace {name}: {reason}")))?;
        schema.insert_keyspace(keyspace);
        load_types(schema, stored, &name)?;
        functions::load(schema, stored, &name)?;
    }
    // Views and logs come after their bases.
    let is_log = |row: &Reader<'_>| {
        let (keyspace, name) = (row.text("keyspace_name")?, row.text("table_name")?);
        Ok(stored.of("nereid_logs", keyspace.as_bytes(), &name).next().is_some())
    };
    let (mut tables, mut logs) = (Vec::new(), Vec::new());
    for row in stored.all("tables").map(|row| Reader { row, table: "tables" }) {
        if is_log(&row)? { logs.push(row) } else { tables.push(row) }
    }
    let views = stored.all("views").map(|row| Reader { row, table: "views" });
    for row in tables.into_iter().chain(logs).chain(views) {
        load_table(schema, stored, &row, here)?;
    }
    Ok(())
}

/// Adds a table, or a view of one that is there.
fn load_table<L: Local>(
    schema: &mut Schema<L>,
    stored: &Stored,
    row: &Reader<'_>,
    here: Here,
) -> Read<()> {
    let keyspace = row.text("keyspace_name")?;
    if is_system_keyspace(&keyspace) {
        return Ok(());
    }
    let Some(entry) = schema.keyspace(&keyspace) else {
        return Err(row.damaged(format!("a table of keyspace {keyspace}, which is missing")));
    };
    let table = read_table(schema, stored, row, &keyspace)?;
    if schema.table_by_id(table.id).is_some() {
        return Err(row.damaged(format!("two tables with the id {}", table.id)));
    }
    if entry.tables.contains_key(&table.name) {
        return Err(row.damaged(format!("a table and a view {keyspace}.{}", table.name)));
    }
    let has_tablets = entry.keyspace.initial_tablets.is_some();
    let division = match read_tablets(stored, table.id)? {
        Some(replicas) if has_tablets => Division::of_tablets(replicas, here),
        intended => {
            let (keyspace, replication) = (&entry.keyspace, &*entry.replication);
            let (hints, scale) = (&table.options.tablets, SCALE);
            let asked = Asked { keyspace, replication, hints, scale };
            let division = divide(asked, &Topology::default(), here, &Load::default());
            Division { intended: intended.unwrap_or_default(), ..division }
        }
    };
    check_tablets(&division.tablets);
    let id = table.id;
    schema.insert_table(table, division, TableKind::Stored);
    if let Some(streams) = logs::read_streams(stored, id)? {
        schema.set_streams(id, Arc::new(streams));
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
        previous: None,
        initial_tablets: None,
        storage: Vec::new(),
    })
}

/// Types may mention each other in any order, but not in circles.
fn load_types<L: Local>(schema: &mut Schema<L>, stored: &Stored, keyspace: &str) -> Read<()> {
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

fn read_table<L: Local>(
    schema: &Schema<L>,
    stored: &Stored,
    row: &Reader<'_>,
    keyspace: &str,
) -> Read<TableSchema> {
    let is_view = row.table == "views";
    let name = row.text(if is_view { "view_name" } else { "table_name" })?;
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
        compact_storage: !is_view && (is("dense") || !is("compound")),
        view: None,
        log: None,
        indexes: Vec::new(),
        order: ClusteringOrder { columns: Vec::new() },
        index: Default::default(),
    };
    for row in of_table("nereid_columns") {
        read_column_id(schema, &row, &mut table)?;
    }
    for row in of_table("columns").chain(of_table("view_virtual_columns")) {
        read_column_shape(&row, &mut table)?;
    }
    match is_view {
        true => views::read_view(schema, stored, row, &mut table)?,
        false => views::read_indexes(of_table("nereid_indexes"), &mut table)?,
    }
    if let Some(row) = of_table("nereid_logs").next().filter(|_| !is_view) {
        logs::read_log(schema, &row, &mut table)?;
    }
    table.columns.sort_by_key(|column| (column.kind, column.position));
    normalize_table(&mut table);
    if table.partition_key_count == 0 {
        return Err(row.damaged(format!("table {keyspace}.{name} has no partition key")));
    }
    Ok(table)
}

/// Adds a column, dropped or not, that `nereid_columns` names.
fn read_column_id<L: Local>(
    schema: &Schema<L>,
    row: &Reader<'_>,
    table: &mut TableSchema,
) -> Read<()> {
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
        extensions: read_extensions(row)?,
        tombstone_gc: Vec::new(),
        cdc: Vec::new(),
        per_partition_rate_limit: Vec::new(),
        paxos_grace_seconds: None,
        tablets: Vec::new(),
    })
}

/// The extensions, but what is there for drivers alone.
pub(super) fn read_extensions(row: &Reader<'_>) -> Read<Vec<(String, Vec<u8>)>> {
    let mut all = row.blob_map("extensions")?;
    all.retain(|(name, _)| name != CDC_EXTENSION);
    Ok(all)
}

/// Where the stored tablets of a table end, and their replicas; `None` when it has none.
fn read_tablets(stored: &Stored, id: Uuid) -> Read<Option<TabletReplicas>> {
    let (mut last_tokens, mut replicas) = (Vec::new(), Vec::new());
    let (mut moves, mut repaired, mut target) = (BTreeMap::new(), BTreeMap::new(), None);
    for row in stored.of("tablets", id.as_bytes(), "") {
        target = row.optional_int("target_pow2_tablet_count")?;
        last_tokens.push(Token(row.bigint("last_token")?));
        if row.optional("stage").is_some() {
            moves.insert(replicas.len(), row.tablet_move()?);
        }
        if row.optional("repair_time").is_some() {
            repaired.insert(replicas.len(), row.bigint("repair_time")?);
        }
        replicas.push(row.checked_replicas("replicas")?);
    }
    match last_tokens.last() {
        None => Ok(None),
        Some(last) if *last == Token::MAX && last_tokens.is_sorted_by(|a, b| a < b) => {
            let replicas = TabletReplicas::moving(last_tokens, replicas, moves);
            let replicas = replicas.repaired_at(repaired);
            let target = target.unwrap_or(0);
            match u32::try_from(target).ok().filter(|it| *it == 0 || replicas.may_come_to(*it)) {
                Some(target) => Ok(Some(replicas.toward(target))),
                None => {
                    let what = format!("the tablets of table {id} cannot come to {target}");
                    Err(damaged("tablets", what))
                }
            }
        }
        Some(_) => {
            let what = format!("the tablets of table {id} do not cover the ring");
            Err(damaged("tablets", what))
        }
    }
}
