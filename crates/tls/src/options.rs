//! The entries of an option such as `client_encryption_options`, as `key=value` texts.

use std::path::PathBuf;

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    No,
    /// They are asked; who shows none is let in, who shows a bad one is not.
    Optional,
    /// Who shows none is refused.
    Required,
}

/// What a service with TLS is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// PEM: our certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// PEM: its private key.
    pub keyfile: PathBuf,
    /// PEM: who vouches for clients.
    pub truststore: Option<PathBuf>,
    /// PEM: certificates of clients that are not valid any more.
    pub revoked: Option<PathBuf>,
    pub client_auth: ClientAuth,
    /// Versions and ciphers.
    pub priority: String,
    /// Whether clients may resume sessions.
    pub tickets: bool,
}

const KEYS: &str = "enabled, certificate, keyfile, truststore, require_client_auth, \
                    priority_string, min_version, certificate_revocation_list, \
                    enable_session_tickets";
/// Words of other servers that mean nothing here.
const UNABLE: &[&str] = &[
    "optional",
    "protocol",
    "algorithm",
    "store_type",
    "cipher_suites",
    "keystore",
    "keystore_password",
    "truststore_password",
    "internode_encryption",
    "require_endpoint_verification",
];

/// Reads the entries of an option; `None`: TLS is not enabled. The error names the entry.
pub fn parse(entries: &[String]) -> Result<Option<Options>, String> {
    let (mut enabled, mut tickets, mut client_auth) = (false, true, ClientAuth::No);
    let (mut certificate, mut keyfile, mut priority) = (None, None, String::new());
    let (mut truststore, mut revoked, mut unable, mut newest_only) = (None, None, None, false);
    for entry in entries.iter().filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=').ok_or(format!("{entry}: not KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        let path = || Some(PathBuf::from(value)).filter(|_| !is_nothing(value));
        match key {
            "enabled" => enabled = flag(key, value)?,
            "certificate" => certificate = path(),
            "keyfile" => keyfile = path(),
            "truststore" => truststore = path(),
            // The reference server has the name without an i.
            "certificate_revocation_list" | "certficate_revocation_list" => revoked = path(),
            "require_client_auth" => client_auth = client_auth_of(value)?,
            "priority_string" if is_nothing(value) => {}
            "priority_string" => priority = value.to_string(),
            "enable_session_tickets" => tickets = flag(key, value)?,
            "min_version" => newest_only = is_newest(value)?,
            _ if UNABLE.contains(&key) => unable = unable.or(path().map(|_| key.to_string())),
            _ => return Err(format!("{key}: unknown; known are {KEYS}")),
        }
    }
    if !enabled {
        return Ok(None);
    }
    if let Some(key) = unable {
        return Err(format!("{key}: not understood by this server; known are {KEYS}"));
    }
    if newest_only {
        let before = if priority.is_empty() { "NORMAL" } else { &priority };
        priority = format!("{before}:-VERS-TLS1.2");
    }
    if client_auth != ClientAuth::No && truststore.is_none() {
        return Err("require_client_auth: needs a truststore".to_string());
    }
    let missing = |key: &str| format!("{key}: missing, and TLS is enabled");
    Ok(Some(Options {
        certificate: certificate.ok_or_else(|| missing("certificate"))?,
        keyfile: keyfile.ok_or_else(|| missing("keyfile"))?,
        truststore,
        revoked,
        client_auth,
        priority,
        tickets,
    }))
}

/// What sample files write for "not set".
fn is_nothing(value: &str) -> bool {
    value.is_empty() || value.eq_ignore_ascii_case("none") || value == "null"
}

/// Whether the oldest version that is wanted is the newest there is.
fn is_newest(value: &str) -> Result<bool, String> {
    match value.to_ascii_uppercase().trim_start_matches("TLS").trim_start_matches('V') {
        "1.2" | "" => Ok(false),
        "1.3" => Ok(true),
        _ => Err(format!("min_version: neither TLSv1.2 nor TLSv1.3: {value}")),
    }
}

fn flag(key: &str, value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" | "none" => Ok(false),
        _ => Err(format!("{key}: neither true nor false: {value}")),
    }
}

fn client_auth_of(value: &str) -> Result<ClientAuth, String> {
    if value.eq_ignore_ascii_case("optional") {
        return Ok(ClientAuth::Optional);
    }
    let required = flag("require_client_auth", value)
        .map_err(|_| format!("require_client_auth: not true, false or optional: {value}"))?;
    Ok(if required { ClientAuth::Required } else { ClientAuth::No })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Options>, String> {
        let entries: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse(&entries)
    }

    #[test]
    fn entries_are_read() {
        assert_eq!(parsed(""), Ok(None));
        assert_eq!(parsed("enabled=false certificate=c keystore=k optional=true"), Ok(None));
        let plain = Options {
            certificate: "c".into(),
            keyfile: "k".into(),
            truststore: None,
            revoked: None,
            client_auth: ClientAuth::No,
            priority: String::new(),
            tickets: true,
        };
        let check = |more: &str, expected: Options| {
            let text = format!("enabled=1 certificate=c keyfile=k {more}");
            assert_eq!(parsed(&text), Ok(Some(expected)), "{more}");
        };
        check("", plain.clone());
        check("truststore=none priority_string=none", plain.clone());
        let trusting = Options { truststore: Some("t".into()), ..plain.clone() };
        check("truststore=t", trusting.clone());
        let required = ClientAuth::Required;
        let mutual = Options { client_auth: required, ..trusting.clone() };
        check("truststore=t require_client_auth=true", mutual);
        let asked = Options { client_auth: ClientAuth::Optional, ..trusting };
        check("truststore=t require_client_auth=optional", asked);
        check("priority_string=A:-B=", Options { priority: "A:-B=".into(), ..plain.clone() });
        let newest = |priority: &str| Options { priority: priority.into(), ..plain.clone() };
        check("min_version=TLSv1.3", newest("NORMAL:-VERS-TLS1.2"));
        check("min_version=TLS1.3 priority_string=PFS", newest("PFS:-VERS-TLS1.2"));
        check("min_version=1.2 optional=none", plain.clone());
        check("enable_session_tickets=off", Options { tickets: false, ..plain.clone() });
        check("certficate_revocation_list=r", Options { revoked: Some("r".into()), ..plain });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expected: &str| {
            let refused = parsed(text).expect_err(text);
            assert!(refused.starts_with(expected), "{text}: {refused}");
        };
        check("enabled", "enabled: not KEY=VALUE");
        check("enabled=maybe", "enabled: neither true nor false: maybe");
        check("enabled=true keyfile=k", "certificate: missing");
        check("enabled=true certificate=k", "keyfile: missing");
        let other = "enabled=true keystore=k certificate=c keyfile=k";
        check(other, "keystore: not understood by this server; known are enabled");
        check("min_version=SSLv3", "min_version: neither TLSv1.2 nor TLSv1.3: SSLv3");
        check("certifcate=k", "certifcate: unknown; known are enabled, certificate");
        check("require_client_auth=perhaps", "require_client_auth: not true, false or optional");
        let both = "enabled=true certificate=c keyfile=k require_client_auth=true";
        check(both, "require_client_auth: needs a truststore");
    }
}
