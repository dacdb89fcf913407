//! What a visit of a read over all shards takes of a shard's memory, beside what was told of it
//! before.

use super::{config, write};
use crate::testing::schema;
use crate::{Log, SourceOptions, Storage};
use model::{TabletMap, Token};
use mutation::RingBound;
use reader::multishard::MultishardOptions;
use reader::{Budget, Slice, Source};
use runtime::task::race;
use runtime::time::sleep;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use stdx::Prng;

const ALL: (Token, Token) = (Token::MIN, Token::MAX);

struct Taken {
    told: usize,
    most: usize,
    /// SSTables: where memory is little a flush comes before it is asked for.
    files: usize,
}

/// Reads a table of so many SSTables of so many KiB each, or smaller ones; what was told that a
/// visit takes, and what visits took.
async fn taken(sstables: u64, kib: u64, compression: &str, bytes_max: usize) -> Taken {
    let storage = Storage::open(config()).await.unwrap();
    let mut schema = schema(3, "t3");
    schema.options.compression = vec![("sstable_compression".into(), compression.into())];
    let (schema, map) = (Rc::new(schema), TabletMap::static_map(1));
    storage.add_table(schema.clone(), map, Log::Data).await.unwrap();
    storage.set_auto_compaction(schema.id, false);
    let mut prng = Prng::from_seed(kib);
    for sstable in 0..sstables {
        for partition in 0..kib.div_ceil(2) {
            // The first key of an SSTable lies anywhere, so they lie side by side.
            let mut value = vec![0; 2 << 10];
            prng.fill(&mut value);
            let one = write(&schema, 10_000 * sstable + partition, 1, 1, &value);
            storage.apply(one).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
    }
    let told = storage.visit_bytes(schema.id, ALL, bytes_max);
    let files = storage.shard().table(schema.id).unwrap().sstables().len();
    let bound = |token, after| RingBound { token, key: None, after };
    let bounds = (bound(ALL.0, false), bound(ALL.1, true));
    let (options, how) = (SourceOptions::QUERY, MultishardOptions::EXACT);
    let options = SourceOptions { bypass_cache: true, ..options };
    let opened = storage.open_multishard(schema.id, bounds, Slice::full(), options, how);
    let (mut source, most) = (opened.unwrap(), Cell::new(0));
    let budget = Budget { fragments_max: usize::MAX, bytes_max };
    let read = async {
        let mut out = Vec::new();
        loop {
            source.fill(budget, &mut out).await.unwrap();
            if out.is_empty() {
                return;
            }
            out.clear();
        }
    };
    let watch = async {
        loop {
            let used = storage.semaphores()[2].snapshot().used_bytes;
            most.set(most.get().max(used as usize));
            sleep(Duration::from_micros(1)).await;
        }
    };
    race(read, watch).await;
    storage.drop_table(schema.id, None).await.unwrap();
    storage.stop().await.unwrap();
    Taken { told, most: most.get(), files }
}

/// *no-less*, *no-more-than-told*; and no more is told than three of the longest steps for each
/// SSTable, and twice what is brought. What is held while nothing is read nobody sees here.
#[test]
fn a_visit_takes_no_more_than_was_told() {
    for (seed, compression) in [(1, ""), (2, "LZ4Compressor")] {
        runtime::sim::test(seed, move || async move {
            for (sstables, kib) in [(1, 30), (1, 300), (1, 3000), (4, 100), (4, 700)] {
                for bytes_max in [64 << 10, 1 << 20] {
                    let found = taken(sstables, kib, compression, bytes_max).await;
                    let Taken { told, most, files } = found;
                    let what = format!("{sstables} of {kib} KiB, {compression:?}, {bytes_max}");
                    assert!(most <= told, "{what}: {most} of {told}");
                    assert!(0 < most, "{what}: nothing was read");
                    let steps = files * (1 << 20) + 2 * bytes_max + (256 << 10);
                    assert!(told <= steps, "{what}: {told} of {files} SSTables");
                }
            }
        });
    }
}
