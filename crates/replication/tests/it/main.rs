//! Coordinators of simulated nodes.

mod moving;
mod nodes;
mod simulation;

/// What the program has, too: simulated nodes ask for much memory.
#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;
