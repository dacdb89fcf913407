//! What a connection is to the processor: who is at the other end, and which keyspace is in use.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    /// The keyspace set by `USE`.
    pub keyspace: RefCell<Option<Rc<str>>>,
    /// Who is logged in; `None` without authentication.
    pub user: RefCell<Option<String>>,
    /// Where the client is; `None` for this node itself.
    pub client: Option<SocketAddr>,
}

impl Session {
    /// A connection of a client.
    pub fn new(client: SocketAddr) -> Session {
        Session { client: Some(client), ..Session::internal() }
    }

    /// This node itself: may do everything.
    pub fn internal() -> Session {
        Session { keyspace: RefCell::new(None), user: RefCell::new(None), client: None }
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<Rc<str>> {
        self.keyspace.borrow().clone()
    }
}
