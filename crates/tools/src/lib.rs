//! Tools that need no running node: the machine, values, keys, and SSTables as files.
//!
//! From the ground up: [`host`] (what the machine is like), [`setup`] (whether it is fit for a
//! node), [`local_key`] (keys of encryption in files), [`sstable`] (dump, check, query, write and
//! rewrite SSTables), [`types`] (values alone).
//!
//! A tool is a function from the words after its name to an exit code, and a command line that
//! completions and manual pages are made of.
//!
//! Nothing here listens, and nothing connects. Of a node only `sstable query` and CQL that
//! `sstable write` reads make use: one of their own, in a temporary folder.

pub mod host;
pub mod local_key;
pub mod setup;
pub mod sstable;
pub mod types;
