//! An aggregate of a user: a state that a function takes from row to row.

use super::{Calls, UserFunction};
use crate::error::Error;
use cluster::KeyspaceEntry;
use model::Type;
use model::schema::{self, NullInput};
use std::rc::Rc;

/// A function of many rows, with the functions that it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAggregate {
    definition: Rc<schema::UserAggregate>,
    state: UserFunction,
    finish: Option<UserFunction>,
    initial: Option<Vec<u8>>,
}

impl UserAggregate {
    /// The aggregate with the functions that its keyspace has now; `None`: these do not fit. Its
    /// first state is null until [`UserAggregate::starting_with`] says another.
    pub(crate) fn new(
        keyspace: &KeyspaceEntry,
        definition: &Rc<schema::UserAggregate>,
    ) -> Option<UserAggregate> {
        let function = |name: &str, types: &[Type]| {
            keyspace.function(name, types).cloned().map(UserFunction::new)
        };
        let schema::UserAggregate { state_type, state_function, final_function, .. } =
            &**definition;
        let state = function(state_function, &definition.state_arguments())?;
        let finish = match final_function {
            Some(name) => Some(function(name, std::slice::from_ref(state_type))?),
            None => None,
        };
        Some(UserAggregate { definition: definition.clone(), state, finish, initial: None })
    }

    /// Its definition, in which the first state is a literal.
    pub fn definition(&self) -> &schema::UserAggregate {
        &self.definition
    }

    /// The same from that first state on, a value of the state's type.
    pub fn starting_with(self, initial: Option<Vec<u8>>) -> UserAggregate {
        UserAggregate { initial, ..self }
    }

    /// The state before the first row.
    pub(crate) fn begin(&self) -> Option<Vec<u8>> {
        self.initial.clone()
    }

    /// The state after a row with these arguments. A row with a null does not count for a function
    /// that takes none.
    pub(crate) fn add(
        &self,
        state: Option<Vec<u8>>,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let skips = self.state.definition().null_input == NullInput::ReturnsNull;
        if skips && arguments.contains(&None) {
            return Ok(state);
        }
        let mut all = vec![state.as_deref()];
        all.extend_from_slice(arguments);
        self.state.call(&all, calls)
    }

    /// The value after the last row.
    pub(crate) fn finish(
        &self,
        state: Option<Vec<u8>>,
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, Error> {
        match &self.finish {
            None => Ok(state),
            Some(function) => function.call(&[state.as_deref()], calls),
        }
    }
}
