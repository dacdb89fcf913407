//! Change data capture: its options, and what statements about tables mean for logs.
//!
//! A log is made with the statement that asks for it, and follows its base from then on; who wants
//! it no longer keeps it, detached, until it is dropped or wanted again.
//!
//! Invariants
//!  - *same-columns*: a log that is attached has the columns that its base asks for, through each
//!    change of the base (`model::schema::cdc`).
//!  - *as-asked*: a table whose option says so has a log that is attached, others have none.
//!  - *by-its-base*: nobody changes the columns of a log but by way of its base; its options are
//!    its own.
//!
//! From the ground up: [`options`] (of the property `cdc`), [`rules`] (what may be done with a
//! log), [`follow`] (what changes of tables mean).

mod follow;
mod options;
mod rules;
#[cfg(test)]
mod tests;

pub(super) use follow::follow;
pub(super) use options::{asked, is_switched_on};
pub(super) use rules::{check_altered, check_dropped};
