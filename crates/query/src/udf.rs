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
//! In reading order: [`ddl`] (the statements), [`fold`] (aggregates), [`calls`] (how they are
//! interrupted), [`engine`], [`compiled`], [`lua`], [`wasm`], [`pool`].

mod calls;
mod compiled;
pub(crate) mod ddl;
mod engine;
mod fold;
pub(crate) mod lua;
mod pool;
pub(crate) mod wasm;

pub(crate) use calls::Calls;
pub(crate) use engine::Engine;

use crate::error::CqlError;
use crate::functions::{Aggregate, Body, Function, Signature};
use cluster::{Cluster, KeyspaceEntry, Schema};
use fold::Fold;
use model::schema::{NullInput, UserFunction};
use std::rc::Rc;
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

/// Lets every shard forget what it has compiled of functions that the schema has no more.
pub(crate) async fn forget_functions() {
    runtime::on_all_shards(|| async {
        let schema = runtime::local::get::<Cluster>().schema();
        if let Some(engine) = runtime::local::try_get::<Engine>() {
            engine.retain(&schema);
        }
    })
    .await;
}

/// What a name stands for in a keyspace. An aggregate whose functions do not fit is left out.
pub(crate) fn overloads(schema: &Schema, keyspace: &KeyspaceEntry, name: &str) -> Vec<Signature> {
    let home: Rc<str> = Rc::from(keyspace.keyspace.name.as_str());
    let functions = keyspace.functions(name).iter().map(|function| Signature {
        keyspace: home.clone(),
        arguments: function.argument_types().cloned().collect(),
        returns: function.returns.clone(),
        body: Body::Scalar(Function::User(Rc::new(Callable::new(function.clone())))),
    });
    let aggregates = keyspace.aggregates(name).iter().filter_map(|aggregate| {
        let fold = Fold::new(schema, keyspace, aggregate).ok()?;
        Some(Signature {
            keyspace: home.clone(),
            arguments: aggregate.arguments.clone(),
            returns: aggregate.returns.clone(),
            body: Body::Aggregate(Aggregate::User {
                aggregate: Rc::new(fold),
                argument_count: aggregate.arguments.len(),
                returns: aggregate.returns.clone(),
            }),
        })
    });
    functions.chain(aggregates).collect()
}

/// A function as terms call it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Callable(Rc<UserFunction>);

impl Callable {
    fn new(function: Rc<UserFunction>) -> Callable {
        Callable(function)
    }

    /// Its definition.
    fn definition(&self) -> &Rc<UserFunction> {
        &self.0
    }

    /// Whether these arguments make its value null without a call.
    fn is_null_of(&self, arguments: &[Option<&[u8]>]) -> bool {
        self.0.null_input == NullInput::ReturnsNull && arguments.contains(&None)
    }
}

impl crate::functions::UserFunction for Callable {
    fn call(
        &self,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        if self.is_null_of(arguments) {
            return Ok(None);
        }
        let Some(engine) = runtime::local::try_get::<Engine>() else {
            return Err(CqlError::invalid("User function cannot be executed in this context"));
        };
        let start = |pace| engine.start(&self.0, arguments, pace);
        match calls {
            Some(calls) => calls.call(start),
            None => calls::whole(start(Pace::Whole)?),
        }
    }
}
