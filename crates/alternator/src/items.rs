//! Operations on single items: `GetItem`, `PutItem`, `DeleteItem`, `UpdateItem`.

use crate::capacity::Capacity;
use crate::error::Error;
use crate::filter::selection_of;
use crate::json::Object;
use crate::key::Key;
use crate::met::Op;
use crate::node::{Caller, Node};
use crate::owner::execute;
use crate::paths;
use crate::request::Request;
use crate::row::{Row, command_of_item};
use crate::system;
use crate::traced;
use crate::value::{item_size, write_attributes};
use crate::write::{Operation, Write};
use auth::Permission;
use mutation::page::PageView;

/// `PutItem`, `DeleteItem` or `UpdateItem`. `body`: the text of the request.
pub(crate) async fn write(
    node: &Node,
    caller: &Caller,
    operation: Operation,
    body: &str,
) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.table(&request.need_string("TableName")?)?;
    if table.attributes.is_none() {
        return system::write(node, caller, &table, (operation, &request)).await;
    }
    let write = Write::of(operation, &request, &table, &node.programs)?;
    node.check(caller, Permission::Modify, &table)?;
    execute((node, caller), &table, (operation, write), body).await
}

/// `GetItem`
pub(crate) async fn get(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.table(&request.need_string("TableName")?)?;
    request.check_styles(&["AttributesToGet"], &["ProjectionExpression"])?;
    let known = request.placeholders(&node.programs)?;
    let selection = selection_of(&request, &known)?;
    known.check_used()?;
    paths::check_read(&table, selection.as_ref(), None)?;
    let (key, _) = Key::of_parameter(&table, request.need_object("Key")?)?;
    let consistent = request.bool("ConsistentRead")?.unwrap_or(false);
    let capacity = Capacity::of(&request)?;
    node.check(caller, Permission::Select, &table)?;
    let command = command_of_item(&table, &key);
    caller.tell(node, || traced::READING.to_owned());
    let page = node.read(&table, key.token(), &command, consistent).await?;
    caller.tell_page(node, &page);
    let mut out = String::with_capacity(page.bytes.len() * 3 / 2 + 64);
    let mut object = Object::open(&mut out);
    let view = PageView::trusted(&page.bytes, command.layout());
    let partition = view.partitions().next();
    let mut bytes = 0;
    if let Some(partition) = &partition
        && let Some(row) = partition.rows().next()
    {
        let row = Row::new(&table, partition, &row);
        // What the service counts is known of the item alone.
        bytes = if capacity.is_told() { item_size(&row.item()?) } else { row.size() };
        match &selection {
            None => row.write(object.member("Item"))?,
            Some(selection) => {
                write_attributes(&selection.of_item(&row.item()?), object.member("Item"));
            }
        }
    }
    let halves = Capacity::of_read(bytes, consistent);
    node.count(&table, |counted| {
        counted.read(halves);
        counted.sized(Op::GET, bytes);
    });
    capacity.write(&mut object, &table.name, halves);
    object.close();
    Ok(out)
}
