//! Keeps pages of other sites away from the REST API and the console.
//!
//! Neither asks who somebody is, so a page that an operator has open must not reach the node
//! through the operator's browser. Browsers say on whose behalf they ask: `Origin` with everything
//! that is not a plain read, `Sec-Fetch-Site` and `Referer` with most of it. A page whose own name
//! was made to lead to this node (DNS rebinding) counts as the same site for a browser; only the
//! name in `Host` gives it away. Tools send neither `Origin`, `Sec-Fetch-Site` nor `Referer`, and
//! name the node by its address.
//!
//! Invariants
//!  - *before-dispatch*: a request is admitted before it is looked at, whatever its method and
//!    path: some reads change something, and a new operation cannot be forgotten.
//!  - *no-other-site*: what a browser sends for another site is refused with 403.

use crate::call::{Answer, Call};
use std::net::IpAddr;

/// The option that names further hosts.
const OPTION: &str = "api_allowed_hosts";

/// By which names the node may be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// Of the addresses that the node is configured with.
    own: Vec<String>,
    /// Of the option: a proxy may show the node under these.
    allowed: Vec<String>,
}

impl Guard {
    /// `own`: the addresses of the node's options, as they are written there; `allowed`: further
    /// names, of the option `api_allowed_hosts`.
    pub fn new(own: Vec<String>, allowed: Vec<String>) -> Guard {
        Guard { own, allowed }
    }

    /// Refuses what a browser sends for a page of another site.
    pub(crate) fn admit(&self, call: &Call) -> Result<(), Answer> {
        let mut hosts = call.headers.get_all("host").iter();
        let host = hosts.next().map(|value| value.to_str().unwrap_or("?"));
        if let Some(host) = host
            && (hosts.next().is_some() || !self.is_ours(host))
        {
            return Err(refused("Host", host, "no name of this node"));
        }
        if let Some(site) = text(call, "sec-fetch-site")
            && site != "same-origin"
            && site != "none"
        {
            return Err(refused("Sec-Fetch-Site", site, "the page of another site"));
        }
        for (name, shown) in [("origin", "Origin"), ("referer", "Referer")] {
            if let Some(value) = text(call, name)
                && !self.is_same_site(value, host)
            {
                return Err(refused(shown, value, "the page of another site"));
            }
        }
        Ok(())
    }

    /// Whether a host, perhaps with a port, is an address, this machine, or a configured name.
    fn is_ours(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        let is_named = |known: &String| known.eq_ignore_ascii_case(name);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.own.iter().chain(&self.allowed).any(is_named)
    }

    /// Whether the page at this URL came from where the request goes to, or from a host that the
    /// operator allows.
    fn is_same_site(&self, url: &str, host: Option<&str>) -> bool {
        let Some((_, rest)) = url.split_once("://") else { return false };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let is_allowed = |name: &str| self.allowed.iter().any(|it| it.eq_ignore_ascii_case(name));
        host.is_some_and(|host| host.eq_ignore_ascii_case(authority))
            || name_of(authority).is_some_and(is_allowed)
    }
}

/// A header, where it is there; one that is no text is the value of nobody.
fn text<'c>(call: &'c Call, name: &str) -> Option<&'c str> {
    call.headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// The name or the address of a host, without its port; `None`: it is none.
fn name_of(host: &str) -> Option<&str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

fn refused(header: &str, value: &str, why: &str) -> Answer {
    // Whoever sent it has chosen it; nobody needs all of a long one.
    let value: String = value.chars().take(200).collect();
    let text = format!(
        "refused, as \"{header}: {value}\" is {why}: a page that is open in a browser must not \
         command this node. Ask by the node's address, or allow the host with the option {OPTION}"
    );
    Answer::refused(403, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::{HeaderMap, Method};

    fn guard() -> Guard {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Guard::new(names(&["db1.example"]), names(&["ops.example"]))
    }

    /// Whether a request with these headers is admitted, of each method.
    fn check(headers: &[(&'static str, &str)], expected: bool) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE] {
            let mut call = Call::new(&method, "/storage_service/flush", "");
            call.headers = map.clone();
            let admitted = guard().admit(&call);
            assert_eq!(admitted.is_ok(), expected, "{method} {headers:?}");
            assert!(admitted.is_ok() || admitted.unwrap_err().status == 403);
        }
    }

    #[test]
    fn a_host_is_an_address_or_a_known_name() {
        for (host, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.1:10000", true),
            ("[::1]:10000", true),
            ("[::1]", true),
            ("localhost:10000", true),
            ("LOCALHOST", true),
            ("DB1.example:10000", true),
            ("ops.example", true),
            ("", false),
            (":10000", false),
            ("evil.example:10000", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.db1.example", false),
            ("127.0.0.1:port", false),
            ("127.0.0.1@evil.example", false),
        ] {
            check(&[("host", host)], expected);
        }
        check(&[("host", "localhost"), ("host", "evil.example")], false);
        check(&[], true);
    }

    #[test]
    fn a_page_asks_where_it_came_from() {
        let here = ("host", "127.0.0.1:10000");
        for (origin, expected) in [
            ("http://127.0.0.1:10000", true),
            ("https://ops.example", true),
            ("https://OPS.example:8443", true),
            // The name of the node is none that its browser came from.
            ("http://db1.example:10000", false),
            ("http://127.0.0.1", false),
            ("http://127.0.0.1:3000", false),
            ("http://localhost:10000", false),
            ("http://evil.example", false),
            ("http://ops.example.evil.example", false),
            ("http://evil.example?http://127.0.0.1:10000", false),
            ("null", false),
            ("", false),
        ] {
            check(&[here, ("origin", origin)], expected);
            check(&[here, ("referer", origin)], expected);
        }
        check(&[here, ("referer", "http://127.0.0.1:10000/ui?x=/")], true);
        check(&[here, ("referer", "http://evil.example/127.0.0.1:10000")], false);
        check(&[("origin", "http://127.0.0.1:10000")], false);
        check(&[("origin", "https://ops.example")], true);
    }

    #[test]
    fn a_browser_says_whose_page_asks() {
        let here = ("host", "localhost:10000");
        for (site, expected) in
            [("same-origin", true), ("none", true), ("same-site", false), ("cross-site", false)]
        {
            check(&[here, ("sec-fetch-site", site)], expected);
        }
    }
}
