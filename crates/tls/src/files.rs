//! Certificates, keys and lists of revocations from PEM files. Errors name file and place.

use rustls::pki_types::pem::{self, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use std::fmt::Display;
use std::path::Path;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The line where section `number` of a PEM file begins, counted from 1.
fn line_of(text: &[u8], number: usize) -> usize {
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let mut begins = lines.filter(|(_, line)| line.trim_ascii_start().starts_with(b"-----BEGIN"));
    begins.nth(number).map_or(1, |(line, _)| line + 1)
}

fn wrong(file: &Path, text: &[u8], number: usize, what: impl Display) -> String {
    format!("{}: line {}: {what}", file.display(), line_of(text, number))
}

/// Every section of a file, whatever it holds, in order.
fn sections(file: &Path, text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, String> {
    let mut found = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let number = found.len();
        found.push(section.map_err(|error| wrong(file, text, number, told(&error)))?);
    }
    Ok(found)
}

fn told(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section without its END line".to_string(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line that is not whole".to_string(),
        pem::Error::Base64Decode(_) => "what is between BEGIN and END is not base64".to_string(),
        other => other.to_string(),
    }
}

/// The certificates of a file, at least one.
pub(crate) fn certificates(
    file: &Path,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut found = Vec::new();
    for (number, (kind, der)) in sections(file, text)?.into_iter().enumerate() {
        if kind != SectionKind::Certificate {
            continue;
        }
        if let Err(error) = X509Certificate::from_der(&der) {
            return Err(wrong(file, text, number, format!("not a certificate: {error}")));
        }
        found.push(CertificateDer::from(der));
    }
    if found.is_empty() {
        return Err(format!("{}: no certificate in it (PEM is expected)", file.display()));
    }
    Ok(found)
}

/// The private key of a file.
pub(crate) fn key(file: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    // What a broken key file holds is not told: it is secret.
    sections(file, text)?;
    if text.windows(9).any(|word| word == b"ENCRYPTED") {
        return Err(format!("{}: the key is encrypted; a plain one is needed", file.display()));
    }
    PrivateKeyDer::from_pem_slice(text)
        .map_err(|_| format!("{}: no private key in it (PEM is expected)", file.display()))
}

/// The lists of revocations of a file, at least one.
pub(crate) fn revocations(
    file: &Path,
    text: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let all = sections(file, text)?.into_iter();
    let lists = all.filter(|(kind, _)| *kind == SectionKind::Crl);
    let found: Vec<_> = lists.map(|(_, der)| CertificateRevocationListDer::from(der)).collect();
    if found.is_empty() {
        return Err(format!("{}: no list of revocations in it", file.display()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_file_and_place() {
        let pem = String::from_utf8_lossy(crate::testing::CERTIFICATE).into_owned();
        let path = Path::new("a.pem");
        let check = |text: &str, expected: &str| {
            let found = certificates(path, text.as_bytes());
            let said = found.map_or_else(|error| error, |found| format!("{} found", found.len()));
            assert!(said.starts_with(expected), "{said}");
        };
        check(&pem, "1 found");
        check(&format!("words\n{pem}{pem}"), "2 found");
        check("", "a.pem: no certificate in it");
        check("-----BEGIN CERTIFICATE-----\nAAAA\n", "a.pem: line 1: a section without its END");
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let lines = pem.lines().count() + 1;
        check(&format!("{pem}{junk}"), &format!("a.pem: line {lines}: not a certificate"));
        let odd = "-----BEGIN CERTIFICATE-----\n&&&&\n-----END CERTIFICATE-----\n";
        check(odd, "a.pem: line 1: what is between BEGIN and END is not base64");
    }

    #[test]
    fn a_key_is_found_or_missed() {
        let path = Path::new("k.pem");
        assert!(key(path, crate::testing::KEY).is_ok());
        let missed = key(path, crate::testing::CERTIFICATE).expect_err("a certificate");
        assert_eq!(missed, "k.pem: no private key in it (PEM is expected)");
        let secret = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n\
                       -----END ENCRYPTED PRIVATE KEY-----\n";
        let refused = key(path, secret).expect_err("an encrypted key");
        assert!(refused.starts_with("k.pem: the key is encrypted"), "{refused}");
        assert!(revocations(path, crate::testing::KEY).is_err());
    }
}
