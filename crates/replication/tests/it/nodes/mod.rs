//! Several simulated nodes that keep copies of each other's tables.

mod basics;
mod faults;
mod hints;
mod joined;
mod world;
