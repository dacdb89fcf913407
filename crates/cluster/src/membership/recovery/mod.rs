//! Recovery of the group of all nodes from the loss of its majority, for ever.
//!
//! Somebody names the nodes that are lost. The nodes that are left agree on the next *generation*
//! of the group, which one of them begins with the state that it has; the others take it over, and
//! with it that state. What is promised and begun, and why two of them never work beside each
//! other: `decide`. What operators see and do: docs/cluster.md, "When the majority is lost".
//!
//! From the ground up: `decide` (pure), `form` (bytes and texts; pure), [`report`] (what operators
//! are told; pure), `keep` (what a node keeps of it), `take` (promises, and generations that are
//! taken over), `run` (the command).
//!
//! Invariants: those of `decide`, and
//!  - *old-or-new*: a generation is begun, or taken over, in one durable step: a crash leaves the
//!    node in the old one or in the new one.
//!  - *state-comes-with-it*: who takes a generation over has what it had before until it has all
//!    that the leader sends, and then nothing of its own.
//!  - *lost-is-not-heard*: who was declared lost is refused by each node of the generation, and
//!    stops when it is told so.

pub(super) mod decide;
mod form;
mod keep;
pub mod report;
mod run;
mod take;

pub(super) use keep::kept;
pub use run::{expelled, recover};
pub(super) use take::{banned_by, is_banned, serve};
