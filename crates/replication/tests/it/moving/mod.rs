//! Nodes that come and go, as light as they can be: membership, the catalog's log, placement,
//! coordination, hints, storage and the moves of data, without statements and without clients'
//! connections. So a schedule takes a fraction of a second, and thousands of them are run.
//!
//! From the ground up: [`world`] (machines, and what happens to them), [`registers`] (what clients
//! do, and what they may see), [`held`] (what is in the storage of each node), [`schedule`] (who
//! comes, goes and fails, from a seed), [`mistakes`] (planted ones, each of which is found);
//! [`crowd`] (many nodes), [`views`] (of tables that move).

mod crowd;
mod held;
mod mistakes;
mod registers;
mod schedule;
mod views;
mod world;
