use super::*;
use model::ColumnId;
use mutation::{CollectionWriter, RowBuilder};

fn table() -> TableSchema {
    let map = Type::Map { key: Box::new(Type::Int), value: Box::new(Type::Text), frozen: false };
    let list = Type::List { element: Box::new(Type::Int), frozen: true };
    let table = TableSchema::builder("ks", "t", Uuid::nil())
        .partition_key("pk", Type::Int)
        .regular("f", list)
        .regular("m", map)
        .regular("v", Type::Text);
    table.build().unwrap()
}

fn id(name: &str) -> ColumnId {
    table().column(name).unwrap().id
}

fn check(build: impl FnOnce(&mut RowBuilder), metadata: &str, expected: &str) {
    let mut row = RowBuilder::new(Vec::new());
    build(&mut row);
    let row = row.finish();
    let view = RowView::parse(&row).unwrap();
    let schema = table();
    assert_eq!(row_metadata(&schema, view), metadata);
    assert_eq!(values(&schema, view), expected);
}

#[test]
fn tombstones() {
    assert_eq!(tombstone_alone(Tombstone::NONE), "{\"tombstone\":{}}");
    assert_eq!(
        tombstone_alone(Tombstone::new(-5, 1_296_705_906)),
        "{\"tombstone\":{\"timestamp\":-5,\"deletion_time\":\"2011-02-03 04:05:06z\"}}"
    );
}

#[test]
fn rows() {
    check(|_| {}, "{\"columns\":{}}", "{}");
    check(
        |row| row.tombstone(Tombstone::new(3, 0)),
        "{\"tombstone\":{\"timestamp\":3,\"deletion_time\":\"1970-01-01 00:00:00z\"},\
         \"shadowable_tombstone\":{\"timestamp\":3,\
         \"deletion_time\":\"1970-01-01 00:00:00z\"},\"columns\":{}}",
        "{}",
    );
    check(
        |row| {
            row.marker(Marker::Expiring { timestamp: 4, expiry: 60, ttl: 60 });
            row.cell(id("v"), Cell::live(5, b"a\"\\\n\x01\xc3\xa4"));
        },
        "{\"marker\":{\"timestamp\":4,\"ttl\":\"60s\",\"expiry\":\"1970-01-01 00:01:00z\"},\
         \"columns\":{\"v\":{\"is_live\":true,\"type\":\"regular\",\"timestamp\":5}}}",
        "{\"v\":\"a\\\"\\\\\\n\\u0001\u{e4}\"}",
    );
    check(
        |row| row.cell(id("v"), Cell::dead(5, 60)),
        "{\"columns\":{\"v\":{\"is_live\":false,\"type\":\"regular\",\"timestamp\":5,\
         \"deletion_time\":\"1970-01-01 00:01:00z\"}}}",
        "{\"v\":null}",
    );
}

#[test]
fn collections() {
    let mut list = Vec::new();
    let parts = [1i32, 2].map(i32::to_be_bytes);
    model::value::write_collection(parts.iter().map(|part| &part[..]), &mut list);
    check(
        |row| row.cell(id("f"), Cell::live(5, &list)),
        "{\"columns\":{\"f\":{\"is_live\":true,\"type\":\"frozen-collection\",\"timestamp\":5}}}",
        "{\"f\":\"[1, 2]\"}",
    );
    let mut map = CollectionWriter::new(Tombstone::new(1, 60));
    map.push(&1i32.to_be_bytes(), Cell::live(5, b"one"));
    map.push(&2i32.to_be_bytes(), Cell::dead(5, 60));
    let map = map.finish();
    check(
        |row| row.collection(id("m"), &map),
        "{\"columns\":{\"m\":{\"tombstone\":{\"timestamp\":1,\
         \"deletion_time\":\"1970-01-01 00:01:00z\"},\"cells\":[{\"key\":\"1\",\"value\":\
         {\"is_live\":true,\"type\":\"regular\",\"timestamp\":5}},{\"key\":\"2\",\"value\":\
         {\"is_live\":false,\"type\":\"regular\",\"timestamp\":5,\
         \"deletion_time\":\"1970-01-01 00:01:00z\"}}]}}}",
        "{\"m\":[{\"key\":\"1\",\"value\":\"one\"},{\"key\":\"2\",\"value\":null}]}",
    );
}
