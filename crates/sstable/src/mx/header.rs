//! The serialization header of a file: its columns by name and class, and its delta bases; and
//! [`Shape`], what those columns are in the schema of the table.
//!
//! Invariants
//!  - *file-order*: columns of a [`Shape`] stand as cells stand in a row: atomic ones first, then
//!    complex ones, each by name.
//!  - *by-id*: of the columns that the table has, each stands once among those by id.

use crate::mx::layout::{Bases, DELETION_TIME_EPOCH, NO_DELETION_TIME, TIMESTAMP_EPOCH};
use model::{Column, ColumnId, ColumnKind, TableSchema, Type};
use mutation::row::Run;
use std::rc::Rc;
use stdx::{Cursor, Damaged, Put};

const CLASSES: &str = "org.apache.cassandra.db.marshal.";

/// Part 3 of Statistics.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SerializationHeader {
    /// What times are counted from.
    pub bases: Bases,
    /// Class of the partition key; a `CompositeType` for several columns.
    pub partition_key: String,
    /// Classes of the clustering columns, `ReversedType` where descending.
    pub clustering: Vec<String>,
    /// Names and classes.
    pub statics: Vec<(String, String)>,
    /// Names and classes.
    pub regulars: Vec<(String, String)>,
}

impl SerializationHeader {
    /// The header of a file that holds `schema` as it is now.
    ///
    /// A base that no version that we write can hold becomes the greatest signed 32-bit number,
    /// which is "no deletion time" too: with another one Cassandra's tools do not open the file.
    pub fn of_schema(schema: &TableSchema, bases: Bases) -> SerializationHeader {
        let deletion_time = bases.deletion_time.clamp(0, NO_DELETION_TIME as i64);
        let bases = Bases { deletion_time, ..bases };
        debug_assert!(!schema.partition_key().is_empty(), "a table without a partition key");
        let key = schema.partition_key();
        let classes: Vec<String> = key.iter().map(|column| column.ty.to_class_name()).collect();
        let partition_key = match classes.as_slice() {
            [one] => one.clone(),
            many => format!("{CLASSES}CompositeType({})", many.join(",")),
        };
        SerializationHeader {
            bases,
            partition_key,
            clustering: schema.clustering().iter().map(clustering_class).collect(),
            statics: named_classes(schema.statics()),
            regulars: named_classes(schema.regulars()),
        }
    }

    /// Appends the serialized form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_vint(self.bases.timestamp.wrapping_sub(TIMESTAMP_EPOCH) as u64);
        let time = self.bases.deletion_time.wrapping_sub(DELETION_TIME_EPOCH as i64);
        out.put_vint(time as u64);
        let in_order = |columns: &[(String, String)]| {
            columns.iter().enumerate().all(|(at, one)| columns[..at].iter().all(|b| b.0 != one.0))
        };
        debug_assert!(in_order(&self.statics) && in_order(&self.regulars), "file-order: twice");
        out.put_vint(self.bases.ttl as i64 as u64);
        out.put_vint_bytes(self.partition_key.as_bytes());
        out.put_vint(self.clustering.len() as u64);
        self.clustering.iter().for_each(|class| out.put_vint_bytes(class.as_bytes()));
        for columns in [&self.statics, &self.regulars] {
            out.put_vint(columns.len() as u64);
            for (name, class) in columns {
                out.put_vint_bytes(name.as_bytes());
                out.put_vint_bytes(class.as_bytes());
            }
        }
    }

    /// Reads the serialized form.
    pub fn parse(bytes: &[u8]) -> Result<SerializationHeader, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let timestamp = cursor.vint("minimum timestamp cut short")? as i64;
        let deletion_time = cursor.vint("minimum deletion time cut short")? as i64;
        let ttl = cursor.vint("minimum ttl cut short")? as i32;
        let bases = Bases {
            timestamp: TIMESTAMP_EPOCH.wrapping_add(timestamp),
            deletion_time: unwrapped(deletion_time.wrapping_add(DELETION_TIME_EPOCH as i64)),
            ttl,
        };
        let partition_key = text(&mut cursor)?;
        let count = cursor.vint("clustering type count cut short")?;
        let mut clustering = Vec::new();
        for _ in 0..count {
            clustering.push(text(&mut cursor)?);
        }
        let statics = read_columns(&mut cursor)?;
        let regulars = read_columns(&mut cursor)?;
        Ok(SerializationHeader { bases, partition_key, clustering, statics, regulars })
    }

    /// The classes of the partition key's columns.
    pub fn partition_key_classes(&self) -> Vec<&str> {
        let inner = self.partition_key.strip_prefix(CLASSES).unwrap_or(&self.partition_key);
        let inner = inner.strip_prefix("CompositeType(").and_then(|rest| rest.strip_suffix(')'));
        match inner {
            Some(inner) => split_arguments(inner),
            None => vec![&self.partition_key],
        }
    }
}

impl SerializationHeader {
    /// Whether every column of a file from elsewhere is one of `schema`, of a type whose values
    /// are values of the column. The error names the column.
    pub fn check_types(&self, schema: &TableSchema) -> Result<(), String> {
        let key = self.partition_key_classes();
        let (ours, theirs) = (schema.partition_key(), key.len());
        if ours.len() != theirs {
            let ours = ours.len();
            return Err(format!(
                "the file has {theirs} partition key columns and the table {ours}"
            ));
        }
        for (class, column) in key.into_iter().zip(ours) {
            check_type(class, column, |now, before| now.is_value_compatible_with(before))?;
        }
        let (ours, theirs) = (schema.clustering(), self.clustering.len());
        if ours.len() != theirs {
            let ours = ours.len();
            return Err(format!("the file has {theirs} clustering columns and the table {ours}"));
        }
        for (class, column) in self.clustering.iter().zip(ours) {
            check_type(class, column, |now, before| now.is_order_compatible_with(before))?;
            if parse_class(class, &column.name)?.1 != column.reversed {
                let name = &column.name;
                return Err(format!("column {name} is in the other order in the file"));
            }
        }
        for (name, class) in self.statics.iter().chain(&self.regulars) {
            // Whether it is there at all, or was dropped, is seen when the file is opened.
            let Some(column) = schema.column(name) else { continue };
            if schema.dropped.iter().all(|dropped| dropped.name != *name) {
                check_type(class, column, |now, before| now.is_value_compatible_with(before))?;
            }
        }
        Ok(())
    }
}

fn check_type(class: &str, column: &Column, fits: fn(&Type, &Type) -> bool) -> Result<(), String> {
    let (ty, _) = parse_class(class, &column.name)?;
    if fits(&column.ty, &ty) {
        return Ok(());
    }
    let (file, table) = (ty.to_cql(), column.ty.to_cql());
    Err(format!("column {} is {file} in the file and {table} in the table", column.name))
}

/// Where a time beyond 32 signed bits was written as a signed difference, the time itself.
fn unwrapped(seconds: i64) -> i64 {
    match seconds {
        0.. => seconds,
        _ => seconds as u32 as i64,
    }
}

/// Splits at the commas outside of parentheses.
fn split_arguments(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .collect()
}

fn clustering_class(column: &Column) -> String {
    let class = column.ty.to_class_name();
    match column.reversed {
        true => format!("{CLASSES}ReversedType({class})"),
        false => class,
    }
}

fn named_classes(columns: &[Column]) -> Vec<(String, String)> {
    let mut columns: Vec<&Column> = columns.iter().collect();
    columns.sort_by_key(|column| (column.ty.is_multi_cell(), column.name.as_bytes()));
    columns.iter().map(|column| (column.name.clone(), column.ty.to_class_name())).collect()
}

fn text(cursor: &mut Cursor<'_>) -> Result<String, Damaged> {
    let bytes = cursor.vint_bytes("serialization header cut short")?;
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| cursor.damaged("a name or class that is not UTF-8"))?;
    Ok(text.to_string())
}

fn read_columns(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String)>, Damaged> {
    let count = cursor.vint("column count cut short")?;
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push((text(cursor)?, text(cursor)?));
    }
    Ok(columns)
}

/// A static or regular column of a file.
#[derive(Clone, Debug)]
pub struct FileColumn {
    /// Its name.
    pub name: String,
    /// What it is now; `None` when it was dropped since.
    pub id: Option<ColumnId>,
    /// Cells that are not newer belong to a dropped column of that name.
    pub dropped_at: Option<i64>,
    /// Length of every value, where fixed. Values of elements always carry their length.
    pub fixed: Option<usize>,
    /// Stored element by element.
    pub complex: bool,
    /// A counter.
    pub counter: bool,
    /// Its type in the file.
    pub ty: Type,
}

/// The static or the regular columns of a file, in *file-order*.
#[derive(Clone, Debug)]
pub struct FileColumns {
    /// All of them.
    pub list: Vec<FileColumn>,
    /// Indices into `list` of those that have an id, by id.
    pub by_id: Vec<(ColumnId, u32)>,
    /// Whether file order is id order.
    pub in_id_order: bool,
    /// Whether all of them are columns of the table whose values stay as they are: no collection,
    /// no counter, none that was dropped.
    pub simple: bool,
    /// Whether both is so.
    pub plain: bool,
    /// Of such columns, if none has values of a fixed length: rows that are copied as a whole.
    pub run: Option<Run>,
}

/// How rows of a file decode into rows of a table.
#[derive(Clone, Debug)]
pub struct Shape {
    /// What times are counted from.
    pub bases: Bases,
    /// Per clustering column, the length of every value where fixed.
    pub clustering: Vec<Option<usize>>,
    /// The static row.
    pub statics: FileColumns,
    /// Every other row.
    pub regulars: FileColumns,
}

impl Shape {
    /// Maps the columns of a file to those of `schema`. The error names the column.
    pub fn new(header: &SerializationHeader, schema: &TableSchema) -> Result<Shape, String> {
        if header.clustering.len() != schema.clustering_count {
            return Err(format!(
                "the file has {} clustering columns and the table {}",
                header.clustering.len(),
                schema.clustering_count
            ));
        }
        let mut clustering = Vec::new();
        for (class, column) in header.clustering.iter().zip(schema.clustering()) {
            let (ty, _) = parse_class(class, &column.name)?;
            check_compatible(&ty, column)?;
            clustering.push(ty.fixed_length());
        }
        Ok(Shape {
            bases: header.bases,
            clustering,
            statics: map_columns(&header.statics, schema, ColumnKind::Static)?,
            regulars: map_columns(&header.regulars, schema, ColumnKind::Regular)?,
        })
    }
}

/// How the rows of a file map to a version of its table's schema.
#[derive(Debug)]
pub struct Mapping {
    /// The schema.
    pub schema: Rc<TableSchema>,
    /// The columns of the file in it.
    pub shape: Shape,
}

fn map_columns(
    columns: &[(String, String)],
    schema: &TableSchema,
    kind: ColumnKind,
) -> Result<FileColumns, String> {
    let mut list = Vec::with_capacity(columns.len());
    for (name, class) in columns {
        list.push(map_column(name, parse_class(class, name)?.0, schema, kind)?);
    }
    list.sort_by(|a, b| (a.complex, a.name.as_bytes()).cmp(&(b.complex, b.name.as_bytes())));
    if let Some(pair) = list.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(format!("column {} stands twice in the file", pair[0].name));
    }
    let ids = list.iter().enumerate();
    let mut by_id: Vec<(ColumnId, u32)> =
        ids.filter_map(|(index, column)| Some((column.id?, index as u32))).collect();
    let in_id_order = by_id.is_sorted();
    by_id.sort();
    let is_simple = |column: &FileColumn| {
        column.id.is_some() && column.dropped_at.is_none() && !column.complex && !column.counter
    };
    let simple = list.iter().all(is_simple);
    let plain = in_id_order && simple;
    let with_lengths = plain && list.iter().all(|column| column.fixed.is_none());
    let run = if with_lengths { Run::of(by_id.iter().map(|(id, _)| *id)) } else { None };
    debug_assert!(by_id.is_sorted_by(|a, b| a.0 < b.0), "by-id: {by_id:?}");
    debug_assert!(!simple || by_id.len() == list.len(), "by-id: a simple column without an id");
    debug_assert!(run.is_none() || plain, "by-id: a run of columns that are not plain");
    Ok(FileColumns { list, by_id, in_id_order, simple, plain, run })
}

fn map_column(
    name: &str,
    ty: Type,
    schema: &TableSchema,
    kind: ColumnKind,
) -> Result<FileColumn, String> {
    let current = schema.column(name).filter(|column| column.kind == kind);
    let dropped = schema.dropped.iter().filter(|dropped| dropped.name == name);
    let dropped_at = dropped.map(|dropped| dropped.dropped_at).max();
    let complex = ty.is_multi_cell();
    // A column of that name and another structure must be the dropped one.
    let current = match current {
        Some(column) if dropped_at.is_none() => {
            check_compatible(&ty, column)?;
            Some(column)
        }
        Some(column) => check_compatible(&ty, column).ok().map(|()| column),
        None if dropped_at.is_none() => {
            return Err(format!("column {name} of the file is not in the table"));
        }
        None => None,
    };
    Ok(FileColumn {
        name: name.to_string(),
        id: current.map(|column| column.id),
        dropped_at,
        fixed: if complex { None } else { ty.fixed_length() },
        complex,
        counter: ty == Type::Counter,
        ty,
    })
}

/// The type of a class, and whether it is reversed.
fn parse_class(class: &str, column: &str) -> Result<(Type, bool), String> {
    let parsed = Type::from_class_name(class);
    parsed.ok_or_else(|| format!("column {column} has the unknown class {class}"))
}

fn check_compatible(ty: &Type, column: &Column) -> Result<(), String> {
    let now = &column.ty;
    let same_length = now.fixed_length().is_none() || now.fixed_length() == ty.fixed_length();
    let same_structure = now.is_multi_cell() == ty.is_multi_cell()
        && (*now == Type::Counter) == (*ty == Type::Counter);
    if same_length && same_structure {
        return Ok(());
    }
    let (file, table) = (ty.to_class_name(), now.to_class_name());
    Err(format!("column {} is {file} in the file and {table} in the table", column.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_deletion_time_is_the_greatest_of_32_bits() {
        let bases = |deletion_time| Bases { timestamp: TIMESTAMP_EPOCH, deletion_time, ttl: 0 };
        let start = |bases| {
            let schema = schema_of(&["Int32Type"]);
            let mut out = Vec::new();
            SerializationHeader::of_schema(&schema, bases).put(&mut out);
            out
        };
        // The differences to the epochs: nothing, and i32::MAX - 1442880000.
        for none in [i32::MAX as i64, u32::MAX as i64, i64::MAX] {
            assert_eq!(start(bases(none))[..6], [0, 0xf0, 0x29, 0xff, 0x65, 0xff]);
        }
        assert_eq!(start(Bases::EPOCH)[..3], [0, 0, 0]);
        // A time beyond 2038 of a version with unsigned times, as a signed difference.
        let mut wide = vec![0];
        wide.put_vint((3_000_000_000u32.wrapping_sub(DELETION_TIME_EPOCH as u32)) as i32 as u64);
        wide.extend_from_slice(&start(Bases::EPOCH)[2..]);
        let read = SerializationHeader::parse(&wide).unwrap();
        assert_eq!(read.bases.deletion_time, 3_000_000_000);
    }

    #[test]
    fn types_of_files_from_elsewhere() {
        let check = |file: &[&str], table: &[&str], error: &str| {
            let header = SerializationHeader::of_schema(&schema_of(file), Bases::EPOCH);
            let result = header.check_types(&schema_of(table));
            assert_eq!(result.err().unwrap_or_default(), error);
        };
        check(&["Int32Type"], &["Int32Type"], "");
        check(&["AsciiType"], &["UTF8Type"], "");
        check(
            &["Int32Type"],
            &["FloatType"],
            "column r0 is int in the file and float in the table",
        );
        let list = "ListType(org.apache.cassandra.db.marshal.Int32Type)";
        let text = format!("column r0 is {} in the file and int in the table", "list<int>");
        check(&[list], &["Int32Type"], &text);
    }

    /// A table with regular columns `r0`, `r1` and so on of these classes.
    fn schema_of(classes: &[&str]) -> TableSchema {
        let classes = classes.iter().enumerate();
        let regulars =
            classes.map(|(index, class)| (format!("r{index}"), format!("{CLASSES}{class}")));
        let header = SerializationHeader {
            bases: Bases::EPOCH,
            partition_key: format!("{CLASSES}Int32Type"),
            clustering: Vec::new(),
            statics: Vec::new(),
            regulars: regulars.collect(),
        };
        crate::testing::schema_of_header(&header).unwrap()
    }

    #[test]
    fn headers_round_trip_and_truncations_are_damage() {
        let header = SerializationHeader {
            bases: Bases { timestamp: 5, deletion_time: i32::MAX as i64, ttl: 0 },
            partition_key: format!("{CLASSES}CompositeType({CLASSES}A(x,y),{CLASSES}B)"),
            clustering: vec!["a".into(), "b".into()],
            statics: vec![("s".into(), "c".into())],
            regulars: vec![("r".into(), "d".into()), ("t".into(), "e".into())],
        };
        let mut out = Vec::new();
        header.put(&mut out);
        assert_eq!(SerializationHeader::parse(&out).unwrap(), header);
        for cut in 0..out.len() {
            assert!(SerializationHeader::parse(&out[..cut]).is_err(), "{cut}");
        }
        let classes = header.partition_key_classes();
        assert_eq!(classes, [format!("{CLASSES}A(x,y)"), format!("{CLASSES}B")]);
    }
}
