//! Coordinators of simulated nodes.

mod nodes;
mod simulation;
