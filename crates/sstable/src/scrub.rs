//! What is wrong with an SSTable, and rewriting it without that: validate, scrub; and rewriting
//! what is right into other files: split, filter, upgrade.
//!
//! In reading order: [`scan`] (fragments as they stand in Data.db, whatever their order),
//! [`check`] (which rule a fragment breaks), [`validate`], [`rewrite`].
//!
//! Invariants
//!  - *originals-stay*: nothing here touches the files that it reads.
//!  - *sound-output*: what is written keeps every rule, whatever was read.
//!  - *bounded-memory*: a fragment, and per output what [`crate::Writer`] takes.

use reader::{LocalFuture, ReadError};

pub mod check;
pub mod rewrite;
mod rows;
pub mod scan;
pub mod validate;

pub use rewrite::{Distribution, Mode, Outcome, Target, decompress, distribute, scrub};
pub use scan::{Raw, RawScan};
pub use validate::{Positions, validate};

/// Bytes of data between two calls of [`Follow::go_on`].
const STEP_BYTES: u64 = 128 << 10;

/// Who follows a scrub or a validation. A closure that takes errors is one that never waits.
pub trait Follow {
    /// This is wrong in the SSTable.
    fn tell(&mut self, error: &ReadError);

    /// Some 128 KiB more were read, of the data up to `bytes_read`: completes when the next may be.
    /// An error ends it as one of the disk would.
    fn go_on(&mut self, _bytes_read: u64) -> LocalFuture<'_, Result<(), ReadError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

impl<F: FnMut(&ReadError)> Follow for F {
    fn tell(&mut self, error: &ReadError) {
        self(error);
    }
}

/// When to ask whether to go on.
#[derive(Default)]
struct Steps {
    asked_at: u64,
}

impl Steps {
    /// Called with the place in the data, after each fragment.
    async fn pass(&mut self, at: u64, follower: &mut dyn Follow) -> Result<(), ReadError> {
        if at < self.asked_at + STEP_BYTES {
            return Ok(());
        }
        debug_assert!(self.asked_at < at, "asked at {} and again at {at}", self.asked_at);
        self.asked_at = at;
        follower.go_on(at).await
    }
}
