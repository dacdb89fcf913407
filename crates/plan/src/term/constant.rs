//! Values of terms that depend on nothing.

use super::preparer::Preparer;
use super::{Env, Term};
use crate::error::Error;
use crate::markers::{Markers, Receiver};
use crate::options::Options;
use cluster::Schema;
use functions::Uuids;
use syntax::ast::Expr;

/// The value of a term that depends on nothing.
pub(super) fn value_of(term: &Term) -> Result<Option<Vec<u8>>, Error> {
    let uuids = Uuids::new(0); // Constants ask for none.
    Ok(term.evaluate(&Env::new(&[], 0, &uuids))?.bytes().map(<[u8]>::to_vec))
}

/// The value of an expression without markers that stands in no statement about a table.
pub fn constant(
    schema: &Schema,
    keyspace: &str,
    expr: &Expr,
    receiver: Receiver<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let markers = &mut Markers::none(Options::standard());
    let mut preparer =
        Preparer { schema, keyspace, table: None, markers, row: None, aggregates: None };
    value_of(&preparer.prepare(expr, receiver)?)
}
