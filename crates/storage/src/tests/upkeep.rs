//! What is done to SSTables one by one: what is wrong in one is found, left out, or put aside, and
//! the others stay as they are.

use super::*;
use crate::{CompactionKind, Invalid, Outdated, Rewrite, ScrubMode, Upkeep, UpkeepDone};
use model::Token;
use runtime::time::sleep;
use sstable::Version;
use std::future::Future;
use testkit::SimNode;

/// So large that checksums are of a few partitions each.
static VALUE: [u8; 20_000] = [0x5a; 20_000];

/// One table, not compressed, of which each partition is in an SSTable with the ten that follow.
async fn open_plain(config: Config, partitions: &[u64]) -> (Rc<Storage>, TableSchema) {
    let config = Config { memtable_bytes_max: 8 << 20, ..config };
    let storage = Storage::open(config).await.unwrap();
    let mut schema = schema(1, "t1");
    schema.options.compression = vec![("sstable_compression".to_string(), String::new())];
    schema.options.compaction = vec![("enabled".to_string(), "false".to_string())];
    let map = TabletMap::static_map(runtime::shard_count());
    storage.add_table(Rc::new(schema.clone()), map, Log::Data).await.unwrap();
    storage.replay(Log::Data).await.unwrap();
    for first in partitions {
        for partition in *first..first + 10 {
            storage.apply(write(&schema, partition, 1, 1, &VALUE)).await.unwrap();
        }
        storage.flush(schema.id).await.unwrap();
    }
    (storage, schema)
}

/// How many of the partitions 0 to 29 are there.
async fn present(storage: &Storage, schema: &TableSchema) -> usize {
    let mut count = 0;
    for partition in 0..30 {
        count += rows(storage, schema, partition).await.len();
    }
    count
}

fn count(storage: &Storage, schema: &TableSchema) -> u64 {
    storage.table_stats(schema.id).unwrap().sstables
}

/// Runs it on a node with three SSTables, in the second of which one value is damaged.
fn with_damage<Fut>(seed: u64, act: impl FnOnce(Rc<Storage>, TableSchema, String) -> Fut + 'static)
where
    Fut: Future<Output = ()> + 'static,
{
    let mut node = SimNode::new(seed, 1);
    node.run(async {
        let (storage, _) = open_plain(config(), &[0, 10, 20]).await;
        storage.stop().await.unwrap();
    });
    node.crash();
    let files = node.disk().files();
    let data: Vec<&String> = files.iter().filter(|path| path.contains("-Data.db")).collect();
    assert_eq!(data.len(), 3);
    let content = node.disk().read(data[1]).unwrap();
    let value = content.windows(50).position(|bytes| bytes == [0x5a; 50]).unwrap();
    node.disk().corrupt(data[1], value as u64 + 20, 0x01);
    let name = data[1].rsplit('/').next().unwrap().to_string();
    node.run(async move {
        let (storage, schema) = open_plain(config(), &[]).await;
        act(storage.clone(), schema, name).await;
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_validation_finds_what_is_damaged_and_puts_it_aside() {
    with_damage(1, |storage, schema, name| async move {
        let kept = storage.keep_up(schema.id, Upkeep::Validate(Invalid::Kept)).await.unwrap();
        let expected = UpkeepDone { sstables: 3, invalid: vec![name.clone()], aborted: None };
        assert_eq!((kept, count(&storage, &schema)), (expected.clone(), 3));
        let what = Upkeep::Validate(Invalid::PutAside);
        assert_eq!(storage.keep_up(schema.id, what).await.unwrap(), expected);
        assert_eq!((count(&storage, &schema), present(&storage, &schema).await), (2, 20));
        // Nothing is wrong with what is left.
        storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
        let sound = storage.keep_up(schema.id, what).await.unwrap();
        assert_eq!(sound, UpkeepDone { sstables: 1, ..UpkeepDone::default() });
        let aside = storage.keep_up_quarantined(schema.id, what).await.unwrap();
        assert_eq!(aside, UpkeepDone { sstables: 1, invalid: vec![name], aborted: None });
        // What is good of it is in use again, once.
        let what = Upkeep::Scrub(ScrubMode::Skip);
        for looked_at in [1, 0] {
            let done = storage.keep_up_quarantined(schema.id, what).await.unwrap();
            assert_eq!(done, UpkeepDone { sstables: looked_at, ..UpkeepDone::default() });
            assert_eq!(count(&storage, &schema), 2);
            assert!((20..30).contains(&present(&storage, &schema).await));
        }
    });
}

#[test]
fn what_cannot_be_opened_is_put_aside_as_well() {
    let mut node = SimNode::new(5, 1);
    node.run(async {
        let (storage, _) = open_plain(config(), &[0, 10, 20]).await;
        storage.stop().await.unwrap();
    });
    node.crash();
    let files = node.disk().files();
    let statistics = files.iter().find(|path| path.contains("-Statistics.db")).unwrap().clone();
    node.disk().corrupt(&statistics, 0, 0xff);
    let name = statistics.rsplit('/').next().unwrap().replace("Statistics.db", "Data.db");
    node.run(async move {
        let (storage, schema) = open_plain(config(), &[]).await;
        let command = command(&schema, Partitions::Key(key(1)));
        assert!(storage.read(&command).await.is_err());
        let what = Upkeep::Validate(Invalid::PutAside);
        let done = storage.keep_up(schema.id, what).await.unwrap();
        assert_eq!(done, UpkeepDone { sstables: 2, invalid: vec![name.clone()], aborted: None });
        assert_eq!(present(&storage, &schema).await, 20);
        let aside = storage.keep_up_quarantined(schema.id, what).await.unwrap();
        assert_eq!(aside, UpkeepDone { sstables: 1, invalid: vec![name], aborted: None });
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_scrub_ends_at_the_first_error_or_leaves_it_out() {
    with_damage(2, |storage, schema, name| async move {
        let abort = Upkeep::Scrub(ScrubMode::Abort);
        let done = storage.keep_up(schema.id, abort).await.unwrap();
        assert!(done.aborted.is_some() && done.invalid == [name.clone()], "{done:?}");
        assert_eq!(count(&storage, &schema), 3);
        for mode in [ScrubMode::Skip, ScrubMode::Segregate] {
            let done = storage.keep_up(schema.id, Upkeep::Scrub(mode)).await.unwrap();
            assert_eq!((done.sstables, done.aborted), (3, None));
            // The second finds nothing any more.
            assert_eq!(done.invalid.len(), (mode == ScrubMode::Skip) as usize);
            assert_eq!(count(&storage, &schema), 3);
        }
        let left = present(&storage, &schema).await;
        assert!((20..30).contains(&left), "{left}");
        storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
        assert_eq!(present(&storage, &schema).await, left);
    });
}

#[test]
fn an_upgrade_writes_what_is_of_an_older_format() {
    let mut node = SimNode::new(3, 1);
    let of = |version| {
        let sstables = sstable::WriterDefaults { version, ..config().sstables };
        Config { sstables, ..config() }
    };
    node.run(async move {
        let (storage, schema) = open_plain(of(Version::Md), &[0, 10]).await;
        storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
        storage.stop().await.unwrap();
    });
    node.crash();
    node.run(async move {
        let (storage, schema) = open_plain(of(Version::Me), &[20]).await;
        let names = || {
            let all = storage.shard().table(schema.id).unwrap().sstables();
            let mut names: Vec<_> = all.iter().map(|one| one.descriptor()).collect();
            names.sort_unstable();
            names
        };
        let before = names();
        storage.keep_up(schema.id, Upkeep::Upgrade(Outdated::Older)).await.unwrap();
        let after = names();
        assert_eq!(after.len(), 2);
        assert_eq!(before.iter().filter(|one| after.contains(one)).count(), 1);
        assert!(storage.sstable_versions(schema.id).iter().all(|one| *one == Version::Me));
        storage.keep_up(schema.id, Upkeep::Upgrade(Outdated::All)).await.unwrap();
        assert!(names().len() == 2 && names().iter().all(|one| !after.contains(one)));
        assert_eq!(present(&storage, &schema).await, 30);
        let kinds: Vec<_> =
            storage.take_finished_compactions().iter().map(|done| done.job.kind).collect();
        assert_eq!(kinds, ["Upgrade"; 3]);
        storage.stop().await.unwrap();
    });
}

#[test]
fn a_merge_that_is_stopped_leaves_what_there_was() {
    stop_a_merge(|storage, schema, _| {
        storage.stop_compactions(CompactionKind::Scrub, None);
        storage.stop_compactions(CompactionKind::Major, Some(&[]));
        storage.stop_compactions(CompactionKind::Major, Some(&[schema.id]));
    });
    stop_a_merge(|storage, _, merge| {
        assert!(!storage.stop_compaction(Uuid::from_u128(99)));
        assert!(storage.stop_compaction(merge));
    });
}

fn stop_a_merge(stop: fn(&Storage, &TableSchema, Uuid)) {
    let mut node = SimNode::new(4, 1);
    node.run(async move {
        let (storage, schema) = open_plain(config(), &[0, 10, 20]).await;
        let stop = async {
            while storage.running_compactions().is_empty() {
                sleep(Duration::from_micros(10)).await;
            }
            let merge = storage.running_compactions()[0].id;
            stop(&storage, &schema, merge);
            assert_eq!(storage.end_of_compaction(merge).await, Some(false));
            merge
        };
        let merge = storage.compact_all(schema.id, Rewrite::default());
        let (merged, stopped) = runtime::task::join(merge, stop).await;
        assert!(merged.unwrap_err().to_string().contains("stopped"));
        assert_eq!((count(&storage, &schema), present(&storage, &schema).await), (3, 30));
        storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
        assert_eq!((count(&storage, &schema), present(&storage, &schema).await), (1, 30));
        // Whoever asks later is told as well.
        let done = storage.take_finished_compactions()[0].job.id;
        assert_eq!(storage.end_of_compaction(done).await, Some(true));
        assert_eq!(storage.end_of_compaction(stopped).await, Some(false));
        assert_eq!(storage.end_of_compaction(Uuid::from_u128(99)).await, None);
        storage.stop().await.unwrap();
    });
}

/// What a tablet gets and loses counts as a change of it; what only lies elsewhere then does not.
#[test]
fn what_moves_within_a_tablet_is_no_change() {
    let mut node = SimNode::new(11, 1);
    node.run(async {
        let (storage, schema) = open_plain(config(), &[10, 30]).await;
        let of = |token: i64| {
            let part = (Token(token), Token(token));
            storage.changes(schema.id, part).expect("a table")
        };
        let token = |partition: u64| Token::of(&key(partition)).0;
        let (one, other) = (token(1), token(2));
        assert!(one >> 56 != other >> 56, "two parts of the ring");
        let counts = || [of(one), of(other)];
        let mut before = counts();
        storage.apply(write(&schema, 1, 1, 2, &VALUE)).await.unwrap();
        assert_eq!(counts().map(|count| before.contains(&count)), [false, true], "a write");
        before = counts();
        storage.flush(schema.id).await.unwrap();
        storage.compact_all(schema.id, Rewrite::default()).await.unwrap();
        let look = Upkeep::Validate(Invalid::Kept);
        storage.keep_up(schema.id, look).await.unwrap();
        assert_eq!(counts(), before, "a flush, a merge, a validation");
        let mut changed = |what: &str| {
            let now = counts();
            assert!(now.iter().zip(&before).all(|(now, before)| now != before), "{what}");
            before = now;
        };
        storage.keep_up(schema.id, Upkeep::Scrub(ScrubMode::Skip)).await.unwrap();
        changed("a scrub, which leaves damage out");
        let gone = vec![(Token(token(12) - 1), Token(token(12)))];
        storage.clear(schema.id, gone).await.unwrap();
        changed("a range that is cleared");
        storage.truncate(schema.id, 1).await.unwrap();
        changed("a truncation");
        assert_eq!(storage.changes(Uuid::from_u128(99), (Token(0), Token(0))), None);
    });
}
