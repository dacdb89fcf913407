//! Against a naive model, on promoted indexes of random blocks, counting pages.

use super::*;
use crate::index::promoted::{BlockBound, PromotedBuilder};
use crate::mx::clustering::BoundKind;
use crate::mx::header::{SerializationHeader, Shape};
use crate::mx::layout::Bases;
use crate::mx::layout::DeletionForm;
use crate::testing::schema_of_header;
use model::key::push_clustering;
use std::cell::RefCell;
use stdx::{Bytes, Prng, Put};

const HEADER_BYTES: u64 = 30;

/// Where the promoted index starts in the file of the tests.
const START: usize = 1234;

/// A file of which pages come into memory when they are asked for.
#[derive(Clone, Debug)]
struct TestPages {
    file: Vec<Bytes>,
    there: RefCell<Vec<u64>>,
}

impl Pages for TestPages {
    type Page = Bytes;
    fn now(&self, number: u64) -> Option<Bytes> {
        self.there.borrow().contains(&number).then(|| self.bytes(number))
    }
}

impl TestPages {
    fn bytes(&self, number: u64) -> Bytes {
        self.file.get(number as usize).cloned().unwrap_or_default()
    }
}

/// A promoted index and where it stands.
struct Index {
    pages: TestPages,
    at: PromotedAt,
    mapping: Rc<Mapping>,
}

/// A block as the tests know it: rows from `first` to `last`, or a marker where `weight` says so.
#[derive(Clone, Debug)]
struct Known {
    first: (i32, i8),
    last: (i32, i8),
    offset: u64,
    width: u64,
    open: Tombstone,
}

fn prefix(value: i32) -> Vec<u8> {
    let mut out = Vec::new();
    push_clustering(&value.to_be_bytes(), &mut out);
    out
}

fn mapping() -> Rc<Mapping> {
    let int = "org.apache.cassandra.db.marshal.Int32Type".to_string();
    let header = SerializationHeader {
        bases: Bases::EPOCH,
        partition_key: int.clone(),
        clustering: vec![int],
        statics: Vec::new(),
        regulars: Vec::new(),
    };
    let schema = schema_of_header(&header).unwrap();
    let shape = Shape::new(&header, &schema).unwrap();
    Rc::new(Mapping { schema: Rc::new(schema), shape })
}

fn blocks(prng: &mut Prng, count: usize, step: impl Fn(&mut Prng) -> i32) -> Vec<Known> {
    let (mut at, mut offset) = (-1000, HEADER_BYTES);
    let mut out = Vec::new();
    for _ in 0..count {
        at += 1 + step(prng);
        let first = (at, if prng.one_in(5) { -1 } else { 0 });
        at += 1 + step(prng);
        let last = (at, if prng.one_in(5) { 1 } else { 0 });
        let width = prng.between(1, 5000);
        let open = match prng.one_in(3) {
            true => Tombstone::new(offset as i64, 5),
            false => Tombstone::NONE,
        };
        out.push(Known { first, last, offset, width, open });
        offset += width;
    }
    out
}

fn kind(weight: i8) -> BoundKind {
    match weight {
        -1 => BoundKind::InclStart,
        1 => BoundKind::InclEnd,
        _ => BoundKind::Row,
    }
}

fn index(blocks: &[Known]) -> Index {
    let mapping = mapping();
    let fixed = &mapping.shape.clustering;
    let mut builder = PromotedBuilder::default();
    for block in blocks {
        let bound = |(at, weight)| BlockBound { kind: kind(weight), prefix: prefix(at) };
        let (first, last) = (bound(block.first), bound(block.last));
        builder.push(&first, &last, (block.offset, block.width), block.open, fixed);
    }
    let promoted = builder.finish(HEADER_BYTES, Tombstone::NONE).concat();
    let mut file = vec![0xaa; START];
    file.put(&promoted);
    let mut cursor = Cursor::new(&promoted);
    cursor.vint("header").unwrap();
    cursor.take(12, "deletion time").unwrap();
    let blocks = cursor.vint("count").unwrap() as u32;
    let at = PromotedAt {
        start: START as u64,
        len: promoted.len() as u64,
        blocks_at: (START + cursor.offset()) as u64,
        blocks,
        header_bytes: HEADER_BYTES,
        tombstone: Tombstone::NONE,
        form: DeletionForm::Plain,
    };
    file.put(&[0xbb; 100]);
    let there = RefCell::new(vec![START as u64 / PAGE_BYTES]);
    let file = file.chunks(PAGE_BYTES as usize).map(Bytes::copy_from).collect();
    Index { pages: TestPages { file, there }, at, mapping }
}

impl Index {
    fn search(&self, exact: bool, outer: Option<i32>) -> Search<TestPages> {
        let order = &self.mapping.schema.order;
        let outer = outer.map(|at| Ordinal::of(order, (&prefix(at), 1)));
        Search::new(self.pages.clone(), self.at, self.mapping.clone(), exact, outer)
    }
}

/// Ends a step, loading what it needs; answers how many pages it needed.
fn drive<T>(
    search: &mut Search<TestPages>,
    mut step: impl FnMut(&mut Search<TestPages>) -> Result<T, Stop>,
) -> (T, usize) {
    let mut loaded = 0;
    loop {
        match step(search) {
            Ok(value) => {
                search.settle();
                assert!(search.held.held.len() <= HELD_MAX);
                return (value, loaded);
            }
            Err(Stop::Damaged(damaged)) => panic!("{damaged}"),
            Err(Stop::Need(number)) => {
                let there = search.pages().there.borrow().contains(&number);
                assert!(!there, "page {number} is there");
                search.pages().there.borrow_mut().push(number);
                let page = search.pages().bytes(number);
                search.hold(number, page);
                loaded += 1;
            }
        }
    }
}

/// What `advance_to` must answer.
fn expected_skip(blocks: &[Known], exact: bool, at: (i32, i8)) -> Skip {
    let starts = blocks.partition_point(|block| block.first <= at);
    let open = |count: usize| match count {
        0 => Tombstone::NONE,
        count => blocks[count - 1].open,
    };
    match starts.checked_sub(1) {
        None => Skip { offset: HEADER_BYTES, open: Tombstone::NONE },
        Some(index) if exact && blocks[index].last < at => {
            let block = &blocks[index];
            Skip { offset: block.offset + block.width, open: block.open }
        }
        Some(index) => Skip { offset: blocks[index].offset, open: open(index) },
    }
}

/// The exact end of what lies before a position; `None` for all of the partition.
fn expected_end(blocks: &[Known], exact: bool, at: (i32, i8)) -> Option<u64> {
    let beyond = blocks.get(blocks.partition_point(|block| block.first < at));
    let last = blocks.last().map(|block| block.offset + block.width).filter(|_| exact);
    beyond.map(|block| block.offset).or(last)
}

fn position(prng: &mut Prng, blocks: &[Known]) -> (i32, i8) {
    let (low, high) = (blocks[0].first.0 - 3, blocks[blocks.len() - 1].last.0 + 3);
    let at = low + prng.below((high - low) as u64) as i32;
    (at, [-1, 0, 1][prng.below(3) as usize])
}

fn check_steps(prng: &mut Prng, blocks: &[Known], exact: bool, outer: Option<i32>) {
    let mut one = index(blocks).search(exact, outer);
    let mut positions: Vec<(i32, i8)> = (0..8).map(|_| position(prng, blocks)).collect();
    positions.sort();
    for at in positions {
        let bytes = prefix(at.0);
        let place = (&bytes[..], at.1);
        let (skip, _) = drive(&mut one, |search| search.advance_to(place));
        assert_eq!(skip, expected_skip(blocks, exact, at), "{at:?}");
        let end = (at.0 + prng.below(40) as i32, 1);
        let bytes = prefix(end.0);
        let end_place = (&bytes[..], end.1);
        let before = one.pages().there.borrow().len();
        let probed = one.probe_end(end_place);
        assert_eq!(one.pages().there.borrow().len(), before, "a probe that reads");
        let exact_end = expected_end(blocks, exact, end);
        if let Some(probed) = probed {
            assert!(exact_end.is_some_and(|end| end <= probed), "{probed} {exact_end:?}");
            let last = expected_end(blocks, exact, (i32::MAX, 1));
            assert!(blocks.iter().any(|block| block.offset == probed) || Some(probed) == last);
        }
        if prng.one_in(3) {
            let (found, _) = drive(&mut one, |search| search.find_end(end_place));
            assert_eq!(found, exact_end, "{end:?}");
        }
    }
}

#[test]
fn steps_agree_with_a_naive_model() {
    for seed in 0..300 {
        let mut prng = Prng::from_seed(seed);
        let count = prng.between(2, if seed % 10 == 0 { 2000 } else { 200 }) as usize;
        let blocks = match seed % 3 {
            0 => blocks(&mut prng, count, |_| 1),
            1 => blocks(&mut prng, count, |prng| prng.below(30) as i32),
            _ => blocks(&mut prng, count, |prng| 1 << prng.below(14)),
        };
        let outer = [None, Some(blocks[count - 1].last.0), Some(7)][prng.below(3) as usize];
        let exact = prng.one_in(2);
        check_steps(&mut prng, &blocks, exact, outer);
        check_backwards(&mut prng, &blocks, exact);
    }
}

/// Walks backwards over the blocks of a range: what comes covers all of its rows, and at most one
/// block below it.
fn check_backwards(prng: &mut Prng, blocks: &[Known], exact: bool) {
    let (a, b) = (position(prng, blocks), position(prng, blocks));
    let (from, to) = (a.min(b), a.max(b));
    let (from_bytes, to_bytes) = (prefix(from.0), prefix(to.0));
    let (lower, upper) = ((&from_bytes[..], from.1), (&to_bytes[..], to.1));
    let mut one = index(blocks).search(exact, None);
    let (top, _) = drive(&mut one, |search| search.last_before(upper, lower));
    let mut seen = vec![top];
    while let (Some(block), _) = drive(&mut one, |search| search.previous(lower)) {
        assert_eq!(block.end, seen[seen.len() - 1].start);
        seen.push(block);
    }
    let wanted: Vec<&Known> =
        blocks.iter().rev().filter(|block| block.first < to && from <= block.last).collect();
    let stretches: Vec<(u64, u64)> =
        seen.iter().filter(|block| block.start < block.end).map(|b| (b.start, b.end)).collect();
    for block in &wanted {
        assert!(stretches.contains(&(block.offset, block.offset + block.width)), "{block:?}");
    }
    let spare = if exact { 0 } else { 1 };
    assert!(stretches.len() <= wanted.len() + spare, "{from:?} {to:?} {stretches:?}");
    for block in seen {
        let before = blocks.iter().rev().find(|known| known.offset < block.start);
        let open = before.map_or(Tombstone::NONE, |known| known.open);
        assert_eq!(block.open, open, "{block:?}");
    }
}

/// Pages that a cold lookup of one row takes, on average and at most.
fn cold_pages(blocks: &[Known], outer: Option<i32>, seed: u64) -> (f64, usize) {
    let mut prng = Prng::from_seed(seed);
    let (mut all, mut most, mut unknown) = (0, 0, 0);
    let index = index(blocks);
    for _ in 0..200 {
        let mut one = index.search(true, outer);
        let at = position(&mut prng, blocks).0;
        let bytes = prefix(at);
        let (skip, pages) = drive(&mut one, |search| search.advance_to((&bytes, -1)));
        assert_eq!(skip, expected_skip(blocks, true, (at, -1)));
        let end = one.probe_end((&bytes, 1));
        // But where the row starts the last block of a page.
        if end != expected_end(blocks, true, (at, 1)) {
            let starts = blocks.iter().any(|block| block.first.0 == at);
            assert!(starts, "the end of {at} is {end:?}");
            unknown += 1;
        }
        all += pages;
        most = most.max(pages);
    }
    assert!(unknown <= 2, "the end of one row is known");
    (all as f64 / 200.0, most)
}

#[test]
fn a_cold_lookup_takes_few_pages() {
    let mut prng = Prng::from_seed(7);
    let even = blocks(&mut prng, 105_000, |_| 8);
    let last = even[even.len() - 1].last.0;
    let (mean, most) = cold_pages(&even, Some(last), 1);
    assert!(mean <= 3.5 && most <= 6, "{mean} pages, at most {most}");
    let (mean, most) = cold_pages(&even, None, 2);
    assert!(mean <= 5.5 && most <= 8, "{mean} pages, at most {most}");
    let random = blocks(&mut prng, 105_000, |prng| prng.below(1000) as i32);
    let last = random[random.len() - 1].last.0;
    let (mean, most) = cold_pages(&random, Some(last), 3);
    assert!(mean <= 6.0 && most <= 9, "{mean} pages, at most {most}");
    let skewed = blocks(&mut prng, 105_000, |prng| 1 << prng.below(13) << prng.below(4) >> 4);
    let last = skewed[skewed.len() - 1].last.0;
    let (mean, most) = cold_pages(&skewed, Some(last), 4);
    assert!(mean <= 9.0 && most <= 40, "{mean} pages, at most {most}");
}

#[test]
fn damaged_indexes_end_every_step() {
    let mut prng = Prng::from_seed(3);
    let whole = blocks(&mut prng, 400, |prng| prng.below(30) as i32);
    let index = index(&whole);
    for _ in 0..500 {
        let mut one = index.search(true, None);
        for _ in 0..prng.between(1, 30) {
            let file = &mut one.held.pages.file;
            let number = prng.below(file.len() as u64) as usize;
            let mut page = file[number].to_vec();
            let at = prng.below(page.len() as u64) as usize;
            page[at] = prng.next_u64() as u8;
            file[number] = page.into();
        }
        let at = prefix(position(&mut prng, &whole).0);
        let mut asked = Vec::new();
        loop {
            match one.advance_to((&at, -1)).map(drop).and_then(|()| {
                one.last_before((&at, 1), (&at, -1)).map(drop)?;
                one.previous((&at, -1)).map(drop)
            }) {
                Ok(()) | Err(Stop::Damaged(_)) => break,
                Err(Stop::Need(number)) => {
                    assert!(!asked.contains(&number), "{number} again");
                    asked.push(number);
                    let page = one.pages().bytes(number);
                    one.hold(number, page);
                }
            }
        }
    }
}
