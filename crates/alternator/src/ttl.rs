//! When items expire: the attribute of a table that says so, set and shown.
//!
//! The attribute is kept with the table's schema; the scan for expired rows of `replication`
//! deletes what it says (`row_ttl` there).
//!
//! Invariants
//!  - *one-attribute*: a table has one attribute that says it, which is not changed while it has
//!    one. Both are decided on the schema as it is when the change is made, not when it is asked.

use crate::error::{Error, Kind};
use crate::json::Object;
use crate::node::{Caller, Node, changed};
use crate::request::Request;
use auth::Permission;
use cluster::{Schema, SchemaChange};
use model::schema::TableOptions;

/// Characters of an attribute's name.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=255;

const ATTRIBUTE: &str = TableOptions::ITEM_TTL_ATTRIBUTE;

/// `DescribeTimeToLive`
pub(crate) fn describe(node: &Node, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.any_table(&request.need_string("TableName")?)?;
    let attribute = table.entry.schema.options.extension(ATTRIBUTE);
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let mut described = Object::open(object.member("TimeToLiveDescription"));
    match attribute {
        Some(name) => {
            described.string("TimeToLiveStatus", "ENABLED").string("AttributeName", name);
        }
        None => {
            described.string("TimeToLiveStatus", "DISABLED");
        }
    }
    described.close();
    object.close();
    Ok(out)
}

/// `UpdateTimeToLive`
pub(crate) async fn update(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = node.settled_table(&request.need_string("TableName")?)?;
    let said =
        Request::of(request.need_object("TimeToLiveSpecification")?, "TimeToLiveSpecification")?;
    let name = said.need_string("AttributeName")?.into_owned();
    let enabled = said.bool("Enabled")?.ok_or_else(|| {
        Error::validation(
            "One or more parameter values were invalid: Enabled of TimeToLiveSpecification is \
             missing",
        )
    })?;
    if !NAME_CHARS.contains(&name.chars().count()) {
        return Err(Error::validation(format!(
            "AttributeName of TimeToLiveSpecification must have a length between {} and {}",
            NAME_CHARS.start(),
            NAME_CHARS.end()
        )));
    }
    table.writable()?;
    node.check(caller, Permission::Alter, &table)?;
    let (id, asked, table) = (table.entry.schema.id, name.clone(), table.name.clone());
    let change = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, format!("Table: {table} not found"));
        let entry = schema.table_by_id(id).ok_or_else(gone)?;
        let mut options = entry.schema.options.clone();
        let set = decided(options.extension(ATTRIBUTE), &asked, enabled)?.map(str::to_owned);
        options.set_extension(ATTRIBUTE, set.as_deref());
        let built = entry.schema.edit().options(options).build();
        let altered = built.map_err(|invalid| Error::validation(invalid.to_string()))?;
        Ok(vec![SchemaChange::AlterTable(altered)])
    };
    changed(node.cluster.change_schema(change).await)?;
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    let mut said = Object::open(object.member("TimeToLiveSpecification"));
    said.string("AttributeName", &name).json("Enabled", if enabled { "true" } else { "false" });
    said.close();
    object.close();
    Ok(out)
}

/// The attribute from now on (*one-attribute*).
fn decided<'n>(
    present: Option<&str>,
    asked: &'n str,
    enabled: bool,
) -> Result<Option<&'n str>, Error> {
    match (present, enabled) {
        (None, true) => Ok(Some(asked)),
        (Some(present), false) if present == asked => Ok(None),
        (None, false) => Err(Error::validation("TimeToLive is already disabled")),
        (Some(present), true) if present == asked => {
            Err(Error::validation(format!("TimeToLive is already enabled on attribute {asked}")))
        }
        (Some(present), true) => Err(Error::validation(format!(
            "TimeToLive is active on a different AttributeName: {present}, not {asked}: disable \
             it first"
        ))),
        (Some(present), false) => Err(Error::validation(format!(
            "TimeToLive is enabled on a different AttributeName: {present}, not {asked}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_attribute_at_a_time() {
        let check =
            |present: Option<&str>, enabled: bool, expected: Result<Option<&str>, &str>| match (
                decided(present, "e", enabled),
                expected,
            ) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(words)) => assert!(error.message.contains(words), "{error:?}"),
                (found, _) => panic!("{present:?} {enabled}: {found:?}"),
            };
        check(None, true, Ok(Some("e")));
        check(Some("e"), false, Ok(None));
        check(None, false, Err("already disabled"));
        check(Some("e"), true, Err("already enabled"));
        check(Some("other"), true, Err("active on a different"));
        check(Some("other"), false, Err("enabled on a different"));
    }
}
