//! Whom a certificate names.

use rustls::pki_types::CertificateDer;
use std::net::{Ipv4Addr, Ipv6Addr};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The names of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The distinguished name, such as `C=SE, O=Example, CN=alice`.
    pub subject: String,
    /// The alternative names, each as it is: host names, addresses, mail addresses, URIs.
    pub alternatives: Vec<String>,
}

/// The names in a certificate; `None` when it cannot be read.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Option<Names> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject().to_string();
    let extension = parsed.subject_alternative_name().ok().flatten();
    let all = extension.iter().flat_map(|extension| &extension.value.general_names);
    Some(Names { subject, alternatives: all.filter_map(alternative).collect() })
}

fn alternative(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some(text.to_string())
        }
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
            let six = || <[u8; 16]>::try_from(*bytes).map(|it| Ipv6Addr::from(it).to_string());
            four.or_else(|_| six()).ok()
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
        assert_eq!(names.subject, "O=Nereid tests, CN=localhost");
        assert_eq!(names.alternatives, ["localhost", "127.0.0.1"]);
    }
}
