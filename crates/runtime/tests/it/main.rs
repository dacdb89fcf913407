//! The reactor as programs see it, on each of its back ends. One program, so that it is linked
//! once; a test is named by its module: `cargo test -p runtime --test it sync::`. What counts the
//! descriptors of a process has one of its own.

mod conformance;
mod scheduling;
mod simulation;
mod sync;
