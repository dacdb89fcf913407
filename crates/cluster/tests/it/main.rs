//! Simulated nodes and their catalog. One program, so that it is linked once; a test is named by
//! its module: `cargo test -p cluster --test it follow::`.

mod follow;
mod group;
mod membership;
mod recovery;
mod simulation;
