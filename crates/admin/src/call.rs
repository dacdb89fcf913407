//! A request and its answer, as those see them who do what it asks for.

use hyper::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::str::FromStr;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: Vec<String>,
    /// What stands in the body.
    pub(crate) body: Vec<u8>,
    pub(crate) headers: HeaderMap,
    /// Who asks, as far as the connection tells.
    pub(crate) peer: Option<SocketAddr>,
    parameters: Vec<(String, String)>,
    /// Those segments of the path that stand for something, by its name.
    segments: Vec<(String, String)>,
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
        Call {
            method: method.clone(),
            path: segments.collect(),
            body: Vec::new(),
            headers: HeaderMap::new(),
            peer: None,
            parameters: pairs.collect(),
            segments: Vec::new(),
        }
    }

    /// Says what the segments of the path stand for.
    pub(crate) fn name_segments(&mut self, segments: Vec<(String, String)>) {
        self.segments = segments;
    }

    /// The segment of the path that stands for `name`.
    pub(crate) fn segment(&self, name: &str) -> &str {
        let found = self.segments.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// A parameter's value, unless it is empty.
    pub(crate) fn given(&self, name: &str) -> Option<&str> {
        self.parameter(name).filter(|value| !value.is_empty())
    }

    /// All values of a parameter, in their order.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.parameters.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// A parameter that is a number; one that must be given has no default.
    pub(crate) fn number<T: FromStr>(&self, name: &str, default: Option<T>) -> Result<T, Answer> {
        let refused = |what: String| Answer::refused(400, format!("{name}: {what}"));
        match (self.given(name), default) {
            (None, Some(default)) => Ok(default),
            (None, None) => Err(refused("a number is required".to_owned())),
            (Some(text), _) => text.parse().map_err(|_| refused(format!("not a number: {text}"))),
        }
    }

    /// The names in a list with commas between them.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let names = self.parameter(name).unwrap_or_default().split(',');
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// A header's value, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A parameter's value; the last if it is there more than once.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let mut named = self.parameters.iter().rev().filter(|(known, _)| known == name);
        named.next().map(|(_, value)| value.as_str())
    }

    /// All parameters, in their order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()))
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
    /// Beside the type.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) body: Vec<u8>,
}

const JSON: &str = "application/json";

impl Answer {
    /// Nothing to tell.
    pub(crate) fn done() -> Answer {
        Answer { status: 200, content_type: JSON, headers: &[], body: Vec::new() }
    }

    pub(crate) fn json(value: Value) -> Answer {
        Answer {
            status: 200,
            content_type: JSON,
            headers: &[],
            body: value.to_string().into_bytes(),
        }
    }

    /// Metrics in the text format of Prometheus.
    pub(crate) fn text(body: Vec<u8>) -> Answer {
        Answer { status: 200, content_type: "text/plain; version=0.0.4", headers: &[], body }
    }

    /// A file that the program has in itself.
    pub(crate) fn file(content_type: &'static str, text: &'static str) -> Answer {
        Answer { status: 200, content_type, headers: &[], body: text.as_bytes().to_vec() }
    }

    /// A page for a browser.
    pub(crate) fn page(body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status: 200,
            content_type: "text/html; charset=utf-8",
            headers: &[],
            body: body.into(),
        }
    }

    /// A failure, in words.
    pub(crate) fn refused(status: u16, message: impl Into<String>) -> Answer {
        let value = json!({ "message": message.into(), "code": status });
        Answer { status, content_type: JSON, headers: &[], body: value.to_string().into_bytes() }
    }
}

#[cfg(test)]
mod tests;
