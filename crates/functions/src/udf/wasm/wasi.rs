//! What modules built for WASI find of a system: nothing to open, no arguments, no environment.
//!
//! Compilers for WASI make modules that name functions of `wasi_snapshot_preview1` and call few of
//! them, if any. Output is discarded; time and random numbers are given; a module that
//! exits has failed; all other calls trap. Source of the signatures: the WASI preview 1
//! specification.

use super::bounds::Bounds;
use wasmi::{Caller, Error, Extern, ExternType, Func, Memory, Module, Store};

/// The module that the functions are imported from.
const MODULE: &str = "wasi_snapshot_preview1";

const SUCCESS: i32 = 0;
const BAD_FILE: i32 = 8;
const BAD_ADDRESS: i32 = 21;

type Calling<'a> = Caller<'a, Bounds>;

/// What a module imports: these functions, and others that trap. Refuses imports that are nothing
/// of the kind.
pub(super) fn imports_of(
    module: &Module,
    store: &mut Store<Bounds>,
) -> Result<Vec<Extern>, String> {
    let mut made = Vec::new();
    for import in module.imports() {
        let (from, what) = (import.module(), import.name());
        if from != MODULE {
            return Err(format!("Compilation failed: unknown import {from}.{what}"));
        }
        let reason = format!("unknown import: `{from}::{what}` has not been defined");
        let ExternType::Func(ty) = import.ty() else { return Err(reason) };
        let function = match function(store, what) {
            Some(function) if function.ty(&*store) == *ty => function,
            Some(_) => return Err(format!("incompatible import type for `{from}::{what}`")),
            None => Func::new(&mut *store, ty.clone(), move |_: Calling<'_>, _, _| {
                Err(Error::new(reason.clone()))
            }),
        };
        made.push(Extern::Func(function));
    }
    Ok(made)
}

/// The function of that name.
fn function(store: &mut Store<Bounds>, name: &str) -> Option<Func> {
    Some(match name {
        "proc_exit" => Func::wrap(store, |code: i32| -> Result<(), Error> {
            Err(Error::new(format!("the module exited with code {code}")))
        }),
        "environ_sizes_get" | "args_sizes_get" => Func::wrap(store, no_sizes),
        "environ_get" | "args_get" => Func::wrap(store, |_: i32, _: i32| SUCCESS),
        "fd_write" => Func::wrap(store, swallow),
        "fd_read" => Func::wrap(store, |_: i32, _: i32, _: i32, _: i32| BAD_FILE),
        "fd_seek" => Func::wrap(store, |_: i32, _: i64, _: i32, _: i32| BAD_FILE),
        "fd_close" => Func::wrap(store, |_: i32| BAD_FILE),
        "fd_fdstat_get" | "fd_prestat_get" => Func::wrap(store, |_: i32, _: i32| BAD_FILE),
        "fd_prestat_dir_name" => Func::wrap(store, |_: i32, _: i32, _: i32| BAD_FILE),
        "sched_yield" => Func::wrap(store, || SUCCESS),
        "random_get" => Func::wrap(store, random),
        "clock_time_get" => Func::wrap(store, time),
        _ => return None,
    })
}

fn no_sizes(mut caller: Calling<'_>, count: i32, bytes: i32) -> i32 {
    put(&mut caller, count, &[0; 4]).max(put(&mut caller, bytes, &[0; 4]))
}

fn time(mut caller: Calling<'_>, _clock: i32, _precision: i64, to: i32) -> i32 {
    let nanos = runtime::time::wall_micros().saturating_mul(1000);
    put(&mut caller, to, &nanos.to_le_bytes())
}

fn memory(caller: &mut Calling<'_>) -> Option<Memory> {
    caller.get_export("memory").and_then(Extern::into_memory)
}

fn put(caller: &mut Calling<'_>, to: i32, bytes: &[u8]) -> i32 {
    let written = memory(caller).map(|memory| memory.write(caller, to as u32 as usize, bytes));
    if matches!(written, Some(Ok(()))) { SUCCESS } else { BAD_ADDRESS }
}

/// Says that all of it was written.
fn swallow(mut caller: Calling<'_>, _file: i32, parts: i32, count: i32, to: i32) -> i32 {
    let Some(memory) = memory(&mut caller) else { return BAD_ADDRESS };
    let start = parts as u32 as usize;
    let end = (count as u32 as usize).checked_mul(8).and_then(|bytes| start.checked_add(bytes));
    let parts = end.and_then(|end| memory.data(&caller).get(start..end));
    let Some(parts) = parts else { return BAD_ADDRESS };
    // Of each: where it starts, and its length.
    let (parts, _) = parts.as_chunks::<8>();
    let lengths = parts.iter().map(|[.., a, b, c, d]| u32::from_le_bytes([*a, *b, *c, *d]));
    let sum = lengths.fold(0u32, u32::saturating_add);
    put(&mut caller, to, &sum.to_le_bytes())
}

fn random(mut caller: Calling<'_>, to: i32, length: i32) -> i32 {
    let Some(memory) = memory(&mut caller) else { return BAD_ADDRESS };
    let start = to as u32 as usize;
    let end = start.checked_add(length as u32 as usize);
    let Some(room) = end.and_then(|end| memory.data_mut(&mut caller).get_mut(start..end)) else {
        return BAD_ADDRESS;
    };
    for part in room.chunks_mut(8) {
        let bytes = runtime::random_u64().to_le_bytes();
        part.copy_from_slice(&bytes[..part.len()]);
    }
    SUCCESS
}
