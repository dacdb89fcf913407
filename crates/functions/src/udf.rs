//! User-defined functions and aggregates.
//!
//! Invariants
//!  - *bounded*: a call ends in its time and with its memory, whatever its body does.
//!  - *nothing-shared*: a function sees its arguments and nothing else; changes of a script to
//!    its globals are discarded after the call, and what a module keeps in its memory only itself
//!    sees.
//!
//! A definition is part of the schema (`model::schema::UserFunction`). A shard compiles it when
//! it is called first ([`Engine`]), and keeps what was compiled for the last functions used.
//!
//! From the ground up: `pool` and `compiled` (what is kept for the next call), `lua`, `wasm`,
//! `engine` (of a shard), `calls` (how those of a statement are interrupted), `function` and
//! `aggregate` (as terms call them).

mod aggregate;
mod calls;
mod compiled;
mod engine;
mod function;
mod lua;
mod pool;
pub mod wasm;

pub use aggregate::UserAggregate;
pub use calls::Calls;
pub use engine::Engine;
pub use function::UserFunction;
pub use lua::{push::push as push_lua, sandbox::Sandbox};

use std::task::{Context, Poll};
use std::time::Duration;

/// What users may do with functions of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whether functions can be created.
    pub enabled: bool,
    /// A call ends after so long.
    pub time: Duration,
    /// What a script may allocate.
    pub memory_bytes: usize,
    /// Of functions in WebAssembly.
    pub wasm: wasm::Limits,
}

impl Limits {
    /// Those of a node whose options say nothing else: no functions.
    pub const fn standard() -> Limits {
        Limits {
            enabled: false,
            time: Duration::from_millis(10),
            memory_bytes: 1 << 20,
            wasm: wasm::Limits::standard(),
        }
    }
}

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It may.
    Steps,
    /// It is polled until it has ended.
    Whole,
}

/// A call that has not ended.
enum Running {
    Lua(lua::Running),
    Wasm(wasm::Running),
}

impl Running {
    /// Runs for a slice. Its value, or its error as clients see it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, String>> {
        match self {
            Running::Lua(running) => running.poll(cx),
            Running::Wasm(running) => running.as_mut().poll(cx),
        }
    }
}
