//! A group of one node on the log: what was acknowledged is applied, crash after crash.

use super::machine::{GROUP, SEGMENT_BYTES, config};
use crate::boot::boot;
use crate::group0::log::{GroupLog, command_bytes_max};
use consensus::group::{Parts, Start};
use consensus::traits::{Command, Pieces, Restore};
use consensus::{Class, Failed, Group, Local, Machine, NodeId, Options, Transport};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use storage::Storage;
use testkit::Fault;
use testkit::rounds::{Rounds, Workload};

const ME: NodeId = NodeId(7);
const LONG: Duration = Duration::from_secs(20);

/// A state that no crash can take.
#[derive(Default)]
struct Applied {
    commands: RefCell<Vec<Vec<u8>>>,
    place: Cell<u64>,
}

impl Machine for Applied {
    fn durable(&self) -> u64 {
        self.place.get()
    }
    fn apply<'a>(&'a self, commands: &'a [Command], applied: u64) -> Local<'a, Result<(), Failed>> {
        let new = commands.iter().map(|command| command.bytes.clone());
        self.commands.borrow_mut().extend(new);
        self.place.set(applied);
        Box::pin(async { Ok(()) })
    }
    fn snapshot(&self) -> Local<'_, Result<Box<dyn Pieces>, Failed>> {
        Box::pin(async { Err(Failed("nobody asks for it".into())) })
    }
    fn restore(&self) -> Local<'_, Result<Box<dyn Restore>, Failed>> {
        Box::pin(async { Err(Failed("nobody sends one".into())) })
    }
}

struct Alone;

impl Transport for Alone {
    fn send(&self, to: NodeId, _: Class, _: Vec<u8>) {
        panic!("a message to {to} of a group of one");
    }
}

#[derive(Default)]
struct Proposals {
    machine: Rc<Applied>,
    attempted: Cell<u32>,
    acknowledged: RefCell<Vec<u32>>,
}

fn command(number: u32) -> Vec<u8> {
    let bytes = if number.is_multiple_of(20) { 100_000 } else { 200 };
    let mut command = number.to_be_bytes().to_vec();
    command.resize(bytes, 9);
    command
}

impl Workload for Proposals {
    async fn start(&self) {
        boot(config()).await.expect("a start");
        let mut options = Options::new(command_bytes_max(SEGMENT_BYTES));
        (options.cut_entries, options.trailing_entries) = (30, 10);
        let log = Rc::new(GroupLog::new(runtime::local::get::<Storage>(), GROUP));
        let machine = self.machine.clone();
        let parts = Parts { me: ME, options, log, machine, transport: Rc::new(Alone) };
        let group = Group::start(parts, Start::New).await.expect("a group");
        runtime::local::set(Rc::new(group));
    }

    async fn check(&self) -> Result<(), String> {
        let group = runtime::local::get::<Group>();
        group.read_barrier(LONG).await.map_err(|unanswered| unanswered.to_string())?;
        let commands = self.machine.commands.borrow();
        let mut found: Vec<_> = (commands.iter())
            .map(|bytes| u32::from_be_bytes(*bytes.first_chunk().expect("a number")))
            .collect();
        if commands.iter().zip(&found).any(|(bytes, number)| *bytes != command(*number)) {
            return Err("a command that nobody proposed".to_owned());
        }
        found.dedup();
        let acknowledged = self.acknowledged.borrow();
        let lost = acknowledged.iter().find(|number| found.binary_search(number).is_err());
        lost.map_or(Ok(()), |number| Err(format!("command {number} is lost")))
    }

    async fn work(&self) {
        let group = runtime::local::get::<Group>();
        loop {
            let number = self.attempted.get() + 1;
            self.attempted.set(number);
            group.propose(command(number), LONG).await.expect("a command that is applied");
            self.acknowledged.borrow_mut().push(number);
        }
    }
}

#[test]
fn a_group_of_one_keeps_what_it_acknowledged() {
    const FAULTS: &[Fault] = &[Fault::Clock(3_600_000_000), Fault::Clock(-3_600_000_000)];
    for seed in 0..6 {
        let most = Duration::from_millis(400);
        let rounds = Rounds { faults: FAULTS, most, ..Rounds::new(seed, 1) };
        let done =
            rounds.run(Proposals::default()).unwrap_or_else(|violation| panic!("{violation}"));
        let acknowledged = done.acknowledged.borrow().len();
        assert!(60 < acknowledged, "seed {seed}: {acknowledged} commands");
    }
}
