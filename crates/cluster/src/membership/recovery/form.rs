//! What nodes say to each other when a majority is lost, as bytes, and what a node keeps of it, as
//! texts of facts. Pure.
//!
//! Integers are big-endian; a set is how many (two bytes) and its members in their order.
//!
//! Invariants
//!  - *one-form*: bytes, or a text, are a value in its only form, or damage; never a panic.

use super::decide::{Generation, NUMBER_MAX, Plan, Position, Promise, STRIDE, Standing};
use model::Uuid;
use std::collections::BTreeSet;
use stdx::{Cursor, Damaged, Put};

/// Nodes of one set at most.
const NODES_MAX: usize = 4096;
/// Majorities that have to agree: two, while voters change.
const MAJORITIES_MAX: usize = 2;
/// The longest reason.
const TEXT_BYTES_MAX: usize = 4096;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// How do you stand?
    Look,
    /// Promise this.
    Promise(Plan),
    /// This one was begun.
    Begun(Generation),
    /// You have the most: recover from the loss of these.
    Run(BTreeSet<Uuid>),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// What became of it; the error says why nothing did. Of a question how it stands: nothing.
    pub(super) outcome: Result<String, String>,
    pub(super) standing: Standing,
}

impl Ask {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Ask::Look => out.put_u8(0),
            Ask::Promise(plan) => {
                out.put_u8(1);
                out.put_u64(plan.number);
                out.put(plan.candidate.as_bytes());
                put_position(&plan.position, &mut out);
                put_nodes(&plan.lost, &mut out);
                put_nodes(&plan.survivors, &mut out);
                out.put_u8(plan.resumes as u8);
            }
            Ask::Begun(generation) => {
                out.put_u8(2);
                put_generation(generation, &mut out);
            }
            Ask::Run(lost) => {
                out.put_u8(3);
                put_nodes(lost, &mut out);
            }
        }
        debug_assert!(Ask::decode(&out).as_ref() == Ok(self), "one-form: {self:?}");
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Ask, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let ask = match cursor.u8("what is asked")? {
            0 => Ask::Look,
            1 => Ask::Promise(plan(&mut cursor)?),
            2 => Ask::Begun(generation(&mut cursor)?),
            3 => Ask::Run(nodes(&mut cursor)?),
            _ => return Err(cursor.damaged("an unknown question")),
        };
        ended(&cursor)?;
        Ok(ask)
    }
}

impl Said {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (is_done, text) = match &self.outcome {
            Ok(text) => (1, text),
            Err(text) => (0, text),
        };
        out.put_u8(is_done);
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        debug_assert!(end <= TEXT_BYTES_MAX, "one-form: a text of {end} bytes");
        out.put_u16(end as u16);
        out.put(&text.as_bytes()[..end]);
        put_standing(&self.standing, &mut out);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Said, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let is_done = truth(&mut cursor)?;
        let length = usize::from(cursor.u16("a text")?);
        if TEXT_BYTES_MAX < length {
            return Err(cursor.damaged("a text that is too long"));
        }
        let text = std::str::from_utf8(cursor.take(length, "a text")?);
        let text = text.map_err(|_| cursor.damaged("no text"))?.to_owned();
        let outcome = if is_done { Ok(text) } else { Err(text) };
        let standing = standing(&mut cursor)?;
        ended(&cursor)?;
        Ok(Said { outcome, standing })
    }
}

fn put_standing(standing: &Standing, out: &mut Vec<u8>) {
    put_generation(&standing.generation, out);
    let promise = standing.promised.unwrap_or(Promise { number: 0, candidate: Uuid::nil() });
    out.put_u64(promise.number);
    out.put(promise.candidate.as_bytes());
    put_position(&standing.position, out);
    out.put_u64(standing.term);
    out.put_u64(standing.applied);
    out.put(standing.leader.unwrap_or_default().as_bytes());
    let majorities = standing.voters.len();
    assert!(majorities <= MAJORITIES_MAX, "one-form: {majorities} majorities");
    out.put_u8(majorities as u8);
    standing.voters.iter().for_each(|voters| put_nodes(voters, out));
    put_nodes(&standing.known, out);
    out.put_i64(standing.last_timestamp);
}

fn standing(cursor: &mut Cursor<'_>) -> Result<Standing, Damaged> {
    let generation = generation(cursor)?;
    let promised = Promise { number: number(cursor)?, candidate: node(cursor)? };
    if (promised.number == 0) != promised.candidate.is_nil() {
        return Err(cursor.damaged("a promise of nothing, or to nobody"));
    }
    let promised = (0 < promised.number).then_some(promised);
    let position = position(cursor)?;
    let term = cursor.u64("a term")?;
    let applied = cursor.u64("an index")?;
    let leader = Some(node(cursor)?).filter(|leader| !leader.is_nil());
    let count = usize::from(cursor.u8("majorities")?);
    if MAJORITIES_MAX < count {
        return Err(cursor.damaged("too many majorities"));
    }
    let voters = (0..count).map(|_| nodes(cursor)).collect::<Result<Vec<_>, Damaged>>()?;
    debug_assert!(voters.len() <= MAJORITIES_MAX, "one-form: {} majorities", voters.len());
    let known = nodes(cursor)?;
    let last_timestamp = cursor.i64("a timestamp")?;
    Ok(Standing {
        generation,
        promised,
        position,
        term,
        applied,
        leader,
        voters,
        known,
        last_timestamp,
    })
}

fn plan(cursor: &mut Cursor<'_>) -> Result<Plan, Damaged> {
    Ok(Plan {
        number: number(cursor)?,
        candidate: node(cursor)?,
        position: position(cursor)?,
        lost: nodes(cursor)?,
        survivors: nodes(cursor)?,
        resumes: truth(cursor)?,
    })
}

fn put_generation(generation: &Generation, out: &mut Vec<u8>) {
    out.put_u64(generation.number);
    out.put(generation.group.as_bytes());
    out.put(generation.founder.as_bytes());
    put_nodes(&generation.members, out);
    put_nodes(&generation.lost, out);
}

fn generation(cursor: &mut Cursor<'_>) -> Result<Generation, Damaged> {
    let (number, group, founder) = (number(cursor)?, node(cursor)?, node(cursor)?);
    let (members, lost) = (nodes(cursor)?, nodes(cursor)?);
    match members.is_disjoint(&lost) {
        true => Ok(Generation { number, group, founder, members, lost }),
        false => Err(cursor.damaged("a node that is left and lost")),
    }
}

fn put_position(position: &Position, out: &mut Vec<u8>) {
    out.put_u64(position.generation);
    out.put_u64(position.term);
    out.put_u64(position.index);
}

fn position(cursor: &mut Cursor<'_>) -> Result<Position, Damaged> {
    let generation = number(cursor)?;
    let (term, index) = (cursor.u64("a term")?, cursor.u64("an index")?);
    // What is begun after it has a place for it.
    if NUMBER_MAX * STRIDE < index {
        return Err(cursor.damaged("an index that is too high"));
    }
    Ok(Position { generation, term, index })
}

fn number(cursor: &mut Cursor<'_>) -> Result<u64, Damaged> {
    let number = cursor.u64("the number of a generation")?;
    match NUMBER_MAX < number {
        true => Err(cursor.damaged("a generation of too high a number")),
        false => Ok(number),
    }
}

fn node(cursor: &mut Cursor<'_>) -> Result<Uuid, Damaged> {
    Ok(Uuid::from_bytes(cursor.array("a UUID")?))
}

fn put_nodes(nodes: &BTreeSet<Uuid>, out: &mut Vec<u8>) {
    debug_assert!(nodes.len() <= NODES_MAX, "one-form: {} nodes", nodes.len());
    out.put_u16(nodes.len().min(NODES_MAX) as u16);
    nodes.iter().take(NODES_MAX).for_each(|node| out.put(node.as_bytes()));
}

fn nodes(cursor: &mut Cursor<'_>) -> Result<BTreeSet<Uuid>, Damaged> {
    let count = usize::from(cursor.u16("how many nodes")?);
    if NODES_MAX < count {
        return Err(cursor.damaged("too many nodes"));
    }
    let mut nodes = BTreeSet::new();
    for _ in 0..count {
        let node = node(cursor)?;
        if nodes.last().is_some_and(|last| node <= *last) {
            return Err(cursor.damaged("nodes out of order"));
        }
        nodes.insert(node);
    }
    debug_assert!(nodes.len() == count, "one-form: {count} nodes are {}", nodes.len());
    Ok(nodes)
}

fn truth(cursor: &mut Cursor<'_>) -> Result<bool, Damaged> {
    match cursor.u8("a truth value")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged("a truth value is neither 0 nor 1")),
    }
}

fn ended(cursor: &Cursor<'_>) -> Result<(), Damaged> {
    match cursor.is_empty() {
        true => Ok(()),
        false => Err(cursor.damaged("more than a message has")),
    }
}

/// The text of a generation, and of the group whose log has the state of this node until the one of
/// the generation begins: number, ids of the group, of its founder and of that other group, members
/// and lost ones.
pub(super) fn generation_text(generation: &Generation, from: Uuid) -> String {
    let joined = |nodes: &BTreeSet<Uuid>| match nodes.is_empty() {
        true => "-".to_owned(),
        false => nodes.iter().map(Uuid::to_string).collect::<Vec<_>>().join(","),
    };
    let Generation { number, group, founder, members, lost } = generation;
    debug_assert!(members.is_disjoint(lost), "named-or-counted: {members:?} and {lost:?}");
    format!("{number} {group} {founder} {from} {} {}", joined(members), joined(lost))
}

/// From its text.
pub(super) fn generation_of(text: &str) -> Option<(Generation, Uuid)> {
    let words: Vec<&str> = text.split(' ').collect();
    let [number, group, founder, from, members, lost] = words[..] else { return None };
    let nodes = |text: &str| match text {
        "-" => Some(BTreeSet::new()),
        _ => text.split(',').map(|id| Uuid::parse_str(id).ok()).collect(),
    };
    let number = number.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    let [group, founder, from] = [group, founder, from].map(|id| Uuid::parse_str(id).ok());
    let (members, lost) = (nodes(members)?, nodes(lost)?);
    if !members.is_disjoint(&lost) {
        return None;
    }
    Some((Generation { number, group: group?, founder: founder?, members, lost }, from?))
}

/// The text of a promise: its number and to whom.
pub(super) fn promise_text(promise: &Promise) -> String {
    debug_assert!(promise.number <= NUMBER_MAX, "one-form: a promise of {}", promise.number);
    format!("{} {}", promise.number, promise.candidate)
}

/// From its text.
pub(super) fn promise_of(text: &str) -> Option<Promise> {
    let (number, candidate) = text.split_once(' ')?;
    let number = number.parse().ok().filter(|number| *number <= NUMBER_MAX)?;
    Some(Promise { number, candidate: Uuid::parse_str(candidate).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nodes() -> impl Strategy<Value = BTreeSet<Uuid>> {
        proptest::collection::btree_set(any::<u128>().prop_map(Uuid::from_u128), 0..4)
    }

    fn generation() -> impl Strategy<Value = Generation> {
        (0..=NUMBER_MAX, any::<u128>(), any::<u128>(), nodes(), nodes()).prop_map(
            |(number, group, founder, members, lost)| {
                let [group, founder] = [group, founder].map(Uuid::from_u128);
                Generation { number, group, founder, lost: &lost - &members, members }
            },
        )
    }

    fn position() -> impl Strategy<Value = Position> {
        (0..=NUMBER_MAX, any::<u64>(), 0..=NUMBER_MAX * STRIDE)
            .prop_map(|(generation, term, index)| Position { generation, term, index })
    }

    fn standing() -> impl Strategy<Value = Standing> {
        let promised = proptest::option::of((1..=NUMBER_MAX, 1u128..));
        let voters = proptest::collection::vec(nodes(), 0..=MAJORITIES_MAX);
        let numbers = (any::<u64>(), any::<u64>(), any::<i64>());
        let leader = proptest::option::of(1u128..);
        (generation(), promised, position(), numbers, leader, voters, nodes()).prop_map(
            |(generation, promised, position, numbers, leader, voters, known)| Standing {
                generation,
                promised: promised.map(|(number, candidate)| Promise {
                    number,
                    candidate: Uuid::from_u128(candidate),
                }),
                position,
                term: numbers.0,
                applied: numbers.1,
                leader: leader.map(Uuid::from_u128),
                voters,
                known,
                last_timestamp: numbers.2,
            },
        )
    }

    fn ask() -> impl Strategy<Value = Ask> {
        let plan = (0..=NUMBER_MAX, any::<u128>(), position(), nodes(), nodes(), any::<bool>());
        let plan = plan.prop_map(|(number, candidate, position, lost, survivors, resumes)| {
            let candidate = Uuid::from_u128(candidate);
            Ask::Promise(Plan { number, candidate, position, lost, survivors, resumes })
        });
        let begun = generation().prop_map(Ask::Begun);
        prop_oneof![Just(Ask::Look), plan, begun, nodes().prop_map(Ask::Run)]
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard_and_what_is_kept_is_found(
            ask in ask(),
            standing in standing(),
            text in ".{0,99}",
            is_done: bool,
            from: u128,
        ) {
            prop_assert_eq!(Ask::decode(&ask.encode()), Ok(ask));
            let outcome = if is_done { Ok(text) } else { Err(text) };
            let said = Said { outcome, standing };
            prop_assert_eq!(Said::decode(&said.encode()), Ok(said.clone()));
            let (generation, from) = (said.standing.generation, Uuid::from_u128(from));
            let kept = generation_text(&generation, from);
            prop_assert_eq!(generation_of(&kept), Some((generation, from)));
            if let Some(promise) = said.standing.promised {
                prop_assert_eq!(promise_of(&promise_text(&promise)), Some(promise));
            }
        }

        /// *one-form*
        #[test]
        fn any_bytes_have_one_form_or_are_damaged(
            ask in ask(),
            standing in standing(),
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
        ) {
            let said = Said { outcome: Ok("done".to_owned()), standing };
            let mut changed = [ask.encode(), said.encode()];
            for bytes in &mut changed {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            for bytes in changed.into_iter().chain([garbage]) {
                if let Ok(ask) = Ask::decode(&bytes) {
                    prop_assert_eq!(ask.encode(), &bytes[..]);
                }
                if let Ok(said) = Said::decode(&bytes) {
                    prop_assert_eq!(said.encode(), &bytes[..]);
                }
                let text = String::from_utf8_lossy(&bytes);
                let _ = (generation_of(&text), promise_of(&text));
            }
        }
    }
}
