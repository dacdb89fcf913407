//! `INSERT`, `UPDATE`, `DELETE`, executed as mutations.
//!
//! From the ground up: [`build`] (mutations), [`guardrails`] (what options allow), [`view_keys`]
//! (what views mean for a write), [`computed`] (options of the node as tables), [`present`],
//! [`work`], [`sent`] and [`owner`] (writes that depend on what is there: what they find, what they
//! do, how they travel, where they are executed), [`cassandra`] (Cassandra's form of what they
//! answer), [`execute`].

mod build;
mod cassandra;
mod computed;
mod execute;
mod guardrails;
mod owner;
mod present;
mod sent;
mod view_keys;
mod work;

pub(crate) use build::{Existing, Write, add_to, partition_keys};
pub(crate) use cassandra::{metadata_of_existing, shown_of_existing};
pub(crate) use computed::refused;
pub(crate) use execute::{check_consistency, default_timestamp, execute};
pub(crate) use guardrails::{check_level, check_sizes, tell_exceeded};
pub use owner::execute_for_others;
pub(crate) use owner::{existing, on_owner};
pub(crate) use view_keys::{check_view_keys, note_views};
pub(crate) use work::{OwnedStatement, Shown};
