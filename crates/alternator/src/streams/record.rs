//! What rows of a log tell of items. Pure.
//!
//! The log of a table with a stream has images of each item before and after each change
//! (`derived::log`), whatever the stream shows: so whether an item came, changed or went is known
//! and not guessed.
//!
//! Invariants
//!  - *a-change-a-record*: a record is of one item in one set, and tells of a change: an item that
//!    is as it was has none, nor has one that was not there and is not.
//!  - *whole-sets*: records are made of whole sets only.

use super::history::View;
use super::sequence::Sequence;
use crate::error::Error;
use crate::json::Object;
use crate::key::value_of;
use crate::table::{ATTRIBUTES, Table};
use crate::value::{Map, item_size, stored, write_attributes};
use model::key::clustering_components;
use model::schema::cdc;
use model::{ColumnId, TableSchema, Uuid, value};
use mutation::page::{ColumnForm, PageRow};

/// Operations of a log (docs/derived.md).
const BEFORE: i8 = 0;
const AFTER: i8 = 9;
const EXPIRED: [i8; 2] = [-3, -4];

/// An item that changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    pub(super) key: Map,
    pub(super) before: Option<Map>,
    pub(super) after: Option<Map>,
    /// Whether it went because its time was over.
    pub(super) expired: bool,
}

impl Change {
    fn name(&self) -> Option<&'static str> {
        match (&self.before, &self.after) {
            (None, Some(_)) => Some("INSERT"),
            (Some(_), None) => Some("REMOVE"),
            (Some(before), Some(after)) if before != after => Some("MODIFY"),
            _ => None,
        }
    }
}

/// The changes of a set, as far as its rows were read.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) uuid: Uuid,
    pub(super) is_whole: bool,
    changes: Vec<Change>,
}

impl Set {
    pub(super) fn new(uuid: Uuid) -> Set {
        Set { uuid, is_whole: false, changes: Vec::new() }
    }

    /// The next row of it.
    pub(super) fn take(&mut self, row: LogRow) {
        let LogRow { operation, is_last, key, item } = row;
        self.is_whole |= is_last;
        let at = match self.changes.iter().position(|change| change.key == key) {
            Some(at) => at,
            None => {
                self.changes.push(Change { key, ..Change::default() });
                self.changes.len() - 1
            }
        };
        let change = &mut self.changes[at];
        match operation {
            BEFORE => change.before = Some(item),
            AFTER => change.after = Some(item),
            other => change.expired |= EXPIRED.contains(&other),
        }
    }

    /// Its records, with their numbers (*a-change-a-record*).
    pub(super) fn records(&self) -> impl Iterator<Item = (Sequence, &'static str, &Change)> {
        let numbered = self.changes.iter().enumerate();
        numbered
            .filter_map(|(at, change)| Some((Sequence::of(self.uuid, at)?, change.name()?, change)))
    }
}

/// A row of a log.
#[derive(Debug)]
pub(super) struct LogRow {
    operation: i8,
    is_last: bool,
    key: Map,
    item: Map,
}

/// The columns of a log that are read.
pub(super) fn columns(table: &Table, log: &TableSchema) -> Vec<(ColumnId, ColumnForm)> {
    let is_wanted = |name: &str| {
        name == cdc::OPERATION
            || name == cdc::END_OF_BATCH
            || table.entry.schema.column(name).is_some()
    };
    let wanted = log.regulars().iter().filter(|column| is_wanted(&column.name));
    wanted.map(|column| (column.id, ColumnForm::Value)).collect()
}

/// The set that a row is of, and the row.
pub(super) fn read(
    table: &Table,
    (log, columns): (&TableSchema, &[(ColumnId, ColumnForm)]),
    row: &PageRow<'_>,
) -> Result<(Uuid, LogRow), Error> {
    let damaged = || Error::internal(format!("a row of the log of {} is damaged", table.name));
    let time = clustering_components(row.clustering()).next().ok_or_else(damaged)?;
    let uuid = Uuid::from_slice(time).map_err(|_| damaged())?;
    let (mut operation, mut is_last) = (None, false);
    let (mut key, mut item) = (Map::new(), Map::new());
    for ((id, _), found) in columns.iter().zip(row.columns()) {
        let Some(bytes) = found.value else { continue };
        let column = log.column_by_id(*id).ok_or_else(damaged)?;
        match column.name.as_str() {
            cdc::OPERATION => operation = bytes.first().map(|byte| *byte as i8),
            cdc::END_OF_BATCH => is_last = bytes.first().is_some_and(|byte| *byte != 0),
            ATTRIBUTES => {
                for (name, bytes) in value::map_entries(bytes) {
                    let name = std::str::from_utf8(name).map_err(|_| damaged())?;
                    item.insert(name.to_owned(), stored::decode(bytes)?);
                }
            }
            name => {
                let value = value_of(&column.ty, bytes);
                if table.is_key(name) {
                    key.insert(name.to_owned(), value.clone());
                }
                item.insert(name.to_owned(), value);
            }
        }
    }
    Ok((uuid, LogRow { operation: operation.ok_or_else(damaged)?, is_last, key, item }))
}

/// Appends a record.
pub(super) fn write(
    (number, name, change): (Sequence, &str, &Change),
    (view, region): (View, &str),
    out: &mut String,
) {
    let mut record = Object::open(out);
    record.string("eventID", &format!("{:032x}", number.0)).string("eventName", name);
    record.string("eventVersion", "1.1").string("eventSource", "aws:dynamodb");
    record.string("awsRegion", region);
    let mut item = Object::open(record.member("dynamodb"));
    let seconds = number.micros().div_euclid(1_000_000).to_string();
    item.json("ApproximateCreationDateTime", &seconds);
    write_attributes(&change.key, item.member("Keys"));
    let mut bytes = item_size(&change.key);
    let images = [
        ("NewImage", change.after.as_ref().filter(|_| view.shows_new())),
        ("OldImage", change.before.as_ref().filter(|_| view.shows_old())),
    ];
    for (name, image) in images {
        if let Some(image) = image {
            write_attributes(image, item.member(name));
            bytes += item_size(image);
        }
    }
    item.string("SequenceNumber", &number.to_string()).json("SizeBytes", &bytes.to_string());
    item.string("StreamViewType", view.name());
    item.close();
    if change.expired && change.after.is_none() {
        let mut who = Object::open(record.member("userIdentity"));
        who.string("Type", "Service").string("PrincipalId", "dynamodb.amazonaws.com");
        who.close();
    }
    record.close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(name, text)| (name.to_string(), Value::S(text.to_string()))).collect()
    }

    /// An operation, a key, and the other attributes.
    type Told<'t> = (i8, &'t str, &'t [(&'t str, &'t str)]);

    fn told(rows: &[Told<'_>]) -> Vec<String> {
        let mut set = Set::new(Sequence::at(7_000_000).uuid());
        for (at, (operation, key, item)) in rows.iter().enumerate() {
            assert!(!set.is_whole, "whole-sets");
            let is_last = at + 1 == rows.len();
            let (key, item) = (map(&[("p", key)]), map(item));
            set.take(LogRow { operation: *operation, is_last, key, item });
        }
        assert!(set.is_whole);
        let name = |(number, name, change): (Sequence, &str, &Change)| {
            let Value::S(key) = &change.key["p"] else { panic!("{change:?}") };
            let ordinal = number.0 & 0x3fff;
            format!("{ordinal} {name} {key}{}", if change.expired { " expired" } else { "" })
        };
        set.records().map(name).collect()
    }

    #[test]
    fn images_tell_what_happened() {
        let (a, b) = (&[("x", "a")][..], &[("x", "b")][..]);
        assert_eq!(told(&[(2, "k", &[]), (9, "k", a)]), ["0 INSERT k"]);
        assert_eq!(told(&[(0, "k", a), (1, "k", &[]), (9, "k", b)]), ["0 MODIFY k"]);
        assert_eq!(told(&[(0, "k", a), (1, "k", &[]), (9, "k", a)]), Vec::<String>::new());
        assert_eq!(told(&[(0, "k", a), (3, "k", &[])]), ["0 REMOVE k"]);
        assert_eq!(told(&[(0, "k", a), (-3, "k", &[])]), ["0 REMOVE k expired"]);
        assert_eq!(told(&[(4, "k", &[])]), Vec::<String>::new());
        assert_eq!(
            told(&[(0, "j", a), (0, "k", a), (3, "j", &[]), (2, "l", &[]), (9, "l", a)]),
            ["0 REMOVE j", "1 REMOVE k", "2 INSERT l"]
        );
    }

    #[test]
    fn a_record_shows_what_its_stream_does() {
        let change = Change {
            key: map(&[("p", "k")]),
            before: Some(map(&[("p", "k"), ("x", "a")])),
            after: None,
            expired: true,
        };
        let shown = |view: View| {
            let mut out = String::new();
            write((Sequence::at(7_000_000), "REMOVE", &change), (view, "dc"), &mut out);
            out
        };
        assert!(shown(View::Both).contains("\"OldImage\":{\"p\":{\"S\":\"k\"},\"x\""));
        assert!(!shown(View::KeysOnly).contains("Image"));
        assert!(!shown(View::NewImage).contains("Image"));
        assert!(shown(View::OldImage).contains("\"Type\":\"Service\""));
        assert!(shown(View::OldImage).contains("\"ApproximateCreationDateTime\":7,"));
    }
}
