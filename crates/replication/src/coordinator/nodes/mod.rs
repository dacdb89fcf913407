//! Reads and writes of tables whose copies are on several nodes.
//!
//! A write goes to all replicas that are alive, a read to as many as its level requires; who is
//! asked, and when enough have answered, [`crate::plan::nodes`] decides. A node that coordinates
//! and is a replica too asks itself without a message.
//!
//! Invariants
//!  - *acknowledged-at-level*: a write is acknowledged when as many replicas have it as its level
//!    requires; a read is answered by what as many have.
//!  - *bounded*: what goes on after its answer is bounded, by count and by bytes, and ends with the
//!    time of its request.
//!  - *said-uncertain*: a write that some replica may have is a timeout or a failure; only one that
//!    none was asked for is unavailable or refused.
//!
//! In reading order: `planned` (plans that were made before), `peers` (a question to one replica),
//! `together` (those that travel as one message),
//! `write`, `relays` (writes to other data centres), `gather` (questions to several), `repair`
//! (answers that differ), `read`, `ring` (ranges), `rounds` (conditional writes), `owner` (writes
//! that depend on what is there), `lead` (who leads rounds), `batches`, `holders` (who keeps them),
//! `transact` (parts of transactions), `complete` (those that are left), `paired` (what is of
//! views), `counters`, `truncate`.

mod batches;
mod complete;
mod counters;
mod fetch;
mod gather;
mod holders;
mod lead;
mod owner;
mod paired;
mod peers;
mod planned;
mod read;
mod relays;
mod repair;
mod ring;
mod rounds;
mod shared;
mod together;
mod transact;
mod truncate;
mod write;

pub(crate) use batches::Parts;
pub(crate) use complete::{complete, is_spread, is_wanted, know_tables};
pub(crate) use counters::{refusal_of, refusal_of_read};
pub(crate) use fetch::fetch_stretch;
pub(crate) use holders::{AskedToKeep, FORGOTTEN_AT_ONCE_MAX, tell_to_forget};
pub(crate) use lead::options_of;
pub use lead::{Executor, Language};
pub use owner::{Owner, Round};
pub(crate) use paired::{Brought, bring_to};
pub(crate) use peers::{Cause, call, left, refused};
pub(crate) use relays::tell_origin;
pub(super) use rounds::Rounding;
pub use shared::Proposed;
pub(super) use transact::{learn_alone, learn_part};
pub use write::Background;
pub(crate) use write::Watch;

use super::Coordinator;
use crate::error::{ReadError, WriteError};
use crate::hints::Hints;
use crate::options::Consistency;
use crate::placement::{Places, Replica, Replicas, Sides};
use crate::plan::nodes::{BothSides, Candidate, Candidates, Factors, ReadPlan, Tally};
use crate::planted::{Planted as Mistake, is_planted};
use cluster::{Replication, TableEntry};
use messaging::{HostId, Target, ToShard};
use model::{Token, Uuid};
use runtime::Erased;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// What a coordinator keeps for reads and writes on several nodes.
#[derive(Default)]
pub(crate) struct Nodes {
    /// In place of what the cluster knows.
    places: OnceCell<Rc<dyn Places>>,
    background: Background,
    reads: planned::Planned<ReadPlan>,
    writes: planned::Planned<Tally>,
    relays: relays::Relays,
    together: Rc<together::Together>,
    planted: Cell<Option<Planted>>,
    spans: gather::Spans,
    joining: gather::Joining,
    /// By the rounds of this shard.
    chosen: rounds::Chosen,
    /// Those who wait for them.
    lines: Rc<shared::Lines>,
    /// Of conditional writes that other nodes send.
    executors: RefCell<[Option<Rc<dyn Executor>>; Language::COUNT]>,
}

/// Mistakes that tests plant, to see them caught.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A write is acknowledged when one replica has it.
    AcknowledgesEarly,
    /// Pages count as equal if they are as long.
    ComparesCounts,
    /// Pages do not tell what keeps rows without values.
    TellsNoLiveness,
    /// Nobody is sent what it lacks.
    KeepsRepairs,
    /// Short reads are taken for whole.
    TakesShortReads,
    /// A replica of conditional writes does not write down what it promises.
    ForgetsPromises,
    /// It accepts what is earlier than its promise.
    AcceptsAnything,
    /// How far the building of a view is is kept before what was built.
    KeepsPlacesFirst,
    /// A round does not finish what another one has left.
    LeavesUnfinished,
    /// What a transaction has had accepted is taken for chosen, whatever the outcome.
    TakesHeld,
    /// A transaction without an outcome is taken for aborted, and nobody is told.
    PassesHeld,
    /// A transaction is committed by its coordinator alone.
    DecidesAlone,
    /// What transactions hold in memory is held for nobody.
    ForgetsClaims,
    /// A start does not apply what transactions have committed.
    RedoesNothing,
    /// A proposal takes the place of one whose write may not be on the disk.
    OvertakesWrites,
    /// An outcome is followed before it is on the disk.
    DecidesUnsynced,
    /// A replica does not tell since which one a proposal is made.
    HidesSince,
    /// Who takes part in a round does not see what was added before it.
    SharesUnseen,
    /// Who takes part in a round is answered when it has added something.
    AnswersEarly,
    /// Replicas are told of a logged batch before it is remembered.
    TellsFirst,
    /// A node does not look for the batches that an earlier life has kept.
    ForgetsBatches,
    /// It replays them with timestamps of its own.
    ReplaysAnew,
    /// What a relay acknowledges counts for those that it tells, too.
    TrustsRelays,
    /// What changes in views is derived as if nothing had been there before.
    DerivesUnread,
    /// What goes to views elsewhere is not in the group of its write.
    KeepsNoOutbox,
    /// What is brought again goes to all replicas of a view.
    BringsToAll,
    /// It counts as sent before it is.
    SettlesEarly,
    /// What a view may lack, or should not have, is not looked at a second time.
    LooksOnce,
    /// What a write adds to a log is written after it, and not with it.
    LogsApart,
    /// What is replayed is added to a log once more.
    LogsAgain,
    /// Of requests that came together each is told what came of another.
    MixesAnswers,
    /// Writes that came together are refused as a group: no mistake, but seldom.
    FailsGroups,
}

impl Coordinator {
    /// As [`Coordinator::start`], where replicas are where `places` of each shard says, and not
    /// where the cluster does, with a mistake or none: for tests without a cluster.
    #[doc(hidden)]
    pub fn start_joined<P: Places + 'static>(
        config: super::Config,
        places: impl Fn() -> P + Clone + Send + 'static,
        planted: Option<Planted>,
    ) -> Erased<'static, Result<(), WriteError>> {
        Coordinator::start_among(config, move || {
            let joined: Rc<dyn Places> = Rc::new(places());
            let planted = Cell::new(planted);
            Nodes { places: OnceCell::from(joined), planted, ..Nodes::default() }
        })
    }

    /// From now on this shard's hints go by what its coordinator was told when it was started.
    #[doc(hidden)]
    pub fn join_hints(&self) {
        if let (Some(hints), Some(places)) = (Hints::of_shard(), self.nodes.places.get()) {
            hints.join(places.clone());
        }
    }

    pub(crate) fn is_planted(&self, planted: Planted) -> bool {
        self.nodes.planted.get() == Some(planted)
    }

    /// What of this shard's writes goes on after the answer, and what replicas lacked.
    pub fn background(&self) -> &Background {
        &self.nodes.background
    }

    pub(crate) fn places(&self) -> &dyn Places {
        match self.nodes.places.get() {
            None => &*self.cluster,
            Some(places) => &**places,
        }
    }

    /// The replicas of a token that are read, if they are on several nodes.
    #[inline]
    pub(crate) fn replicas(&self, table: &TableEntry, token: Token) -> Option<Rc<[Replica]>> {
        listed(match self.nodes.places.get() {
            None => self.cluster.replicas(table, token),
            Some(places) => places.replicas(table, token),
        })
    }

    /// Those that are written.
    #[inline]
    pub(crate) fn writers(&self, table: &TableEntry, token: Token) -> Option<Rc<[Replica]>> {
        listed(match self.nodes.places.get() {
            None => self.cluster.writers(table, token),
            Some(places) => places.writers(table, token),
        })
    }

    /// Whether a table has its replicas on several nodes.
    #[inline]
    pub fn is_spread(&self, table: &TableEntry) -> bool {
        self.replicas(table, Token(0)).is_some()
    }

    /// The replicas as plans see them.
    fn candidates(&self, replicas: &[Replica]) -> Candidates {
        let places = self.places();
        let candidate = |replica: &Replica| Candidate {
            dc: replica.dc,
            is_local_dc: replica.is_local_dc,
            is_alive: replica.is_here || places.is_alive(replica.host_id),
            sides: replica.sides,
        };
        let here = replicas.iter().filter(|replica| replica.is_here).count();
        assert!(here <= 1, "nearest-first: this node has {here} copies");
        replicas.iter().map(candidate).collect()
    }

    /// How many copies the levels of a write are of.
    fn factors(&self, copies: &Replication, replicas: &[Replica], level: Consistency) -> BothSides {
        let moves = replicas.iter().any(|replica| replica.sides != Sides::Both);
        let moves = moves && !is_planted(Mistake::CountsOneSide);
        let is_beside = |replica: &Replica| replica.sides.is_written_beside();
        BothSides {
            read: self.read_factors(copies, replicas, level),
            beside: moves.then(|| self.factors_of(copies, replicas, is_beside, level)),
        }
    }

    /// The same, of a read.
    fn read_factors(
        &self,
        copies: &Replication,
        replicas: &[Replica],
        level: Consistency,
    ) -> Factors {
        self.factors_of(copies, replicas, |replica| replica.sides.is_read(), level)
    }

    /// Those of a side (*of-its-own*).
    fn factors_of(
        &self,
        copies: &Replication,
        replicas: &[Replica],
        is_on: impl Fn(&Replica) -> bool,
        level: Consistency,
    ) -> Factors {
        let places = self.places();
        let side = || replicas.iter().filter(|replica| is_on(replica));
        let each = match (copies, level) {
            (Replication::PerDataCenter(factors), Consistency::EachQuorum) => {
                let center = |(name, counted): (&str, u32)| {
                    let mut there = side().filter(|one| places.is_in(one.host_id, name));
                    let dc = there.next().map(|replica| replica.dc);
                    let count = u32::from(dc.is_some()) + there.count() as u32;
                    (dc, counted.max(count))
                };
                factors.counted().map(center).collect()
            }
            _ => Vec::new(),
        };
        let mut there = side().count() as u32;
        let mut here = side().filter(|replica| replica.is_local_dc).count() as u32;
        debug_assert!(there as usize <= replicas.len(), "of-its-own: {there} of {replicas:?}");
        if is_planted(Mistake::CountsWanted) {
            (there, here) = (copies.total(), copies.total());
        }
        // Everywhere wants as many as there are.
        let (counted, counted_here) = match copies {
            Replication::Everywhere => (0, 0),
            _ => (copies.counted(), copies.counted_in(&self.cluster.node().data_center)),
        };
        let (total, local) = (counted.max(there), counted_here.max(here));
        debug_assert!(local <= total, "acknowledged-at-level: {local} copies of {total}");
        Factors { total, local, each }
    }
}

fn listed(found: Replicas) -> Option<Rc<[Replica]>> {
    match found {
        Replicas::Here => None,
        Replicas::Nodes(replicas) => Some(replicas),
    }
}

/// The shard of a replica that has the token.
fn target(replica: &Replica) -> Target {
    debug_assert!(!replica.is_here, "owner-only: a message of a node to itself");
    Target::statements(host(replica.host_id), ToShard::At(replica.shard))
}

fn host(id: Uuid) -> HostId {
    HostId(id.as_u128())
}

/// Levels that reads cannot have.
fn refuse_read(level: Consistency) -> Result<(), ReadError> {
    match level {
        Consistency::Any => {
            let text = "ANY ConsistencyLevel is only supported for writes";
            Err(ReadError::Refused(text.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Levels that writes without conditions cannot have.
pub(crate) fn refuse_write(level: Consistency) -> Result<(), WriteError> {
    match level.is_serial() {
        true => {
            let text = "You must use conditional updates for serializable writes";
            Err(WriteError::Refused(text.to_owned()))
        }
        false => Ok(()),
    }
}
