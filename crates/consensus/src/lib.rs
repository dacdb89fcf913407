//! Consensus: one log of commands, the same on all members of a group, applied by each in order.
//!
//! Lives on: one shard of each member. Knows no schema, no socket, no file: commands are bytes, and
//! the log, the machine and the way to peers are given. The algorithm is Raft, by a library that no
//! public type names. How it works and what it guarantees: docs/cluster.md, "Consensus".
//!
//! ```text
//! // A node brings three things; all are used on its shard alone.
//! trait Log       { load() -> Loaded;  write(&Change) }      // durable on return, all or nothing
//! trait Machine   { durable() -> index;  apply(&[Command], applied);
//!                   snapshot() -> Pieces;  restore() -> Restore }
//! trait Transport { send(NodeId, Class, Vec<u8>) }               // may lose, repeat, reorder
//!
//! let parts = Parts { me: NodeId(1), options: Options::new(command_bytes_max), log, machine,
//!                     transport };
//! let group = Group::start(parts, Start::New).await?;        // or Join; with a log: either
//! group.receive(from, &bytes)?;                                  // what a peer's transport sent
//!
//! // On any member, whoever leads: Err is Refused (not done), Uncertain, TooLarge or Stopped.
//! let index = group.propose(command, within).await?;             // applied here, at this index
//! let index = group.read_barrier(within).await?;             // all committed before is applied
//!
//! group.add(NodeId(2), within).await?;                           // as a learner
//! group.set_members(voters, learners, within).await?;            // by joint consensus
//! group.remove(NodeId(2), within).await?;
//! choose_voters(&[Candidate { node, dc, rack, is_alive, is_voter }], leader) // who should vote
//!
//! let status = group.status();                               // role, leader, term, indices, ..
//! let status = group.changed(&status).await;                     // another leader, other members
//! group.counters();
//! group.step_down(within).await;                                 // hands the leadership over
//! group.stop(within).await;                                      // the same, and ends
//!
//! // Read-modify-write, at most once: docs of `once`.
//! once::change(&group, &history, &command, within).await         // Applied, Lost or Uncertain
//! ```
//!
//! From the ground up: `form` (bytes with one form), [`members`] and [`entry`] (values and their
//! bytes), [`voters`] (who should vote; pure), [`traits`] (what a group stands on), [`options`],
//! [`anew`] (a log that begins with what another one has; pure); `convert` (the library's values
//! and ours), `message` (what members send), `store` (the log in memory), `engine` (the library,
//! driven; pure); [`group`] (the tasks and the handle), [`once`] (commands that take effect at most
//! once).
//!
//! Invariants: each room has its own; those that hold over nodes are in docs/cluster.md.

pub mod anew;
pub mod entry;
pub mod group;
pub mod members;
pub mod once;
pub mod options;
pub mod traits;
pub mod voters;

mod convert;
mod engine;
mod form;
mod message;
mod store;

pub use engine::Role;
pub use group::{Counters, Group, Parts, Start, Status, Unanswered};
pub use members::{Members, NodeId};
pub use message::{describe, reencoded};
pub use options::Options;
pub use traits::{Class, Failed, Local, Log, Machine, Transport};
pub use voters::{Candidate, VOTERS_MAX, choose_voters};

#[cfg(test)]
mod tests;
