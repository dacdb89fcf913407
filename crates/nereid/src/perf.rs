//! Performance tools: sub-commands that run a node in process and count what it spends.

pub(crate) mod simple_query;
pub(crate) mod statistics;
