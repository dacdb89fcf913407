//! Environments for tests that need more than one crate: a node in process.
//!
//! Used from `tests/` folders only. In reading order: [`cql`].

pub mod cql;

pub use cql::CqlEnv;
