//! The commands, by subject.

mod backup;
mod compactions;
mod info;
mod network;
mod nodes;
mod repair;
mod ring;
mod scrub;
mod snapshots;
mod sstables;
mod status;
mod switches;
mod tables;
mod tablets;
mod tasks;
mod top;
mod upkeep;

use crate::entry::Entry;

const GROUPS: &[&[Entry]] = &[
    status::COMMANDS,
    ring::COMMANDS,
    info::COMMANDS,
    nodes::COMMANDS,
    network::COMMANDS,
    switches::COMMANDS,
    upkeep::COMMANDS,
    scrub::COMMANDS,
    compactions::COMMANDS,
    tables::COMMANDS,
    top::COMMANDS,
    sstables::COMMANDS,
    snapshots::COMMANDS,
    backup::COMMANDS,
    repair::COMMANDS,
    tablets::COMMANDS,
    tasks::COMMANDS,
];

/// All of them. `help` is answered by the command line itself.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    GROUPS.iter().copied().flatten()
}
