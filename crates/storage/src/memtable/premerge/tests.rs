//! What is merged ahead is what applying merges, and the step that applies it copies none of it.

use super::super::{KeyRange, MemtableSource};
use super::*;
use crate::large_data::Watch;
use crate::testing::{self, C, S, V};
use model::DecoratedKey;
use mutation::{Cell, CellState, Fragment, FrozenMutation, Marker, MutationBuilder};
use reader::{Budget, Slice, Source};
use std::future::{Future, poll_fn};
use std::pin::pin;
use stdx::{Bytes, Prng};

/// What a mutation does to a row.
#[derive(Clone, Copy, Debug)]
enum What {
    Value { bytes: usize, marker: bool },
    Adds { elements: u32 },
    Overwrites { elements: u32 },
    Both { bytes: usize, elements: u32 },
    Deletes,
}

fn elements(row: &mut RowBuilder, count: u32, overwrites: bool, timestamp: i64, from: u32) {
    let tomb = if overwrites { Tombstone::new(timestamp - 1, 1) } else { Tombstone::NONE };
    let mut set = CollectionWriter::new(tomb);
    for element in from..from + count {
        set.push(&(3 * element).to_be_bytes(), Cell { timestamp, state: live(b"") });
    }
    row.collection(C, &set.finish());
}

fn live(value: &[u8]) -> CellState<'_> {
    CellState::Live { value }
}

fn filled(what: What, timestamp: i64, seed: u32) -> Vec<u8> {
    let mut row = RowBuilder::new(Vec::new());
    let value = |bytes: usize| vec![seed as u8; bytes];
    match what {
        What::Value { bytes, marker } => {
            if marker {
                row.marker(Marker::Live { timestamp });
            }
            row.cell(V, Cell { timestamp, state: live(&value(bytes)) });
        }
        What::Adds { elements: count } => elements(&mut row, count, false, timestamp, seed),
        What::Overwrites { elements: count } => elements(&mut row, count, true, timestamp, seed),
        What::Both { bytes, elements: count } => {
            row.marker(Marker::Live { timestamp });
            row.cell(V, Cell { timestamp, state: live(&value(bytes)) });
            elements(&mut row, count, seed.is_multiple_of(2), timestamp, seed);
        }
        What::Deletes => row.tombstone(Tombstone::new(timestamp, 1)),
    }
    row.finish()
}

/// One of a partition with that static value and these rows.
fn mutation(
    schema: &TableSchema,
    static_bytes: usize,
    rows: &[(u32, What)],
    (timestamp, seed): (i64, u32),
) -> FrozenMutation {
    let mut builder = MutationBuilder::new(schema, &testing::key(1));
    if 0 < static_bytes {
        let mut row = RowBuilder::new(Vec::new());
        row.cell(S, Cell { timestamp, state: live(&vec![seed as u8; static_bytes]) });
        builder.static_row(row.finish());
    }
    for (row, what) in rows {
        builder.row(&testing::clustering(&[*row, 0]), &filled(*what, timestamp, seed));
    }
    builder.freeze()
}

/// How often a future gave others their turn.
async fn turns<F: Future>(future: F) -> (F::Output, usize) {
    let (mut future, mut count) = (pin!(future), 0);
    let output = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        count += usize::from(polled.is_pending());
        polled
    });
    (output.await, count)
}

fn in_simulation<F: Future + 'static>(future: F) -> F::Output
where
    F::Output: 'static,
{
    let mut node = testkit::SimNode::new(7, 1);
    node.run(future)
}

async fn fragments(memtable: &Rc<Memtable>) -> Vec<Fragment> {
    let key = DecoratedKey::new(Bytes::from(testing::key(1)));
    let mut source = MemtableSource::new(memtable.clone(), KeyRange::One(key), Slice::full());
    let mut out = Vec::new();
    loop {
        let before = out.len();
        source.fill(Budget::BATCH, &mut out).await.unwrap();
        if out.len() == before {
            return out;
        }
    }
}

struct Two {
    schema: TableSchema,
    ahead: Rc<Memtable>,
    at_once: Rc<Memtable>,
}

impl Two {
    fn new() -> Two {
        let schema = testing::schema(1, "t");
        let memtable = || Rc::new(Memtable::new(Rc::new(schema.order.clone())));
        let (ahead, at_once) = (memtable(), memtable());
        Two { schema, ahead, at_once }
    }

    /// Applies `new` to both; `racing` after what is merged ahead was merged. The bytes that the
    /// step allocated, and the turns before.
    async fn apply(&self, new: &FrozenMutation, racing: Option<&FrozenMutation>) -> (u64, usize) {
        let key = DecoratedKey::new(Bytes::from(testing::key(1)));
        let view = new.view().unwrap();
        let (ahead, turns) =
            turns(self.ahead.prepare(&self.schema, &key, &view, Watch::NONE)).await;
        if let Some(racing) = racing {
            let view = racing.view().unwrap();
            self.ahead.apply(&self.schema, key.clone(), &view);
            self.at_once.apply(&self.schema, key.clone(), &view);
        }
        let before = memory::counts().bytes;
        self.ahead.apply_watched(&self.schema, key.clone(), &view, Watch::NONE, ahead);
        let allocated = memory::counts().bytes - before;
        self.at_once.apply(&self.schema, key, &view);
        (allocated, turns)
    }

    async fn check(&self, what: &str) {
        assert!(fragments(&self.ahead).await == fragments(&self.at_once).await, "{what}");
    }
}

/// Its name, bytes of the static value, rows.
type Case<'c> = (&'c str, usize, &'c [(u32, What)]);

#[test]
fn large_rows_take_turns_and_the_step_puts_them_into_place() {
    const MIB: usize = 1 << 20;
    let value = |bytes| What::Value { bytes, marker: true };
    let of_update = |bytes| What::Value { bytes, marker: false };
    in_simulation(async move {
        let cases: [Case<'_>; 8] = [
            ("a value", 0, &[(1, value(5 * MIB))]),
            ("a value in its place", 0, &[(1, value(5 * MIB - 7))]),
            ("a value of a row with a marker", 0, &[(1, of_update(5 * MIB))]),
            ("a static value", 2 * MIB, &[(1, value(10)), (2, value(MIB))]),
            ("a collection", 0, &[(3, What::Overwrites { elements: 100_000 })]),
            ("a collection that covers it", 0, &[(3, What::Overwrites { elements: 90_000 })]),
            ("elements for it", 0, &[(3, What::Adds { elements: 110_000 })]),
            ("both", 0, &[(3, What::Both { bytes: MIB, elements: 50_000 }), (9, value(MIB))]),
        ];
        let two = Two::new();
        for (number, (name, static_bytes, rows)) in cases.into_iter().enumerate() {
            let at = (10 + 10 * number as i64, number as u32);
            let new = mutation(&two.schema, static_bytes, rows, at);
            let (allocated, turns) = two.apply(&new, None).await;
            assert!(allocated < 64 << 10, "{name}: {allocated} bytes in one step");
            assert!(0 < turns, "{name}: it held the shard");
            two.check(name).await;
        }
    });
}

fn random_what(prng: &mut Prng) -> What {
    let bytes = if prng.one_in(2) { 100_000 } else { 10 };
    let elements = prng.below(12_000) as u32;
    match prng.below(9) {
        0 => What::Deletes,
        1..3 => What::Adds { elements: elements / 1000 },
        3 => What::Adds { elements },
        4..6 => What::Overwrites { elements },
        6 => What::Both { bytes, elements },
        _ => What::Value { bytes, marker: prng.one_in(2) },
    }
}

fn random(prng: &mut Prng, schema: &TableSchema, clock: &mut i64) -> FrozenMutation {
    *clock += prng.below(4) as i64 - 1;
    let mut rows = Vec::new();
    if prng.one_in(4) {
        let many = (0..400 + prng.below(100) as u32).map(|row| {
            let value = What::Value { bytes: 10 + row as usize % 7, marker: true };
            (3 * row, if row % 50 == 0 { What::Deletes } else { value })
        });
        return mutation(schema, 0, &many.collect::<Vec<_>>(), (*clock, 1));
    }
    for row in 0..3 {
        if prng.one_in(2) {
            rows.push((row, random_what(prng)));
        }
    }
    let static_bytes = if prng.one_in(4) { 70_000 } else { 0 };
    mutation(schema, static_bytes, &rows, (*clock, prng.below(60) as u32))
}

#[test]
fn many_rows_take_turns_and_the_step_puts_them_into_place() {
    in_simulation(async {
        let two = Two::new();
        for step in 0..3 {
            let value = What::Value { bytes: 100, marker: true };
            let rows: Vec<_> = (0..5_000).map(|row| (row + 2_000 * step, value)).collect();
            let new = mutation(&two.schema, 10, &rows, (10 + step as i64, step));
            let (allocated, turns) = two.apply(&new, None).await;
            assert!(allocated < 4 << 10, "{allocated} bytes in one step");
            assert!(0 < turns, "it held the shard");
            two.check("many rows").await;
            assert_eq!(two.ahead.objects.get(), two.at_once.objects.get());
        }
    });
}

#[test]
fn what_is_merged_ahead_is_what_applying_merges_whoever_comes_between() {
    in_simulation(async {
        for seed in 0..20 {
            let (two, mut prng, mut clock) = (Two::new(), Prng::from_seed(seed), 10);
            for step in 0..12 {
                let new = random(&mut prng, &two.schema, &mut clock);
                let racing = random(&mut prng, &two.schema, &mut clock);
                two.apply(&new, prng.one_in(3).then_some(&racing)).await;
                two.check(&format!("seed {seed} step {step}")).await;
            }
            let (ahead, at_once) = (two.ahead.bytes(), two.at_once.bytes());
            assert!(ahead.abs_diff(at_once) < at_once / 4 + 4096, "{seed}: {ahead} {at_once}");
        }
    });
}

#[test]
fn what_is_merged_ahead_is_counted_as_it_is_allocated() {
    in_simulation(async {
        let schema = testing::schema(1, "t");
        let live = memory::live_bytes();
        let memtable = Memtable::new(Rc::new(schema.order.clone()));
        let key = DecoratedKey::new(Bytes::from(testing::key(1)));
        let mut prng = Prng::from_seed(3);
        for step in 0..30 {
            let rows = [(step % 3, random_what(&mut prng)), (7, random_what(&mut prng))];
            let new = mutation(&schema, 0, &rows, (10 + step as i64, step));
            let view = new.view().unwrap();
            let ahead = memtable.prepare(&schema, &key, &view, Watch::NONE).await;
            memtable.apply_watched(&schema, key.clone(), &view, Watch::NONE, ahead);
        }
        memtable.scratch.borrow_mut().bytes = Vec::new();
        let (allocated, counted) = ((memory::live_bytes() - live) as usize, memtable.bytes());
        assert!(counted.abs_diff(allocated) < allocated / 6, "{counted} of {allocated}");
    });
}
