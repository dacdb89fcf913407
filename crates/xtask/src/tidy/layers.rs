//! Imports point down: the edges of ARCHITECTURE.md's table are the edges of the manifests, and
//! every external crate is listed with its reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Compares manifests, ARCHITECTURE.md and docs/dependencies.md.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let allowed = edges_of_table(&read("ARCHITECTURE.md"));
    let mut actual = Edges::new();
    let mut external = BTreeSet::new();
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let names: BTreeSet<String> =
        crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    for name in &names {
        let manifest = read(&format!("crates/{name}/Cargo.toml"));
        let (ours, others) =
            dependencies(&manifest).into_iter().partition(|dependency| names.contains(dependency));
        actual.insert(name.clone(), ours);
        external.extend::<BTreeSet<String>>(others);
    }
    let mut problems = compare(&allowed, &actual);
    let listed = read("docs/dependencies.md");
    for dependency in external {
        if !listed.contains(&format!("`{dependency}`")) {
            problems.push(format!("docs/dependencies.md does not list `{dependency}`"));
        }
    }
    problems
}

/// Rows of the form "| `crate` | purpose | stdx, model |": crate to the crates it may import.
fn edges_of_table(text: &str) -> Edges {
    let mut edges = Edges::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, _, imports, ..] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else {
            continue;
        };
        let imports = imports.split(',').map(|import| import.trim().to_string());
        edges.insert(name.to_string(), imports.filter(|import| import != "-").collect());
    }
    edges
}

/// Names in `[dependencies]`; development dependencies may point anywhere but at product code.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut within = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line == "[dependencies]";
        } else if let (true, Some((name, _))) = (within, line.split_once('=')) {
            found.insert(name.trim().trim_end_matches(".workspace").to_string());
        }
    }
    found
}

fn compare(allowed: &Edges, actual: &Edges) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, imports) in actual {
        let Some(may) = allowed.get(name) else {
            problems.push(format!("ARCHITECTURE.md's table has no row for `{name}`"));
            continue;
        };
        for import in imports.difference(may) {
            problems.push(format!("{name} imports {import}, which ARCHITECTURE.md does not allow"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_that_the_table_lacks_is_reported() {
        let table = "| crate | what | may import |\n| `a` | x | - |\n| `b` | y | a, stdx |\n";
        let allowed = edges_of_table(table);
        let manifest = "[package]\nname = \"a\"\n[dependencies]\nb = { workspace = true }\n";
        let actual = Edges::from([("a".to_string(), dependencies(manifest))]);
        let expected = ["a imports b, which ARCHITECTURE.md does not allow"];
        assert_eq!(compare(&allowed, &actual), expected);
        assert_eq!(allowed["b"].len(), 2);
    }
}
