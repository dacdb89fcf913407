//! Requests of a shard's clients by their scheduling group and kind: how many there were, and their
//! bytes and those of their answers.

use crate::frame::opcode;
use runtime::group::{self, Group};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What was counted of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of their bodies, decompressed.
    pub request_bytes: u64,
    /// Bytes of their answers before compression.
    pub response_bytes: u64,
}

/// The requests of a group.
#[derive(Debug, Default)]
pub(crate) struct Tally([Cell<Served>; 16]);

impl Tally {
    /// The kinds, as the protocol calls them.
    const KINDS: [(u8, &'static str); 8] = [
        (opcode::STARTUP, "STARTUP"),
        (opcode::AUTH_RESPONSE, "AUTH_RESPONSE"),
        (opcode::OPTIONS, "OPTIONS"),
        (opcode::QUERY, "QUERY"),
        (opcode::PREPARE, "PREPARE"),
        (opcode::EXECUTE, "EXECUTE"),
        (opcode::BATCH, "BATCH"),
        (opcode::REGISTER, "REGISTER"),
    ];

    /// A request has been answered; what is of no kind counts for none.
    #[inline]
    pub(crate) fn count(&self, opcode: u8, request_bytes: usize, response_bytes: usize) {
        let Some(cell) = self.0.get(usize::from(opcode)) else { return };
        let served = cell.get();
        cell.set(Served {
            requests: served.requests + 1,
            request_bytes: served.request_bytes + request_bytes as u64,
            response_bytes: served.response_bytes + response_bytes as u64,
        });
    }

    /// All kinds.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, Served)> {
        let of = |(opcode, name)| (name, self.0[usize::from(opcode)].get());
        Tally::KINDS.into_iter().map(of)
    }
}

/// The group that a connection is in, and where its requests are counted.
#[derive(Debug)]
pub(crate) struct Membership {
    group: Cell<Group>,
    tally: RefCell<Rc<Tally>>,
}

impl Membership {
    pub(crate) fn new(group: Group, tallies: &Tallies) -> Membership {
        Membership { group: Cell::new(group), tally: RefCell::new(tallies.of(group)) }
    }

    /// The connection is in that group from now on.
    pub(crate) fn enter(&self, group: Group, tallies: &Tallies) {
        if group != self.group.get() {
            self.group.set(group);
            *self.tally.borrow_mut() = tallies.of(group);
        }
    }
}

/// What is counted of each group of a shard.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    by_group: RefCell<BTreeMap<String, Rc<Tally>>>,
    requests: Cell<u64>,
}

impl Tallies {
    fn of(&self, group: Group) -> Rc<Tally> {
        let mut by_group = self.by_group.borrow_mut();
        // A group is retired while a connection that was in it has not moved yet.
        let name = group::name(group).unwrap_or_default();
        by_group.entry(name).or_default().clone()
    }

    /// A request has been answered, on a connection of that membership.
    #[inline]
    pub(crate) fn count(&self, of: &Membership, opcode: u8, body_bytes: usize, bytes: usize) {
        self.requests.set(self.requests.get() + 1);
        of.tally.borrow().count(opcode, body_bytes, bytes);
    }

    /// By group and kind; removed groups are forgotten.
    pub(crate) fn all(&self) -> Vec<(String, &'static str, Served)> {
        let mut by_group = self.by_group.borrow_mut();
        let known: Vec<String> = group::all_stats().into_iter().map(|(name, _)| name).collect();
        by_group.retain(|name, _| known.contains(name));
        let of = |(name, tally): (&String, &Rc<Tally>)| {
            let all = tally.all().map(|(kind, served)| (name.clone(), kind, served));
            all.collect::<Vec<_>>()
        };
        by_group.iter().flat_map(of).collect()
    }

    /// Requests that were answered, in whatever group.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_apart() {
        let tally = Tally::default();
        tally.count(opcode::EXECUTE, 10, 100);
        tally.count(opcode::EXECUTE, 5, 50);
        tally.count(opcode::BATCH, 1, 2);
        tally.count(0xff, 1, 1);
        let found: Vec<_> = tally.all().filter(|(_, served)| served.requests != 0).collect();
        let served = |requests, request_bytes, response_bytes| Served {
            requests,
            request_bytes,
            response_bytes,
        };
        assert_eq!(found, [("EXECUTE", served(2, 15, 150)), ("BATCH", served(1, 1, 2))]);
    }

    #[test]
    fn groups_are_counted_apart_and_forgotten() {
        runtime::sim::test(1, || async {
            let tallies = Tallies::default();
            let (a, b) = (group::create("sl:a", 1), group::create("sl:b", 1));
            tallies.of(a).count(opcode::QUERY, 1, 2);
            tallies.of(b).count(opcode::QUERY, 3, 4);
            tallies.of(b).count(opcode::QUERY, 3, 4);
            let shown = || {
                let all = tallies.all().into_iter();
                let all = all.filter(|(_, _, served)| served.requests != 0);
                let line = |(group, kind, served): (_, _, Served)| {
                    format!("{group} {kind} {}", served.requests)
                };
                all.map(line).collect::<Vec<_>>().join(", ")
            };
            assert_eq!(shown(), "sl:a QUERY 1, sl:b QUERY 2");
            group::retire(b);
            assert_eq!(shown(), "sl:a QUERY 1");
            assert_eq!(group::create("sl:c", 1), b);
            assert_eq!(tallies.of(b).all().map(|(_, it)| it.requests).sum::<u64>(), 0);
        });
    }
}
