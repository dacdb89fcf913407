//! A module with its memory, and calls of it.
//!
//! Invariants
//!  - *confined*: it reaches its own memory and tables, which are bounded, and what [`super::wasi`]
//!    gives it.
//!  - *fuelled*: whatever runs in it is paid for by the fuel of the call, and stops for others
//!    after a portion of it.
//!
//! An instance in which a call failed cannot be used again: the caller drops it.

use super::abi::{self, Argument, Form};
use super::body::START;
use super::bounds::Bounds;
use super::{Code, Limits, OUT_OF_FUEL, failed, wasi};
use model::schema::UserFunction;
use wasmi::{Func, Memory, ResumableCall, Store, TypedFunc, Val};

/// Bytes of a page of memory.
const PAGE_BYTES: u64 = 64 << 10;
/// Where arguments start is a multiple of it.
const ALIGNMENT: u64 = 16;

/// How arguments get into memory.
enum Abi {
    /// Into pages of our own, which calls reuse.
    Pages { start: u64, end: u64 },
    /// Into what the module allocates.
    Malloc { malloc: TypedFunc<i32, i32>, free: TypedFunc<i32, ()> },
}

/// A module with its memory.
pub(super) struct Instance {
    store: Store<Bounds>,
    entry: Func,
    memory: Option<Memory>,
    /// Where something is serialized.
    abi: Option<Abi>,
    limits: Limits,
}

impl Instance {
    /// Runs what the module does at its start.
    pub(super) async fn new(code: &Code, limits: Limits) -> Result<Instance, String> {
        let mut store = Store::new(code.module.engine(), Bounds::new(&limits));
        store.limiter(|bounds| bounds);
        let imports = wasi::imports_of(&code.module, &mut store)?;
        let instance = wasmi::Instance::new(&mut store, &code.module, &imports).map_err(failed)?;
        // Tables do not grow: a call that is put aside for lack of fuel in `table.grow` could not
        // go on where it was.
        store.data_mut().table_elements_max = 0;
        refuel(&mut store, &limits)?;
        for start in [START, "_initialize"] {
            if let Ok(start) = instance.get_typed_func::<(), ()>(&store, start) {
                run(&mut store, &limits, start.func(), &[], &mut []).await?;
            }
        }
        let entry = instance.get_func(&store, &code.name);
        let entry = entry.ok_or_else(|| format!("function {} was not found", code.name))?;
        let memory = instance.get_memory(&store, "memory");
        let mut abi = None;
        if code.serializes() {
            let Some(memory) = memory else { return Err("memory is not exported".to_owned()) };
            abi = Some(match version(&store, &instance, memory)? {
                1 => Abi::Pages { start: 0, end: 0 },
                2 => Abi::Malloc {
                    malloc: export(&store, &instance, "_scylla_malloc")?,
                    free: export(&store, &instance, "_scylla_free")?,
                },
                other => return Err(format!("version {other} of _scylla_abi is not supported")),
            });
        }
        Ok(Instance { store, entry, memory, abi, limits })
    }

    /// Bytes of its memory, exported or not.
    pub(super) fn memory_bytes(&self) -> usize {
        self.store.data().memory_bytes
    }

    /// Calls the function that `code` was compiled from.
    pub(super) async fn call(
        &mut self,
        code: &Code,
        function: &UserFunction,
        arguments: Vec<Argument>,
    ) -> Result<Option<Vec<u8>>, String> {
        refuel(&mut self.store, &self.limits)?;
        self.store.data_mut().refused = 0;
        let words = self.place(arguments).await?;
        let mut results = [Val::I32(0)];
        run(&mut self.store, &self.limits, &self.entry, &words, &mut results).await?;
        let [result] = &results;
        if code.returns != Form::Bytes {
            let value = abi::plain(&function.returns, result);
            return value.map(Some).ok_or_else(|| "the result has another type".to_owned());
        }
        let Val::I64(word) = result else {
            return Err("the result is not a 64-bit value".to_owned());
        };
        let memory = self.memory.map_or(&[][..], |memory| memory.data(&self.store));
        let Some(bytes) = abi::named(*word, memory)? else { return Ok(None) };
        let value = abi::checked(&function.returns, bytes)?;
        if let Some(Abi::Malloc { free, .. }) = &self.abi {
            let at = [Val::I32(*word as i32)];
            run(&mut self.store, &self.limits, free.func(), &at, &mut []).await?;
        }
        Ok(Some(value))
    }

    /// The arguments as the function takes them.
    async fn place(&mut self, arguments: Vec<Argument>) -> Result<Vec<Val>, String> {
        let lengths = arguments.iter().map(|argument| match argument {
            Argument::Bytes(Some(bytes)) => (bytes.len() as u64).next_multiple_of(ALIGNMENT),
            _ => 0,
        });
        let mut at = self.room(lengths.sum())?;
        let mut words = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let bytes = match argument {
                Argument::Plain(value) => {
                    words.push(value);
                    continue;
                }
                Argument::Bytes(None) => {
                    words.push(Val::I64(abi::NULL));
                    continue;
                }
                Argument::Bytes(Some(bytes)) => bytes,
            };
            let length = bytes.len() as u32;
            let start = match &self.abi {
                Some(Abi::Malloc { malloc, .. }) => {
                    let (size, mut start) = ([Val::I32(length as i32)], [Val::I32(0)]);
                    let malloc = malloc.func();
                    run(&mut self.store, &self.limits, malloc, &size, &mut start).await?;
                    start[0].i32().unwrap_or_default() as u32
                }
                _ => {
                    let start = at;
                    at += u64::from(length).next_multiple_of(ALIGNMENT);
                    u32::try_from(start).map_err(|_| "the memory limit is reached".to_owned())?
                }
            };
            let memory = self.memory.ok_or_else(|| "memory is not exported".to_owned())?;
            let written = memory.write(&mut self.store, start as usize, &bytes);
            written.map_err(|_| format!("{length} bytes at {start} are out of bounds"))?;
            words.push(Val::I64(abi::word(length, start)));
        }
        Ok(words)
    }

    /// Where `bytes` of arguments may stand, where we keep pages for them.
    fn room(&mut self, bytes: u64) -> Result<u64, String> {
        let (Some(memory), Some(Abi::Pages { start, end })) = (self.memory, &mut self.abi) else {
            return Ok(0);
        };
        if self.limits.memory_bytes as u64 <= bytes {
            return Err(format!("{bytes} bytes of arguments do not fit in the memory"));
        }
        if *end - *start < bytes {
            let top = memory.data_size(&self.store) as u64;
            // The module may have grown its memory since: then these are new pages.
            let from = if *end == top { *start } else { top };
            let pages = (from + bytes - top).div_ceil(PAGE_BYTES);
            let grown = memory.grow(&mut self.store, pages);
            grown.map_err(|_| format!("{bytes} bytes of arguments do not fit in the memory"))?;
            (*start, *end) = (from, top + pages * PAGE_BYTES);
        }
        Ok(*start)
    }
}

/// The version of the ABI that a module says it has: four bytes at the place that `_scylla_abi`
/// holds.
fn version(
    store: &Store<Bounds>,
    instance: &wasmi::Instance,
    memory: Memory,
) -> Result<u32, String> {
    let global = instance.get_global(store, "_scylla_abi");
    let global = global.ok_or_else(|| "_scylla_abi is not exported".to_owned())?;
    let Val::I32(at) = global.get(store) else {
        return Err("_scylla_abi is not an i32".to_owned());
    };
    let mut bytes = [0; 4];
    let read = memory.read(store, at as u32 as usize, &mut bytes);
    read.map_err(|_| "_scylla_abi is out of bounds".to_owned())?;
    Ok(u32::from_le_bytes(bytes))
}

fn export<P, R>(
    store: &Store<Bounds>,
    instance: &wasmi::Instance,
    name: &str,
) -> Result<TypedFunc<P, R>, String>
where
    P: wasmi::WasmParams,
    R: wasmi::WasmResults,
{
    let found = instance.get_typed_func(store, name);
    found.map_err(|error| format!("{name} cannot be called: {error}"))
}

/// Gives a call its fuel: a portion of it at once.
fn refuel(store: &mut Store<Bounds>, limits: &Limits) -> Result<(), String> {
    store.data_mut().fuel = limits.fuel;
    store.set_fuel(0).map_err(failed)?;
    next_portion(store, limits, 0)
}

/// Gives it another portion, which suffices for what it does next.
fn next_portion(store: &mut Store<Bounds>, limits: &Limits, needed: u64) -> Result<(), String> {
    let held = store.get_fuel().map_err(failed)?;
    let missing = needed.saturating_sub(held);
    let left = store.data().fuel;
    if left < missing {
        return Err(OUT_OF_FUEL.to_owned());
    }
    let portion = missing.max(limits.yield_fuel.max(1)).min(left);
    store.data_mut().fuel = left - portion;
    store.set_fuel(held + portion).map_err(failed)
}

/// Calls a function, which is put aside whenever it has used up a portion.
async fn run(
    store: &mut Store<Bounds>,
    limits: &Limits,
    function: &Func,
    arguments: &[Val],
    results: &mut [Val],
) -> Result<(), String> {
    let mut call = function.call_resumable(&mut *store, arguments, results).map_err(failed)?;
    loop {
        let paused = match call {
            ResumableCall::Finished => return Ok(()),
            ResumableCall::HostTrap(trap) => return Err(failed(trap.into_host_error())),
            ResumableCall::OutOfFuel(paused) => paused,
        };
        next_portion(store, limits, paused.required_fuel())?;
        runtime::task::yield_now().await;
        call = paused.resume(&mut *store, results).map_err(failed)?;
    }
}
