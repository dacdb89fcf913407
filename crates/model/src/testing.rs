//! Generators of types, values and table schemas, for the tests of this crate and those above.
//!
//! Invariants
//!  - *valid-and-normal*: every generated value is valid for its type and has its sets and maps
//!    sorted, so that it equals itself after a round trip through any layer.
//!  - *few-names*: keyspace, table, column and user type names come from small sets, so that
//!    collisions and re-use happen.
