//! Row-level repair: the replicas of a range compare what they have, row by row, and take over from
//! each other what they lack. Pure; `repair` is its edge.
//!
//! One replica asks, the others answer. Each reads its part of the range in token order, once, up
//! to a buffer, and tells how far it came and the sum of the hashes. Where all agree nothing else
//! travels. Otherwise they compare up to where the first of them came: those whose sum differs tell
//! the hashes of their units, what nobody has told yet is fetched from them one after the other,
//! and each is sent what it lacks.
//!
//! In reading order: [`unit`] (what is compared), [`buffer`] (what was read ahead), [`decide`].

pub mod buffer;
pub mod decide;
pub mod unit;

#[cfg(test)]
mod tests;
