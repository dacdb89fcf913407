//! What of a table comes from one node, and how far a node is with all that it takes.

use super::Planted;
use crate::coordinator::Coordinator;
use crate::wire::moves::Progress;
use crate::wire::{Refusal, RefusalKind};
use cluster::TableEntry;
use model::{Token, Uuid};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// After something that failed.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// How far it is.
#[derive(Default)]
pub(super) struct State {
    pub(super) is_done: Cell<bool>,
    pub(super) parts: Cell<u32>,
    pub(super) parts_done: Cell<u32>,
    pub(super) mutations: Cell<u64>,
    bytes: Cell<u64>,
    /// Bytes of files that are on their way, and were found to have room.
    pub(super) promised: Cell<u64>,
    pub(super) text: RefCell<String>,
    pub(super) from: RefCell<BTreeMap<Uuid, Giver>>,
}

impl State {
    /// So many bytes have come from a node.
    pub(super) fn add_bytes(&self, from: Uuid, bytes: u64) {
        self.bytes.set(self.bytes.get() + bytes);
        let mut all = self.from.borrow_mut();
        let giver = all.entry(from).or_default();
        giver.bytes += bytes;
        debug_assert!(giver.bytes <= self.bytes.get(), "all-that-went: {giver:?} of less");
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            is_done: self.is_done.get(),
            parts: self.parts.get(),
            parts_done: self.parts_done.get(),
            mutations: self.mutations.get(),
            bytes: self.bytes.get(),
            text: self.text.borrow().clone(),
        }
    }
}

/// What a node gives to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Giver {
    pub parts: u32,
    pub parts_done: u32,
    pub bytes: u64,
}

/// A range of a table, from one node.
pub(super) struct Part {
    pub(super) table: Rc<TableEntry>,
    /// `None`: of the ring.
    pub(super) tablet: Option<usize>,
    pub(super) after: Token,
    pub(super) last: Token,
    pub(super) from: Uuid,
}

/// Whether what is copied in a session is still to be written (*session-guards*).
pub(super) fn is_on(coordinator: &Coordinator, session: u64, part: &Part) -> bool {
    if super::is_planted(Planted::WritesLate) {
        return true;
    }
    debug_assert!(part.after < part.last, "covering: from {:?} to {:?}", part.after, part.last);
    let Some(tablet) = part.tablet else {
        return coordinator.cluster.topology().session() == session;
    };
    let schema = coordinator.cluster.schema();
    let table = schema.table_by_id(part.table.schema.id);
    let moving = table.and_then(|table| table.replicas.moves().get(&tablet));
    moving.is_some_and(|moving| moving.session == session)
}

/// Why another node refuses.
pub(super) fn refused(words: &[u8]) -> Result<(RefusalKind, String), String> {
    let refusal = Refusal::decode(words).map_err(|damaged| damaged.to_string())?;
    Ok((refusal.kind, refusal.text))
}
