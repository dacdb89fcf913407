//! Signature Version 4: whose key has signed a request. Pure.
//!
//! A key's name is a role, its secret the salted hash of the role's password.
//!
//! Invariants
//!  - *compared-in-constant-time*: how far a wrong signature is right is not told by time.
//!  - *recent*: a request was signed within [`SKEW_SECS_MAX`] of now.

use crate::error::{Error, Kind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use ring::{digest, hmac};
use std::fmt::Write;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Seconds that the clock of a client may differ.
const SKEW_SECS_MAX: i64 = 15 * 60;

/// What of a request is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'r> {
    pub method: &'r str,
    pub path: &'r str,
    pub query: &'r str,
    /// Names in lower case, in any order, a name perhaps several times.
    pub headers: &'r [(&'r str, &'r str)],
    pub body: &'r [u8],
}

/// What the header `Authorization` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim<'r> {
    key: &'r str,
    /// Date, region, service.
    scope: [&'r str; 3],
    signed_headers: Vec<&'r str>,
    signature: &'r str,
}

impl<'r> Signed<'r> {
    fn header(&self, name: &str) -> Option<&'r str> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// The name of the key that has signed, if it did so lately. `secret`: that of a key, or
    /// why it has none. `now`: seconds since the epoch.
    pub fn signer(
        &self,
        now: i64,
        secret: impl FnOnce(&str) -> Result<String, &'static str>,
    ) -> Result<String, Error> {
        let missing = || {
            Error::new(Kind::MissingAuthenticationToken, "Request is missing Authentication Token")
        };
        let header = self.header("authorization").ok_or_else(missing)?;
        let claim = claim(header)?;
        let date = self.header("x-amz-date").ok_or_else(|| {
            incomplete("Authorization header requires existence of an 'X-Amz-Date' header")
        })?;
        self.check_time(date, &claim, now)?;
        if !claim.signed_headers.contains(&"host") {
            return Err(incomplete("'Host' must be a 'SignedHeader' in the AWS Authorization"));
        }
        let unknown = |why: &str| {
            let text = "The security token included in the request is invalid";
            Error::new(Kind::UnrecognizedClient, format!("{text}: {}: {why}", claim.key))
        };
        let secret = secret(claim.key).map_err(unknown)?;
        match self.is_signed_by(&claim, date, &secret) {
            true => Ok(claim.key.to_owned()),
            false => Err(Error::new(
                Kind::UnrecognizedClient,
                "The request signature we calculated does not match the signature you provided. \
                 Check your AWS Secret Access Key and signing method.",
            )),
        }
    }

    /// *recent*
    fn check_time(&self, date: &str, claim: &Claim<'_>, now: i64) -> Result<(), Error> {
        let invalid = |text: String| Error::new(Kind::InvalidSignature, text);
        let signed_at = seconds(date).ok_or_else(|| {
            invalid(format!("Date in X-Amz-Date is not in the form YYYYMMDDThhmmssZ: {date}"))
        })?;
        if signed_at < now - SKEW_SECS_MAX {
            return Err(invalid(format!("Signature expired: {date} is now earlier than {now}")));
        }
        if now + SKEW_SECS_MAX < signed_at {
            return Err(invalid(format!(
                "Signature not yet current: {date} is still later than {now}"
            )));
        }
        match date.starts_with(claim.scope[0]) {
            true => Ok(()),
            false => Err(invalid(format!(
                "Date in Credential scope does not match the date in X-Amz-Date: {} is not of \
                 {date}",
                claim.scope[0]
            ))),
        }
    }

    /// *compared-in-constant-time*
    fn is_signed_by(&self, claim: &Claim<'_>, date: &str, secret: &str) -> bool {
        let [day, region, service] = claim.scope;
        let request =
            hex(digest::digest(&digest::SHA256, self.canonical(claim).as_bytes()).as_ref());
        let text = format!("{ALGORITHM}\n{date}\n{day}/{region}/{service}/aws4_request\n{request}");
        let mut key = format!("AWS4{secret}").into_bytes();
        for part in [day, region, service, "aws4_request"] {
            let signer = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&signer, part.as_bytes()).as_ref().to_vec();
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let given = unhex(claim.signature);
        given.is_some_and(|given| hmac::verify(&key, text.as_bytes(), &given).is_ok())
    }

    /// The request in the one form that is signed.
    fn canonical(&self, claim: &Claim<'_>) -> String {
        let mut names = claim.signed_headers.clone();
        names.sort_unstable();
        let mut out = format!("{}\n{}\n{}\n", self.method, path(self.path), query(self.query));
        for name in &names {
            let values = self.headers.iter().filter(|(known, _)| known == name);
            let values = values
                .map(|(_, value)| value.split_ascii_whitespace().collect::<Vec<_>>().join(" "));
            let values = values.collect::<Vec<_>>().join(",");
            // A text takes whatever is written.
            let _ = writeln!(out, "{name}:{values}");
        }
        let body = hex(digest::digest(&digest::SHA256, self.body).as_ref());
        let _ = write!(out, "\n{}\n{body}", names.join(";"));
        out
    }
}

fn incomplete(text: &str) -> Error {
    Error::new(Kind::IncompleteSignature, text)
}

/// Its parts are separated by spaces or commas, or both.
fn claim(header: &str) -> Result<Claim<'_>, Error> {
    let rest = header.trim().strip_prefix(ALGORITHM).ok_or_else(|| {
        incomplete("Authorization header has another algorithm than AWS4-HMAC-SHA256")
    })?;
    let mut found: [Option<&str>; 3] = [None; 3];
    for part in rest.split([' ', ',']).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else { continue };
        match name {
            "Credential" => found[0] = Some(value),
            "SignedHeaders" => found[1] = Some(value),
            "Signature" => found[2] = Some(value),
            _ => {}
        }
    }
    let need = |at: usize, name: &str| {
        let text = || format!("Authorization header requires '{name}' parameter.");
        found[at].ok_or_else(|| incomplete(&text()))
    };
    let credential = need(0, "Credential")?;
    let parts: Vec<&str> = credential.rsplitn(5, '/').collect();
    let [end, service, region, day, key] = parts[..] else {
        return Err(incomplete(
            "Credential in Authorization header is not key/date/region/service/end",
        ));
    };
    if end != "aws4_request" || !day.bytes().all(|byte| byte.is_ascii_digit()) && day.len() == 8 {
        return Err(incomplete(
            "Credential in Authorization header should be scoped to aws4_request",
        ));
    }
    let signed_headers = need(1, "SignedHeaders")?.split(';').collect();
    Ok(Claim {
        key,
        scope: [day, region, service],
        signed_headers,
        signature: need(2, "Signature")?,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

/// What stands for itself in a path or query that is signed.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn path(path: &str) -> String {
    let part = |part: &str| {
        let plain: Vec<u8> = percent_decode_str(part).collect();
        utf8_percent_encode(&String::from_utf8_lossy(&plain), PLAIN).to_string()
    };
    let encoded = path.split('/').map(part).collect::<Vec<_>>().join("/");
    if encoded.is_empty() { "/".to_owned() } else { encoded }
}

fn query(query: &str) -> String {
    let part = |part: &str| {
        let plain: Vec<u8> = percent_decode_str(part).collect();
        utf8_percent_encode(&String::from_utf8_lossy(&plain), PLAIN).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<_> = pairs.map(|(name, value)| (part(name), part(value))).collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Of `20260131T235959Z`.
fn seconds(text: &str) -> Option<i64> {
    let shape = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    if text.len() != 16 || !text.bytes().enumerate().all(shape) {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since the epoch of a date of the Gregorian calendar, whose years begin in March.
    let (y, m) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The request of AWS' own example of the algorithm, for another service.
    fn example<'r>(headers: &'r [(&'r str, &'r str)]) -> Signed<'r> {
        let query = "Action=ListUsers&Version=2010-05-08";
        Signed { method: "GET", path: "/", query, headers, body: b"" }
    }

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const NOW: i64 = 1_440_938_160;

    fn headers(authorization: &str) -> Vec<(&str, &str)> {
        vec![
            ("host", "iam.amazonaws.com"),
            ("content-type", "application/x-www-form-urlencoded;  charset=utf-8"),
            ("x-amz-date", "20150830T123600Z"),
            ("authorization", authorization),
        ]
    }

    const GOOD: &str = "AWS4-HMAC-SHA256 \
                        Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
                        SignedHeaders=content-type;host;x-amz-date, \
                        Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";

    fn signer(authorization: &str, now: i64) -> Result<String, Error> {
        let headers = headers(authorization);
        example(&headers).signer(now, |key| match key {
            "AKIDEXAMPLE" => Ok(SECRET.to_owned()),
            _ => Err("no role"),
        })
    }

    #[test]
    fn the_published_example_is_signed() {
        assert_eq!(signer(GOOD, NOW).unwrap(), "AKIDEXAMPLE");
        assert_eq!(signer(&GOOD.replace(", ", ","), NOW).unwrap(), "AKIDEXAMPLE");
    }

    #[test]
    fn what_is_not_signed_rightly_is_refused() {
        let check = |authorization: &str, now: i64, kind: Kind, part: &str| {
            let error = signer(authorization, now).unwrap_err();
            assert_eq!(error.kind, kind, "{authorization}: {error}");
            assert!(error.message.contains(part), "{error}");
        };
        check(&GOOD.replace("5d67", "5d68"), NOW, Kind::UnrecognizedClient, "signature");
        check(&GOOD.replace("AKID", "AKIE"), NOW, Kind::UnrecognizedClient, "invalid");
        check(GOOD, NOW + 1000, Kind::InvalidSignature, "Signature expired");
        check(GOOD, NOW - 1000, Kind::InvalidSignature, "Signature not yet current");
        check(&GOOD.replace("host;", ""), NOW, Kind::IncompleteSignature, "Host");
        check("Bearer x", NOW, Kind::IncompleteSignature, "algorithm");
        check("AWS4-HMAC-SHA256 Credential=a", NOW, Kind::IncompleteSignature, "Credential");
        let none = [("host", "h")];
        let missing = example(&none).signer(NOW, |_| Err("no role")).unwrap_err();
        assert_eq!(missing.kind, Kind::MissingAuthenticationToken);
    }

    #[test]
    fn dates_are_seconds() {
        assert_eq!(seconds("19700101T000000Z"), Some(0));
        assert_eq!(seconds("20150830T123600Z"), Some(NOW));
        assert_eq!(seconds("20240229T000000Z"), Some(1_709_164_800));
        for text in
            ["", "20150830T123600", "20151330T123600Z", "2015083aT123600Z", "\u{e4}0150830T12360Z"]
        {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn foreign_headers_do_not_panic(
            text in "(AWS4-HMAC-SHA256)?[ ,=/a-zA-Z0-9]{0,40}(Credential=[a-z/0-9]{0,20})?.{0,20}",
            date in "[0-9TZ]{14,17}|.{16}",
        ) {
            let headers = [("host", "h"), ("x-amz-date", &*date), ("authorization", &*text)];
            let _ = example(&headers).signer(0, |_| Ok(String::new()));
        }
    }
}
