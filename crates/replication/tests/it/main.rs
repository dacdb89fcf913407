//! Coordinators of simulated nodes.

mod moving;
mod nodes;
mod simulation;
