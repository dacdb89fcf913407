//! The scheduling group of a connection, by its service level.
//!
//! The two loops of a connection check at each read, and before each write that takes long, which
//! group is theirs, and move there; a request runs in the group of the task that read it. So a
//! change of levels or of their roles takes effect with the next requests of open connections.
//!
//! Invariants
//!  - *counted-where-run*: requests are counted for the group that the connection is in.

use crate::connection::Connection;
use crate::tally::{Served, Tally};
use query::Workload;
use runtime::group::{self, Group};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

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

impl Connection {
    /// Moves the running task, one of the connection's own, to the group of its service level.
    pub(crate) async fn enter_group(&self) {
        let (group, membership) = (self.own_group(), self.membership());
        if group != membership.group.get() {
            membership.group.set(group);
            *membership.tally.borrow_mut() = self.tallies().of(group);
        }
        group::enter(group).await;
    }

    /// A request has been answered with so many bytes (*counted-where-run*).
    #[inline]
    pub(crate) fn count_answered(&self, opcode: u8, body_bytes: usize, bytes: usize) {
        let tallies = self.tallies();
        tallies.requests.set(tallies.requests.get() + 1);
        self.membership().tally.borrow().count(opcode, body_bytes, bytes);
    }

    /// What kind of work its requests are, if its service level says so.
    pub(crate) fn workload(&self) -> Option<Workload> {
        self.session.terms(self.cluster().access()).workload
    }

    /// The group that its next request runs in.
    pub(crate) fn own_group(&self) -> Group {
        self.session.group(self.cluster().access())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::opcode;

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
