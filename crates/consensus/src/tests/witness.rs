//! Who sees all nodes at once and says what is wrong.
//!
//!  - *one-log*: what nodes apply at an index is the same command, on all and for ever.
//!  - *exactly-once*: a node's state is the commands of all indices up to its place, each once.
//!  - *one-leader*: a term has one leader.

use super::machine::State;
use crate::engine::Role;
use crate::group::Status;
use crate::members::NodeId;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Witness {
    /// What was applied at each index.
    log: BTreeMap<u64, Vec<u8>>,
    /// The index up to which every command is known.
    known: u64,
    leaders: BTreeMap<u64, NodeId>,
    pub(super) wrong: Vec<String>,
}

impl Witness {
    /// A node's state after it applied something.
    pub(super) fn applied(&mut self, node: NodeId, state: &State) {
        let mut last = 0;
        for command in &state.commands {
            if command.index <= last {
                let index = command.index;
                self.wrong.push(format!("exactly-once: {node} applied {index} after {last}"));
            }
            last = command.index;
            let known = self.log.get(&command.index);
            match known {
                Some(bytes) if *bytes == command.bytes => {}
                Some(_) => self.wrong.push(format!("one-log: {node} differs at {last}")),
                None if command.index <= self.known => {
                    self.wrong.push(format!("one-log: {node} has a command at {last}, none other"));
                }
                None => {
                    self.log.insert(command.index, command.bytes.clone());
                }
            }
        }
        let should = self.log.range(..=state.applied).count();
        if should != state.commands.len() {
            let (has, at) = (state.commands.len(), state.applied);
            self.wrong.push(format!("exactly-once: {node} has {has} of {should} up to {at}"));
        }
        self.known = self.known.max(state.applied);
    }

    /// What a node says of itself.
    pub(super) fn status(&mut self, status: &Status) {
        if let Some(why) = &status.stopped {
            self.wrong.push(format!("{} stopped: {why}", status.me));
        }
        if status.role != Role::Leader {
            return;
        }
        let before = *self.leaders.entry(status.term).or_insert(status.me);
        if before != status.me {
            let (term, me) = (status.term, status.me);
            self.wrong.push(format!("one-leader: {before} and {me} in term {term}"));
        }
    }

    /// How many commands were applied at all.
    pub(super) fn count(&self) -> usize {
        self.log.len()
    }
}
