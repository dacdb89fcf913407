//! A snapshot from the leader: pulled piece by piece, aside, and taken over whole.
//!
//! Invariants
//!  - *whole-snapshots*: the machine has all of a snapshot or nothing of it, after a crash too.
//!  - *one-pull*: one snapshot is pulled at a time.

use super::shared::{Input, Pulled, Shared};
use super::snapshots::Pulling;
use crate::members::NodeId;
use crate::message::{Message, Piece};
use crate::traits::{Change, Class, Failed, Restore};
use runtime::sync::oneshot;
use runtime::time::{Instant, timeout};
use std::rc::Rc;
use tracing::{info, warn};

/// The logger of what the group's machine does.
const GROUP: &str = "group0_raft_sm";

/// The leader of a term says that this node needs a snapshot.
pub(super) fn offered(shared: &Rc<Shared>, from: NodeId, term: u64) {
    let this = shared.clone();
    let Some(scope) = shared.scope.upgrade() else { return };
    if std::mem::replace(&mut shared.pulling.borrow_mut().is_active, true) {
        return;
    }
    scope.spawn(async move {
        let _end = End { shared: &this };
        match pull(&this, from).await {
            Ok(Some(pulled)) => this.input(Input::Pulled(from, term, pulled)),
            Ok(None) => info!("node {} got no snapshot from {from}", this.me),
            Err(why) => warn!("node {} cannot take a snapshot: {why}", this.me),
        }
    });
}

/// *one-pull*, however it ends.
struct End<'a> {
    shared: &'a Shared,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.shared.pulling.borrow_mut() = Pulling::default();
    }
}

/// The log names both ends of it, as that of the group of all nodes, in the words by which people
/// look for it: from then on the node has what the leader had.
async fn pull(shared: &Shared, from: NodeId) -> Result<Option<Pulled>, Failed> {
    let mut restore: Box<dyn Restore> = shared.machine.restore().await?;
    let id = runtime::random_u64();
    info!(target: GROUP, "transfer snapshot from {from}, id {id:016x}");
    let mut cut = None;
    for number in 0.. {
        let Some(piece) = ask(shared, from, id, number).await else { return Ok(None) };
        if *cut.get_or_insert_with(|| piece.cut.clone()) != piece.cut {
            return Ok(None);
        }
        match piece.bytes {
            Some(bytes) => restore.piece(bytes).await?,
            None => break,
        }
    }
    Ok(cut.map(|cut| Pulled { cut, restore, from, id }))
}

/// A piece; asked for again while it does not come.
async fn ask(shared: &Shared, from: NodeId, id: u64, number: u32) -> Option<Piece> {
    let began = Instant::now();
    while began.elapsed() < shared.options.snapshot_idle {
        let (tell, told) = oneshot();
        debug_assert!(shared.pulling.borrow().is_active, "one-pull: none is under way");
        shared.pulling.borrow_mut().waits = Some((from, id, number, tell));
        shared.send(from, Class::Control, &Message::Pull { id, number });
        if let Ok(Ok(piece)) = timeout(shared.options.retry, told).await {
            return piece;
        }
    }
    None
}

/// A piece came.
pub(super) fn came(shared: &Shared, from: NodeId, piece: Option<Piece>) {
    let Some(piece) = piece else { return };
    let mut pulling = shared.pulling.borrow_mut();
    let wanted = (from, piece.id, piece.number);
    let waits = pulling.waits.take_if(|(of, id, number, _)| (*of, *id, *number) == wanted);
    if let Some((_, _, _, tell)) = waits {
        let _ = tell.send(Some(piece));
    }
}

/// There is no such snapshot any more.
pub(super) fn gone(shared: &Shared, from: NodeId, gone: u64) {
    let mut pulling = shared.pulling.borrow_mut();
    let waits = pulling.waits.take_if(|(of, id, _, _)| (*of, *id) == (from, gone));
    if let Some((_, _, _, tell)) = waits {
        let _ = tell.send(None);
    }
}

/// The machine takes the snapshot over. The log is told before, so that a crash in between is seen
/// at the next start; and afterwards, by the step that this belongs to.
pub(super) async fn install(shared: &Shared, pulled: Pulled) -> Result<(), Failed> {
    let Ok(_permit) = shared.machine_lock.acquire(1).await else {
        return Err(Failed("the machine is closed".into()));
    };
    let (index, from, id) = (pulled.cut.index, pulled.from, pulled.id);
    assert!(shared.applied.get() <= index, "whole-snapshots: {index} is behind the machine");
    // What waits is covered.
    shared.queue.borrow_mut().clear();
    shared.log.write(&Change { staged: Some(pulled.cut), ..Change::default() }).await?;
    pulled.restore.finish(index).await?;
    assert!(index <= shared.machine.durable(), "whole-snapshots: {index} is not durable");
    shared.applied.set(index);
    shared.counters.add(|c| &c.snapshots_taken);
    info!(target: GROUP, "transfer snapshot from {from}, index {index}, id {id:016x} completed");
    // Reads may wait for an entry that the snapshot covers.
    shared.end_reads();
    Ok(())
}
