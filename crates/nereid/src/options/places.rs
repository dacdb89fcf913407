//! Where the options file is looked for, when none is named.

use std::ffi::OsString;
use std::path::PathBuf;

/// Its names, in this order in each folder.
const NAMES: [&str; 2] = ["nereid.yaml", "scylla.yaml"];

/// The options file that a node reads where the command line names none.
pub(crate) fn usual_file() -> Option<PathBuf> {
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
