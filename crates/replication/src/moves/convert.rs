//! Keyspaces that are given tablets: how each node stores their tables, and how that ends.
//!
//! Each node is asked when somebody wants to know: how it stores them is its own affair, and
//! settled at its start (`cluster`, `registry::convert`).
//!
//! Invariants
//!  - *all-or-none*: see [`cluster::conversion`]; what a node tells holds as long as the topology
//!    by which it told it.

use super::barrier::{ask, is_here};
use crate::coordinator::own_coordinator;
use crate::wire::modes;
use crate::wire::verb;
use cluster::conversion::{Modes, asked, outcome};
use cluster::{Member, StorageMode, Stored};
use model::Uuid;
use runtime::Erased;
use runtime::task::join_all;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a node may take for an answer: it catches up first.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How a node stores the tables of a keyspace that is being given tablets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMode {
    pub host_id: Uuid,
    /// `None`: it does not say.
    pub current: Option<StorageMode>,
    /// From its next start on.
    pub intended: StorageMode,
}

/// Those of all nodes that are not lost; none of a keyspace that is not being given tablets.
pub fn node_modes(keyspace: String) -> Erased<'static, Result<Vec<NodeMode>, String>> {
    let look = move || async move {
        let coordinator = own_coordinator().map_err(|error| error.to_string())?;
        coordinator.cluster.catch_up().await?;
        let topology = coordinator.cluster.topology();
        if !topology.converting().contains(&keyspace) {
            return Ok(Vec::new());
        }
        let told = ask_all(asked(&topology).cloned().collect(), &keyspace).await;
        let mode = |member: &Arc<Member>| {
            let modes = told.get(&member.host_id).map(|stored| &stored.modes);
            let by_tablets =
                |modes: &Modes| modes.values().all(|mode| *mode == StorageMode::Tablets);
            let current = modes.map(|modes| match by_tablets(modes) {
                true => StorageMode::Tablets,
                false => StorageMode::Ring,
            });
            let intended = topology.intended(member.host_id);
            NodeMode { host_id: member.host_id, current, intended }
        };
        let all: Vec<NodeMode> = asked(&topology).map(mode).collect();
        debug_assert!(!all.is_empty(), "all-or-none: this node is no member");
        Ok(all)
    };
    Erased::new(move || async move { runtime::on_shard(0, look).await })
}

/// Ends it: the keyspace has tablets, or has none after all, as all nodes store its tables. The
/// error says who stands in the way.
pub fn finalize_conversion(keyspace: String) -> Erased<'static, Result<(), String>> {
    let end = move || async move {
        let coordinator = own_coordinator().map_err(|error| error.to_string())?;
        let cluster = &coordinator.cluster;
        cluster.catch_up().await?;
        let topology = cluster.topology();
        if !topology.converting().contains(&keyspace) {
            return Err(format!(
                "keyspace {keyspace} does not have a tablet map: its migration was not started"
            ));
        }
        let told = ask_all(asked(&topology).cloned().collect(), &keyspace).await;
        // Who told it by an earlier topology, or a later one, may store in another way by now.
        let version = topology.version();
        let modes = told.into_iter().filter(|(_, stored)| stored.version == version);
        let modes: BTreeMap<Uuid, Modes> =
            modes.map(|(host, stored)| (host, stored.modes)).collect();
        let decided = outcome(&topology, &keyspace, &modes);
        let decided = decided.map_err(|why| {
            format!("Migration finalization failed for keyspace '{keyspace}': {why}")
        })?;
        debug_assert!(
            asked(&topology).all(|member| modes.contains_key(&member.host_id)),
            "all-or-none: decided without a node"
        );
        cluster.finalize_conversion(keyspace, decided, version).await
    };
    Erased::new(move || async move { runtime::on_shard(0, end).await })
}

/// What those nodes tell that answer.
async fn ask_all(members: Vec<Arc<Member>>, keyspace: &str) -> BTreeMap<Uuid, Stored> {
    let answers = join_all(members.iter().map(|member| ask_one(member, keyspace))).await;
    let mut out = BTreeMap::new();
    for (member, answer) in members.iter().zip(answers) {
        match answer {
            Ok(Some(stored)) => drop(out.insert(member.host_id, stored)),
            Ok(None) => {}
            Err(why) => tracing::warn!(
                target: "tablets", node = %member.host_id,
                "a node does not tell how it stores {keyspace}: {why}"
            ),
        }
    }
    assert!(out.len() <= members.len(), "all-or-none: more have answered than were asked");
    out
}

async fn ask_one(member: &Member, keyspace: &str) -> Result<Option<Stored>, String> {
    debug_assert!(!keyspace.is_empty(), "all-or-none: of no keyspace");
    if is_here(member) {
        let coordinator = own_coordinator().map_err(|error| error.to_string())?;
        return coordinator.cluster.stored(keyspace.to_owned()).await;
    }
    let answer = ask(member, verb::STORAGE_MODES, keyspace.as_bytes().to_vec(), ANSWER_MAX).await?;
    modes::decode(&answer).map_err(|damaged| damaged.to_string())
}

/// How this node stores the tables of a keyspace, as a message.
pub(crate) async fn tell(keyspace: &[u8]) -> Result<Vec<u8>, String> {
    let keyspace = std::str::from_utf8(keyspace);
    let keyspace = keyspace.map_err(|_| "the name of a keyspace is no text".to_owned())?;
    let coordinator = own_coordinator().map_err(|error| error.to_string())?;
    let stored = coordinator.cluster.stored(keyspace.to_owned()).await?;
    let told = modes::encode(stored.as_ref());
    debug_assert_eq!(modes::decode(&told).ok(), Some(stored), "one-form");
    Ok(told)
}
