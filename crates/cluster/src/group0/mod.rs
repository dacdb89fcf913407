//! Group 0 on this node: what the consensus of all nodes stands on here.
//!
//! From the ground up: `rows` (a log as rows of tables; pure), [`log`] (the durable log),
//! [`payload`] (what travels in commands; pure), [`machine`] (the catalog, as commands change it),
//! `change` (how commands are made).

mod change;
pub mod log;
pub mod machine;
pub mod payload;
mod rows;
#[cfg(test)]
mod tests;
