//! Who may do what: roles and their graph, passwords, certificates, permissions on resources,
//! service levels.
//!
//! Pure: values in, values out. The registry in `cluster` keeps a [`State`] on every shard, writes
//! each [`Change`] down and shows it everywhere; `query` asks it.
//!
//! Invariants
//!  - *acyclic*: no role is, by whatever detour, a member of itself. [`State::grant_role`] refuses
//!    what would make it one, and [`State::rights`] ends even where rows were made otherwise.
//!  - *nothing-by-default*: who has no rights on a resource and on none above it may do nothing.
//!  - *no-clear-text*: a password is neither kept nor shown; a [`State`] has hashes only.
//!
//! In reading order: [`permission`], [`resource`], [`password`], [`certificate`],
//! [`level`], [`state`], [`decide`], [`audit`].

pub mod audit;
pub mod certificate;
pub mod decide;
pub mod level;
pub mod password;
pub mod permission;
pub mod resource;
pub mod state;

pub use decide::Refused;
pub use level::{EffectiveLevel, ServiceLevel, Workload};
pub use permission::{Permission, PermissionSet};
pub use resource::{Need, Resource};
pub use state::{Change, Rights, Role, State};
