//! The keys of a file that is being written, until its filter can be made.
//!
//! A filter's size follows from the number of keys, which is known at the end. So hashes are kept,
//! up to [`KEPT_MAX`] of them; of a file with more keys the filter is made then, for as many as are
//! expected, and has room for four times as many as were kept at least.
//!
//! Invariants
//!  - *in-steps*: neither a key that comes nor making the filter takes the shard for longer than a
//!    piece of memory is cleared: between pieces others have their turn.
//!  - *all-hashes*: every hash that was added is in the filter that is made.

use super::Filter;
use runtime::task::yield_if_needed;

/// Keys whose hashes are kept until the filter's size is known.
const KEPT_MAX: usize = 1 << 20;
/// Hashes that are kept in one piece of memory, and put into the filter in one step.
const PIECE_HASHES: usize = 1 << 12;
/// Words that are cleared in one step.
const PIECE_WORDS: usize = 1 << 15;

/// Hashes of partition keys, or the filter made of them.
#[derive(Debug)]
pub struct KeyHashes {
    fp_chance: f64,
    /// Keys that are expected, where more come than are kept.
    expected: u64,
    kept_max: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Kept(Vec<Vec<(u64, u64)>>),
    Filter(Option<Filter>),
}

impl KeyHashes {
    /// Of none yet, for a filter with that chance of false positives.
    pub fn new(fp_chance: f64, expected: u64) -> KeyHashes {
        KeyHashes { fp_chance, expected, kept_max: KEPT_MAX, state: State::Kept(Vec::new()) }
    }

    /// Adds a key by its murmur3 hash.
    pub fn add(&mut self, hash: (u64, u64)) {
        match &mut self.state {
            State::Filter(Some(filter)) => filter.add(hash),
            State::Filter(None) => {}
            State::Kept(pieces) => match pieces.last_mut() {
                Some(last) if last.len() < PIECE_HASHES => last.push(hash),
                _ => {
                    // The first piece grows as it needs to: there are many small files.
                    let room = if pieces.is_empty() { 1 } else { PIECE_HASHES };
                    let mut piece = Vec::with_capacity(room);
                    piece.push(hash);
                    pieces.push(piece);
                }
            },
        }
    }

    /// Whether [`KeyHashes::settle`] is wanted.
    pub fn is_due(&self) -> bool {
        match &self.state {
            State::Kept(pieces) => self.kept_max <= count(pieces),
            State::Filter(_) => false,
        }
    }

    /// Makes the filter of the keys there are, with room for more.
    pub async fn settle(&mut self) {
        let State::Kept(pieces) = &mut self.state else { return };
        let pieces = std::mem::take(pieces);
        debug_assert!(self.kept_max <= count(&pieces), "all-hashes: settled too early");
        let keys = self.expected.max(4 * self.kept_max as u64);
        self.state = State::Filter(filter_of(keys, self.fp_chance, pieces).await);
    }

    /// The filter. `None` where none is wanted (a chance of 1).
    pub async fn finish(self) -> Option<Filter> {
        match self.state {
            State::Kept(pieces) => filter_of(count(&pieces) as u64, self.fp_chance, pieces).await,
            State::Filter(filter) => filter,
        }
    }
}

fn count(pieces: &[Vec<(u64, u64)>]) -> usize {
    let whole = pieces.iter().rev().skip(1).all(|piece| piece.len() == PIECE_HASHES);
    debug_assert!(whole, "all-hashes: a piece before the last is not full");
    pieces.last().map_or(0, |last| (pieces.len() - 1) * PIECE_HASHES + last.len())
}

async fn filter_of(keys: u64, fp_chance: f64, pieces: Vec<Vec<(u64, u64)>>) -> Option<Filter> {
    let (hash_count, words) = Filter::layout(keys, fp_chance)?;
    let mut filter = Filter { hash_count, words: Vec::with_capacity(words) };
    while filter.words.len() < words {
        let piece = PIECE_WORDS.min(words - filter.words.len());
        filter.words.resize(filter.words.len() + piece, 0);
        yield_if_needed().await;
    }
    debug_assert!(filter.words.len() == words, "bounded: {words} words");
    for piece in pieces {
        debug_assert!(piece.len() <= PIECE_HASHES, "in-steps: {} hashes", piece.len());
        piece.iter().for_each(|hash| filter.add(*hash));
        yield_if_needed().await;
    }
    Some(filter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter that is made of so many keys when so many are kept, and one that is made at once.
    fn check(keys: usize, kept_max: usize, expected: u64) {
        let mut prng = stdx::Prng::from_seed(keys as u64);
        let hashes: Vec<_> = (0..keys).map(|_| (prng.next_u64(), prng.next_u64())).collect();
        let made = runtime::sim::test(1, {
            let hashes = hashes.clone();
            move || async move {
                let mut kept = KeyHashes { kept_max, ..KeyHashes::new(0.01, expected) };
                for hash in hashes {
                    kept.add(hash);
                    if kept.is_due() {
                        kept.settle().await;
                        assert!(!kept.is_due());
                    }
                }
                kept.finish().await.unwrap()
            }
        });
        let room = match kept_max <= keys {
            true => expected.max(4 * kept_max as u64),
            false => keys as u64,
        };
        let mut whole = Filter::new(room, 0.01).unwrap();
        hashes.iter().for_each(|hash| whole.add(*hash));
        assert!(made == whole, "{keys} keys, {kept_max} kept, {expected} expected");
    }

    #[test]
    fn a_filter_made_in_steps_is_the_one_made_at_once() {
        for keys in [0, 1, PIECE_HASHES - 1, PIECE_HASHES, PIECE_HASHES + 1, 30_000] {
            check(keys, KEPT_MAX, 10);
        }
        check(300_000, KEPT_MAX, 10);
        check(10_000, 9_999, 10);
        check(10_000, 10_000, 10);
        check(10_000, 1, 9_000_000);
        check(10_000, PIECE_HASHES, 10);
    }

    #[test]
    fn where_none_is_wanted_there_is_none() {
        runtime::sim::test(1, || async {
            let mut kept = KeyHashes { kept_max: 2, ..KeyHashes::new(1.0, 10) };
            kept.add((1, 2));
            kept.add((3, 4));
            kept.settle().await;
            kept.add((5, 6));
            assert_eq!(kept.finish().await, None);
            assert_eq!(KeyHashes::new(1.0, 0).finish().await, None);
        });
    }
}
