//! The applier: committed entries to the machine, in order, and their proposers told.
//!
//! Invariants
//!  - *applied-once*: no entry is given to a machine whose durable state has it.
//!  - *own-outcome*: told when the machine has it, and durably if it says so.

use super::shared::{Input, Shared};
use crate::entry::{Entry, Kind};
use crate::traits::{Command, Failed};
use std::rc::Rc;
use tracing::error;

/// The most entries that are applied in one go.
const BATCH_ENTRIES: usize = 256;

/// Runs until the scope ends or the machine fails.
pub(super) async fn run(shared: Rc<Shared>) {
    while !shared.is_stopped() {
        if shared.queue.borrow().is_empty() {
            shared.queued.notified().await;
            continue;
        }
        if let Err(why) = apply_some(&shared).await {
            error!("node {} of the group stops: {why}", shared.me);
            shared.stopped(why);
        }
    }
}

async fn apply_some(shared: &Shared) -> Result<(), Failed> {
    let Ok(_permit) = shared.machine_lock.acquire(1).await else {
        return Err(Failed("the machine is closed".into()));
    };
    let batch: Vec<Entry> = {
        let mut queue = shared.queue.borrow_mut();
        let count = queue.len().min(BATCH_ENTRIES);
        queue.drain(..count).collect()
    };
    let Some(last) = batch.last().map(|entry| entry.index) else { return Ok(()) };
    debug_assert!(batch.is_sorted_by(|a, b| a.index < b.index), "applied-in-order");
    let has = shared.applied.get();
    if has < last {
        let new = batch.iter().filter(|entry| has < entry.index).filter_map(command_of);
        let commands: Vec<Command> = new.collect();
        shared.machine.apply(&commands, last).await?;
        let durable = shared.machine.durable();
        assert!(durable <= last, "own-place: {durable} is durable of {last}");
        let counted = shared.counters.applied.get() + commands.len() as u64;
        shared.counters.applied.set(counted);
        shared.applied.set(last);
    }
    shared.input(Input::Applied(last));
    tell(shared, &batch);
    shared.end_reads();
    Ok(())
}

/// What an entry is for the machine: nothing where a leader began its term or members changed.
fn command_of(entry: &Entry) -> Option<Command> {
    let is_command = entry.kind == Kind::Command && !entry.origin.is_empty();
    is_command.then(|| Command { index: entry.index, bytes: entry.data.clone() })
}

fn tell(shared: &Shared, batch: &[Entry]) {
    for entry in batch {
        let Some(token) = shared.token_of(&entry.origin) else { continue };
        let pending = shared.proposals.borrow_mut().remove(&token);
        if let Some(pending) = pending {
            assert!(pending.sent.is_some(), "own-outcome: {token} was never proposed");
            let _ = pending.done.send(entry.index);
        }
    }
}
