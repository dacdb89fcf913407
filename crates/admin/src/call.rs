//! A request and its answer, as those see them who do what it asks for.

use hyper::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Vec<String>,
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
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut named = self.parameters.iter().rev().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false, in letters of either case.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Answer> {
        match self.parameter(name).map(str::to_ascii_lowercase).as_deref() {
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
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

const JSON: &str = "application/json";

impl Answer {
    /// Nothing to tell.
    pub(crate) fn done() -> Answer {
        Answer { status: 200, content_type: JSON, body: Vec::new() }
    }

    pub(crate) fn json(value: Value) -> Answer {
        Answer { status: 200, content_type: JSON, body: value.to_string().into_bytes() }
    }

    /// Metrics in the text format of Prometheus.
    pub(crate) fn text(body: Vec<u8>) -> Answer {
        Answer { status: 200, content_type: "text/plain; version=0.0.4", body }
    }

    /// A failure, in words.
    pub(crate) fn refused(status: u16, message: impl Into<String>) -> Answer {
        let value = json!({ "message": message.into(), "code": status });
        Answer { status, content_type: JSON, body: value.to_string().into_bytes() }
    }
}

#[cfg(test)]
mod tests;
