//! Which snapshots are given and pulled now.
//!
//! Invariants
//!  - *one-each*: a follower has one snapshot open at most.
//!  - *one-pull*: one snapshot is pulled at a time.

use crate::entry::Cut;
use crate::members::NodeId;
use crate::message::Piece;
use crate::traits::Pieces;
use runtime::sync::OneshotSender;
use runtime::time::Instant;
use std::collections::BTreeMap;
use std::fmt;

/// What is given now.
#[derive(Debug, Default)]
pub(super) struct Giving {
    /// When a follower was last heard of, of those that a snapshot was offered to.
    pub(super) heard: BTreeMap<NodeId, Instant>,
    pub(super) open: BTreeMap<NodeId, Session>,
    /// Followers that wait until another one's snapshot has been read, by what they call theirs.
    pub(super) waiting: BTreeMap<NodeId, u64>,
    /// The same of those whose snapshot is about to be opened.
    pub(super) opening: BTreeMap<NodeId, u64>,
}

/// A snapshot that a follower reads.
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) cut: Cut,
    /// The last piece that was sent: it may be asked for again.
    pub(super) last: Option<Piece>,
    /// `None` while the next piece is being read.
    pub(super) pieces: Option<Box<dyn Pieces>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({}, {:?})", self.id, self.cut)
    }
}

impl Session {
    /// Whether all of it was sent. Its last piece may be asked for again.
    pub(super) fn is_over(&self) -> bool {
        self.last.as_ref().is_some_and(|piece| piece.bytes.is_none())
    }
}

impl Giving {
    /// How many snapshots are being read, or are about to be.
    pub(super) fn busy(&self) -> usize {
        self.opening.len() + self.open.values().filter(|session| !session.is_over()).count()
    }

    /// A follower was told that it needs one.
    pub(super) fn offered(&mut self, node: NodeId) {
        self.heard.insert(node, Instant::now());
    }
}

/// Who waits for a piece: of whom, of which snapshot, which.
pub(super) type Waits = (NodeId, u64, u32, OneshotSender<Option<Piece>>);

/// What is pulled now.
#[derive(Debug, Default)]
pub(super) struct Pulling {
    pub(super) is_active: bool,
    pub(super) waits: Option<Waits>,
}
