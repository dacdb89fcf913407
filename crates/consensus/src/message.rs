//! What members send each other, as bytes.
//!
//! A message begins with the version of the form. The decoder is strict: it takes what the encoder
//! makes and nothing else, and whatever it takes can be given to the library.
//!
//! Invariants
//!  - *one-form*: a message has one sequence of bytes, and bytes that decode encode to themselves.
//!  - *no-demands*: a peer cannot make us allocate more than a small multiple of what it sent.

use crate::convert;
use crate::entry::{Cut, Entry};
use crate::form;
use crate::members::NodeId;
use raft::eraftpb;
use raft::eraftpb::MessageType as Type;
use stdx::{Cursor, Damaged, Put};

/// The only form so far.
const VERSION: u8 = 1;

/// What a member sends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// Of the library.
    Raft(Box<eraftpb::Message>),
    /// Asks for a piece of a snapshot of the sender's choice: the first opens it.
    Pull { id: u64, number: u32 },
    /// A piece, in answer.
    Piece(Piece),
    /// There is no such snapshot, or no more.
    Gone { id: u64 },
}

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) id: u64,
    pub(crate) number: u32,
    /// What it is a snapshot of.
    pub(crate) cut: Cut,
    /// `None` after the last.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Which messages of the library travel; the others are its own affair on one node.
const TYPES: [(u8, Type); 13] = [
    (0, Type::MsgPropose),
    (1, Type::MsgAppend),
    (2, Type::MsgAppendResponse),
    (3, Type::MsgRequestVote),
    (4, Type::MsgRequestVoteResponse),
    (5, Type::MsgSnapshot),
    (6, Type::MsgHeartbeat),
    (7, Type::MsgHeartbeatResponse),
    (9, Type::MsgTimeoutNow),
    (10, Type::MsgReadIndex),
    (11, Type::MsgReadIndexResp),
    (12, Type::MsgRequestPreVote),
    (13, Type::MsgRequestPreVoteResponse),
];

/// The most entries of one message.
const ENTRIES_MAX: u64 = 1 << 20;
/// The longest context of one message.
const CONTEXT_BYTES_MAX: usize = 256;

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match self {
            Message::Raft(message) => {
                out.put_u8(0);
                encode_raft(message, &mut out);
            }
            Message::Pull { id, number } => {
                out.put_u8(1);
                out.put_u64(*id);
                out.put_u32(*number);
            }
            Message::Piece(piece) => {
                out.put_u8(2);
                out.put_u64(piece.id);
                out.put_u32(piece.number);
                piece.cut.encode(&mut out);
                out.put_u8(piece.bytes.is_some() as u8);
                out.put(piece.bytes.as_deref().unwrap_or_default());
            }
            Message::Gone { id } => {
                out.put_u8(3);
                out.put_u64(*id);
            }
        }
        debug_assert!(Message::decode(&out).as_ref() == Ok(self), "one-form: {self:?}");
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("the version of a message")? != VERSION {
            return Err(Damaged::new("a message of an unknown version", 0));
        }
        let message = match cursor.u8("the kind of a message")? {
            0 => Message::Raft(Box::new(decode_raft(&mut cursor)?)),
            1 => Message::Pull { id: cursor.u64("a snapshot")?, number: cursor.u32("a piece")? },
            2 => Message::Piece(decode_piece(&mut cursor)?),
            3 => Message::Gone { id: cursor.u64("a snapshot")? },
            _ => return Err(Damaged::new("a message of an unknown kind", 1)),
        };
        if !cursor.is_empty() {
            return Err(cursor.damaged("bytes after a message"));
        }
        Ok(message)
    }
}

fn decode_piece(cursor: &mut Cursor<'_>) -> Result<Piece, Damaged> {
    let id = cursor.u64("a snapshot")?;
    let number = cursor.u32("a piece")?;
    let cut = Cut::decode(cursor)?;
    let bytes = match form::truth(cursor, "whether a piece follows")? {
        false => None,
        true => Some(cursor.take(cursor.remaining(), "a piece")?.to_vec()),
    };
    Ok(Piece { id, number, cut, bytes })
}

pub(crate) fn encode_raft(message: &eraftpb::Message, out: &mut Vec<u8>) {
    let tag = TYPES.iter().find(|(_, kind)| *kind == message.get_msg_type());
    let Some((tag, _)) = tag else { panic!("one-form: {:?} does not travel", message.msg_type) };
    assert!(message.context.len() <= CONTEXT_BYTES_MAX, "one-form: a long context");
    out.put_u8(*tag);
    out.put_u64(message.to);
    out.put_u64(message.from);
    out.put_vint(message.term);
    out.put_vint(message.log_term);
    out.put_vint(message.index);
    out.put_vint(message.commit);
    out.put_vint(message.commit_term);
    out.put_vint(message.request_snapshot);
    out.put_vint(message.reject_hint);
    out.put_u8(message.reject as u8);
    out.put_vint_bytes(&message.context);
    out.put_vint(message.entries.len() as u64);
    for entry in message.entries.iter() {
        convert::entry_out(entry).encode(out);
    }
    if message.get_msg_type() == Type::MsgSnapshot {
        convert::cut_out(message.get_snapshot().get_metadata()).encode(out);
    }
}

fn decode_raft(cursor: &mut Cursor<'_>) -> Result<eraftpb::Message, Damaged> {
    let tag = cursor.u8("the type of a message")?;
    let kind = TYPES.iter().find(|(known, _)| *known == tag);
    let Some((_, kind)) = kind else { return Err(cursor.damaged("an unknown type of message")) };
    let mut message = eraftpb::Message::default();
    message.set_msg_type(*kind);
    message.to = cursor.u64("to whom")?;
    message.from = cursor.u64("from whom")?;
    message.term = form::number(cursor, "a term")?;
    message.log_term = form::number(cursor, "the term of an entry")?;
    message.index = form::number(cursor, "an index")?;
    message.commit = form::number(cursor, "a committed index")?;
    message.commit_term = form::number(cursor, "the term of a committed index")?;
    message.request_snapshot = form::number(cursor, "a wanted snapshot")?;
    message.reject_hint = form::number(cursor, "a hint")?;
    message.reject = form::truth(cursor, "whether it is refused")?;
    let context = form::bytes(cursor, "a context")?;
    if CONTEXT_BYTES_MAX < context.len() {
        return Err(cursor.damaged("a context that is too long"));
    }
    message.context = context.to_vec().into();
    let entries = decode_entries(cursor)?;
    check_entries(&message, &entries).map_err(|what| cursor.damaged(what))?;
    message.set_entries(entries.into_iter().map(convert::entry_in).collect::<Vec<_>>().into());
    if *kind == Type::MsgSnapshot {
        let cut = Cut::decode(cursor)?;
        message.set_snapshot(convert::snapshot_in(&cut));
    }
    check_peer(&message).map_err(|what| cursor.damaged(what))?;
    Ok(message)
}

fn decode_entries(cursor: &mut Cursor<'_>) -> Result<Vec<Entry>, Damaged> {
    let count = form::number(cursor, "a number of entries")?;
    if ENTRIES_MAX < count {
        return Err(cursor.damaged("too many entries"));
    }
    // *no-demands*: grows as entries are found.
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(Entry::decode(cursor)?);
    }
    Ok(entries)
}

/// What the library takes for granted of the entries of a message.
fn check_entries(message: &eraftpb::Message, entries: &[Entry]) -> Result<(), &'static str> {
    match message.get_msg_type() {
        Type::MsgAppend => {
            // The library takes term 0 to be that of every entry that there is not.
            if (message.index == 0) != (message.log_term == 0) {
                return Err("an entry without a term");
            }
            let mut last = (message.index, message.log_term);
            for entry in entries {
                let next = last.0.checked_add(1);
                if next != Some(entry.index) || entry.term < last.1 || message.term < entry.term {
                    return Err("entries that do not follow each other");
                }
                last = (entry.index, entry.term);
            }
            Ok(())
        }
        Type::MsgPropose if entries.len() != 1 => Err("a proposal is of one entry"),
        Type::MsgPropose if entries[0].index != 0 || entries[0].term != 0 => {
            Err("a proposal that has a place already")
        }
        Type::MsgReadIndex | Type::MsgReadIndexResp => match entries {
            [one] if one.data.len() <= CONTEXT_BYTES_MAX => Ok(()),
            _ => Err("a read is of one entry"),
        },
        Type::MsgPropose => Ok(()),
        _ if entries.is_empty() => Ok(()),
        _ => Err("entries where none belong"),
    }
}

/// Terms and senders as the library expects them.
fn check_peer(message: &eraftpb::Message) -> Result<(), &'static str> {
    if message.from == 0 || message.to == 0 || message.from == message.to {
        return Err("a message of nobody, to nobody or to oneself");
    }
    // Those travel without a term: a leader of any term may answer.
    let termless = matches!(message.get_msg_type(), Type::MsgPropose | Type::MsgReadIndex);
    match (termless, message.term) {
        (true, 0) => Ok(()),
        (true, _) => Err("a term where none belongs"),
        (false, 0) => Err("a message without a term"),
        (false, u64::MAX) => Err("the last of all terms"),
        (false, _) => Ok(()),
    }
}

/// To whom and from whom a message of the library is.
pub(crate) fn ends(message: &eraftpb::Message) -> (NodeId, NodeId) {
    (NodeId(message.to), NodeId(message.from))
}

/// What a message of a peer says, for who reads a trace.
pub fn describe(bytes: &[u8]) -> Result<String, Damaged> {
    Ok(match Message::decode(bytes)? {
        Message::Raft(message) => {
            let kind = format!("{:?}", message.get_msg_type());
            let kind = kind.strip_prefix("Msg").unwrap_or(&kind);
            let eraftpb::Message { term, index, commit, reject, .. } = *message;
            let refused = if reject { ", refused" } else { "" };
            let count = message.entries.len();
            format!("{kind} term {term}, index {index}, commit {commit}, {count} entries{refused}")
        }
        Message::Pull { id, number } => format!("Pull {number} of snapshot {id:016x}"),
        Message::Piece(Piece { id, number, cut, bytes }) => {
            let bytes = bytes.map_or(0, |bytes| bytes.len());
            format!("Piece {number} of snapshot {id:016x} at {}, {bytes} bytes", cut.index)
        }
        Message::Gone { id } => format!("Gone is snapshot {id:016x}"),
    })
}

/// A message decoded and encoded again.
#[doc(hidden)]
pub fn reencoded(bytes: &[u8]) -> Result<Vec<u8>, Damaged> {
    Message::decode(bytes).map(|message| message.encode())
}
