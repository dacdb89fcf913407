//! Authorization of statements, and the statements about roles, grants and service levels.
//!
//! From the ground up: [`check`] (whether a session has the permissions that `plan::needs` tells),
//! [`login`], [`scene`] (what the execution of a statement sees and asks), [`list`] (LIST),
//! [`levels`] (service levels), [`execute`] (roles and grants).
//!
//! Invariants
//!  - *checked-before-done*: no part of a statement is executed before [`check`] has allowed it.
//!  - *refused-unless-known*: a statement that [`plan::needs`] does not know would not compile;
//!    there is no kind that needs nothing by default.

pub(crate) mod check;
pub(crate) mod execute;
mod levels;
mod list;
pub mod login;
mod scene;
