//! Whose turn it is on a node: so many ranges are read there at once for repairs as can be, with a
//! permit on each shard. What has no turn waits before anything of it is read, where waiting costs
//! nothing; what has one is never given up between two visits for another one's sake.
//!
//! Who repairs a range takes a turn on each of its replicas, one after the other in the order of
//! their ids, and gives all back together. A turn is a lease: whoever has it says so from time to
//! time, and one of which nothing is heard goes to who waits.
//!
//! Invariants
//!  - *whole*: with turns alone, no shard has more reads of repairs than permits, nor than memory
//!    for them.
//!  - *in-order*: nobody waits for a turn who has one of a later node, so nobody waits in a circle.
//!  - *fifo*: a turn goes to who has waited longest, of those who wait still.
//!  - *not-for-ever*: a lease that is not renewed ends, if others wait.
//!
//! Lives on shard 0 of each node; may be asked on each.

use super::reading::Reading;
use crate::coordinator::own_storage;
use reader::semaphore::{BASE_BYTES, Limits};
use runtime::sync::Notify;
use runtime::task::race;
use runtime::time::{Instant, sleep_until};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How long a turn is good for without a word.
const LEASE: Duration = Duration::from_secs(60);
/// How often who has turns says so.
pub(super) const WORD: Duration = Duration::from_secs(15);
/// How long one question waits, and for how long its place in the queue is kept after that.
const WAIT: Duration = Duration::from_secs(5);
const PLACE: Duration = Duration::from_secs(20);
/// What a range takes of a shard's memory for reads: a visit, and what the files behind it hold.
const READ_BYTES: usize = BASE_BYTES + (512 << 10);

const _: () = assert!(WAIT.as_secs() < PLACE.as_secs() && WORD.as_secs() < LEASE.as_secs());

/// Who has a turn, and who waits. Pure.
#[derive(Debug, Default)]
struct Turns {
    /// And until when it is theirs.
    held: BTreeMap<u128, Instant>,
    /// And until when they are thought to wait.
    waiting: VecDeque<(u128, Instant)>,
    /// How many got one.
    granted: u64,
}

/// Whether one that cannot have a turn now waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Otherwise {
    Waits,
    GoesAway,
}

impl Turns {
    /// Whether it has a turn from now on.
    fn ask(&mut self, id: u128, now: Instant, most: usize, otherwise: Otherwise) -> bool {
        assert!(0 < most, "whole: a node on which nobody has a turn");
        if let Some(until) = self.held.get_mut(&id) {
            *until = now + LEASE;
            return true;
        }
        let place = self.waiting.iter_mut().find(|(one, _)| *one == id);
        let is_new = place.is_none();
        match place {
            Some((_, until)) => *until = now + PLACE,
            None => self.waiting.push_back((id, now + PLACE)),
        }
        self.grant(now, most);
        let has = self.held.contains_key(&id);
        if !has && is_new && otherwise == Otherwise::GoesAway {
            self.waiting.retain(|(one, _)| *one != id);
        }
        debug_assert!(
            self.waiting.iter().all(|(one, _)| !self.held.contains_key(one)),
            "fifo: one waits that has a turn"
        );
        has
    }

    /// Gives turns to those who waited longest.
    fn grant(&mut self, now: Instant, most: usize) {
        self.waiting.retain(|(_, until)| now <= *until);
        while let Some((id, _)) = self.waiting.front().copied() {
            if most <= self.held.len() {
                let over = self.held.iter().find(|(_, until)| **until < now);
                let Some(over) = over.map(|(id, _)| *id) else { return };
                stdx::probe!("a turn of a repair that nobody has heard of goes to another one");
                self.held.remove(&over);
                continue;
            }
            self.waiting.pop_front();
            self.granted += 1;
            let before = self.held.insert(id, now + LEASE);
            assert!(before.is_none(), "whole: a second turn");
            debug_assert!(self.held.len() <= most, "whole: {} of {most}", self.held.len());
        }
    }

    /// It goes on, or does not want one any more.
    fn keep(&mut self, id: u128, now: Instant) {
        if let Some(until) = self.held.get_mut(&id) {
            debug_assert!(*until <= now + LEASE, "not-for-ever: until {until:?}");
            *until = now + LEASE;
        }
    }

    fn end(&mut self, id: u128) {
        self.held.remove(&id);
        self.waiting.retain(|(one, _)| *one != id);
        debug_assert!(!self.held.contains_key(&id), "whole: {id} has two turns");
    }
}

/// *whole*
fn most(limits: &Limits) -> usize {
    let room = (limits.memory_bytes + limits.shared_bytes) / READ_BYTES;
    const { assert!(BASE_BYTES < READ_BYTES, "whole: a read of nothing") };
    room.min(limits.count).max(1)
}

/// Of this node. Stands in `runtime::local` of shard 0.
#[derive(Default)]
struct OfNode {
    turns: RefCell<Turns>,
    changed: Notify,
}

impl OfNode {
    fn ask(&self, id: u128, otherwise: Otherwise) -> bool {
        debug_assert!(runtime::shard_id() == 0, "whole: turns of another shard");
        let most = match (Reading::of_shard().is_whole(), own_storage()) {
            (true, Ok(storage)) => most(&storage.semaphores()[2].limits()),
            // Whoever comes is let in; where the node stops, nothing is read any more.
            _ => usize::MAX,
        };
        let mut turns = self.turns.borrow_mut();
        let before = turns.granted;
        let has = turns.ask(id, Instant::now(), most, otherwise);
        let has_changed = before < turns.granted;
        drop(turns);
        if has_changed {
            self.changed.notify_all();
        }
        has
    }
}

/// Waits for a turn, for a while; whether it has one. Who has none asks again soon, or loses its
/// place.
pub(crate) async fn wait(id: u128) -> bool {
    let wait = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        let deadline = Instant::now() + WAIT;
        loop {
            if node.ask(id, Otherwise::Waits) {
                return true;
            }
            if deadline <= Instant::now() {
                return false;
            }
            race(node.changed.notified(), sleep_until(deadline)).await;
        }
    };
    runtime::on_shard(0, wait).await
}

/// Whether it has a turn still, or can have one at once: a node that started anew knows of none.
pub(crate) async fn has(id: u128) -> bool {
    let ask = move || async move {
        runtime::local::get_or_default::<OfNode>().ask(id, Otherwise::GoesAway)
    };
    runtime::on_shard(0, ask).await
}

/// It goes on.
pub(crate) async fn keep(id: u128) {
    let keep = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        node.turns.borrow_mut().keep(id, Instant::now());
    };
    runtime::on_shard(0, keep).await;
}

/// It wants no turn any more.
pub(crate) async fn end(id: u128) {
    let end = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        node.turns.borrow_mut().end(id);
        node.changed.notify_all();
    };
    runtime::on_shard(0, end).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+1`: 1 asks and waits; `?1`: it asks, and goes away otherwise; `k1`: it keeps its turn;
    /// `-1`: it ends; `s9`: so many seconds pass.
    fn check(most: usize, steps: &str, expected: &str) {
        let (mut turns, mut now, mut found) = (Turns::default(), Instant::from_nanos(0), vec![]);
        for step in steps.split_whitespace() {
            let (kind, number) = step.split_at(1);
            let id: u128 = number.parse().expect("a number");
            match kind {
                "+" => found.push(turns.ask(id, now, most, Otherwise::Waits)),
                "?" => found.push(turns.ask(id, now, most, Otherwise::GoesAway)),
                "k" => turns.keep(id, now),
                "-" => turns.end(id),
                _ => now += Duration::from_secs(id as u64),
            }
        }
        let found: String = found.into_iter().map(|has| if has { 'y' } else { 'n' }).collect();
        assert_eq!(found, expected, "{steps}");
    }

    #[test]
    fn turns_go_to_who_waited_longest() {
        check(2, "+1 +2 +3 +4 -1 +4 +3 -2 +4", "yynnnyy");
        // One that has a turn has it; one that came later does not overtake.
        check(1, "+1 +1 +2 -1 ?3 +2", "yynny");
        check(1, "+1 ?2 -1 ?3 ?2", "ynyn");
        // More at once where the limit is higher.
        check(3, "+1 +2 +3 +4", "yyyn");
    }

    #[test]
    fn who_is_not_heard_of_any_more_goes() {
        // A lease that is not renewed ends only where another one waits.
        check(1, "+1 s61 +1 s61 +2 +1", "yyyn");
        check(1, "+1 s50 k1 s50 +2 s11 +2", "yny");
        // A place in the queue is lost, too.
        check(1, "+1 +2 s21 +3 -1 +3 +2", "ynnyn");
        check(1, "+1 +2 s15 +2 s15 +3 -1 +3 +2", "ynnnny");
        check(1, "+1 +2 -2 -1 +3", "yny");
    }

    #[test]
    fn there_are_no_more_turns_than_permits_and_memory() {
        let limits = Limits::streaming(1 << 30);
        assert_eq!(most(&limits), 10);
        assert_eq!(most(&Limits { count: 3, ..limits }), 3);
        assert_eq!(most(&Limits { memory_bytes: 2 * READ_BYTES, ..limits }), 2);
        assert_eq!(most(&Limits { memory_bytes: 0, ..limits }), 1);
    }
}
