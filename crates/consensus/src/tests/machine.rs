//! A machine that keeps every command that it was given, and tells a witness.

use super::witness::Witness;
use crate::members::NodeId;
use crate::once::{self, History, StateId, Verdict};
use crate::traits::{Command, Failed, Local, Machine, Pieces, Restore};
use runtime::io::fs;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use stdx::{Cursor, Damaged, Put};

const PATH: &str = "/raft/state";

pub(super) struct TestMachine {
    me: NodeId,
    witness: Rc<RefCell<Witness>>,
    durable: Rc<Cell<u64>>,
    pub(super) state: Rc<RefCell<State>>,
}

/// All that was applied.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) applied: u64,
    pub(super) commands: Vec<Command>,
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.applied);
        for command in &self.commands {
            out.put_u64(command.index);
            out.put_u32_bytes(&command.bytes);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<State, Damaged> {
        let mut cursor = Cursor::new(bytes);
        let mut state = State { applied: cursor.u64("applied")?, commands: Vec::new() };
        while !cursor.is_empty() {
            let index = cursor.u64("index")?;
            let bytes = cursor.u32_bytes("command")?.to_vec();
            state.commands.push(Command { index, bytes });
        }
        Ok(state)
    }
}

impl State {
    /// The ids of the commands that took effect, in order.
    fn ids(&self) -> Vec<StateId> {
        let mut ids = vec![StateId::default()];
        for command in &self.commands {
            let Ok(command) = once::Command::decode(&command.bytes) else { continue };
            if command.judge(ids[ids.len() - 1]) == Verdict::Apply {
                ids.push(command.new);
            }
        }
        ids
    }
}

impl History for TestMachine {
    fn last(&self) -> StateId {
        *self.state.borrow().ids().last().expect("the first")
    }

    fn has(&self, id: StateId) -> bool {
        self.state.borrow().ids().contains(&id)
    }
}

impl TestMachine {
    pub(super) async fn open(me: NodeId, witness: Rc<RefCell<Witness>>) -> TestMachine {
        let mut state = State::default();
        if fs::exists(PATH).await.unwrap() {
            state = State::decode(&fs::read_file(PATH).await.unwrap()).unwrap();
        } else {
            fs::create_dir_all("/raft").await.unwrap();
            fs::sync_dir("/").await.unwrap();
        }
        let durable = Rc::new(Cell::new(state.applied));
        TestMachine { me, witness, durable, state: Rc::new(RefCell::new(state)) }
    }
}

impl Machine for TestMachine {
    fn durable(&self) -> u64 {
        self.durable.get()
    }

    fn apply<'a>(&'a self, commands: &'a [Command], applied: u64) -> Local<'a, Result<(), Failed>> {
        Box::pin(async move {
            let mut state = self.state.borrow().clone();
            state.commands.extend_from_slice(commands);
            state.applied = applied;
            // Now and then; the log has what is lost.
            let is_large = commands.iter().any(|command| 1000 < command.bytes.len());
            if is_large || runtime::random_u64().is_multiple_of(3) {
                let written = fs::write_file_atomic(PATH, &state.encode()).await;
                written.map_err(|error| Failed(error.to_string()))?;
                self.durable.set(applied);
            }
            self.witness.borrow_mut().applied(self.me, &state);
            *self.state.borrow_mut() = state;
            Ok(())
        })
    }

    fn snapshot(&self) -> Local<'_, Result<Box<dyn Pieces>, Failed>> {
        let bytes = self.state.borrow().encode();
        // A few pieces, the last of which may be short.
        let size = (bytes.len() / 3).max(1);
        let mut pieces: Vec<_> = bytes.chunks(size).map(<[u8]>::to_vec).collect();
        pieces.reverse();
        Box::pin(async move { Ok(Box::new(Vector(pieces)) as Box<dyn Pieces>) })
    }

    fn restore(&self) -> Local<'_, Result<Box<dyn Restore>, Failed>> {
        let restoring = Restoring {
            me: self.me,
            bytes: Vec::new(),
            witness: self.witness.clone(),
            durable: self.durable.clone(),
            state: self.state.clone(),
        };
        Box::pin(async move { Ok(Box::new(restoring) as Box<dyn Restore>) })
    }
}

struct Vector(Vec<Vec<u8>>);

impl Pieces for Vector {
    fn next(&mut self) -> Local<'_, Result<Option<Vec<u8>>, Failed>> {
        Box::pin(async move { Ok(self.0.pop()) })
    }
}

struct Restoring {
    me: NodeId,
    bytes: Vec<u8>,
    witness: Rc<RefCell<Witness>>,
    durable: Rc<Cell<u64>>,
    state: Rc<RefCell<State>>,
}

impl Restore for Restoring {
    fn piece(&mut self, bytes: Vec<u8>) -> Local<'_, Result<(), Failed>> {
        self.bytes.extend_from_slice(&bytes);
        Box::pin(async { Ok(()) })
    }

    fn finish(self: Box<Self>, applied: u64) -> Local<'static, Result<(), Failed>> {
        Box::pin(async move {
            let decoded = State::decode(&self.bytes);
            let mut state = decoded.map_err(|damaged| Failed(damaged.what.into()))?;
            state.applied = applied;
            let written = fs::write_file_atomic(PATH, &state.encode()).await;
            written.map_err(|error| Failed(error.to_string()))?;
            self.durable.set(applied);
            self.witness.borrow_mut().applied(self.me, &state);
            *self.state.borrow_mut() = state;
            Ok(())
        })
    }
}
