//! Truncation on all nodes that may have rows. It needs all of them: one that is away would bring
//! the rows back.
//!
//! Invariants
//!  - *everywhere*: a truncation that ends well has emptied the table on each node.
//!  - *before-or-after*: nothing is copied from node to node between the first node that empties
//!    the table and the last one: who gets it might have emptied it already.

use super::peers::{call, left};
use super::{Coordinator, host};
use crate::epochs::Epochs;
use crate::error::WriteError;
use crate::options::{Consistency, WriteKind};
use crate::wire::{RefusalKind, verb};
use cluster::Topology;
use messaging::{Payload, Target, ToShard};
use model::{TableId, Uuid};
use runtime::task::{join, join_all};
use runtime::time::{Instant, sleep};
use std::time::Duration;

/// Between two attempts to reach a node.
const PAUSE: Duration = Duration::from_millis(200);

impl Coordinator {
    /// Removes all rows of a table on all nodes.
    pub(in crate::coordinator) async fn truncate_spread(
        &self,
        table: TableId,
        patience: Duration,
    ) -> Result<(), WriteError> {
        let until = Instant::now() + patience;
        self.wait_while_moving(table, until).await?;
        // *before-or-after*: a move that begins now waits for this before anything is copied.
        let _entered = Epochs::enter(&*self.epochs);
        let places = self.places();
        let others = places.keepers();
        let (consistency, kind) = (Consistency::All, WriteKind::Simple);
        let required = others.len() as u32 + 1;
        let away = others.iter().filter(|host| !places.is_alive(**host));
        let away: Vec<(String, bool)> = away.map(|host| places.told(*host)).collect();
        if let Some(text) = why_not(&away) {
            return Err(WriteError::Refused(text));
        }
        let here = self.truncate_all(table);
        let elsewhere = join_all(others.iter().map(|node| truncate_on(*node, table, until)));
        let (here, elsewhere) = join(here, elsewhere).await;
        let failed: Vec<String> = elsewhere.into_iter().filter_map(Result::err).collect();
        if failed.is_empty() {
            return here;
        }
        let (failures, received) = (failed.len() as u32, required - failed.len() as u32);
        let received = received - u32::from(here.is_err());
        assert!(failures < required, "everywhere: {failures} of {required} nodes failed");
        let reason = format!("not truncated on {}", failed.join("; "));
        Err(WriteError::Failure { consistency, received, required, failures, kind, reason })
    }
}

impl Coordinator {
    /// What is copied from node to node may come after the truncation of the one that gets it
    /// (*before-or-after*): waits until nobody is on the move, and no tablet of the table.
    pub(crate) async fn wait_while_moving(
        &self,
        table: TableId,
        until: Instant,
    ) -> Result<(), WriteError> {
        loop {
            let (topology, schema) = (self.cluster.topology(), self.cluster.schema());
            let tablets = schema.table_by_id(table).map(|table| table.replicas.moves().len());
            if topology.stage().is_none() && tablets.is_none_or(|moves| moves == 0) {
                return Ok(());
            }
            if left(until) <= PAUSE {
                return Err(refused_while_moving(&topology));
            }
            sleep(PAUSE / 4).await;
        }
    }
}

/// Why a table is not truncated while data are on the move.
fn refused_while_moving(topology: &Topology) -> WriteError {
    let movers: Vec<String> = topology.movers().map(|it| it.address.ip().to_string()).collect();
    let who = match movers.is_empty() {
        true => "tablets of the table move".to_owned(),
        false => format!("nodes join or leave the cluster: {}", movers.join(", ")),
    };
    debug_assert!(!who.is_empty(), "everywhere: nobody is on the move");
    WriteError::Refused(format!(
        "data are copied from node to node, and would be back after a truncation: {who}. Try again \
         when that is over, as nodetool status tells"
    ))
}

/// Why a table is not truncated while some nodes are away, of which each may be lost, and what to
/// do about it.
fn why_not(away: &[(String, bool)]) -> Option<String> {
    let named = |is_lost: bool| {
        let names = away.iter().filter(|(_, lost)| *lost == is_lost).map(|(name, _)| &name[..]);
        names.collect::<Vec<_>>().join(", ")
    };
    let (down, lost) = (named(false), named(true));
    let mut texts = Vec::new();
    if !down.is_empty() {
        texts.push(format!("down: {down}; start them, and try again"));
    }
    if !lost.is_empty() {
        texts.push(format!(
            "lost: {lost}; drop the table and make it anew, or delete its rows by partition"
        ));
    }
    debug_assert!(texts.is_empty() == away.is_empty(), "everywhere: {away:?} are not named");
    let all_nodes = "all nodes have to be up, or those that are not would bring the rows back";
    (!texts.is_empty()).then(|| format!("{all_nodes}. {}", texts.join(". ")))
}

/// Asks a node, until it was reached or the time is over.
async fn truncate_on(node: Uuid, table: TableId, until: Instant) -> Result<(), String> {
    debug_assert!(!node.is_nil(), "everywhere: a node without a name");
    let target = Target::statements(host(node), ToShard::At(0));
    loop {
        let payload = Payload::from(&table.as_bytes()[..]);
        let refusal = match call(target, verb::TRUNCATE, payload, left(until)).await {
            Ok(_) => return Ok(()),
            Err(refusal) => refusal,
        };
        if refusal.kind != RefusalKind::Unreached || left(until) <= PAUSE {
            return Err(refusal.text);
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_away_is_named_with_what_to_do() {
        assert_eq!(why_not(&[]), None);
        let away = [("10.0.0.2 (a)", false), ("10.0.0.3 (b)", true), ("10.0.0.4 (c)", false)];
        let away = away.map(|(name, is_lost)| (name.to_owned(), is_lost));
        let text = why_not(&away).expect("some are away");
        assert!(text.contains("down: 10.0.0.2 (a), 10.0.0.4 (c); start them"), "{text}");
        assert!(text.contains("lost: 10.0.0.3 (b); drop the table"), "{text}");
        let text = why_not(&away[..1]).expect("one is away");
        assert!(!text.contains("lost"), "{text}");
    }
}
