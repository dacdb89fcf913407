//! The page that documents every option, made from the table.

use options::{GROUPS, LEGACY, OptionRow};

const HEAD: &str = "\
# Options

Every option may stand in the options file as `name: value` and on the command line as
`--name-with-dashes value` (or `=value`); the command line takes precedence. A list is a YAML list,
or one text with commas; on the command line the option is repeated. A map is a YAML map, or
`--option key=value` repeated. Booleans are 0, 1, true, false, yes, no, on, off. Sizes are bytes, or
have one of the suffixes K, M, G, T. `nereid --help` lists the options that have an effect,
`nereid --help-all` all of them.

The options file is the one that `--options-file` names; without it, the first of these that exists:
`nereid.yaml`, then `scylla.yaml`, in `$NEREID_CONF`, `$SCYLLA_CONF`, `$SCYLLA_HOME/conf` and
`conf`; then `nereid.yaml` in the current directory. A node does not start if the file has an
unknown or duplicate name, a value of the wrong type, or values that contradict each other; each
error is reported with its line and column. `nereid config check FILE` reports the same without a
node, and warns of settings that are probably mistakes. `nereid config show --changed` prints the
options that were set, and where.

**live**: the option can be changed while the node runs: by `UPDATE system.config SET value = '..'
WHERE name = '..'`, by the REST API, or in the file, which the node reads again on SIGHUP. On
SIGHUP, options that were changed in the file are set, options that were removed from it return to
their defaults, and options of the command line stay. A file with an error changes nothing.
`system.config` shows the value of every option and its source: `default`, `config` (the file),
`cli`, `cql`, `api` or `internal` (derived from other options).

**no effect yet**: the option is accepted, checked, stored and shown, but has no effect. The log
names such options that were set.

This page is generated: `nereid config reference > docs/options.md`.
";

const LEGACY_HEAD: &str = "
## Names that are accepted and ignored

Options of Cassandra, and of old releases of ScyllaDB. Each gives a warning at startup.
";

/// The whole page.
pub(super) fn page() -> String {
    let mut out = HEAD.to_owned();
    for group in GROUPS {
        out.push_str(&format!("\n## {}\n\n", group.name));
        out.push_str("| option | value | default | description |\n|---|---|---|---|\n");
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
        (row.is_of_line, "command line only"),
        (row.is_secret, "value is never shown"),
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
