//! Rows that say when they expire, on several nodes.

use super::world::*;
use cluster::SchemaChange;
use cluster::settings::{By, Settings};
use model::schema::TableOptions;
use model::{TableSchema, Type, Uuid};
use mutation::page::{PageView, Partitions};
use mutation::{Cell, FrozenMutation, Marker, MutationBuilder, RowBuilder};
use replication::{Consistency, ReadOptions};
use runtime::time::wall_micros;
use testkit::config::{change, entry};
use testkit::rows;

/// `x (pk int PRIMARY KEY, v bigint)`, whose rows expire at `v`; it is looked for them each second.
async fn make_table() {
    change(|_| {
        let mut options = TableOptions::new();
        options.set_extension(TableOptions::ROW_TTL_COLUMN, Some("v"));
        let builder = TableSchema::builder("ks", "x", Uuid::from_u128(0x5000));
        let builder = builder.partition_key("pk", Type::Int).regular("v", Type::BigInt);
        let table = builder.options(options).build().expect("a table");
        vec![SchemaChange::CreateTable(table)]
    })
    .await;
    let name = "alternator_ttl_period_in_seconds".to_owned();
    let changed = Settings::change(name, "1".to_owned(), By::Operator).await;
    assert!(changed.is_ok(), "an option");
}

/// A row that expires in so many seconds.
fn expiring_in(pk: i32, seconds: i64) -> FrozenMutation {
    let (table, timestamp) = (entry("ks", "x"), wall_micros());
    let mut builder = MutationBuilder::new(&table.schema, &rows::key(pk));
    let mut row = RowBuilder::new(Vec::new());
    row.marker(Marker::Live { timestamp });
    let at = timestamp.div_euclid(1_000_000) + seconds;
    let column = table.schema.column("v").expect("a column").id;
    row.cell(column, Cell::live(timestamp, &at.to_be_bytes()));
    builder.row(&[], &row.finish());
    builder.freeze()
}

async fn put(pk: i32, seconds: i64, level: Consistency) {
    let (table, mutation) = (entry("ks", "x"), expiring_in(pk, seconds));
    let (coordinator, options) = (coordinator(), write_options(level));
    let written = coordinator.write(&table, rows::token(pk), mutation, &options).await;
    written.expect("a write");
}

async fn is_there(pk: i32) -> bool {
    let table = entry("ks", "x");
    let command = rows::read_of(&table, Partitions::Key(rows::key(pk).to_vec()), 10);
    let options = ReadOptions::new(Consistency::All, 2 * SECOND);
    let page = coordinator().read(&table, rows::token(pk), &command, &options).await;
    let page = page.expect("a read");
    PageView::parse(&page.bytes, command.layout()).expect("a page").partitions().next().is_some()
}

/// A later expiry that was acknowledged is not lost because a replica has missed it.
#[test]
fn who_has_missed_a_later_expiry_deletes_nothing() {
    for lagging in 0..3 {
        let mut nodes = Nodes::new(1, &[1, 1, 1]);
        (0..3).for_each(|node| nodes.run(node, make_table()));
        let writer = (lagging + 1) % 3;
        nodes.run(writer, async {
            put(1, 2, Consistency::All).await;
            put(2, 2, Consistency::All).await;
        });
        nodes.crash(lagging);
        nodes.run(writer, put(1, 1_000, Consistency::Quorum));
        nodes.start(lagging);
        let name = "alternator_ttl_period_in_seconds".to_owned();
        let again = Settings::change(name, "1".to_owned(), By::Operator);
        nodes.run(lagging, async { assert!(again.await.is_ok(), "an option") });
        nodes.world.run_for(10 * SECOND);
        nodes.run(writer, async move {
            assert!(is_there(1).await, "it was lost where node {lagging} had missed it");
            assert!(!is_there(2).await, "it has expired");
        });
    }
}
