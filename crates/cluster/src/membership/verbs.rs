//! What nodes ask each other about the cluster.

use messaging::Verb;

/// Whom do you know?
pub(super) const DISCOVER: Verb = Verb::new(1, "DISCOVER");
/// Let me in.
pub(super) const JOIN: Verb = Verb::new(2, "JOIN");
/// Do you live?
pub(super) const PING: Verb = Verb::new(3, "PING");
/// A message of the consensus.
pub(super) const RAFT: Verb = Verb::new(4, "RAFT");
/// About a lost majority.
pub(super) const RECOVER: Verb = Verb::new(5, "RECOVER");
