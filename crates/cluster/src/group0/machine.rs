//! The machine of group 0: the catalog of this node, as the commands of the log change it.
//!
//! Lives on: shard 0. A command ([`once::Command`]) has a [`Payload`]: the rows that somebody who
//! had the state before decided on. The registry takes them over ([`Cluster::follow`]).
//!
//! Invariants
//!  - *own-place*: up to which entry of the log this node's state goes is written in the entry of
//!    the schema log that makes the state durable.
//!  - *as-ordered*: commands take effect in the order of the log, and only on the state that they
//!    were made from.
//!  - *in-place-of*: a snapshot takes the place of all that the catalog had, in one entry; also of
//!    what was decided in a generation of the group that others have left, with a later timestamp.
//!  - *own-generation*: a place of before the generation's first entry is none in its log.

use super::payload::Payload;
use crate::node_tables::{read_partition, read_table};
use crate::registry::Cluster;
use catalog::facts::{self, DRIVER_LEVEL_MADE};
use catalog::rows::partition::PartitionWriter;
use catalog::system_tables;
use consensus::once::{self, History, StateId, Verdict};
use consensus::traits::{Command, Pieces, Restore};
use consensus::{Failed, Local, Machine};
use mutation::FrozenMutation;
use runtime::sync::{Permit, Semaphore};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use storage::Storage;

/// The fact of the last entry that was applied, and of the state then.
const APPLIED: &str = "nereid_group0_applied";
/// The partition of the history of states.
const HISTORY: &[u8] = b"history";
/// So many states are remembered: those that somebody may wait for, and for people to look at.
const STATES_MAX: usize = 1000;
/// Bytes of a piece of a snapshot.
const PIECE_BYTES: usize = 256 << 10;
/// Changes of this node that wait for their turn at most.
const WAITING_MAX: usize = 4096;
const _: () = assert!(1 < STATES_MAX && 0 < PIECE_BYTES);

/// The machine on this node.
#[derive(Clone)]
pub struct CatalogMachine(Rc<Inner>);

struct Inner {
    cluster: Rc<Cluster>,
    /// 0: what this node has is of an earlier generation of the group.
    place: Cell<u64>,
    /// The states that were reached, the oldest first.
    states: RefCell<VecDeque<StateId>>,
    /// Whose turn it is to make a command on this node: others would only be lost.
    turn: Semaphore,
    /// The command of this node that was proposed last, until it is carried out: what it does need
    /// not be found out from its rows.
    own: RefCell<Option<(StateId, catalog::Command)>>,
}

/// A command of this node, while it is proposed.
pub(super) struct Own<'m> {
    machine: &'m Inner,
    id: StateId,
}

impl Own<'_> {
    /// Whether it was carried out as what it is, and its subscribers were not told.
    pub(super) fn was_carried_out(&self) -> bool {
        self.machine.own.borrow().is_none()
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        self.machine.own.borrow_mut().take_if(|(id, _)| *id == self.id);
    }
}

impl CatalogMachine {
    pub(super) fn cluster(&self) -> &Cluster {
        &self.0.cluster
    }

    /// Waits for the turn to make a command.
    pub(super) async fn turn(&self) -> Result<Permit, String> {
        self.0.turn.acquire(1).await.map_err(|error| error.to_string())
    }

    /// A command of this node is about to be proposed. One at a time: who proposes has the turn.
    pub(super) fn propose_own(&self, id: StateId, command: catalog::Command) -> Own<'_> {
        let before = self.0.own.replace(Some((id, command)));
        assert!(before.is_none(), "as-ordered: two commands of this node are proposed at once");
        Own { machine: &self.0, id }
    }

    /// As the tables of this node have it, for a log whose entries come after `base`. The node has
    /// booted.
    pub async fn load(base: u64) -> Result<CatalogMachine, Failed> {
        assert!(runtime::shard_id() == 0, "own-place: the schema log is of shard 0");
        let storage = runtime::local::get::<Storage>();
        let failed = |what: String| Failed(format!("cannot load the state of group 0: {what}"));
        let (place, last) = stored_place(&storage).await?;
        // *own-generation*
        let place = if base <= place { place } else { 0 };
        let found = read_partition(&storage, ("system", "group0_history"), HISTORY).await;
        let found = found.map_err(|error| failed(error.to_string()))?;
        // The newest first.
        let id = |row: &catalog::rows::Row| {
            Some(StateId(<[u8; 16]>::try_from(&row.get("state_id")?[..]).ok()?))
        };
        let states: Option<VecDeque<StateId>> = found.iter().rev().map(id).collect();
        let mut states = states.ok_or_else(|| failed("a state without an id".to_owned()))?;
        // Their times may differ from their order.
        if last != StateId::default() {
            let at = states.iter().position(|state| *state == last);
            let at = at.ok_or_else(|| failed(format!("state {last} is not in the history")))?;
            states.remove(at);
            states.push_back(last);
        }
        let cluster = runtime::local::get::<Cluster>();
        let (place, states) = (Cell::new(place), RefCell::new(states));
        let (turn, own) = (Semaphore::new(1, WAITING_MAX), RefCell::default());
        Ok(CatalogMachine(Rc::new(Inner { cluster, place, states, turn, own })))
    }
}

impl History for CatalogMachine {
    fn last(&self) -> StateId {
        self.0.last()
    }
    fn has(&self, id: StateId) -> bool {
        self.0.states.borrow().contains(&id)
    }
}

impl Inner {
    fn last(&self) -> StateId {
        self.states.borrow().back().copied().unwrap_or_default()
    }

    async fn apply(&self, commands: &[Command], applied: u64) -> Result<(), Failed> {
        let place = self.place.get();
        assert!(place < applied, "as-ordered: entry {applied} after {place}");
        let mut made = Made { last: self.last(), ..Made::default() };
        for command in commands {
            assert!(command.index <= applied, "as-ordered: {} beyond {applied}", command.index);
            made.take(command).map_err(|what| {
                Failed(format!("entry {} of group 0 cannot be applied: {what}", command.index))
            })?;
        }
        self.write(made, applied).await
    }

    /// Makes states durable and shows them; `applied` is the place of the last.
    async fn write(&self, made: Made, applied: u64) -> Result<(), Failed> {
        let Made { last, states, latest, mut rows, mut gone } = made;
        let kept = self.states.borrow().len() - gone.len();
        let over = (kept + states.len()).saturating_sub(STATES_MAX).min(kept);
        let known = self.states.borrow().clone();
        let stay = known.iter().filter(|id| !gone.contains(id));
        let oldest: Vec<StateId> = stay.take(over).copied().collect();
        gone.extend(oldest);
        let is_same = rows.is_empty() && states.is_empty();
        rows.push(place_fact(&self.cluster, applied, last));
        let done = match is_same {
            true => self.cluster.keep(rows).await,
            false => {
                let beside =
                    vec![rows.pop().expect("the place"), history_row(&states, &gone, latest)];
                match self.take_own(&states) {
                    Some(own) => self.cluster.carry_out_own(own, beside).await,
                    None => {
                        rows.extend(beside);
                        let followed = self.cluster.follow(rows, latest).await;
                        followed.map(drop).map_err(|error| format!("{error:?}"))
                    }
                }
            }
        };
        done.map_err(Failed)?;
        let before = known;
        let mut known = self.states.borrow_mut();
        assert!(*known == before, "as-ordered: states were reached meanwhile");
        known.retain(|state| !gone.contains(state));
        known.extend(states);
        assert!(known.len() <= STATES_MAX, "as-ordered: {} states are kept", known.len());
        assert!(known.back().copied().unwrap_or_default() == last, "own-place: not at {last}");
        self.place.set(applied);
        Ok(())
    }

    /// The command of this node, if it is what led to these states.
    fn take_own(&self, states: &[StateId]) -> Option<catalog::Command> {
        let [state] = states else { return None };
        let own = self.own.borrow_mut().take_if(|(id, _)| id == state);
        own.map(|(_, command)| command)
    }

    /// All that this node has, for another one.
    async fn all(&self) -> Result<Vec<u8>, Failed> {
        // What belongs together, in one step.
        let (cluster, states) = (&self.cluster, self.states.borrow().clone());
        let catalog = cluster.catalog();
        let at = cluster.last_timestamp();
        let storage = runtime::local::get::<Storage>();
        let found = read_table(&storage, "system", "scylla_local").await;
        let found = found.map_err(|error| Failed(error.to_string()))?;
        let made = facts::find(&found, DRIVER_LEVEL_MADE);
        let noted: Vec<_> = [(DRIVER_LEVEL_MADE, &*made)].into();
        let noted = &noted[..usize::from(!made.is_empty())];
        let rows = match states.is_empty() {
            // Nothing was decided yet.
            true => Vec::new(),
            false => catalog.rows(noted, at),
        };
        let mut out = (states.len() as u32).to_be_bytes().to_vec();
        states.iter().for_each(|state| out.extend_from_slice(&state.0));
        out.extend_from_slice(&Payload { last: at, rows }.encode());
        Ok(out)
    }

    /// Why a snapshot that begins with these bytes cannot take the place of what this node has yet:
    /// it has something of a generation that others have left, with later timestamps.
    fn refuses(&self, bytes: &[u8]) -> Option<String> {
        let mut cursor = stdx::Cursor::new(bytes);
        let count = cursor.u32("the states of a snapshot").ok()?;
        let mut last = StateId::default();
        for _ in 0..count {
            last = StateId(cursor.array("a state of a snapshot").ok()?);
        }
        let at = Payload::last_of(cursor.rest())?;
        let (own, own_at) = (self.last(), self.cluster.last_timestamp());
        let is_late = last != own && at <= own_at;
        debug_assert!(own == self.last(), "in-place-of: it was asked, and changed");
        is_late.then(|| {
            format!("it is of {at}, and this node has a state of {own_at} that others have not")
        })
    }

    /// Takes the place of what this node has.
    async fn replace(&self, bytes: &[u8], applied: u64) -> Result<(), Failed> {
        let damaged = |what| Failed(format!("a snapshot of group 0 is damaged: {what}"));
        let mut cursor = stdx::Cursor::new(bytes);
        let count = cursor.u32("the states of a snapshot").map_err(damaged)?;
        let mut states = Vec::new();
        for _ in 0..count {
            states.push(StateId(cursor.array("a state of a snapshot").map_err(damaged)?));
        }
        let payload = Payload::decode(cursor.rest()).map_err(damaged)?;
        let place = self.place.get();
        assert!(place < applied, "as-ordered: a snapshot of {applied} after {place}");
        let mut made = Made { last: self.last(), ..Made::default() };
        if states.last().copied().unwrap_or_default() != made.last {
            let (cluster, at) = (&self.cluster, payload.last);
            if at <= cluster.last_timestamp() {
                let last = cluster.last_timestamp();
                return Err(Failed(format!("a snapshot of {at}, and this node has one of {last}")));
            }
            let own = cluster.catalog();
            made.rows = own.forgotten(at);
            made.rows.extend(payload.rows);
            made.latest = at;
            made.last = states.last().copied().unwrap_or_default();
            let known = self.states.borrow().clone();
            // Of one history, up to where this node went another way; each state is in it once.
            made.gone = known.iter().filter(|state| !states.contains(state)).copied().collect();
            states.retain(|state| !known.contains(state));
            made.states = states;
        }
        self.write(made, applied).await
    }
}

/// An entry and a state, of the fact [`APPLIED`].
fn parse_place(text: &str) -> Option<(u64, StateId)> {
    let (place, state) = text.split_once(' ')?;
    let state = u128::from_str_radix(state, 16).ok()?;
    Some((place.parse().ok()?, StateId(state.to_be_bytes())))
}

/// Up to which entry the state of this node goes, and which one it is; 0: nothing was applied yet.
pub(crate) async fn stored_place(storage: &Storage) -> Result<(u64, StateId), Failed> {
    let failed = |what: String| Failed(format!("cannot load the state of group 0: {what}"));
    let found = read_table(storage, "system", "scylla_local").await;
    let found = found.map_err(|error| failed(error.to_string()))?;
    match facts::find(&found, APPLIED) {
        text if text.is_empty() => Ok((0, StateId::default())),
        text => parse_place(&text).ok_or_else(|| failed(format!("{APPLIED} is {text}"))),
    }
}

/// The place, which is written at a time of its own: it only grows.
pub(crate) fn place_fact(cluster: &Cluster, applied: u64, last: StateId) -> FrozenMutation {
    let (schema, value) = (cluster.schema(), format!("{applied} {last}"));
    debug_assert!(parse_place(&value) == Some((applied, last)), "own-place: {value}");
    facts::fact(&schema, APPLIED, &value, applied as i64)
}

/// What commands came to.
#[derive(Default)]
struct Made {
    last: StateId,
    states: Vec<StateId>,
    /// States that were reached here, and are not part of it any more.
    gone: Vec<StateId>,
    /// Of the timestamps of the rows.
    latest: i64,
    rows: Vec<FrozenMutation>,
}

impl Made {
    fn take(&mut self, command: &Command) -> Result<(), String> {
        let command = once::Command::decode(&command.bytes).map_err(|what| what.to_string())?;
        if command.judge(self.last) == Verdict::Skip {
            return Ok(());
        }
        let payload = Payload::decode(&command.payload).map_err(|what| what.to_string())?;
        if payload.last <= self.latest {
            return Err(format!("it is of {}, after one of {}", payload.last, self.latest));
        }
        debug_assert!(!self.states.contains(&command.new), "as-ordered: {} again", command.new);
        self.rows.extend(payload.rows);
        (self.last, self.latest) = (command.new, payload.last);
        self.states.push(command.new);
        Ok(())
    }
}

/// The rows of new states, without those that are forgotten.
fn history_row(states: &[StateId], gone: &[StateId], at: i64) -> FrozenMutation {
    let table = system_tables::table("system", "group0_history");
    let mut partition = PartitionWriter::new(&table, &[HISTORY], at);
    gone.iter().for_each(|state| partition.delete_rows(&[&state.0]));
    states.iter().for_each(|state| partition.row(&[&state.0], Vec::new()));
    partition.freeze()
}

impl Machine for CatalogMachine {
    fn durable(&self) -> u64 {
        self.0.place.get()
    }
    fn apply<'a>(&'a self, commands: &'a [Command], applied: u64) -> Local<'a, Result<(), Failed>> {
        Box::pin(self.0.apply(commands, applied))
    }
    fn snapshot(&self) -> Local<'_, Result<Box<dyn Pieces>, Failed>> {
        Box::pin(async move {
            let all = self.0.all().await?;
            Ok(Box::new(Left { all, at: 0 }) as Box<dyn Pieces>)
        })
    }
    fn restore(&self) -> Local<'_, Result<Box<dyn Restore>, Failed>> {
        let taken = Taken { machine: self.0.clone(), bytes: Vec::new() };
        Box::pin(async move { Ok(Box::new(taken) as Box<dyn Restore>) })
    }
}

/// A snapshot that is read.
struct Left {
    all: Vec<u8>,
    at: usize,
}

impl Pieces for Left {
    fn next(&mut self) -> Local<'_, Result<Option<Vec<u8>>, Failed>> {
        let end = self.all.len().min(self.at + PIECE_BYTES);
        assert!(self.at <= end, "in-place-of: a piece after the end, at {}", self.at);
        let piece = self.all[self.at..end].to_vec();
        self.at = end;
        Box::pin(async move { Ok(Some(piece).filter(|piece| !piece.is_empty())) })
    }
}

/// A snapshot that is taken over.
struct Taken {
    machine: Rc<Inner>,
    bytes: Vec<u8>,
}

impl Restore for Taken {
    fn piece(&mut self, bytes: Vec<u8>) -> Local<'_, Result<(), Failed>> {
        self.bytes.extend_from_slice(&bytes);
        // One that cannot take the place of what is here is not taken to its end, and is asked for
        // again.
        let refused = self.machine.refuses(&self.bytes);
        Box::pin(async move { refused.map_or(Ok(()), |why| Err(Failed(why))) })
    }
    fn finish(self: Box<Self>, applied: u64) -> Local<'static, Result<(), Failed>> {
        Box::pin(async move { self.machine.replace(&self.bytes, applied).await })
    }
}
