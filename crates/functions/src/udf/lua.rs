//! Functions in Lua.
//!
//! Invariants
//!  - *sandboxed*: a script reaches its arguments, its own globals and pure libraries, see
//!    [`sandbox`]; nothing that it makes outlasts the call.
//!  - *metered*: a call ends with an error when it has run for its time, counted in the slices in
//!    which it ran, or has executed as many instructions as nothing honest needs in that time (so
//!    that it ends where the clock stands still); it never has more than its memory.
//!  - *interruptible*: a call that uses up its slice stops where it stands and is resumed later,
//!    save inside of what Lua cannot leave (a comparison of `table.sort`, a callback of `gsub`):
//!    there it runs on, at most to the end of its time.
//!
//! The one thing that no hook sees is a function of the string library at work: a pattern that
//! backtracks over a long text holds its shard until it ends.

mod number;
mod pull;
pub(crate) mod push;
pub(crate) mod sandbox;

use super::Limits;
use super::calls::SLICE;
use mlua::{Error, Function, HookTriggers, MultiValue, Thread, Value, VmState};
use model::schema::UserFunction;
use pull::Puller;
use runtime::time::Instant;
use sandbox::Sandbox;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Instructions between two looks at the clock.
const INSTRUCTIONS_PER_TICK: u32 = 1000;
/// Instructions that a script cannot execute in a millisecond.
const INSTRUCTIONS_PER_MS: u64 = 2_000_000;
/// Bytes that calls may leave behind before they are collected.
const GARBAGE_MAX: usize = 256 << 10;

/// A compiled function.
pub(super) struct Script {
    sandbox: Sandbox,
    /// Takes globals and arguments.
    body: Function,
    meter: Rc<Meter>,
    /// Of a call that has ended, to be used by the next.
    idle: RefCell<Option<Thread>>,
    /// What the state holds when no call runs.
    base_bytes: usize,
    /// Calls that have not ended.
    running: Cell<usize>,
    limits: Limits,
}

/// What the hook goes by. Set before a script runs, for the slice.
#[derive(Default)]
struct Meter {
    slice_ends: Cell<Option<Instant>>,
    call_ends: Cell<Option<Instant>>,
    instructions_left: Cell<u64>,
    expired: Cell<bool>,
}

impl Meter {
    /// After [`INSTRUCTIONS_PER_TICK`] more instructions.
    fn tick(&self) -> mlua::Result<VmState> {
        let left = self.instructions_left.get().saturating_sub(INSTRUCTIONS_PER_TICK.into());
        self.instructions_left.set(left);
        let now = Instant::now();
        let over = |end: &Cell<Option<Instant>>| end.get().is_some_and(|end| end <= now);
        if self.expired.get() {
            return Err(Error::runtime("timeout"));
        }
        if left == 0 || over(&self.call_ends) {
            // Leaves the script where it can be left; elsewhere the next tick is an error.
            self.expired.set(true);
            return Ok(VmState::Yield);
        }
        Ok(if over(&self.slice_ends) { VmState::Yield } else { VmState::Continue })
    }
}

/// The error of a body that is no Lua, if it is none.
pub(super) fn check(function: &UserFunction) -> Result<(), String> {
    let sandbox = Sandbox::new(|| false).map_err(failed)?;
    compile(&sandbox, function).map(drop)
}

/// The body is compiled alone first, so that it cannot reach out of the function around it.
fn compile(sandbox: &Sandbox, function: &UserFunction) -> Result<Function, String> {
    let names: Vec<&str> = function.arguments.iter().map(|(name, _)| name.as_str()).collect();
    let header = match names.is_empty() {
        true => String::new(),
        false => format!("local {} = ...;", names.join(", ")),
    };
    let load = |text: String| {
        let chunk = sandbox.lua.load(text).set_name("<internal>");
        chunk.set_mode(mlua::chunk::ChunkMode::Text).into_function().map_err(|error| {
            let text = match error {
                Error::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            format!("could not compile: {text}")
        })
    };
    load(format!("{header}\n{}", function.body))?;
    let outer = load(format!("return function(_ENV, ...) {header}\n{}\nend", function.body))?;
    outer.call(()).map_err(failed)
}

impl Script {
    /// Compiles a function.
    pub(super) fn new(function: &UserFunction, limits: Limits) -> Result<Script, String> {
        let meter = Rc::new(Meter::default());
        let asked = meter.clone();
        let sandbox = Sandbox::new(move || asked.expired.get()).map_err(failed)?;
        let body = compile(&sandbox, function)?;
        sandbox.lua.gc_collect().map_err(failed)?;
        let base_bytes = sandbox.lua.used_memory();
        let (idle, running) = (RefCell::new(None), Cell::new(0));
        Ok(Script { sandbox, body, meter, idle, base_bytes, running, limits })
    }

    fn thread(&self) -> mlua::Result<Thread> {
        if let Some(thread) = self.idle.take()
            && thread.reset(self.body.clone()).is_ok()
        {
            return Ok(thread);
        }
        let thread = self.sandbox.lua.create_thread(self.body.clone())?;
        let meter = self.meter.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_TICK);
        thread.set_hook(triggers, move |_, _| meter.tick())?;
        Ok(thread)
    }

    fn collect(&self) {
        let lua = &self.sandbox.lua;
        let live_bytes = self.running.get() * self.limits.memory_bytes;
        if self.base_bytes + live_bytes + GARBAGE_MAX < lua.used_memory() {
            // A collection that fails leaves garbage, which counts against the next call.
            let _ = lua.gc_collect();
        }
    }

    /// Bounds what the state holds by the calls that have not ended.
    fn limit(&self) -> mlua::Result<()> {
        let calls = self.running.get().max(1);
        let bytes = self.base_bytes + calls * self.limits.memory_bytes;
        self.sandbox.lua.set_memory_limit(bytes).map(drop)
    }
}

/// A call's part of the memory, which all that have not ended share.
struct Share(Rc<Script>);

impl Share {
    fn new(script: &Rc<Script>) -> mlua::Result<Share> {
        script.running.update(|running| running + 1);
        let share = Share(script.clone());
        script.limit()?;
        Ok(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.running.update(|running| running - 1);
        // What fails for want of memory is the next call.
        let _ = self.0.limit();
    }
}

/// A call that has not ended.
pub(super) struct Running {
    script: Rc<Script>,
    _share: Share,
    function: Rc<UserFunction>,
    thread: Thread,
    /// Before the first slice.
    arguments: Option<MultiValue>,
    spent: Duration,
    instructions_left: u64,
}

impl Running {
    /// Prepares a call. Runs nothing yet.
    pub(super) fn start(
        script: &Rc<Script>,
        function: &Rc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Running, String> {
        script.collect();
        let lua = &script.sandbox.lua;
        let share = Share::new(script).map_err(failed)?;
        let prepare = || -> mlua::Result<(Thread, MultiValue)> {
            let mut values = MultiValue::with_capacity(arguments.len() + 1);
            values.push_back(Value::Table(script.sandbox.globals()?));
            for (bytes, ty) in arguments.iter().zip(function.argument_types()) {
                values.push_back(push::push(lua, ty, *bytes)?);
            }
            Ok((script.thread()?, values))
        };
        let (thread, values) = prepare().map_err(failed)?;
        let millis = u64::try_from(script.limits.time.as_millis()).unwrap_or(u64::MAX);
        Ok(Running {
            script: script.clone(),
            _share: share,
            function: function.clone(),
            thread,
            arguments: Some(values),
            spent: Duration::ZERO,
            instructions_left: millis.saturating_mul(INSTRUCTIONS_PER_MS).max(1),
        })
    }

    /// Runs for a slice.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, String>> {
        match self.step() {
            Ok(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Ok(Some(value)) => Poll::Ready(Ok(value)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// The value, unless the slice has ended before.
    fn step(&mut self) -> Result<Option<Option<Vec<u8>>>, String> {
        let script = self.script.clone();
        let (meter, limits) = (&script.meter, &script.limits);
        let start = Instant::now();
        meter.slice_ends.set(Some(start + SLICE));
        meter.call_ends.set(Some(start + limits.time.saturating_sub(self.spent)));
        meter.instructions_left.set(self.instructions_left);
        meter.expired.set(false);
        let result: mlua::Result<MultiValue> = match self.arguments.take() {
            Some(arguments) => self.thread.resume(arguments),
            None => self.thread.resume(()),
        };
        self.spent += Instant::now() - start;
        self.instructions_left = meter.instructions_left.get();
        if meter.expired.get() {
            let millis = limits.time.as_millis();
            return Err(format!("lua execution timeout: {millis}ms elapsed"));
        }
        let values = result.map_err(failed)?;
        if self.thread.is_resumable() {
            return Ok(None);
        }
        let returned: Vec<Value> = values.into_iter().collect();
        let [value] = &returned[..] else {
            return Err(format!("{} values returned, expected 1", returned.len()));
        };
        let value = Puller::new(&script.sandbox.lua).pull(&self.function.returns, value)?;
        *script.idle.borrow_mut() = Some(self.thread.clone());
        Ok(Some(value))
    }
}

/// An error of a script as clients see it: without the stack.
fn failed(error: Error) -> String {
    let text = match &error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::CallbackError { cause, .. } => match &**cause {
            Error::RuntimeError(text) => text.clone(),
            cause => cause.to_string(),
        },
        other => other.to_string(),
    };
    let text = text.split("\nstack traceback:").next().unwrap_or_default();
    format!("lua execution failed: {text}")
}
