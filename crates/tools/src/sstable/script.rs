//! `script`: a program in Lua is called with what the SSTables hold, fragment by fragment.
//!
//! In reading order: here the program, its limits and the loop over the files; [`keys`],
//! [`times`], [`fragments`] (what a program sees), [`writer`] (JSON that it makes).
//!
//! Invariants
//!  - *sandboxed*: beside what is below `Scylla` a program reaches pure libraries, the clock, the
//!    environment's variables and its output: no file, no other program.
//!  - *bounded*: its memory is at most [`MEMORY_BYTES`], and no call of it may last longer than
//!    [`CALL_TIME`].
//!  - *bounded-output*: what it prints is written after each batch of fragments.

mod fragments;
mod keys;
mod times;
mod writer;

use super::dump::{partition_keys, sources};
use super::output::Output;
use super::{Failure, Job};
use functions::Sandbox;
use mlua::{Error, Function, HookTriggers, IntoLuaMulti, Lua, StdLib, Table, Value, Variadic};
use model::TableSchema;
use mutation::{Direction, Fragment};
use reader::{Budget, Source, merge};
use runtime::io::fs;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// Bytes that a program may have at once.
const MEMORY_BYTES: usize = 1 << 30;
/// How long one call may last.
const CALL_TIME: Duration = Duration::from_secs(300);
/// Instructions between two looks at the clock.
const INSTRUCTIONS_PER_TICK: u32 = 100_000;

/// What all that a program sees has in common.
#[derive(Clone)]
pub(crate) struct Shared {
    schema: Rc<TableSchema>,
    /// What was printed and is not written yet.
    out: Rc<RefCell<Vec<u8>>>,
    /// Of points in time.
    times: Table,
}

impl Shared {
    fn of(lua: &Lua) -> mlua::Result<Shared> {
        let shared = lua.app_data_ref::<Shared>();
        shared.map(|shared| shared.clone()).ok_or_else(|| Error::runtime("no program runs"))
    }
}

/// Whether what was begun is gone on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Stop,
}

/// `script`.
pub(crate) async fn script(job: &Job<'_>, out: &mut Output) -> Result<(), Failure> {
    let arguments = arguments(&job.options.script_args).map_err(Failure::Arguments)?;
    let Some(path) = &job.options.script_file else {
        return Failure::arguments("missing mandatory command-line argument --script-file");
    };
    let refuse = |why: String| Failure::Arguments(format!("{}: {why}", path.display()));
    let text = fs::read_file(path).await.map_err(|error| refuse(error.to_string()))?;
    let name = path.display().to_string();
    let program = Program::load(&name, &text, job.source.schema.clone()).map_err(refuse)?;
    let done = consume(job, &program, arguments, out).await;
    // What was printed before an error is worth showing.
    program.write(out)?;
    done
}

/// `key=value` pairs, joined by colons.
fn arguments(words: &[String]) -> Result<Vec<(String, String)>, String> {
    let pairs =
        words.iter().flat_map(|word| word.split(':')).map(|pair| match pair.split_once('=') {
            Some((key, value)) => Ok((key.to_string(), value.to_string())),
            None => Err(format!("an argument of the script is no key=value: {pair}")),
        });
    pairs.collect()
}

async fn consume(
    job: &Job<'_>,
    program: &Program,
    arguments: Vec<(String, String)>,
    out: &mut Output,
) -> Result<(), Failure> {
    let schema = &job.source.schema;
    let keys = partition_keys(job).await?;
    let arguments = program.lua.create_table_from(arguments).map_err(failed)?;
    program.call("consume_stream_start", arguments)?;
    if job.options.merge {
        let mut per_scope: Vec<Vec<Box<dyn Source>>> = Vec::new();
        for target in &job.targets {
            let table = target.open(schema).await?;
            let found = sources(&table, &keys);
            per_scope.resize_with(found.len(), Vec::new);
            per_scope.iter_mut().zip(found).for_each(|(list, source)| list.push(source));
        }
        let merged = per_scope.into_iter();
        let merged = merged.map(|list| merge(schema.clone(), Direction::Forward, list));
        program.stream(None, merged.collect(), out).await?;
    } else {
        for target in &job.targets {
            let table = target.open(schema).await?;
            let name = target.name();
            if program.stream(Some(&name), sources(&table, &keys), out).await? == Flow::Stop {
                break;
            }
        }
    }
    program.call("consume_stream_end", ()).map(drop)
}

fn failed(error: Error) -> Failure {
    Failure::Operation(error.to_string())
}

/// When calls must have ended.
#[derive(Default)]
struct Meter {
    call_ends: Cell<Option<Instant>>,
    is_expired: Cell<bool>,
}

/// A program that has begun.
struct Program {
    lua: Lua,
    globals: Table,
    shared: Shared,
    meter: Rc<Meter>,
}

impl Program {
    /// Compiles a program and runs what is outside of its functions. The error says why not.
    fn load(name: &str, text: &[u8], schema: Rc<TableSchema>) -> Result<Program, String> {
        let begun = Program::new(schema).and_then(|program| {
            program.start_meter();
            let chunk = program.lua.load(text).set_name(format!("@{name}"));
            let chunk = chunk.set_mode(mlua::chunk::ChunkMode::Text);
            chunk.set_environment(program.globals.clone()).exec()?;
            Ok(program)
        });
        begun.map_err(|error| error.to_string())
    }

    fn new(schema: Rc<TableSchema>) -> mlua::Result<Program> {
        let meter = Rc::new(Meter::default());
        let asked = meter.clone();
        let sandbox = Sandbox::new(move || asked.is_expired.get())?;
        let lua = sandbox.lua.clone();
        lua.set_memory_limit(MEMORY_BYTES)?;
        let ticking = meter.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
        lua.set_hook(triggers, move |_, _| ticking.tick())?;
        let times = times::metatable(&lua)?;
        let shared = Shared { schema, out: Rc::default(), times };
        lua.set_app_data(shared.clone());
        let globals = sandbox.globals()?;
        globals.raw_set("Scylla", functions(&lua)?)?;
        globals.raw_set("schema", fragments::schema(&lua, &shared.schema)?)?;
        globals.raw_set("os", clock(&lua)?)?;
        globals.raw_set("print", lua.create_function(print)?)?;
        Ok(Program { lua, globals, shared, meter })
    }

    fn start_meter(&self) {
        self.meter.call_ends.set(Some(Instant::now() + CALL_TIME));
    }

    /// Calls one of the program's functions, if it has it.
    fn call(&self, name: &str, arguments: impl IntoLuaMulti) -> Result<Flow, Failure> {
        let Some(function) = self.globals.get::<Option<Function>>(name).map_err(failed)? else {
            return Ok(Flow::On);
        };
        self.start_meter();
        match function.call::<Value>(arguments).map_err(failed)? {
            Value::Boolean(false) => Ok(Flow::Stop),
            _ => Ok(Flow::On),
        }
    }

    /// Gives the program what the sources of one SSTable hold, or of all of them.
    async fn stream(
        &self,
        name: Option<&str>,
        sources: Vec<Box<dyn Source>>,
        out: &mut Output,
    ) -> Result<Flow, Failure> {
        let table = match name {
            Some(name) => {
                let table = self.lua.create_table_from([("filename", name)]).map_err(failed)?;
                Value::Table(table)
            }
            None => Value::Nil,
        };
        if self.call("consume_sstable_start", table)? == Flow::On {
            for mut source in sources {
                if self.drain(&mut *source, out).await? == Flow::Stop {
                    break;
                }
            }
        }
        let flow = self.call("consume_sstable_end", ())?;
        self.write(out)?;
        Ok(flow)
    }

    async fn drain(&self, source: &mut dyn Source, out: &mut Output) -> Result<Flow, Failure> {
        let mut batch = Vec::new();
        // Of a partition that the program has had enough of.
        let mut is_skipping = false;
        loop {
            batch.clear();
            source.fill(Budget::BATCH, &mut batch).await?;
            if batch.is_empty() {
                return Ok(Flow::On);
            }
            for fragment in &batch {
                if let Fragment::PartitionEnd = fragment {
                    is_skipping = false;
                    if self.call("consume_partition_end", ())? == Flow::Stop {
                        return Ok(Flow::Stop);
                    }
                } else if !is_skipping {
                    is_skipping = self.give(fragment)? == Flow::Stop;
                }
            }
            self.write(out)?;
        }
    }

    fn give(&self, fragment: &Fragment) -> Result<Flow, Failure> {
        let fragment = fragment.clone();
        match fragment {
            Fragment::PartitionStart { key, tombstone } => {
                let start = fragments::PartitionStart { key, tombstone };
                self.call("consume_partition_start", start)
            }
            Fragment::StaticRow { row } => {
                self.call("consume_static_row", fragments::Row { key: None, row })
            }
            Fragment::Row { key, row } => {
                self.call("consume_clustering_row", fragments::Row { key: Some(key), row })
            }
            Fragment::RangeTombstoneChange { position, tombstone } => {
                let change = fragments::Change { position, tombstone };
                self.call("consume_range_tombstone_change", change)
            }
            Fragment::PartitionEnd => Ok(Flow::On),
        }
    }

    /// Writes what was printed.
    fn write(&self, out: &mut Output) -> Result<(), Failure> {
        let printed = std::mem::take(&mut *self.shared.out.borrow_mut());
        out.bytes(&printed)
    }
}

impl Meter {
    fn tick(&self) -> mlua::Result<mlua::VmState> {
        if self.call_ends.get().is_some_and(|end| end <= Instant::now()) {
            self.is_expired.set(true);
            return Err(Error::runtime("timeout"));
        }
        Ok(mlua::VmState::Continue)
    }
}

/// What stands below `Scylla`.
fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table
        .raw_set("new_json_writer", lua.create_function(|_, ()| Ok(writer::Writer::default()))?)?;
    keys::add_functions(lua, &table)?;
    times::add_functions(lua, &table)?;
    Ok(table)
}

/// Of Lua's library of the system, what only asks it.
fn clock(lua: &Lua) -> mlua::Result<Table> {
    lua.load_std_libs(StdLib::OS)?;
    let all: Table = lua.globals().get("os")?;
    let table = lua.create_table()?;
    for name in ["clock", "date", "difftime", "getenv", "time"] {
        table.raw_set(name, all.get::<Function>(name)?)?;
    }
    Ok(table)
}

fn print(lua: &Lua, values: Variadic<Value>) -> mlua::Result<()> {
    let shared = Shared::of(lua)?;
    let texts = values.iter().map(Value::to_string).collect::<mlua::Result<Vec<_>>>()?;
    let mut out = shared.out.borrow_mut();
    out.extend_from_slice(texts.join("\t").as_bytes());
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests;
