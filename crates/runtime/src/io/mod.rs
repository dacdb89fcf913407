//! Files: direct, aligned, accounted by class.
//!
//! In reading order: [`IoClass`] and [`stats`]; [`IoError`]; [`AlignedBuf`] and [`DmaBuf`];
//! [`File`]; [`fs`] for everything that names a path.

mod buffer;
mod class;
mod error;
mod file;
pub mod fs;
pub(crate) mod fs_op;

pub use buffer::{ALIGNMENT, AlignedBuf, DmaBuf};
pub use class::{IoClass, IoStats, set_shares, stats, take_peak_in_flight, total_stats};
pub use error::IoError;
pub use file::{File, OpenOptions};
