//! `INSERT`, `UPDATE`, `DELETE`: planned once, executed as mutations.
//!
//! In reading order: [`plan`] (analysis), [`operation`] (what happens to a column), [`using`]
//! (timestamp and TTL), [`build`] (mutations), [`execute`], [`condition`], [`present`] and
//! [`owner`] (writes that depend on what is there), [`guardrails`], [`computed`] (options of the
//! node).

mod build;
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
pub(crate) use computed::refused;
pub(crate) use condition::{metadata_of_batch, shown_of_batch};
pub(crate) use execute::{check_consistency, default_timestamp, execute};
pub(crate) use guardrails::{check_level, check_sizes, tell_exceeded};
pub(crate) use owner::{OwnedStatement, existing, on_owner};
pub(crate) use plan::{ModifyPlan, prepare_delete, prepare_insert, prepare_update};
pub(crate) use using::UsingPlan;
