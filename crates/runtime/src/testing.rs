//! For the tests of other crates: one future on one real shard.

use crate::config::Config;
use crate::core::with;
use crate::shards::run;
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[allow(clippy::disallowed_types)] // Hands the body to its shard, once.
type Mutex<T> = std::sync::Mutex<T>;

/// Runs `future` on one real shard (io_uring where allowed) and returns its output.
pub fn block_on_real<F, T>(future: F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    block_on_with(Config { idle_poll: Duration::ZERO, ..Config::new(1) }, move || future)
}

/// Runs the future that `body` makes on shard 0 of a node of `config` and returns its output.
pub fn block_on_with<B, F, T>(config: Config, body: B) -> T
where
    B: FnOnce() -> F + Send + 'static,
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let (send, receive) = mpsc::channel();
    let body = Arc::new(Mutex::new(Some(body)));
    let started = run(config, move |shard| {
        let body =
            if shard == 0 { body.lock().ok().and_then(|mut body| body.take()) } else { None };
        let send = send.clone();
        async move {
            if let Some(body) = body {
                let output = body().await;
                send.send(output).expect("the caller waits");
            }
        }
    });
    if let Err(error) = started {
        panic!("{error}");
    }
    receive.recv().expect("the body ended")
}

/// Operations of this shard that have not ended, abandoned ones included.
pub fn operations_in_flight() -> usize {
    with(|shard| shard.ops.borrow().len())
}
