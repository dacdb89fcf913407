//! Who may ask the console for something, and what browsers may do with its answers.
//!
//! A page of another site that is open in the operator's browser must not reach the node through
//! it. Browsers let other sites send simple requests, but no header of their own without asking
//! first, and nothing here answers such a question (no CORS). A site may also let its own name lead
//! to this node (DNS rebinding), and then counts as the same site: so, where nobody has to log in,
//! requests must name the node by its address.

use crate::call::{Answer, Call};
use std::net::IpAddr;

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
pub(super) fn admit(call: &Call, asks_passwords: bool) -> Result<(), Answer> {
    if call.header(HEADER).is_none() {
        let text = format!("requests of the console carry the header {HEADER}");
        return Err(Answer::refused(403, text));
    }
    if call.header("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(Answer::refused(403, "another site asks"));
    }
    let host = call.header("host").unwrap_or("");
    if !asks_passwords && !is_address(host) {
        let text = "open the console by the address of the node, or as localhost: any site can \
                    have its own name lead here, and nobody has to log in";
        return Err(Answer::refused(403, text));
    }
    Ok(())
}

/// Whether a host, perhaps with a port, is an address or this machine.
fn is_address(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Method;

    #[test]
    fn addresses_are_told_from_names() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.1:10000", true),
            ("[::1]:10000", true),
            ("[::1]", true),
            ("localhost:10000", true),
            ("LOCALHOST", true),
            ("", false),
            (":10000", false),
            ("evil.example:10000", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1:port", false),
        ] {
            assert_eq!(is_address(host), expected, "{host}");
        }
    }

    #[test]
    fn only_the_page_is_answered() {
        let check = |headers: &[(&'static str, &str)], asks_passwords, expected: bool| {
            let mut call = Call::new(&Method::GET, "/console/api/state", "");
            for (name, value) in headers {
                call.headers.insert(*name, value.parse().unwrap());
            }
            assert_eq!(admit(&call, asks_passwords).is_ok(), expected, "{headers:?}");
        };
        let (own, here) = ((HEADER, "1"), ("host", "127.0.0.1:10000"));
        let named = ("host", "db1.example");
        check(&[own, here], false, true);
        check(&[here], false, false);
        check(&[here], true, false);
        check(&[own, here, ("sec-fetch-site", "same-origin")], false, true);
        check(&[own, here, ("sec-fetch-site", "cross-site")], false, false);
        check(&[own, here, ("sec-fetch-site", "same-site")], true, false);
        check(&[own, named], false, false);
        check(&[own, named], true, true);
        check(&[own], false, false);
    }
}
