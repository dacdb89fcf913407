//! A log that begins anew with what another one has: the first step of a new generation of a group.
//! Pure.
//!
//! A group that has lost its majority for ever cannot change its members by its log. Those who are
//! left agree by other means on one of them (docs/cluster.md, "When the majority is lost"), and
//! that one begins another group: with the state that its machine has, the commands of its old log
//! that were not applied yet, and the members that are left.
//!
//! Invariants
//!  - *all-of-the-old*: the new log has every command of the old one that the machine has not, in
//!    the order of that log; nothing in it is committed by that alone.
//!  - *own-members*: changes of members of the old log have no part in the new one.

use crate::entry::{Cut, Entry, Kind};
use crate::members::{Members, NodeId};
use crate::traits::{Change, Hard, Loaded};

/// The term in which a log that begins anew begins.
const FIRST_TERM: u64 = 1;

/// The last entry of a log, by term and index, where the machine has durably what is up to
/// `durable`: of two logs the later one has all that was ever committed and is in the other.
pub fn last(loaded: &Loaded, durable: u64) -> (u64, u64) {
    let cut = begin(loaded, durable);
    let after = loaded.entries.last().filter(|entry| cut.index < entry.index);
    let last = after.map_or((cut.term, cut.index), |entry| (entry.term, entry.index));
    debug_assert!(last.1 == 0 || 0 < last.0, "counted-from-one: an entry without a term");
    last
}

/// Where a log begins: a snapshot may have been taken over that it was not told of any more.
fn begin(loaded: &Loaded, durable: u64) -> Cut {
    let taken = loaded.staged.as_ref().filter(|staged| staged.index <= durable);
    taken.or(loaded.cut.as_ref()).cloned().unwrap_or_default()
}

/// What a log is begun with after `base`, where its machine is said to be, by the node whose old
/// log and machine are these. The members all vote.
pub fn begin_anew(old: Loaded, durable: u64, base: u64, mut members: Vec<NodeId>) -> Change {
    members.sort();
    members.dedup();
    assert!(!members.is_empty(), "own-members: a group of nobody");
    let cut = begin(&old, durable);
    let from = cut.index.max(durable);
    assert!(last(&old, durable).1 < base, "all-of-the-old: {base} is within the old log");
    let fresh = |entry: &Entry| {
        from < entry.index && entry.kind == Kind::Command && !entry.origin.is_empty()
    };
    let commands = old.entries.into_iter().filter(fresh).zip(base + 1..);
    let entries = commands.map(|(entry, index)| Entry { index, term: FIRST_TERM, ..entry });
    Change {
        install: Some(Cut {
            index: base,
            term: FIRST_TERM,
            members: Members { voters: members, ..Members::default() },
        }),
        entries: entries.collect(),
        hard: Some(Hard { term: FIRST_TERM, vote: 0, commit: base }),
        ..Change::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, kind: Kind, data: &[u8]) -> Entry {
        // A leader's own entry has neither an origin nor data.
        Entry { index, term, kind, origin: data.to_vec(), data: data.to_vec() }
    }

    fn old() -> Loaded {
        let alone = |node| Members { voters: vec![NodeId(node)], ..Members::default() };
        Loaded {
            hard: Hard { term: 9, vote: 7, commit: 5 },
            cut: Some(Cut { index: 3, term: 2, members: alone(7) }),
            staged: None,
            entries: vec![
                entry(4, 2, Kind::Command, b"a"),
                entry(5, 4, Kind::Command, b""),
                entry(6, 4, Kind::Members, &crate::entry::encode_moves(&[])),
                entry(7, 4, Kind::Command, b"b"),
                entry(8, 8, Kind::Command, b"c"),
            ],
        }
    }

    #[test]
    fn the_new_log_has_what_the_machine_has_not() {
        let check = |durable, expected: &[(u64, &[u8])]| {
            let change = begin_anew(old(), durable, 100, vec![NodeId(3), NodeId(2), NodeId(3)]);
            let found: Vec<(u64, &[u8])> =
                change.entries.iter().map(|entry| (entry.index, &entry.data[..])).collect();
            assert_eq!(found, expected, "from {durable}");
            let cut = change.install.expect("it begins");
            assert_eq!((cut.index, cut.members.voters), (100, vec![NodeId(2), NodeId(3)]));
            assert_eq!(change.hard, Some(Hard { term: 1, vote: 0, commit: 100 }));
        };
        check(3, &[(101, b"a"), (102, b"b"), (103, b"c")]);
        check(4, &[(101, b"b"), (102, b"c")]);
        check(8, &[]);
        assert_eq!(last(&old(), 3), (8, 8));
        assert_eq!(last(&Loaded::default(), 0), (0, 0));
    }

    /// A snapshot that the machine took over, and one that it did not.
    #[test]
    fn a_snapshot_that_the_machine_has_is_where_the_log_begins() {
        let staged = Cut { index: 20, term: 8, members: Members::alone(NodeId(7)) };
        let loaded = Loaded { staged: Some(staged), ..old() };
        assert_eq!(last(&loaded, 20), (8, 20));
        assert_eq!(last(&loaded, 5), (8, 8));
        assert!(begin_anew(loaded.clone(), 20, 100, vec![NodeId(1)]).entries.is_empty());
        assert_eq!(begin_anew(loaded, 5, 100, vec![NodeId(1)]).entries.len(), 2);
    }
}
