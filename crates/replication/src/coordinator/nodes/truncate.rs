//! Truncation on all nodes that may have rows. It needs all of them: one that is away would bring
//! the rows back.
//!
//! Invariants
//!  - *everywhere*: a truncation that ends well has emptied the table on each node.

use super::peers::{call, left};
use super::{Coordinator, host};
use crate::error::WriteError;
use crate::options::{Consistency, WriteKind};
use crate::wire::{RefusalKind, verb};
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
        let places = self.places();
        let others = places.keepers();
        let (consistency, kind) = (Consistency::All, WriteKind::Simple);
        let required = others.len() as u32 + 1;
        let alive = others.iter().filter(|host| places.is_alive(**host)).count() as u32 + 1;
        if alive < required {
            return Err(WriteError::Unavailable { consistency, required, alive });
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
