//! The result of a statement: nothing, rows, or a schema change.

use cluster::SchemaEvent;
use model::Uuid;
use plan::metadata::ResultMetadata;
use std::rc::Rc;

/// The answer to a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// What was answered.
    pub kind: ResponseKind,
    /// For the client's log.
    pub warnings: Vec<String>,
    /// The tracing session, where tracing was asked for.
    pub tracing_id: Option<Uuid>,
}

impl Response {
    /// Done, nothing to tell.
    pub const VOID: Response =
        Response { kind: ResponseKind::Void, warnings: Vec::new(), tracing_id: None };

    /// Adds warnings to those that it has.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        match self.warnings.is_empty() {
            true => self.warnings = warnings,
            false => self.warnings.extend(warnings),
        }
    }

    /// An answer without warnings.
    pub const fn of(kind: ResponseKind) -> Response {
        Response { kind, warnings: Vec::new(), tracing_id: None }
    }
}

/// The kinds of RESULT but PREPARED.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseKind {
    /// Done.
    Void,
    /// Rows.
    Rows(Rows),
    /// `USE` set this keyspace.
    SetKeyspace(Rc<str>),
    /// The schema was changed.
    SchemaChange(SchemaEvent),
}

/// A page of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Their columns.
    pub metadata: Rc<ResultMetadata>,
    /// How many there are.
    pub row_count: u32,
    /// Row by row the cells, each `[int length][bytes]`, -1 for null: as the frame wants them.
    pub body: Vec<u8>,
    /// Where the next page starts; `None`: this was the last one.
    pub paging_state: Option<Vec<u8>>,
}
