//! Calls from shard to shard.

use crate::ShardId;
use std::future::Future;

/// Runs `f` on `shard` and waits for its result. On this shard it is a plain call; otherwise the
/// closure travels through the bounded queue of the two shards and runs there as a task of the
/// caller's group. Dropping the returned future abandons the result, not the work. Panics when
/// there is no such shard. Allocates nothing locally and three times otherwise.
pub async fn on_shard<F, Fut, R>(shard: ShardId, f: F) -> R
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let _ = (shard, f);
    todo!()
}

/// Runs a copy of `f` on every shard at once; the results are in the order of the shards.
pub async fn on_all_shards<F, Fut, R>(f: F) -> Vec<R>
where
    F: FnOnce() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let _ = f;
    todo!()
}
