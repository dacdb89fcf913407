//! `nereid config show`: each option with its value and where that came from.

use super::Read;
use options::terminal;
use options::{Source, Values, rows};
use serde_json::{Value, json};
use std::process::ExitCode;

/// What is printed, and how.
pub(super) struct Form {
    pub(super) json: bool,
    /// Whether options are shown that nobody has set.
    pub(super) all: bool,
}

/// Runs the operation.
pub(super) fn main(mut read: Read, form: Form) -> ExitCode {
    if !read.faults.is_empty() {
        read.faults.iter().for_each(|fault| eprintln!("{}", read.line(fault)));
        return ExitCode::from(1);
    }
    node::name_folders(&mut read.values);
    let shown = shown(&read.values, form.all);
    terminal::show(&match form.json {
        true => format!("{:#}", Value::Array(shown)),
        false => lines(&shown),
    })
}

fn shown(values: &Values, all: bool) -> Vec<Value> {
    let wanted = rows().filter(|row| {
        let source = values.source(row.name);
        all || matches!(source, Source::File | Source::CommandLine)
    });
    let shown = wanted.map(|row| {
        json!({
            "name": row.name,
            "type": row.kind.type_name(),
            "source": values.source(row.name).name(),
            "value": serde_json::from_str::<Value>(&values.shown(row)).unwrap_or_default(),
        })
    });
    shown.collect()
}

fn lines(shown: &[Value]) -> String {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let wide = shown.iter().map(|row| text(row, "name").len()).max().unwrap_or(0);
    let line = |row: &Value| {
        let (name, source) = (text(row, "name"), text(row, "source"));
        format!("{name:wide$}  {source:8}  {}\n", row["value"])
    };
    shown.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_printed_with_their_sources() {
        let mut values = Values::default();
        values.read_file("num_tokens: 4\nauth_superuser_salted_password: $6$x\n").expect("a file");
        values.set("rpc_address", vec!["10.0.0.1".to_owned()], Source::CommandLine).expect("known");
        let expected = "num_tokens                      config    4\n\
                        rpc_address                     cli       \"10.0.0.1\"\n\
                        auth_superuser_salted_password  config    \"***\"\n";
        assert_eq!(lines(&shown(&values, false)), expected);
        assert_eq!(shown(&values, true).len(), rows().count());
    }
}
