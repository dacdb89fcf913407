//! User-defined aggregates: a state that a function updates row by row.

use super::{Callable, Calls};
use crate::error::CqlError;
use crate::functions::UserFunction as _;
use crate::markers::Markers;
use crate::options::Options;
use crate::term::{Env, Preparer, Receiver};
use cluster::{KeyspaceEntry, Schema};
use model::Type;
use model::schema::{NullInput, UserAggregate};
use syntax::ast::Expr;

/// An aggregate with its functions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    state: Callable,
    finish: Option<Callable>,
    initial: Option<Vec<u8>>,
}

impl Fold {
    /// The aggregate with the functions that its keyspace has now.
    pub(super) fn new(
        schema: &Schema,
        keyspace: &KeyspaceEntry,
        definition: &UserAggregate,
    ) -> Result<Fold, CqlError> {
        let function = |name: &str, types: &[Type]| {
            let found = keyspace.function(name, types).cloned().map(Callable::new);
            found.ok_or_else(|| CqlError::Invalid(format!("Unknown function '{name}'")))
        };
        let UserAggregate { state_type, state_function, final_function, .. } = definition;
        let finish = final_function.as_deref();
        let initial = definition.initial.as_deref();
        Ok(Fold {
            state: function(state_function, &definition.state_arguments())?,
            finish: finish
                .map(|name| function(name, std::slice::from_ref(state_type)))
                .transpose()?,
            initial: match initial {
                None => None,
                Some(text) => {
                    let expr = syntax::parse_term(text)?;
                    evaluate(schema, &definition.keyspace, state_type, &expr)?
                }
            },
        })
    }
}

impl crate::functions::UserAggregate for Fold {
    fn begin(&self) -> Option<Vec<u8>> {
        self.initial.clone()
    }

    /// A row with a null does not count for a function that takes none.
    fn add(
        &self,
        state: Option<Vec<u8>>,
        arguments: &[Option<&[u8]>],
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        let skips = self.state.definition().null_input == NullInput::ReturnsNull;
        if skips && arguments.contains(&None) {
            return Ok(state);
        }
        let mut all = vec![state.as_deref()];
        all.extend_from_slice(arguments);
        self.state.call(&all, calls)
    }

    fn finish(
        &self,
        state: Option<Vec<u8>>,
        calls: Option<&Calls>,
    ) -> Result<Option<Vec<u8>>, CqlError> {
        match &self.finish {
            None => Ok(state),
            Some(function) => function.call(&[state.as_deref()], calls),
        }
    }
}

/// The value of a term that depends on nothing.
pub(super) fn evaluate(
    schema: &Schema,
    keyspace: &str,
    ty: &Type,
    expr: &Expr,
) -> Result<Option<Vec<u8>>, CqlError> {
    let mut markers = Markers::none(Options::standard());
    let mut preparer = Preparer {
        schema,
        keyspace,
        table: None,
        markers: &mut markers,
        row: None,
        aggregates: None,
    };
    let term = preparer.prepare(expr, Receiver { name: "initcond", ty })?;
    let ids = crate::ids::Ids::new(0);
    let env = Env::new(&[], 0, &ids);
    let value = term.evaluate(&env)?;
    Ok(value.bytes().map(<[u8]>::to_vec))
}
