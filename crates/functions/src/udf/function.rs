//! A function of a user, as terms call it.

use super::engine::Engine;
use super::{Calls, Pace, calls};
use crate::error::Error;
use model::schema::{self, NullInput};
use std::rc::Rc;

/// A function of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFunction(Rc<schema::UserFunction>);

impl UserFunction {
    /// The function of that definition.
    pub(crate) fn new(definition: Rc<schema::UserFunction>) -> UserFunction {
        UserFunction(definition)
    }

    /// Its definition.
    pub(super) fn definition(&self) -> &Rc<schema::UserFunction> {
        &self.0
    }

    /// Its value of these arguments, null ones among them. With `calls` it may be interrupted,
    /// which is an error that ends the step (see [`Calls`]).
    pub(crate) fn call(
        &self,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, Error> {
        if self.is_null_of(arguments) {
            return Ok(None);
        }
        let Some(engine) = runtime::local::try_get::<Engine>() else {
            return Err(Error::invalid("User function cannot be executed in this context"));
        };
        let start = |pace| engine.start(&self.0, arguments, pace);
        match calls {
            Some(calls) => calls.call(start),
            None => calls::whole(start(Pace::Whole)?),
        }
    }

    /// Whether these arguments make its value null without a call.
    fn is_null_of(&self, arguments: &[Option<&[u8]>]) -> bool {
        self.0.null_input == NullInput::ReturnsNull && arguments.contains(&None)
    }
}
