//! Whose turn it is on a node: so many ranges are read there at once for repairs as can be, with a
//! permit on each shard. What has no turn waits before anything of it is read, where waiting costs
//! nothing; what has one is never given up between two visits for another one's sake.
//!
//! Who repairs a range takes a turn on each of its replicas, one after the other in the order of
//! their ids, and gives all back together. A turn is a lease: whoever has it says so from time to
//! time, and one of which nothing is heard goes to who waits.
//!
//! Invariants
//!  - *whole*: with turns alone, no shard has more reads of repairs than permits, and they take no
//!    more memory than there is for them; one that needs more than that has it alone.
//!  - *in-order*: nobody waits for a turn who has one of a later node, so nobody waits in a circle.
//!  - *fifo*: a turn goes to who has waited longest, of those who wait still.
//!  - *not-for-ever*: a lease that is not renewed ends, if others wait.
//!
//! Lives on shard 0 of each node; may be asked on each.

use super::reading::Reading;
use crate::coordinator::own_storage;
use crate::wire::sync::Part;
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

const _: () = assert!(WAIT.as_secs() < PLACE.as_secs() && WORD.as_secs() < LEASE.as_secs());

/// What the shard that has least of it has for reads of repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    count: usize,
    bytes: usize,
}

/// Who asks for a turn: a session, and what a visit takes of the shard that it takes most of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asker {
    id: u128,
    bytes: usize,
}

/// Who has a turn, and who waits. Pure.
#[derive(Debug, Default)]
struct Turns {
    /// And until when it is theirs, and of how many bytes it is.
    held: BTreeMap<u128, (Instant, usize)>,
    /// And until when they are thought to wait.
    waiting: VecDeque<(Asker, Instant)>,
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
    fn ask(&mut self, asker: Asker, now: Instant, room: Room, otherwise: Otherwise) -> bool {
        let Asker { id, .. } = asker;
        if self.keep(id, now) {
            return true;
        }
        let place = self.waiting.iter_mut().find(|(one, _)| one.id == id);
        let is_new = place.is_none();
        match place {
            // What there is to read may have become another one meanwhile.
            Some(place) => *place = (asker, now + PLACE),
            None => self.waiting.push_back((asker, now + PLACE)),
        }
        self.grant(now, room);
        let has = self.held.contains_key(&id);
        if !has && is_new && otherwise == Otherwise::GoesAway {
            self.waiting.retain(|(one, _)| one.id != id);
        }
        debug_assert!(
            self.waiting.iter().all(|(one, _)| !self.held.contains_key(&one.id)),
            "fifo: one waits that has a turn"
        );
        has
    }

    /// Gives turns to those who waited longest.
    fn grant(&mut self, now: Instant, room: Room) {
        self.waiting.retain(|(_, until)| now <= *until);
        while let Some((Asker { id, bytes }, _)) = self.waiting.front().copied() {
            if !self.fits(bytes, room) {
                let over = self.held.iter().find(|(_, (until, _))| *until < now);
                let Some(over) = over.map(|(id, _)| *id) else { return };
                stdx::probe!("a turn of a repair that nobody has heard of goes to another one");
                self.held.remove(&over);
                continue;
            }
            self.waiting.pop_front();
            self.granted += 1;
            let before = self.held.insert(id, (now + LEASE, bytes));
            assert!(before.is_none(), "whole: a second turn");
        }
    }

    /// Whether one more of so many bytes may be read (*whole*).
    fn fits(&self, bytes: usize, room: Room) -> bool {
        let held = self.held.values().fold(0usize, |sum, (_, bytes)| sum.saturating_add(*bytes));
        debug_assert!(0 < held || self.held.is_empty(), "whole: {} of no bytes", self.held.len());
        let is_room = self.held.len() < room.count && held.saturating_add(bytes) <= room.bytes;
        self.held.is_empty() || is_room
    }

    /// It goes on; whether it has a turn.
    fn keep(&mut self, id: u128, now: Instant) -> bool {
        let Some((until, _)) = self.held.get_mut(&id) else { return false };
        debug_assert!(*until <= now + LEASE, "not-for-ever: until {until:?}");
        *until = now + LEASE;
        true
    }

    fn end(&mut self, id: u128) {
        self.held.remove(&id);
        self.waiting.retain(|(one, _)| one.id != id);
        debug_assert!(!self.held.contains_key(&id), "whole: {id} has two turns");
    }
}

/// What a shard has, and what a visit for a part takes of it.
fn of_shard((table, first, last): Part) -> (Room, usize) {
    let reading = Reading::of_shard();
    let (true, Ok(storage)) = (reading.is_whole(), own_storage()) else {
        // Whoever comes is let in; where the node stops, nothing is read any more.
        return (Room { count: usize::MAX, bytes: usize::MAX }, 1);
    };
    let limits = storage.semaphores()[2].limits();
    let bytes = storage.visit_bytes(table, (first, last), reading.way().batch.bytes_max);
    debug_assert!(0 < bytes, "whole: a visit takes nothing");
    (Room { count: limits.count, bytes: limits.memory_bytes + limits.shared_bytes }, bytes)
}

/// The least that a shard has, and the most that is taken of one.
async fn of_node(part: Part) -> (Room, usize) {
    let shards = runtime::on_all_shards(move || async move { of_shard(part) }).await;
    let least = |room: Room, (other, _): &(Room, usize)| Room {
        count: room.count.min(other.count),
        bytes: room.bytes.min(other.bytes),
    };
    debug_assert!(!shards.is_empty(), "whole: a node without shards");
    let room = shards.iter().fold(Room { count: usize::MAX, bytes: usize::MAX }, least);
    (room, shards.iter().map(|(_, bytes)| *bytes).max().unwrap_or(1))
}

/// Of this node. Stands in `runtime::local` of shard 0.
#[derive(Default)]
struct OfNode {
    turns: RefCell<Turns>,
    changed: Notify,
}

impl OfNode {
    async fn ask(&self, (id, part): (u128, Part), otherwise: Otherwise) -> bool {
        debug_assert!(runtime::shard_id() == 0, "whole: turns of another shard");
        if self.turns.borrow_mut().keep(id, Instant::now()) {
            return true;
        }
        let (room, bytes) = of_node(part).await;
        let mut turns = self.turns.borrow_mut();
        let before = turns.granted;
        let has = turns.ask(Asker { id, bytes }, Instant::now(), room, otherwise);
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
pub(crate) async fn wait(id: u128, part: Part) -> bool {
    let wait = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        let deadline = Instant::now() + WAIT;
        loop {
            if node.ask((id, part), Otherwise::Waits).await {
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
pub(crate) async fn has(id: u128, part: Part) -> bool {
    let ask = move || async move {
        let node = runtime::local::get_or_default::<OfNode>();
        node.ask((id, part), Otherwise::GoesAway).await
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
    /// `-1`: it ends; `s9`: so many seconds pass. `+1*5`: of 5 bytes, else of 1.
    fn check_of((count, bytes): (usize, usize), steps: &str, expected: &str) {
        let (mut turns, mut now, mut found) = (Turns::default(), Instant::from_nanos(0), vec![]);
        let room = Room { count, bytes };
        for step in steps.split_whitespace() {
            let (kind, rest) = step.split_at(1);
            let (number, of) = rest.split_once('*').unwrap_or((rest, "1"));
            let id: u128 = number.parse().expect("a number");
            let asker = Asker { id, bytes: of.parse().expect("bytes") };
            match kind {
                "+" => found.push(turns.ask(asker, now, room, Otherwise::Waits)),
                "?" => found.push(turns.ask(asker, now, room, Otherwise::GoesAway)),
                "k" => drop(turns.keep(id, now)),
                "-" => turns.end(id),
                _ => now += Duration::from_secs(id as u64),
            }
        }
        let found: String = found.into_iter().map(|has| if has { 'y' } else { 'n' }).collect();
        assert_eq!(found, expected, "{steps}");
    }

    fn check(most: usize, steps: &str, expected: &str) {
        check_of((most, usize::MAX), steps, expected);
        check_of((usize::MAX, most), steps, expected);
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
    fn there_are_no_more_turns_than_memory() {
        check_of((9, 10), "+1*4 +2*4 +3*4 -1 +3*4", "yyny");
        // One that is too large for what is left is not overtaken by a smaller one,
        check_of((9, 10), "+1*4 +2*8 +3*1 -1 +3*1 +2*8", "ynnyy");
        // and one that is too large for all of it has it alone.
        check_of((9, 10), "+1*99 +2*1 -1 +2*1 +1*99 -2 +1*99", "ynyny");
        check_of((9, 0), "+1 +2 -1 +2", "yny");
        // What it was told to be before does not matter.
        check_of((9, 10), "+1*4 +2*8 +2*5", "yny");
    }
}
