//! What has to be done, since it was decided, and may fail for a while: a disk is full, or its
//! controller restarts.
//!
//! Invariants
//!  - *decided-is-done*: it is tried until it works or cannot ever, however long that takes; a node
//!    that stopped trying would show an old catalog until somebody restarts it.

use runtime::time::{Instant, sleep};
use std::time::Duration;
use storage::WriteError;

/// How long it waits before it is tried again: nothing tells when a disk works again.
const RETRY: Duration = Duration::from_millis(250);
/// How often the log says so.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) why: String,
    /// Whether the next one may succeed.
    pub(crate) may_pass: bool,
}

impl Attempt {
    /// The next one may succeed.
    pub(crate) fn passing(why: impl ToString) -> Attempt {
        Attempt { why: why.to_string(), may_pass: true }
    }
}

impl From<WriteError> for Attempt {
    fn from(error: WriteError) -> Attempt {
        let may_pass = match &error {
            WriteError::Overloaded(_)
            | WriteError::FullDisk(_)
            | WriteError::NoRoom { .. }
            | WriteError::Moved
            | WriteError::Log(_) => true,
            WriteError::UnknownTable(_)
            | WriteError::Damaged(_)
            | WriteError::TooLarge { .. }
            | WriteError::OverLimit(_)
            | WriteError::Stopped => false,
        };
        Attempt { why: error.to_string(), may_pass }
    }
}

/// Attempts something until it succeeds, as long as `goes_on`. `what` is for the log: "writing
/// system.raft". The error is that of the last attempt.
pub(crate) async fn at_last<T>(
    what: &str,
    goes_on: impl Fn() -> bool,
    mut attempt: impl AsyncFnMut() -> Result<T, Attempt>,
) -> Result<T, String> {
    let mut told: Option<Instant> = None;
    loop {
        let Attempt { why, may_pass } = match attempt().await {
            Ok(done) => {
                if told.is_some() {
                    tracing::info!(target: "raft", "{what} works again");
                }
                return Ok(done);
            }
            Err(attempt) => attempt,
        };
        if !may_pass || !goes_on() {
            return Err(why);
        }
        let now = Instant::now();
        if told.is_none_or(|at| at + TOLD_EVERY <= now) {
            tracing::error!(target: "raft", "{what} is tried again until it works: {why}");
            told = Some(now);
        }
        sleep(RETRY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn run(fails: u32, ends_after: Option<u32>, may_pass: bool) -> (Result<u32, String>, u32) {
        runtime::sim::test(1, move || async move {
            let count = Cell::new(0);
            let attempt = async || {
                count.set(count.get() + 1);
                let why = format!("attempt {}", count.get());
                if fails < count.get() { Ok(count.get()) } else { Err(Attempt { why, may_pass }) }
            };
            let goes_on = || ends_after.is_none_or(|end| count.get() < end);
            (at_last("a test", goes_on, attempt).await, count.get())
        })
    }

    #[test]
    fn what_fails_is_tried_until_it_works_or_cannot() {
        assert_eq!(run(0, None, true), (Ok(1), 1));
        assert_eq!(run(500, None, true), (Ok(501), 501));
        assert_eq!(run(500, None, false), (Err("attempt 1".to_owned()), 1));
        assert_eq!(run(500, Some(7), true), (Err("attempt 7".to_owned()), 7));
    }
}
