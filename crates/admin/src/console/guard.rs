//! Who may ask the console for something, and what browsers may do with its answers.
//!
//! A page of another site that is open in the operator's browser must not reach the node through
//! it. Browsers let other sites send simple requests, but no header of their own without asking
//! first, and nothing here answers such a question (no CORS). What such a page may try beside that
//! is refused by the guard that the console shares with the REST API (`crate::guard`).

use crate::call::{Answer, Call};

/// The header that the page sends with each request.
pub(super) const HEADER: &str = "x-nereid-console";

/// What browsers are told with every answer: only what comes from here is loaded or asked; the
/// page is shown in no frame; nothing is kept or told to others. The first is of files alone.
const SEALS: &[(&str, &str)] = &[
    ("Content-Encoding", "gzip"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
];

pub(super) fn sealed(answer: Answer) -> Answer {
    Answer { headers: &SEALS[1..], ..answer }
}

/// The same of a file that is compressed.
pub(super) fn sealed_gzip(answer: Answer) -> Answer {
    Answer { headers: SEALS, ..answer }
}

/// Refuses what does not come from the page.
pub(super) fn admit(call: &Call) -> Result<(), Answer> {
    if call.header(HEADER).is_none() {
        let text = format!("requests of the console carry the header {HEADER}");
        return Err(Answer::refused(403, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    #[test]
    fn only_the_page_is_answered() {
        let mut call = Call::new(&Method::GET, "/console/api/state", "");
        assert_eq!(admit(&call).unwrap_err().status, 403);
        call.headers.insert(HEADER, "1".parse().unwrap());
        assert_eq!(admit(&call), Ok(()));
    }
}
