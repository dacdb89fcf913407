//! What nodes say to each other about who belongs to the cluster, as bytes. Pure.
//!
//! Integers are big-endian; a text is its length (two bytes) and its bytes; an address is its
//! length (4 or 16), its bytes and a port.
//!
//! Invariants
//!  - *one-form*: bytes are a value in its only form, or damage; never a panic.
//!  - *few*: no more of anything than [`CONTACTS_MAX`] is read.

use crate::peers::Activity;
use catalog::{Member, MemberState};
use model::{Token, Uuid};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use stdx::{Cursor, Damaged, Put};

/// Nodes that a message names at most, and tokens and features of a node.
pub(super) const CONTACTS_MAX: usize = 4096;

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contact {
    pub(super) host_id: Uuid,
    pub(super) address: SocketAddr,
    /// Whether it is one of its own seeds.
    pub(super) is_seed: bool,
}

/// What a node that belongs to no group yet tells others, and they tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Acquaintance {
    /// The group that who says this belongs to.
    pub(super) group: Option<Uuid>,
    /// Whom it knows, itself first.
    pub(super) contacts: Vec<Contact>,
}

impl Acquaintance {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put(self.group.unwrap_or_default().as_bytes());
        put_contacts(&self.contacts, &mut out);
        debug_assert!(18 <= out.len(), "one-form: {} bytes", out.len());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Acquaintance, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let group = Uuid::from_bytes(cursor.array("a group")?);
        let contacts = contacts(&mut cursor)?;
        ended(&cursor)?;
        debug_assert!(contacts.len() <= CONTACTS_MAX, "few: {} contacts", contacts.len());
        Ok(Acquaintance { group: Some(group).filter(|group| !group.is_nil()), contacts })
    }
}

/// The answer to a node that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is a member now: of which group, and where the others are.
    Accepted(Acquaintance),
    /// It cannot be one: why.
    Refused(String),
    /// Not now: why.
    Later(String),
}

impl Answer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Answer::Accepted(acquaintance) => {
                out.put_u8(0);
                out.put(&acquaintance.encode());
            }
            Answer::Refused(why) => {
                out.put_u8(1);
                put_text(why, &mut out);
            }
            Answer::Later(why) => {
                out.put_u8(2);
                put_text(why, &mut out);
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Answer, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let kind = cursor.u8("the kind of an answer")?;
        let answer = match kind {
            0 => return Acquaintance::decode(cursor.rest()).map(Answer::Accepted),
            1 => Answer::Refused(text(&mut cursor, "a reason")?),
            2 => Answer::Later(text(&mut cursor, "a reason")?),
            _ => return Err(cursor.damaged("an answer of an unknown kind")),
        };
        ended(&cursor)?;
        Ok(answer)
    }
}

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It starts: it answers other nodes, and no clients yet.
    Starting,
    /// It serves clients.
    Serving,
    /// It serves clients no longer, or is about to stop.
    Leaving,
}

/// What a node says of itself when it is asked whether it lives, and when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pulse {
    pub(super) phase: Phase,
    /// The version of the schema that it shows.
    pub(super) schema: Uuid,
    pub(super) activity: Activity,
}

const PULSE_BYTES: usize = 35;
/// The busiest that a shard can be, in thousandths.
const BUSY_MAX: u16 = 1000;

impl Pulse {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PULSE_BYTES);
        out.put_u8(self.phase as u8);
        out.put(self.schema.as_bytes());
        let Activity { load_bytes, reads, writes, busy_permille } = self.activity;
        out.put_u64(load_bytes);
        out.put_u32(reads);
        out.put_u32(writes);
        debug_assert!(busy_permille <= BUSY_MAX, "one-form: {busy_permille} thousandths");
        out.put_u16(busy_permille);
        debug_assert!(out.len() == PULSE_BYTES, "one-form: {} bytes", out.len());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Pulse, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let phases = [Phase::Starting, Phase::Serving, Phase::Leaving];
        let phase = phases.get(usize::from(cursor.u8("a phase")?)).copied();
        let phase = phase.ok_or_else(|| cursor.damaged("a node of an unknown phase"))?;
        let schema = Uuid::from_bytes(cursor.array("the version of a schema")?);
        let activity = Activity {
            load_bytes: cursor.u64("the load of a node")?,
            reads: cursor.u32("the reads of a node")?,
            writes: cursor.u32("the writes of a node")?,
            busy_permille: cursor.u16("how busy a node is")?,
        };
        if BUSY_MAX < activity.busy_permille {
            return Err(cursor.damaged("a node that is busier than it can be"));
        }
        ended(&cursor)?;
        Ok(Pulse { phase, schema, activity })
    }
}

/// A node that wants to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applicant {
    pub(super) member: Member,
    /// The host id, or the address, of the node in whose place it comes; empty: of none.
    pub(super) replaces: String,
    /// The same of other nodes that are dead; none where it comes in nobody's place.
    pub(super) ignores: Vec<String>,
}

impl Applicant {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = encode_member(&self.member);
        let names = || self.ignores.iter().chain([&self.replaces]);
        debug_assert!(names().all(|name| name.len() < 256), "one-form: a long name of a node");
        // Nodes of versions that replace none, or ignore none, do not know of more.
        if !self.replaces.is_empty() {
            put_text(&self.replaces, &mut out);
            if !self.ignores.is_empty() {
                debug_assert!(self.ignores.len() <= CONTACTS_MAX, "few: too many dead nodes");
                out.put_u16(self.ignores.len() as u16);
                self.ignores.iter().for_each(|name| put_text(name, &mut out));
            }
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Applicant, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let member = member(&mut cursor)?;
        let replaces = match cursor.rest().is_empty() {
            true => String::new(),
            false => text(&mut cursor, "the node that is replaced")?,
        };
        let ignores = match cursor.rest().is_empty() {
            true => Vec::new(),
            false => (0..count(&mut cursor, "dead nodes")?)
                .map(|_| text(&mut cursor, "a dead node"))
                .collect::<Result<Vec<String>, Damaged>>()?,
        };
        ended(&cursor)?;
        let applicant = Applicant { member, replaces, ignores };
        match applicant.encode().len() == bytes.len() {
            true => Ok(applicant),
            false => Err(Damaged::new("a node without a name is replaced, or none ignored", 0)),
        }
    }
}

/// A node, as bytes.
fn encode_member(member: &Member) -> Vec<u8> {
    debug_assert!(member.tokens.len() <= CONTACTS_MAX, "few: {} tokens", member.tokens.len());
    let mut out = Vec::new();
    out.put(member.host_id.as_bytes());
    put_address(member.address, &mut out);
    put_address(SocketAddr::new(member.client_address, member.client_port.unwrap_or(0)), &mut out);
    for part in [&member.data_center, &member.rack, &member.release_version] {
        put_text(part, &mut out);
    }
    out.put_u16(member.shards);
    out.put_u16(member.tokens.len() as u16);
    member.tokens.iter().for_each(|token| out.put_i64(token.0));
    out.put_u16(member.features.len() as u16);
    member.features.iter().for_each(|feature| put_text(feature, &mut out));
    debug_assert!(0 < member.shards, "one-form: a node without shards");
    debug_assert!(member.tokens.is_sorted(), "one-form: tokens out of order");
    out
}

/// See [`encode_member`]. It is a normal one.
fn member(cursor: &mut Cursor<'_>) -> Result<Member, Damaged> {
    let host_id = Uuid::from_bytes(cursor.array("a host id")?);
    let address = address(cursor)?;
    let client = self::address(cursor)?;
    let data_center = text(cursor, "a data center")?;
    let rack = text(cursor, "a rack")?;
    let release_version = text(cursor, "a release")?;
    let shards = cursor.u16("the shards of a node")?;
    if host_id.is_nil() || shards == 0 || data_center.is_empty() || rack.is_empty() {
        return Err(cursor.damaged("a node without a name, a place, or shards"));
    }
    let tokens = (0..count(cursor, "tokens")?)
        .map(|_| cursor.i64("a token").map(Token))
        .collect::<Result<Vec<Token>, Damaged>>()?;
    if !tokens.is_sorted_by(|a, b| a < b) {
        return Err(cursor.damaged("tokens that do not ascend"));
    }
    let features = (0..count(cursor, "features")?)
        .map(|_| text(cursor, "a feature"))
        .collect::<Result<Vec<String>, Damaged>>()?;
    if !features.is_sorted_by(|a, b| a < b) {
        return Err(cursor.damaged("features that do not ascend"));
    }
    Ok(Member {
        host_id,
        state: MemberState::Normal,
        address,
        client_address: client.ip(),
        client_port: Some(client.port()).filter(|port| 0 < *port),
        data_center,
        rack,
        tokens,
        shards,
        release_version,
        features: BTreeSet::from_iter(features),
    })
}

fn put_contacts(contacts: &[Contact], out: &mut Vec<u8>) {
    let contacts = &contacts[..contacts.len().min(CONTACTS_MAX)];
    debug_assert!(contacts.len() <= usize::from(u16::MAX), "few: {} contacts", contacts.len());
    out.put_u16(contacts.len() as u16);
    for contact in contacts {
        out.put(contact.host_id.as_bytes());
        put_address(contact.address, out);
        out.put_u8(contact.is_seed as u8);
    }
}

fn contacts(cursor: &mut Cursor<'_>) -> Result<Vec<Contact>, Damaged> {
    let mut contacts = Vec::new();
    for _ in 0..count(cursor, "contacts")? {
        let host_id = Uuid::from_bytes(cursor.array("a host id")?);
        let address = address(cursor)?;
        let is_seed = match cursor.u8("whether a node is a seed")? {
            0 => false,
            1 => true,
            _ => return Err(cursor.damaged("a truth value is neither 0 nor 1")),
        };
        contacts.push(Contact { host_id, address, is_seed });
    }
    Ok(contacts)
}

fn count(cursor: &mut Cursor<'_>, what: &'static str) -> Result<usize, Damaged> {
    let count = usize::from(cursor.u16(what)?);
    if CONTACTS_MAX < count { Err(cursor.damaged("too many of something")) } else { Ok(count) }
}

fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.put_u8(4);
            out.put(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.put_u8(16);
            out.put(&ip.octets());
        }
    }
    out.put_u16(address.port());
}

fn address(cursor: &mut Cursor<'_>) -> Result<SocketAddr, Damaged> {
    let ip = match cursor.u8("the length of an address")? {
        4 => IpAddr::from(cursor.array::<4>("an address")?),
        16 => IpAddr::from(cursor.array::<16>("an address")?),
        _ => return Err(cursor.damaged("an address of neither 4 nor 16 bytes")),
    };
    Ok(SocketAddr::new(ip, cursor.u16("a port")?))
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    let mut end = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    debug_assert!(end <= text.len(), "one-form: more than the text");
    out.put_u16(end as u16);
    out.put(&text.as_bytes()[..end]);
}

fn text(cursor: &mut Cursor<'_>, what: &'static str) -> Result<String, Damaged> {
    let length = cursor.u16(what)?;
    let bytes = cursor.take(usize::from(length), what)?;
    let text = std::str::from_utf8(bytes).map_err(|_| cursor.damaged(what))?;
    Ok(text.to_owned())
}

fn ended(cursor: &Cursor<'_>) -> Result<(), Damaged> {
    match cursor.rest().is_empty() {
        true => Ok(()),
        false => Err(cursor.damaged("more than a message has")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contact() -> impl Strategy<Value = Contact> {
        let ip = prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from)
        ];
        (any::<u128>(), ip, any::<u16>(), any::<bool>()).prop_map(|(id, ip, port, is_seed)| {
            let (host_id, address) = (Uuid::from_u128(id), SocketAddr::new(ip, port));
            Contact { host_id, address, is_seed }
        })
    }

    fn acquaintance() -> impl Strategy<Value = Acquaintance> {
        let contacts = proptest::collection::vec(contact(), 0..5);
        (any::<u128>(), contacts).prop_map(|(group, contacts)| {
            let group = Some(Uuid::from_u128(group)).filter(|group| !group.is_nil());
            Acquaintance { group, contacts }
        })
    }

    fn any_member() -> impl Strategy<Value = Member> {
        let sets = (any::<BTreeSet<i64>>(), proptest::collection::btree_set("[a-z]{1,9}", 0..4));
        let texts = ("[a-z]{1,9}", "[a-z\u{e9}]{1,9}", ".{0,9}");
        (contact(), contact(), texts, 1u16.., sets).prop_map(|(at, client, texts, shards, sets)| {
            Member {
                host_id: Uuid::from_u128(at.host_id.as_u128() | 1),
                state: MemberState::Normal,
                address: at.address,
                client_address: client.address.ip(),
                client_port: Some(client.address.port()).filter(|port| 0 < *port),
                data_center: texts.0,
                rack: texts.1,
                tokens: sets.0.into_iter().map(Token).collect(),
                shards,
                release_version: texts.2,
                features: sets.1,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_said_is_heard(
            acquaintance in acquaintance(),
            member in any_member(),
            why in ".{0,99}",
            replaces in "[a-z0-9.:-]{0,40}",
            ignores in prop::collection::vec("[a-z0-9.:-]{0,40}", 0..4),
        ) {
            prop_assert_eq!(Acquaintance::decode(&acquaintance.encode()), Ok(acquaintance.clone()));
            let ignores = if replaces.is_empty() { Vec::new() } else { ignores };
            let applicant = Applicant { member, replaces, ignores };
            prop_assert_eq!(Applicant::decode(&applicant.encode()), Ok(applicant));
            let answers =
                [Answer::Accepted(acquaintance), Answer::Refused(why.clone()), Answer::Later(why)];
            for answer in answers {
                prop_assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
            }
            let activity = Activity { load_bytes: 9, reads: 8, writes: 7, busy_permille: 1000 };
            let pulse = Pulse { phase: Phase::Leaving, schema: Uuid::from_u128(7), activity };
            prop_assert_eq!(Pulse::decode(&pulse.encode()), Ok(pulse));
        }

        /// *one-form*
        #[test]
        fn any_bytes_have_one_form_or_are_damaged(
            member in any_member(),
            acquaintance in acquaintance(),
            place: prop::sample::Index,
            byte: u8,
            garbage: Vec<u8>,
            replaces in "[a-z]{0,3}",
            ignores in prop::collection::vec("[a-z]{0,2}", 0..3),
        ) {
            let applicant = Applicant { member, replaces, ignores };
            let mut changed = [applicant.encode(), Answer::Accepted(acquaintance).encode()];
            for bytes in &mut changed {
                let at = place.index(bytes.len());
                bytes[at] = byte;
            }
            for bytes in changed.into_iter().chain([garbage]) {
                if let Ok(applicant) = Applicant::decode(&bytes) {
                    prop_assert_eq!(applicant.encode(), &bytes[..]);
                }
                if let Ok(answer) = Answer::decode(&bytes) {
                    prop_assert_eq!(answer.encode(), &bytes[..]);
                }
                if let Ok(acquaintance) = Acquaintance::decode(&bytes) {
                    prop_assert_eq!(acquaintance.encode(), &bytes[..]);
                }
                if let Ok(pulse) = Pulse::decode(&bytes) {
                    prop_assert_eq!(pulse.encode(), &bytes[..]);
                }
            }
        }
    }
}
