//! A client on each node, which reads and changes one register, and writes down what it saw.

use super::machine::TestMachine;
use crate::group::Group;
use crate::once::{Command, History, Outcome, StateId, change};
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use testkit::linear::{Kind, Operation};

#[derive(Clone, Default)]
pub(super) struct Client {
    operations: Rc<RefCell<Vec<Operation>>>,
    next: Rc<Cell<u64>>,
    stopped: Rc<Cell<bool>>,
}

/// The register is the last state's id.
fn value_of(id: StateId) -> u64 {
    let bytes = id.0[8..].try_into().expect("eight bytes");
    u64::from_be_bytes(bytes)
}

fn id_of(value: u64) -> StateId {
    StateId((value as u128).to_be_bytes())
}

impl Client {
    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    pub(super) fn operations(&self) -> Vec<Operation> {
        self.operations.borrow().clone()
    }

    fn begin(&self, kind: Kind) -> usize {
        let began = Instant::now().as_nanos();
        let mut operations = self.operations.borrow_mut();
        operations.push(Operation { kind, began, ended: None });
        operations.len() - 1
    }

    fn end(&self, at: usize, kind: Kind) {
        let ended = Some(Instant::now().as_nanos());
        let operation = &mut self.operations.borrow_mut()[at];
        (operation.kind, operation.ended) = (kind, ended);
    }

    /// Reads and changes, until it is stopped.
    pub(super) async fn run(&self, group: &Group, machine: &Rc<TestMachine>) {
        while !self.stopped.get() {
            let pause = runtime::with_prng(|prng| prng.between(1_000, 400_000));
            sleep(Duration::from_micros(pause)).await;
            let within = Duration::from_millis(runtime::with_prng(|prng| prng.between(50, 4_000)));
            let read = self.begin(Kind::Read(u64::MAX));
            if group.read_barrier(within).await.is_err() {
                continue;
            }
            let last = machine.last();
            self.end(read, Kind::Read(value_of(last)));
            if runtime::with_prng(|prng| prng.one_in(3)) {
                continue;
            }
            self.next.set(self.next.get() + 1);
            let (from, to) = (value_of(last), self.next.get());
            let kind = |took_effect| Kind::Change { from, to, took_effect };
            let at = self.begin(kind(None));
            let command =
                Command { prev: last, new: id_of(to), payload: to.to_be_bytes().to_vec() };
            match change(group, &**machine, &command, within).await {
                Outcome::Applied => self.end(at, kind(Some(true))),
                Outcome::Lost => self.end(at, kind(Some(false))),
                Outcome::Uncertain => {}
                // Not proposed: it can take no effect, whatever the register has.
                Outcome::Refused(_) => {
                    self.end(at, Kind::Change { from: u64::MAX, to, took_effect: None })
                }
            }
        }
    }
}
