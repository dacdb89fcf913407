//! The files of the page, which the program has in itself.

use crate::call::Answer;
use hyper::Method;

/// Each with its name below `/console` and its type.
const FILES: &[(&str, &str, &str)] = &[
    ("", "text/html; charset=utf-8", include_str!("page/console.html")),
    ("console.css", "text/css; charset=utf-8", include_str!("page/console.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("text.js", "text/javascript; charset=utf-8", include_str!("page/text.js")),
    ("plot.js", "text/javascript; charset=utf-8", include_str!("page/plot.js")),
    ("api.js", "text/javascript; charset=utf-8", include_str!("page/api.js")),
    ("views.js", "text/javascript; charset=utf-8", include_str!("page/views.js")),
    ("prompt.js", "text/javascript; charset=utf-8", include_str!("page/prompt.js")),
    ("console.js", "text/javascript; charset=utf-8", include_str!("page/console.js")),
];

pub(super) fn answer(method: &Method, path: &[&str]) -> Answer {
    let name = path.join("/");
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) if method == Method::GET => Answer::file(kind, text),
        Some(_) => Answer::refused(405, "The console's page is only read"),
        None => Answer::refused(404, "Not found: the console is at /console"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page refers to, in double quotes after one of these.
    fn references(text: &str) -> Vec<&str> {
        let marks = ["src=\"", "href=\"", "from \""];
        let found = marks.iter().flat_map(|mark| text.split(mark).skip(1));
        found.filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let mut count = 0;
        for (name, _, text) in FILES {
            for reference in references(text).into_iter().filter(|it| !it.starts_with('#')) {
                let file = reference.trim_start_matches("/console/").trim_start_matches("./");
                assert!(FILES.iter().any(|(known, ..)| *known == file), "{name}: {reference}");
                count += 1;
            }
            // The one address is the name of SVG, which is not asked for.
            let addresses = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!addresses.contains("://"), "{name} names an address");
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
    fn files_are_read_and_nothing_else() {
        let status = |method: Method, path: &[&str]| answer(&method, path).status;
        assert_eq!(status(Method::GET, &[]), 200);
        assert_eq!(status(Method::GET, &["plot.js"]), 200);
        assert_eq!(status(Method::POST, &["plot.js"]), 405);
        assert_eq!(status(Method::GET, &["..", "mod.rs"]), 404);
    }
}
