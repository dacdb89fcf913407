//! The tables that statements name.

use crate::error::Error;
use cluster::system_tables::{BACKUPS, TRANSACTIONS};
use cluster::{Cluster, Schema, TableEntry};
use std::rc::Rc;
use syntax::ast;

/// The table that a name names.
pub(crate) fn table<'s>(
    schema: &'s Schema,
    keyspace: Option<&str>,
    name: &ast::QualifiedName,
) -> Result<&'s Rc<TableEntry>, Error> {
    let keyspace = match (&name.keyspace, keyspace) {
        (Some(name), _) => &name.text,
        (None, Some(keyspace)) => keyspace,
        (None, None) => {
            return Err(Error::invalid(
                "No keyspace has been specified. USE a keyspace, or explicitly specify \
                 keyspace.tablename",
            ));
        }
    };
    if schema.keyspace(keyspace).is_none() {
        return Err(Error::Invalid(format!("Keyspace '{keyspace}' does not exist")));
    }
    let unknown = || Error::Invalid(format!("unconfigured table {}", name.name.text));
    schema.table(keyspace, &name.name.text).ok_or_else(unknown)
}

/// An error for views, whose rows are those of their bases.
pub(crate) fn refuse_writes_of_views(table: &TableEntry) -> Result<(), Error> {
    match table.schema.view {
        None => Ok(()),
        Some(_) => Err(Error::invalid("Cannot directly modify a materialized view")),
    }
}

/// An error for the tables that the node itself lives by: what clients could write into them would
/// be believed at the next start.
pub(crate) fn refuse_writes_of_system(table: &TableEntry) -> Result<(), Error> {
    match table.schema.keyspace.as_str() {
        // Superusers may: who executes it asks.
        _ if Cluster::is_access_table(&table.schema) => Ok(()),
        keyspace @ ("system" | "system_schema" | BACKUPS | TRANSACTIONS) => {
            Err(Error::Unauthorized(format!("{keyspace} keyspace is not user-modifiable.")))
        }
        _ => Ok(()),
    }
}
