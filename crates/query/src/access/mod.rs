//! Authorization of statements, and the statements about roles, grants and service levels.
//!
//! In reading order: [`needs`] (the permissions that a statement needs), [`check`] (whether a
//! session has them), [`execute`] (roles and grants), [`resources`] (what a statement names),
//! [`levels`] (service levels), [`list`] (LIST), [`login`].
//!
//! Invariants
//!  - *checked-before-done*: no part of a statement is executed before [`check`] has allowed it.
//!  - *refused-unless-known*: a statement that [`needs`] does not know would not compile; there
//!    is no kind that needs nothing by default.

pub(crate) mod check;
pub(crate) mod execute;
mod levels;
mod list;
pub mod login;
pub(crate) mod needs;
mod obscure;
mod resources;
mod scene;

pub(crate) use list::columns;
pub(crate) use obscure::obscured;
