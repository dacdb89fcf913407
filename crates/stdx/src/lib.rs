//! What std lacks and every layer needs. Knows no database.
//!
//! In reading order: [`Bytes`] (a shard-local shared slice), [`Cursor`] and [`Put`] (the one
//! checked door through which bytes enter, and its way out), [`vint`], [`checksum`],
//! [`collections`] (maps whose order replays), [`top`] (what is frequent), [`histogram`] (how long
//! things took, and how often they happen), [`sizes`] (how large they were), [`prng`] and [`check`]
//! (`bug!`, `probe!`, `buggify!`).

mod bytes;
pub mod check;
pub mod checksum;
mod collections;
mod cursor;
pub mod histogram;
pub mod injection;
pub mod prng;
pub mod sizes;
pub mod top;
pub mod vint;

pub use bytes::Bytes;
pub use collections::{HashMap, HashSet, hash_one};
pub use cursor::{Cursor, Damaged, Put};
pub use prng::Prng;
