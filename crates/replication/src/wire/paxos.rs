//! What rounds of conditional writes send, and what replicas answer.
//!
//! ```text
//! PAXOS_PREPARE  ballot table:16 key to the end   -> refused | promise
//! PAXOS_ACCEPT   proposal                         -> refused | accepted
//! PAXOS_LEARN    ballot mutation                  -> nothing
//! PAXOS_PRUNE    ballot table:16 key to the end   -> nothing
//! PAXOS_LEAD     consistency:be16 table:16 key (length:be32) request to the end -> result
//! PAXOS_READ     consistency:be16 command         -> page
//!
//! refused  := 0 ballot
//! accepted := 1
//! promise  := 1 (0 | 1 ballot) (0 | 1 proposal)
//! proposal := ballot flags:u8 [since: ballot] [transaction:16] mutation to the end
//! flags    := 1, it is since a ballot | 2, it is of a transaction
//! ballot   := a timeuuid of whole microseconds
//! ```

use super::{command, end, flag};
use crate::Consistency;
use crate::paxos::promises::Promise;
use crate::paxos::{Ballot, Place, Proposal};
use model::TableId;
use mutation::page::{Partitions, ReadCommand};
use mutation::{FrozenMutation, FrozenView};
use stdx::{Cursor, Damaged, Put};

/// The longest key of a partition.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

type Verdict<T> = Result<T, Ballot>;

/// A ballot about a place.
pub(crate) fn encode_place(place: &Place, ballot: Ballot) -> Vec<u8> {
    debug_assert!(place.key.len() <= KEY_BYTES_MAX, "one-form: a key that is too long");
    let mut out = Vec::with_capacity(32 + place.key.len());
    out.put(&ballot.to_bytes());
    out.put(place.table.as_bytes());
    out.put(&place.key);
    out
}

/// See [`encode_place`].
pub(crate) fn decode_place(bytes: &[u8]) -> Result<(Place, Ballot), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let ballot = ballot(&mut cursor)?;
    let table = TableId::from_bytes(cursor.array("table of a round")?);
    let key = cursor.rest().to_vec();
    match key.len() <= KEY_BYTES_MAX {
        true => Ok((Place { table, key }, ballot)),
        false => Err(cursor.damaged("key of a round is too long")),
    }
}

/// What comes before the mutation of a proposal.
pub(crate) fn proposal_head(proposal: &Proposal) -> Vec<u8> {
    let mut out = Vec::with_capacity(49);
    out.put(&proposal.ballot.to_bytes());
    out.put(&proposal.head());
    debug_assert!(proposal.since < Some(proposal.ballot), "one-form: since a later one");
    out
}

/// See [`proposal_head`]; the proposal, and where it belongs, checked but for its order.
pub(crate) fn decode_proposal(bytes: &[u8]) -> Result<(Place, Proposal), Damaged> {
    proposal_at(&mut Cursor::new(bytes))
}

fn proposal_at(cursor: &mut Cursor<'_>) -> Result<(Place, Proposal), Damaged> {
    let own = ballot(cursor)?;
    let at = cursor.offset() as u64;
    let bytes = cursor.rest();
    let head = Proposal::split_head(bytes).ok_or_else(|| Damaged::new("head of a proposal", at))?;
    let (since, of, rest) = head;
    if own.is_alone() || Some(own) <= since {
        return Err(Damaged::new("a proposal of one replica, or since a later one", at));
    }
    let at = at + (bytes.len() - rest.len()) as u64;
    let (place, mutation) = mutation_of(rest, at)?;
    Ok((place, Proposal { ballot: own, since, of, mutation }))
}

/// What was chosen, and where it belongs; checked but for its order, which the schema tells.
pub(crate) fn decode_learned(bytes: &[u8]) -> Result<(Place, Ballot, FrozenMutation), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let ballot = ballot(&mut cursor)?;
    let at = cursor.offset() as u64;
    let (place, mutation) = mutation_of(cursor.rest(), at)?;
    Ok((place, ballot, mutation))
}

/// The mutation that bytes are, which stand at that offset.
fn mutation_of(bytes: &[u8], at: u64) -> Result<(Place, FrozenMutation), Damaged> {
    let view = FrozenView::parse(bytes).map_err(|damaged| damaged.from_base(at))?;
    let place = Place { table: view.table(), key: view.key().to_vec() };
    Ok((place, FrozenMutation(bytes.into())))
}

/// A conditional write for whoever leads its rounds: `request` is what its executor understands.
pub(crate) fn encode_lead(
    level: Consistency,
    table: TableId,
    key: &[u8],
    request: &[u8],
) -> Vec<u8> {
    debug_assert!(level.is_serial(), "one-form: a round at {level:?}");
    let mut out = Vec::with_capacity(32 + key.len() + request.len());
    out.put_u16(level.to_wire());
    out.put(table.as_bytes());
    out.put_u32_bytes(key);
    out.put(request);
    out
}

/// See [`encode_lead`].
pub(crate) fn decode_lead(bytes: &[u8]) -> Result<(Consistency, Place, Vec<u8>), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let level = level(&mut cursor)?;
    let table = TableId::from_bytes(cursor.array("table of a round")?);
    let key = cursor.u32_bytes("key of a round")?.to_vec();
    match key.len() <= KEY_BYTES_MAX {
        true => Ok((level, Place { table, key }, cursor.rest().to_vec())),
        false => Err(cursor.damaged("key of a round is too long")),
    }
}

/// A serial read for whoever leads its rounds.
pub(crate) fn encode_read(level: Consistency, command: &ReadCommand) -> Vec<u8> {
    debug_assert!(level.is_serial(), "one-form: a round at {level:?}");
    let mut out = level.to_wire().to_be_bytes().to_vec();
    out.put(&command::encode(command));
    out
}

/// See [`encode_read`].
pub(crate) fn decode_read(bytes: &[u8]) -> Result<(Consistency, ReadCommand), Damaged> {
    let mut cursor = Cursor::new(bytes);
    let level = level(&mut cursor)?;
    let at = cursor.offset() as u64;
    let command = command::decode(cursor.rest()).map_err(|damaged| damaged.from_base(at))?;
    match &command.partitions {
        Partitions::Key(_) => Ok((level, command)),
        Partitions::Range { .. } => Err(cursor.damaged("a round about several partitions")),
    }
}

fn level(cursor: &mut Cursor<'_>) -> Result<Consistency, Damaged> {
    let level = Consistency::from_wire(cursor.u16("level of a round")?);
    let serial = level.filter(|level| level.is_serial());
    serial.ok_or_else(|| cursor.damaged("level of a round"))
}

/// The answer to a proposal.
pub(crate) fn encode_verdict(verdict: Verdict<()>) -> Vec<u8> {
    match verdict {
        Ok(()) => vec![1],
        Err(later) => refused(later),
    }
}

fn refused(later: Ballot) -> Vec<u8> {
    let mut out = Vec::with_capacity(17);
    out.put_u8(0);
    out.put(&later.to_bytes());
    debug_assert!(out.len() == 17, "one-form: a refusal of {} bytes", out.len());
    out
}

/// See [`encode_verdict`].
pub(crate) fn decode_verdict(bytes: &[u8]) -> Result<Verdict<()>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    let verdict = match flag(&mut cursor, "verdict of a proposal")? {
        true => Ok(()),
        false => Err(ballot(&mut cursor)?),
    };
    end(&cursor)?;
    Ok(verdict)
}

/// The answer to a ballot.
pub(crate) fn encode_promise(verdict: &Verdict<Promise>) -> Vec<u8> {
    let Promise { accepted, learned } = match verdict {
        Ok(promise) => promise,
        Err(later) => return refused(*later),
    };
    let mut out = Vec::with_capacity(64);
    out.put_u8(1);
    out.put_u8(learned.is_some().into());
    learned.iter().for_each(|learned| out.put(&learned.to_bytes()));
    out.put_u8(accepted.is_some().into());
    if let Some(proposal) = accepted {
        debug_assert!(!proposal.mutation.0.is_empty(), "one-form: no bytes are a mutation");
        out.put(&proposal_head(proposal));
        out.put(&proposal.mutation.0);
    }
    out
}

/// See [`encode_promise`]: of a ballot about `place`. What was accepted is not earlier than what
/// was learned, and all of it is earlier than `ballot`.
pub(crate) fn decode_promise(
    bytes: &[u8],
    place: &Place,
    ballot_of: Ballot,
) -> Result<Verdict<Promise>, Damaged> {
    let mut cursor = Cursor::new(bytes);
    if !flag(&mut cursor, "answer to a ballot")? {
        let later = ballot(&mut cursor)?;
        end(&cursor)?;
        return Ok(Err(later));
    }
    let learned = match flag(&mut cursor, "whether something was learned")? {
        true => Some(ballot(&mut cursor)?),
        false => None,
    };
    let accepted = match flag(&mut cursor, "whether something was accepted")? {
        true => {
            let (of, proposal) = proposal_at(&mut cursor)?;
            if of != *place {
                return Err(cursor.damaged("a proposal of another partition"));
            }
            Some(proposal)
        }
        false => {
            end(&cursor)?;
            None
        }
    };
    let last = accepted.as_ref().map(|accepted| accepted.ballot);
    let in_order =
        last.is_none_or(|last| learned <= Some(last)) && last.max(learned) < Some(ballot_of);
    match in_order {
        true => Ok(Ok(Promise { accepted, learned })),
        false => Err(Damaged::new("a promise of an earlier ballot", 0)),
    }
}

fn ballot(cursor: &mut Cursor<'_>) -> Result<Ballot, Damaged> {
    let bytes: [u8; 16] = cursor.array("a ballot")?;
    Ballot::of_bytes(&bytes).ok_or_else(|| cursor.damaged("a ballot"))
}

#[cfg(test)]
mod tests;
