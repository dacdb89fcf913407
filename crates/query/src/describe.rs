//! `DESCRIBE`: the schema as the statements that would create it.

use crate::error::CqlError;
use crate::processor::Processor;
use crate::response::Response;
use crate::session::Session;
use crate::syntax::ast::Describe;

/// Executes a `DESCRIBE`.
pub(crate) async fn execute(
    processor: &Processor,
    session: &Session,
    statement: &Describe,
) -> Result<Response, CqlError> {
    let _ = (processor, session, statement);
    Err(CqlError::invalid("DESCRIBE is not supported yet"))
}
