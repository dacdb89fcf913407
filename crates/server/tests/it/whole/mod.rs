//! Whole nodes in one thread from one seed: options, membership, the catalog's log, placement,
//! coordination, storage, and the CQL protocol, whose frames clients on a machine of their own send
//! over the simulated network.
//!
//! From the ground up: [`nodes`] (machines, and what happens to them), [`client`] (statements over
//! connections), the workloads with what they promise: [`registers`], [`rows`], [`counters`],
//! [`batches`], [`schema`]; [`schedule`] (faults from a seed, while all workloads run).

mod batches;
mod client;
mod counters;
mod nodes;
mod registers;
mod rows;
mod schedule;
mod schema;
