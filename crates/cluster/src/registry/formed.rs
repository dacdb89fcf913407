//! What the leader does first for a cluster that has formed, or whose nodes were upgraded: it
//! enables what all of them can do, and makes the first streams of the ring. It takes some
//! milliseconds, in which a statement that asks for a view or a log would be refused for nothing
//! that its client could know of. Such a statement waits.
//!
//! Invariants
//!  - *bounded*: it waits for [`MAX`] at most, and is decided then on what there is: where no
//!    leader is, nothing could be changed anyway.

use super::Cluster;
use catalog::{Topology, features};
use runtime::time::Instant;
use std::time::Duration;

/// Longer than the nodes take to elect a leader.
const MAX: Duration = Duration::from_secs(10);

/// Whether nothing of it is left to be done. A node of no cluster has no leader to wait for.
fn is_formed(topology: &Topology) -> bool {
    let has_streams = !topology.streams().is_empty() || !topology.enables(features::CDC);
    debug_assert!(
        topology.present().next().is_some() || topology.to_enable().is_empty(),
        "bounded: nobody enables what a node of no cluster can do"
    );
    topology.present().next().is_none() || (topology.to_enable().is_empty() && has_streams)
}

impl Cluster {
    /// Waits until this shard shows what the leader does first for the nodes that it has. Who is
    /// about to change the schema looks at the topology afterwards.
    pub async fn formed(&self) {
        let since = Instant::now();
        while !is_formed(&self.topology()) {
            let waited = since.elapsed();
            debug_assert!(waited < 10 * MAX, "bounded: {waited:?}");
            let Some(left) = MAX.checked_sub(waited).filter(|left| !left.is_zero()) else { break };
            self.changed_within(left).await;
        }
    }

    /// Whether changes of tables without tablets have streams to go to; a node of no cluster makes
    /// them with the table.
    pub fn has_streams(&self) -> bool {
        let topology = self.topology();
        !topology.streams().is_empty() || topology.present().next().is_none()
    }
}
