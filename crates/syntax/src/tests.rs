//! Texts and the trees they give.
//!
//! A tree is compared as the CQL it prints, which is also parsed again: it must print the same.

mod errors;
mod fuzz;
mod lexical;
mod schema;
mod statements;
mod terms;

use super::{Parsed, SyntaxError, parse};

/// `cql` parses and prints as `expected`; so does what it prints.
#[track_caller]
fn check(cql: &str, expected: &str) {
    let printed = print(cql);
    assert_eq!(printed, expected, "of {cql}");
    assert_eq!(print(&printed), expected, "printed once more");
}

/// `cql` prints as it is.
#[track_caller]
fn same(cql: &str) {
    check(cql, cql);
}

#[track_caller]
fn print(cql: &str) -> String {
    match parse(cql) {
        Ok(parsed) => parsed.statement.to_string(),
        Err(error) => panic!("{error}\n  of {cql}"),
    }
}

#[track_caller]
fn refused(cql: &str) -> SyntaxError {
    match parse(cql) {
        Ok(Parsed { statement, .. }) => panic!("{cql}\n  is {statement}"),
        Err(error) => error,
    }
}
