//! Compiled functions of a shard.

use super::compiled::Compiled;
use super::lua::{self, Script};
use super::wasm;
use super::{Limits, Pace, Running};
use crate::error::Error;
use cluster::Schema;
use model::Type;
use model::schema::UserFunction;
use std::cell::RefCell;
use std::rc::Rc;

/// What a body is written in.
enum Language {
    Lua,
    Wasm,
}

impl Language {
    fn of(function: &UserFunction) -> Result<Language, Error> {
        match function.language.as_str() {
            "lua" => Ok(Language::Lua),
            "wasm" | "xwasm" => Ok(Language::Wasm),
            other => Err(Error::Invalid(format!("Language '{other}' is not supported"))),
        }
    }
}

/// Compiled functions that a shard keeps at most.
const COMPILED_MAX: usize = 128;

/// The compiled functions of one shard. Lives in `runtime::local`.
pub struct Engine {
    limits: Limits,
    scripts: RefCell<Compiled<Rc<Script>>>,
    /// Where functions can be created.
    modules: Option<Rc<wasm::Shard>>,
}

impl Engine {
    pub fn new(limits: Limits) -> Engine {
        // Scripts differ little in what they take: their number bounds them.
        let scripts = RefCell::new(Compiled::new(COMPILED_MAX, usize::MAX));
        let modules = limits.enabled.then(|| wasm::Shard::new(limits.wasm));
        Engine { limits, scripts, modules }
    }

    /// Refuses a function that cannot be called: of an unknown language, or with a body that is
    /// not of its language.
    pub async fn check(&self, function: &UserFunction) -> Result<(), Error> {
        let checked = match Language::of(function)? {
            Language::Lua => lua::check(function),
            Language::Wasm => self.modules()?.check(function).await,
        };
        checked.map_err(Error::Invalid)
    }

    /// Forgets what is not in the schema.
    pub fn retain(&self, schema: &Schema) {
        let is_there = |function: &Rc<UserFunction>| {
            let types: Vec<Type> = function.argument_types().cloned().collect();
            let keyspace = schema.keyspace(&function.keyspace);
            let known = keyspace.and_then(|it| it.function(&function.name, &types));
            known.is_some_and(|known| **known == **function)
        };
        drop(self.scripts.borrow_mut().retain(is_there));
        if let Some(modules) = &self.modules {
            modules.retain(is_there);
        }
    }

    /// Counts of functions in WebAssembly.
    pub fn stats(&self) -> wasm::Stats {
        self.modules.as_ref().map(|modules| modules.stats()).unwrap_or_default()
    }

    fn modules(&self) -> Result<&Rc<wasm::Shard>, Error> {
        let missing = || Error::invalid("Functions in WebAssembly are not enabled");
        self.modules.as_ref().ok_or_else(missing)
    }

    /// Begins a call; it has not run yet.
    pub(super) fn start(
        &self,
        function: &Rc<UserFunction>,
        arguments: &[Option<&[u8]>],
        pace: Pace,
    ) -> Result<Running, Error> {
        let running = match Language::of(function)? {
            Language::Lua => self
                .script(function)
                .and_then(|script| lua::Running::start(&script, function, arguments))
                .map(Running::Lua),
            Language::Wasm => self.modules()?.start(function, arguments, pace).map(Running::Wasm),
        };
        running.map_err(Error::Invalid)
    }

    fn script(&self, function: &Rc<UserFunction>) -> Result<Rc<Script>, String> {
        let known = self.scripts.borrow_mut().get(function);
        if let Some(script) = known {
            return Ok(script);
        }
        let script = Rc::new(Script::new(function, self.limits)?);
        drop(self.scripts.borrow_mut().insert(function, script.clone(), 1));
        Ok(script)
    }
}
