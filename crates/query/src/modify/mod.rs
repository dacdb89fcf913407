//! `INSERT`, `UPDATE`, `DELETE`: planned once, executed as mutations.
//!
//! In reading order: [`plan`] (analysis), [`operation`] (what happens to a column), [`using`]
//! (timestamp and TTL), [`build`] (mutations), [`execute`], [`condition`], [`present`] and
//! [`owner`] (writes that depend on what is there), [`cassandra`] (Cassandra's form of what they
//! answer), [`guardrails`], [`computed`] (options of the
//! node).

mod build;
mod cassandra;
mod computed;
mod condition;
mod execute;
mod guardrails;
mod operation;
mod owner;
mod plan;
mod present;
mod sum;
mod using;

pub(crate) use build::{Existing, Write, add_to, partition_keys};
pub(crate) use cassandra::{metadata_of_existing, shown_of_existing};
pub(crate) use computed::refused;
pub(crate) use condition::{metadata_of_batch, shown_of_batch};
pub(crate) use execute::{check_consistency, default_timestamp, execute};
pub(crate) use guardrails::{check_level, check_sizes, tell_exceeded};
pub(crate) use owner::{OwnedStatement, Shown, existing, on_owner};
pub(crate) use plan::{ModifyPlan, prepare_delete, prepare_insert, prepare_update};
pub(crate) use using::UsingPlan;
