//! A log in memory that does what the contract says, word by word; and random changes for it.

use consensus::entry::{Cut, Entry, Kind};
use consensus::traits::{Change, Hard, Loaded};
use consensus::{Members, NodeId};
use stdx::prng::Prng;

/// What a log has after a change.
pub(super) fn fold(mut log: Loaded, change: &Change) -> Loaded {
    log.staged = change.staged.clone();
    if let Some(cut) = &change.install {
        log.cut = Some(cut.clone());
        log.entries.clear();
    }
    if let Some(first) = change.entries.first() {
        log.entries.retain(|entry| entry.index < first.index);
        log.entries.extend(change.entries.iter().cloned());
    }
    log.hard = change.hard.unwrap_or(log.hard);
    if let Some(cut) = &change.cut {
        log.cut = Some(cut.clone());
        log.entries.retain(|entry| cut.index < entry.index);
    }
    log
}

/// The last entry of a log.
pub(super) fn last(log: &Loaded) -> u64 {
    log.cut.as_ref().map_or(0, |cut| cut.index) + log.entries.len() as u64
}

fn members(random: &mut Prng) -> Members {
    let mut some = |least: u64| {
        let mut ids = random.between(least, 3);
        let mut list: Vec<_> = Vec::new();
        while 0 < ids {
            list.push(NodeId(random.next_u64() >> random.below(60) | 1));
            ids -= 1;
        }
        list.sort();
        list.dedup();
        list
    };
    let voters = some(1);
    let mut learners = some(0);
    learners.retain(|node| !voters.contains(node));
    let mut outgoing = some(0);
    // Who stays a voter is in both.
    if outgoing.len() == 2 {
        outgoing.push(voters[0]);
        outgoing.sort();
        outgoing.dedup();
    }
    let learners_next = outgoing.iter().copied().filter(|_| random.one_in(2)).collect();
    Members { voters, learners, outgoing, learners_next, auto_leave: random.one_in(2) }
}

fn cut(index: u64, random: &mut Prng) -> Cut {
    Cut { index, term: random.between(1, 9), members: members(random) }
}

fn entry(index: u64, large: u64, random: &mut Prng) -> Entry {
    let is_move = random.one_in(10);
    let kind = if is_move { Kind::Members } else { Kind::Command };
    let bytes = if random.one_in(40) { random.below(large) } else { random.below(50) };
    let mut data = vec![0; bytes as usize];
    random.fill(&mut data);
    if is_move {
        // One node that votes from now on, as these are encoded.
        data = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, random.between(1, 200) as u8];
    }
    let origin = vec![7; random.below(3) as usize];
    Entry { index, term: random.between(1, 1 << 40), kind, origin, data }
}

/// A change that may come next; `large` is more than the bytes of its largest entry.
pub(super) fn draw(log: &Loaded, large: u64, random: &mut Prng) -> Change {
    let mut change = Change::default();
    let mut begin = log.cut.as_ref().map_or(0, |cut| cut.index);
    let mut end = last(log);
    if random.one_in(8) {
        change.staged = Some(cut(end + 1 + random.below(9), random));
    }
    if random.one_in(12) {
        let index = begin.max(1) + random.below(end - begin + 5);
        change.install = Some(cut(index, random));
        (begin, end) = (index, index);
    }
    if !random.one_in(4) {
        let replaces = random.one_in(3);
        let first = if replaces { random.between(begin + 1, end + 1) } else { end + 1 };
        let count = random.between(1, 5);
        change.entries = (first..first + count).map(|index| entry(index, large, random)).collect();
        end = first + count - 1;
    }
    if random.one_in(2) {
        let vote = if random.one_in(3) { 0 } else { random.next_u64() };
        let term = random.next_u64() >> random.below(64);
        change.hard = Some(Hard { term, vote, commit: random.between(0, end) });
    }
    if begin < end && random.one_in(5) {
        change.cut = Some(cut(random.between(begin + 1, end), random));
    }
    change
}
