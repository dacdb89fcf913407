//! The schema that files tell of themselves: columns from the serialization header of
//! Statistics.db; names of key columns, of the table and of its keyspace from Scylla.db where the
//! file has one that says so.
//!
//! Invariants
//!  - *reads-its-files*: every file whose header was given can be read with the schema.
//!
//! It says nothing of options: those of a new table stand in.

use crate::mx::header::SerializationHeader;
use crate::scylla::{Metadata, SchemaPart, read_schema_part};
use model::{TableSchema, Type, Uuid};

/// The keyspace of a table whose files do not name it.
pub const UNKNOWN_KEYSPACE: &str = "unknown_keyspace";
/// A table whose files do not name it.
pub const UNKNOWN_TABLE: &str = "my_table";

/// The schema of a table that the files with these headers belong to. Key columns without a name
/// are `$pk0`, `$pk1` and `$ck0`, `$ck1`. The error says which class or column is wrong.
pub fn schema_of(files: &[(&SerializationHeader, &Metadata)]) -> Result<TableSchema, String> {
    let (header, metadata) = files.first().ok_or("no file tells a schema")?;
    let part = match metadata.schema.is_empty() {
        true => SchemaPart::default(),
        false => read_schema_part(&metadata.schema).map_err(|error| error.to_string())?,
    };
    let or = |name: &str, other: &str| match name {
        "" => other.to_string(),
        name => name.to_string(),
    };
    let (keyspace, table) = (or(&part.keyspace, UNKNOWN_KEYSPACE), or(&part.table, UNKNOWN_TABLE));
    let mut builder = TableSchema::builder(&keyspace, &table, part.id.unwrap_or(Uuid::nil()));
    let keys = header.partition_key_classes();
    let names = key_names(&part, 1, keys.len(), "$pk");
    for (class, name) in keys.iter().zip(&names) {
        builder = builder.partition_key(name, parse(class, name)?.0);
    }
    let names = key_names(&part, 2, header.clustering.len(), "$ck");
    for (class, name) in header.clustering.iter().zip(&names) {
        builder = match parse(class, name)? {
            (ty, false) => builder.clustering(name, ty),
            (ty, true) => builder.clustering_descending(name, ty),
        };
    }
    let statics = union(files, |header| &header.statics);
    for (name, class) in &statics {
        builder = builder.static_column(name, parse(class, name)?.0);
    }
    let regulars = union(files, |header| &header.regulars);
    for (name, class) in &regulars {
        builder = builder.regular(name, parse(class, name)?.0);
    }
    let schema = builder.build().map_err(|invalid| invalid.0)?;
    debug_assert!(
        schema.clustering_count == header.clustering.len(),
        "reads-its-files: {} clustering columns",
        schema.clustering_count
    );
    Ok(schema)
}

fn parse(class: &str, column: &str) -> Result<(Type, bool), String> {
    Type::from_class_name(class)
        .ok_or_else(|| format!("column {column} has the unknown class {class}"))
}

/// The names of the columns of a kind, if the file has one for each.
fn key_names(part: &SchemaPart, kind: u8, count: usize, prefix: &str) -> Vec<String> {
    let known = part.columns.iter().filter(|column| column.kind == kind);
    debug_assert!(kind == 1 || kind == 2, "a key column of kind {kind}");
    let known: Vec<String> = known.map(|column| column.name.clone()).collect();
    match known.len() == count {
        true => known,
        false => (0..count).map(|index| format!("{prefix}{index}")).collect(),
    }
}

/// Names and classes of columns, each once, of all headers.
fn union<'a>(
    files: &[(&'a SerializationHeader, &Metadata)],
    columns: impl Fn(&'a SerializationHeader) -> &'a Vec<(String, String)>,
) -> Vec<&'a (String, String)> {
    debug_assert!(!files.is_empty(), "reads-its-files: of no file");
    let mut out: Vec<&(String, String)> = Vec::new();
    for column in files.iter().flat_map(|(header, _)| columns(header)) {
        if out.iter().all(|known| known.0 != column.0) {
            out.push(column);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mx::layout::Bases;
    use crate::scylla::schema_part;

    fn class(name: &str) -> String {
        format!("org.apache.cassandra.db.marshal.{name}")
    }

    fn header(regulars: &[(&str, &str)]) -> SerializationHeader {
        let (int, text) = (class("Int32Type"), class("UTF8Type"));
        SerializationHeader {
            bases: Bases::EPOCH,
            partition_key: class(&format!("CompositeType({int},{text})")),
            clustering: vec![class(&format!("ReversedType({int})"))],
            statics: vec![("s".to_string(), text)],
            regulars: regulars.iter().map(|(n, c)| (n.to_string(), class(c))).collect(),
        }
    }

    #[test]
    fn a_header_alone_lacks_names_of_keys() {
        let (one, two) = (header(&[("a", "Int32Type")]), header(&[("b", "UTF8Type")]));
        let none = Metadata::default();
        let schema = schema_of(&[(&one, &none), (&two, &none)]).expect("a good header");
        let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["$pk0", "$pk1", "$ck0", "s", "a", "b"]);
        assert!(schema.clustering()[0].reversed);
        assert_eq!(
            (schema.keyspace.as_str(), schema.name.as_str()),
            (UNKNOWN_KEYSPACE, "my_table")
        );
    }

    #[test]
    fn scylla_db_has_the_names() {
        let id = Uuid::from_bytes([7; 16]);
        let table = TableSchema::builder("ks", "t", id)
            .partition_key("p", Type::Int)
            .partition_key("q", Type::Text)
            .clustering_descending("c", Type::Int)
            .static_column("s", Type::Text)
            .regular("a", Type::Int)
            .build()
            .expect("a good table");
        let metadata = Metadata { schema: schema_part(&table), ..Metadata::default() };
        let header = SerializationHeader::of_schema(&table, Bases::EPOCH);
        let schema = schema_of(&[(&header, &metadata)]).expect("a good header");
        assert_eq!(schema.columns, {
            let mut columns = table.columns.clone();
            columns.iter_mut().zip(&schema.columns).for_each(|(a, b)| a.id = b.id);
            columns
        });
        assert_eq!((schema.id, schema.keyspace.as_str(), schema.name.as_str()), (id, "ks", "t"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = schema_of(&[(&header(&[("a", "(")]), &Metadata::default())]).unwrap_err();
        assert!(error.contains("column a"), "{error}");
        assert!(schema_of(&[]).is_err());
    }
}
