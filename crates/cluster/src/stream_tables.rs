//! The computed tables that tell the streams of change data capture to who reads logs: of tables
//! with streams of their own `system.cdc_timestamps` and `cdc_streams`; of the ring
//! `system_distributed.cdc_generation_timestamps` and `cdc_streams_descriptions_v2`, and
//! `system.cdc_local`.

use crate::registry::Cluster;
use crate::schema::Schema;
use crate::virtual_tables::{VirtualFuture, VirtualRow, row};
use catalog::streams::{StreamId, StreamSet, Streams};
use catalog::system_tables;
use model::TableSchema;
use model::value::collection::write_collection;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// The partition of `cdc_generation_timestamps`.
const TIMESTAMPS: &[u8] = b"timestamps";
/// That of `cdc_local`.
const LOCAL: &[u8] = b"cdc_local";

/// What a row of `cdc_streams` says of a stream.
const CURRENT: u8 = 0;
/// It was there in the set before.
const CLOSED: u8 = 1;
/// It was not.
const OPENED: u8 = 2;

/// Gives the tables their rows on this shard.
pub(crate) fn provide(cluster: &Cluster) {
    cluster.provide("cdc_timestamps", Rc::new(|| of_tables("cdc_timestamps", timestamps)));
    cluster.provide("cdc_streams", Rc::new(|| of_tables("cdc_streams", streams)));
    cluster.provide("cdc_local", Rc::new(|| of_ring(("system", "cdc_local"), local)));
    let name = ("system_distributed", "cdc_generation_timestamps");
    cluster.provide_distributed(name.1, Rc::new(move || of_ring(name, generations)));
    let name = ("system_distributed", "cdc_streams_descriptions_v2");
    cluster.provide_distributed(name.1, Rc::new(move || of_ring(name, descriptions)));
}

fn of_tables(
    name: &'static str,
    rows: fn(&TableSchema, &Schema) -> Vec<VirtualRow>,
) -> VirtualFuture {
    Box::pin(async move {
        let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
        rows(&system_tables::table("system", name), &cluster.schema())
    })
}

fn of_ring(
    (keyspace, name): (&'static str, &'static str),
    rows: fn(&TableSchema, &Streams) -> Vec<VirtualRow>,
) -> VirtualFuture {
    Box::pin(async move {
        let Some(cluster) = runtime::local::try_get::<Cluster>() else { return Vec::new() };
        rows(&system_tables::table(keyspace, name), cluster.topology().streams())
    })
}

fn millis(millis: i64) -> Vec<u8> {
    millis.to_be_bytes().to_vec()
}

/// The tables with streams of their own, with the key of their rows. Also those whose logs are not
/// in use any more, and can be read still.
fn logged(schema: &Schema) -> impl Iterator<Item = ([(&'static str, Vec<u8>); 2], &Arc<Streams>)> {
    let tables = schema.tables().filter(|table| !table.streams.is_empty());
    tables.map(|table| {
        let (keyspace, name) = (table.schema.keyspace.clone(), table.schema.name.clone());
        debug_assert!(!Schema::is_system(&keyspace), "a log of a table of the system");
        let key = [("keyspace_name", keyspace.into_bytes()), ("table_name", name.into_bytes())];
        (key, &table.streams)
    })
}

fn timestamps(table: &TableSchema, schema: &Schema) -> Vec<VirtualRow> {
    let of_set = |key: &[(&'static str, Vec<u8>)], set: &StreamSet| {
        let mut values = key.to_vec();
        values.push(("timestamp", millis(set.since_millis())));
        row(table, values)
    };
    let mut rows = Vec::new();
    debug_assert!(table.name == "cdc_timestamps", "by-column: rows of {}", table.name);
    for (key, streams) in logged(schema) {
        rows.extend(streams.sets().iter().map(|set| of_set(&key, set)));
    }
    rows
}

fn streams(table: &TableSchema, schema: &Schema) -> Vec<VirtualRow> {
    let mut rows = Vec::new();
    for (key, streams) in logged(schema) {
        let mut before = BTreeSet::<StreamId>::new();
        for (at, set) in streams.sets().iter().enumerate() {
            let now: BTreeSet<StreamId> = set.streams().iter().copied().collect();
            let mut push = |state: u8, stream: &StreamId| {
                let mut values = key.to_vec();
                values.push(("timestamp", millis(set.since_millis())));
                values.push(("stream_state", vec![state]));
                values.push(("stream_id", stream.0.to_vec()));
                rows.push(row(table, values));
            };
            now.iter().for_each(|stream| push(CURRENT, stream));
            if 0 < at {
                before.difference(&now).for_each(|stream| push(CLOSED, stream));
                now.difference(&before).for_each(|stream| push(OPENED, stream));
            }
            before = now;
        }
    }
    rows
}

fn generations(table: &TableSchema, streams: &Streams) -> Vec<VirtualRow> {
    let of_set = |set: &Arc<StreamSet>| {
        let time = millis(set.since_millis());
        row(table, vec![("key", TIMESTAMPS.to_vec()), ("time", time)])
    };
    streams.sets().iter().map(of_set).collect()
}

fn descriptions(table: &TableSchema, streams: &Streams) -> Vec<VirtualRow> {
    let mut rows = Vec::new();
    debug_assert!(table.name.starts_with("cdc_streams"), "by-column: rows of {}", table.name);
    for set in streams.sets() {
        for (last, of_range) in set.ranges() {
            let mut names: Vec<&[u8]> = of_range.iter().map(|stream| &stream.0[..]).collect();
            names.sort_unstable();
            names.dedup();
            let mut value = Vec::new();
            write_collection(names.into_iter(), &mut value);
            let values = vec![
                ("time", millis(set.since_millis())),
                ("range_end", last.0.to_be_bytes().to_vec()),
                ("streams", value),
            ];
            rows.push(row(table, values));
        }
    }
    rows
}

fn local(table: &TableSchema, streams: &Streams) -> Vec<VirtualRow> {
    let last = streams.sets().last().map(|set| {
        let values =
            vec![("key", LOCAL.to_vec()), ("streams_timestamp", millis(set.since_millis()))];
        row(table, values)
    });
    last.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::SchemaChange;
    use catalog::schema::testing::{keyspace, log, table};
    use model::{ColumnKind, Token, Uuid};

    fn stream(number: u64) -> StreamId {
        StreamId::new(Token(number as i64), 0, number)
    }

    fn set(since: i64, ranges: &[(i64, &[u64])]) -> StreamSet {
        let range = |(last, streams): &(i64, &[u64])| {
            (Token(*last), streams.iter().copied().map(stream).collect())
        };
        StreamSet::new(since, ranges.iter().map(range).collect())
    }

    /// The values of a column, as bytes.
    fn column(schema: &TableSchema, rows: &[VirtualRow], name: &str) -> Vec<Vec<u8>> {
        let at = schema.columns.iter().position(|column| column.name == name).expect(name);
        rows.iter().map(|row| row[at].clone().expect("a value")).collect()
    }

    #[test]
    fn streams_of_tables_are_told_with_what_changed() {
        let columns = [("p", "int", ColumnKind::PartitionKey)];
        let base = table("ks", "t", 5, &columns);
        let made = vec![
            SchemaChange::CreateKeyspace(keyspace("ks", Some(2))),
            SchemaChange::CreateTable(base.clone()),
            SchemaChange::CreateTable(log(&base, 6)),
            SchemaChange::CreateTable(table("ks", "other", 7, &columns)),
        ];
        let empty = Schema::of_system(Uuid::from_u128(1), 2);
        let schema = empty.after(made, 10_000_000, 2).expect("a log");
        let entry = schema.table("ks", "t").expect("the table");
        let shown = system_tables::table("system", "cdc_timestamps");
        let found = timestamps(&shown, &schema);
        assert_eq!(column(&shown, &found, "table_name"), [b"t"]);
        assert_eq!(column(&shown, &found, "timestamp"), [5000i64.to_be_bytes()]);
        let shown = system_tables::table("system", "cdc_streams");
        let found = streams(&shown, &schema);
        let names: Vec<[u8; 16]> =
            entry.streams.sets()[0].streams().iter().map(|stream| stream.0).collect();
        assert_eq!(column(&shown, &found, "stream_state"), [[CURRENT], [CURRENT]]);
        let mut told = column(&shown, &found, "stream_id");
        told.sort();
        let mut names: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
        names.sort();
        assert_eq!(told, names);
    }

    #[test]
    fn streams_of_the_ring_are_told_by_range() {
        let all =
            Streams::of_sets(vec![set(10, &[(5, &[1, 2])]), set(20, &[(5, &[3]), (9, &[4])])]);
        let all = all.expect("in order");
        let shown = system_tables::table("system_distributed", "cdc_generation_timestamps");
        let found = generations(&shown, &all);
        assert_eq!(column(&shown, &found, "time"), [10i64, 20].map(i64::to_be_bytes));
        assert_eq!(column(&shown, &found, "key"), [b"timestamps"; 2]);
        let shown = system_tables::table("system_distributed", "cdc_streams_descriptions_v2");
        let found = descriptions(&shown, &all);
        assert_eq!(column(&shown, &found, "range_end"), [5i64, 5, 9].map(i64::to_be_bytes));
        let mut first = Vec::new();
        write_collection([&stream(1).0[..], &stream(2).0[..]].into_iter(), &mut first);
        assert_eq!(column(&shown, &found, "streams")[0], first);
        let shown = system_tables::table("system", "cdc_local");
        let found = local(&shown, &all);
        assert_eq!(column(&shown, &found, "streams_timestamp"), [20i64.to_be_bytes()]);
        assert!(local(&shown, &Streams::default()).is_empty());
    }
}
