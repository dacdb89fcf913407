//! How tables come about: from CREATE TABLE, from ALTER TABLE, from what was stored.

use super::{Column, ColumnId, ColumnIndex, ColumnKind, DroppedColumn, TableOptions, TableSchema};
use super::{Index, View};
use crate::key::ClusteringOrder;
use crate::token::murmur3;
use crate::types::{Type, UserType};
use crate::value::Invalid;
use std::cmp::Ordering;
use stdx::{HashSet, Put};
use uuid::Uuid;

/// Collects the columns of a table in any order of kinds; [`TableBuilder::build`] checks, orders
/// and numbers them. Key columns keep the order in which they were added.
#[derive(Clone, Debug)]
pub struct TableBuilder {
    pub(super) table: TableSchema,
    version: Option<Uuid>,
}

impl TableSchema {
    /// Begins a new table with default options.
    pub fn builder(keyspace: &str, name: &str, id: Uuid) -> TableBuilder {
        let table = TableSchema {
            id,
            version: Uuid::nil(),
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            columns: Vec::new(),
            partition_key_count: 0,
            clustering_count: 0,
            static_count: 0,
            next_column_id: 0,
            dropped: Vec::new(),
            options: TableOptions::new(),
            compact_storage: false,
            view: None,
            log: None,
            indexes: Vec::new(),
            order: ClusteringOrder { columns: Vec::new() },
            index: ColumnIndex::default(),
        };
        TableBuilder { table, version: None }
    }

    /// Begins the next version of this table.
    pub fn edit(&self) -> TableBuilder {
        TableBuilder { table: self.clone(), version: None }
    }

    /// A version derived from everything that the table is but its present version: a hash in the
    /// form of a name-based UUID.
    pub fn content_version(&self) -> Uuid {
        let mut content = Vec::new();
        content.put(self.id.as_bytes());
        content.put_u32_bytes(self.to_cql_create().as_bytes());
        for column in &self.columns {
            content.put_u32(column.id.0);
            content.put_u8(column.kind as u8);
            content.put_u16(column.position);
            content.put_u32_bytes(column.name.as_bytes());
            let class = column.ty.to_clustering_class_name(column.reversed);
            content.put_u32_bytes(class.as_bytes());
        }
        for dropped in &self.dropped {
            content.put_u32(dropped.id.0);
            content.put_u8(dropped.kind as u8);
            content.put_i64(dropped.dropped_at);
            content.put_u32_bytes(dropped.name.as_bytes());
            content.put_u32_bytes(dropped.ty.to_class_name().as_bytes());
        }
        for (name, value) in &self.options.extensions {
            content.put_u32_bytes(name.as_bytes());
            content.put_u32_bytes(value);
        }
        if let Some(view) = &self.view {
            content.put_u32_bytes(format!("{view:?}").as_bytes());
        }
        if let Some(log) = &self.log {
            content.put_u32_bytes(format!("{log:?}").as_bytes());
        }
        for index in &self.indexes {
            content.put_u32_bytes(format!("{index:?}").as_bytes());
        }
        content.put_u32(self.next_column_id);
        let (high, low) = murmur3(&content);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        bytes[6] = (bytes[6] & 0x0f) | 0x30;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Uuid::from_bytes(bytes)
    }
}

impl TableBuilder {
    /// Whether rows are laid out as before CQL had rows.
    pub fn compact_storage(mut self, compact: bool) -> TableBuilder {
        self.table.compact_storage = compact;
        self
    }

    /// Makes it a view.
    pub fn view(mut self, view: View) -> TableBuilder {
        self.table.view = Some(Box::new(view));
        self
    }

    /// Sets its indexes.
    pub fn indexes(mut self, mut indexes: Vec<Index>) -> TableBuilder {
        indexes.sort_by(|a, b| a.name.cmp(&b.name));
        self.table.indexes = indexes;
        self
    }

    /// Adds the next column of the partition key.
    pub fn partition_key(self, name: &str, ty: Type) -> TableBuilder {
        self.add(name, ColumnKind::PartitionKey, ty, false)
    }

    /// Adds the next clustering column, ascending.
    pub fn clustering(self, name: &str, ty: Type) -> TableBuilder {
        self.add(name, ColumnKind::Clustering, ty, false)
    }

    /// Adds the next clustering column, descending.
    pub fn clustering_descending(self, name: &str, ty: Type) -> TableBuilder {
        self.add(name, ColumnKind::Clustering, ty, true)
    }

    /// Adds a static column.
    pub fn static_column(self, name: &str, ty: Type) -> TableBuilder {
        self.add(name, ColumnKind::Static, ty, false)
    }

    /// Adds a regular column.
    pub fn regular(self, name: &str, ty: Type) -> TableBuilder {
        self.add(name, ColumnKind::Regular, ty, false)
    }

    /// Adds a column under a new id.
    fn add(mut self, name: &str, kind: ColumnKind, ty: Type, reversed: bool) -> TableBuilder {
        let id = ColumnId(self.table.next_column_id);
        self.table.next_column_id += 1;
        let name = name.to_owned();
        self.table.columns.push(Column { id, name, kind, position: 0, ty, reversed });
        self
    }

    /// Adds a column as it was stored: with its id and, for a key column, its position.
    pub fn stored_column(mut self, column: Column) -> TableBuilder {
        self.table.next_column_id = self.table.next_column_id.max(column.id.0.saturating_add(1));
        self.table.columns.push(column);
        self.table.columns.sort_by_key(|column| (column.kind, column.position));
        self
    }

    /// Adds a dropped column as it was stored.
    pub fn stored_drop(mut self, dropped: DroppedColumn) -> TableBuilder {
        self.table.next_column_id = self.table.next_column_id.max(dropped.id.0.saturating_add(1));
        self.table.dropped.push(dropped);
        self
    }

    /// Drops the static or regular column of that name, as of `dropped_at` microseconds. Panics if
    /// there is none: the caller has looked.
    pub fn drop_column(mut self, name: &str, dropped_at: i64) -> TableBuilder {
        let index = self.table.columns.iter().position(|column| column.name == name);
        let column = self.table.columns.remove(index.expect("the caller named a column"));
        assert!(ColumnKind::Static <= column.kind, "a key column cannot be dropped");
        let Column { id, name, kind, ty, .. } = column;
        self.table.dropped.push(DroppedColumn { id, name, ty, kind, dropped_at });
        self
    }

    /// Renames a column; it keeps its id. Panics if there is none: the caller has looked.
    pub fn rename_column(mut self, from: &str, to: &str) -> TableBuilder {
        let column = self.table.columns.iter_mut().find(|column| column.name == from);
        column.expect("the caller named a column").name = to.to_owned();
        self
    }

    /// Gives a column another type. Panics if there is none: the caller has looked.
    pub fn change_type(mut self, name: &str, ty: Type) -> TableBuilder {
        let column = self.table.columns.iter_mut().find(|column| column.name == name);
        column.expect("the caller named a column").ty = ty;
        self
    }

    /// Brings the type of every column up to date with a changed user type.
    pub fn with_user_type(mut self, changed: &UserType) -> TableBuilder {
        for column in &mut self.table.columns {
            column.ty = column.ty.with_user_type(changed);
        }
        self
    }

    /// Sets all options.
    pub fn options(mut self, options: TableOptions) -> TableBuilder {
        self.table.options = options;
        self
    }

    /// Raises the id that the next new column gets: ids once given may be known from elsewhere.
    pub fn next_column_id(mut self, at_least: u32) -> TableBuilder {
        self.table.next_column_id = self.table.next_column_id.max(at_least);
        self
    }

    /// Keeps a stored version instead of deriving it from the content.
    pub fn version(mut self, version: Uuid) -> TableBuilder {
        self.version = Some(version);
        self
    }

    /// Checks and orders; see the invariants of [`crate::schema`].
    pub fn build(self) -> Result<TableSchema, Invalid> {
        let TableBuilder { mut table, version } = self;
        check(&table)?;
        table.columns.sort_by(|a, b| {
            let by_name = || match a.kind {
                ColumnKind::PartitionKey | ColumnKind::Clustering => Ordering::Equal,
                ColumnKind::Static | ColumnKind::Regular => a.name.cmp(&b.name),
            };
            a.kind.cmp(&b.kind).then_with(by_name)
        });
        let count = |kind| table.columns.iter().filter(|column| column.kind == kind).count();
        let [partition_key, clustering, statics] =
            [ColumnKind::PartitionKey, ColumnKind::Clustering, ColumnKind::Static].map(count);
        let starts = [0, partition_key, partition_key + clustering];
        let starts = [starts[0], starts[1], starts[2], starts[2] + statics];
        for (index, column) in table.columns.iter_mut().enumerate() {
            column.position = (index - starts[column.kind as usize]) as u16;
        }
        table.partition_key_count = partition_key;
        table.clustering_count = clustering;
        table.static_count = statics;
        let ordered = table.clustering().iter().map(|column| (column.ty.clone(), column.reversed));
        table.order = ClusteringOrder { columns: ordered.collect() };
        table.index = ColumnIndex::of(&table.columns);
        table.version = version.unwrap_or_else(|| table.content_version());
        Ok(table)
    }
}

fn check(table: &TableSchema) -> Result<(), Invalid> {
    let refuse = |text: String| Err(Invalid(text));
    let has = |kind| table.columns.iter().any(|column| column.kind == kind);
    if !has(ColumnKind::PartitionKey) {
        return refuse("No PRIMARY KEY specified (exactly one required)".to_owned());
    }
    if has(ColumnKind::Static) && !has(ColumnKind::Clustering) {
        let text = "Static columns are only useful (and thus allowed) if the table has at least";
        return refuse(format!("{text} one clustering column"));
    }
    if usize::from(u16::MAX) < table.columns.len() {
        return refuse(format!("A table cannot have {} columns", table.columns.len()));
    }
    let mut names = HashSet::default();
    let mut ids = HashSet::default();
    for column in &table.columns {
        if !names.insert(column.name.as_str()) {
            return refuse(format!("Multiple definition of identifier {}", column.name));
        }
        assert!(ids.insert(column.id), "ids-for-life: {:?} twice", column.id);
        assert!(column.id.0 < table.next_column_id, "ids-for-life: {:?}", column.id);
    }
    for dropped in &table.dropped {
        assert!(ids.insert(dropped.id), "ids-for-life: {:?} twice", dropped.id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    fn table() -> TableBuilder {
        TableSchema::builder("ks", "t", Uuid::from_bytes([7; 16]))
            .regular("z", Type::Int)
            .clustering_descending("c2", Type::Text)
            .partition_key("p", Type::Int)
            .clustering("c1", Type::Int)
            .static_column("s", Type::Int)
            .regular("a", Type::Int)
    }

    #[test]
    fn columns_are_ordered() {
        let table = table().build().unwrap();
        let names = |columns: &[Column]| {
            columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&table.columns), ["p", "c2", "c1", "s", "a", "z"]);
        assert_eq!(names(table.clustering()), ["c2", "c1"]);
        assert_eq!(names(table.regulars()), ["a", "z"]);
        let positions: Vec<u16> = table.columns.iter().map(|column| column.position).collect();
        assert_eq!(positions, [0, 0, 1, 0, 0, 1]);
        assert_eq!(table.order.columns, [(Type::Text, true), (Type::Int, false)]);
        assert_eq!(table.column_by_id(ColumnId(0)).unwrap().name, "z");
        assert_eq!(table.column("s").unwrap().id, ColumnId(4));
        assert!(table.has_statics() && !table.is_counter());
    }

    #[test]
    fn a_stale_index_finds_every_column() {
        let mut table = table().build().unwrap();
        table.columns.remove(0);
        table.columns[1].id = ColumnId(u32::MAX);
        for column in &table.columns {
            assert_eq!(table.column_by_id(column.id), Some(column));
        }
        assert_eq!(table.column_by_id(ColumnId(2)), None);
        assert_eq!(table.column_by_id(ColumnId(77)), None);
        assert_eq!(ColumnIndex::of(&table.columns).0.len(), 6);
    }

    #[test]
    fn a_column_added_again_gets_another_id() {
        let first = table().build().unwrap();
        let dropped = first.edit().drop_column("a", 99).build().unwrap();
        let again = dropped.edit().regular("a", Type::Text).build().unwrap();
        assert_eq!(again.column("a").unwrap().id, ColumnId(6));
        assert_eq!(again.column_by_id(ColumnId(5)), None);
        assert_eq!(again.dropped.len(), 1);
        assert_eq!(again.dropped[0].dropped_at, 99);
        let versions = [first.version, dropped.version, again.version];
        assert!(versions[0] != versions[1] && versions[1] != versions[2]);
    }

    #[test]
    fn stored_ids_are_not_given_again() {
        let (id, name) = (ColumnId(40), "old".to_owned());
        let (ty, kind) = (Type::Int, ColumnKind::Regular);
        let dropped = DroppedColumn { id, name, ty, kind, dropped_at: 1 };
        let table = table().stored_drop(dropped).regular("new", Type::Int).build().unwrap();
        assert_eq!(table.column("new").unwrap().id, ColumnId(41));
        assert_eq!(table.next_column_id, 42);
    }

    #[test]
    fn refusals() {
        let check = |builder: TableBuilder, expected: &str| {
            let found = builder.build().unwrap_err().0;
            assert!(found.contains(expected), "{found}");
        };
        let empty = || TableSchema::builder("ks", "t", Uuid::nil());
        check(empty().regular("a", Type::Int), "No PRIMARY KEY");
        let twice = empty().partition_key("a", Type::Int).regular("a", Type::Int);
        check(twice, "Multiple definition of identifier a");
        let statics = empty().partition_key("a", Type::Int).static_column("s", Type::Int);
        check(statics, "Static columns are only useful");
    }

    #[test]
    fn the_version_is_the_content() {
        let version = table().build().unwrap().version;
        assert_eq!(version, table().build().unwrap().version);
        let mut options = TableOptions::new();
        options.comment = "other".into();
        assert_ne!(version, table().options(options).build().unwrap().version);
        assert_ne!(version, table().rename(|table| table.rename_column("a", "b")));
        let kept = table().version(Uuid::nil()).build().unwrap();
        assert_eq!(kept.version, Uuid::nil());
        assert_eq!(version.get_version_num(), 3);
    }

    impl TableBuilder {
        fn rename(self, edit: impl FnOnce(TableBuilder) -> TableBuilder) -> Uuid {
            edit(self).build().unwrap().version
        }
    }

    proptest! {
        #[test]
        fn stored_columns_make_the_same_table(table in testing::table_schema(), seed: u64) {
            let mut columns = table.columns.clone();
            columns.sort_by_key(|column| stdx::hash_one((seed, column.id)));
            let empty = TableSchema::builder(&table.keyspace, &table.name, table.id);
            let again = columns.into_iter().fold(empty, TableBuilder::stored_column);
            prop_assert_eq!(again.build().unwrap(), table);
        }
    }
}
