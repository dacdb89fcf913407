//! A prepared statement: its id, its bind variables and its result columns.

use crate::session::BatchForm;
use cluster::Schema;
use plan::metadata::{BindMetadata, ResultMetadata};
use plan::{Plan, Statement};
use std::cell::RefCell;
use std::rc::Rc;

/// A prepared statement. Stays valid when the schema changes: it is analysed again when it is
/// executed next, and refused if that fails.
#[derive(Debug)]
pub struct Prepared {
    id: [u8; 16],
    /// Of the result, as PREPARED reported it.
    told_metadata_id: Option<[u8; 16]>,
    statement: RefCell<Rc<Statement>>,
}

impl Prepared {
    /// A statement of that [`statement_id`].
    pub(crate) fn new(id: [u8; 16], statement: Rc<Statement>) -> Prepared {
        let told_metadata_id = statement.result().map(|result| result.id);
        Prepared { id, told_metadata_id, statement: RefCell::new(statement) }
    }

    /// MD5 of keyspace and text.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }
    /// The statement.
    pub fn text(&self) -> Rc<str> {
        self.statement.borrow().text.clone()
    }
    /// The keyspace of its unqualified names.
    pub fn keyspace(&self) -> Option<Rc<str>> {
        self.statement.borrow().keyspace.clone()
    }
    /// Its bind markers.
    pub fn bind(&self) -> Rc<BindMetadata> {
        self.statement.borrow().bind.clone()
    }
    /// The columns of its result; `None` when it answers no rows, or its columns vary.
    pub fn result(&self, form: BatchForm) -> Option<Rc<ResultMetadata>> {
        if self.varies(form) { None } else { self.statement.borrow().result() }
    }
    /// Whether the columns of its result depend on what is found: each answer names its own, and
    /// no client may keep them.
    pub fn varies(&self, form: BatchForm) -> bool {
        let statement = self.statement.borrow();
        form == BatchForm::Cassandra
            && matches!(&statement.plan, Plan::Batch(plan) if plan.result.is_some())
    }
    /// Whether clients know the columns of the result from when they prepared it: they were told
    /// some, and these are still the same. Only then may an answer leave them out.
    pub fn is_result_known(&self, form: BatchForm) -> bool {
        self.told_metadata_id.is_some()
            && self.result(form).map(|result| result.id) == self.told_metadata_id
    }
    /// Whether it is conditional (`IF ..`).
    pub fn is_lwt(&self) -> bool {
        self.statement.borrow().is_conditional()
    }

    /// The statement, against whatever schema it was analysed last.
    pub(crate) fn as_analysed(&self) -> Rc<Statement> {
        self.statement.borrow().clone()
    }

    /// The statement, if it was analysed against that schema.
    pub(crate) fn present(&self, schema: &Schema) -> Option<Rc<Statement>> {
        let statement = self.statement.borrow();
        (statement.version == schema.version).then(|| statement.clone())
    }

    /// What it was analysed as now.
    pub(crate) fn renew(&self, statement: &Rc<Statement>) {
        *self.statement.borrow_mut() = statement.clone();
    }
}

/// The id of a statement: equal on every shard and node.
pub(crate) fn statement_id(keyspace: Option<&str>, text: &str) -> [u8; 16] {
    use md5::{Digest, Md5};
    let mut hash = Md5::new();
    hash.update(keyspace.unwrap_or_default());
    hash.update(text);
    hash.finalize().into()
}
