//! Sending the hints of a queue, when its node is there again.
//!
//! Invariants
//!  - *in-order*: hints are sent in the order of their segment, a bounded number at a time; behind
//!    the first that fails nothing is begun, and the next try begins with it.
//!  - *sent-or-stays*: a segment is removed only after each of its hints was acknowledged, is too
//!    old, was refused for good, or is damaged.
//!  - *follows-the-data*: what a node missed that has left, those get who have its data now.

use super::decide::Throttle;
use super::file::{self, Found, Reader};
use super::queue::Queue;
use super::{Bringer, Hints, Planted};
use crate::wire::{self, Refusal, RefusalKind, verb};
use cluster::features;
use messaging::{CallError, HostId, Messaging, NotSent, Payload, Target, ToShard};
use model::Uuid;
use runtime::task::Scope;
use runtime::time::{Instant, sleep, timeout};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Between two looks at whether a node is there.
const POLL: Duration = Duration::from_millis(500);
/// After a failure, doubled with each that follows.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(16);
/// How long one hint may take.
const SEND_TIME: Duration = Duration::from_secs(10);

/// How far a segment was sent.
enum Ended {
    Whole,
    /// The next try begins with the hint there.
    At(u64),
}

/// Sends what a queue has, for as long as the shard lives.
pub(super) async fn send(hints: Rc<Hints>, queue: Rc<Queue>) {
    let (mut from, mut pause) = (0, PAUSE_MIN);
    loop {
        if queue.is_empty() {
            queue.changed.notified().await;
            continue;
        }
        let first = queue.sealed.borrow().front().copied();
        if first.is_some_and(|first| queue.is_discarded(first.number)) {
            from = 0;
            forget(&hints, &queue).await;
            continue;
        }
        if !hints.may_send_to(queue.host) {
            sleep(POLL).await;
            continue;
        }
        let Some(segment) = first else {
            let _ = timeout(SEND_TIME, queue.end_segment()).await;
            continue;
        };
        match send_segment(&hints, &queue, segment.number, from).await {
            Ended::Whole => {
                (from, pause) = (0, PAUSE_MIN);
                forget(&hints, &queue).await;
            }
            Ended::At(at) => {
                debug_assert!(from <= at, "in-order: from {from} back to {at}");
                pause = if from < at { PAUSE_MIN } else { (2 * pause).min(PAUSE_MAX) };
                from = at;
                sleep(pause).await;
            }
        }
    }
}

/// The first segment is no longer needed.
async fn forget(hints: &Hints, queue: &Queue) {
    let Some(first) = queue.sealed.borrow().front().copied() else { return };
    if let Err(error) = file::remove(&queue.folder, first.number).await {
        // It is sent again after a start, which does no harm.
        tracing::warn!(target: "hints", "a segment that was sent stays: {error}");
    } else {
        hints.on_disk.set(hints.on_disk.get().saturating_sub(first.bytes));
    }
    let gone = queue.forget_first();
    debug_assert_eq!(gone, Some(first), "sent-or-stays: another segment");
}

/// What the tasks that send a segment share.
#[derive(Default)]
struct Sending {
    first_failed: Cell<Option<u64>>,
}

async fn send_segment(hints: &Rc<Hints>, queue: &Rc<Queue>, number: u64, from: u64) -> Ended {
    let (host, counters) = (queue.host, &hints.counters);
    let mut reader = match Reader::open(&queue.folder, host, number, from).await {
        Ok(Ok(reader)) => reader,
        Ok(Err(damaged)) => {
            // A crash left it before it had a hint, or the disk has lost it.
            counters.damaged.add(1);
            tracing::warn!(target: "hints", %host, number, "a damaged segment: {damaged}");
            return Ended::Whole;
        }
        Err(error) => {
            counters.errors.add(1);
            tracing::warn!(target: "hints", %host, number, "hints cannot be read: {error}");
            return if error.is_not_found() { Ended::Whole } else { Ended::At(from) };
        }
    };
    let (scope, sending, throttle) = (Scope::new(), Rc::new(Sending::default()), &queue.throttle);
    let mut skips = from == 0 && hints.is_planted(Planted::SkipsFirst);
    let mut reached = None;
    while sending.first_failed.get().is_none() {
        if !hints.may_send_to(host) || queue.is_discarded(number) {
            reached = Some(reader.at());
            break;
        }
        let (at, written_at, request) = match reader.next().await {
            Ok(None) => break,
            Ok(Some(Found::Hint { at, written_at, request })) => (at, written_at, request),
            Ok(Some(Found::Damaged(damaged))) => {
                counters.damaged.add(1);
                tracing::warn!(target: "hints", %host, number, "a damaged hint: {damaged}");
                continue;
            }
            Err(error) => {
                counters.errors.add(1);
                tracing::warn!(target: "hints", %host, number, "hints cannot be read: {error}");
                reached = Some(reader.at());
                break;
            }
        };
        if std::mem::take(&mut skips) {
            continue;
        }
        let Some(request) = hints.worth_sending(written_at, request) else {
            counters.discarded.add(1);
            continue;
        };
        let bytes = request.len();
        sleep(wait(throttle, bytes, hints.bytes_per_second())).await;
        let in_flight = hints.fly(bytes).await;
        let (hints, sending) = (hints.clone(), sending.clone());
        let one = async move {
            let _in_flight = in_flight;
            if !send_one(&hints, host, (written_at, request)).await {
                let first = sending.first_failed.get().map_or(at, |first| first.min(at));
                sending.first_failed.set(Some(first));
            }
        };
        drop(scope.spawn(one));
    }
    scope.join().await;
    let first = sending.first_failed.get();
    debug_assert!(first.is_none_or(|first| from <= first), "in-order: {first:?} before {from}");
    match sending.first_failed.get().or(reached) {
        Some(at) => Ended::At(at),
        None => Ended::Whole,
    }
}

fn wait(throttle: &RefCell<Throttle>, bytes: usize, rate: u64) -> Duration {
    throttle.borrow_mut().take(bytes, rate, Instant::now().as_nanos())
}

/// Sends a hint; whether it need not be sent again.
async fn send_one(hints: &Hints, host: Uuid, (written_at, request): (i64, Vec<u8>)) -> bool {
    debug_assert!(0 < hints.in_flight(), "in-order: a hint that is not counted");
    let counters = &hints.counters;
    let bytes = request.len() as u64;
    let has_left = hints.places.borrow().has_left(host);
    debug_assert!(!request.is_empty(), "sent-or-stays: a hint of nothing");
    let sent = match has_left {
        true => bring_to_others(written_at, &request).await,
        false => call(hints, host, (written_at, request)).await,
    };
    match sent {
        Ok(()) => {
            counters.sent.add(1);
            counters.sent_bytes.add(bytes);
            true
        }
        Err(refusal) if refusal.kind == RefusalKind::Refused => {
            counters.discarded.add(1);
            let text = refusal.text;
            tracing::warn!(target: "hints", %host, "a hint is refused for good: {text}");
            true
        }
        Err(_) => {
            counters.send_errors.add(1);
            false
        }
    }
}

/// A node has left, and others have what it had: they are to have the hint.
async fn bring_to_others(written_at: i64, request: &[u8]) -> Result<(), Refusal> {
    stdx::probe!("a hint for a node that has left goes to others");
    let failed = |why: String| Refusal::new(RefusalKind::Failed, why);
    let mutations = wire::decode_mutations(request).map_err(|error| failed(error.to_string()))?;
    debug_assert!(!mutations.is_empty(), "follows-the-data: a hint of nothing");
    let bringer = runtime::local::try_get::<Bringer>();
    let bringer = bringer.ok_or_else(|| failed("the node stops".to_owned()))?;
    let brought = (bringer.0)(written_at, mutations).await;
    brought.map_err(|error| failed(error.to_string()))
}

async fn call(
    hints: &Hints,
    host: Uuid,
    (written_at, request): (i64, Vec<u8>),
) -> Result<(), Refusal> {
    debug_assert!(!request.is_empty(), "sent-or-stays: a hint of nothing");
    let Some(messaging) = Messaging::current() else {
        return Err(Refusal::new(RefusalKind::Failed, "this node does not speak to others"));
    };
    let target = Target::bulk(HostId(host.as_u128()), ToShard::Same);
    let (verb, payload) = match hints.places.borrow().enables(features::HINT_TIMES) {
        true => (verb::HINT, wire::encode_hint(written_at, &request)),
        false => (verb::HINT_MUTATION, request),
    };
    match messaging.call(target, verb, Payload::from(payload), SEND_TIME).await {
        Ok(answer) if answer.is_empty() => Ok(()),
        Ok(_) => Err(Refusal::new(RefusalKind::Failed, "an acknowledgement with bytes")),
        Err(CallError::Failed(words)) => Err(Refusal::decode(&words)
            .unwrap_or_else(|damaged| Refusal::new(RefusalKind::Failed, damaged.to_string()))),
        Err(error) => {
            let is_too_large = matches!(error, CallError::NeverSent(NotSent::TooLarge { .. }));
            let kind = if is_too_large { RefusalKind::Refused } else { RefusalKind::Failed };
            Err(Refusal::new(kind, error.to_string()))
        }
    }
}
