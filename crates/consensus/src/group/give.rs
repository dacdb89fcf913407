//! Snapshots for followers: read piece by piece as they ask.
//!
//! Invariants
//!  - *as-labelled*: a snapshot is of the machine exactly at the entry that its label names.
//!  - *one-each*: a follower has one snapshot open at most; one that it does not read is closed.

use super::shared::Shared;
use super::snapshots::Session;
use crate::entry::Cut;
use crate::members::NodeId;
use crate::message::{Message, Piece};
use crate::traits::{Class, Failed, Pieces};
use runtime::time::{Instant, sleep};
use std::rc::Rc;
use tracing::warn;

/// The most snapshots that are open at once.
const OPEN_MAX: usize = 4;

/// Gives up on followers that do not read.
pub(super) fn tick(shared: &Shared) {
    let idle = shared.options.snapshot_idle;
    let waiting = shared.engine.borrow().waiting_for_snapshot();
    let mut giving = shared.giving.borrow_mut();
    for node in waiting {
        let heard = *giving.heard.entry(node).or_insert_with(Instant::now);
        if idle < heard.elapsed() {
            giving.heard.remove(&node);
            shared.drive(|engine| engine.give_up_snapshot(node));
        }
    }
    let late: Vec<_> = giving.heard.iter().filter(|(_, at)| 2 * idle < at.elapsed()).collect();
    let late: Vec<NodeId> = late.into_iter().map(|(node, _)| *node).collect();
    for node in late {
        giving.heard.remove(&node);
        giving.open.remove(&node);
    }
}

/// A follower asks for a piece.
pub(super) fn asked(shared: &Rc<Shared>, from: NodeId, id: u64, number: u32) {
    let known = shared.engine.borrow().members().has(from);
    let Some(scope) = shared.scope.upgrade().filter(|_| known && !shared.is_stopped()) else {
        return;
    };
    let mut giving = shared.giving.borrow_mut();
    giving.heard.insert(from, Instant::now());
    match giving.open.get_mut(&from).filter(|session| session.id == id) {
        Some(session) => match &session.last {
            Some(piece) if piece.number == number => {
                let piece = Message::Piece(piece.clone());
                shared.send(from, Class::Bulk, &piece);
            }
            Some(piece) if piece.number.checked_add(1) == Some(number) => {
                let Some(pieces) = session.pieces.take() else { return };
                let (shared, cut) = (shared.clone(), session.cut.clone());
                scope.spawn(read_on(shared, from, (id, number), cut, pieces));
            }
            _ => shared.send(from, Class::Control, &Message::Gone { id }),
        },
        None if number == 0 => {
            giving.open.remove(&from);
            if giving.open.len() < OPEN_MAX {
                scope.spawn(open(shared.clone(), from, id));
            }
        }
        None => shared.send(from, Class::Control, &Message::Gone { id }),
    }
}

async fn open(shared: Rc<Shared>, from: NodeId, id: u64) {
    match open_at(&shared).await {
        Ok(None) => {}
        Ok(Some((cut, pieces))) => {
            let session = Session { id, cut: cut.clone(), last: None, pieces: None };
            shared.giving.borrow_mut().open.insert(from, session);
            shared.counters.add(|c| &c.snapshots_given);
            read_on(shared, from, (id, 0), cut, pieces).await;
        }
        Err(why) => warn!("node {} cannot give a snapshot: {why}", shared.me),
    }
}

/// *as-labelled*: while we have the machine nothing is applied, so members and place are those of
/// what is read.
async fn open_at(shared: &Shared) -> Result<Option<(Cut, Box<dyn Pieces>)>, Failed> {
    let Ok(_permit) = shared.machine_lock.acquire(1).await else { return Ok(None) };
    let applied = shared.applied.get();
    let began = Instant::now();
    while shared.engine.borrow().applied() < applied {
        // The loop may wait for the machine, to take a snapshot itself.
        if shared.is_stopped() || shared.options.retry < began.elapsed() {
            return Ok(None);
        }
        sleep(shared.options.tick / 10).await;
    }
    let cut = shared.engine.borrow().snapshot_of();
    if cut.index == 0 {
        return Ok(None);
    }
    let pieces = shared.machine.snapshot().await?;
    Ok(Some((cut, pieces)))
}

async fn read_on(
    shared: Rc<Shared>,
    from: NodeId,
    (id, number): (u64, u32),
    cut: Cut,
    mut pieces: Box<dyn Pieces>,
) {
    let bytes = match pieces.next().await {
        Ok(bytes) => bytes,
        Err(why) => {
            warn!("node {} cannot read a snapshot: {why}", shared.me);
            shared.giving.borrow_mut().open.remove(&from);
            return shared.send(from, Class::Control, &Message::Gone { id });
        }
    };
    let piece = Piece { id, number, cut, bytes };
    let mut giving = shared.giving.borrow_mut();
    let Some(session) = giving.open.get_mut(&from).filter(|session| session.id == id) else {
        return;
    };
    debug_assert!(session.cut == piece.cut, "as-labelled: two labels of one snapshot");
    session.last = Some(piece.clone());
    session.pieces = Some(pieces);
    shared.send(from, Class::Bulk, &Message::Piece(piece));
}
