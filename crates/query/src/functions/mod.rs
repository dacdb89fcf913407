//! Functions: their signatures, and what they compute.
//!
//! In reading order: [`registry`] (names and overloads), [`user`] (user-defined functions),
//! [`factory`] (signatures that depend on the arguments), [`scalar`] (scalar functions;
//! [`number`], [`operator`], [`math`], [`collection`], [`vector`], [`mask`], [`cast`] for it),
//! [`aggregate`].

mod aggregate;
mod cast;
mod collection;
mod factory;
mod mask;
mod math;
mod number;
mod operator;
mod registry;
mod scalar;
mod user;
mod vector;

pub(crate) use aggregate::{Accumulator, Aggregate};
pub(crate) use cast::Cast;
pub(crate) use factory::{Argument, Arguments};
pub(crate) use operator::{Operation, Operator};
pub(crate) use registry::{Body, Found, NATIVE_KEYSPACE, Signature, find};
pub(crate) use scalar::Function;
pub(crate) use user::{UserAggregate, UserFunction};
