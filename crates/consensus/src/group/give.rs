//! Snapshots for followers: read piece by piece as they ask.
//!
//! Invariants
//!  - *as-labelled*: a snapshot is of the machine exactly at the entry that its label names.
//!  - *one-each*: a follower has one snapshot open at most; one that it does not read is closed.
//!  - *next-at-once*: a follower waits for others' snapshots no longer than these are read.

use super::shared::Shared;
use super::snapshots::Session;
use crate::entry::Cut;
use crate::members::NodeId;
use crate::message::{Message, Piece};
use crate::traits::{Class, Failed, Pieces};
use runtime::time::{Instant, sleep};
use std::rc::Rc;
use tracing::warn;

/// The most snapshots that are read at once.
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
        giving.waiting.remove(&node);
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
            // One that is about to be opened for it is what it asks for again, or else goes.
            if giving.opening.get(&from) != Some(&id) {
                giving.waiting.insert(from, id);
            }
            drop(giving);
            open_next(shared);
        }
        None => shared.send(from, Class::Control, &Message::Gone { id }),
    }
}

/// Opens snapshots for those that wait, as many as may be (*next-at-once*).
fn open_next(shared: &Rc<Shared>) {
    let Some(scope) = shared.scope.upgrade().filter(|_| !shared.is_stopped()) else { return };
    let mut giving = shared.giving.borrow_mut();
    while giving.busy() < OPEN_MAX {
        let next = giving.waiting.keys().find(|node| !giving.opening.contains_key(*node)).copied();
        let Some(node) = next else { return };
        let id = giving.waiting.remove(&node).expect("it waits");
        debug_assert!(!giving.open.contains_key(&node), "one-each: a second one for {node}");
        giving.opening.insert(node, id);
        scope.spawn(open(shared.clone(), node, id));
    }
}

async fn open(shared: Rc<Shared>, from: NodeId, id: u64) {
    let opened = open_at(&shared).await;
    shared.giving.borrow_mut().opening.remove(&from);
    // Who asks for another one meanwhile has no use for it.
    let is_wanted = !shared.giving.borrow().waiting.contains_key(&from);
    match opened {
        Ok(Some((cut, pieces))) if is_wanted => {
            let session = Session { id, cut: cut.clone(), last: None, pieces: None };
            shared.giving.borrow_mut().open.insert(from, session);
            shared.counters.add(|c| &c.snapshots_given);
            read_on(shared, from, (id, 0), cut, pieces).await;
        }
        Ok(_) => open_next(&shared),
        Err(why) => {
            warn!("node {} cannot give a snapshot: {why}", shared.me);
            open_next(&shared);
        }
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
            shared.send(from, Class::Control, &Message::Gone { id });
            return open_next(&shared);
        }
    };
    let piece = Piece { id, number, cut, bytes };
    let mut giving = shared.giving.borrow_mut();
    let Some(session) = giving.open.get_mut(&from).filter(|session| session.id == id) else {
        return;
    };
    debug_assert!(session.cut == piece.cut, "as-labelled: two labels of one snapshot");
    session.last = Some(piece.clone());
    let is_over = session.is_over();
    session.pieces = (!is_over).then_some(pieces);
    drop(giving);
    shared.send(from, Class::Bulk, &Message::Piece(piece));
    if is_over {
        open_next(&shared);
    }
}
