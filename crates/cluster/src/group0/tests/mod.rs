//! The log against a naive one: as rows alone, and on a simulated machine that crashes.

mod group;
mod machine;
mod naive;
mod rows;
