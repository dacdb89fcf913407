//! What nodes have to be able to do before others rely on it, by name. Pure.
//!
//! A node tells in the topology what it can do. When all nodes can do something, whoever leads
//! their group enables it, for ever ([`crate::topology`], *all-have-it*, *never-less*); what is
//! written or sent in a new form asks first whether that is enabled. A node that lacks what is
//! enabled can neither join nor start.
//!
//! A name that was released stays: older nodes know it. One that no supported release lacks any
//! more may be left out here together with the question for it, a release later.

use std::collections::BTreeSet;

/// Tables are divided into tablets, with one map on all nodes.
pub const TABLETS: &str = "TABLETS";
/// Conditional writes, by Paxos between the replicas of a partition.
pub const LWT: &str = "LWT";
/// Missed writes are kept by who coordinated them, and sent later.
pub const HINTED_HANDOFF: &str = "HINTED_HANDOFF";
/// The group of all nodes has generations, and nodes are declared lost
/// (docs/cluster.md, "When the majority is lost").
pub const GROUP0_GENERATIONS: &str = "GROUP0_GENERATIONS";

/// Replicas count and reject requests to partitions of tables that limit them.
pub const PER_PARTITION_RATE_LIMIT: &str = "PER_PARTITION_RATE_LIMIT";

/// A write goes to another data centre once, and a replica there passes it on.
pub const RELAYED_WRITES: &str = "RELAYED_WRITES";

/// Nodes join and leave where there are data (docs/cluster.md, "Nodes that come and go").
pub const MOVES: &str = "MOVES";

/// What moves is copied as files where that can be (docs/cluster.md, "Nodes that come and go").
pub const MOVE_FILES: &str = "MOVE_FILES";

/// What is in the cache of a node that gives a tablet away is read ahead by the node that gets it
/// (docs/cluster.md, "Nodes that come and go").
pub const MOVE_WARM: &str = "MOVE_WARM";

/// Keyspaces with tablets get any number of copies at once: levels count what each tablet has
/// (docs/cluster.md, "Other numbers of copies").
pub const KEYSPACE_MULTI_RF_CHANGE: &str = "KEYSPACE_MULTI_RF_CHANGE";

/// Hints are sent with the time at which their writes were coordinated (docs/cluster.md, "Hints").
pub const HINT_TIMES: &str = "HINT_TIMES";

/// Ranges of a repair take turns on their replicas, and what replicas are known to agree on is not
/// read (docs/cluster.md, "Repair").
pub const REPAIR_TURNS: &str = "REPAIR_TURNS";

/// Hints and logged batches are sent before a repair, and replicas remember what was repaired
/// (docs/cluster.md, "Repair").
pub const REPAIR_HISTORY: &str = "REPAIR_HISTORY";

/// It is noted with a tablet when it was repaired last (docs/cluster.md, "Repair").
pub const TABLET_REPAIR_TIME: &str = "TABLET_REPAIR_TIME";

/// Tables get more tablets, or fewer, while they are in use; nodes tell what their tablets hold
/// (docs/cluster.md, "How many tablets").
pub const TABLET_RESIZE: &str = "TABLET_RESIZE";

/// Tablets go from shard to shard of a node (docs/cluster.md, "From shard to shard").
pub const TABLET_SHARDS: &str = "TABLET_SHARDS";

/// Tables have views and indexes.
pub const VIEWS: &str = "VIEWS";

/// Tables have logs of their changes (docs/derived.md).
pub const CDC: &str = "CDC";

/// Nodes take snapshots of tables for each other, and put their rows into other tables
/// (docs/alternator.md, "Backups").
pub const BACKUPS: &str = "BACKUPS";

/// Requests of a coordinator to one replica travel as one message.
pub const REQUESTS_TOGETHER: &str = "REQUESTS_TOGETHER";

/// Keyspaces without tablets are given some (docs/cluster.md, "From the ring to tablets").
pub const VNODES_TO_TABLETS: &str = "VNODES_TO_TABLETS";

/// All that this version can do, in the order of their names.
pub const ALL: &[&str] = &[
    BACKUPS,
    CDC,
    GROUP0_GENERATIONS,
    HINTED_HANDOFF,
    HINT_TIMES,
    KEYSPACE_MULTI_RF_CHANGE,
    LWT,
    MOVES,
    MOVE_FILES,
    MOVE_WARM,
    PER_PARTITION_RATE_LIMIT,
    RELAYED_WRITES,
    REPAIR_HISTORY,
    REPAIR_TURNS,
    REQUESTS_TOGETHER,
    TABLETS,
    TABLET_REPAIR_TIME,
    TABLET_RESIZE,
    TABLET_SHARDS,
    VIEWS,
    VNODES_TO_TABLETS,
];

/// What a node can do that was told to do without some (which tests do, and who tries an upgrade).
pub fn without(withheld: &BTreeSet<String>) -> BTreeSet<String> {
    let all = ALL.iter().map(|name| (*name).to_owned());
    all.filter(|name| !withheld.contains(name)).collect()
}

/// As tables and drivers have it.
pub fn joined(names: &BTreeSet<String>) -> String {
    debug_assert!(names.iter().all(|name| !name.contains(',')), "a name with a comma: {names:?}");
    names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_in_order_and_may_be_withheld() {
        assert!(ALL.is_sorted_by(|a, b| a < b), "{ALL:?}");
        let some = without(&[LWT.to_owned(), "UNKNOWN".to_owned()].into());
        let names = "BACKUPS,CDC,GROUP0_GENERATIONS,HINTED_HANDOFF,HINT_TIMES,\
                     KEYSPACE_MULTI_RF_CHANGE,MOVES,MOVE_FILES,MOVE_WARM,\
                     PER_PARTITION_RATE_LIMIT,RELAYED_WRITES,REPAIR_HISTORY,REPAIR_TURNS,\
                     REQUESTS_TOGETHER,TABLETS,TABLET_REPAIR_TIME,TABLET_RESIZE,\
                     TABLET_SHARDS,VIEWS,VNODES_TO_TABLETS";
        assert_eq!(joined(&some), names);
    }
}
