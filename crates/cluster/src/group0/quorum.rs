//! What is said of an operation of the group that does not end in time, and how long that is.

use crate::peers::number;
use crate::registry::Cluster;
use crate::settings::{Live, Settings};
use consensus::{Group, NodeId, Unanswered};
use std::time::Duration;

/// How long an operation may take: an option that changes while the node runs.
#[derive(Clone, Debug)]
pub struct CommandTime(Live<i64>);

const OPTION: &str = "group0_raft_op_timeout_in_ms";
const MILLIS_MAX: i64 = 24 * 3600 * 1000;

fn possible(millis: &i64) -> Result<(), String> {
    match millis {
        1..=MILLIS_MAX => Ok(()),
        _ => Err(format!("not between 1 and {MILLIS_MAX}")),
    }
}

impl CommandTime {
    /// Registers the option; for [`Settings::refused`], too.
    pub fn register(settings: &Settings, default: Duration) -> CommandTime {
        let millis = i64::try_from(default.as_millis()).unwrap_or(MILLIS_MAX).clamp(1, MILLIS_MAX);
        CommandTime(settings.register(OPTION, millis, possible))
    }

    pub fn get(&self) -> Duration {
        let millis = self.0.get();
        debug_assert!((1..=MILLIS_MAX).contains(&millis), "an operation of {millis} ms");
        Duration::from_millis(millis.unsigned_abs())
    }
}

/// Why an operation has no answer, in the words that users know where too few nodes are alive.
pub(crate) fn unanswered(
    operation: &str,
    why: &Unanswered,
    group: &Group,
    cluster: &Cluster,
) -> String {
    let topology = cluster.topology();
    let is_alive = |node: NodeId| {
        let known = topology.members().find(|member| number(member.host_id) == node);
        known.is_some_and(|member| cluster.is_alive(member.host_id))
    };
    match why {
        Unanswered::Refused | Unanswered::Uncertain => {
            let lost = no_quorum(operation, &group.status().members.voters, is_alive);
            lost.map_or_else(|| why.to_string(), |lost| format!("{why}: {lost}"))
        }
        Unanswered::TooLarge { .. } | Unanswered::Stopped => why.to_string(),
    }
}

fn no_quorum(
    operation: &str,
    voters: &[NodeId],
    is_alive: impl Fn(NodeId) -> bool,
) -> Option<String> {
    let (all, alive) = (voters.len(), voters.iter().filter(|node| is_alive(**node)).count());
    debug_assert!(alive <= all, "{alive} of {all} voters");
    (alive <= all / 2).then(|| {
        format!(
            "raft operation [{operation}] timed out, there is no raft quorum, total voters count \
             {all}, alive voters count {alive}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_voters_are_no_majority() {
        let voters: Vec<NodeId> = (1..=4).map(NodeId).collect();
        let said = |alive: u64| no_quorum("read_barrier", &voters, |node| node.0 <= alive);
        let expected = "raft operation [read_barrier] timed out, there is no raft quorum, total \
                        voters count 4, alive voters count 2";
        assert_eq!(said(2).as_deref(), Some(expected));
        assert_eq!(said(3), None);
        let one = no_quorum("add_entry", &voters[..1], |_| true);
        assert_eq!(one, None, "a node alone is a majority");
    }
}
