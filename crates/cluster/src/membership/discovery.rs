//! Which node makes the group, when several start at once for the first time. Pure.
//!
//! A node without a group asks its seeds, and whoever these know, for whom they know. Where
//! somebody belongs to a group it joins that one. Otherwise, once everybody that it knows has
//! answered, and nobody knows another one, the least by host id makes the group of those that
//! are their own seeds; where nobody is, of all. So a node makes no group behind the back of a
//! seed that started anew and has forgotten it.
//!
//! Invariants
//!  - *one-founder*: of nodes that have the same seeds one makes a group, whenever they start
//!    and whatever they forget by a crash. For who asks is known to who is asked: of two
//!    founders the later one would have asked the earlier one, or been asked by it, and so have
//!    known that it is less, or that there is a group.
//!  - *not-behind-backs*: a node that decides to make the group says from then on that there is
//!    one; and it decides only where nobody new has asked it since it began to ask.

use super::form::{Acquaintance, CONTACTS_MAX, Contact};
use model::Uuid;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a node without a group knows.
#[derive(Clone, Debug)]
pub(super) struct Known {
    me: Contact,
    /// By host id.
    contacts: BTreeMap<Uuid, Contact>,
    /// Where nodes should be of which nothing else is known.
    seeds: Vec<SocketAddr>,
    /// The group that this node has decided to make.
    founds: Option<Uuid>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask this node to be let into the group.
    Join(Contact, Uuid),
    /// Make the group.
    Found,
    /// Ask again in a while.
    Again(Waits),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// An address at which nobody answers.
    For(SocketAddr),
    /// Another node, to make the group.
    Founder(Uuid),
    /// Nodes have become known.
    Others,
}

/// The answers of a round: from where, who, and what.
pub(super) type Answers = Vec<(SocketAddr, Option<(Contact, Acquaintance)>)>;

impl Known {
    /// This node, and the seeds that it was told of; without any it is its own.
    pub(super) fn new(host_id: Uuid, address: SocketAddr, mut seeds: Vec<SocketAddr>) -> Known {
        let is_seed = seeds.is_empty() || seeds.contains(&address);
        assert!(!host_id.is_nil(), "one-founder: a node without a name");
        let me = Contact { host_id, address, is_seed };
        seeds.retain(|seed| *seed != address);
        Known { me, contacts: BTreeMap::new(), seeds, founds: None }
    }

    /// What this node says to others.
    pub(super) fn said(&self) -> Acquaintance {
        let contacts = [self.me].into_iter().chain(self.contacts.values().copied()).collect();
        let said = Acquaintance { group: self.founds, contacts };
        debug_assert!(said.contacts[0] == self.me, "one-founder: who speaks is not known");
        said
    }

    /// Takes what another node said; whether somebody is new.
    pub(super) fn hear(&mut self, said: &Acquaintance) -> bool {
        let mut news = false;
        for contact in said.contacts.iter().filter(|it| it.host_id != self.me.host_id) {
            // What others say is bounded, whoever they are.
            if self.contacts.len() < CONTACTS_MAX || self.contacts.contains_key(&contact.host_id) {
                news |= self.contacts.insert(contact.host_id, *contact) != Some(*contact);
            }
        }
        let (me, count) = (self.me.host_id, self.contacts.len());
        debug_assert!(count <= CONTACTS_MAX, "one-founder: {count} nodes are known");
        debug_assert!(!self.contacts.contains_key(&me), "one-founder: {me} is its own peer");
        news
    }

    /// Whom to ask now: seeds that are nobody's known address, and all that are known.
    pub(super) fn to_ask(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = self.contacts.values().map(|it| it.address).collect();
        addresses.extend(&self.seeds);
        addresses.retain(|address| *address != self.me.address);
        addresses.sort();
        addresses.dedup();
        let all = self.contacts.values().all(|it| addresses.contains(&it.address));
        debug_assert!(all, "one-founder: who is known is not asked");
        addresses
    }

    /// A seed turned out to be this node, under another address.
    pub(super) fn is_oneself(&mut self, seed: SocketAddr) {
        self.seeds.retain(|other| *other != seed);
        self.me.is_seed = true;
        debug_assert!(!self.to_ask().contains(&seed), "one-founder: a node asks itself");
    }

    /// What follows from the answers to all that [`Known::to_ask`] named; `asked` is what this node
    /// knew then.
    pub(super) fn decide(&mut self, asked: &Acquaintance, answers: &Answers, group: Uuid) -> Step {
        assert!(self.founds.is_none(), "one-founder: {} founds already", self.me.host_id);
        let mut news = self.said() != *asked;
        for (contact, said) in answers.iter().filter_map(|(_, answer)| answer.as_ref()) {
            if let Some(group) = said.group {
                return Step::Join(*contact, group);
            }
            news |= self.hear(said);
        }
        if let Some((silent, _)) = answers.iter().find(|(_, answer)| answer.is_none()) {
            return Step::Again(Waits::For(*silent));
        }
        if news {
            return Step::Again(Waits::Others);
        }
        let all = || self.contacts.values().chain([&self.me]);
        let by_seeds = all().filter(|contact| contact.is_seed).map(|contact| contact.host_id).min();
        let founder = by_seeds.or_else(|| all().map(|contact| contact.host_id).min());
        match founder.filter(|founder| *founder != self.me.host_id) {
            Some(founder) => Step::Again(Waits::Founder(founder)),
            None => {
                self.founds = Some(group);
                Step::Found
            }
        }
    }
}

#[cfg(test)]
mod tests;
