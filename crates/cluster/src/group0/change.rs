//! Changes of the catalog by way of the log: read, decided, proposed; again where another one was
//! first.
//!
//! Invariants
//!  - *decided-on-the-last*: a change is decided on a state in which all is that was committed
//!    before it was asked for, and takes effect on that state or not at all.

use super::machine::CatalogMachine;
use super::payload::Payload;
use super::quorum::{CommandTime, unanswered};
use crate::registry::order::{Local, Order, Proposed};
use crate::schema::Catalog;
use crate::uuids::time_uuid_now;
use catalog::Command;
use consensus::once::{self, History, Outcome, StateId};
use consensus::{Group, Unanswered};
use runtime::sync::Permit;

/// The log as who orders the commands of this node.
pub(super) struct ByLog {
    pub(super) group: Group,
    pub(super) machine: CatalogMachine,
    /// How long a read of the state, or a command, may take.
    pub(super) within: CommandTime,
}

impl Order for ByLog {
    fn turn(&self) -> Local<'_, Result<Permit, String>> {
        Box::pin(self.machine.turn())
    }

    fn barrier(&self) -> Local<'_, Result<(), String>> {
        Box::pin(async move {
            let read = self.group.read_barrier(self.within.get()).await;
            read.map(drop).map_err(|why| {
                let why = self.why("read_barrier", &why);
                format!("the catalog cannot be read: {why}")
            })
        })
    }

    fn propose<'a>(
        &'a self,
        before: &'a Catalog,
        command: Command,
    ) -> Local<'a, Result<Proposed, String>> {
        Box::pin(self.proposed(before, command))
    }
}

impl ByLog {
    fn why(&self, operation: &str, why: &Unanswered) -> String {
        unanswered(operation, why, &self.group, self.machine.cluster())
    }

    async fn proposed(&self, before: &Catalog, command: Command) -> Result<Proposed, String> {
        let rows = command.rows(&before.schema);
        let payload = Payload { last: command.last_timestamp(), rows }.encode();
        let new = command.version().unwrap_or_else(time_uuid_now);
        let (prev, new) = (self.machine.last(), StateId(*new.as_bytes()));
        assert!(prev != new, "decided-on-the-last: {new} again");
        assert!(
            before.schema.version == self.machine.cluster().schema().version,
            "decided-on-the-last: the schema is another one"
        );
        let own = self.machine.propose_own(new, command);
        let proposal = once::Command { prev, new, payload };
        match once::change(&self.group, &self.machine, &proposal, self.within.get()).await {
            Outcome::Applied => Ok(Proposed::Shown { told: !own.was_carried_out() }),
            Outcome::Lost => Ok(Proposed::Lost),
            Outcome::Refused(why) => {
                Err(format!("nothing was changed: {}", self.why("add_entry", &why)))
            }
            Outcome::Uncertain => {
                let why = self.why("add_entry", &Unanswered::Uncertain);
                Err(format!("it may have been changed: {why}"))
            }
        }
    }
}
