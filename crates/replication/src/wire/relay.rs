//! A write that goes to several replicas of another data centre by way of one of them.
//!
//! ```text
//! RELAY         asks:be16 write count:u8 (host:16 shard:be16)* asked
//!                                            -> nothing, as of the relay alone
//! RELAYED       asks:be16 write origin:16 shard:be16 asked        one way, from the relay
//! RELAYED_DONE  write host:16 (refusal)?                          one way, to the origin's shard
//!
//! write := number:be64                       of a write of the origin's
//! asks  := verb of the request that is `asked`: MUTATION, LIMITED, PAXOS_LEARN
//! ```
//! They are sent where all nodes know them (`catalog::features::RELAYED_WRITES`).

use super::answer::Refusal;
use super::{end, verb};
use messaging::Verb;
use model::Uuid;
use stdx::{Cursor, Damaged, Put};

/// So many nodes are told by one relay at most.
pub(crate) const OTHERS_MAX: usize = crate::plan::relay::PLACES_MAX;

/// What is passed on.
const ASKS: [Verb; 3] = [verb::MUTATION, verb::LIMITED, verb::PAXOS_LEARN];

/// A shard of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Uuid,
    pub(crate) shard: u16,
}

/// What a relay is sent before the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relay {
    pub(crate) asks: Verb,
    pub(crate) write: u64,
    /// Who else is to be told.
    pub(crate) others: Vec<Place>,
}

/// What it sends them before the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relayed {
    pub(crate) asks: Verb,
    pub(crate) write: u64,
    pub(crate) origin: Place,
}

/// What became of that on one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) write: u64,
    pub(crate) host: Uuid,
    pub(crate) outcome: Result<(), Refusal>,
}

fn put_place(out: &mut Vec<u8>, place: Place) {
    out.put(place.host.as_bytes());
    out.put_u16(place.shard);
}

fn place(cursor: &mut Cursor<'_>) -> Result<Place, Damaged> {
    let host = Uuid::from_bytes(cursor.array("a node")?);
    Ok(Place { host, shard: cursor.u16("shard of a node")? })
}

fn asks(cursor: &mut Cursor<'_>) -> Result<Verb, Damaged> {
    let number = cursor.u16("what is passed on")?;
    let verb = ASKS.into_iter().find(|verb| verb.number == number);
    verb.ok_or_else(|| cursor.damaged("what is passed on"))
}

impl Relay {
    pub(crate) fn encode(&self, room: usize) -> Vec<u8> {
        let count = self.others.len();
        assert!((1..=OTHERS_MAX).contains(&count), "one-form: a relay to {count} nodes");
        let mut out = Vec::with_capacity(11 + 18 * count + room);
        out.put_u16(self.asks.number);
        out.put_u64(self.write);
        out.put_u8(count as u8);
        self.others.iter().for_each(|other| put_place(&mut out, *other));
        out
    }

    /// It, and what is asked.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Relay, &[u8]), Damaged> {
        let mut cursor = Cursor::new(bytes);
        let (asks, write) = (asks(&mut cursor)?, cursor.u64("number of a write")?);
        let count = usize::from(cursor.u8("nodes of a relay")?);
        if !(1..=OTHERS_MAX).contains(&count) {
            return Err(cursor.damaged("nodes of a relay"));
        }
        let others = (0..count).map(|_| place(&mut cursor)).collect::<Result<Vec<_>, _>>()?;
        debug_assert!(others.len() == count, "one-form: {count} nodes are {others:?}");
        Ok((Relay { asks, write, others }, cursor.rest()))
    }
}

impl Relayed {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(28);
        out.put_u16(self.asks.number);
        out.put_u64(self.write);
        put_place(&mut out, self.origin);
        debug_assert!(out.len() == 28, "one-form: a head of {} bytes", out.len());
        out
    }

    /// It, and what is asked.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Relayed, &[u8]), Damaged> {
        let mut cursor = Cursor::new(bytes);
        let (asks, write) = (asks(&mut cursor)?, cursor.u64("number of a write")?);
        let origin = place(&mut cursor)?;
        debug_assert!(cursor.offset() == 28, "one-form: a head of {} bytes", cursor.offset());
        Ok((Relayed { asks, write, origin }, cursor.rest()))
    }
}

impl Done {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u64(self.write);
        out.put(self.host.as_bytes());
        if let Err(refusal) = &self.outcome {
            out.put(&refusal.encode());
        }
        debug_assert!(24 <= out.len(), "one-form: {} bytes", out.len());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Done, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let write = cursor.u64("number of a write")?;
        let host = Uuid::from_bytes(cursor.array("a node")?);
        debug_assert!(cursor.offset() == 24, "one-form: a word of {} bytes", cursor.offset());
        let outcome = match end(&cursor) {
            Ok(()) => Ok(()),
            Err(_) => Err(Refusal::decode(cursor.rest())?),
        };
        Ok(Done { write, host, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RefusalKind;
    use crate::wire::foreign::read_as_each;
    use proptest::prelude::*;

    fn a_place(host: u128) -> Place {
        Place { host: Uuid::from_u128(host), shard: host as u16 }
    }

    proptest! {
        #[test]
        fn what_is_passed_on_comes_back(
            kind in 0usize..3,
            write: u64,
            hosts in proptest::collection::vec(any::<u128>(), 1..5),
            asked: Vec<u8>,
            refusal: Option<String>,
        ) {
            let (asks, origin) = (ASKS[kind], a_place(hosts[0]));
            let others = hosts.into_iter().map(a_place).collect();
            let relay = Relay { asks, write, others };
            let bytes = [relay.encode(0), asked.clone()].concat();
            prop_assert_eq!(Relay::decode(&bytes), Ok((relay, &asked[..])));
            let relayed = Relayed { asks, write, origin };
            let bytes = [relayed.encode(), asked.clone()].concat();
            prop_assert_eq!(Relayed::decode(&bytes), Ok((relayed, &asked[..])));
            let outcome = match refusal {
                None => Ok(()),
                Some(text) => Err(Refusal::new(RefusalKind::Failed, text)),
            };
            let done = Done { write, host: origin.host, outcome };
            prop_assert_eq!(Done::decode(&done.encode()), Ok(done));
        }

        #[test]
        fn any_bytes_are_a_message_in_its_only_form_or_damage(
            first in 0usize..4,
            count in 0u8..4,
            bytes: Vec<u8>,
        ) {
            let number = ASKS.get(first).map_or(7, |verb| verb.number).to_be_bytes();
            let head = [&number[..], &[0; 8], &[count]].concat();
            for bytes in [[head, bytes.clone()].concat(), [&number[..], &bytes].concat(), bytes] {
                read_as_each(&bytes);
            }
        }
    }
}
