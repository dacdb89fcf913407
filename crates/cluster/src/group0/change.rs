//! Changes of the catalog by way of the log: read, decided, proposed; again where another one was
//! first.
//!
//! Invariants
//!  - *decided-on-the-last*: a change is decided on a state in which all is that was committed
//!    before it was asked for, and takes effect on that state or not at all.

use super::machine::CatalogMachine;
use super::payload::Payload;
use crate::registry::{ChangeError, Cluster};
use crate::schema::{Catalog, Schema};
use catalog::placement::Here;
use catalog::{Moment, SchemaChange};
use consensus::Group;
use consensus::once::{self, History, Outcome, StateId};
use runtime::time::Instant;
use std::time::Duration;

impl CatalogMachine {
    /// Changes the schema on all nodes of the group. `decide` sees the schema as it is after all
    /// that was committed before, once more for each change that came first; no changes: nothing
    /// happens. When it returns `Ok`, this node shows the change; `Failed` says whether it may have
    /// happened.
    pub async fn change_schema<E>(
        &self,
        group: &Group,
        decide: impl Fn(&Schema) -> Result<Vec<SchemaChange>, E>,
        within: Duration,
    ) -> Result<(), ChangeError<E>> {
        let deadline = Instant::now() + within;
        let failed = |what: String| ChangeError::Failed(what);
        let _turn = self.turn().await.map_err(failed)?;
        loop {
            let left = deadline - Instant::now();
            if left.is_zero() {
                return Err(failed("no time is left; nothing was changed".to_owned()));
            }
            let read = group.read_barrier(left).await;
            read.map_err(|why| failed(format!("the schema cannot be read: {why}")))?;
            let changes = decide(&self.cluster().schema()).map_err(ChangeError::Refused)?;
            if changes.is_empty() {
                return Ok(());
            }
            let command = self.command(changes).map_err(failed)?;
            assert!(command.prev == self.last(), "decided-on-the-last: {} is not", command.prev);
            match once::change(group, self, &command, deadline - Instant::now()).await {
                Outcome::Applied => return Ok(()),
                Outcome::Lost => {}
                Outcome::Refused(why) => {
                    return Err(failed(format!("nothing was changed: {why}")));
                }
                Outcome::Uncertain => {
                    return Err(failed("no answer in time: it may have been changed".to_owned()));
                }
            }
        }
    }

    /// The command that makes these changes of the present state.
    fn command(&self, changes: Vec<SchemaChange>) -> Result<once::Command, String> {
        let cluster: &Cluster = self.cluster();
        let catalog =
            Catalog { schema: cluster.schema(), access: cluster.access().state().clone() };
        let (micros, random) = (cluster.next_micros(), runtime::random_u64());
        let Here { host_id, shards } = cluster.node().here();
        let moment = Moment { micros, random, host_id, shards };
        let command = catalog.change_schema(changes, None, moment)?;
        let version = command.version().expect("a change of the schema");
        let rows = command.rows(&catalog.schema, cluster.node().host_id);
        let payload = Payload { last: command.last_timestamp(), rows }.encode();
        let (prev, new) = (self.last(), StateId(*version.as_bytes()));
        assert!(prev != new, "decided-on-the-last: {new} again");
        Ok(once::Command { prev, new, payload })
    }
}
