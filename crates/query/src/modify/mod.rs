//! `INSERT`, `UPDATE`, `DELETE`, executed as mutations.
//!
//! From the ground up: [`build`] (mutations), [`guardrails`] (what options allow), [`computed`]
//! (options of the node as tables), [`present`] and [`owner`] (writes that depend on what is
//! there), [`execute`].

mod build;
mod computed;
mod execute;
mod guardrails;
mod owner;
mod present;

pub(crate) use build::{Existing, Write, add_to, partition_keys};
pub(crate) use computed::refused;
pub(crate) use execute::{check_consistency, default_timestamp, execute};
pub(crate) use guardrails::{check_level, check_sizes, tell_exceeded};
pub(crate) use owner::{OwnedStatement, existing, on_owner};
