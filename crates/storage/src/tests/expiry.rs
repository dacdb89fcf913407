//! Data that expires, in its steady state: how much more lies on the disk than lives.

use super::*;
use runtime::time::{sleep, wall_micros};
use testkit::SimNode;

const SECOND: Duration = Duration::from_secs(1);

/// A window of a minute, and data that lives for ten of them.
const WINDOW_SECS: i64 = 60;
const TTL_SECS: i64 = 10 * WINDOW_SECS;
/// Rows written in a second, each a partition of its own, and seconds between two flushes.
const ROWS: u64 = 10;
const FLUSH_SECS: i64 = 12;

/// A write that expires.
fn expiring(schema: &TableSchema, partition: u64, value: &[u8]) -> FrozenMutation {
    let (timestamp, ttl) = (wall_micros(), TTL_SECS as i32);
    let expiry = timestamp / 1_000_000 + TTL_SECS;
    let mut builder = MutationBuilder::new(schema, &key(partition));
    let mut blob = RowBuilder::new(Vec::new());
    blob.marker(Marker::Expiring { timestamp, expiry, ttl });
    blob.cell(V, Cell::expiring(timestamp, value, expiry, ttl));
    builder.row(&clustering(&[0, 0]), &blob.finish());
    builder.freeze()
}

/// Bytes on the disk for each byte that lives, once a second, from two windows after the first data
/// expired on.
async fn ratios(config: Config) -> Vec<f64> {
    let storage = Storage::open(config).await.unwrap();
    let mut schema = schema(1, "t1");
    let pair = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    let windows =
        [("class", "TimeWindowCompactionStrategy"), ("compaction_window_unit", "MINUTES")];
    let windows = windows.into_iter().chain([("compaction_window_size", "1")]);
    schema.options.compaction = windows.map(pair).collect();
    schema.options.tombstone_gc = vec![pair(("mode", "immediate"))];
    let map = TabletMap::static_map(1);
    storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
    storage.replay(Log::Data).await.unwrap();
    let (mut ratios, mut written_at) = (Vec::new(), Vec::new());
    for second in 0..TTL_SECS + 7 * WINDOW_SECS {
        for _ in 0..ROWS {
            let new = expiring(&schema, written_at.len() as u64, &[7; 200]);
            storage.apply(new).await.unwrap();
            written_at.push(wall_micros() / 1_000_000);
        }
        if second % FLUSH_SECS == 0 {
            storage.flush(schema.id).await.unwrap();
        }
        sleep(SECOND).await;
        if TTL_SECS + 2 * WINDOW_SECS <= second {
            let now = wall_micros() / 1_000_000;
            let live = written_at.iter().filter(|at| now < *at + TTL_SECS).count();
            let tables = storage.shard().table(schema.id).unwrap().sstables();
            // What a row takes where there is little beside rows.
            let each =
                |one: &Rc<sstable::Table>| one.disk_bytes() as f64 / one.partition_count() as f64;
            let least = tables.iter().map(each).fold(f64::MAX, f64::min);
            let disk: u64 = tables.iter().map(|one| one.disk_bytes()).sum();
            ratios.push(disk as f64 / (live as f64 * least));
        }
    }
    storage.stop().await.unwrap();
    ratios
}

/// *Steady*: of what lives for ten windows the disk has a fifth more at most, at any time.
fn check(seed: u64, config: Config) {
    let mut node = SimNode::new(seed, 1);
    node.run(async {
        let ratios = ratios(config).await;
        let most = ratios.iter().copied().fold(0.0, f64::max);
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        println!("disk / live: {mean:.3} on average, {most:.3} at most, {} times", ratios.len());
        assert!(1.0 <= mean && most <= 1.2, "{mean} {most}");
    });
}

#[test]
fn what_has_expired_leaves_the_disk_window_by_window() {
    check(1, config());
}

#[test]
fn a_log_that_is_hardly_written_to_does_not_keep_what_has_expired() {
    // One segment takes all that is written, and more.
    let segment_bytes = 32 << 20;
    check(2, Config { segment_bytes, commitlog_bytes_max: 1 << 30, ..config() });
}
