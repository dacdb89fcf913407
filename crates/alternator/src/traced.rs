//! What is traced of a request: by the rules of requests of CQL, into their tables. One that is not
//! traced costs a test of an `Option` for each event.
//!
//! The words of events are those that ScyllaDB has for the same, where it has some.

use crate::table::Table;
use query::Processor;
use query::trace::{Cause, Trace, Traced};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What events say that those who read traces look for.
pub(crate) const READING: &str = "Performing a database query";
pub(crate) const HAS_READ: &str = "Querying is done";
pub(crate) const HAS_WRITTEN: &str = "Mutation successfully completed";
pub(crate) const ROUND_DONE: &str = "CAS successful";

/// What is put behind the part of a request that is kept.
const TRUNCATED: &str = "<truncated>";

/// The trace of one request.
#[derive(Debug)]
pub(crate) struct Request {
    trace: Trace,
    /// The names of its tables.
    tables: RefCell<BTreeSet<String>>,
}

impl Request {
    /// Begins that of a request, if it has one. `name`: of its operation.
    pub(crate) fn begin(
        processor: &Processor,
        client: Option<IpAddr>,
        role: Option<&String>,
        name: &str,
    ) -> Option<Request> {
        // Forms of statements are counted of CQL alone.
        let cause = processor.traces_unasked().filter(|cause| *cause != Cause::Counted)?;
        let trace = processor.begin_trace_of(client, role.cloned(), cause);
        let request = Request { trace, tables: RefCell::default() };
        request.tell(processor, || name.to_owned());
        Some(request)
    }

    /// Something has come to pass.
    pub(crate) fn tell(&self, processor: &Processor, activity: impl FnOnce() -> String) {
        processor.trace_event(&self.trace, activity);
    }

    /// It is about a table.
    pub(crate) fn asked(&self, processor: &Processor, table: &Table) {
        if self.tables.borrow_mut().insert(table.name.clone()) {
            let schema = &table.entry.schema;
            self.trace.table(schema);
            self.tell(processor, || format!("Using the table {}.{}", schema.keyspace, schema.name));
        }
    }

    /// Ends it. So many bytes of the body are kept.
    pub(crate) fn end(&self, processor: &Processor, (name, body): (&str, &str), bytes_max: usize) {
        let text = kept(body, bytes_max);
        let parameters = parameters(name, &text, &self.tables.borrow());
        let request = format!("Alternator {name}");
        let (command, request_bytes) = ("ALTERNATOR", body.len());
        let traced = Traced { command, request: &request, text: &text, request_bytes };
        processor.end_trace_of(&self.trace, traced, &parameters);
    }
}

/// A request as it is kept: cut where it is long.
fn kept(body: &str, bytes_max: usize) -> String {
    let head = &body[..body.floor_char_boundary(bytes_max)];
    let end = if head.len() < body.len() { TRUNCATED } else { "" };
    format!("{head}{end}")
}

/// What a trace says of a request, in order of names: its tables are numbered if they are several.
fn parameters(name: &str, text: &str, tables: &BTreeSet<String>) -> Vec<(String, String)> {
    let fixed = [("alternator_op", name), ("query", text)];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let place = |at: usize| if tables.len() == 1 { String::new() } else { format!("[{at}]") };
    let numbered = tables.iter().enumerate();
    let tables = numbered.map(|(at, table)| (format!("table{}", place(at)), table.clone()));
    let mut all: Vec<_> = fixed.into_iter().chain(tables).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_says_what_was_asked_of_which_tables() {
        let check = |tables: &[&str], expected: &str| {
            let tables = tables.iter().map(|name| name.to_string()).collect();
            let all = parameters("PutItem", "{}", &tables);
            let shown: Vec<_> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(shown.join(" "), expected);
        };
        check(&[], "alternator_op=PutItem query={}");
        check(&["t"], "alternator_op=PutItem query={} table=t");
        check(&["b", "a"], "alternator_op=PutItem query={} table[0]=a table[1]=b");
    }

    #[test]
    fn long_requests_are_cut_between_characters() {
        assert_eq!(kept("{\"a\":1}", 7), "{\"a\":1}");
        assert_eq!(kept("{\"a\":1}", 6), "{\"a\":1<truncated>");
        assert_eq!(kept("\u{e9}\u{e9}", 3), "\u{e9}<truncated>");
        assert_eq!(kept("a", 0), "<truncated>");
    }
}
