//! What waits until it is due, in the order in which it came.
//!
//! Invariants
//!  - *not-before-it-is-due*: nothing is given before its time.
//!  - *in-order*: what came later is not due before.

use runtime::sync::Receiver;
use runtime::time::{Instant, sleep_until};

/// When something is due.
pub(super) trait Due {
    fn due(&self) -> Instant;
}

/// The first of a queue as soon as it is due, and as many behind it as are due by then, `most` at
/// most. `next`: what was taken out before it was due. `None`: the queue has ended.
pub(super) async fn take_due<T: Due>(
    queue: &mut Receiver<T>,
    next: &mut Option<T>,
    most: usize,
) -> Option<Vec<T>> {
    assert!(0 < most, "in-order: nothing is ever taken");
    let first = match next.take() {
        Some(first) => first,
        None => queue.recv().await?,
    };
    sleep_until(first.due()).await;
    let now = Instant::now();
    assert!(first.due() <= now, "not-before-it-is-due: {:?} at {now:?}", first.due());
    let mut due = vec![first];
    while due.len() < most && next.is_none() {
        match queue.try_recv() {
            Some(one) if one.due() <= now => due.push(one),
            Some(later) => *next = Some(later),
            None => break,
        }
    }
    assert!(due.len() <= most, "not-before-it-is-due: {} at once", due.len());
    let in_order = next.as_ref().is_none_or(|next| due[0].due() <= next.due());
    assert!(in_order, "in-order: one that came later was due before");
    Some(due)
}
