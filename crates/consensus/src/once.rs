//! Read-modify-write commands that take effect at most once.
//!
//! A command names the state that it was made from, by the id of the last command that took
//! effect (`prev`), and its own id (`new`), never used before. A machine lets it take effect only
//! where its last id is `prev`, and remembers `new` then: so of two commands made from one state
//! one wins, and a command that is in the log twice, because it was proposed again when an answer
//! did not come, takes effect once.
//!
//! Invariants
//!  - *at-most-once*: an id takes effect once.
//!  - *nothing-between*: between the state that a command was made from and its own nothing took
//!    effect.
//!  - *said-lost*: a command is said to have lost only when it never took effect and never will.

use crate::group::{Group, Unanswered};
use std::fmt;
use std::time::Duration;
use stdx::{Cursor, Damaged, Put};

/// What names a state: a time UUID, or whatever is never used twice. All zeros: nothing yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId(pub [u8; 16]);

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A command from one state to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub prev: StateId,
    pub new: StateId,
    pub payload: Vec<u8>,
}

/// The only form so far.
const VERSION: u8 = 1;
/// The bytes of a command before its payload.
pub const HEADER_BYTES: usize = 33;

const _: () = assert!(HEADER_BYTES == 1 + 2 * size_of::<StateId>(), "one-form: the header");

impl Command {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.prev != self.new, "at-most-once: {} from itself", self.new);
        assert!(self.new != StateId::default(), "at-most-once: a command without an id");
        let mut out = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        out.put_u8(VERSION);
        out.put(&self.prev.0);
        out.put(&self.new.0);
        debug_assert_eq!(out.len(), HEADER_BYTES, "one-form: the header");
        out.put(&self.payload);
        out
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Command, Damaged> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u8("the version of a command")? != VERSION {
            return Err(Damaged::new("a command of an unknown version", 0));
        }
        // *one-form*: what follows is all there is.
        let prev = StateId(cursor.array("the state before a command")?);
        let new = StateId(cursor.array("the state after a command")?);
        if prev == new || new == StateId::default() {
            return Err(cursor.damaged("a command from a state to itself, or to none"));
        }
        Ok(Command { prev, new, payload: cursor.rest().to_vec() })
    }

    /// What a machine whose last id is `last` is to do with it.
    pub fn judge(&self, last: StateId) -> Verdict {
        if self.prev == last { Verdict::Apply } else { Verdict::Skip }
    }
}

/// What a machine does with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It takes effect: its id is the last one then, and in the history.
    Apply,
    /// Nothing happens: another was first, or it has taken effect already.
    Skip,
}

/// What a machine remembers of the ids that took effect.
pub trait History {
    /// The last.
    fn last(&self) -> StateId;
    /// Whether this one took effect. Ids are remembered for longer than anybody waits for them.
    fn has(&self, id: StateId) -> bool;
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It took effect, and this node has it.
    Applied,
    /// Another was first; this one has no effect. Who wants it reads again and makes it anew.
    Lost,
    /// The time is over: it may have taken effect, or may yet.
    Uncertain,
    /// It was not proposed.
    Refused(Unanswered),
}

/// Proposes a command and waits for its outcome, for `within` at most.
///
/// The caller has read the state after a [`Group::read_barrier`], and holds the node's lock for
/// such changes, if it wants fewer of them lost.
pub async fn change(
    group: &Group,
    history: &impl History,
    command: &Command,
    within: Duration,
) -> Outcome {
    match group.propose(command.encode(), within).await {
        // Its entry was applied here, so that history tells: another copy of it may have taken
        // effect before, and none will that comes later.
        Ok(_) if history.has(command.new) => Outcome::Applied,
        Ok(_) => {
            assert!(history.last() != command.prev, "said-lost: {} may take effect", command.new);
            Outcome::Lost
        }
        Err(Unanswered::Uncertain | Unanswered::Stopped) if history.has(command.new) => {
            Outcome::Applied
        }
        Err(Unanswered::Uncertain | Unanswered::Stopped) => Outcome::Uncertain,
        Err(refused) => Outcome::Refused(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> StateId {
        StateId([byte; 16])
    }

    #[test]
    fn a_command_has_one_form() {
        let command = Command { prev: id(1), new: id(2), payload: b"what".to_vec() };
        let bytes = command.encode();
        assert_eq!(Command::decode(&bytes), Ok(command));
        assert_eq!(bytes.len(), HEADER_BYTES + 4);
        assert!(Command::decode(&bytes[..HEADER_BYTES - 1]).is_err());
        assert!(Command::decode(&[&[2], &bytes[1..]].concat()).is_err());
        let same = [&[1u8][..], &[7; 16], &[7; 16]].concat();
        assert!(Command::decode(&same).is_err());
    }

    #[test]
    fn a_command_takes_effect_once_and_only_on_its_own_state() {
        let command = Command { prev: id(1), new: id(2), payload: Vec::new() };
        assert_eq!(command.judge(id(1)), Verdict::Apply);
        // It is in the log twice.
        assert_eq!(command.judge(id(2)), Verdict::Skip);
        assert_eq!(command.judge(id(3)), Verdict::Skip);
    }
}
