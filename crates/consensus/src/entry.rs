//! An entry of the log, and a place in it.
//!
//! Invariants
//!  - *counted-from-one*: the first entry of a log has index 1; 0 is before it.

use crate::form;
use crate::members::{Members, Move, NodeId};
use stdx::{Cursor, Damaged, Put};

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command of the machine, or nothing (empty) when a leader begins its term.
    Command,
    /// A change of members.
    Members,
}

/// One entry of the log, as logs keep it and peers send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub index: u64,
    pub term: u64,
    pub kind: Kind,
    /// Who proposed it: empty for a leader's own.
    pub origin: Vec<u8>,
    pub data: Vec<u8>,
}

/// Where a log begins: what a snapshot covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The last entry that is covered.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// The members after it.
    pub members: Members,
}

impl Entry {
    /// Its size in memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Entry>() + self.origin.len() + self.data.len()
    }

    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.kind {
            Kind::Command => 0,
            Kind::Members => 1,
        });
        out.put_u64(self.index);
        out.put_u64(self.term);
        out.put_vint_bytes(&self.origin);
        out.put_vint_bytes(&self.data);
    }

    /// Reads one.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Entry, Damaged> {
        let kind = match cursor.u8("the kind of an entry")? {
            0 => Kind::Command,
            1 => Kind::Members,
            _ => return Err(cursor.damaged("an entry of an unknown kind")),
        };
        let index = cursor.u64("the index of an entry")?;
        let term = cursor.u64("the term of an entry")?;
        let origin = form::bytes(cursor, "who proposed an entry")?.to_vec();
        let data = form::bytes(cursor, "the data of an entry")?.to_vec();
        if kind == Kind::Members {
            decode_moves(&data)?;
        }
        Ok(Entry { index, term, kind, origin, data })
    }
}

impl Cut {
    /// Appends its bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        assert!(0 < self.index && 0 < self.term, "counted-from-one: a cut at {}", self.index);
        out.put_u64(self.index);
        out.put_u64(self.term);
        self.members.encode(out);
    }

    /// Reads one.
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Cut, Damaged> {
        let index = cursor.u64("the index of a cut")?;
        let term = cursor.u64("the term of a cut")?;
        let members = Members::decode(cursor)?;
        if index == 0 || term == 0 || members.voters.is_empty() {
            return Err(cursor.damaged("a cut of nothing"));
        }
        Ok(Cut { index, term, members })
    }
}

/// The most nodes that one change of members moves.
const MOVES_MAX: u64 = 4096;

pub(crate) fn encode_moves(moves: &[Move]) -> Vec<u8> {
    debug_assert!(moves.len() as u64 <= MOVES_MAX, "one-role: {} moves", moves.len());
    let mut out = Vec::new();
    out.put_vint(moves.len() as u64);
    for step in moves {
        let (tag, node) = match step {
            Move::Vote(node) => (0, node),
            Move::Remove(node) => (1, node),
            Move::Learn(node) => (2, node),
        };
        out.put_u8(tag);
        out.put_u64(node.0);
    }
    out
}

pub(crate) fn decode_moves(bytes: &[u8]) -> Result<Vec<Move>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let count = form::number(&mut cursor, "a number of moves")?;
    if MOVES_MAX < count {
        return Err(cursor.damaged("too many moves of members"));
    }
    let mut moves = Vec::new();
    for _ in 0..count {
        let tag = cursor.u8("a move of a member")?;
        let node = NodeId(cursor.u64("who moves")?);
        if node.0 == 0 {
            return Err(cursor.damaged("a move of no node"));
        }
        moves.push(match tag {
            0 => Move::Vote(node),
            1 => Move::Remove(node),
            2 => Move::Learn(node),
            _ => return Err(cursor.damaged("an unknown move of a member")),
        });
    }
    if !cursor.is_empty() {
        return Err(cursor.damaged("bytes after the moves of members"));
    }
    Ok(moves)
}
