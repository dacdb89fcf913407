//! The rules that a machine can check, over the whole tree.
//!
//! Each check is a function from text to problems, tested on small inputs; `all` feeds them the
//! files. A problem names file, line and rule.

mod assertions;
mod layers;
mod rooms;
mod source;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace that cargo runs this for. Asked when it runs: what was built once may
/// serve another checkout with the same target folder.
pub(crate) fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs it");
    Path::new(&manifest)
        .ancestors()
        .nth(2)
        .expect("crates/xtask lies two below the root")
        .to_path_buf()
}

/// Every problem of the tree.
pub(crate) fn all(root: &Path) -> Vec<String> {
    let mut problems = layers::check(root);
    problems.extend(rooms::check(root));
    let floors = fs::read_to_string(root.join("crates/xtask/assertions.txt")).unwrap_or_default();
    problems.extend(assertions::check(root, &floors));
    problems.extend(root_entries(root));
    let allowed = fs::read_to_string(root.join("crates/xtask/allowed.txt")).unwrap_or_default();
    let allowed = source::Allowed::parse(&allowed);
    let mut probes = Vec::new();
    for path in files(root) {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        problems.extend(large_file(&path, &name));
        if name.ends_with(".rs") {
            let text = fs::read_to_string(&path).unwrap_or_default();
            problems.extend(source::check(&name, &text, &allowed));
            source::probes(&name, &text, &mut probes);
        }
    }
    problems.extend(source::duplicate_probes(&probes));
    problems.extend(allowed.stale());
    problems
}

/// A root that fits a screen.
fn root_entries(root: &Path) -> Vec<String> {
    const ENTRIES_MAX: usize = 16;
    const WORK: &[&str] = &["target", "nereid-data"];
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.') && !WORK.contains(&name.as_str()))
        .collect();
    if names.len() <= ENTRIES_MAX {
        return Vec::new();
    }
    vec![format!("the root has {} entries, {ENTRIES_MAX} at most", names.len())]
}

fn large_file(path: &Path, name: &str) -> Option<String> {
    const BYTES_MAX: u64 = 256 << 10;
    let bytes = fs::metadata(path).map(|facts| facts.len()).unwrap_or(0);
    let exempt = name.starts_with("tests/fixtures/") || name == "Cargo.lock";
    (BYTES_MAX < bytes && !exempt).then(|| format!("{name}: {bytes} bytes, {BYTES_MAX} at most"))
}

/// The files of the project, sorted; build output and hidden folders are passed over.
fn files(root: &Path) -> Vec<PathBuf> {
    const TOPS: &[&str] = &["crates", "docs", "tests", "fuzz", "bench", "dist"];
    const WORK: &[&str] = &["target", "node_modules", "__pycache__", "artifacts", "corpus"];
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = TOPS.iter().map(|top| root.join(top)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type().map(|kind| kind.is_dir()).unwrap_or(false);
            if name.starts_with('.') || WORK.contains(&name.as_str()) {
                continue;
            }
            if is_folder {
                folders.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_keeps_its_rules() {
        let root = super::root();
        assert!(super::files(&root).contains(&root.join("crates/xtask/src/tidy.rs")), "{root:?}");
        let problems = super::all(&root);
        assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
    }
}
