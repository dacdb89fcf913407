//! Where a row says when it expires, and when that is.
//!
//! A table of CQL has a column for it. Items of the DynamoDB API have an attribute, which holds a
//! number of seconds: a column, as keys are, or an element of the map of attributes, whose value is
//! a byte for its type and a decimal. An attribute that is no number says nothing.

use model::key::{clustering_components, split_partition_key};
use model::schema::TableOptions;
use model::value::decimal::Decimal;
use model::{Column, ColumnId, ColumnKind, TableSchema, Type, value};
use mutation::page::{ColumnForm, PagePartition, PageRow};

/// The byte before the value of an attribute that is a number.
const NUMBER: u8 = 3;

/// Where a row of a table says when it expires.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock<'s> {
    /// A column of CQL.
    Column(&'s Column),
    /// An attribute that is a column.
    Attribute(&'s Column),
    /// An attribute in the map of that column.
    Element(&'s Column, &'s str),
}

impl<'s> Clock<'s> {
    /// That of a table whose rows expire.
    pub(super) fn of(table: &'s TableSchema) -> Option<Clock<'s>> {
        let options = &table.options;
        if let Some(name) = options.extension(TableOptions::ROW_TTL_COLUMN) {
            return table.column(name).map(Clock::Column);
        }
        let name = options.extension(TableOptions::ITEM_TTL_ATTRIBUTE)?;
        if let Some(column) = table.column(name).filter(|it| it.kind != ColumnKind::Static) {
            return Some(Clock::Attribute(column));
        }
        let map = table.regulars().iter().find(|column| is_attributes(column))?;
        Some(Clock::Element(map, name))
    }

    /// The columns to read.
    pub(super) fn columns(self) -> Vec<(ColumnId, ColumnForm)> {
        match self {
            Clock::Column(column) | Clock::Attribute(column) | Clock::Element(column, _) => {
                match column.kind {
                    ColumnKind::Regular => vec![(column.id, ColumnForm::Value)],
                    _ => Vec::new(),
                }
            }
        }
    }

    /// When a row expires, seconds since the epoch.
    pub(super) fn at(
        self,
        table: &TableSchema,
        partition: &PagePartition<'_>,
        row: &PageRow<'_>,
    ) -> Option<i64> {
        let read = || row.columns().next().and_then(|column| column.value);
        match self {
            Clock::Column(column) => expiry_secs(&column.ty, read()?),
            Clock::Element(_, name) => {
                let mut entries = value::map_entries(read()?);
                let (_, stored) = entries.find(|(known, _)| *known == name.as_bytes())?;
                match stored.split_first()? {
                    (&NUMBER, decimal) => expiry_secs(&Type::Decimal, decimal),
                    _ => None,
                }
            }
            Clock::Attribute(column) => {
                let is = |other: &Column| other.id == column.id;
                let at = |columns: &[Column]| columns.iter().position(is);
                let bytes = match column.kind {
                    ColumnKind::PartitionKey => {
                        let count = table.partition_key_count;
                        let parts = split_partition_key(partition.key(), count).ok()?;
                        *parts.get(at(table.partition_key())?)?
                    }
                    ColumnKind::Clustering => {
                        clustering_components(row.clustering()).nth(at(table.clustering())?)?
                    }
                    ColumnKind::Static | ColumnKind::Regular => read()?,
                };
                match column.ty {
                    Type::Decimal => expiry_secs(&column.ty, bytes),
                    _ => None,
                }
            }
        }
    }
}

/// Whether a column is the map of an item's attributes.
fn is_attributes(column: &Column) -> bool {
    match &column.ty {
        Type::Map { key, value, frozen } => !frozen && **key == Type::Text && **value == Type::Blob,
        _ => false,
    }
}

fn expiry_secs(ty: &Type, bytes: &[u8]) -> Option<i64> {
    match ty {
        Type::Int => value::decode_i32(bytes).map(i64::from),
        Type::BigInt => value::decode_i64(bytes),
        Type::Timestamp => value::decode_i64(bytes).map(|millis| millis.div_euclid(1000)),
        Type::Decimal => Decimal::decode(bytes)?.to_integer()?.try_into().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_seconds_or_milliseconds() {
        let check = |ty: Type, bytes: &[u8], expected: Option<i64>| {
            assert_eq!(expiry_secs(&ty, bytes), expected, "{ty:?}");
        };
        check(Type::Int, &7i32.to_be_bytes(), Some(7));
        check(Type::BigInt, &(1i64 << 40).to_be_bytes(), Some(1 << 40));
        check(Type::Timestamp, &1999i64.to_be_bytes(), Some(1));
        check(Type::Timestamp, &(-1i64).to_be_bytes(), Some(-1));
        check(Type::BigInt, b"", None);
        check(Type::Text, b"12345678", None);
        for (text, expected) in [
            ("1700000000", Some(1_700_000_000)),
            ("17e8", Some(1_700_000_000)),
            ("1700000000.75", Some(1_700_000_000)),
            ("1e120", None),
            ("1e-120", Some(0)),
        ] {
            check(Type::Decimal, &Decimal::parse(text).unwrap().encode(), expected);
        }
    }

    #[test]
    fn a_clock_is_a_column_or_an_element() {
        let map = || {
            let (key, value) = (Box::new(Type::Text), Box::new(Type::Blob));
            Type::Map { key, value, frozen: false }
        };
        let clock = |extension: &str, name: &str| {
            let mut options = TableOptions::new();
            options.set_extension(extension, Some(name));
            let builder = TableSchema::builder("k", "t", model::TableId::from_u128(1));
            let builder = builder.partition_key("p", Type::Decimal).clustering("c", Type::Text);
            let builder = builder.regular("m", map()).regular("v", Type::BigInt);
            let table = builder.options(options).build().unwrap();
            Clock::of(&table).map(|clock| format!("{clock:?}").chars().take(7).collect::<String>())
        };
        let (column, item) = (TableOptions::ROW_TTL_COLUMN, TableOptions::ITEM_TTL_ATTRIBUTE);
        assert_eq!(clock(column, "v").as_deref(), Some("Column("));
        assert_eq!(clock(column, "x"), None);
        assert_eq!(clock(item, "p").as_deref(), Some("Attribu"));
        assert_eq!(clock(item, "x").as_deref(), Some("Element"));
        assert_eq!(clock("other", "x"), None);
    }

    proptest! {
        #[test]
        fn foreign_bytes_do_not_panic(bytes: Vec<u8>) {
            for ty in [Type::Int, Type::BigInt, Type::Timestamp, Type::Decimal] {
                let _ = expiry_secs(&ty, &bytes);
            }
        }
    }
}
