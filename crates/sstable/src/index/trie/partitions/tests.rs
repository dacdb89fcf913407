//! Lookups against a sorted list, equal tokens among them, and damage.

use super::super::rows::RowsBuilder;
use super::*;
use crate::cache::IndexCache;
use crate::index::block::Skip;
use model::{Token, Type, token};
use mutation::Tombstone;
use proptest::collection::vec;
use proptest::prelude::*;
use runtime::io::{File, IoClass, OpenOptions, fs};
use std::future::Future;
use testkit::SimNode;

fn in_simulation<F: Future<Output = ()> + 'static>(test: F) {
    let mut node = SimNode::new(1, 1);
    node.run(test);
}

/// The number of which a multiplication by `odd` makes 1, modulo 2^64.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |guess, _| guess.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(guess))))
}

/// A key of 16 bytes with this hash: of that length, each hash is of one key.
fn key_of_hash((first, second): (u64, u64)) -> Vec<u8> {
    let (c1, c2) = (0x87c3_7b91_1142_53d5_u64, 0x4cf5_ad43_2745_937f_u64);
    let unmix = |mut h: u64| {
        h ^= h >> 33;
        h = h.wrapping_mul(inverse(0xc4ce_b9fe_1a85_ec53));
        h ^= h >> 33;
        h = h.wrapping_mul(inverse(0xff51_afd7_ed55_8ccd));
        h ^ h >> 33
    };
    let divide = |h: u64, added: u64| h.wrapping_sub(added).wrapping_mul(inverse(5));
    let (mut h1, mut h2) = (first, second);
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (unmix(h1), unmix(h2));
    h2 = h2.wrapping_sub(h1);
    h1 = h1.wrapping_sub(h2);
    (h1, h2) = (h1 ^ 16, h2 ^ 16);
    let k2 = divide(h2, 0x3849_5ab5).wrapping_sub(h1).rotate_right(31);
    let k1 = divide(h1, 0x52dc_e729).rotate_right(27);
    let k1 = k1.wrapping_mul(inverse(c2)).rotate_right(31).wrapping_mul(inverse(c1));
    let k2 = k2.wrapping_mul(inverse(c1)).rotate_right(33).wrapping_mul(inverse(c2));
    [k1.to_le_bytes(), k2.to_le_bytes()].concat()
}

#[test]
fn keys_of_hashes() {
    for hash in [(0, 0), (1, 2), (u64::MAX, 7), (1 << 63 | 5, 1 << 40)] {
        assert_eq!(token::murmur3(&key_of_hash(hash)), hash);
    }
}

#[test]
fn golden_file() {
    // The worked example: one partition whose header is at 44 of Rows.db.
    let mut builder = PartitionsBuilder::new(KeyForm::Whole);
    let lookup = Lookup::new(Bytes::copy_from(b"v1"));
    builder.add(&lookup.key, lookup.hash, Target::Rows(44));
    builder.finish(b"v1", b"v1");
    let mut expected = vec![0x08, 0x98, 0x2c, 0x13, 0x40, 0, 2, 0x76, 0x31, 0, 2, 0x76, 0x31];
    [5u64, 1, 3].iter().for_each(|number| expected.put_u64(*number));
    builder.take(|bytes| assert_eq!(bytes, expected));
}

#[test]
fn payloads() {
    let check = |target, bytes: &[u8]| {
        let payload = payload_of((0, 0xab), target);
        assert_eq!(payload.bytes(), [&[0xab], bytes].concat());
        assert_eq!(payload.bits, 8 | (bytes.len() - 1) as u8);
    };
    check(Target::Rows(0), &[0]);
    check(Target::Rows(127), &[127]);
    check(Target::Rows(128), &[0, 128]);
    check(Target::Data(0), &[0xff]);
    check(Target::Data(127), &[0x80]);
    check(Target::Data(128), &[0xff, 0x7f]);
    check(Target::Data(1 << 40), &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

/// A partition that is to be made.
#[derive(Clone, Debug)]
struct Partition {
    lookup: Lookup,
    data_bytes: u64,
    has_rows: bool,
}

fn partition(token: u64, second: u64, data_bytes: u64, has_rows: bool) -> Partition {
    let lookup = Lookup::new(Bytes::copy_from(&key_of_hash((token, second))));
    assert_eq!(lookup.hash, (token, second));
    Partition { lookup, data_bytes: data_bytes + 20, has_rows }
}

/// Tokens of few values, of few prefixes, or any.
fn partitions() -> impl Strategy<Value = Vec<Partition>> {
    let token =
        prop_oneof![0..3u64, (0..3u64, 0..4u64).prop_map(|(a, b)| a << 56 | b), any::<u64>()];
    let one = (token, any::<u64>(), 0..3000u64, prop::bool::weighted(0.3));
    vec(one, 1..120).prop_map(|list| {
        let made = list
            .into_iter()
            .map(|(token, second, bytes, rows)| partition(token, second, bytes, rows));
        let mut list: Vec<Partition> = made.collect();
        list.sort_by(|a, b| a.lookup.key.cmp(&b.lookup.key));
        list.dedup_by(|a, b| a.lookup.key == b.lookup.key);
        list
    })
}

/// Partitions.db, Rows.db, Data.db, and where partitions start.
struct Made {
    files: [Vec<u8>; 3],
    starts: Vec<u64>,
}

fn make(list: &[Partition], form: &KeyForm) -> Made {
    let (mut partitions, mut rows) = (PartitionsBuilder::new(form.clone()), RowsBuilder::default());
    let mut files = [Vec::new(), Vec::new(), Vec::new()];
    let mut starts = Vec::new();
    for Partition { lookup, data_bytes, has_rows } in list {
        let position = files[2].len() as u64;
        starts.push(position);
        files[2].put_u16_bytes(&lookup.key.key);
        files[2].resize((position + data_bytes) as usize, 0);
        let mut target = Target::Data(position);
        if *has_rows {
            for block in 0..3u8 {
                let offset = 18 + block as u64;
                let key = [0x40, block, 0x38];
                rows.push(&key, &key, Skip { offset, open: Tombstone::NONE });
            }
            // Behind the last block, however short the partition is.
            let header =
                rows.finish(22.max(*data_bytes), &lookup.key.key, position, Tombstone::NONE);
            target = Target::Rows(header.unwrap());
        }
        rows.take(|bytes| files[1].put(bytes));
        partitions.add(&lookup.key, lookup.hash, target);
        partitions.take(|bytes| files[0].put(bytes));
    }
    let key = |partition: Option<&Partition>| partition.unwrap().lookup.key.key.clone();
    partitions.finish(&key(list.first()), &key(list.last()));
    partitions.take(|bytes| files[0].put(bytes));
    Made { files, starts }
}

async fn file(name: &str, bytes: &[u8]) -> File {
    fs::write_file_atomic(name, bytes).await.unwrap();
    File::open(name, OpenOptions::read_only()).await.unwrap()
}

async fn open(made: &Made, form: &KeyForm, access: &Access) -> Result<Rc<TrieIndex>, ReadError> {
    let [partitions, rows, data] = &made.files;
    let cached =
        async |name, bytes: &Vec<u8>| CachedFile::new(file(name, bytes).await, bytes.len() as u64);
    let files = (cached("/Partitions.db", partitions).await, cached("/Rows.db", rows).await);
    let data = ReadFile::new(file("/Data.db", data).await, data.len() as u64, None);
    let schema = model::TableSchema::builder("ks", "t", model::Uuid::nil())
        .partition_key("k", Type::Uuid)
        .build()
        .unwrap();
    let version = match form {
        KeyForm::Whole => Version::Mt,
        KeyForm::Columns(_) => Version::Ms,
    };
    let index = TrieIndex::open(files, Rc::new(data), version, &schema, access).await?;
    assert_eq!(index.form, *form);
    Ok(Rc::new(index))
}

fn forms() -> [KeyForm; 2] {
    // By the order of uuids, which is not that of their bytes.
    [KeyForm::Whole, KeyForm::Columns(vec![Type::Uuid])]
}

async fn check(list: Vec<Partition>, others: Vec<Partition>) {
    for form in forms() {
        let made = make(&list, &form);
        let access = Access::new(IoClass::Query, &IndexCache::new(64 << 10));
        let index = open(&made, &form, &access).await.unwrap();
        assert_eq!(index.partition_count(), list.len() as u64);
        assert_eq!(index.first(), &list[0].lookup.key);
        assert_eq!(index.last(), &list[list.len() - 1].lookup.key);
        let data_bytes = made.files[2].len() as u64;
        for (number, Partition { lookup, data_bytes, has_rows }) in list.iter().enumerate() {
            let found = index.find(lookup, &access).await.unwrap().unwrap();
            let position = made.starts[number];
            assert_eq!(found.position, position);
            assert_eq!(found.rows.is_some(), *has_rows);
            assert_eq!(found.key.as_ref(), has_rows.then_some(&lookup.key));
            let end = position + data_bytes;
            let in_order = form == KeyForm::Whole;
            assert!(found.end.is_none_or(|found| found == end || (!in_order && position < found)));
        }
        for Partition { lookup, .. } in &others {
            if list.iter().all(|partition| partition.lookup != *lookup)
                && let Some(found) = index.find(lookup, &access).await.unwrap()
            {
                // Unconfirmed: the data tells, and one byte of the hash is right.
                assert_eq!(found.key, None);
                let number = made.starts.iter().position(|start| *start == found.position);
                let there = &list[number.unwrap()].lookup;
                assert_ne!(there, lookup);
                assert_eq!(there.hash.1 as u8, lookup.hash.1 as u8);
            }
        }
        for Partition { lookup, .. } in list.iter().step_by(3).chain(&others) {
            for (key, after) in [(false, false), (false, true), (true, false), (true, true)] {
                let key = key.then(|| lookup.key.key.to_vec());
                let bound = RingBound { token: lookup.key.token, key, after };
                let split = list.partition_point(|partition| {
                    let key = &partition.lookup.key;
                    bound.place(key.token, &key.key).is_lt()
                });
                let expected = made.starts.get(split).copied().unwrap_or(data_bytes);
                assert_eq!(
                    index.lower_bound(&bound, &access).await.unwrap(),
                    expected,
                    "{bound:?}"
                );
                let mut entries = TrieEntries::new(&index, &bound, &access);
                for (number, partition) in list.iter().enumerate().skip(split) {
                    let found = entries.next().await.unwrap().unwrap();
                    let end = made.starts.get(number + 1).copied().unwrap_or(data_bytes);
                    assert_eq!((found.position, found.end), (made.starts[number], Some(end)));
                    assert_eq!(found.rows.is_some(), partition.has_rows);
                    assert!(found.key.is_none_or(|key| key == partition.lookup.key));
                }
                assert_eq!(entries.next().await.unwrap(), None);
            }
        }
    }
}

/// A walk over many partitions reads several pages at a time.
#[test]
fn walks_read_ahead() {
    in_simulation(async {
        let key = |number: u32| Lookup::new(Bytes::copy_from(&number.to_be_bytes()));
        let mut list: Vec<Partition> = (0..30_000)
            .map(|number| Partition { lookup: key(number), data_bytes: 20, has_rows: false })
            .collect();
        list.sort_by(|a, b| a.lookup.key.cmp(&b.lookup.key));
        let made = make(&list, &KeyForm::Whole);
        let pages = made.files[0].len() as u64 / PAGE_BYTES;
        assert!(40 < pages);
        let access = Access::new(IoClass::Query, &IndexCache::new(256 << 10));
        let index = open(&made, &KeyForm::Whole, &access).await.unwrap();
        let before = runtime::io::stats(IoClass::Query).reads;
        let bound = RingBound { token: Token::MIN, key: None, after: false };
        let mut entries = TrieEntries::new(&index, &bound, &access);
        for start in &made.starts {
            assert_eq!(entries.next().await.unwrap().unwrap().position, *start);
        }
        assert_eq!(entries.next().await.unwrap(), None);
        let reads = runtime::io::stats(IoClass::Query).reads - before;
        assert!(reads < pages / 3, "{reads} reads of {pages} pages");
    });
}

/// One bit changed, or the end cut off: other answers or damage.
async fn damage(list: Vec<Partition>, which: usize, at: prop::sample::Index, cut: bool) {
    for form in forms() {
        let mut made = make(&list, &form);
        let bytes = &mut made.files[which];
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << (at % 8);
        }
        let access = Access::new(IoClass::Query, &IndexCache::new(64 << 10));
        let Ok(index) = open(&made, &form, &access).await else { continue };
        for Partition { lookup, .. } in &list {
            let _ = index.find(lookup, &access).await;
            let bound = RingBound { token: lookup.key.token, key: None, after: false };
            let _ = index.lower_bound(&bound, &access).await;
        }
        let bound = RingBound { token: Token::MIN, key: None, after: false };
        let mut entries = TrieEntries::new(&index, &bound, &access);
        let mut last = None;
        while let Ok(Some(found)) = entries.next().await {
            assert!(last < Some(found.position), "entries make progress");
            last = Some(found.position);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn lookups_agree_with_a_sorted_list(list in partitions(), others in partitions()) {
        in_simulation(check(list, others));
    }

    #[test]
    fn damage_is_survived(
        list in partitions(),
        which in 0usize..3,
        at: prop::sample::Index,
        cut: bool,
    ) {
        in_simulation(damage(list, which, at, cut));
    }
}
