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

/// Whether a certificate has to name the server that shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerNames {
    /// It has to.
    #[default]
    Checked,
    /// Whoever the roots vouch for is trusted: between nodes, whose addresses change.
    Any,
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
    /// Of links between nodes, which dial by the same files: whom they trust then.
    pub dials: Option<ServerNames>,
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

/// Of the option for links between nodes: which of them are encrypted, and whether certificates
/// have to name the addresses of the nodes that show them.
const LINKS: &str = "internode_encryption";
const ENDPOINTS: &str = "require_endpoint_verification";

/// Reads the entries of an option; `None`: TLS is not enabled. The error names the entry.
pub fn parse(entries: &[String]) -> Result<Option<Options>, String> {
    let given = Given::read(entries.iter())?;
    if given.enabled { given.checked().map(Some) } else { Ok(None) }
}

/// Reads the entries of an option for links between nodes: the word that says which of them are
/// encrypted, and how, unless none is. The error names the entry.
pub fn parse_links(entries: &[String]) -> Result<Option<(String, Options)>, String> {
    let (mut links, mut names) = (None, ServerNames::Any);
    let mut others = Vec::new();
    for entry in entries {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        let value = value.trim();
        match key.trim() {
            LINKS => links = Some(value).filter(|word| !is_nothing(word)),
            ENDPOINTS if flag(ENDPOINTS, value)? => names = ServerNames::Checked,
            ENDPOINTS => names = ServerNames::Any,
            _ => others.push(entry),
        }
    }
    let given = Given::read(others.into_iter())?;
    let Some(links) = links else {
        return match given.enabled {
            true => Err(format!("enabled: {LINKS} says which links are encrypted")),
            false => Ok(None),
        };
    };
    if given.truststore.is_none() {
        return Err("truststore: missing: it says which nodes are trusted".to_string());
    }
    let options = Options { dials: Some(names), ..given.checked()? };
    Ok(Some((links.to_string(), options)))
}

/// What entries say.
#[derive(Debug)]
struct Given {
    enabled: bool,
    tickets: bool,
    client_auth: ClientAuth,
    certificate: Option<PathBuf>,
    keyfile: Option<PathBuf>,
    truststore: Option<PathBuf>,
    revoked: Option<PathBuf>,
    priority: String,
    newest_only: bool,
    /// A word that means nothing here, and should have.
    unable: Option<String>,
}

impl Given {
    fn read<'a>(entries: impl Iterator<Item = &'a String>) -> Result<Given, String> {
        let mut given = Given {
            enabled: false,
            tickets: true,
            client_auth: ClientAuth::No,
            certificate: None,
            keyfile: None,
            truststore: None,
            revoked: None,
            priority: String::new(),
            newest_only: false,
            unable: None,
        };
        for entry in entries.filter(|entry| !entry.is_empty()) {
            let (key, value) = entry.split_once('=').ok_or(format!("{entry}: not KEY=VALUE"))?;
            given.take(key.trim(), value.trim())?;
        }
        Ok(given)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let path = || Some(PathBuf::from(value)).filter(|_| !is_nothing(value));
        match key {
            "enabled" => self.enabled = flag(key, value)?,
            "certificate" => self.certificate = path(),
            "keyfile" => self.keyfile = path(),
            "truststore" => self.truststore = path(),
            // The reference server has the name without an i.
            "certificate_revocation_list" | "certficate_revocation_list" => self.revoked = path(),
            "require_client_auth" => self.client_auth = client_auth_of(value)?,
            "priority_string" if is_nothing(value) => {}
            "priority_string" => self.priority = value.to_string(),
            "enable_session_tickets" => self.tickets = flag(key, value)?,
            "min_version" => self.newest_only = is_newest(value)?,
            _ if UNABLE.contains(&key) => {
                self.unable = self.unable.take().or(path().map(|_| key.to_string()));
            }
            _ => return Err(format!("{key}: unknown; known are {KEYS}")),
        }
        Ok(())
    }

    fn checked(self) -> Result<Options, String> {
        if let Some(key) = self.unable {
            return Err(format!("{key}: not understood by this server; known are {KEYS}"));
        }
        let mut priority = self.priority;
        if self.newest_only {
            let before = if priority.is_empty() { "NORMAL" } else { &priority };
            priority = format!("{before}:-VERS-TLS1.2");
        }
        if self.client_auth != ClientAuth::No && self.truststore.is_none() {
            return Err("require_client_auth: needs a truststore".to_string());
        }
        let missing = |key: &str| format!("{key}: missing, and TLS is enabled");
        Ok(Options {
            certificate: self.certificate.ok_or_else(|| missing("certificate"))?,
            keyfile: self.keyfile.ok_or_else(|| missing("keyfile"))?,
            truststore: self.truststore,
            revoked: self.revoked,
            client_auth: self.client_auth,
            priority,
            tickets: self.tickets,
            dials: None,
        })
    }
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
            dials: None,
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
    fn entries_of_links_are_read() {
        let parsed = |text: &str| {
            let entries: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            parse_links(&entries)
        };
        let none = ["", "internode_encryption=none", "internode_encryption= certificate=c"];
        for text in none {
            assert_eq!(parsed(text), Ok(None), "{text}");
        }
        let files = "certificate=c keyfile=k truststore=t";
        let check = |more: &str, word: &str, names| {
            let (found, options) = parsed(&format!("{files} {more}")).expect(more).expect(more);
            assert_eq!((found.as_str(), options.dials), (word, Some(names)), "{more}");
            assert_eq!(options.truststore, Some("t".into()), "{more}");
        };
        check("internode_encryption=all", "all", ServerNames::Any);
        check("require_endpoint_verification=no internode_encryption=dc", "dc", ServerNames::Any);
        let named = "internode_encryption=rack require_endpoint_verification=true";
        check(named, "rack", ServerNames::Checked);
        let refused = |text: &str, expected: &str| {
            let error = parsed(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        };
        refused("internode_encryption=all", "truststore: missing");
        refused("internode_encryption=all truststore=t", "certificate: missing");
        refused("enabled=true", "enabled: internode_encryption says");
        refused("internode_encryption=all keystore=k truststore=t", "keystore: not understood");
        refused("require_endpoint_verification=2", "require_endpoint_verification: neither");
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
