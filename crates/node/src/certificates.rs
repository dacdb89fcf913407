//! Logins by certificate, from options.

use crate::encryption;
use cluster::Authenticator;
use cluster::access::certificate::{Queries, Query, Source};
use options::Values;
use serde_json::Value;
use tls::options::ClientAuth;

/// The encryption of what clients of CQL say.
const ENCRYPTION: &str = "client_encryption_options";
/// Which part of a certificate is the name of a role.
const QUERIES: &str = "auth_certificate_role_queries";

/// Which role a certificate stands for. The error names the option.
pub(crate) fn queries(values: &Values) -> Result<Queries, String> {
    match values.text(QUERIES) {
        "" => Ok(Queries::usual()),
        text => parse(text).map_err(|error| format!("option {QUERIES}: {error}")),
    }
}

/// Whether clients can do what the authenticator asks of them. The error names the option.
pub(crate) fn check(values: &Values, authenticator: Authenticator) -> Result<(), String> {
    if !authenticator.reads_certificates() {
        return Ok(());
    }
    let text = values.text("authenticator");
    let refused = |what: &str| Err(format!("option authenticator: {text} needs {what}"));
    match encryption::wanted(values, ENCRYPTION)? {
        None => refused("client_encryption_options with enabled, truststore, require_client_auth"),
        Some(options) if options.client_auth == ClientAuth::No => {
            refused("require_client_auth in client_encryption_options: true or optional")
        }
        Some(_) => Ok(()),
    }
}

/// A list of maps of `source` and `query`.
fn parse(text: &str) -> Result<Queries, String> {
    let wrong = || format!("not a list of maps with source and query: {text}");
    let parsed: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let list = parsed.as_array().ok_or_else(wrong)?;
    let queries: Result<Vec<Query>, String> = list.iter().map(query).collect();
    Queries::new(queries?)
}

fn query(entry: &Value) -> Result<Query, String> {
    let entries = entry.as_object().ok_or_else(|| format!("not source and query: {entry}"))?;
    if let Some(key) = entries.keys().find(|key| !["source", "query"].contains(&key.as_str())) {
        return Err(format!("unknown key {key}; known are source, query"));
    }
    let text = |key: &str| {
        let found = entries.get(key).and_then(Value::as_str);
        found.ok_or_else(|| format!("{key}: missing, or not a text: {entry}"))
    };
    let (source, pattern) = (text("source")?, text("query")?);
    let source = Source::by_name(source)
        .ok_or_else(|| format!("source: neither SUBJECT nor ALTNAME: {source}"))?;
    Query::new(source, pattern).map_err(|error| format!("query: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        let mut values = Values::default();
        values.read_file(text).expect("a file");
        values
    }

    #[test]
    fn queries_are_read_or_refused() {
        let check = |list: &str, expected: Result<&[(Source, &str)], &str>| {
            let found = queries(&values(&format!("{QUERIES}: {list}\n")));
            let expected = match expected {
                Err(text) => Err(format!("option {QUERIES}: {text}")),
                Ok(expected) => {
                    let made = expected.iter().map(|(source, text)| Query::new(*source, text));
                    Queries::new(made.collect::<Result<_, _>>().expect("queries"))
                }
            };
            assert_eq!(found, expected, "{list}");
        };
        let subject = (Source::Subject, "CN=([^,\\s]+)");
        assert_eq!(queries(&Values::default()), Ok(Queries::usual()));
        check(r"[{source: SUBJECT, query: 'CN=([^,\s]+)'}]", Ok(&[subject]));
        check(
            r"[{source: ALTNAME, query: DNS=(.+)}, {query: 'CN=([^,\s]+)', source: subject}]",
            Ok(&[(Source::Alternatives, "DNS=(.+)"), subject]),
        );
        check("[]", Err("no query is given"));
        check("CN", Err("not a list of maps with source and query: \"CN\""));
        check("[CN]", Err("not source and query: \"CN\""));
        check("[{source: ISSUER, query: (x)}]", Err("source: neither SUBJECT nor ALTNAME: ISSUER"));
        check(
            "[{source: SUBJECT}]",
            Err("query: missing, or not a text: {\"source\":\"SUBJECT\"}"),
        );
        check(
            "[{source: SUBJECT, pattern: x}]",
            Err("unknown key pattern; known are source, query"),
        );
        check(
            "[{source: SUBJECT, query: CN}]",
            Err("query: CN: 0 groups in parentheses; one is wanted, the name of the role"),
        );
    }

    #[test]
    fn certificates_have_to_be_asked_for() {
        let check = |authenticator, encryption: &str, expected: &str| {
            let mut text = format!("authenticator: {authenticator:?}Authenticator\n");
            if !encryption.is_empty() {
                text += &format!(
                    "client_encryption_options: {{enabled: true, certificate: c, keyfile: k, \
                     truststore: t, require_client_auth: {encryption}}}\n"
                );
            }
            let found = super::check(&values(&text), authenticator);
            let found = found.err().unwrap_or_default();
            assert_eq!(found, expected, "{text}");
        };
        let (only, either) = (Authenticator::Certificate, Authenticator::CertificateOrPassword);
        check(Authenticator::Password, "", "");
        check(
            only,
            "",
            "option authenticator: CertificateAuthenticator needs client_encryption_options with \
             enabled, truststore, require_client_auth",
        );
        check(
            either,
            "false",
            "option authenticator: CertificateOrPasswordAuthenticator needs require_client_auth in \
             client_encryption_options: true or optional",
        );
        for authenticator in [only, either] {
            check(authenticator, "true", "");
            check(authenticator, "optional", "");
        }
    }
}
