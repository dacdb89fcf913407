//! The scheduling group of a connection, by its service level.
//!
//! The two loops of a connection check at each read, and before each write that takes long, which
//! group is theirs, and move there; a request runs in the group of the task that read it. So a
//! change of levels or of their roles takes effect with the next requests of open connections.
//!
//! Invariants
//!  - *counted-where-run*: requests are counted for the group that the connection is in.

use super::Connection;
use query::Workload;
use runtime::group::{self, Group};

impl Connection {
    /// Moves the running task, one of the connection's own, to the group of its service level.
    pub(crate) async fn enter_group(&self) {
        let group = self.own_group();
        self.membership().enter(group, self.tallies());
        group::enter(group).await;
    }

    /// A request has been answered with so many bytes (*counted-where-run*).
    #[inline]
    pub(crate) fn count_answered(&self, opcode: u8, body_bytes: usize, bytes: usize) {
        self.tallies().count(self.membership(), opcode, body_bytes, bytes);
    }

    /// What kind of work its requests are, if its service level says so.
    pub(crate) fn workload(&self) -> Option<Workload> {
        self.session.terms(self.cluster().access()).workload
    }

    /// The group that its next request runs in.
    pub(crate) fn own_group(&self) -> Group {
        self.session.group(self.cluster().access())
    }
}
