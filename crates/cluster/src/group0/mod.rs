//! Group 0 on this node: what the consensus of all nodes stands on here.
//!
//! From the ground up: `rows` (a log as rows of tables; pure), [`log`] (the durable log).

pub mod log;
mod rows;
#[cfg(test)]
mod tests;
