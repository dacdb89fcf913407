//! The schema registry of one shard: the present snapshot, and the way to the next.

use crate::event::{Events, SchemaEvent};
use crate::node::NodeInfo;
use crate::schema::{Schema, SchemaChange};
use crate::virtual_tables::VirtualRows;
use model::{TableId, Uuid};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Why a schema change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError<E> {
    /// The decision said no.
    Refused(E),
    /// It could not be made durable, or not be carried out: the reason.
    Failed(String),
}

impl<E: fmt::Display> fmt::Display for ChangeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Refused(error) => write!(f, "{error}"),
            ChangeError::Failed(reason) => write!(f, "schema change failed: {reason}"),
        }
    }
}

/// What one shard knows of the cluster. Lives in `runtime::local`.
pub struct Cluster {
    node: NodeInfo,
    schema: RefCell<Rc<Schema>>,
}

impl Cluster {
    /// Who this node is.
    pub fn node(&self) -> &NodeInfo {
        &self.node
    }

    /// The present snapshot.
    pub fn schema(&self) -> Rc<Schema> {
        self.schema.borrow().clone()
    }

    /// Changes the schema. `decide` runs on shard 0, alone, and sees the schema as it is then; what
    /// it returns is made durable as one, then carried out and shown on every shard, then told to
    /// subscribers. Returns the events, one per change, when all shards show the new schema.
    /// No changes: nothing happens, `Ok` with an empty list.
    pub async fn change_schema<E, F>(&self, decide: F) -> Result<Vec<SchemaEvent>, ChangeError<E>>
    where
        F: FnOnce(&Schema) -> Result<Vec<SchemaChange>, E> + Send + 'static,
        E: Send + 'static,
    {
        let _ = decide;
        todo!()
    }

    /// Events from now on.
    pub fn subscribe(&self) -> Events {
        todo!()
    }

    /// Gives the virtual table `system.name` its rows on this shard (every shard must). Panics
    /// when there is no such virtual table.
    pub fn provide(&self, name: &str, rows: VirtualRows) {
        let _ = (name, rows);
        todo!()
    }

    /// How the rows of a virtual table are computed; `None` when nobody provides them: no rows.
    pub fn virtual_rows(&self, id: TableId) -> Option<VirtualRows> {
        let _ = id;
        todo!()
    }

    /// An id for a new table: a time-based UUID, never given twice.
    pub fn new_table_id() -> Uuid {
        todo!()
    }
}
