//! Asking other nodes to keep a batch, and to forget it.
//!
//! Invariants
//!  - *one-is-enough*: a batch is remembered when one node has it on the disk. The other one is
//!    waited for a part of the time only, so that one that has just died does not hold up every
//!    batch until that is known; it goes on meanwhile.
//!  - *asked-is-told*: whoever was asked to keep a batch is told to forget it, whatever it has
//!    answered: it may have it.

use super::peers::call;
use super::{Coordinator, host, peers};
use crate::batchlog::Logged;
use crate::plan::holders::choose;
use crate::wire::batches::{encode_forget, store_head};
use crate::wire::{self, Refusal, verb};
use messaging::{Payload, Target, ToShard};
use model::Uuid;
use mutation::FrozenMutation;
use runtime::sync::Notify;
use runtime::time::{Instant, timeout};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use crate::wire::batches::FORGOTTEN_AT_ONCE_MAX;

/// How long a node may take to forget.
const FORGET_TIMEOUT: Duration = Duration::from_secs(2);
/// When one node has the batch, the other is waited for so much of the time.
const PATIENCE_PART: u32 = 4;

/// Who was asked to keep a batch.
#[derive(Debug)]
pub(crate) struct AskedToKeep {
    /// Who may have it.
    pub(crate) hosts: Vec<Uuid>,
    /// How many have it for sure.
    pub(crate) kept: u32,
    /// Whether all have answered, or were not reached: nobody else will.
    pub(crate) have_ended: bool,
}

#[derive(Default)]
struct Asking {
    kept: Cell<u32>,
    outstanding: Cell<u32>,
    changed: Notify,
}

impl Asking {
    async fn until(&self, condition: impl Fn(&Asking) -> bool) {
        while !condition(self) {
            self.changed.notified().await;
        }
    }
}

impl Coordinator {
    /// Has up to two other nodes keep a batch.
    pub(in crate::coordinator) async fn ask_to_keep(
        &self,
        logged: &Logged,
        mutations: &[FrozenMutation],
        time: Duration,
    ) -> AskedToKeep {
        let draw = |below| runtime::random_u64() % below;
        let hosts = choose(&self.places().neighbors(), draw);
        if hosts.is_empty() {
            return AskedToKeep { hosts, kept: 0, have_ended: true };
        }
        let until = Instant::now() + time;
        let bytes = Rc::new(wire::encode_mutations(mutations));
        let asking = Rc::new(Asking::default());
        asking.outstanding.set(hosts.len() as u32);
        for node in hosts.iter().copied() {
            let payload = Payload::with_shared(store_head(logged), bytes.clone());
            let asking = asking.clone();
            drop(self.background.spawn(async move {
                match ask(node, payload, time).await {
                    Ok(()) => asking.kept.set(asking.kept.get() + 1),
                    Err(refusal) => {
                        let text = refusal.text;
                        tracing::debug!(target: "batchlog", %node, "a batch is not kept: {text}");
                    }
                }
                assert!(0 < asking.outstanding.get(), "one-is-enough: more than were asked");
                asking.outstanding.set(asking.outstanding.get() - 1);
                asking.changed.notify_all();
            }));
        }
        let is_decided = |it: &Asking| 0 < it.kept.get() || it.outstanding.get() == 0;
        let decided = timeout(time, asking.until(is_decided)).await;
        if decided.is_ok() && 0 < asking.outstanding.get() {
            let patience = peers::left(until).min(time / PATIENCE_PART);
            let _ = timeout(patience, asking.until(|it| it.outstanding.get() == 0)).await;
        }
        let (kept, outstanding) = (asking.kept.get(), asking.outstanding.get());
        assert!(kept as usize <= hosts.len(), "one-is-enough: {kept} of {hosts:?}");
        AskedToKeep { hosts, kept, have_ended: outstanding == 0 }
    }
}

async fn ask(node: Uuid, payload: Payload, time: Duration) -> Result<(), Refusal> {
    let target = Target::statements(host(node), ToShard::Same);
    let bytes = call(target, verb::BATCH_STORE, payload, time).await?;
    match bytes.is_empty() {
        true => Ok(()),
        false => {
            let text = "an acknowledgement with bytes";
            Err(Refusal::new(wire::RefusalKind::Failed, text))
        }
    }
}

/// Has a node forget batches. One that is not reached replays them, and forgets them then.
pub(crate) async fn tell_to_forget(node: Uuid, batches: &[Logged]) {
    debug_assert!(!batches.is_empty(), "asked-is-told: of nothing");
    let target = Target::statements(host(node), ToShard::Same);
    let payload = Payload::from(encode_forget(batches));
    if let Err(refusal) = call(target, verb::BATCH_FORGET, payload, FORGET_TIMEOUT).await {
        let text = refusal.text;
        tracing::debug!(target: "batchlog", %node, "batches are not forgotten there: {text}");
    }
}
