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
//! From the ground up: [`body`], [`abi`], [`bounds`], [`wasi`], [`instance`].

mod abi;
mod body;
mod bounds;
mod instance;
#[cfg(test)]
mod tests;
mod wasi;

use super::Pace;
use super::compiled::Compiled;
use super::pool::Pool;
use abi::Form;
use bounds::{Bounds, REFUSED_MAX};
use instance::Instance;
use model::schema::UserFunction;
use runtime::sync::Semaphore;
use runtime::task::Scope;
use runtime::time::Instant;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use wasmi::{
    CompilationMode, Config, CustomFuelCosts, Engine, ExternType, Module, Store, TrapCode,
};

/// Stack of a call: what its functions hold, and how deep they call each other.
const STACK_BYTES: usize = 256 << 10;
const CALLS_DEEP_MAX: usize = 8 << 10;
/// Bytes that are copied, filled or added to a memory for as much fuel as an instruction takes,
/// which is about as long.
const BYTES_PER_FUEL: u32 = 16;
/// What code takes for each byte of its module, about.
const CODE_BYTES_PER_BYTE: usize = 16;
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

/// An interpreter for the code of one function. It keeps all the code that it was ever given, and
/// locks what calls need of it: so each function on each shard has one of its own.
fn interpreter() -> Engine {
    let mut config = Config::default();
    config.consume_fuel(true);
    config.fuel_cost(CustomFuelCosts {
        bytes_copied_per_fuel: BYTES_PER_FUEL,
        fuel_per_bytes_translated: 0,
        fuel_per_bytes_validated: 0,
    });
    config.compilation_mode(CompilationMode::Eager);
    config.set_max_stack_height(STACK_BYTES).set_max_recursion_depth(CALLS_DEEP_MAX);
    config.set_max_cached_stacks(1);
    config.ignore_custom_sections(true);
    // See `body`.
    config.allow_start_fn(false);
    config.wasm_multi_memory(false).wasm_relaxed_simd(false);
    Engine::new(&config)
}

/// Compiles a function. Takes long.
fn compile(function: &UserFunction) -> Result<Code, String> {
    let refused = |reason: String| format!("Compilation failed: {reason}");
    let body = body::module_of(&function.body).map_err(refused)?;
    let module = Module::new(&interpreter(), &body);
    let module = module.map_err(|error| refused(error.to_string()))?;
    let name = &function.name;
    let ty = match module.get_export(name) {
        Some(ExternType::Func(ty)) => ty,
        Some(_) => return Err(format!("Exported {name} is not a function")),
        None => return Err(format!("Function {name} was not found in the module")),
    };
    if let Some(ExternType::Func(ty)) = module.get_export(body::START)
        && (!ty.params().is_empty() || !ty.results().is_empty())
    {
        return Err(refused("invalid start function type".to_owned()));
    }
    wasi::imports_of(&module, &mut Store::new(module.engine(), Bounds::none()))?;
    let form = |ty| Form::of(ty, function.null_input);
    let takes: Vec<Form> = function.argument_types().map(form).collect();
    let returns = form(&function.returns);
    let misfit = misfit(&takes, returns, &ty);
    let bytes = body.len() * CODE_BYTES_PER_BYTE + function.body.len();
    Ok(Code { module, name: name.clone(), takes, returns, misfit, bytes })
}

/// Why a function of that type cannot be called as ours.
fn misfit(takes: &[Form], returns: Form, ty: &wasmi::FuncType) -> Option<String> {
    let (given, wanted) = (takes.len(), ty.params().len());
    if given != wanted {
        return Some(format!("argument type mismatch: {wanted} are taken, {given} given"));
    }
    let mut pairs = takes.iter().zip(ty.params()).enumerate();
    if let Some((at, (form, ty))) = pairs.find(|(_, (form, ty))| !form.is(**ty)) {
        let (at, given, ty) = (at + 1, form.name(), abi::name_of(*ty));
        return Some(format!("argument type mismatch: argument {at} is {given}, not {ty}"));
    }
    match *ty.results() {
        [ty] if returns.is(ty) => None,
        [ty] => {
            let (returns, ty) = (returns.name(), abi::name_of(ty));
            Some(format!("Incorrect kind of value returned. Expected {returns}, got {ty}"))
        }
        ref results => Some(format!("{} values returned, expected 1", results.len())),
    }
}

const OUT_OF_FUEL: &str = "wasm trap: all fuel consumed by WebAssembly";

/// An error as clients see it: without where it was.
fn failed(error: wasmi::Error) -> String {
    let Some(trap) = error.as_trap_code() else { return error.to_string() };
    match trap {
        TrapCode::UnreachableCodeReached => "wasm trap: wasm `unreachable` instruction executed",
        TrapCode::MemoryOutOfBounds => "wasm trap: out of bounds memory access",
        TrapCode::TableOutOfBounds => "wasm trap: undefined element: out of bounds table access",
        TrapCode::IndirectCallToNull => "wasm trap: uninitialized element",
        TrapCode::IntegerDivisionByZero => "wasm trap: integer divide by zero",
        TrapCode::IntegerOverflow => "wasm trap: integer overflow",
        TrapCode::BadConversionToInteger => "wasm trap: invalid conversion to integer",
        TrapCode::StackOverflow => "wasm trap: call stack exhausted",
        TrapCode::BadSignature => "wasm trap: indirect call type mismatch",
        TrapCode::OutOfFuel => OUT_OF_FUEL,
        TrapCode::OutOfSystemMemory => "not enough memory",
        TrapCode::GrowthOperationLimited => {
            return format!(
                "the function was refused memory {REFUSED_MAX} times and asked for more"
            );
        }
    }
    .to_owned()
}

/// A compiled function.
struct Code {
    module: Module,
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
    pub(super) fn new(limits: Limits) -> Rc<Shard> {
        let Limits { cache_bytes, instance_bytes_max, idle, .. } = limits;
        Rc::new(Shard {
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
            Pace::Whole => compile(function)?,
            Pace::Steps => {
                let _permit = self.compiling.acquire(1).await;
                let known = self.codes.borrow_mut().get(function);
                if let Some(code) = known {
                    return Ok(code);
                }
                let function = (**function).clone();
                runtime::task::compute(move || compile(&function)).await?
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
