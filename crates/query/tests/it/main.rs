//! Statements on simulated nodes: statement in, rows out. One program, so that what stands below is
//! linked once; a test is named by its module: `cargo test -p query --test it access::`.

mod access;
mod audit;
mod conditional_batches;
mod fragments;
mod indexes;
mod long;
mod schema;
mod statements;
mod user_functions;
mod views;
