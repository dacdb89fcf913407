//! What the API says of itself: swagger 1.2 under `/api-doc/`, swagger 2.0 under `/v2`, and a page
//! to browse it at `/ui`. All of it is made of the table of operations.

use super::api::{Api, Kind, Operation, Parameter, Place, parameter_of};
use crate::call::{Answer, Call};
use hyper::Method;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The page: it reads `/v2`, and asks for nothing else.
const PAGE: &str = include_str!("ui.html");

/// The version of the description.
const VERSION: &str = "0.0.1";

/// The answer to a request for a description; `None`: it is for something else.
pub(super) fn answer(api: &Api, call: &Call) -> Option<Answer> {
    if call.method != Method::GET {
        return None;
    }
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    match path[..] {
        ["api-doc"] => Some(Answer::json(listing(api))),
        ["api-doc", ref group @ ..] => group_of(api, &group.join("/")).map(Answer::json),
        ["v2"] => Some(Answer::json(all(api))),
        ["ui"] => Some(Answer::page(PAGE)),
        _ => None,
    }
}

/// The part of the API that an operation belongs to.
fn group(operation: &Operation) -> &str {
    let path = operation.path.trim_start_matches('/');
    let words = if path.starts_with("v2/") { 2 } else { 1 };
    let end = path.match_indices('/').nth(words - 1).map_or(path.len(), |(at, _)| at);
    &path[..end]
}

fn groups(api: &Api) -> BTreeMap<&str, Vec<&Operation>> {
    let mut groups: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for operation in &api.operations {
        groups.entry(group(operation)).or_default().push(operation);
    }
    groups
}

/// By path, in the order of the table.
fn by_path<'a>(operations: &[&'a Operation]) -> Vec<(&'a str, Vec<&'a Operation>)> {
    let mut paths: Vec<(&str, Vec<&Operation>)> = Vec::new();
    for operation in operations {
        match paths.iter_mut().find(|(path, _)| *path == operation.path) {
            Some((_, found)) => found.push(operation),
            None => paths.push((&operation.path, vec![operation])),
        }
    }
    paths
}

/// Swagger 1.2: the parts of the API.
fn listing(api: &Api) -> Value {
    let one = |group: &&str| json!({ "path": format!("/{group}"), "description": group });
    let apis: Vec<Value> = groups(api).keys().map(one).collect();
    json!({ "apiVersion": VERSION, "swaggerVersion": "1.2", "apis": apis })
}

/// Swagger 1.2: one part of the API.
fn group_of(api: &Api, name: &str) -> Option<Value> {
    let groups = groups(api);
    let operations = groups.get(name)?;
    let apis = by_path(operations).into_iter().map(|(path, operations)| {
        let operations: Vec<Value> = operations.into_iter().map(operation_1).collect();
        json!({ "path": path, "operations": operations })
    });
    Some(json!({
        "apiVersion": VERSION,
        "swaggerVersion": "1.2",
        "basePath": "/",
        "resourcePath": format!("/{name}"),
        "produces": ["application/json"],
        "apis": apis.collect::<Vec<_>>(),
    }))
}

fn operation_1(operation: &Operation) -> Value {
    let parameters = operation.parameters.iter().map(|parameter| {
        let mut shown = json!({
            "name": parameter.name,
            "description": parameter.summary,
            "required": parameter.required,
            "allowMultiple": false,
            "type": type_of(parameter),
            "paramType": place_of(parameter),
        });
        if let Kind::OneOf(words) = parameter.kind {
            shown["enum"] = json!(words);
        }
        shown
    });
    json!({
        "method": operation.method.as_str(),
        "summary": operation.summary,
        "nickname": nickname(operation),
        "produces": ["application/json"],
        "parameters": parameters.collect::<Vec<_>>(),
    })
}

/// Swagger 2.0: everything.
fn all(api: &Api) -> Value {
    let operations: Vec<&Operation> = api.operations.iter().collect();
    let mut paths = Map::new();
    for (path, operations) in by_path(&operations) {
        let mut methods = Map::new();
        for one in operations {
            methods.insert(one.method.as_str().to_ascii_lowercase(), operation_2(one));
        }
        paths.insert(path.to_owned(), Value::Object(methods));
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Nereid: the REST API of operators", "version": VERSION },
        "basePath": "/",
        "produces": ["application/json"],
        "paths": paths,
    })
}

fn operation_2(operation: &Operation) -> Value {
    let parameters = operation.parameters.iter().map(|parameter| {
        let mut shown = json!({
            "name": parameter.name,
            "in": place_of(parameter),
            "description": parameter.summary,
            "required": parameter.required,
        });
        match parameter.place {
            Place::Body => shown["schema"] = json!({}),
            _ => shown["type"] = json!(type_of(parameter)),
        }
        if let Kind::OneOf(words) = parameter.kind {
            shown["enum"] = json!(words);
        }
        shown
    });
    json!({
        "tags": [group(operation)],
        "summary": operation.summary,
        "operationId": nickname(operation),
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "It was done; what was asked for is the body" },
            "default": { "description": "A failure: {\"message\": \"..\", \"code\": N}" },
        },
    })
}

fn type_of(parameter: &Parameter) -> &'static str {
    match parameter.kind {
        Kind::Text | Kind::OneOf(_) => "string",
        Kind::Flag => "boolean",
        Kind::Integer => "integer",
        Kind::Number => "number",
        Kind::Body => "object",
    }
}

fn place_of(parameter: &Parameter) -> &'static str {
    match parameter.place {
        Place::Path => "path",
        Place::Query => "query",
        Place::Body => "body",
    }
}

/// A name that no other operation has: the method and the words of the path.
fn nickname(operation: &Operation) -> String {
    let words = operation.path.split('/').filter(|word| !word.is_empty());
    let words = words.map(|word| match parameter_of(word) {
        Some(name) => format!("by_{name}"),
        None => word.replace('-', "_"),
    });
    let words: Vec<String> = words.collect();
    format!("{}_{}", operation.method.as_str().to_ascii_lowercase(), words.join("_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::api;

    fn asked(path: &str) -> Option<Value> {
        let answer = answer(&api(), &Call::new(&Method::GET, path, ""))?;
        Some(serde_json::from_slice(&answer.body).unwrap())
    }

    #[test]
    fn each_operation_is_there_once_and_says_what_it_is() {
        let api = api();
        let mut seen = std::collections::BTreeSet::new();
        let mut nicknames = std::collections::BTreeSet::new();
        for one in &api.operations {
            assert!(seen.insert((one.method.as_str(), one.path.as_ref())), "{} twice", one.path);
            assert!(nicknames.insert(nickname(one)), "{} twice", nickname(one));
            assert!(!one.summary.is_empty(), "{}: no summary", one.path);
            assert!(one.path.starts_with('/'), "{}", one.path);
            for parameter in &one.parameters {
                assert!(!parameter.summary.is_empty(), "{}: {}", one.path, parameter.name);
            }
        }
    }

    #[test]
    fn the_description_follows_the_table() {
        let listing = asked("/api-doc/").unwrap();
        assert_eq!(listing["swaggerVersion"], "1.2");
        let named = |path: &Value| path["path"].as_str().unwrap().to_owned();
        let names: Vec<String> = listing["apis"].as_array().unwrap().iter().map(named).collect();
        assert!(names.contains(&"/storage_service".to_owned()), "{names:?}");
        let mut described = 0;
        for name in names {
            let group = asked(&format!("/api-doc{name}")).unwrap();
            for api in group["apis"].as_array().unwrap() {
                described += api["operations"].as_array().unwrap().len();
            }
        }
        assert_eq!(described, api().operations.len());
        let all = asked("/v2").unwrap();
        let flush = &all["paths"]["/storage_service/keyspace_flush/{keyspace}"]["post"];
        assert_eq!(flush["parameters"][0]["in"], "path");
        assert_eq!(flush["parameters"][1]["name"], "cf");
        assert_eq!(asked("/api-doc/nothing"), None);
        assert_eq!(answer(&api(), &Call::new(&Method::POST, "/ui", "")), None);
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for word in ["http://", "https://", "src=", "@import"] {
            assert!(!PAGE.contains(word), "{word}");
        }
    }
}
