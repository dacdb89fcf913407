//! Who may execute a statement, and statements that say who may.
//!
//! In reading order: [`needs`] (what a statement needs), [`check`] (whether a session has it),
//! [`execute`] (roles and grants), [`resources`] (what a statement names), [`levels`] (service
//! levels), [`list`] (LIST), [`login`].
//!
//! Invariants
//!  - *checked-before-done*: nothing of a statement is executed before [`check`] has let it pass.
//!  - *refused-unless-known*: a statement that [`needs`] does not know would not compile; there is
//!    no kind that needs nothing by default.

pub(crate) mod check;
pub(crate) mod execute;
mod levels;
mod list;
pub mod login;
pub(crate) mod needs;
mod obscure;
mod resources;

pub(crate) use list::columns;
pub(crate) use obscure::obscured;
