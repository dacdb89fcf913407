//! mutation.
