//! From a backup and what a request overrides to the table that is to be made: the body of the
//! CreateTable that makes it, so that all that is checked there is checked here. Pure.
//!
//! Invariants
//!  - *indexes-of-the-backup*: a restored table has indexes that the backup has, and no other.

use crate::error::Error;
use crate::json::{Json, Object, write_list};
use crate::request::Request;

const GLOBAL: (&str, &str) = ("GlobalSecondaryIndexes", "GlobalSecondaryIndexOverride");
const LOCAL: (&str, &str) = ("LocalSecondaryIndexes", "LocalSecondaryIndexOverride");
const PROVISIONED: &str = "PROVISIONED";

/// The body. `description`: what DescribeTable told of the table that was backed up.
pub(super) fn body(
    target: &str,
    description: &str,
    request: &Request<'_>,
) -> Result<String, Error> {
    let damaged = |error: Error| Error::internal(format!("a backup is damaged: {error}"));
    let told = Json::parse(description).map_err(damaged)?;
    let told = Request::of(told, "a description").map_err(damaged)?;
    let (global, local) = (chosen(&told, request, GLOBAL)?, chosen(&told, request, LOCAL)?);
    let mut out = String::new();
    let mut object = Object::open(&mut out);
    object.string("TableName", target).json("KeySchema", told.need("KeySchema")?.text());
    let of_table = told.need("KeySchema")?.elements();
    let of_indexes = global.iter().chain(&local).filter_map(|index| index.member("KeySchema"));
    let used: Vec<String> = of_table
        .chain(of_indexes.flat_map(|keys| keys.elements()))
        .filter_map(|key| key.member("AttributeName")?.string().map(|name| name.into_owned()))
        .collect();
    let is_used = |definition: &Json<'_>| {
        let name = definition.member("AttributeName").and_then(|name| name.string());
        name.is_some_and(|name| used.iter().any(|used| *used == name))
    };
    let definitions = told.need("AttributeDefinitions")?.elements().filter(is_used);
    write_list(definitions, object.member("AttributeDefinitions"), |json, out| {
        out.push_str(json.text());
    });
    for (all, (name, _)) in [(&global, GLOBAL), (&local, LOCAL)] {
        if !all.is_empty() {
            write_list(all, object.member(name), |json, out| out.push_str(json.text()));
        }
    }
    add_throughput(&told, request, &mut object)?;
    if let Some(encryption) = request.object("SSESpecificationOverride")? {
        object.json("SSESpecification", encryption.text());
    }
    object.close();
    Ok(out)
}

/// The indexes of a list that the restored table gets: all, or those that the request repeats.
/// (*indexes-of-the-backup*)
fn chosen<'d>(
    told: &Request<'d>,
    request: &Request<'_>,
    (list, over): (&str, &str),
) -> Result<Vec<Json<'d>>, Error> {
    let all: Vec<Json<'d>> = told.get(list).into_iter().flat_map(|all| all.elements()).collect();
    let Some(wanted) = request.list(over)? else { return Ok(all) };
    let mut found: Vec<Json<'d>> = Vec::new();
    for json in wanted.elements() {
        let name = Request::of(json, over)?.need_string("IndexName")?.into_owned();
        let is_named = |index: &&Json<'d>| {
            index.member("IndexName").and_then(|it| it.string()).is_some_and(|it| it == name)
        };
        let invalid = |why: &str| {
            Err(Error::validation(format!(
                "One or more parameter values were invalid: {over}: the index {name} {why}"
            )))
        };
        let Some(index) = all.iter().find(is_named) else {
            return invalid("is none of the table that was backed up");
        };
        if ["KeySchema", "Projection"].iter().any(|part| differs(*index, json, part)) {
            return invalid("does not match that of the table that was backed up");
        }
        if found.contains(index) {
            return invalid("is there twice");
        }
        found.push(*index);
    }
    Ok(found)
}

/// Whether a part of an index is said that is not as it was. The order of its names does not count.
fn differs(index: Json<'_>, wanted: Json<'_>, part: &str) -> bool {
    let ordered = |json: Json<'_>| {
        let mut texts: Vec<String> = Vec::new();
        match part {
            "KeySchema" => texts.push(canonical(json)),
            _ => {
                texts.extend(json.member("ProjectionType").map(canonical));
                let names = json.member("NonKeyAttributes");
                texts.extend(names.into_iter().flat_map(|all| all.elements()).map(canonical));
                texts[1..].sort();
            }
        }
        texts
    };
    match (index.member(part), wanted.member(part)) {
        (Some(is), Some(wanted)) if wanted.member("ProjectionType").is_some() => {
            ordered(is) != ordered(wanted)
        }
        (Some(is), Some(wanted)) => part != "KeySchema" || ordered(is) != ordered(wanted),
        (is, wanted) => is.is_none() && wanted.is_some(),
    }
}

fn canonical(json: Json<'_>) -> String {
    let mut out = String::new();
    json.write_ordered(&mut out);
    out
}

/// How the table is paid for: as it was, or as the request says.
fn add_throughput(
    told: &Request<'_>,
    request: &Request<'_>,
    object: &mut Object<'_>,
) -> Result<(), Error> {
    let was =
        if told.get("BillingModeSummary").is_none() { PROVISIONED } else { "PAY_PER_REQUEST" };
    let mode = request.string("BillingModeOverride")?;
    let mode = mode.as_deref().unwrap_or(was);
    object.string("BillingMode", mode);
    let units = match request.object("ProvisionedThroughputOverride")? {
        Some(units) => Some(units),
        None if mode == PROVISIONED && was == PROVISIONED => {
            told.object("ProvisionedThroughput")?
        }
        None => None,
    };
    if let Some(units) = units {
        object.json("ProvisionedThroughput", units.text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::wanted;

    const TOLD: &str = r#"{"TableName":"t","TableStatus":"ACTIVE",
        "ProvisionedThroughput":{"NumberOfDecreasesToday":0,"ReadCapacityUnits":3,
            "WriteCapacityUnits":4},
        "KeySchema":[{"AttributeName":"p","KeyType":"HASH"},
                     {"AttributeName":"c","KeyType":"RANGE"}],
        "AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},
            {"AttributeName":"c","AttributeType":"N"},{"AttributeName":"x","AttributeType":"B"},
            {"AttributeName":"y","AttributeType":"S"}],
        "GlobalSecondaryIndexes":[
            {"IndexName":"by_x","IndexStatus":"ACTIVE","KeySchema":[
                {"AttributeName":"x","KeyType":"HASH"}],"Projection":{"ProjectionType":"ALL"}},
            {"IndexName":"by_y","KeySchema":[{"AttributeName":"y","KeyType":"HASH"}],
             "Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["a","b"]}}],
        "LocalSecondaryIndexes":[{"IndexName":"local","KeySchema":[
            {"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"x","KeyType":"RANGE"}],
            "Projection":{"ProjectionType":"KEYS_ONLY"}}]}"#;

    /// The names of the indexes and of the attributes of the table that a request makes, and how it
    /// is paid for.
    fn made(told: &str, request: &str) -> Result<(String, String, String), String> {
        let request = Request::parse(request).expect("a request");
        let body = body("copy", told, &request).map_err(|error| error.message)?;
        let request = Request::parse(&body).expect("a body is JSON");
        wanted(&request).map_err(|error| error.message)?;
        let names = |list: &str, name: &str| {
            let all = request.get(list).into_iter().flat_map(|all| all.elements());
            let names = all.filter_map(|one| one.member(name)?.string());
            names.map(|name| name.into_owned()).collect::<Vec<_>>().join(" ")
        };
        let lists = ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"];
        let indexes = lists.map(|list| names(list, "IndexName")).join("|");
        let units = request.get("ProvisionedThroughput").map(|units| units.text().to_owned());
        let mode = request.need_string("BillingMode").expect("a mode").into_owned();
        let units = units.unwrap_or_default().replace(char::is_whitespace, "");
        Ok((indexes, names("AttributeDefinitions", "AttributeName"), format!("{mode} {units}")))
    }

    #[test]
    fn indexes_are_those_that_are_chosen() {
        let check = |request: &str, expected: Result<(&str, &str), &str>| match (
            made(TOLD, request),
            expected,
        ) {
            (Ok(made), Ok(expected)) => assert_eq!((&*made.0, &*made.1), expected, "{request}"),
            (Err(error), Err(words)) => assert!(error.contains(words), "{request}: {error}"),
            (made, _) => panic!("{request}: {made:?}"),
        };
        check("{}", Ok(("by_x by_y|local", "p c x y")));
        check(r#"{"GlobalSecondaryIndexOverride":[]}"#, Ok(("|local", "p c x")));
        let none = r#"{"GlobalSecondaryIndexOverride":[],"LocalSecondaryIndexOverride":[]}"#;
        check(none, Ok(("|", "p c")));
        let one = |projection: &str, key: &str| {
            format!(
                r#"{{"GlobalSecondaryIndexOverride":[{{"IndexName":"by_y","Projection":{projection},
                "KeySchema":[{{"KeyType":"HASH","AttributeName":"{key}"}}]}}],
                "LocalSecondaryIndexOverride":[]}}"#
            )
        };
        let include = r#"{"NonKeyAttributes":["b","a"],"ProjectionType":"INCLUDE"}"#;
        check(&one(include, "y"), Ok(("by_y|", "p c y")));
        check(&one(include, "x"), Err("by_y does not match"));
        check(&one(r#"{"ProjectionType":"ALL"}"#, "y"), Err("by_y does not match"));
        let unknown = r#"{"GlobalSecondaryIndexOverride":[{"IndexName":"local"}]}"#;
        check(unknown, Err("local is none of the table"));
        let twice = r#"{"LocalSecondaryIndexOverride":[{"IndexName":"local"},
                        {"IndexName":"local"}]}"#;
        check(twice, Err("twice"));
    }

    #[test]
    fn a_table_is_paid_for_as_it_was_or_as_is_said() {
        let paid = |told: &str, request: &str| made(told, request).map(|made| made.2);
        let units = r#"{"ReadCapacityUnits":9,"WriteCapacityUnits":8}"#;
        let was = r#""ReadCapacityUnits":3,"WriteCapacityUnits":4}"#;
        let was = format!("PROVISIONED {{\"NumberOfDecreasesToday\":0,{was}");
        assert_eq!(paid(TOLD, "{}"), Ok(was));
        let over = format!(r#"{{"ProvisionedThroughputOverride":{units}}}"#);
        assert_eq!(paid(TOLD, &over), Ok(format!("PROVISIONED {units}")));
        let free = r#"{"BillingModeOverride":"PAY_PER_REQUEST"}"#;
        assert_eq!(paid(TOLD, free).as_deref(), Ok("PAY_PER_REQUEST "));
        let told = TOLD.replacen('{', "{\"BillingModeSummary\":{},", 1);
        assert_eq!(paid(&told, "{}").as_deref(), Ok("PAY_PER_REQUEST "));
        let provisioned = r#"{"BillingModeOverride":"PROVISIONED"}"#;
        assert!(paid(&told, provisioned).unwrap_err().contains("must both be specified"));
        assert!(paid(&told, &over).unwrap_err().contains("cannot be specified"));
        assert!(paid(TOLD, r#"{"BillingModeOverride":"FREE"}"#).unwrap_err().contains("FREE"));
    }
}
