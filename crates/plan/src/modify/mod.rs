//! `INSERT`, `UPDATE`, `DELETE` and batches of them: from the tree to a plan that only needs
//! values.
//!
//! From the ground up: [`sum`] (additions), [`operation`] (what happens to a column), [`using`]
//! (timestamp and TTL), [`condition`] (`IF`), [`plan`] (the analysis), [`batch`].

mod batch;
mod condition;
mod operation;
mod plan;
mod sum;
mod using;

pub use batch::{BatchPlan, check, metadata_of_batch, prepare as prepare_batch, shown_of_batch};
pub use condition::{ConditionPlan, applied_with};
pub use operation::{Action, Operation};
pub use plan::{ModifyPlan, Verb, Whole, prepare_delete, prepare_insert, prepare_update};
pub use sum::{Sign, sum};
pub use using::{UsingPlan, check_timestamp};
