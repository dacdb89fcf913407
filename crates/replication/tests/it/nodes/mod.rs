//! Several simulated nodes that keep copies of each other's tables.

mod automatic;
mod basics;
mod batchlog;
mod built;
mod expiry;
mod faults;
mod hints;
mod joined;
mod limits;
mod logs;
mod lwt;
mod lwt_faults;
mod moved;
mod points;
mod relays;
mod repair;
mod repaired;
mod suffering;
mod together;
mod transactions;
mod transactions_alone;
mod views;
mod world;
