//! Several futures that one task waits for, whichever ends first; others may come meanwhile. For
//! tens: each wake polls all. What has not ended ends with the flock.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// See the module.
pub(crate) struct Flock<'f, T> {
    running: Vec<Pin<Box<dyn Future<Output = T> + 'f>>>,
}

impl<'f, T> Flock<'f, T> {
    pub(crate) fn new() -> Flock<'f, T> {
        Flock { running: Vec::new() }
    }

    pub(crate) fn push(&mut self, future: impl Future<Output = T> + 'f) {
        self.running.push(Box::pin(future));
        debug_assert!(self.running.len() < 1000, "each wake polls all: {}", self.running.len());
    }

    /// What the next one that ends gives; `None`: there is none.
    pub(crate) async fn next(&mut self) -> Option<T> {
        poll_fn(|cx| {
            for at in 0..self.running.len() {
                if let Poll::Ready(value) = self.running[at].as_mut().poll(cx) {
                    drop(self.running.remove(at));
                    return Poll::Ready(Some(value));
                }
            }
            if self.running.is_empty() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}
