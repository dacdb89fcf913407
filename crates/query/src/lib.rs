//! CQL, from text to rows.
//!
//! A statement goes through these modules in order: [`syntax`] makes a tree of the text.

pub mod syntax;
