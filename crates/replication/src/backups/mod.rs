//! Backups of tables: snapshots on all nodes that may have rows, and their rows put into another
//! table.
//!
//! What is known of a backup, and who drives what, is for the layers above: here is what they ask
//! nodes for. A snapshot has what its node's replicas held; the rows of all of them together, each
//! with its own timestamps, are what the table held. So each node puts its rows into the new table
//! by the way of all writes, whoever is to have them there, and what several nodes have had comes
//! several times, which changes nothing.
//!
//! Invariants
//!  - *before-or-after*: nothing is copied from node to node between the first node that takes its
//!    part and the last one: else what moves could be in no part.
//!  - *whole-by-quorums*: a backup that lacks the parts of so few nodes that each quorum had
//!    another one has all that was acknowledged by a quorum ([`is_whole`]).
//!  - *bounded*: a step of loading holds about `load::BATCH_BYTES` of rows, and ends soon after
//!    `load::STEP_TIME`. It keeps nothing: who asks for the next one says where it goes on.

mod load;

use crate::coordinator::nodes::{call, left};
use crate::coordinator::{Coordinator, own_coordinator};
use crate::epochs::Epochs;
use crate::error::WriteError;
use crate::wire::backups::{
    Load, Loaded, Take, decode_loaded, decode_place, encode_loaded, encode_place,
};
use crate::wire::{Refusal, RefusalKind, verb};
use cluster::{Replication, TableEntry};
pub use derived::log::Replay;
pub use load::tokens;
use messaging::{HostId, Payload, Target, ToShard, Verb};
use model::{TableId, Uuid};
use mutation::FrozenMutation;
use mutation::page::Resume;
use runtime::Erased;
use runtime::group::STREAMING;
use runtime::task::join_all;
use runtime::time::Instant;
use std::rc::Rc;
use std::time::Duration;
pub use storage::{BACKUP_PREFIX, SnapshotPlace, SnapshotTag};
use storage::{Memtables, SnapshotFilter, SnapshotOrder, Storage};

/// In so many parts a node's snapshot is loaded, each on a shard.
pub const PARTS: u8 = 16;
/// How long a step may take that has to wait for its writes.
const STEP_PATIENCE: Duration = Duration::from_secs(60);

/// Whether a backup of a table with so many copies in the data centre that has the fewest is whole
/// that lacks the parts of so many nodes. (*whole-by-quorums*)
pub fn is_whole(copies: u32, missing: usize) -> bool {
    debug_assert!(0 < copies, "whole-by-quorums: rows without a copy");
    missing <= copies as usize / 2
}

/// What was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The nodes that have a part of it.
    pub nodes: Vec<Uuid>,
    /// How many should have had one, and may have none.
    pub missing: usize,
    /// Copies of each row, in the data centre that has the fewest.
    pub copies: u32,
    /// Bytes of all parts.
    pub bytes: u64,
}

/// How far a part of a node's snapshot is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node has no such snapshot.
    Absent,
    /// So many bytes of rows were written; the next step goes on there, or the part is done.
    Written { bytes: u64, next: Option<Resume> },
}

/// Why a step was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// For a reason that may pass.
    Yet(String),
    /// It never will be: what the node has breaks its own rules, or can be written nowhere.
    Ever(String),
}

impl Coordinator {
    /// Takes a snapshot of a table on all nodes that may have rows of it. Whatever was acknowledged
    /// before is in it. After an error none of the nodes that answer has one.
    pub fn take_backup(
        self: &Rc<Coordinator>,
        table: TableId,
        tag: SnapshotTag,
        patience: Duration,
    ) -> Erased<'_, Result<Taken, WriteError>> {
        Erased::new(move || async move {
            let until = Instant::now() + patience;
            let unknown = || WriteError::Refused(format!("there is no table {table}"));
            let entry = self.cluster.schema().table_by_id(table).cloned().ok_or_else(unknown)?;
            let moving = |_| WriteError::Overloaded("data of the table are on the move".to_owned());
            self.wait_while_moving(table, until).await.map_err(moving)?;
            // *before-or-after*: a move that begins now waits for this before anything is copied.
            let _entered = Epochs::enter(&*self.epochs);
            let places = self.places();
            let mut hosts = vec![self.cluster.node().host_id];
            hosts.extend(places.keepers());
            let take = Take { table, tag };
            let takes = hosts.iter().map(|host| self.take_on(*host, &take, until));
            let taken: Vec<Result<u64, String>> = join_all(takes).await;
            assert!(taken.len() == hosts.len(), "whole-by-quorums: {} answers", taken.len());
            let has_it = |(_, taken): &(&Uuid, &Result<u64, String>)| taken.is_ok();
            let nodes: Vec<Uuid> =
                hosts.iter().zip(&taken).filter(has_it).map(|(host, _)| *host).collect();
            let missing = hosts.len() - nodes.len();
            let copies = least_copies(self, &entry).min(hosts.len() as u32);
            let why = taken.iter().find_map(|taken| taken.as_ref().err());
            if is_whole(copies, missing) && !nodes.is_empty() {
                if let Some(why) = why {
                    tracing::warn!(target: "backups", "a backup without {missing} nodes: {why}");
                }
                let bytes = taken.iter().flatten().sum();
                return Ok(Taken { nodes, missing, copies, bytes });
            }
            let place = place_of(&entry, take.tag);
            debug_assert!(why.is_some(), "whole-by-quorums: nobody says why {missing} have none");
            let clears = hosts.iter().map(|host| self.clear_backup(*host, &place, patience));
            join_all(clears).await;
            let why = why.cloned().unwrap_or_default();
            Err(WriteError::Overloaded(format!("not backed up on {missing} nodes: {why}")))
        })
    }

    async fn take_on(&self, host: Uuid, take: &Take, until: Instant) -> Result<u64, String> {
        debug_assert!(!host.is_nil(), "a node without a name");
        if host == self.cluster.node().host_id {
            return taken_here(self, take.clone()).await;
        }
        if !self.places().is_alive(host) {
            return Err(format!("{} is down", self.places().told(host).0));
        }
        let bytes = ask(host, verb::SNAPSHOT_TAKE, take.encode(), left(until)).await?;
        let bytes: [u8; 8] = bytes.try_into().map_err(|_| "a damaged answer".to_owned())?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Removes a node's part of a backup, if it has one.
    pub fn clear_backup<'a>(
        &'a self,
        host: Uuid,
        place: &'a SnapshotPlace,
        patience: Duration,
    ) -> Erased<'a, Result<(), String>> {
        Erased::new(move || async move {
            match host == self.cluster.node().host_id {
                true => cleared_here(self, place).await,
                false => {
                    let asked = ask(host, verb::SNAPSHOT_CLEAR, encode_place(place), patience);
                    asked.await.map(drop)
                }
            }
        })
    }

    /// Takes a step: a node puts what it has of one part of the ring, of [`PARTS`], in a snapshot
    /// into a table, from a place on.
    pub fn load_backup<'a>(
        &'a self,
        host: Uuid,
        (place, part): (&'a SnapshotPlace, u8),
        into: TableId,
        from: Option<Resume>,
    ) -> Erased<'a, Result<Step, NotLoaded>> {
        Erased::new(move || async move {
            assert!(part < PARTS, "bounded: part {part} of {PARTS}");
            let load = Load { into, place: place.clone(), part: (part, PARTS), from };
            let loaded = match host == self.cluster.node().host_id {
                true => loaded_here(load).await?,
                false => {
                    let request = load.encode();
                    let asked = asked(host, verb::SNAPSHOT_LOAD, request, STEP_PATIENCE).await;
                    let damaged = |damaged: stdx::Damaged| NotLoaded::Yet(damaged.to_string());
                    decode_loaded(&asked.map_err(not_loaded)?).map_err(damaged)?
                }
            };
            Ok(match loaded {
                None => Step::Absent,
                Some(Loaded { bytes, next, .. }) => Step::Written { bytes, next },
            })
        })
    }

    /// Writes to a table what comes of a backup, or of what came after it: at once what is not of
    /// one partition.
    pub fn write_backed_up<'a>(
        &'a self,
        table: &'a TableEntry,
        mutations: Vec<FrozenMutation>,
    ) -> Erased<'a, Result<(), NotLoaded>> {
        Erased::new(move || load::write(self, table, mutations))
    }

    /// Whether a node belongs to the cluster and is thought to be alive; `None`: it does not belong
    /// to it any more.
    pub fn is_backed_up_by(&self, host: Uuid) -> Option<bool> {
        let places = self.places();
        let is_known = host == self.cluster.node().host_id || places.others().contains(&host);
        is_known.then(|| places.is_alive(host))
    }
}

/// Where the snapshot of a table is, on each node.
pub fn place_of(table: &TableEntry, tag: SnapshotTag) -> SnapshotPlace {
    let (keyspace, name) = (table.schema.keyspace.clone(), table.schema.name.clone());
    SnapshotPlace { keyspace, table: name, table_id: table.schema.id, tag }
}

/// Copies of each row in the data centre that has the fewest, of those that have some.
fn least_copies(coordinator: &Coordinator, table: &TableEntry) -> u32 {
    let topology = coordinator.cluster.topology();
    let copies = match &*table.replication {
        Replication::PerDataCenter(_) => {
            let centers = topology.present().map(|member| member.data_center.as_str());
            let copies = centers.map(|center| table.replication.counted_in(center));
            copies.filter(|copies| 0 < *copies).min()
        }
        other => Some(other.total()),
    };
    let copies = copies.unwrap_or(1).max(1);
    debug_assert!(copies <= table.replication.total().max(1), "whole-by-quorums: {copies} copies");
    copies
}

async fn ask(host: Uuid, verb: Verb, request: Vec<u8>, time: Duration) -> Result<Vec<u8>, String> {
    asked(host, verb, request, time).await.map_err(|refusal| refusal.text)
}

async fn asked(
    host: Uuid,
    verb: Verb,
    request: Vec<u8>,
    time: Duration,
) -> Result<Vec<u8>, Refusal> {
    debug_assert!(!host.is_nil() && !time.is_zero(), "nobody is asked, or for no answer");
    let target = Target::bulk(HostId(host.as_u128()), ToShard::At(0));
    call(target, verb, Payload::from(request), time).await
}

/// What another node's refusal of a step means, and the refusal that says so.
fn not_loaded(refusal: Refusal) -> NotLoaded {
    match refusal.kind {
        RefusalKind::Refused => NotLoaded::Ever(refusal.text),
        _ => NotLoaded::Yet(refusal.text),
    }
}

fn refusal_of(reason: NotLoaded) -> Refusal {
    let refusal = match reason.clone() {
        NotLoaded::Yet(why) => failed(why),
        NotLoaded::Ever(why) => Refusal::new(RefusalKind::Refused, why),
    };
    debug_assert!(not_loaded(refusal.clone()) == reason, "what is final is told as such");
    refusal
}

/// What another node asks for. The caller knows that the table is here.
pub(crate) async fn take(coordinator: &Coordinator, take: Take) -> Result<Vec<u8>, Refusal> {
    let bytes = taken_here(coordinator, take).await.map_err(failed)?;
    Ok(bytes.to_be_bytes().to_vec())
}

/// What another node asks for.
pub(crate) async fn clear(coordinator: &Coordinator, request: &[u8]) -> Result<(), Refusal> {
    let refused = |damaged: stdx::Damaged| Refusal::new(RefusalKind::Refused, damaged.to_string());
    let place = decode_place(request).map_err(refused)?;
    cleared_here(coordinator, &place).await.map_err(failed)
}

/// What another node asks for. The caller knows that the table is here.
pub(crate) async fn load(load: Load) -> Result<Vec<u8>, Refusal> {
    let loaded = loaded_here(load).await.map_err(refusal_of)?;
    Ok(encode_loaded(loaded.as_ref()))
}

fn failed(why: String) -> Refusal {
    Refusal::new(RefusalKind::Failed, why)
}

/// The bytes of this node's part.
async fn taken_here(coordinator: &Coordinator, take: Take) -> Result<u64, String> {
    let Take { table, tag } = take;
    let storage: &Storage = &coordinator.storage;
    let order = SnapshotOrder { tag: tag.clone(), memtables: Memtables::Flushed, ttl: None };
    let taken = storage.take_snapshot(vec![table], order).await;
    taken.map_err(|error| error.to_string())?;
    let all = storage.snapshots().await.map_err(|error| error.to_string())?;
    let is_it = |one: &&storage::Snapshot| one.table_id == Some(table) && one.tag == tag.as_str();
    let found = all.iter().find(is_it);
    debug_assert!(found.is_none_or(|one| one.created_secs.is_some()), "it was never finished");
    // A table that is dropped meanwhile is passed over.
    found.map(|one| one.total_bytes).ok_or_else(|| format!("the table {table} is gone"))
}

async fn cleared_here(coordinator: &Coordinator, place: &SnapshotPlace) -> Result<(), String> {
    debug_assert!(!place.table.is_empty(), "what is cleared is of one table");
    let filter = SnapshotFilter {
        tag: Some(place.tag.as_str().to_owned()),
        keyspaces: vec![place.keyspace.clone()],
        table: Some(place.table.clone()),
    };
    let cleared = coordinator.storage.clear_snapshots(filter).await;
    cleared.map(drop).map_err(|error| error.to_string())
}

/// On the shard of the part.
async fn loaded_here(load: Load) -> Result<Option<Loaded>, NotLoaded> {
    let shard = u16::from(load.part.0) % runtime::shard_count();
    let step = move || async move {
        let coordinator = own_coordinator().map_err(|it| NotLoaded::Yet(it.to_string()))?;
        // A task of its own: steps that are taken at once on this shard share no group.
        let done = coordinator.background.spawn_in(STREAMING, load::step(load)).await;
        done.unwrap_or_else(|_| Err(NotLoaded::Yet("the node stops".to_owned())))
    };
    Box::pin(runtime::on_shard(shard, step)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_node_says_whether_it_may_be_asked_again() {
        for reason in [NotLoaded::Yet("busy".into()), NotLoaded::Ever("damaged".into())] {
            assert_eq!(not_loaded(refusal_of(reason.clone())), reason);
        }
        let unreached = Refusal::new(RefusalKind::Unreached, "no way".to_owned());
        assert_eq!(not_loaded(unreached), NotLoaded::Yet("no way".into()));
    }

    /// *whole-by-quorums*: by counting, over all sets of replicas that a quorum may be.
    #[test]
    fn a_backup_is_whole_if_no_quorum_is_missing() {
        for copies in 1..=7u32 {
            let quorum = crate::plan::quorum(copies) as usize;
            for missing in 0..=copies as usize {
                // The worst that may be: the missing nodes were in one quorum, as far as they can.
                let has_another = missing < quorum;
                assert_eq!(is_whole(copies, missing), has_another, "{copies} {missing}");
            }
        }
    }
}
