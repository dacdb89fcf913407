//! Whom a certificate names.
//!
//! Invariants
//!  - *no-false-attributes*: no value of a distinguished name looks like another attribute: what
//!    parts attributes is escaped in values, the equals sign included.

use rustls::pki_types::CertificateDer;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// The names of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The distinguished name as RFC 4514 writes it, such as `CN=alice,O=Example,C=SE`.
    pub subject: String,
    /// The alternative names, each with its kind: `DNS=..`, `IP=..`, `EMAIL=..`, `URI=..`.
    pub alternatives: Vec<String>,
}

/// The names in a certificate; `None` when it cannot be read.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Option<Names> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = distinguished(parsed.subject());
    let extension = parsed.subject_alternative_name().ok().flatten();
    let all = extension.iter().flat_map(|extension| &extension.value.general_names);
    Some(Names { subject, alternatives: all.filter_map(alternative).collect() })
}

/// The last attribute comes first.
fn distinguished(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().map(|part| {
        let attributes: Vec<String> = part.iter().map(attribute).collect();
        attributes.join("+")
    });
    let mut parts: Vec<String> = parts.collect();
    parts.reverse();
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let kind = attribute.attr_type();
    let mut text = match oid2abbrev(kind, oid_registry()) {
        Ok(known) => known.to_owned(),
        Err(_) => kind.to_id_string(),
    };
    text.push('=');
    match attribute.as_str() {
        Ok(value) => escape(value, &mut text),
        Err(_) => {
            // What is no text is shown by its bytes.
            text.push('#');
            for byte in attribute.as_slice() {
                let _ = write!(text, "{byte:02X}");
            }
        }
    }
    text
}

/// *no-false-attributes*
fn escape(value: &str, text: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (at, letter) in value.chars().enumerate() {
        match letter {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => text.extend(['\\', letter]),
            ' ' if at == 0 || at == last => text.push_str("\\ "),
            '#' if at == 0 => text.push_str("\\#"),
            '\0' => text.push_str("\\00"),
            _ => text.push(letter),
        }
    }
}

fn alternative(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) => Some(format!("DNS={text}")),
        GeneralName::RFC822Name(text) => Some(format!("EMAIL={text}")),
        GeneralName::URI(text) => Some(format!("URI={text}")),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
            let six = || <[u8; 16]>::try_from(*bytes).map(|it| Ipv6Addr::from(it).to_string());
            Some(format!("IP={}", four.or_else(|_| six()).ok()?))
        }
        _ => None,
    }
}

/// From when to when a certificate is valid, in seconds since 1970.
pub(crate) fn validity(certificate: &CertificateDer<'_>) -> Option<(i64, i64)> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let validity = parsed.validity();
    Some((validity.not_before.timestamp(), validity.not_after.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    #[test]
    fn names_are_read() {
        let file = std::path::Path::new("c");
        let found = files::certificates(file, crate::testing::CERTIFICATE).expect("certificates");
        let names = names(&found[0]).expect("names");
        assert_eq!(names.subject, "CN=localhost,O=Nereid tests");
        assert_eq!(names.alternatives, ["DNS=localhost", "IP=127.0.0.1"]);
    }

    #[test]
    fn a_value_is_no_attribute() {
        let check = |value: &str, expected: &str| {
            let mut text = String::new();
            escape(value, &mut text);
            assert_eq!(text, expected, "{value}");
        };
        check("alice", "alice");
        check("Jos\u{e9} 7#", "Jos\u{e9} 7#");
        check("x,CN=root", r"x\,CN\=root");
        check(r#"a+b;<c>"\"#, r#"a\+b\;\<c\>\"\\"#);
        check(" a ", r"\ a\ ");
        check(" ", r"\ ");
        check("#a", r"\#a");
        check("a\0", r"a\00");
        check("", "");
    }

    #[test]
    fn names_of_all_kinds_are_written() {
        use rcgen::{CertificateParams, DnType, DnValue, SanType};
        let mut made = CertificateParams::default();
        made.distinguished_name = rcgen::DistinguishedName::new();
        made.distinguished_name.push(DnType::CountryName, "SE");
        made.distinguished_name.push(DnType::OrganizationName, "x, CN=root");
        made.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 3, 4]), "y");
        let wide = DnValue::BmpString("bob".try_into().expect("a text"));
        made.distinguished_name.push(DnType::CommonName, wide);
        let text = |text: &str| text.try_into().expect("a text");
        made.subject_alt_names = vec![
            SanType::DnsName(text("a.example.com")),
            SanType::Rfc822Name(text("a@example.com")),
            SanType::URI(text("spiffe://a/b")),
            SanType::IpAddress([10, 0, 0, 1].into()),
            SanType::IpAddress("2001:db8::1".parse().expect("an address")),
        ];
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = made.self_signed(&key).expect("a certificate");
        let names = names(signed.der()).expect("names");
        assert_eq!(names.subject, r"CN=#0062006F0062,1.2.3.4=y,O=x\, CN\=root,C=SE");
        assert_eq!(
            names.alternatives,
            [
                "DNS=a.example.com",
                "EMAIL=a@example.com",
                "URI=spiffe://a/b",
                "IP=10.0.0.1",
                "IP=2001:db8::1"
            ]
        );
    }
}
