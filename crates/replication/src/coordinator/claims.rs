//! Partitions with one replica that transactions hold, by the shard that has the rows of their
//! rounds: in memory.
//!
//! The only replica, who judges by it, who coordinates the transaction and who decides what becomes
//! of it are one process. A crash that forgets a claim forgets all who could still have it
//! committed, unless the outcome is on the disk already, with all parts: a start applies those
//! before anything is read. So a claim need not be on the disk, and the outcome is the only thing
//! that a transaction waits for the disk for.
//!
//! Invariants
//!  - *dies-with-its-decider*: a part that was held where there is one replica is committed only by
//!    a decision that this node makes alone, in the life in which it was held; where an outcome is
//!    agreed on with other nodes such a transaction is aborted.
//!  - *redone-first*: parts of committed transactions that may not be on the disk are applied by a
//!    start, before anybody reads or begins a round.
//!  - *ends-with-its-stage*: a claim counts as a request under way: where data are changes when
//!    none of before is left.
//!  - *later-than-held*: a round of this shard has a later ballot than all by which the shard has
//!    held something: no row remembers those.
//!  - *bounded*: so many bytes are claimed at most. What does not fit is held on the disk, by the
//!    row of its rounds, as rounds accept what they propose.

use super::nodes::Planted;
use super::{Coordinator, own_coordinator};
use crate::epochs::{Entered, Epochs};
use crate::paxos::{Ballot, Place, Proposal};
use crate::transactions::HELD_MAX;
use runtime::task::join_all;
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;

/// Bytes that the claims of a shard have at most.
const BYTES_MAX: usize = 16 << 20;
/// What a claim takes beside its key and what is proposed.
const BYTES_EACH: usize = 256;
/// After so long a claim is looked after though nobody needs its partition.
const OLD: Duration = Duration::from_millis(HELD_MAX.as_millis() as u64 * 5 / 4);

const _: () = assert!(HELD_MAX.as_nanos() < OLD.as_nanos(), "who needs it has it aborted first");

/// See the module.
#[derive(Default)]
pub(crate) struct Claims {
    all: RefCell<HashMap<Place, Claim>>,
    bytes: Cell<usize>,
    /// The latest time of a ballot that has held something, microseconds.
    latest: Cell<i64>,
}

struct Claim {
    proposal: Proposal,
    since: Instant,
    /// *ends-with-its-stage*
    _entered: Entered<Rc<Epochs>>,
}

fn bytes_of(place: &Place, proposal: &Proposal) -> usize {
    debug_assert!(!place.key.is_empty(), "bounded: a claim of no partition");
    BYTES_EACH + place.key.len() + proposal.mutation.0.len()
}

impl Claims {
    /// A transaction holds a partition from now on; false: there is no room for it.
    fn add(&self, place: &Place, proposal: &Proposal, epochs: &Rc<Epochs>) -> bool {
        assert!(proposal.of.is_some(), "held-until-decided: {:?} is of none", proposal.ballot);
        assert!(proposal.ballot.is_alone(), "dies-with-its-decider: {:?}", proposal.ballot);
        let bytes = self.bytes.get() + bytes_of(place, proposal);
        if BYTES_MAX < bytes || stdx::buggify!("a claim that does not fit", 8) {
            return false;
        }
        let (since, _entered) = (Instant::now(), Epochs::enter(epochs.clone()));
        let claim = Claim { proposal: proposal.clone(), since, _entered };
        let before = self.all.borrow_mut().insert(place.clone(), claim);
        let before = before.map(|before| before.proposal.of);
        assert!(before.is_none(), "held-until-decided: {before:?} has {place:?}");
        self.latest.set(self.latest.get().max(proposal.ballot.micros()));
        self.bytes.set(bytes);
        true
    }

    /// What a transaction has proposed that holds a partition.
    pub(super) fn of(&self, place: &Place) -> Option<Proposal> {
        let all = self.all.borrow();
        if all.is_empty() {
            return None;
        }
        all.get(place).map(|claim| claim.proposal.clone())
    }

    /// The partition is held no longer; false: it was not, by that ballot.
    fn end(&self, place: &Place, ballot: Ballot) -> bool {
        let mut all = self.all.borrow_mut();
        if all.get(place).is_none_or(|claim| claim.proposal.ballot != ballot) {
            return false;
        }
        let Some(claim) = all.remove(place) else { return false };
        let bytes = bytes_of(place, &claim.proposal);
        assert!(bytes <= self.bytes.get(), "bounded: {bytes} of {}", self.bytes.get());
        self.bytes.set(self.bytes.get() - bytes);
        true
    }

    /// No round of this shard may begin at that time, or before (*later-than-held*).
    pub(super) fn latest(&self) -> i64 {
        self.latest.get()
    }

    /// What is held since then, or for longer.
    fn since(&self, then: Instant) -> Vec<Place> {
        let all = self.all.borrow();
        let old = all.iter().filter(|(_, claim)| claim.since <= then);
        let mut old: Vec<Place> = old.map(|(place, _)| place.clone()).collect();
        // In no order of a map.
        old.sort_unstable_by(|a, b| (a.table, &a.key).cmp(&(b.table, &b.key)));
        debug_assert!(old.len() <= all.len(), "bounded: {} are old", old.len());
        old
    }
}

impl Coordinator {
    /// A transaction holds a partition, the rows of whose rounds that shard has; false: there is no
    /// room for that.
    pub(super) async fn claim(
        &self,
        shard: u16,
        place: &Place,
        proposal: &Proposal,
    ) -> Result<bool, storage::WriteError> {
        if self.is_planted(Planted::ForgetsClaims) {
            return Ok(true);
        }
        if shard == self.shard {
            return Ok(self.claims.add(place, proposal, &self.epochs));
        }
        self.count_call(shard);
        let (place, proposal) = (place.clone(), proposal.clone());
        let claim = move || async move {
            let there = own_coordinator()?;
            Ok(there.claims.add(&place, &proposal, &there.epochs))
        };
        Box::pin(runtime::on_shard(shard, claim)).await
    }

    /// What the transaction has made of the partition is applied, or never will be; false: it was
    /// not claimed.
    pub(super) async fn end_claim(
        &self,
        shard: u16,
        place: &Place,
        ballot: Ballot,
    ) -> Result<bool, storage::WriteError> {
        debug_assert!(ballot.is_alone(), "dies-with-its-decider: {ballot:?}");
        if shard == self.shard {
            return Ok(self.claims.end(place, ballot));
        }
        self.count_call(shard);
        let place = place.clone();
        let end = move || async move { Ok(own_coordinator()?.claims.end(&place, ballot)) };
        Box::pin(runtime::on_shard(shard, end)).await
    }
}

/// Sees to it that nothing is claimed for long, though nobody needs it, for as long as the
/// coordinator lives.
pub(super) async fn look_after() {
    loop {
        sleep(HELD_MAX / 4).await;
        let Ok(coordinator) = own_coordinator() else { return };
        let now = Instant::now().as_nanos();
        let Some(then) = now.checked_sub(OLD.as_nanos() as u64) else { continue };
        let old = coordinator.claims.since(Instant::from_nanos(then));
        let clears = old.iter().map(|place| {
            stdx::probe!("a claim is looked after that nobody needs");
            coordinator.clear_one(place.table, &place.key)
        });
        join_all(clears).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::TransactionId;
    use model::Uuid;
    use mutation::FrozenMutation;
    use runtime::sim::{Options, World};

    fn place(key: u8) -> Place {
        Place { table: Uuid::from_u128(7), key: vec![key] }
    }

    fn proposal(micros: i64, bytes: usize) -> Proposal {
        let mutation = FrozenMutation(vec![0; bytes].into());
        Proposal::alone_of(TransactionId::new(1, 2, 3), Ballot::alone(micros), mutation)
    }

    /// Adds one, however often a simulation says that it does not fit.
    fn add(claims: &Claims, place: &Place, proposal: &Proposal, epochs: &Rc<Epochs>) {
        assert!((0..1000).any(|_| claims.add(place, proposal, epochs)), "it does not fit");
    }

    fn run<F: Future<Output = ()> + 'static>(test: F) {
        let mut world = World::new(Options::new(1));
        let node = world.add_node(1);
        world.block_on(node, 0, test);
    }

    #[test]
    fn what_is_claimed_is_held_until_it_ends() {
        run(async {
            let (claims, epochs) = (Claims::default(), Rc::new(Epochs::default()));
            let (one, other) = (proposal(5, 10), proposal(6, 10));
            add(&claims, &place(1), &one, &epochs);
            add(&claims, &place(2), &other, &epochs);
            assert_eq!((claims.of(&place(1)), claims.of(&place(3))), (Some(one.clone()), None));
            assert_eq!((claims.latest(), epochs.count()), (6, 2));
            // By another ballot it was not held.
            assert!(!claims.end(&place(1), other.ballot));
            assert!(claims.end(&place(1), one.ballot));
            assert!(!claims.end(&place(1), one.ballot));
            assert_eq!((claims.of(&place(1)), epochs.count()), (None, 1));
            assert!(claims.end(&place(2), other.ballot));
            assert_eq!((claims.bytes.get(), claims.latest(), epochs.count()), (0, 6, 0));
        });
    }

    #[test]
    fn no_more_is_claimed_than_fits() {
        run(async {
            let (claims, epochs) = (Claims::default(), Rc::new(Epochs::default()));
            add(&claims, &place(1), &proposal(5, BYTES_MAX / 2), &epochs);
            let large = proposal(6, BYTES_MAX / 2);
            assert!((0..1000).all(|_| !claims.add(&place(2), &large, &epochs)));
            add(&claims, &place(2), &proposal(6, 10), &epochs);
            assert!(claims.bytes.get() <= BYTES_MAX);
        });
    }

    #[test]
    fn who_is_old_is_known() {
        run(async {
            let (claims, epochs) = (Claims::default(), Rc::new(Epochs::default()));
            add(&claims, &place(2), &proposal(5, 10), &epochs);
            add(&claims, &place(1), &proposal(6, 10), &epochs);
            let then = Instant::now();
            sleep(Duration::from_secs(1)).await;
            add(&claims, &place(3), &proposal(7, 10), &epochs);
            assert_eq!(claims.since(then), [place(1), place(2)]);
        });
    }
}
