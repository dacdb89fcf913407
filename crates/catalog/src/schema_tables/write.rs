//! Schema changes as mutations of the schema's tables. Pure.

mod functions;
mod views;

use super::CDC_EXTENSION;
use super::racks;
use super::stored::kind_name;
use crate::placement::{Division, TabletMove, TabletReplicas};
use crate::rows::partition::{PartitionWriter, Value};
use crate::rows::partition::{bigint, boolean, double, int, map, text, texts, uuid};
use crate::schema::{Local, Schema, SchemaChange, TableEntry, Tablets};
use crate::streams::Streams;
use crate::system_tables::is_system_keyspace;
use model::schema::extension::write_texts;
use model::schema::{DroppedColumn, TableOptions};
use model::value::collection::{write_collection, write_tuple};
use model::{Column, ColumnKind, Keyspace, TableSchema, UserType, Uuid};
use mutation::FrozenMutation;
use std::collections::BTreeSet;
use std::rc::Rc;
use stdx::Put;

/// The tables of `system_schema` in which a keyspace has its partition.
const PER_KEYSPACE: [&str; 15] = [
    "keyspaces",
    "scylla_keyspaces",
    "types",
    "tables",
    "scylla_tables",
    "columns",
    "nereid_columns",
    "dropped_columns",
    "indexes",
    "views",
    "view_virtual_columns",
    "computed_columns",
    "functions",
    "aggregates",
    "scylla_aggregates",
];

/// Those of them in which a table has rows that begin with its name.
const PER_TABLE: [&str; 9] = [
    "tables",
    "scylla_tables",
    "columns",
    "nereid_columns",
    "dropped_columns",
    "indexes",
    "views",
    "view_virtual_columns",
    "computed_columns",
];

/// The same of tables that earlier versions do not know (*told-when-known*).
const OF_VIEWS: [&str; 2] = ["nereid_indexes", "nereid_views"];

/// The same.
const OF_LOGS: [&str; 1] = ["nereid_logs"];

/// Those of the tables that earlier versions do not know in which some of these tables have rows.
fn more<'t, L: 't>(tables: impl Iterator<Item = &'t Rc<TableEntry<L>>>) -> Vec<&'static str> {
    let (mut of_views, mut of_logs) = (false, false);
    for table in tables.map(|table| &table.schema) {
        of_views |= table.view.is_some() || !table.indexes.is_empty();
        of_logs |= table.log.is_some();
    }
    let of_views = OF_VIEWS.into_iter().filter(|_| of_views);
    of_views.chain(OF_LOGS.into_iter().filter(|_| of_logs)).collect()
}

/// Turns complete changes into mutations.
pub struct Writer<'s, L = ()> {
    /// The schema before the change; also tells the layout of the system tables.
    schema: &'s Schema<L>,
    out: Vec<FrozenMutation>,
}

impl<'s, L: Local> Writer<'s, L> {
    /// Of changes of that schema.
    pub fn new(schema: &'s Schema<L>) -> Writer<'s, L> {
        Writer { schema, out: Vec::new() }
    }

    /// The mutations of one complete change, with `timestamp` and the one before. Changes of the
    /// same statement differ by two. `tablets` has those of a table that is made.
    pub fn change(&mut self, change: &SchemaChange, tablets: &Tablets, timestamp: i64) {
        match change {
            SchemaChange::CreateKeyspace(keyspace) | SchemaChange::AlterKeyspace(keyspace) => {
                self.keyspace(keyspace, timestamp);
            }
            SchemaChange::DropKeyspace(name) => self.drop_keyspace(name, timestamp),
            SchemaChange::CreateTable(table) => {
                self.table(table, timestamp);
                self.new_tablets(table, tablets, timestamp);
            }
            SchemaChange::AlterTable(table) => {
                self.delete_table_rows(&table.keyspace, &table.name, timestamp);
                self.table(table, timestamp);
            }
            SchemaChange::DropTable { keyspace, name } => {
                self.delete_table_rows(keyspace, name, timestamp);
                if let Some(table) = self.schema.table(keyspace, name) {
                    self.delete_tablets(table.schema.id, timestamp);
                    self.delete_streams(table, timestamp);
                    let base = table.schema.log.as_ref().map(|log| log.base);
                    if let Some(base) = base.and_then(|base| self.schema.table_by_id(base)) {
                        self.delete_streams(base, timestamp);
                    }
                }
            }
            SchemaChange::CreateType(user) | SchemaChange::AlterType(user) => {
                self.user_type(user, timestamp);
            }
            SchemaChange::DropType { keyspace, name } => {
                let mut partition = self.partition("types", keyspace, timestamp);
                partition.delete_rows(&[name.as_bytes()]);
                self.push(partition);
            }
            SchemaChange::CreateFunction(function) => self.function(function, timestamp),
            SchemaChange::DropFunction { keyspace, name, arguments } => {
                self.drop_function(keyspace, name, arguments, timestamp);
            }
            SchemaChange::CreateAggregate(aggregate) => self.aggregate(aggregate, timestamp),
            SchemaChange::DropAggregate { keyspace, name, arguments } => {
                self.drop_aggregate(keyspace, name, arguments, timestamp);
            }
        }
    }

    /// The mutations of all changes.
    pub fn finish(self) -> Vec<FrozenMutation> {
        self.out
    }

    fn system_table(&self, keyspace: &str, name: &str) -> &'s Rc<TableSchema> {
        match self.schema.table(keyspace, name) {
            Some(entry) => &entry.schema,
            None => panic!("system table {keyspace}.{name} is not loaded"),
        }
    }

    pub(super) fn partition(
        &self,
        table: &str,
        keyspace: &str,
        timestamp: i64,
    ) -> PartitionWriter<'s> {
        let schema = self.system_table("system_schema", table);
        PartitionWriter::new(schema, &[keyspace.as_bytes()], timestamp)
    }

    pub(super) fn push(&mut self, partition: PartitionWriter<'_>) {
        self.out.push(partition.freeze());
    }

    /// The rows of a keyspace itself.
    pub fn keyspace(&mut self, keyspace: &Keyspace, timestamp: i64) {
        let mut partition = self.partition("keyspaces", &keyspace.name, timestamp);
        partition.delete_rows(&[]);
        let racks = racks::flattened(&keyspace.replication);
        let cells = vec![
            ("durable_writes", boolean(keyspace.durable_writes)),
            ("replication", map(&racks::counted(&keyspace.replication))),
            ("replication_v2", racks.and_then(|racks| map(&racks))),
        ];
        partition.row(&[], cells);
        self.push(partition);
        if keyspace.initial_tablets.is_none() && keyspace.storage.is_empty() {
            return;
        }
        let mut partition = self.partition("scylla_keyspaces", &keyspace.name, timestamp);
        partition.delete_rows(&[]);
        let kind = keyspace.storage.iter().find(|(name, _)| name == "type");
        let storage = (!keyspace.storage.is_empty()).then(|| map(&keyspace.storage)).flatten();
        let cells = vec![
            ("initial_tablets", keyspace.initial_tablets.and_then(|count| int(count as i32))),
            ("storage_options", storage),
            ("storage_type", kind.and_then(|(_, kind)| text(kind))),
            ("previous_replication", keyspace.previous.as_ref().and_then(|it| map(it))),
        ];
        partition.row(&[], cells);
        self.push(partition);
    }

    /// Deletes all rows of a keyspace but those of its tablets.
    pub fn forget_keyspace(&mut self, name: &str, timestamp: i64) {
        let tables = self.schema.keyspace(name).into_iter().flat_map(|entry| entry.tables.values());
        for table in PER_KEYSPACE.into_iter().chain(more(tables)) {
            let mut partition = self.partition(table, name, timestamp);
            partition.delete_rows(&[]);
            self.push(partition);
        }
    }

    fn drop_keyspace(&mut self, name: &str, timestamp: i64) {
        debug_assert!(!is_system_keyspace(name), "keyspace {name} of the system is dropped");
        self.forget_keyspace(name, timestamp);
        let tables = self.schema.keyspace(name).into_iter().flat_map(|entry| entry.tables.values());
        for table in tables {
            self.delete_tablets(table.schema.id, timestamp);
            self.delete_streams(table, timestamp);
        }
    }

    fn delete_table_rows(&mut self, keyspace: &str, name: &str, timestamp: i64) {
        let known = self.schema.table(keyspace, name);
        for table in PER_TABLE.into_iter().chain(more(known.into_iter())) {
            let mut partition = self.partition(table, keyspace, timestamp);
            partition.delete_rows(&[name.as_bytes()]);
            self.push(partition);
        }
    }

    /// The rows of a table, but those of its tablets.
    pub fn table(&mut self, table: &TableSchema, timestamp: i64) {
        let TableSchema { keyspace, name, options, .. } = table;
        assert!(0 < table.partition_key_count, "round-trip: {name} has no partition key");
        let mut cells = option_cells(options);
        cells.push(("id", uuid(table.id)));
        match &table.view {
            None => {
                cells.push(("flags", flags(table)));
                let mut partition = self.partition("tables", keyspace, timestamp);
                partition.row(&[name.as_bytes()], cells);
                self.push(partition);
                self.indexes(table, timestamp);
                self.log(table, timestamp);
            }
            Some(view) => self.view(table, view, cells, timestamp),
        }

        let mut partition = self.partition("scylla_tables", keyspace, timestamp);
        let mut cells = extra_option_cells(options);
        cells.push(("version", uuid(table.version)));
        cells.push(("committed_by_group0", boolean(true)));
        partition.row(&[name.as_bytes()], cells);
        self.push(partition);

        self.columns(table, timestamp);
        if !table.dropped.is_empty() {
            self.dropped_columns(table, timestamp);
        }
    }

    /// What makes a table a log.
    fn log(&mut self, table: &TableSchema, timestamp: i64) {
        let Some(log) = &table.log else { return };
        assert!(!log.base_name.is_empty(), "round-trip: the log {} of no table", table.name);
        let mut partition = self.partition("nereid_logs", &table.keyspace, timestamp);
        let cells = vec![
            ("attached", boolean(log.attached)),
            ("base_id", uuid(log.base)),
            ("base_name", text(&log.base_name)),
        ];
        partition.row(&[table.name.as_bytes()], cells);
        self.push(partition);
    }

    /// The streams of a table's log, in place of those before.
    pub(crate) fn streams(&mut self, table: Uuid, streams: &Streams, timestamp: i64) {
        let schema = self.system_table("system", "nereid_streams");
        assert!(!streams.is_empty(), "round-trip: table {table} has no streams");
        let mut partition = PartitionWriter::new(schema, &[table.as_bytes()], timestamp);
        partition.delete_rows(&[]);
        for set in streams.sets() {
            for (last, of_range) in set.ranges() {
                let mut list = Vec::new();
                write_collection(of_range.iter().map(|stream| &stream.0[..]), &mut list);
                let key = [&set.since_millis().to_be_bytes()[..], &last.0.to_be_bytes()];
                partition.row(&key, vec![("streams", Some(Value::Atomic(list)))]);
            }
        }
        self.push(partition);
    }

    fn delete_streams(&mut self, table: &TableEntry<L>, timestamp: i64) {
        if table.streams.is_empty() {
            return;
        }
        let schema = self.system_table("system", "nereid_streams");
        let key = [&table.schema.id.as_bytes()[..]];
        let mut partition = PartitionWriter::new(schema, &key, timestamp);
        partition.delete_rows(&[]);
        self.push(partition);
    }

    fn columns(&mut self, table: &TableSchema, timestamp: i64) {
        let mut shown = self.partition("columns", &table.keyspace, timestamp);
        let mut hidden = self.partition("view_virtual_columns", &table.keyspace, timestamp);
        let mut ids = self.partition("nereid_columns", &table.keyspace, timestamp);
        for column in &table.columns {
            let new = column.id.0 < table.next_column_id;
            assert!(new, "dropped-forever: {:?} of {} is given again", column.id, table.name);
            let ty = column.ty.to_cql();
            let key = [table.name.as_bytes(), column.name.as_bytes()];
            let cells = vec![
                ("clustering_order", text(order_name(column))),
                ("column_name_bytes", Some(Value::Atomic(column.name.as_bytes().to_vec()))),
                ("kind", text(kind_name(column.kind))),
                ("position", int(stored_position(column))),
                ("type", text(&ty)),
            ];
            match table.is_hidden(column.id) {
                false => shown.row(&key, cells),
                true => hidden.row(&key, cells),
            }
            let (computed, of) = views::computed_parts(table, column.id);
            let cells = vec![
                ("column_name", text(&column.name)),
                ("kind", text(kind_name(column.kind))),
                ("type", text(&ty)),
                ("computed", computed.and_then(text)),
                ("computed_of", of.and_then(text)),
            ];
            ids.row(&[table.name.as_bytes(), &column.id.0.to_be_bytes()], cells);
        }
        for column in &table.dropped {
            let is_live = table.columns.iter().any(|live| live.id == column.id);
            assert!(!is_live, "dropped-forever: {:?} is dropped and there", column.id);
            let cells = vec![
                ("column_name", text(&column.name)),
                ("dropped_at", bigint(column.dropped_at)),
                ("kind", text(kind_name(column.kind))),
                ("type", text(&column.ty.to_cql())),
            ];
            ids.row(&[table.name.as_bytes(), &column.id.0.to_be_bytes()], cells);
        }
        self.push(shown);
        if table.view.as_ref().is_some_and(|view| !view.hidden.is_empty()) {
            self.push(hidden);
        }
        self.push(ids);
    }

    /// For clients: of columns of the same name the last one dropped.
    fn dropped_columns(&mut self, table: &TableSchema, timestamp: i64) {
        let mut last = std::collections::BTreeMap::<&str, &DroppedColumn>::new();
        for column in &table.dropped {
            let known = last.get(column.name.as_str());
            if known.is_none_or(|known| known.dropped_at <= column.dropped_at) {
                last.insert(&column.name, column);
            }
        }
        let mut partition = self.partition("dropped_columns", &table.keyspace, timestamp);
        for (name, column) in last {
            let cells = vec![
                ("dropped_time", bigint(column.dropped_at.div_euclid(1000))),
                ("kind", text(kind_name(column.kind))),
                ("type", text(&column.ty.to_cql())),
            ];
            partition.row(&[table.name.as_bytes(), name.as_bytes()], cells);
        }
        self.push(partition);
    }

    /// A user type.
    pub fn user_type(&mut self, user: &UserType, timestamp: i64) {
        assert!(!user.fields.is_empty(), "round-trip: type {} has no fields", user.name);
        let types: Vec<String> = user.fields.iter().map(|(_, ty)| ty.to_cql()).collect();
        let mut partition = self.partition("types", &user.keyspace, timestamp);
        let cells = vec![
            ("field_names", texts(user.fields.iter().map(|(name, _)| name.as_str()))),
            ("field_types", texts(types.iter().map(String::as_str))),
        ];
        partition.row(&[user.name.as_bytes()], cells);
        self.push(partition);
    }

    /// The tablets of a new table, where its keyspace has any. The keyspace may be as new.
    fn new_tablets(&mut self, table: &TableSchema, tablets: &Tablets, timestamp: i64) {
        let Some(keyspace) = self.schema.keyspace(&table.keyspace) else { return };
        let division = tablets.of(table.id);
        assert!(division.is_some(), "complete: new table {} has no tablets", table.name);
        let Some(Division { replicas, intended, .. }) = division else { return };
        if keyspace.keyspace.initial_tablets.is_some() {
            self.tablets(table, replicas, timestamp);
        } else if !intended.is_empty() {
            self.tablets(table, intended, timestamp);
        }
    }

    /// A table's tablets with their replicas.
    fn tablets(&mut self, table: &TableSchema, replicas: &TabletReplicas, timestamp: i64) {
        let schema = self.system_table("system", "tablets");
        assert!(!replicas.is_empty(), "round-trip: {} has no tablets", table.name);
        let mut partition = PartitionWriter::new(schema, &[table.id.as_bytes()], timestamp);
        let target = Some(replicas.target()).filter(|target| 0 < *target);
        let target = target.and_then(|target| int(target as i32));
        partition.statics(vec![
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("tablet_count", int(replicas.count() as i32)),
            ("target_pow2_tablet_count", target),
        ]);
        for (tablet, last) in replicas.last_tokens().iter().enumerate() {
            partition.row(&[&last.0.to_be_bytes()], tablet_cells(replicas, tablet));
        }
        self.push(partition);
    }

    /// Other tablets of a table that is there, or none, in place of all of its before.
    pub fn other_tablets(
        &mut self,
        table: &TableSchema,
        replicas: &TabletReplicas,
        timestamp: i64,
    ) {
        self.delete_tablets(table.id, timestamp);
        if !replicas.is_empty() {
            self.tablets(table, replicas, timestamp);
        }
    }

    /// Some tablets of a table that is there, which end where they ended.
    pub fn some_tablets(
        &mut self,
        id: Uuid,
        replicas: &TabletReplicas,
        changed: &BTreeSet<usize>,
        timestamp: i64,
    ) {
        let schema = self.system_table("system", "tablets");
        let mut partition = PartitionWriter::new(schema, &[id.as_bytes()], timestamp);
        for tablet in changed {
            let last = replicas.last_tokens()[*tablet];
            partition.row(&[&last.0.to_be_bytes()], tablet_cells(replicas, *tablet));
        }
        self.push(partition);
    }

    fn delete_tablets(&mut self, id: Uuid, timestamp: i64) {
        let schema = self.system_table("system", "tablets");
        let mut partition = PartitionWriter::new(schema, &[id.as_bytes()], timestamp);
        partition.delete_rows(&[]);
        self.push(partition);
    }
}

/// The replicas of a tablet, where it goes, and when it was repaired, which is never taken back.
fn tablet_cells(replicas: &TabletReplicas, tablet: usize) -> Vec<(&'static str, Option<Value>)> {
    let null = || Some(Value::Null);
    let (to, stage, session, transition) = match replicas.moves().get(&tablet) {
        None => (null(), null(), null(), null()),
        Some(TabletMove { to, stage, session }) => {
            let session = Uuid::from_u128(u128::from(*session)).into_bytes();
            let session = Some(Value::Atomic(session.to_vec()));
            (hosts_and_shards(to), text(stage.name()), session, text("migration"))
        }
    };
    vec![
        ("replicas", hosts_and_shards(replicas.of(tablet))),
        ("new_replicas", to),
        ("stage", stage),
        ("session", session),
        ("transition", transition),
        ("repair_time", replicas.repaired().get(&tablet).and_then(|at| bigint(*at))),
    ]
}

/// A list of tuples of host and shard.
fn hosts_and_shards(replicas: &[(Uuid, u16)]) -> Option<Value> {
    let mut bytes = Vec::new();
    bytes.put_i32(replicas.len() as i32);
    for (host_id, shard) in replicas {
        debug_assert!(!host_id.is_nil(), "a tablet of no node");
        let mut tuple = Vec::new();
        let shard = i32::from(*shard).to_be_bytes();
        write_tuple([Some(&host_id.as_bytes()[..]), Some(&shard[..])].into_iter(), &mut tuple);
        bytes.put_u32_bytes(&tuple);
    }
    Some(Value::Atomic(bytes))
}

/// The options that Cassandra knows.
fn option_cells(options: &TableOptions) -> Vec<(&'static str, Option<Value>)> {
    vec![
        ("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance)),
        ("caching", map(&options.caching)),
        ("comment", text(&options.comment)),
        ("compaction", map(&options.compaction)),
        ("compression", map(&options.compression)),
        ("crc_check_chance", double(options.crc_check_chance)),
        ("dclocal_read_repair_chance", double(options.dclocal_read_repair_chance)),
        ("default_time_to_live", int(options.default_time_to_live)),
        ("extensions", map(&extensions(options))),
        ("gc_grace_seconds", int(options.gc_grace_seconds)),
        ("max_index_interval", int(options.max_index_interval)),
        ("memtable_flush_period_in_ms", int(options.memtable_flush_period_in_ms)),
        ("min_index_interval", int(options.min_index_interval)),
        ("read_repair_chance", double(options.read_repair_chance)),
        ("speculative_retry", text(&options.speculative_retry)),
    ]
}

/// The extensions, with what drivers look for there.
fn extensions(options: &TableOptions) -> Vec<(String, Vec<u8>)> {
    let mut all = options.extensions.clone();
    if !options.cdc.is_empty() {
        let texts = options.cdc.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        all.push((CDC_EXTENSION.to_owned(), write_texts(texts)));
        all.sort();
    }
    all
}

/// The options that only ScyllaDB knows: absent unless set.
fn extra_option_cells(options: &TableOptions) -> Vec<(&'static str, Option<Value>)> {
    let set = |entries: &Vec<(String, String)>| match entries.is_empty() {
        true => None,
        false => map(entries),
    };
    vec![
        ("cdc", set(&options.cdc)),
        ("paxos_grace_seconds", options.paxos_grace_seconds.and_then(int)),
        ("per_partition_rate_limit", set(&options.per_partition_rate_limit)),
        ("tablets", set(&options.tablets)),
        ("tombstone_gc", set(&options.tombstone_gc)),
    ]
}

/// `compound` for every CQL table; compact storage is stored as in Cassandra.
fn flags(table: &TableSchema) -> Option<Value> {
    let mut flags = Vec::new();
    if !table.compact_storage || 1 < table.clustering_count {
        flags.push("compound");
    }
    if table.is_counter() {
        flags.push("counter");
    }
    if table.compact_storage && 0 < table.clustering_count {
        flags.push("dense");
    }
    texts(flags.into_iter())
}

fn order_name(column: &Column) -> &'static str {
    match (column.kind, column.reversed) {
        (ColumnKind::Clustering, false) => "asc",
        (ColumnKind::Clustering, true) => "desc",
        _ => "none",
    }
}

/// The position as Cassandra stores it: of key columns only.
fn stored_position(column: &Column) -> i32 {
    match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => column.position as i32,
        ColumnKind::Static | ColumnKind::Regular => -1,
    }
}
