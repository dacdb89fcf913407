//! Operations on single items: `GetItem`, `PutItem`, `DeleteItem`, `UpdateItem`.

use crate::capacity::Capacity;
use crate::error::Error;
use crate::filter::selection_of;
use crate::json::Object;
use crate::key::Key;
use crate::node::{Caller, Node};
use crate::owner::execute;
use crate::request::Request;
use crate::row::{Row, command_of_item};
use crate::value::{attributes, write_attributes};
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
    let request = Request::parse(body.as_bytes())?;
    let table = node.table(&request.need_string("TableName")?)?;
    let write = Write::of(operation, &request, &table)?;
    node.check(caller, Permission::Modify, &table)?;
    if write.shows() {
        node.check(caller, Permission::Select, &table)?;
    }
    execute(node, &table, (operation, write), body).await
}

/// `GetItem`
pub(crate) async fn get(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body.as_bytes())?;
    let table = node.table(&request.need_string("TableName")?)?;
    request.check_styles(&["AttributesToGet"], &["ProjectionExpression"])?;
    let known = request.placeholders()?;
    let selection = selection_of(&request, &known)?;
    known.check_used()?;
    let key = Key::of_key(&table, &attributes(request.need_object("Key")?)?)?;
    let consistent = request.bool("ConsistentRead")?.unwrap_or(false);
    let capacity = Capacity::of(&request)?;
    node.check(caller, Permission::Select, &table)?;
    let command = command_of_item(&table, &key);
    let page = node.read(&table, key.token(), &command, consistent).await?;
    let mut out = String::with_capacity(page.bytes.len() * 3 / 2 + 64);
    let mut object = Object::open(&mut out);
    let view = PageView::trusted(&page.bytes, command.layout());
    let partition = view.partitions().next();
    let mut bytes = 0;
    if let Some(partition) = &partition
        && let Some(row) = partition.rows().next()
    {
        let row = Row::new(&table, partition, &row);
        bytes = row.size();
        match &selection {
            None => row.write(object.member("Item"))?,
            Some(selection) => {
                write_attributes(&selection.of_item(&row.item()?), object.member("Item"));
            }
        }
    }
    capacity.write(&mut object, &table.name, Capacity::of_read(bytes, consistent));
    object.close();
    Ok(out)
}
