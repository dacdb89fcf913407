//! native.
