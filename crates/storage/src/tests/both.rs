//! Partitions of which the cache knows all and one memtable has something: answered without a
//! permit, and as the way of all other reads answers.

use super::against_model::{Draw, read_all, start};
use super::*;
use crate::read::One;
use mutation::testing;
use runtime::sim::{Options, World};
use sstable::Lookup;
use stdx::Bytes;

/// Whether a read of one partition needs no permit.
fn is_read_at_once(storage: &Storage, command: &ReadCommand, key: &[u8]) -> bool {
    let table = storage.shard().table(command.table).unwrap();
    let (lookup, schema) = (Lookup::new(Bytes::copy_from(key)), table.schema());
    let tablet = table.tablet_of(lookup.key.token).unwrap();
    let one = One { table: &table, tablet, schema: &schema, lookup, command };
    one.read_at_once(|| true).is_some()
}

#[test]
fn what_lies_in_cache_and_memtable_is_read_at_once() {
    let mut world = World::new(Options::new(1));
    let node = world.add_node(1);
    // Compactions expire by the wall clock, which the cache does not know of.
    let epoch = world.block_on(node, 0, async { runtime::time::wall_micros() });
    world.crash(node);
    world.skew_wall_clock(node, -epoch);
    world.block_on(node, 0, compare());
}

async fn compare() {
    let (mut draw, mut at_once, mut merged) = (Draw::new(1), 0, 0);
    let storage = start().await;
    let schema = testing::schema();
    for _ in 0..200 {
        for one in draw.one(reader::testing::mutations()) {
            storage.apply(one).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
        let written = draw.one(reader::testing::mutations());
        let keys = written.iter().map(|one| one.view().unwrap().key().to_vec());
        let keys: Vec<Vec<u8>> = keys.collect();
        for one in written {
            storage.apply(one).await.unwrap();
        }
        for key in keys {
            let mut command = draw.one(reader::testing::command());
            match is_read_at_once(&storage, &command, &key) {
                true => at_once += 1,
                false => merged += 1,
            }
            command.partitions = Partitions::Key(key);
            let seen = read_all(&storage, &command).await;
            let below = ReadCommand { bypass_cache: true, ..command.clone() };
            assert_eq!(seen, read_all(&storage, &below).await, "{command:?}");
        }
    }
    assert!(40 < at_once && 40 < merged, "{at_once} at once, {merged} merged");
    storage.stop().await.unwrap();
}
