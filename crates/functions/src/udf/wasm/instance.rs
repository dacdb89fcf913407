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
use super::{Code, Limits, failed};
use model::schema::UserFunction;
use wasmtime::{Func, Memory, ResourceLimiter, Store, TypedFunc, Val};

/// Bytes of a page of memory.
const PAGE_BYTES: u64 = 64 << 10;
/// Where arguments start is a multiple of it.
const ALIGNMENT: u64 = 16;
/// Elements of all tables at most.
const TABLE_ELEMENTS_MAX: usize = 64 << 10;
/// How often a call may ask for what it may not have: a refusal costs little fuel and much time.
const REFUSED_MAX: u32 = 256;

/// What an instance may have.
#[derive(Debug)]
pub(super) struct Bounds {
    memory_bytes_max: usize,
    /// Of all its memories, exported or not.
    memory_bytes: usize,
    table_elements: usize,
    /// Of the current call.
    refused: u32,
}

impl Bounds {
    /// Tells the module whether it has more; the call ends where it does not take no for an answer.
    fn answer(&mut self, fits: bool) -> wasmtime::Result<bool> {
        self.refused += u32::from(!fits);
        match self.refused <= REFUSED_MAX {
            true => Ok(fits),
            false => Err(wasmtime::Error::msg(format!(
                "the function was refused memory {REFUSED_MAX} times and asked for more"
            ))),
        }
    }
}

impl ResourceLimiter for Bounds {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let bytes = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        let fits = bytes <= self.memory_bytes_max;
        if fits {
            self.memory_bytes = bytes;
        }
        self.answer(fits)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.table_elements.saturating_add(desired.saturating_sub(current));
        let fits = elements <= TABLE_ELEMENTS_MAX;
        if fits {
            self.table_elements = elements;
        }
        self.answer(fits)
    }
}

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
        let bounds = Bounds {
            memory_bytes_max: limits.memory_bytes,
            memory_bytes: 0,
            table_elements: 0,
            refused: 0,
        };
        let mut store = Store::new(code.pre.module().engine(), bounds);
        store.limiter(|bounds| bounds);
        store.set_fuel(limits.fuel).map_err(failed)?;
        store.fuel_async_yield_interval(Some(limits.yield_fuel.max(1))).map_err(failed)?;
        let instance = code.pre.instantiate_async(&mut store).await.map_err(failed)?;
        if let Ok(start) = instance.get_typed_func::<(), ()>(&mut store, "_initialize") {
            start.call_async(&mut store, ()).await.map_err(failed)?;
        }
        let entry = instance.get_func(&mut store, &code.name);
        let entry = entry.ok_or_else(|| format!("function {} was not found", code.name))?;
        let memory = instance.get_memory(&mut store, "memory");
        let mut abi = None;
        if code.serializes() {
            let Some(memory) = memory else { return Err("memory is not exported".to_owned()) };
            abi = Some(match version(&mut store, &instance, memory)? {
                1 => Abi::Pages { start: 0, end: 0 },
                2 => Abi::Malloc {
                    malloc: export(&mut store, &instance, "_scylla_malloc")?,
                    free: export(&mut store, &instance, "_scylla_free")?,
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
        self.store.set_fuel(self.limits.fuel).map_err(failed)?;
        self.store.data_mut().refused = 0;
        let words = self.place(arguments).await?;
        let mut results = [Val::I32(0)];
        let called = self.entry.call_async(&mut self.store, &words, &mut results).await;
        called.map_err(failed)?;
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
            free.clone().call_async(&mut self.store, *word as i32).await.map_err(failed)?;
        }
        Ok(Some(value))
    }

    /// The arguments as the function takes them.
    async fn place(&mut self, arguments: Vec<Argument>) -> Result<Vec<Val>, String> {
        let lengths = arguments.iter().map(|argument| match argument {
            Argument::Bytes(Some(bytes)) => (bytes.len() as u64).next_multiple_of(ALIGNMENT),
            _ => 0,
        });
        let mut at = self.room(lengths.sum()).await?;
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
                    let malloc = malloc.clone();
                    let start = malloc.call_async(&mut self.store, length as i32).await;
                    start.map_err(failed)? as u32
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
    async fn room(&mut self, bytes: u64) -> Result<u64, String> {
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
            let grown = memory.grow_async(&mut self.store, pages).await;
            grown.map_err(|_| format!("{bytes} bytes of arguments do not fit in the memory"))?;
            (*start, *end) = (from, top + pages * PAGE_BYTES);
        }
        Ok(*start)
    }
}

/// The version of the ABI that a module says it has: four bytes at the place that `_scylla_abi`
/// holds.
fn version(
    store: &mut Store<Bounds>,
    instance: &wasmtime::Instance,
    memory: Memory,
) -> Result<u32, String> {
    let global = instance.get_global(&mut *store, "_scylla_abi");
    let global = global.ok_or_else(|| "_scylla_abi is not exported".to_owned())?;
    let Val::I32(at) = global.get(&mut *store) else {
        return Err("_scylla_abi is not an i32".to_owned());
    };
    let mut bytes = [0; 4];
    let read = memory.read(&*store, at as u32 as usize, &mut bytes);
    read.map_err(|_| "_scylla_abi is out of bounds".to_owned())?;
    Ok(u32::from_le_bytes(bytes))
}

fn export<P, R>(
    store: &mut Store<Bounds>,
    instance: &wasmtime::Instance,
    name: &str,
) -> Result<TypedFunc<P, R>, String>
where
    P: wasmtime::WasmParams,
    R: wasmtime::WasmResults,
{
    let found = instance.get_typed_func(&mut *store, name);
    found.map_err(|error| format!("{name} cannot be called: {error}"))
}
