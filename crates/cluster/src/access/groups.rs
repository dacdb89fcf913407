//! Service levels as scheduling groups: `sl:NAME` for each level, on every shard.
//!
//! Invariants
//!  - *one-per-level*: a shard that shows a level has its group, with the level's shares;
//!    sessions without a level are in [`group::STATEMENT`], which is called `sl:default`.
//!  - *retired-by-all*: the group of a dropped level is retired when no shard shows it any
//!    longer, so no two levels ever share one.

use super::Access;
use crate::traffic::Traffic;
use auth::State;
use auth::level::{COUNT_MAX, DRIVER, SHARES};
use runtime::group::{self, Group};
use std::collections::BTreeMap;

/// Levels with a group of their own at most, that of drivers among them.
const GROUPS_MAX: usize = COUNT_MAX + 1;

/// The groups of the levels that a shard shows.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, Group>);

impl Groups {
    /// The group of a level, if there is such a level.
    pub(crate) fn get(&self, level: &str) -> Option<Group> {
        self.0.get(level).copied()
    }

    /// Makes the groups of new levels and gives all their shares (*one-per-level*); the groups of
    /// dropped levels, which are still to be retired. Rows that were written by other means
    /// than statements may be of more levels than there is room for.
    #[must_use]
    pub(crate) fn arrange(&mut self, state: &State) -> Vec<Group> {
        let gone = self.0.extract_if(.., |name, _| state.level(name).is_none());
        let gone: Vec<Group> = gone.map(|(_, group)| group).collect();
        for (name, level) in state.levels() {
            let shares = level.shares.unwrap_or(SHARES);
            if let Some(group) = self.0.get(name) {
                group::set_shares(*group, shares);
            } else if self.0.len() < GROUPS_MAX {
                let group = group::create(&format!("sl:{name}"), shares);
                Traffic::of_shard().began(group);
                self.0.insert(name.to_owned(), group);
            } else {
                tracing::warn!(
                    target: "auth",
                    "service level {name} has no scheduling group of its own: the limit of \
                     {GROUPS_MAX} is reached; its requests run in sl:default"
                );
            }
        }
        let count = self.0.len();
        assert!(count <= GROUPS_MAX, "one-per-level: {count} groups");
        let shown = self.0.keys().all(|name| state.level(name).is_some());
        debug_assert!(shown, "one-per-level: a group of no level");
        let apart = self.0.values().all(|group| !gone.contains(group));
        debug_assert!(apart, "retired-by-all: a level has a group that is to be retired");
        debug_assert!(count <= state.levels().count(), "one-per-level: more groups than levels");
        gone
    }
}

impl Access {
    /// The scheduling group of a level; `None`: there is no such level.
    pub fn group_of(&self, level: &str) -> Option<Group> {
        self.groups.borrow().get(level)
    }

    /// That of the level of drivers.
    pub fn group_of_driver(&self) -> Option<Group> {
        self.group_of(DRIVER)
    }

    /// See [`Groups::arrange`].
    #[must_use]
    pub(crate) fn arrange_groups(&self) -> Vec<Group> {
        self.groups.borrow_mut().arrange(&self.state())
    }
}

/// Gives up groups that no shard has any longer; `gone` is what each shard says
/// (*retired-by-all*).
pub(crate) fn retire(gone: Vec<Vec<Group>>) {
    let mut all: Vec<Group> = Vec::new();
    for group in gone.into_iter().flatten() {
        if !all.contains(&group) {
            all.push(group);
        }
    }
    let own = all.iter().all(|group| *group != group::STATEMENT);
    assert!(own, "retired-by-all: the group of sessions without a level");
    all.into_iter().for_each(group::retire);
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::{Change, ServiceLevel};

    fn level(name: &str, shares: Option<u32>) -> Change {
        let level = Some(ServiceLevel { shares, ..ServiceLevel::default() });
        Change::Level { name: name.to_owned(), level }
    }

    fn dropped(name: &str) -> Change {
        Change::Level { name: name.to_owned(), level: None }
    }

    /// The groups of levels with their shares.
    fn shown() -> String {
        let groups = group::all_stats().into_iter();
        let groups = groups.filter(|(name, _)| name.starts_with("sl:") && name != "sl:default");
        let shown = groups.map(|(name, stats)| format!("{} {}", &name[3..], stats.shares));
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn groups_follow_the_levels() {
        runtime::sim::test(1, || async {
            let (mut groups, mut state) = (Groups::default(), State::default());
            let mut step = |changes: Vec<Change>, expected: &str| {
                changes.into_iter().for_each(|change| state.apply(change));
                let gone = groups.arrange(&state);
                retire(vec![gone.clone(), gone]);
                assert_eq!(shown(), expected);
            };
            step(vec![level("a", Some(100)), level("b", None)], "a 100, b 1000");
            step(vec![level("a", Some(7))], "a 7, b 1000");
            // Who comes takes the number of who goes, later.
            step(vec![dropped("a"), level("c", Some(3))], "b 1000, c 3");
            step(vec![level("d", Some(4))], "d 4, b 1000, c 3");
            step(vec![dropped("b"), dropped("c"), dropped("d")], "");
            // However many rows there are.
            let many = (0..2 * GROUPS_MAX).map(|at| level(&format!("m{at:02}"), None)).collect();
            let names: Vec<_> = (0..GROUPS_MAX).map(|at| format!("m{at:02} 1000")).collect();
            step(many, &names.join(", "));
        });
    }
}
