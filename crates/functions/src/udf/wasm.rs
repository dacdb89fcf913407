//! Functions in WebAssembly.
//!
//! A body is a module: its text form, or its binary form in base64. It exports a function of the
//! name of ours, which is called with plain values or words that name bytes in its memory (see
//! [`abi`]).
//!
//! Invariants
//!  - *confined*: a module reaches its own memory, which is bounded, and no system ([`wasi`]).
//!  - *fuelled*: a call has so much fuel, which it uses up in portions; others have the shard
//!    between them.
//!  - *compiled-elsewhere*: modules are compiled on a helper thread, one of a shard at a time. Only
//!    what may not wait compiles where it is.
//!  - *kept-apart*: an instance serves calls of one function, one at a time, and what its module
//!    keeps in its memory may be seen by the next one; an instance in which a call failed serves
//!    no other.
//!
//! In reading order: [`abi`], [`instance`], [`wasi`].

mod abi;
mod instance;
#[cfg(test)]
mod tests;
mod wasi;

use super::Pace;
use super::compiled::Compiled;
use super::pool::Pool;
use abi::Form;
use instance::{Bounds, Instance};
use model::schema::UserFunction;
use runtime::sync::Semaphore;
use runtime::task::Scope;
use runtime::time::Instant;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::{Config, Engine, ExternType, InstancePre, Linker, Module};

/// Bytes of a body at most.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Stack of a call, and with what our own functions need of it.
const STACK_BYTES: usize = 256 << 10;
const WHOLE_STACK_BYTES: usize = 512 << 10;
/// What an instance takes besides its memory, about.
const INSTANCE_BYTES: usize = 32 << 10;
/// Functions of which code is kept at most.
const CODES_MAX: usize = 128;
/// Instances kept at most.
const INSTANCES_MAX: usize = 256;

/// What modules may use, and what is kept of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of a call: instructions, about.
    pub fuel: u64,
    /// After so much of it others have the shard.
    pub yield_fuel: u64,
    /// The memory of an instance.
    pub memory_bytes: usize,
    /// Of a shard: instances that are kept, and, apart, code.
    pub cache_bytes: usize,
    /// Instances with more memory are not kept.
    pub instance_bytes_max: usize,
    /// Instances are kept so long without a call.
    pub idle: Duration,
}

impl Limits {
    /// Those of a node whose options say nothing else.
    pub const fn standard() -> Limits {
        Limits {
            fuel: 100_000_000,
            yield_fuel: 100_000,
            memory_bytes: 2 << 20,
            cache_bytes: 8 << 20,
            instance_bytes_max: 1 << 20,
            idle: Duration::from_millis(5_000),
        }
    }
}

/// Compiles modules. The shards of a node share it.
pub struct Machine {
    engine: Engine,
    linker: Linker<Bounds>,
}

impl Machine {
    /// Errors are of the library and the processor.
    pub fn new() -> Result<Machine, String> {
        let mut config = Config::new();
        config.consume_fuel(true);
        // No handlers of signals, which the process has its own of, and no address space in
        // advance: memory comes from the allocator that counts.
        config.signals_based_traps(false);
        config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(0);
        config.memory_init_cow(false);
        config.max_wasm_stack(STACK_BYTES).async_stack_size(WHOLE_STACK_BYTES);
        config.wasm_backtrace_max_frames(None).native_unwind_info(false);
        config.wasm_gc(false).wasm_function_references(false).wasm_exceptions(false);
        config.wasm_memory64(false).wasm_multi_memory(false).wasm_relaxed_simd(false);
        let engine = Engine::new(&config).map_err(failed)?;
        let mut linker = Linker::new(&engine);
        wasi::link(&mut linker).map_err(failed)?;
        Ok(Machine { engine, linker })
    }

    /// Compiles a function. Takes long.
    fn compile(&self, function: &UserFunction) -> Result<Code, String> {
        let refused = |reason: String| format!("Compilation failed: {reason}");
        let body = module_of(&function.body).map_err(refused)?;
        let module = Module::new(&self.engine, body);
        let module = module.map_err(|error| refused(format!("{error:#}")))?;
        let name = &function.name;
        let ty = match module.get_export(name) {
            Some(ExternType::Func(ty)) => ty,
            Some(_) => return Err(format!("Exported {name} is not a function")),
            None => return Err(format!("Function {name} was not found in the module")),
        };
        if let Some(import) = module.imports().find(|import| import.module() != wasi::MODULE) {
            let (from, what) = (import.module(), import.name());
            return Err(refused(format!("unknown import {from}.{what}")));
        }
        let mut linker = self.linker.clone();
        linker.define_unknown_imports_as_traps(&module).map_err(failed)?;
        let pre = linker.instantiate_pre(&module).map_err(failed)?;
        let form = |ty| Form::of(ty, function.null_input);
        let takes: Vec<Form> = function.argument_types().map(form).collect();
        let returns = form(&function.returns);
        let image = module.image_range();
        let bytes = image.end as usize - image.start as usize + function.body.len();
        let misfit = misfit(&takes, returns, &ty);
        Ok(Code { pre, name: name.clone(), takes, returns, misfit, bytes })
    }
}

/// Why a function of that type cannot be called as ours.
fn misfit(takes: &[Form], returns: Form, ty: &wasmtime::FuncType) -> Option<String> {
    let (given, wanted) = (takes.len(), ty.params().len());
    if given != wanted {
        return Some(format!("argument type mismatch: {wanted} are taken, {given} given"));
    }
    let mut pairs = takes.iter().zip(ty.params()).enumerate();
    if let Some((at, (form, ty))) = pairs.find(|(_, (form, ty))| !form.is(ty)) {
        let (at, given) = (at + 1, form.name());
        return Some(format!("argument type mismatch: argument {at} is {given}, not {ty}"));
    }
    let mut results = ty.results();
    match (results.next(), results.next()) {
        (Some(ty), None) if returns.is(&ty) => None,
        (Some(ty), None) => {
            Some(format!("Incorrect kind of value returned. Expected {}, got {ty}", returns.name()))
        }
        (..) => Some(format!("{} values returned, expected 1", ty.results().len())),
    }
}

/// The bytes of a body.
fn module_of(body: &str) -> Result<Cow<'_, [u8]>, String> {
    if BODY_BYTES_MAX < body.len() {
        return Err(format!("the module is longer than {BODY_BYTES_MAX} bytes"));
    }
    // Of the four bytes with which a binary module begins.
    match body.trim_start().starts_with("AGFzb") {
        true => decode_base64(body).map(Cow::Owned),
        false => Ok(Cow::Borrowed(body.as_bytes())),
    }
}

/// Base64 (RFC 4648), with spaces in it.
fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0u32, 0);
    let text = text.trim_ascii_end().trim_end_matches('=');
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err("the body is neither WebAssembly text nor a base64 module".to_owned()),
        };
        held = held << 6 | u32::from(digit);
        bits += 6;
        if 8 <= bits {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Ok(bytes)
}

/// An error as clients see it: without where it was.
fn failed(error: wasmtime::Error) -> String {
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(trap) => trap.to_string(),
        None => format!("{error:#}"),
    }
}

/// A compiled function.
struct Code {
    pre: InstancePre<Bounds>,
    name: String,
    takes: Vec<Form>,
    returns: Form,
    /// Why it cannot be called.
    misfit: Option<String>,
    /// About what it takes.
    bytes: usize,
}

impl Code {
    /// Whether anything is passed in memory.
    fn serializes(&self) -> bool {
        self.returns == Form::Bytes || self.takes.contains(&Form::Bytes)
    }
}

/// Counts of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls that an instance was there for.
    pub hits: u64,
    /// Calls that made one.
    pub misses: u64,
    /// Instances kept.
    pub instances: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A call that has not ended.
pub(super) type Running = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>, String>>>>;

/// What a shard has of modules.
pub(super) struct Shard {
    machine: Arc<Machine>,
    limits: Limits,
    codes: RefCell<Compiled<Arc<Code>>>,
    idle: RefCell<Pool<Instance>>,
    compiling: Semaphore,
    hits: Cell<u64>,
    misses: Cell<u64>,
    sweeping: Cell<bool>,
    sweeps: Scope,
}

impl Shard {
    pub(super) fn new(machine: Arc<Machine>, limits: Limits) -> Rc<Shard> {
        let Limits { cache_bytes, instance_bytes_max, idle, .. } = limits;
        Rc::new(Shard {
            machine,
            limits,
            codes: RefCell::new(Compiled::new(CODES_MAX, cache_bytes)),
            idle: RefCell::new(Pool::new(super::pool::Bounds {
                count_max: INSTANCES_MAX,
                bytes_max: cache_bytes,
                item_bytes_max: instance_bytes_max + INSTANCE_BYTES,
                idle_max: idle,
            })),
            compiling: Semaphore::new(1, usize::MAX),
            hits: Cell::new(0),
            misses: Cell::new(0),
            sweeping: Cell::new(false),
            sweeps: Scope::new(),
        })
    }

    pub(super) fn stats(&self) -> Stats {
        let idle = self.idle.borrow();
        let (instances, bytes) = (idle.len() as u64, idle.bytes() as u64);
        Stats { hits: self.hits.get(), misses: self.misses.get(), instances, bytes }
    }

    /// Refuses a body that is not a module with such a function.
    pub(super) async fn check(&self, function: &UserFunction) -> Result<(), String> {
        self.compile(&Rc::new(function.clone()), Pace::Steps).await.map(drop)
    }

    /// Forgets functions that are not to be kept.
    pub(super) fn retain(&self, keep: impl Fn(&Rc<UserFunction>) -> bool) {
        for code in self.codes.borrow_mut().retain(keep) {
            self.idle.borrow_mut().remove(key(&code));
        }
    }

    /// Begins a call; it has not run yet.
    pub(super) fn start(
        self: &Rc<Shard>,
        function: &Rc<UserFunction>,
        arguments: &[Option<&[u8]>],
        pace: Pace,
    ) -> Result<Running, String> {
        let pairs = function.argument_types().zip(arguments);
        let arguments: Result<Vec<_>, String> = pairs
            .map(|(ty, bytes)| abi::argument(ty, Form::of(ty, function.null_input), *bytes))
            .collect();
        let (shard, function, arguments) = (self.clone(), function.clone(), arguments?);
        Ok(Box::pin(async move {
            let called = shard.call(&function, arguments, pace).await;
            called.map_err(|reason| format!("wasm execution failed: {reason}"))
        }))
    }

    async fn call(
        self: &Rc<Shard>,
        function: &Rc<UserFunction>,
        arguments: Vec<abi::Argument>,
        pace: Pace,
    ) -> Result<Option<Vec<u8>>, String> {
        let code = self.compile(function, pace).await?;
        if let Some(misfit) = &code.misfit {
            return Err(misfit.clone());
        }
        let kept = self.idle.borrow_mut().take(key(&code));
        let mut instance = match kept {
            Some(instance) => {
                self.hits.update(|hits| hits + 1);
                instance
            }
            None => {
                self.misses.update(|misses| misses + 1);
                Instance::new(&code, self.limits).await?
            }
        };
        let value = instance.call(&code, function, arguments).await?;
        self.keep(function, &code, instance);
        Ok(value)
    }

    /// The code of a function.
    async fn compile(&self, function: &Rc<UserFunction>, pace: Pace) -> Result<Arc<Code>, String> {
        let known = self.codes.borrow_mut().get(function);
        if let Some(code) = known {
            return Ok(code);
        }
        let code = match pace {
            Pace::Whole => self.machine.compile(function)?,
            Pace::Steps => {
                let _permit = self.compiling.acquire(1).await;
                let known = self.codes.borrow_mut().get(function);
                if let Some(code) = known {
                    return Ok(code);
                }
                let (machine, function) = (self.machine.clone(), (**function).clone());
                runtime::task::compute(move || machine.compile(&function)).await?
            }
        };
        let bytes = code.bytes;
        let code = Arc::new(code);
        for gone in self.codes.borrow_mut().insert(function, code.clone(), bytes) {
            self.idle.borrow_mut().remove(key(&gone));
        }
        Ok(code)
    }

    /// Keeps an instance for the next call, unless the function was dropped.
    fn keep(self: &Rc<Shard>, function: &Rc<UserFunction>, code: &Arc<Code>, instance: Instance) {
        let known = self.codes.borrow_mut().get(function);
        if known.is_none_or(|known| !Arc::ptr_eq(&known, code)) {
            return;
        }
        let bytes = instance.memory_bytes() + INSTANCE_BYTES;
        self.idle.borrow_mut().put(key(code), instance, bytes, Instant::now());
        if self.idle.borrow().next_expiry().is_some() && !self.sweeping.replace(true) {
            drop(self.sweeps.spawn(sweep(Rc::downgrade(self))));
        }
    }
}

/// What instances of it are kept under, for as long as it is.
fn key(code: &Arc<Code>) -> usize {
    Arc::as_ptr(code) as usize
}

/// Drops instances that were not called for long, until there are none.
async fn sweep(shard: Weak<Shard>) {
    loop {
        let Some(shard) = shard.upgrade() else { return };
        let gone = shard.idle.borrow_mut().expire(Instant::now());
        drop(gone);
        let next = shard.idle.borrow().next_expiry();
        let Some(next) = next else {
            shard.sweeping.set(false);
            return;
        };
        drop(shard);
        runtime::time::sleep_until(next).await;
    }
}
