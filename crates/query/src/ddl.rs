//! Statements that change the schema: from the tree to `cluster::SchemaChange`.

use crate::error::CqlError;
use crate::processor::Processor;
use crate::response::Response;
use crate::session::Session;
use crate::syntax::ast::SchemaStatement;

/// Executes a statement that changes the schema.
pub(crate) async fn execute(
    processor: &Processor,
    session: &Session,
    statement: &SchemaStatement,
) -> Result<Response, CqlError> {
    let _ = (processor, session, statement);
    Err(CqlError::invalid("schema statements are not supported yet"))
}
