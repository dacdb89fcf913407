//! `TagResource`, `UntagResource`, `ListTagsOfResource`.

use crate::error::{Error, Kind};
use crate::json::{Json, Object, write_list};
use crate::node::{Caller, Node, changed};
use crate::options::{ISOLATION_TAG, Isolation};
use crate::request::Request;
use crate::table::Table;
use crate::tags::{self, Tags, is_own};
use auth::Permission;
use cluster::{Schema, SchemaChange};

const TAGS_MAX: usize = 50;
const NAME_CHARS_MAX: usize = 128;
const VALUE_CHARS_MAX: usize = 256;

/// Those of a parameter.
pub(crate) fn given_tags(list: Json<'_>) -> Result<Tags, Error> {
    let mut tags = Tags::new();
    for json in list.elements() {
        let tag = Request::of(json, "Tags")?;
        let (name, value) = (tag.need_string("Key")?, tag.need_string("Value")?);
        let (name_chars, value_chars) = (name.chars().count(), value.chars().count());
        if name_chars == 0 || NAME_CHARS_MAX < name_chars || VALUE_CHARS_MAX < value_chars {
            return Err(Error::validation(format!(
                "A tag's Key has 1 to {NAME_CHARS_MAX} characters, its Value {VALUE_CHARS_MAX} at \
                 most: the limit is exceeded by {name_chars} and {value_chars}"
            )));
        }
        let allowed = |c: char| c.is_alphanumeric() || " +-=._:/@".contains(c);
        if let Some(other) = name.chars().chain(value.chars()).find(|c| !allowed(*c)) {
            return Err(Error::validation(format!(
                "A tag has letters, digits, spaces and any of + - = . _ : / @, and not {other}"
            )));
        }
        if is_own(&name) {
            return Err(internal(&name));
        }
        if name == ISOLATION_TAG && Isolation::by_name(&value).is_none() {
            return Err(Error::validation(format!(
                "Incorrect write isolation tag {value}: Allowed values: {}",
                Isolation::NAMES
            )));
        }
        if tags.insert(name.into_owned(), value.into_owned()).is_some() {
            return Err(Error::validation(
                "Duplicate tag keys are not allowed: a Key is there twice",
            ));
        }
    }
    Ok(tags)
}

fn internal(name: &str) -> Error {
    Error::validation(format!("The tag {name} is internal to the node"))
}

/// Refuses more tags than a table can have.
pub(crate) fn kept(tags: &Tags) -> Result<(), Error> {
    let count = tags.keys().filter(|name| !is_own(name)).count();
    match count <= TAGS_MAX {
        true => Ok(()),
        false => Err(Error::validation(format!(
            "Number of tags exceeds the current limit: {count} is more than {TAGS_MAX}"
        ))),
    }
}

/// The table of `ResourceArn`.
fn resource(node: &Node, request: &Request<'_>) -> Result<Table, Error> {
    let arn = request.string("ResourceArn")?.ok_or_else(|| {
        Error::new(Kind::AccessDenied, "Incorrect resource identifier: ResourceArn is missing")
    })?;
    if !arn.starts_with("arn:") {
        return Err(Error::validation(format!(
            "Invalid ResourceArn provided as input: ARNs must start with 'arn:': {arn}"
        )));
    }
    // Those of indexes and streams go on after the name of the table.
    if arn.split_once(":table/").is_none_or(|(_, name)| name.contains('/')) {
        return Err(Error::validation(format!(
            "Invalid ResourceArn provided as input: {arn} is not of a table"
        )));
    }
    node.any_table(&arn)
}

/// `ListTagsOfResource`
pub(crate) fn list(node: &Node, _: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = resource(node, &request)?;
    let tags = tags::of(&table.entry.schema);
    let shown = tags.iter().filter(|(name, _)| !is_own(name));
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    write_list(shown, object.member("Tags"), |(name, value), out| {
        let mut tag = Object::open(out);
        tag.string("Key", name).string("Value", value);
        tag.close();
    });
    object.close();
    Ok(out)
}

/// `TagResource`
pub(crate) async fn tag(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = resource(node, &request)?;
    let given = given_tags(request.list("Tags")?.ok_or_else(|| missing("Tags"))?)?;
    if given.is_empty() {
        return Err(Error::validation("The number of tags must be at least 1"));
    }
    node.check(caller, Permission::Alter, &table)?;
    node.settled_table(&table.name)?;
    change_tags(node, &table, move |tags| tags.extend(given.clone())).await?;
    Ok(String::new())
}

/// `UntagResource`
pub(crate) async fn untag(node: &Node, caller: &Caller, body: &str) -> Result<String, Error> {
    let request = Request::parse(body)?;
    let table = resource(node, &request)?;
    let names = request.strings("TagKeys")?.ok_or_else(|| missing("TagKeys"))?;
    if let Some(own) = names.iter().find(|name| is_own(name)) {
        return Err(internal(own));
    }
    let remove = move |tags: &mut Tags| tags.retain(|name, _| !names.contains(name));
    node.check(caller, Permission::Alter, &table)?;
    node.settled_table(&table.name)?;
    change_tags(node, &table, remove).await?;
    Ok(String::new())
}

fn missing(name: &str) -> Error {
    Error::validation(format!("One or more parameter values were invalid: {name} is missing"))
}

/// Changes the tags of a table.
pub(crate) async fn change_tags(
    node: &Node,
    table: &Table,
    how: impl Fn(&mut Tags) + Send + 'static,
) -> Result<(), Error> {
    table.writable()?;
    let id = table.entry.schema.id;
    let decide = move |schema: &Schema| {
        let gone = || Error::new(Kind::ResourceNotFound, "ResourceArn: the table is gone");
        let entry = schema.table_by_id(id).ok_or_else(gone)?;
        let mut tags = tags::of(&entry.schema);
        how(&mut tags);
        kept(&tags)?;
        let mut options = entry.schema.options.clone();
        tags::set(&mut options, &tags);
        let built = entry.schema.edit().options(options).build();
        let altered = built.map_err(|invalid| Error::validation(invalid.to_string()))?;
        Ok(vec![SchemaChange::AlterTable(altered)])
    };
    changed(node.cluster.change_schema(decide).await).map(drop)
}
