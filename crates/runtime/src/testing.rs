//! For the tests of other crates: one future on one real shard.

use std::future::Future;

/// Runs `future` on one real shard (io_uring where allowed) and returns its output.
pub fn block_on_real<F, T>(future: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let _ = future;
    todo!()
}
