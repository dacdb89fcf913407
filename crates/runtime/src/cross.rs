//! Calls from shard to shard.
//!
//! Invariants
//!  - *sent-once*: a call is sent once, and has its answer from then on.

use crate::config::ShardId;
use crate::core::mesh::CallId;
use crate::core::{current_group, try_with, with};
use crate::erased::Erased;
use crate::group::Group;
use crate::task::join_all;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

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
    let (here, shards) = with(|current| (current.id, current.node.shards()));
    assert!(shard < shards, "one-owner: shard {shard} of {shards}");
    // Erased in both cases: the code of the work is made once.
    if shard == here {
        return Erased::new(f).await;
    }
    let call = Call::begin(shard).await;
    let answer = Answer::<R>::default();
    let (theirs, back) = (answer.clone(), call.back());
    call.send(Box::new(move || run_for(Erased::new(f), theirs, back)));
    call.answer(&answer).await
}

/// Runs a copy of `f` on every shard at once; the results are in the order of the shards.
pub async fn on_all_shards<F, Fut, R>(f: F) -> Vec<R>
where
    F: FnOnce() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    let shards = with(|current| current.node.shards());
    let results = join_all((0..shards).map(|shard| on_shard(shard, f.clone()))).await;
    debug_assert_eq!(results.len(), shards as usize, "sent-once: a result of each shard");
    results
}

#[allow(clippy::disallowed_types)] // Where a result crosses; two threads meet here once.
type Answer<R> = Arc<std::sync::Mutex<Option<R>>>;

/// Where the answer of a call belongs.
#[derive(Clone, Copy)]
struct Back {
    shard: ShardId,
    call: CallId,
    group: Group,
}

/// Runs, on the other shard, the work of a call as a task, and answers it.
fn run_for<R: Send + 'static>(work: Erased<'static, R>, answer: Answer<R>, back: Back) {
    let run = async move {
        let group = current_group();
        debug_assert_eq!(group, back.group, "inherited-group: a call in another than its caller");
        let output = work.await;
        *answer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(output);
        drop(answer);
        with(|shard| shard.send_reply(back.shard, back.call));
    };
    with(|shard| shard.clone()).root.start(back.group, Box::pin(run));
}

/// A call to another shard, until its answer was taken.
struct Call {
    to: ShardId,
    id: CallId,
    is_sent: Cell<bool>,
}

impl Call {
    /// A call that may be sent at once: it waits until there is room for it.
    async fn begin(to: ShardId) -> Call {
        let begun = poll_fn(|cx| {
            with(|shard| match shard.may_call(to, cx) {
                true => Poll::Ready(shard.calls.borrow_mut().begin(cx)),
                false => Poll::Pending,
            })
        });
        Call { to, id: begun.await, is_sent: Cell::new(false) }
    }

    fn back(&self) -> Back {
        Back { shard: with(|shard| shard.id), call: self.id, group: current_group() }
    }

    /// Sends what the other shard is to do, in the poll in which the call has begun.
    fn send(&self, work: Box<dyn FnOnce() + Send>) {
        assert!(!self.is_sent.replace(true), "sent-once: a call is sent again");
        with(|shard| shard.send_call(self.to, work));
    }

    /// Waits for the answer.
    async fn answer<R>(&self, answer: &Answer<R>) -> R {
        debug_assert!(self.is_sent.get(), "sent-once: a call that was not sent has no answer");
        poll_fn(|cx| {
            let output = answer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            match output {
                Some(output) => Poll::Ready(output),
                None => {
                    with(|shard| shard.calls.borrow_mut().refresh(self.id, cx));
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        try_with(|shard| shard.calls.borrow_mut().end(self.id));
    }
}
