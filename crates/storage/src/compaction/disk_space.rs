//! Room on the disk: what a merge needs of it, and whether it is there.
//!
//! Invariants
//!  - *fits-first*: a merge that writes begins only where the disk has room for the most that it
//!    takes beside its inputs at any time, for what the merges that run may still take, and a
//!    reserve: what log and memtables may come to, at most a twentieth of the disk. So it is not
//!    merges that fill a disk, and writes go on when merges have stopped. What has expired is
//!    dropped in any case.
//!  - *small-ones-go*: merges that together need no more than a 64th of what is free begin in any
//!    case. They cost the reserve next to nothing, and without them a table of a few rows could
//!    not be compacted on a disk that only others have filled.
//!  - *one-answer*: shard 0 answers one question after the other, and knows what all shards were
//!    promised: they share the disk.
//!  - *promised-adds-up*: what a shard was promised is the sum of what its claims have left.
//!  - *held-not-lost*: what did not fit is asked for again when something has changed, and every
//!    ten seconds. It is told when a table begins to be held up, and when one of its merges ends.

use crate::table::Table;
use model::{TableId, Token};
use runtime::io::fs;
use runtime::sync::Semaphore;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The part of a disk that is the reserve at most.
const RESERVE_PART: u64 = 20;

/// The part of what is free that merges have in any case (*small-ones-go*).
const SMALL_PART: u64 = 64;

/// What small merges have in any case is less than what others leave alone.
const _: () = assert!(RESERVE_PART < SMALL_PART);

/// What a merge reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub(crate) tokens: (Token, Token),
    /// On the disk.
    pub(crate) bytes: u64,
}

/// The part of some tokens, evenly spread over the ring, that lies up to `at`.
pub(crate) fn part_until((first, last): (Token, Token), at: Token) -> f64 {
    if at < first {
        return 0.0;
    }
    let count = |last: Token| (last.0 as i128 - first.0 as i128 + 1) as f64;
    let part = count(at.min(last)) / count(last).max(1.0);
    debug_assert!((0.0..=1.0).contains(&part), "fits-first: {part} of {first:?} to {last:?}");
    part
}

/// The most that a merge takes beside its inputs at any time, in bytes of the disk. Its outputs
/// are cut at `cut` bytes; an input goes when what is sealed has all of it, unless all stay to the
/// end.
pub(crate) fn needed(inputs: &[Input], cut: u64, all_stay: bool) -> u64 {
    debug_assert!(
        inputs.iter().all(|input| input.tokens.0 <= input.tokens.1),
        "fits-first: tokens of {inputs:?}"
    );
    let total: u64 = inputs.iter().map(|input| input.bytes).sum();
    if all_stay {
        return total;
    }
    let taken = |at: Token| -> f64 {
        let one = |input: &Input| {
            let gone = if input.tokens.1 < at { 1.0 } else { 0.0 };
            (part_until(input.tokens, at) - gone) * input.bytes as f64
        };
        inputs.iter().map(one).sum()
    };
    // What is written grows until an input ends, which goes with the next seal.
    let most = inputs.iter().map(|input| taken(input.tokens.1)).fold(0.0, f64::max);
    total.min((most.ceil() as u64).saturating_add(cut))
}

/// What merges may be promised yet, of the bytes of a disk (*fits-first*, *small-ones-go*).
pub(crate) fn left(space: fs::Space, reserve: u64, least: u64, promised: u64) -> u64 {
    let reserve = reserve.min(space.total / RESERVE_PART).max(least);
    let theirs = space.free.saturating_sub(reserve).max(space.free / SMALL_PART);
    debug_assert!(theirs <= space.free, "fits-first: {theirs} of {}", space.free);
    theirs.saturating_sub(promised)
}

/// What the merges of a shard were promised, and those that wait.
pub(crate) struct Room {
    /// Bytes that merges which run may still take.
    pub(crate) promised: Cell<u64>,
    /// On shard 0: *one-answer*.
    pub(crate) turn: Semaphore,
    /// Merges that could begin if there were room.
    held: RefCell<Vec<Held>>,
    /// Merges that found the disk full, and wait.
    full: Cell<usize>,
    /// Tables that are held up, as the log was told.
    told: RefCell<Vec<TableId>>,
}

/// A merge that does not fit.
pub(crate) struct Held {
    pub(crate) table: Rc<Table>,
    pub(crate) needed: u64,
}

/// There was less room than was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    pub(crate) room: u64,
}

/// Room that was promised, until this goes.
pub(crate) struct Claim {
    room: Rc<Room>,
    needed: u64,
    left: Cell<u64>,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            promised: Cell::new(0),
            turn: Semaphore::new(1, usize::MAX),
            held: RefCell::default(),
            full: Cell::new(0),
            told: RefCell::default(),
        }
    }
}

impl Claim {
    /// Of so much; the shard counts it as promised already.
    pub(crate) fn new(room: Rc<Room>, needed: u64) -> Claim {
        let promised = room.promised.get();
        assert!(needed <= promised, "promised-adds-up: {needed} of {promised}");
        Claim { room, needed, left: Cell::new(needed) }
    }

    /// So much is taken at present beside what was there before.
    pub(crate) fn set_taken(&self, taken: u64) {
        self.set_left(self.needed.saturating_sub(taken));
    }

    fn set_left(&self, left: u64) {
        let (promised, before) = (self.room.promised.get(), self.left.replace(left));
        debug_assert!(before <= promised, "promised-adds-up: {before} of {promised}");
        assert!(left <= self.needed, "promised-adds-up: {left} of {}", self.needed);
        self.room.promised.set(promised.saturating_sub(before) + left);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.set_left(0);
    }
}

impl Room {
    /// How many merges wait for room.
    pub(crate) fn held_count(&self) -> usize {
        self.held.borrow().len() + self.full.get()
    }

    /// These could begin if there were room for them, of which there is so much.
    pub(crate) fn hold(&self, held: Vec<Held>, room: u64) {
        debug_assert!(held.iter().all(|one| room < one.needed), "held-not-lost: there is room");
        for one in &held {
            self.tell(&one.table, || {
                format!("needs {} bytes, {room} are free beside a reserve for writes", one.needed)
            });
        }
        *self.held.borrow_mut() = held;
    }

    /// Says that a table is held up, once (*held-not-lost*).
    fn tell(&self, table: &Table, why: impl FnOnce() -> String) {
        let mut told = self.told.borrow_mut();
        debug_assert!(
            told.iter().enumerate().all(|(at, one)| !told[..at].contains(one)),
            "told once"
        );
        if !told.contains(&table.id) {
            told.push(table.id);
            tracing::warn!("a merge of {} waits for room on the disk: it {}", table.name(), why());
        }
    }

    /// A merge of a table has ended as it should.
    pub(crate) fn went_on(&self, table: &Table) {
        let mut told = self.told.borrow_mut();
        if let Some(at) = told.iter().position(|id| *id == table.id) {
            told.swap_remove(at);
            tracing::info!("merges of {} go on: the disk has room again", table.name());
        }
    }

    /// A merge of a table found the disk full all the same. Counts it until the guard goes.
    pub(crate) fn found_full(&self, table: &Table, file: &str) -> Full<'_> {
        self.tell(table, || format!("found none for {file}"));
        self.full.set(self.full.get() + 1);
        Full { room: self }
    }
}

/// A merge that found the disk full, and waits.
pub(crate) struct Full<'r> {
    room: &'r Room,
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        assert!(0 < self.room.full.get(), "held-not-lost: nobody waits");
        self.room.full.set(self.room.full.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(first: i64, last: i64, bytes: u64) -> Input {
        Input { tokens: (Token(first), Token(last)), bytes }
    }

    #[test]
    fn a_merge_needs_what_it_writes_before_inputs_go() {
        let all = |bytes| input(0, 999, bytes);
        let run = |bytes: u64| (0..10).map(move |at| input(at * 100, at * 100 + 99, bytes / 10));
        let check = |inputs: &[Input], cut, all_stay, expected| {
            assert_eq!(needed(inputs, cut, all_stay), expected, "{inputs:?} {cut}");
        };
        check(&[], 10, false, 0);
        // Inputs that lie all over the ring go at the end.
        check(&[all(1000), all(2000)], u64::MAX, false, 3000);
        check(&[all(1000), all(2000)], 100, false, 3000);
        // Of runs only what is written of a few fragments is there twice.
        let runs: Vec<Input> = run(1000).chain(run(2000)).collect();
        check(&runs, 100, false, 300 + 100);
        check(&runs, 100, true, 3000);
        check(&runs, u64::MAX, false, 3000);
        // A file that lies all over the ring stays to the end.
        let with_one: Vec<Input> = run(1000).chain([all(500)]).collect();
        check(&with_one, 10, false, 100 + 450 + 50 + 10);
    }

    #[test]
    fn a_reserve_is_left_by_all_but_small_merges() {
        // (total, free), reserve, promised: left
        for ((total, free), reserve, promised, expected) in [
            ((100_000, 50_000), 1_000, 0, 49_000),
            ((100_000, 50_000), 1_000, 9_000, 40_000),
            ((100_000, 50_000), 1_000, 60_000, 0),
            // At most a twentieth of the disk is the reserve.
            ((100_000, 50_000), 80_000, 0, 45_000),
            // Little is free: small ones go, together.
            ((100_000, 6_400), 80_000, 0, 1_400),
            ((100_000, 5_000), 80_000, 0, 78),
            ((100_000, 640), 80_000, 0, 10),
            ((100_000, 640), 80_000, 4, 6),
            ((100_000, 640), 80_000, 11, 0),
            ((100_000, 63), 80_000, 0, 0),
            ((100_000, 0), 0, 0, 0),
        ] {
            let space = fs::Space { total, free };
            assert_eq!(
                left(space, reserve, 0, promised),
                expected,
                "{space:?} {reserve} {promised}"
            );
        }
    }

    #[test]
    fn tokens_are_spread_evenly() {
        let whole = (Token(i64::MIN + 1), Token(i64::MAX));
        for (tokens, at, expected) in [
            ((Token(0), Token(9)), Token(-1), 0.0),
            ((Token(0), Token(9)), Token(0), 0.1),
            ((Token(0), Token(9)), Token(9), 1.0),
            ((Token(0), Token(9)), Token(90), 1.0),
            ((Token(5), Token(5)), Token(5), 1.0),
            (whole, Token(0), 0.5),
        ] {
            let part = part_until(tokens, at);
            assert!((part - expected).abs() < 1e-9, "{part} of {tokens:?} until {at:?}");
        }
    }
}
