//! A statement that was prepared: its identity, what it binds and what it answers.

use crate::response::{BindMetadata, ResultMetadata};
use std::rc::Rc;

/// A prepared statement. Stays valid when the schema changes: it is analysed anew when it is
/// executed next, and refused if that fails.
#[derive(Debug)]
pub struct Prepared {
    id: [u8; 16],
    text: Rc<str>,
    bind: Rc<BindMetadata>,
    result: Option<Rc<ResultMetadata>>,
    is_lwt: bool,
}

impl Prepared {
    /// MD5 of keyspace and text.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }
    /// The statement.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Its bind markers.
    pub fn bind(&self) -> Rc<BindMetadata> {
        self.bind.clone()
    }
    /// The columns of its result; `None` when it answers no rows.
    pub fn result(&self) -> Option<Rc<ResultMetadata>> {
        self.result.clone()
    }
    /// Whether it is conditional (`IF ..`).
    pub fn is_lwt(&self) -> bool {
        self.is_lwt
    }
}
