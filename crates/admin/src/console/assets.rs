//! The files of the page, which the program has in itself. Libraries are compressed, as
//! `vendor/build.mjs` has bundled them; browsers undo that.

use super::guard;
use crate::call::Answer;
use hyper::Method;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Each with its name below `/console` and its type.
const FILES: &[(&str, &str, &str)] = &[
    ("", HTML, include_str!("page/console.html")),
    ("console.css", CSS, include_str!("page/console.css")),
    ("parts.css", CSS, include_str!("page/parts.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("text.js", SCRIPT, include_str!("page/text.js")),
    ("plot.js", SCRIPT, include_str!("page/plot.js")),
    ("ranges.js", SCRIPT, include_str!("page/ranges.js")),
    ("api.js", SCRIPT, include_str!("page/api.js")),
    ("overview.js", SCRIPT, include_str!("page/overview.js")),
    ("tables.js", SCRIPT, include_str!("page/tables.js")),
    ("table.js", SCRIPT, include_str!("page/table.js")),
    ("tasks.js", SCRIPT, include_str!("page/tasks.js")),
    ("statements.js", SCRIPT, include_str!("page/statements.js")),
    ("split.js", SCRIPT, include_str!("page/split.js")),
    ("editor.js", SCRIPT, include_str!("page/editor.js")),
    ("export.js", SCRIPT, include_str!("page/export.js")),
    ("prompt.js", SCRIPT, include_str!("page/prompt.js")),
    ("settings.js", SCRIPT, include_str!("page/settings.js")),
    ("logs.js", SCRIPT, include_str!("page/logs.js")),
    ("dialogs.js", SCRIPT, include_str!("page/dialogs.js")),
    ("console.js", SCRIPT, include_str!("page/console.js")),
    ("licenses.txt", "text/plain; charset=utf-8", include_str!("vendor/licenses.txt")),
];

/// The same of libraries, compressed by gzip.
const LIBRARIES: &[(&str, &str, &[u8])] = &[
    ("uplot.js", SCRIPT, include_bytes!("vendor/uplot.js.gz")),
    ("uplot.css", CSS, include_bytes!("vendor/uplot.css.gz")),
    ("codemirror.js", SCRIPT, include_bytes!("vendor/codemirror.js.gz")),
];

/// The answer to a request for a file, sealed.
pub(super) fn answer(method: &Method, path: &[&str]) -> Answer {
    let name = path.join("/");
    let file = FILES.iter().find(|(known, ..)| *known == name);
    let library = LIBRARIES.iter().find(|(known, ..)| *known == name);
    match (file, library) {
        (None, None) => {
            guard::sealed(Answer::refused(404, "Not found: the console is at /console"))
        }
        _ if method != Method::GET => {
            guard::sealed(Answer::refused(405, "The console's page is only read"))
        }
        (Some((_, kind, text)), _) => guard::sealed(Answer::file(kind, text)),
        (_, Some((_, kind, bytes))) => {
            let body = bytes.to_vec();
            guard::sealed_gzip(Answer { status: 200, content_type: kind, headers: &[], body })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page refers to, in double quotes after one of these.
    fn references(text: &str) -> Vec<&str> {
        let marks = ["src=\"", "href=\"", "from \"", "import(\""];
        let found = marks.iter().flat_map(|mark| text.split(mark).skip(1));
        found.filter_map(|rest| rest.split('"').next()).collect()
    }

    fn is_known(file: &str) -> bool {
        let mut libraries = LIBRARIES.iter().map(|(known, ..)| *known);
        FILES.iter().any(|(known, ..)| *known == file) || libraries.any(|known| known == file)
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let mut count = 0;
        for (name, kind, text) in FILES.iter().filter(|(_, kind, _)| !kind.starts_with("text/p")) {
            for reference in references(text).into_iter().filter(|it| !it.starts_with(['#', '$'])) {
                let file = reference.trim_start_matches("/console/").trim_start_matches("./");
                assert!(is_known(file), "{name}: {reference}");
                count += 1;
            }
            // The one address is the name of SVG, which is not asked for.
            let addresses = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!addresses.contains("://"), "{name} ({kind}) names an address");
        }
        assert!(5 < count, "the references were not found");
    }

    #[test]
    fn nothing_shown_is_markup() {
        let banned = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("];
        for (name, _, text) in FILES {
            let found: Vec<_> = banned.iter().filter(|word| text.contains(**word)).collect();
            assert!(found.is_empty(), "{name}: {found:?}");
            assert!(!text.contains(" style=\"") && !text.contains(" onclick="), "{name}: inline");
        }
    }

    #[test]
    fn files_keep_to_the_limits_of_the_house() {
        let written = FILES.iter().filter(|(name, ..)| !name.ends_with(['t', 'g']));
        for (name, _, text) in written {
            assert!(text.lines().count() <= 1000, "{name}");
            let long = text.lines().zip(1..).find(|(line, _)| 100 < line.chars().count());
            assert_eq!(long, None, "{name}: longer than 100 columns");
        }
    }

    #[test]
    fn libraries_are_compressed() {
        for (name, _, bytes) in LIBRARIES {
            assert!(bytes.starts_with(&[0x1f, 0x8b]), "{name}");
            let found = answer(&Method::GET, &[name]);
            assert!(found.headers.contains(&("Content-Encoding", "gzip")), "{name}");
        }
        let found = answer(&Method::GET, &["plot.js"]);
        assert!(found.headers.iter().all(|(name, _)| *name != "Content-Encoding"));
    }

    #[test]
    fn files_are_read_and_nothing_else() {
        let status = |method: Method, path: &[&str]| answer(&method, path).status;
        assert_eq!(status(Method::GET, &[]), 200);
        assert_eq!(status(Method::GET, &["plot.js"]), 200);
        assert_eq!(status(Method::POST, &["plot.js"]), 405);
        assert_eq!(status(Method::POST, &["uplot.js"]), 405);
        assert_eq!(status(Method::GET, &["..", "mod.rs"]), 404);
    }
}
