//! The options file, read again while the node runs: what has changed in it and can be obeyed is
//! set, the rest is told to the log.
//!
//! Invariants
//!  - *all-or-nothing*: a file with a fault changes nothing.
//!  - *only-what-changed*: an option whose text in the file is as it was keeps what statements and
//!    requests have made of it since.
//!  - *line-first*: what the command line gave stays.

use cluster::Settings;
use cluster::settings::By;
use options::{OptionRow, Source, Values, contradictions, rows};
use runtime::sync::Notify;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A larger file is no options file.
const BYTES_MAX: u64 = 1 << 20;

/// An option that a file changes.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    name: &'static str,
    /// As JSON, as the next.
    before: String,
    text: String,
    by: By,
}

/// What a new reading of a file is about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    changes: Vec<Change>,
    /// Options that have changed, and do so at the next start.
    later: Vec<&'static str>,
}

/// What is to be done so that options that were read as `before` are as `after`.
fn plan(before: &Values, after: &Values) -> Plan {
    let (before, after) = (before.to_show(), after.to_show());
    let mut plan = Plan::default();
    let has_changed = |row: &&OptionRow| {
        let is_ours = before.source(row.name) == Source::Internal;
        !is_ours && before.list(row.name) != after.list(row.name)
    };
    for row in rows().filter(has_changed) {
        if !row.is_live {
            plan.later.push(row.name);
            continue;
        }
        let by = match after.source(row.name) {
            Source::Default => By::Default,
            _ => By::File,
        };
        let (before, text) = (before.shown(row), after.shown(row));
        debug_assert!(before != text, "{} changes from {text} to the same", row.name);
        plan.changes.push(Change { name: row.name, before, text, by });
    }
    plan
}

/// Reads the file again whenever `hangup` tells; `again` remembers what comes meanwhile.
pub(crate) async fn watch(
    mut values: Values,
    path: Option<PathBuf>,
    again: Rc<Cell<bool>>,
    hangup: Rc<Notify>,
) {
    loop {
        while !again.replace(false) {
            hangup.notified().await;
        }
        let Some(path) = &path else {
            tracing::info!(target: "init", "no configuration file to read again");
            continue;
        };
        tracing::info!(target: "init", "re-reading configuration file");
        match reread(&values, path).await {
            Ok(read) => values = read,
            Err(faults) => {
                let name = path.display();
                tracing::error!(target: "init", "{name} is wrong, and changes nothing");
                faults.iter().for_each(|fault| tracing::error!(target: "init", "{fault}"));
            }
        }
        tracing::info!(target: "init", "completed re-reading configuration file");
    }
}

/// Reads the file and sets what has changed since `before`; what was read, or all that is wrong.
async fn reread(before: &Values, path: &Path) -> Result<Values, Vec<String>> {
    let after = read(before, path).await?;
    let plan = plan(before, &after);
    let settings = Settings::of_shard();
    let refused = plan.changes.iter().filter_map(|Change { name, text, by, .. }| {
        let refused = settings.check(name, text, *by).err()?;
        Some(format!("option {name}: {refused}: {text}"))
    });
    let refused: Vec<String> = refused.collect();
    if !refused.is_empty() {
        return Err(refused);
    }
    for Change { name, before, text, by } in plan.changes {
        match Settings::change(name.to_owned(), text.clone(), by).await {
            // In the words that people look for.
            Ok(()) => tracing::info!(
                target: "init",
                "Updating {name} from {before} to {text} due to config update"
            ),
            Err(refused) => tracing::warn!(target: "init", "option {name}: {refused}: {text}"),
        }
    }
    if !plan.later.is_empty() {
        let names = plan.later.join(", ");
        tracing::warn!(target: "init", "options that change at the next start: {names}");
    }
    Ok(after)
}

/// Options as a start with this file would have them.
async fn read(before: &Values, path: &Path) -> Result<Values, Vec<String>> {
    let failed = |text: String| vec![format!("{}: {text}", path.display())];
    let bytes = runtime::io::fs::len(path).await.map_err(|error| failed(error.to_string()))?;
    if BYTES_MAX < bytes {
        return Err(failed(format!("{bytes} bytes; {BYTES_MAX} at most")));
    }
    let bytes = runtime::io::fs::read_file(path).await;
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    let mut values = before.of_line();
    let path = path.to_owned();
    runtime::task::compute(move || {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match values.read_file(&text) {
            Ok(_) => {}
            Err(faults) => return Err(faults.iter().map(|it| it.of_file(&path)).collect()),
        }
        let wrong = contradictions(&values);
        if !wrong.is_empty() {
            return Err(wrong.iter().map(ToString::to_string).collect());
        }
        node::name_folders(&mut values);
        Ok(values)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(line: &[(&str, &str)], file: &str) -> Values {
        let mut values = Values::default();
        for (name, value) in line {
            values.set(name, vec![value.to_string()], Source::CommandLine).expect("an option");
        }
        values.read_file(file).expect("a file");
        values
    }

    #[test]
    fn what_has_changed_in_a_file_is_set_or_waits() {
        let check = |before: &str, after: &str, changes: &[(&str, &str, By)], later: &[&str]| {
            let line = [("twcs_max_window_count", "7")];
            let found = plan(&values(&line, before), &values(&line, after));
            let found_changes: Vec<(&str, &str, By)> =
                found.changes.iter().map(|it| (it.name, it.text.as_str(), it.by)).collect();
            assert_eq!(found_changes, changes, "{before} -> {after}");
            assert_eq!(found.later, later, "{before} -> {after}");
        };
        let warn = "batch_size_warn_threshold_in_kb";
        check("", "", &[], &[]);
        check("", &format!("{warn}: 9\n"), &[(warn, "9", By::File)], &[]);
        check(
            &format!("{warn}: 9\n"),
            &format!("{warn}: 9\nnum_tokens: 2\n"),
            &[],
            &["num_tokens"],
        );
        check(&format!("{warn}: 9\n"), "", &[(warn, "128", By::Default)], &[]);
        check("", "twcs_max_window_count: 9\n", &[], &[]);
        let list = "replication_strategy_fail_list";
        let text = format!("{list}: [SimpleStrategy, LocalStrategy]\n");
        check("", &text, &[(list, "[\"SimpleStrategy\",\"LocalStrategy\"]", By::File)], &[]);
    }
}
