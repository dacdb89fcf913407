//! Writes of the node's own tables, of which one can be written: options that change while the node
//! runs, in `system.config`.

use crate::error::{Error, Kind};
use crate::expression::Operand;
use crate::key::{Key, plain_component};
use crate::node::{Caller, Node};
use crate::request::Request;
use crate::row::Moment;
use crate::table::Table;
use crate::write::{Operation, update_of};
use cluster::TableKind;
use mutation::row::Marker;
use mutation::{Cell, MutationBuilder};

/// `UpdateItem` of such a table.
pub(crate) async fn write(
    node: &Node,
    caller: &Caller,
    table: &Table,
    (operation, request): (Operation, &Request<'_>),
) -> Result<String, Error> {
    let refuse = |why: &str| Err(Error::validation(format!("{}: {why}", table.name)));
    if !node.options.allow_system_table_write.get() {
        let text = "writing tables of the system needs alternator_allow_system_table_write";
        return Err(Error::new(Kind::AccessDenied, text));
    }
    node.asked(caller, table);
    node.check_superuser(caller, "changing an option")?;
    if operation != Operation::Update || table.entry.kind != TableKind::Virtual {
        return refuse("only UpdateItem of tables of options is possible");
    }
    let known = request.placeholders(&node.programs)?;
    let update = update_of(request, table, &known)?;
    known.check_used()?;
    let (key, _) = Key::of_parameter(table, request.need_object("Key")?)?;
    let schema = &*table.entry.schema;
    let moment = Moment::of(node.timestamp());
    let mut cells = Vec::new();
    for (path, operand) in &update.set {
        let (Operand::Value(value), Some(column)) = (operand, schema.column(&path.root)) else {
            return refuse("only columns are set, to values");
        };
        cells.push((column.id, plain_component(column, value)?));
    }
    if cells.is_empty() || update.paths().count() != cells.len() {
        return refuse("something has to be set, and nothing else");
    }
    let mut builder = MutationBuilder::new(schema, &key.partition);
    builder.row_with(&key.clustering, |row| {
        row.marker(Marker::Live { timestamp: moment.timestamp });
        cells.sort_by_key(|(id, _)| *id);
        cells.iter().for_each(|(id, bytes)| row.cell(*id, Cell::live(moment.timestamp, bytes)));
        Ok::<(), Error>(())
    })?;
    let written = node.cluster.write_virtual(schema, &builder.freeze()).await;
    written.map_err(|reason| Error::validation(format!("{}: {reason}", table.name)))?;
    Ok("{}".to_owned())
}
