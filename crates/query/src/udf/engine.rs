//! What a shard has compiled.

use super::compiled::Compiled;
use super::lua::{self, Script};
use super::{Limits, Running};
use crate::error::CqlError;
use cluster::Schema;
use model::Type;
use model::schema::UserFunction;
use std::cell::RefCell;
use std::rc::Rc;

/// Compiled functions that a shard keeps at most.
const COMPILED_MAX: usize = 128;

/// The compiled functions of one shard. Lives in `runtime::local`.
pub(crate) struct Engine {
    limits: Limits,
    scripts: RefCell<Compiled<Rc<Script>>>,
}

impl Engine {
    pub(crate) fn new(limits: Limits) -> Engine {
        // Scripts differ little in what they take: their number bounds them.
        Engine { limits, scripts: RefCell::new(Compiled::new(COMPILED_MAX, usize::MAX)) }
    }

    /// Refuses a function that cannot be called: of an unknown language, or with a body that is
    /// not of its language.
    pub(crate) fn check(&self, function: &UserFunction) -> Result<(), CqlError> {
        match function.language.as_str() {
            "lua" => lua::check(function).map_err(CqlError::Invalid),
            other => Err(CqlError::Invalid(format!("Language '{other}' is not supported"))),
        }
    }

    /// Forgets what is not in the schema.
    pub(super) fn retain(&self, schema: &Schema) {
        let is_there = |function: &Rc<UserFunction>| {
            let types: Vec<Type> = function.argument_types().cloned().collect();
            let keyspace = schema.keyspace(&function.keyspace);
            let known = keyspace.and_then(|it| it.function(&function.name, &types));
            known.is_some_and(|known| **known == **function)
        };
        drop(self.scripts.borrow_mut().retain(is_there));
    }

    /// Begins a call; it has not run yet.
    pub(super) fn start(
        &self,
        function: &Rc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Running, String> {
        let script = self.script(function)?;
        Ok(Running::Lua(lua::Running::start(&script, function, arguments)?))
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
