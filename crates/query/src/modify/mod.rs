//! `INSERT`, `UPDATE`, `DELETE`: planned once, executed as mutations.
//!
//! In reading order: [`plan`] (analysis), [`operation`] (what happens to a column), [`using`]
//! (timestamp and TTL), [`build`] (mutations), [`execute`], [`condition`] and [`owner`] (writes
//! that depend on what is there), [`computed`] (options of the node).

mod build;
mod computed;
mod condition;
mod execute;
mod operation;
mod owner;
mod plan;
mod using;

pub(crate) use build::{Existing, Write, add_to, partition_keys};
pub(crate) use computed::refused;
pub(crate) use execute::{check_consistency, default_timestamp, execute};
pub(crate) use owner::{OwnedStatement, on_owner};
pub(crate) use plan::{ModifyPlan, prepare_delete, prepare_insert, prepare_update};
pub(crate) use using::UsingPlan;
