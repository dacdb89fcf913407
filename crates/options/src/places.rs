//! The options file of a node: the one that is named, or else where it is looked for.

use crate::file::Note;
use crate::values::{Source, Values};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Its names, in this order in each folder.
const NAMES: [&str; 2] = ["nereid.yaml", "scylla.yaml"];

/// Reads the options file, where there is one: the one named, or the usual places. Returns
/// warnings, or all that is wrong.
pub fn read_options_file(values: &mut Values) -> Result<Vec<String>, Vec<String>> {
    let Some(path) = options_file(values) else { return Ok(Vec::new()) };
    let text = read_text(&path).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let of_file = |notes: Vec<Note>| notes.iter().map(|note| note.of_file(&path)).collect();
    values.read_file(&text).map(of_file).map_err(of_file)
}

/// The options file: the one named, or the first there is of the usual places. A throw-away node
/// looks at none of these: what lies there is about a node with data, which it must not touch.
pub fn options_file(values: &Values) -> Option<PathBuf> {
    match values.source("options_file") {
        Source::Default if values.flag("ephemeral") => None,
        Source::Default => usual_file(),
        _ => Some(PathBuf::from(values.text("options_file"))),
    }
}

/// The options file that a node reads where the command line names none.
pub fn usual_file() -> Option<PathBuf> {
    candidates(|variable| std::env::var_os(variable)).into_iter().find(|path| path.is_file())
}

/// Every place, the first one first.
fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).filter(|text| !text.is_empty()).map(PathBuf::from);
    let folders = [
        folder("NEREID_CONF"),
        folder("SCYLLA_CONF"),
        folder("SCYLLA_HOME").map(|home| home.join("conf")),
        Some(PathBuf::from("conf")),
    ];
    let both = |folder: PathBuf| NAMES.map(|name| folder.join(name));
    let mut places: Vec<PathBuf> = folders.into_iter().flatten().flat_map(both).collect();
    places.push(PathBuf::from(NAMES[0]));
    places
}

/// The text of an options file. Read before any shard runs, so blocking harms nobody.
#[allow(clippy::disallowed_methods, reason = "no shard runs yet")]
pub fn read_text(path: &Path) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_name_comes_first_in_each_folder() {
        let check = |set: &[(&str, &str)], expected: &[&str]| {
            let found = candidates(|wanted| {
                let of = set.iter().find(|(name, _)| *name == wanted);
                of.map(|(_, value)| OsString::from(value))
            });
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(found, expected, "{set:?}");
        };
        let usual = ["conf/nereid.yaml", "conf/scylla.yaml", "nereid.yaml"];
        check(&[], &usual);
        check(&[("SCYLLA_CONF", "")], &usual);
        check(
            &[("NEREID_CONF", "/n"), ("SCYLLA_CONF", "/s"), ("SCYLLA_HOME", "/h")],
            &[
                "/n/nereid.yaml",
                "/n/scylla.yaml",
                "/s/nereid.yaml",
                "/s/scylla.yaml",
                "/h/conf/nereid.yaml",
                "/h/conf/scylla.yaml",
                usual[0],
                usual[1],
                usual[2],
            ],
        );
    }
}
