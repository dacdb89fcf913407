//! Lookups against a sorted list, what they cost, and damage.

use super::*;
use crate::cache::IndexCache;
use crate::index::entry::EntryHead;
use crate::index::{Entries, PartitionIndex, PromotedAt};
use crate::mx::layout::DeletionForm;
use crate::mx::layout::put_deletion;
use mutation::Tombstone;
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::io::{File, OpenOptions, fs, stats};
use std::future::Future;
use stdx::Put;
use testkit::SimNode;

fn in_simulation<F: Future<Output = ()> + 'static>(test: F) {
    let mut node = SimNode::new(1, 1);
    node.run(test);
}

/// A partition of an index that is to be made.
#[derive(Clone, Debug)]
struct Partition {
    key: DecoratedKey,
    data_bytes: u64,
    /// Blocks of its promoted index and bytes of each; no blocks for none.
    promoted: (u32, usize),
}

fn partitions() -> impl Strategy<Value = Vec<Partition>> {
    let promoted = prop_oneof![
        12 => Just((0, 0)),
        2 => (1..20u32, 10..60usize),
        1 => (1..200u32, 10..200usize),
    ];
    let one = (vec(any::<u8>(), 0..20), 1..60_000u64, promoted);
    vec(one, 1..400).prop_map(|list| {
        let mut list: Vec<Partition> = list
            .into_iter()
            .map(|(key, data_bytes, promoted)| {
                let key = DecoratedKey::new(Bytes::copy_from(&key));
                Partition { key, data_bytes, promoted }
            })
            .collect();
        list.sort_by(|a, b| a.key.cmp(&b.key));
        list.dedup_by(|a, b| a.key == b.key);
        list
    })
}

/// The bytes of Index.db, the summary, and what a lookup of each partition is to find.
struct Made {
    bytes: Vec<u8>,
    summary: Summary,
    data_bytes: u64,
    located: Vec<Located>,
}

fn make(list: &[Partition]) -> Made {
    let (mut bytes, mut summary, mut position) = (Vec::new(), SummaryBuilder::default(), 0);
    let mut located = Vec::new();
    for partition in list {
        let (blocks, block_bytes) = partition.promoted;
        let (mut promoted, mut facts_bytes) = (Vec::new(), 0);
        let tombstone = Tombstone { timestamp: 5, deletion_time: 7 };
        if 0 < blocks {
            promoted.put_vint(300);
            put_deletion(tombstone, &mut promoted);
            promoted.put_vint(blocks as u64);
            facts_bytes = promoted.len() as u64;
            promoted.resize(promoted.len() + blocks as usize * (block_bytes + 4), 0xff);
        }
        summary.offer(&partition.key.key, bytes.len() as u64, position);
        let promoted_bytes = promoted.len() as u64;
        EntryHead { key: &partition.key.key, position, promoted_bytes }.put(&mut bytes);
        let start = bytes.len() as u64;
        bytes.put(&promoted);
        let rows = (0 < blocks).then_some(RowIndex::Promoted(PromotedAt {
            start,
            len: promoted_bytes,
            blocks_at: start + facts_bytes,
            blocks,
            header_bytes: 300,
            tombstone,
            form: DeletionForm::Plain,
        }));
        let end = Some(position + partition.data_bytes);
        located.push(Located { key: Some(partition.key.clone()), position, end, rows });
        position += partition.data_bytes;
    }
    let first = &list.first().unwrap().key.key;
    let last = &list.last().unwrap().key.key;
    let summary = summary.finish(first, last).unwrap();
    Made { bytes, summary, data_bytes: position, located }
}

async fn open(bytes: &[u8]) -> CachedFile {
    fs::write_file_atomic("/Index.db", bytes).await.unwrap();
    let file = File::open("/Index.db", OpenOptions::read_only()).await.unwrap();
    CachedFile::new(file, bytes.len() as u64)
}

async fn index_of(made: &Made) -> PartitionIndex {
    let file = open(&made.bytes).await;
    let count = made.located.len() as u64;
    let index = BigIndex::new(file, made.summary.clone(), made.data_bytes, count);
    PartitionIndex::Big(Rc::new(index))
}

async fn rest_of(mut entries: Entries) -> Result<Vec<Located>, ReadError> {
    let mut all = Vec::new();
    while let Some(located) = entries.next().await? {
        all.push(located);
    }
    Ok(all)
}

/// As found, or with an end that could not be known.
fn same(found: &Located, expected: &Located) -> bool {
    let end = found.end.or(expected.end);
    Located { end, ..found.clone() } == *expected
}

async fn check_lookups(list: Vec<Partition>, others: Vec<Vec<u8>>, bytes_max: usize) {
    let made = make(&list);
    let index = index_of(&made).await;
    let cache = IndexCache::new(bytes_max);
    let class = IoClass::Query;
    let mut ends_known = 0;
    for _ in 0..2 {
        for (partition, expected) in list.iter().zip(&made.located) {
            let lookup = Lookup::new(partition.key.key.clone());
            let found = index.find(&lookup, &Access::new(class, &cache)).await.unwrap().unwrap();
            assert!(same(&found, expected), "{found:?} is not {expected:?}");
            ends_known += found.end.is_some() as usize;
        }
    }
    assert!(list.len() <= ends_known, "{ends_known} ends are known of {}", list.len());
    for key in others {
        let key = DecoratedKey::new(Bytes::copy_from(&key));
        let at = list.partition_point(|partition| partition.key < key);
        let present = list.get(at).is_some_and(|partition| partition.key == key);
        let access = Access::new(class, &cache);
        let found = index.find(&Lookup::new(key.key.clone()), &access).await.unwrap();
        assert_eq!(found.is_some(), present);
        for (with_key, after) in [(true, false), (true, true), (false, false), (false, true)] {
            let bound_key = with_key.then(|| key.key.to_vec());
            let bound = RingBound { token: key.token, key: bound_key, after };
            let first = list.partition_point(|partition| {
                bound.place(partition.key.token, &partition.key.key).is_lt()
            });
            let expected = made.located.get(first).map_or(made.data_bytes, |one| one.position);
            assert_eq!(index.lower_bound(&bound, &access).await.unwrap(), expected);
            let entries = rest_of(index.entries(&bound, &access)).await.unwrap();
            assert_eq!(entries.len(), list.len() - first);
            assert!(entries.iter().zip(&made.located[first..]).all(|(a, b)| same(a, b)));
        }
    }
    cache.clear().await;
    assert_eq!(cache.stats().partitions.bytes + cache.stats().files.bytes, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn finds_what_a_list_finds(
        list in partitions(),
        others in vec(vec(any::<u8>(), 0..20), 1..10),
        bytes_max in prop_oneof![Just(0usize), 1000..20_000usize, Just(1 << 20)],
    ) {
        in_simulation(check_lookups(list, others, bytes_max));
    }
}

fn partition(number: u32, data_bytes: u64, promoted: (u32, usize)) -> Partition {
    let key = DecoratedKey::new(Bytes::copy_from(&number.to_be_bytes()));
    Partition { key, data_bytes, promoted }
}

fn sorted(mut list: Vec<Partition>) -> Vec<Partition> {
    list.sort_by(|a, b| a.key.cmp(&b.key));
    list
}

/// Requests and bytes that a cold lookup of the first partition takes.
async fn cost(list: Vec<Partition>) -> (u64, u64) {
    let index = index_of(&make(&list)).await;
    let cache = IndexCache::new(1 << 20);
    let access = Access::new(IoClass::Query, &cache);
    let before = stats(IoClass::Query);
    let lookup = Lookup::new(list[0].key.key.clone());
    index.find(&lookup, &access).await.unwrap().unwrap();
    let after = stats(IoClass::Query);
    let cost = (after.reads - before.reads, after.read_bytes - before.read_bytes);
    index.find(&lookup, &Access::new(IoClass::Query, &cache)).await.unwrap().unwrap();
    assert_eq!(stats(IoClass::Query), after, "a warm lookup reads nothing");
    cost
}

#[test]
fn cold_lookups_read_little() {
    in_simulation(async {
        assert_eq!(cost(vec![partition(1, 100, (0, 0))]).await, (1, 4096));
        // A promoted index of 2 MB is stepped over.
        assert_eq!(cost(vec![partition(1, 64 << 20, (20_000, 100))]).await, (1, 4096));
        let large = (1..4).map(|number| partition(number, 64 << 20, (20_000, 100)));
        let (requests, bytes) = cost(sorted(large.collect())).await;
        assert!(requests <= 2 && bytes <= 8192, "{requests} requests of {bytes} bytes");
        // 52 KB of data are one page of 500 entries, which is read at once.
        let small = (0..5000).map(|number| partition(number, 100, (0, 0)));
        let (requests, bytes) = cost(sorted(small.collect())).await;
        assert!(requests == 1 && bytes <= 8192, "{requests} requests of {bytes} bytes");
    });
}

#[test]
fn a_small_promoted_index_comes_into_the_cache_with_its_entry() {
    in_simulation(async {
        let made = make(&[partition(1, 1 << 20, (16, 40))]);
        let index = index_of(&made).await;
        let cache = IndexCache::new(1 << 20);
        let access = Access::new(IoClass::Query, &cache);
        let lookup = Lookup::new(Bytes::copy_from(&1u32.to_be_bytes()));
        index.find(&lookup, &access).await.unwrap().unwrap();
        let PartitionIndex::Big(big) = &index else { panic!("an index of the big format") };
        assert_eq!(*big.file().page_now(&access, 0).unwrap(), made.bytes);
    });
}

#[test]
fn concurrent_misses_of_a_page_share_its_load() {
    in_simulation(async {
        let list = sorted((0..100).map(|number| partition(number, 100, (0, 0))).collect());
        let index = index_of(&make(&list)).await;
        let cache = IndexCache::new(1 << 20);
        let before = stats(IoClass::Query).reads;
        let finds = list.iter().map(|partition| {
            let (index, cache) = (&index, &cache);
            let lookup = Lookup::new(partition.key.key.clone());
            async move {
                let access = Access::new(IoClass::Query, cache);
                index.find(&lookup, &access).await.unwrap().unwrap();
            }
        });
        runtime::task::join_all(finds).await;
        assert_eq!(stats(IoClass::Query).reads - before, 1);
        let stats = cache.stats().partitions;
        let counts = (stats.misses, stats.blocks, stats.hits, stats.populations, stats.pages);
        assert_eq!(counts, (1, 99, 0, 1, 1));
    });
}

#[test]
fn an_entry_takes_at_most_twenty_bytes_beside_its_key() {
    let mut keys: Vec<Vec<u8>> = (0..1000u32).map(|n| format!("user{n:012}").into()).collect();
    keys.sort_by_key(|key| Token::of(key));
    let check = |data_bytes: u64, entry_bytes: usize| {
        let mut builder = PageBuilder::default();
        for (number, key) in keys.iter().enumerate() {
            builder.push(key, 77 + number as u64 * data_bytes).unwrap();
        }
        let page = builder.finish(None);
        let fixed = std::mem::size_of::<PartitionPage>();
        assert_eq!(page.memory_bytes(), fixed + 1000 * (entry_bytes + 16));
        assert!(fixed <= 80);
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(page.find(Token::of(key), key), Some(number));
            assert_eq!(page.key(number), key);
            assert_eq!(page.position(number), 77 + number as u64 * data_bytes);
        }
        assert_eq!((page.end_of(0), page.end_of(999)), (Some(77 + data_bytes), None));
    };
    check(100, 16);
    check(u64::from(u32::MAX) / 999, 16);
    check(u64::from(u32::MAX) / 999 + 1, 20);
}

/// Every lookup ends; what is there is found or damaged.
async fn try_all(list: &[Partition], bytes: &[u8], made: &Made) -> bool {
    let damaged = |error: ReadError| match error {
        ReadError::Damaged { .. } => {}
        other => panic!("{other}"),
    };
    let file = open(bytes).await;
    let index = BigIndex::new(file, made.summary.clone(), made.data_bytes, list.len() as u64);
    let index = PartitionIndex::Big(Rc::new(index));
    let cache = IndexCache::new(10_000);
    let mut errors = 0;
    let access = Access::new(IoClass::Query, &cache);
    for partition in list {
        match index.find(&Lookup::new(partition.key.key.clone()), &access).await {
            Ok(_) => {}
            Err(error) => {
                damaged(error);
                errors += 1;
            }
        }
        let key = Some(partition.key.key.to_vec());
        let bound = RingBound { token: partition.key.token, key, after: true };
        if let Err(error) = index.lower_bound(&bound, &access).await {
            damaged(error);
        }
    }
    let start = RingBound { token: Token::MIN, key: None, after: false };
    if let Err(error) = rest_of(index.entries(&start, &access)).await {
        damaged(error);
        errors += 1;
    }
    0 < errors
}

#[test]
fn damage_is_told_and_ends() {
    in_simulation(async {
        let promoted = |number| if number % 7 == 0 { (9, 300) } else { (0, 0) };
        let list = (0..60).map(|number| partition(number, 3000, promoted(number)));
        let list = sorted(list.collect());
        let made = make(&list);
        assert!(2 < made.summary.len());
        assert!(!try_all(&list, &made.bytes, &made).await);
        for at in (0..made.bytes.len()).step_by(61) {
            assert!(try_all(&list, &made.bytes[..at], &made).await, "cut at {at}");
            for mask in [1, 0x80, 0xff] {
                let mut flipped = made.bytes.clone();
                flipped[at] ^= mask;
                try_all(&list, &flipped, &made).await;
            }
        }
    });
}
