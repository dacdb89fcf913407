//! Files: direct, aligned, accounted by class.
//!
//! In reading order: [`IoClass`] and [`stats`]; [`IoError`]; [`AlignedBuf`] and [`DmaBuf`];
//! [`File`]; [`fs`] for everything that names a path.

mod class;
mod file;
pub mod fs;

pub use crate::buffer::{ALIGNMENT, AlignedBuf, DmaBuf};
pub use crate::core::io_class::{IoClass, IoStats};
pub use crate::error::IoError;
pub use class::{set_shares, stats, take_peak_in_flight, total_stats};
pub use file::{File, OpenOptions};
