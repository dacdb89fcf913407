//! Functions of CQL: what their names stand for, and what they compute from the bytes of their
//! arguments. Built-in ones, and those of users in Lua and WebAssembly: no other crate knows these
//! engines, and none below knows terms or plans.
//!
//! Invariants
//!  - *valid-bytes*: of valid arguments a function gives a valid value of the type that its
//!    signature says, or null.
//!
//! The rooms, from the ground up: `error`; `uuids` (what `now()` and `uuid()` take from); [`udf`]
//! (functions and aggregates of users, and [`Calls`], by which those of a statement are
//! interrupted); what a value is computed by: `number`, `time`, `vector`, `mask`, `operator`,
//! `cast`, `math`, `aggregate`, `collection`; `scalar` (all functions of one row); `signature`
//! (an overload); `factory` (signatures that depend on the arguments); `registry` (names and
//! overloads).

mod aggregate;
mod cast;
mod collection;
mod error;
mod factory;
mod mask;
mod math;
mod number;
mod operator;
mod registry;
mod scalar;
mod signature;
mod time;
pub mod udf;
mod uuids;
mod vector;

pub use aggregate::{Accumulator, Aggregate};
pub use cast::Cast;
pub use error::{Error, Failure};
pub use factory::{Argument, Arguments, Factory};
pub use operator::{Operation, Operator};
pub use registry::{Found, find};
pub use scalar::{Context, Function};
pub use signature::{Body, Signature};
pub use udf::{Calls, Engine, Limits, Sandbox, push_lua};
pub use uuids::Uuids;

/// The keyspace of native functions.
pub const NATIVE_KEYSPACE: &str = "system";
