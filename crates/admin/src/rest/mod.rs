//! Requests and answers: which request is what, and what it does.
//!
//! In reading order: [`Call`] and [`Answer`], [`answer`], then one module for each part of the
//! path. Paths, parameters and JSON are those of ScyllaDB's API, which `nodetool` and harnesses
//! speak.
//!
//! Invariants
//!  - *names-first*: keyspaces and tables are looked up before anything is done to any of them.

mod column_family;
mod storage_service;
mod system;
mod tables;

use cluster::Cluster;
use hyper::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::rc::Rc;

/// What requests are answered with.
pub struct Door {
    /// The node's schema and names.
    pub cluster: Rc<Cluster>,
    /// The version of the program.
    pub version: String,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    method: Method,
    path: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Call {
    /// Of a path and a query as they stand in the request.
    pub(crate) fn new(method: &Method, path: &str, query: &str) -> Call {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let segments = path.split('/').filter(|segment| !segment.is_empty()).map(decoded);
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        });
        Call { method: method.clone(), path: segments.collect(), parameters: pairs.collect() }
    }

    /// A parameter's value; the last if it is there more than once.
    fn parameter(&self, name: &str) -> Option<&str> {
        let mut named = self.parameters.iter().rev().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false.
    fn flag(&self, name: &str, default: bool) -> Result<bool, Answer> {
        match self.parameter(name) {
            None | Some("") => Ok(default),
            Some("true" | "1" | "yes") => Ok(true),
            Some("false" | "0" | "no") => Ok(false),
            Some(other) => Err(Answer::refused(400, format!("{name}: not true or false: {other}"))),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Nothing to tell.
    fn done() -> Answer {
        Answer { status: 200, body: Vec::new() }
    }

    fn json(value: Value) -> Answer {
        Answer { status: 200, body: value.to_string().into_bytes() }
    }

    /// A failure, in words.
    pub(crate) fn refused(status: u16, message: impl Into<String>) -> Answer {
        let value = json!({ "message": message.into(), "code": status });
        Answer { status, body: value.to_string().into_bytes() }
    }
}

/// Does what a request asks for.
pub(crate) async fn answer(door: Rc<Door>, call: Call) -> Answer {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    let answered = match path.split_first() {
        Some((&"storage_service", rest)) => storage_service::answer(&door, &call, rest).await,
        Some((&"column_family", rest)) => column_family::answer(&door, &call, rest).await,
        Some((&"system", rest)) => system::answer(&call, rest),
        _ => None,
    };
    match answered {
        Some(Ok(answer) | Err(answer)) => answer,
        None => Answer::refused(404, format!("Not found: {} /{}", call.method, path.join("/"))),
    }
}

/// What a part of the API makes of a request; `None`: nothing that it knows.
type Answered = Option<Result<Answer, Answer>>;

#[cfg(test)]
mod tests;
