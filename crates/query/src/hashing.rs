//! Where passwords are hashed.
//!
//! Invariants
//!  - *off-the-shard*: a password is hashed on the helper thread for long computations, one at a
//!    time per shard; some wait, more are refused. So guessing passwords is slow, and does not
//!    affect other clients.

use crate::error::CqlError;
use runtime::sync::Semaphore;
use runtime::task::compute;

/// Passwords that wait to be hashed at most, per shard.
const WAITING_MAX: usize = 128;
/// The hashing of a shard.
pub(crate) struct Hashing {
    turn: Semaphore,
}

impl Hashing {
    pub(crate) fn new() -> Hashing {
        Hashing { turn: Semaphore::new(1, WAITING_MAX) }
    }

    /// Does `work` off the shard, when it has its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CqlError> {
        let turn = self.turn.acquire(1).await;
        let _turn = turn.map_err(|_| {
            CqlError::Overloaded("too many passwords are being checked, try again".to_owned())
        })?;
        Ok(compute(work).await)
    }
}
