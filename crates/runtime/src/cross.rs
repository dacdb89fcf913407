//! Calls from shard to shard.
//!
//! Invariants
//!  - *sent-once*: a call is sent once, and has its answer from then on.

use crate::config::ShardId;
use crate::core::mesh::CallId;
use crate::core::{current_group, try_with, with};
use crate::task::join_all;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

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
    if shard == here {
        return f().await;
    }
    Remote { to: shard, call: None, work: Some(f), answer: None, output: PhantomData }.await
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

/// A call to another shard.
struct Remote<F, Fut, R> {
    to: ShardId,
    call: Option<CallId>,
    work: Option<F>,
    answer: Option<Answer<R>>,
    output: PhantomData<fn() -> Fut>,
}

impl<F, Fut, R> Unpin for Remote<F, Fut, R> {}

impl<F, Fut, R> Remote<F, Fut, R>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    /// Sends the call, or leaves it for when there is room.
    fn send(&mut self, work: F, cx: &mut Context<'_>) {
        debug_assert!(self.call.is_none(), "sent-once: a call is sent again");
        let answer = Answer::<R>::default();
        let theirs = answer.clone();
        let group = current_group();
        with(|shard| {
            let (to, from) = (self.to, shard.id);
            let call = shard.calls.borrow_mut().begin(cx);
            let message = Box::new(move || {
                let run = async move {
                    let output = work().await;
                    *theirs.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(output);
                    drop(theirs);
                    with(|shard| shard.send_reply(from, call));
                };
                with(|shard| shard.clone()).root.start(group, Box::pin(run));
            });
            shard.send_call(to, message);
            (self.call, self.answer) = (Some(call), Some(answer));
        });
    }
}

impl<F, Fut, R> Future for Remote<F, Fut, R>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = R> + 'static,
    R: Send + 'static,
{
    type Output = R;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let this = &mut *self;
        if this.work.is_some() && !with(|shard| shard.may_call(this.to, cx)) {
            return Poll::Pending;
        }
        if let Some(work) = this.work.take() {
            this.send(work, cx);
            return Poll::Pending;
        }
        debug_assert!(this.call.is_some(), "sent-once: a call is polled after its end");
        let answer = this.answer.as_ref().expect("a sent call has an answer");
        let output = answer.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let Some(call) = this.call else { unreachable!("a sent call has an id") };
        with(|shard| {
            let mut calls = shard.calls.borrow_mut();
            match output {
                Some(output) => {
                    calls.end(call);
                    this.call = None;
                    Poll::Ready(output)
                }
                None => {
                    calls.refresh(call, cx);
                    Poll::Pending
                }
            }
        })
    }
}

impl<F, Fut, R> Drop for Remote<F, Fut, R> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            try_with(|shard| shard.calls.borrow_mut().end(call));
        }
    }
}
