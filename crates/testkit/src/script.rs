//! Scripts: a statement per line; the comment after it is what it answers.
//!
//! Without a comment it answers nothing. `-- (no rows)` stands for an answer without rows. `..` at
//! the end leaves out the rest; `-- error: ..text` is an error that holds the text.
//!
//! Invariants
//!  - *all-are-run*: a statement that answers otherwise does not end a script; all such are told.

use crate::CqlEnv;

/// Runs a script; panics with all statements that answer otherwise.
pub async fn run(env: &CqlEnv, text: &str) {
    let mut wrong = Vec::new();
    for (statement, expected) in steps(text) {
        let found = env.outcome(statement).await;
        if !fits(&found, expected) {
            wrong.push(format!("{statement}\n  found    {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The statements, and what they must answer.
fn steps(text: &str) -> Vec<(&str, &str)> {
    let mut lines = text.lines().peekable();
    let mut steps = Vec::new();
    while let Some(statement) = lines.next() {
        let comment = lines.next_if(|line| line.starts_with("-- "));
        steps.push((statement, comment.map_or("Void", |line| &line[3..])));
    }
    steps
}

fn fits(found: &str, expected: &str) -> bool {
    if expected == "(no rows)" {
        return found.is_empty();
    }
    if let Some(part) = expected.strip_prefix("error: ..") {
        return found.starts_with("error: ") && found.contains(part);
    }
    match expected.strip_suffix("..") {
        Some(start) => found.starts_with(start),
        None => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_their_answers() {
        let text = "USE a;\nSELECT 1;\n-- 1\nSELECT 2;\n-- (no rows)";
        let expected = [("USE a;", "Void"), ("SELECT 1;", "1"), ("SELECT 2;", "(no rows)")];
        assert_eq!(steps(text), expected);
    }

    #[test]
    fn what_fits() {
        for (found, expected) in [
            ("Void", "Void"),
            ("", "(no rows)"),
            ("1, 2", "1, 2"),
            ("1, 2", "1, .."),
            ("error: it is not there", "error: ..not there"),
            ("error: it is not there", "error: .."),
        ] {
            assert!(fits(found, expected), "{found} {expected}");
        }
        for (found, expected) in [
            ("", "Void"),
            ("null", "(no rows)"),
            ("1, 2", "1"),
            ("1, 2", "2.."),
            ("not there", "error: ..not there"),
            ("error: it is there", "error: ..not there"),
        ] {
            assert!(!fits(found, expected), "{found} {expected}");
        }
    }

    #[test]
    #[should_panic(expected = "found    2\n  expected 3")]
    fn a_wrong_answer_is_told() {
        CqlEnv::run(1, 1, |env| async move {
            run(&env, "SELECT (int)2;\n-- 2\nSELECT (int)2;\n-- 3").await;
        });
    }
}
