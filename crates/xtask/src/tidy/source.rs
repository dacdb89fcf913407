//! Rules of one Rust file: lengths, contracts, forbidden words, where `unsafe` may stand.

use std::cell::Cell;
use std::path::Path;

const LINE_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 1000;
const TEST_FILE_LINES_MAX: usize = 1500;
/// Words that must not stay in a tree. Split, so that this file does not hold them.
const FORBIDDEN: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("db", "g!("),
];
const UNSAFE: &[&str] = &[concat!("unsafe", " {"), concat!("unsafe", " fn ")];
const UNSAFE_IN: &[&str] = &["crates/runtime/", "crates/memory/"];

/// Exceptions by file and rule ("crates/x/src/y.rs function big_match"). The list may shrink; a
/// line that excuses nothing is itself a problem.
pub(crate) struct Allowed {
    lines: Vec<(String, Cell<bool>)>,
}

impl Allowed {
    pub(crate) fn parse(text: &str) -> Allowed {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Allowed { lines: lines.map(|line| (line.to_string(), Cell::new(false))).collect() }
    }

    fn covers(&self, line: &str) -> bool {
        let found = self.lines.iter().find(|(allowed, _)| allowed == line);
        found.inspect(|(_, used)| used.set(true)).is_some()
    }

    /// Exceptions that nothing needs any more.
    pub(crate) fn stale(&self) -> Vec<String> {
        let unused = self.lines.iter().filter(|(_, used)| !used.get());
        unused.map(|(line, _)| format!("crates/xtask/allowed.txt: not needed: {line}")).collect()
    }
}

/// Whether a file is for tests alone, by its name.
pub(crate) fn is_test_file(path: &Path) -> bool {
    let names = |name: &std::ffi::OsStr| name == "tests" || name == "tests.rs";
    path.iter().any(names)
}

/// Every problem of one file.
pub(crate) fn check(name: &str, text: &str, allowed: &Allowed) -> Vec<String> {
    let mut problems = Vec::new();
    let is_test = is_test_file(Path::new(name));
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if LINE_MAX < line.chars().count() {
            problems.push(format!("{place}: longer than {LINE_MAX} columns"));
        }
        if !line.is_ascii() {
            problems.push(format!("{place}: not ASCII"));
        }
        if let Some(word) = FORBIDDEN.iter().find(|word| line.contains(**word)) {
            problems.push(format!("{place}: `{word}` must not stay"));
        }
        let blocks = UNSAFE.iter().any(|word| line.contains(word));
        if blocks && !UNSAFE_IN.iter().any(|folder| name.starts_with(folder)) {
            problems.push(format!("{place}: unsafe outside of runtime and memory"));
        }
    }
    if !is_test && name.contains("/src/") && !text.starts_with("//!") {
        problems.push(format!("{name}: does not open with its contract (//!)"));
    }
    let (lines, max) = match is_test {
        true => (text.lines().count(), TEST_FILE_LINES_MAX),
        false => (lines_without_tests(text), FILE_LINES_MAX),
    };
    if max < lines && !allowed.covers(&format!("{name} file")) {
        problems.push(format!("{name}: {lines} lines, {max} at most"));
    }
    for (function, line, length) in functions(text) {
        let excuse = format!("{name} function {function}");
        if FUNCTION_LINES_MAX < length && !allowed.covers(&excuse) {
            problems.push(format!(
                "{name}:{line}: `{function}` has {length} lines, {FUNCTION_LINES_MAX} at most"
            ));
        }
    }
    problems
}

fn lines_without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {"));
    tests.unwrap_or(lines.len())
}

/// Name, line and length of each function, in source that rustfmt has laid out: a function ends
/// at the closing brace in the column of its first line.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let Some(name) = function_name(trimmed) else { continue };
        let indent = line.len() - trimmed.len();
        let close = format!("{}}}", " ".repeat(indent));
        let ends = lines[index..].iter().position(|line| {
            *line == close
                || (line.ends_with(';') && line.len() - line.trim_start().len() <= indent)
        });
        if let Some(length) = ends {
            found.push((name.to_string(), index + 1, length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    const QUALIFIERS: &[&str] = &["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe"];
    let mut words = line.split(' ').skip_while(|word| QUALIFIERS.contains(word));
    if words.next() != Some("fn") {
        return None;
    }
    words.next().and_then(|rest| rest.split(['(', '<']).next())
}

/// Collects the names given to `probe!` with their places.
pub(crate) fn probes(name: &str, text: &str, out: &mut Vec<(String, String)>) {
    for (index, line) in text.lines().enumerate() {
        let Some((_, rest)) = line.split_once("probe!(\"") else { continue };
        if line.trim_start().starts_with("//") {
            continue;
        }
        if let Some((probe, _)) = rest.split_once('"') {
            out.push((probe.to_string(), format!("{name}:{}", index + 1)));
        }
    }
}

/// A probe's name marks one place.
pub(crate) fn duplicate_probes(probes: &[(String, String)]) -> Vec<String> {
    let mut sorted: Vec<_> = probes.iter().collect();
    sorted.sort();
    let twice = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    twice
        .map(|pair| format!("{}: probe `{}` stands at {} too", pair[1].1, pair[1].0, pair[0].1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        check("crates/a/src/b.rs", text, &Allowed::parse(""))
    }

    #[test]
    fn a_tidy_file_has_no_problem() {
        assert!(problems("//! Contract.\n\nfn main() {}\n").is_empty());
    }

    #[test]
    fn each_rule_is_seen() {
        let long = format!("//! C.\n// {}\n", "x".repeat(100));
        assert!(problems(&long)[0].contains("longer than 100"));
        assert!(problems("//! \u{e9}\n")[0].contains("not ASCII"));
        assert!(problems("fn a() {}\n")[0].contains("contract"));
        let unsafe_code = format!("//! C.\nfn a() {{\n    unsa{} {{ b() }}\n}}\n", "fe");
        assert!(problems(&unsafe_code)[0].contains("unsafe outside"));
        let long_function = format!("//! C.\nfn a() {{\n{}}}\n", "    b();\n".repeat(70));
        assert!(problems(&long_function)[0].contains("`a` has 72 lines"));
        let long_file = format!("//! C.\n{}", "// x\n".repeat(1001));
        assert!(problems(&long_file)[0].contains("1002 lines"));
    }

    #[test]
    fn an_excuse_holds_until_it_is_not_needed() {
        let allowed = Allowed::parse("crates/a/src/b.rs function a\n# note\n");
        let text = format!("//! C.\npub(crate) async fn a() {{\n{}}}\n", "    b();\n".repeat(70));
        assert!(check("crates/a/src/b.rs", &text, &allowed).is_empty());
        assert!(allowed.stale().is_empty());
        assert_eq!(Allowed::parse("x file").stale().len(), 1);
    }

    #[test]
    fn a_probe_named_twice_is_reported() {
        let mut found = Vec::new();
        probes("a.rs", "probe!(\"one\");\n// probe!(\"two\")\nprobe!(\"one\");\n", &mut found);
        assert_eq!(duplicate_probes(&found), ["a.rs:3: probe `one` stands at a.rs:1 too"]);
    }
}
