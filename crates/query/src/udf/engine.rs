//! What a shard has compiled.

use super::lua::{Running, Script};
use super::{Limits, lua};
use crate::error::CqlError;
use model::Type;
use model::schema::UserFunction;
use std::cell::RefCell;
use std::rc::Rc;
use stdx::HashMap;

/// Compiled functions that a shard keeps at most.
const COMPILED_MAX: usize = 128;

/// A definition with what it was compiled to.
type Compiled = (Rc<UserFunction>, Rc<Script>);

/// The compiled functions of one shard, by signature. Lives in `runtime::local`.
pub(crate) struct Engine {
    limits: Limits,
    compiled: RefCell<HashMap<String, Compiled>>,
}

impl Engine {
    pub(crate) fn new(limits: Limits) -> Engine {
        Engine { limits, compiled: RefCell::default() }
    }

    /// Refuses a function that cannot be called: of an unknown language, or with a body that is
    /// not of its language.
    pub(crate) fn check(&self, function: &UserFunction) -> Result<(), CqlError> {
        match function.language.as_str() {
            "lua" => lua::check(function).map_err(CqlError::Invalid),
            other => Err(CqlError::Invalid(format!("Language '{other}' is not supported"))),
        }
    }

    /// Begins a call; it has not run yet.
    pub(super) fn start(
        &self,
        function: &Rc<UserFunction>,
        arguments: &[Option<&[u8]>],
    ) -> Result<Running, String> {
        Running::start(&self.script(function)?, function, arguments)
    }

    fn script(&self, function: &Rc<UserFunction>) -> Result<Rc<Script>, String> {
        let types: Vec<String> = function.argument_types().map(Type::to_cql).collect();
        let key = format!("{}.{}({})", function.keyspace, function.name, types.join(", "));
        let mut compiled = self.compiled.borrow_mut();
        if let Some((known, script)) = compiled.get(&key)
            && (Rc::ptr_eq(known, function) || **known == **function)
        {
            return Ok(script.clone());
        }
        let script = Rc::new(Script::new(function, self.limits)?);
        if COMPILED_MAX <= compiled.len() {
            compiled.clear();
        }
        compiled.insert(key, (function.clone(), script.clone()));
        Ok(script)
    }
}
