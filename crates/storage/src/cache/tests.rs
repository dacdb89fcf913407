//! The cache against a naive model of what it was told; see `model`.

mod audit;
mod basic;
mod cost;
mod model;
mod runs;
mod world;
