//! The page that documents every option, made from the table.

use crate::options::{GROUPS, LEGACY, OptionRow};

const HEAD: &str = "\
# Options

Every option may stand in the options file as `name: value` and on the command line as
`--name-with-dashes value` (or `=value`); what the command line says goes first. A list is a YAML
list, or one text with commas; on the command line the option is repeated. A map is a YAML map, or
`--option key=value` repeated. Booleans are 0, 1, true, false, yes, no, on, off. Sizes are bytes, or
have one of the letters K, M, G, T.

The options file is the one that `--options-file` names, else `$SCYLLA_CONF/scylla.yaml`,
`$SCYLLA_HOME/conf/scylla.yaml`, `conf/scylla.yaml`. An unknown name, a value of another kind, a
name that stands twice and values that contradict each other stop the start; each is told with its
line and column. `nereid config check FILE` tells the same without a node, and warns of what is
seldom meant. `nereid config show --changed` prints what was given, and by whom.

**live**: it changes while the node runs, by `UPDATE system.config SET value = '..' WHERE name =
'..'`, by the REST API, or by SIGHUP, at which the file is read again: what has changed in it since
it was last read is set, what has gone from it gets its default back, and what the command line
gave stays. A file with a fault changes nothing. `system.config` shows the value of every option
and its source: `default`, `config` (the file), `cli`, `cql`, `api` or `internal` (the node has
derived it from others).

**no effect yet**: the option is known, checked, stored and shown, and nothing depends on it. A
node names those that were given in a line of its log.

This page is made by `nereid config reference`.
";

const LEGACY_HEAD: &str = "
## Names that are accepted and ignored

Of Cassandra, and of releases long gone. Each gives a warning at the start.
";

/// The whole page.
pub(super) fn page() -> String {
    let mut out = HEAD.to_owned();
    for group in GROUPS {
        out.push_str(&format!("\n## {}\n\n", group.name));
        out.push_str("| option | value | default | what it is for |\n|---|---|---|---|\n");
        group.rows.iter().for_each(|row| out.push_str(&line(row)));
    }
    out.push_str(LEGACY_HEAD);
    let mut names: Vec<String> = LEGACY.iter().map(|name| format!("`{name}`")).collect();
    names.sort();
    out.push_str(&format!("\n{}.\n", names.join(", ")));
    out
}

fn line(row: &OptionRow) -> String {
    let default = match row.default {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    let mut about = row.about.to_owned();
    let marks = [
        (row.is_live, "**live**"),
        (row.is_idle, "**no effect yet**"),
        (row.is_of_line, "on the command line alone"),
        (row.is_secret, "never shown"),
    ];
    for (_, mark) in marks.iter().filter(|(is_so, _)| *is_so) {
        about.push_str(&format!("; {mark}"));
    }
    let kind = row.kind.described().replace('|', "\\|");
    format!("| `{}` | {kind} | {default} | {about} |\n", row.name)
}

#[cfg(test)]
mod tests {
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test reads a page")]
    fn the_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(path).expect("the page");
        let current = super::page();
        let stale = page.lines().zip(current.lines()).find(|(old, new)| old != new);
        assert!(
            page == current,
            "docs/options.md is stale: cargo run -- config reference > docs/options.md; {stale:?}"
        );
    }
}
