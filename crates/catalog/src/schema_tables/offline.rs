//! A table's schema and its tablets from the files of `system_schema` and `system.tablets`, of a
//! node of this or of another implementation that does not run. Pure; every row is foreign.
//!
//! Only what files are read and written by is taken: columns, dropped columns, types, and the
//! options that say how files are. Where there is no `nereid_columns`, columns get ids by name.

use super::read::{read_extensions, resolve};
use super::stored::Reader;
use crate::rows::page;
use crate::rows::{DamagedSchema, Row};
use model::schema::{DroppedColumn, TableOptions};
use model::{Column, ColumnId, ColumnKind, TableSchema, Type, UserType, Uuid};
use mutation::page::{Page, ReadCommand};
use std::collections::BTreeMap;

/// A table of the system and the names of its keys, which its files may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaTable {
    /// Its keyspace.
    pub keyspace: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Columns of the partition key.
    pub partition_key: &'static [&'static str],
    /// Clustering columns.
    pub clustering: &'static [&'static str],
}

const fn table(name: &'static str, clustering: &'static [&'static str]) -> SchemaTable {
    SchemaTable { keyspace: "system_schema", name, partition_key: &["keyspace_name"], clustering }
}

/// The tables whose rows are wanted; where one has no files, it has no rows.
pub const TABLES: [SchemaTable; 7] = [
    table("tables", &["table_name"]),
    table("columns", &["table_name", "column_name"]),
    table("dropped_columns", &["table_name", "column_name"]),
    table("types", &["type_name"]),
    table("nereid_columns", &["table_name", "column_id"]),
    table("views", &["view_name"]),
    table("view_virtual_columns", &["view_name", "column_name"]),
];

/// Where tablets are.
pub const TABLETS: SchemaTable = SchemaTable {
    keyspace: "system",
    name: "tablets",
    partition_key: &["table_id"],
    clustering: &["last_token"],
};

/// A tablet as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTablet {
    /// The last token that it covers.
    pub last_token: i64,
    /// Hosts and their shards.
    pub replicas: Vec<(Uuid, i32)>,
}

/// A dropped column's time above this is in microseconds, below in milliseconds.
const MILLIS_MAX: i64 = 100_000_000_000_000;

/// The rows of the tables.
#[derive(Clone, Debug, Default)]
pub struct SchemaRows {
    rows: BTreeMap<&'static str, Vec<Row>>,
}

/// A read of all live rows of a table, as of `now` in seconds.
pub fn command(schema: &TableSchema, now: i64) -> ReadCommand {
    page::read_all(schema, now)
}

impl SchemaRows {
    /// Takes a page that answers [`command`]; false when nothing is left, else `command` goes on.
    pub fn add(
        &mut self,
        table: SchemaTable,
        schema: &TableSchema,
        command: &mut ReadCommand,
        page: &Page,
    ) -> Result<bool, DamagedSchema> {
        let out = self.rows.entry(table.name).or_default();
        page::decode(schema, command, page, out)?;
        Ok(page::advance(command, page))
    }

    /// The table of that name; `None` when there is no such row.
    pub fn table(&self, keyspace: &str, name: &str) -> Result<Option<TableSchema>, DamagedSchema> {
        let table =
            self.of("tables", keyspace, name).chain(self.of("views", keyspace, name)).next();
        let Some(row) = table else { return Ok(None) };
        let types = self.types(keyspace)?;
        let hidden = self.of("view_virtual_columns", keyspace, name);
        let mut columns: Vec<Reader<'_>> =
            self.of("columns", keyspace, name).chain(hidden).collect();
        columns.sort_by_key(|row| row.text("column_name").unwrap_or_default());
        let mut builder = TableSchema::builder(keyspace, name, row.uuid("id")?);
        let ids = self.ids(keyspace, name)?;
        builder = builder.next_column_id(ids.iter().map(|(id, ..)| id.0 + 1).max().unwrap_or(0));
        let mut next = ids.iter().map(|(id, ..)| id.0 + 1).max().unwrap_or(0);
        for row in &columns {
            let (column, kind) = (row.text("column_name")?, row.kind()?);
            let known = ids.iter().find(|(_, name, live)| *live && *name == column);
            let id = known.map_or(ColumnId(next), |(id, ..)| *id);
            next = next.max(id.0 + 1);
            builder = builder.stored_column(Column {
                id,
                ty: self.ty(row, &types)?,
                name: column,
                kind,
                position: row.int("position").ok().and_then(|n| n.try_into().ok()).unwrap_or(0),
                reversed: row.text("clustering_order").is_ok_and(|order| order == "desc"),
            });
        }
        for row in self.of("dropped_columns", keyspace, name) {
            let dropped_at = match row.bigint("dropped_time")? {
                millis if millis < MILLIS_MAX => millis.saturating_mul(1000),
                micros => micros,
            };
            builder = builder.stored_drop(DroppedColumn {
                id: ColumnId(next),
                name: row.text("column_name")?,
                ty: self.ty(&row, &types)?,
                kind: row.kind().unwrap_or(ColumnKind::Regular),
                dropped_at,
            });
            next += 1;
        }
        let built = builder.options(options(&row)?).build();
        built.map(Some).map_err(|invalid| row.damaged(invalid.0))
    }

    /// The tablets of the table of that id, in order of tokens; none where it has none.
    pub fn tablets(&self, id: Uuid) -> Result<Vec<StoredTablet>, DamagedSchema> {
        let rows = self.rows.get(TABLETS.name).into_iter().flatten();
        let rows = rows.map(|row| Reader { row, table: TABLETS.name });
        let mut tablets = Vec::new();
        for row in rows.filter(|row| row.uuid("table_id").is_ok_and(|it| it == id)) {
            let (last_token, replicas) = (row.bigint("last_token")?, row.replicas("replicas")?);
            tablets.push(StoredTablet { last_token, replicas });
        }
        tablets.sort_by_key(|tablet| tablet.last_token);
        Ok(tablets)
    }

    /// The user types of a keyspace.
    pub fn types(&self, keyspace: &str) -> Result<Vec<UserType>, DamagedSchema> {
        let mut texts = BTreeMap::new();
        for row in self.of("types", keyspace, "") {
            let fields = row.texts("field_names")?.into_iter().zip(row.texts("field_types")?);
            texts.insert(row.text("type_name")?, fields.collect::<Vec<_>>());
        }
        let found = |name: &String| {
            resolve(&texts, keyspace, name, texts.len()).ok_or_else(|| DamagedSchema {
                table: "system_schema.types".to_string(),
                what: format!("type {keyspace}.{name} has a field of an unknown type"),
            })
        };
        texts.keys().map(found).collect()
    }

    /// Rows of a table of `system_schema` about a keyspace, or about a table in it.
    fn of<'a>(
        &'a self,
        of: &'static str,
        keyspace: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = Reader<'a>> {
        let rows = self.rows.get(of).into_iter().flatten();
        let readers = rows.map(move |row| Reader { row, table: of });
        let named = if of.starts_with("view") { "view_name" } else { "table_name" };
        readers.filter(move |row| {
            let is = |column: &str, wanted: &str| row.text(column).is_ok_and(|it| it == wanted);
            is("keyspace_name", keyspace) && (name.is_empty() || is(named, name))
        })
    }

    /// Ids of columns with their names, and whether they are not dropped.
    fn ids(
        &self,
        keyspace: &str,
        name: &str,
    ) -> Result<Vec<(ColumnId, String, bool)>, DamagedSchema> {
        let id = |row: Reader<'_>| {
            let id = u16::try_from(row.int("column_id")?);
            let id = id.map_err(|_| row.damaged("an impossible column id".to_owned()))?;
            let live = row.optional("dropped_at").is_none();
            Ok((ColumnId(id.into()), row.text("column_name")?, live))
        };
        self.of("nereid_columns", keyspace, name).map(id).collect()
    }

    fn ty(&self, row: &Reader<'_>, types: &[UserType]) -> Result<Type, DamagedSchema> {
        let text = row.text("type")?;
        let resolve = |name: &str| types.iter().find(|user| user.name == name).cloned();
        Type::from_cql(&text, &resolve).ok_or_else(|| {
            let name = row.text("column_name").unwrap_or_default();
            row.damaged(format!("column {name} has the unknown type {text}"))
        })
    }
}

fn options(row: &Reader<'_>) -> Result<TableOptions, DamagedSchema> {
    let mut options = TableOptions::new();
    if row.optional("compression").is_some() {
        options.compression = row.map("compression")?;
    }
    if row.optional("bloom_filter_fp_chance").is_some() {
        options.bloom_filter_fp_chance = row.double("bloom_filter_fp_chance")?;
    }
    if row.optional("gc_grace_seconds").is_some() {
        options.gc_grace_seconds = row.int("gc_grace_seconds")?;
    }
    if row.optional("extensions").is_some() {
        options.extensions = read_extensions(row)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[(&str, &[u8])]) -> Row {
        values.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect()
    }

    fn column(name: &str, kind: &str, position: i32, ty: &str) -> Row {
        row(&[
            ("keyspace_name", b"ks"),
            ("table_name", b"t"),
            ("column_name", name.as_bytes()),
            ("kind", kind.as_bytes()),
            ("position", &position.to_be_bytes()),
            ("clustering_order", if kind == "clustering" { b"desc" } else { b"none" }),
            ("type", ty.as_bytes()),
        ])
    }

    fn foreign() -> SchemaRows {
        let mut rows = SchemaRows::default();
        let id = [7; 16];
        rows.rows.insert(
            "tables",
            vec![row(&[("keyspace_name", b"ks"), ("table_name", b"t"), ("id", &id)])],
        );
        rows.rows.insert(
            "columns",
            vec![
                column("v", "regular", -1, "frozen<u>"),
                column("c", "clustering", 0, "int"),
                column("p2", "partition_key", 1, "text"),
                column("p1", "partition_key", 0, "int"),
            ],
        );
        let mut dropped = column("old", "regular", -1, "int");
        dropped.insert("dropped_time".to_string(), 5i64.to_be_bytes().to_vec());
        rows.rows.insert("dropped_columns", vec![dropped]);
        let list = |text: &[u8]| {
            let mut out = Vec::new();
            model::value::write_collection([text].into_iter(), &mut out);
            out
        };
        rows.rows.insert(
            "types",
            vec![row(&[
                ("keyspace_name", b"ks"),
                ("type_name", b"u"),
                ("field_names", &list(b"a")),
                ("field_types", &list(b"int")),
            ])],
        );
        rows
    }

    #[test]
    fn rows_of_another_implementation_make_a_table() {
        let table = foreign().table("ks", "t").unwrap().unwrap();
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["p1", "p2", "c", "v"]);
        assert!(table.clustering()[0].reversed);
        assert!(matches!(table.column("v").unwrap().ty, Type::User(_)));
        assert_eq!((table.dropped[0].name.as_str(), table.dropped[0].dropped_at), ("old", 5000));
        assert_eq!(foreign().table("ks", "other").unwrap(), None);
    }

    #[test]
    fn views_have_columns_that_nobody_sees() {
        let mut rows = foreign();
        let name = |mut row: Row| {
            let name = row.remove("table_name").unwrap();
            row.insert("view_name".to_string(), name);
            row
        };
        let tables = rows.rows.remove("tables").unwrap();
        rows.rows.insert("views", tables.into_iter().map(name).collect());
        let hidden = name(column("h", "regular", -1, "empty"));
        rows.rows.insert("view_virtual_columns", vec![hidden]);
        let table = rows.table("ks", "t").unwrap().unwrap();
        assert_eq!(table.column("h").map(|column| &column.ty), Some(&Type::Empty));
        assert_eq!(table.columns.len(), 5);
    }

    #[test]
    fn tablets_are_in_order_of_tokens() {
        let (id, host) = (Uuid::from_bytes([7; 16]), Uuid::from_bytes([9; 16]));
        let tablet = |id: Uuid, last: i64, shard: i32| {
            let (mut tuple, mut list) = (Vec::new(), Vec::new());
            let shard = shard.to_be_bytes();
            let fields = [Some(host.as_bytes().as_slice()), Some(shard.as_slice())];
            model::value::write_tuple(fields.into_iter(), &mut tuple);
            model::value::write_collection([tuple.as_slice()].into_iter(), &mut list);
            row(&[
                ("table_id", id.as_bytes()),
                ("last_token", &last.to_be_bytes()),
                ("replicas", &list),
            ])
        };
        let mut rows = SchemaRows::default();
        let other = Uuid::from_bytes([8; 16]);
        rows.rows.insert("tablets", vec![tablet(id, 5, 1), tablet(other, 6, 2), tablet(id, -5, 0)]);
        let expected = [(-5, 0), (5, 1)]
            .map(|(last_token, shard)| StoredTablet { last_token, replicas: vec![(host, shard)] });
        assert_eq!(rows.tablets(id).unwrap(), expected);
        assert!(rows.tablets(Uuid::nil()).unwrap().is_empty());
        let broken = ("replicas", &b"\x00\x00\x00\x01\x00"[..]);
        let key = ("table_id", &id.as_bytes()[..]);
        rows.rows.insert("tablets", vec![row(&[key, ("last_token", &[0; 8]), broken])]);
        assert!(rows.tablets(id).is_err());
    }

    #[test]
    fn damage_is_named() {
        let mut rows = foreign();
        rows.rows.insert("columns", vec![column("v", "regular", -1, "nonsense")]);
        let error = rows.table("ks", "t").unwrap_err();
        assert!(error.to_string().contains("unknown type nonsense"), "{error}");
        rows.rows.insert("columns", Vec::new());
        assert!(rows.table("ks", "t").is_err());
    }
}
