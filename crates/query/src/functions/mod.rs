//! The functions that come with the database: their signatures, and what they compute.
//!
//! In reading order: [`registry`] (names and overloads), [`scalar`] (what they compute), [`cast`],
//! [`aggregate`].

mod aggregate;
mod cast;
mod registry;
mod scalar;

pub(crate) use aggregate::{Accumulator, Aggregate};
pub(crate) use cast::Cast;
pub(crate) use registry::{Found, Signature, find};
pub(crate) use scalar::Function;
