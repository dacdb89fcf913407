//! Versions, ciphers and groups from a priority string as GnuTLS reads it, such as
//! `SECURE128:-VERS-TLS1.2`: a keyword, then what is added (`+`) or taken away (`-`, `!`).
//!
//! Words of GnuTLS for what is never spoken here (old versions, CBC, RSA key exchange) may be taken
//! away and not added; unknown words are refused.

use rustls::crypto::CryptoProvider;
use rustls::{NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

/// What may be spoken.
#[derive(Clone, Debug)]
pub(crate) struct Spoken {
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) provider: CryptoProvider,
}

/// Words for what can be chosen: versions, ciphers, exchanges of keys, groups.
const CHOICES: &[&str] = &[
    "VERS-TLS1.2",
    "VERS-TLS1.3",
    "AES-128-GCM",
    "AES-256-GCM",
    "CHACHA20-POLY1305",
    "ECDHE-RSA",
    "ECDHE-ECDSA",
    "GROUP-SECP256R1",
    "GROUP-SECP384R1",
    "GROUP-X25519",
];

/// What a keyword begins with: all but these.
const KEYWORDS: &[(&str, &[&str])] = &[
    ("NORMAL", &[]),
    ("SECURE128", &[]),
    ("PFS", &[]),
    ("PERFORMANCE", &[]),
    ("LEGACY", &[]),
    ("@SYSTEM", &[]),
    ("SYSTEM", &[]),
    ("SECURE192", &["AES-128-GCM", "GROUP-SECP256R1", "GROUP-X25519"]),
    ("SECURE256", &["AES-128-GCM", "GROUP-SECP256R1", "GROUP-X25519"]),
    (
        "SUITEB128",
        &["AES-256-GCM", "CHACHA20-POLY1305", "ECDHE-RSA", "GROUP-SECP384R1", "GROUP-X25519"],
    ),
    (
        "SUITEB192",
        &["AES-128-GCM", "CHACHA20-POLY1305", "ECDHE-RSA", "GROUP-SECP256R1", "GROUP-X25519"],
    ),
    ("NONE", CHOICES),
];

/// Words for many.
const WHOLES: &[(&str, &str)] = &[
    ("VERS-ALL", "VERS-"),
    ("VERS-TLS-ALL", "VERS-"),
    ("GROUP-ALL", "GROUP-"),
    ("CURVE-ALL", "GROUP-"),
    ("KX-ALL", "ECDHE-"),
];

/// Words of GnuTLS for what is not chosen here, by how they begin: never spoken, or always as it
/// has to be.
const NEVER: &[&str] = &[
    "VERS-SSL3.0",
    "VERS-TLS1.0",
    "VERS-TLS1.1",
    "VERS-DTLS",
    "3DES-CBC",
    "ARCFOUR-",
    "CAMELLIA-",
    "NULL",
    "AES-128-CBC",
    "AES-256-CBC",
    "AES-192-CBC",
    "AES-128-CCM",
    "AES-256-CCM",
    "RSA",
    "DHE-",
    "ANON-",
    "PSK",
    "ECDHE-PSK",
    "SRP",
    "MD5",
    "SHA1",
    "GROUP-",
    "CURVE-",
    "GOST",
];
const FIXED: &[&str] =
    &["MAC-ALL", "AEAD", "SHA256", "SHA384", "SHA512", "COMP-", "SIGN-", "CTYPE-"];

/// Reads a priority string; an empty one is `NORMAL`. The error names the word.
pub(crate) fn spoken(text: &str) -> Result<Spoken, String> {
    let mut words = text.split([':', ',']).map(str::trim).filter(|word| !word.is_empty());
    let keyword = words.next().unwrap_or("NORMAL").to_ascii_uppercase();
    let known = KEYWORDS.iter().find(|(name, _)| *name == keyword);
    let (_, without) = known.ok_or_else(|| {
        let names: Vec<_> = KEYWORDS.iter().map(|(name, _)| *name).collect();
        format!("priority_string: {keyword}: begins with none of {}", names.join(", "))
    })?;
    let mut chosen: Vec<&str> =
        CHOICES.iter().copied().filter(|choice| !without.contains(choice)).collect();
    for word in words {
        change(&mut chosen, &word.to_ascii_uppercase())?;
    }
    take(&chosen)
}

fn change(chosen: &mut Vec<&str>, word: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("priority_string: {word}: {what}"));
    if word.starts_with('%') {
        // How GnuTLS behaves, not what is spoken.
        return Ok(());
    }
    let (adds, name) = match (word.strip_prefix('+'), word.strip_prefix(['-', '!'])) {
        (Some(name), _) => (true, name),
        (_, Some(name)) => (false, name),
        _ => return wrong("begins with none of +, -, !, %"),
    };
    let name = name.replace("CURVE-", "GROUP-");
    let prefix = WHOLES.iter().find(|(whole, _)| whole.replace("CURVE-", "GROUP-") == name);
    let meant: Vec<&str> = match prefix {
        Some((_, prefix)) => {
            CHOICES.iter().copied().filter(|choice| choice.starts_with(prefix)).collect()
        }
        None if name == "CIPHER-ALL" => CHOICES[2..5].to_vec(),
        None => CHOICES.iter().copied().filter(|choice| *choice == name).collect(),
    };
    if meant.is_empty() {
        let is_any = |names: &[&str]| names.iter().any(|known| name.starts_with(known));
        return match adds {
            _ if is_any(FIXED) => Ok(()),
            false if is_any(NEVER) => Ok(()),
            true if is_any(NEVER) => wrong("not spoken by this server"),
            _ => wrong("unknown"),
        };
    }
    chosen.retain(|choice| !meant.contains(choice));
    if adds {
        chosen.extend(meant);
    }
    Ok(())
}

fn take(chosen: &[&str]) -> Result<Spoken, String> {
    let has = |name: &str| chosen.contains(&name);
    let versions: Vec<_> =
        [("VERS-TLS1.3", &rustls::version::TLS13), ("VERS-TLS1.2", &rustls::version::TLS12)]
            .into_iter()
            .filter_map(|(name, version)| has(name).then_some(version))
            .collect();
    let mut provider = rustls::crypto::ring::default_provider();
    provider
        .cipher_suites
        .retain(|suite| versions.contains(&suite.version()) && is_chosen(suite, &has));
    provider.kx_groups.retain(|group| match group.name() {
        NamedGroup::X25519 => has("GROUP-X25519"),
        NamedGroup::secp256r1 => has("GROUP-SECP256R1"),
        NamedGroup::secp384r1 => has("GROUP-SECP384R1"),
        _ => false,
    });
    let all_have_suites = versions
        .iter()
        .all(|version| provider.cipher_suites.iter().any(|suite| suite.version() == *version));
    if versions.is_empty() || !all_have_suites || provider.kx_groups.is_empty() {
        let text = "priority_string: leaves no version, cipher, exchange of keys or group";
        return Err(text.to_string());
    }
    Ok(Spoken { versions, provider })
}

fn is_chosen(suite: &SupportedCipherSuite, has: &impl Fn(&str) -> bool) -> bool {
    let name = format!("{:?}", suite.suite()).replace('_', "-");
    let cipher = ["AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305"];
    let exchange = ["ECDHE-RSA", "ECDHE-ECDSA"];
    let chosen_of = |words: &[&str]| words.iter().any(|word| name.contains(word) && has(word));
    let is_13 = suite.version() == &rustls::version::TLS13;
    chosen_of(&cipher) && (is_13 || chosen_of(&exchange))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions, ciphers and groups, in short.
    fn said(text: &str) -> String {
        let spoken = match spoken(text) {
            Ok(spoken) => spoken,
            Err(error) => return error.replace("priority_string: ", ""),
        };
        let mut words: Vec<String> =
            spoken.versions.iter().map(|version| format!("{:?}", version.version)).collect();
        let suites = spoken.provider.cipher_suites.iter();
        words.extend(suites.map(|suite| format!("{:?}", suite.suite())));
        words.extend(spoken.provider.kx_groups.iter().map(|group| format!("{:?}", group.name())));
        words.join(" ")
    }

    #[test]
    fn a_priority_string_chooses() {
        let all = said("");
        assert!(all.starts_with("TLSv1_3 TLSv1_2 TLS13_AES_256_GCM_SHA384"), "{all}");
        assert!(all.ends_with("X25519 secp256r1 secp384r1"), "{all}");
        let check = |text: &str, expected: &str| assert_eq!(said(text), expected, "{text}");
        check("NORMAL", &all);
        check("SECURE128:-VERS-TLS1.0:-VERS-TLS1.1:!RSA:%SERVER_PRECEDENCE", &all);
        check("normal,-3DES-CBC,+SIGN-ALL,+MAC-ALL", &all);
        check(
            "SECURE256:-VERS-TLS1.2",
            "TLSv1_3 TLS13_AES_256_GCM_SHA384 TLS13_CHACHA20_POLY1305_SHA256 secp384r1",
        );
        check(
            "NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:+AES-128-GCM:-ECDHE-RSA:-CURVE-ALL:\
             +CURVE-SECP256R1",
            "TLSv1_2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 secp256r1",
        );
        check(
            "NONE:+VERS-TLS1.3:+CHACHA20-POLY1305:+GROUP-X25519",
            "TLSv1_3 TLS13_CHACHA20_POLY1305_SHA256 X25519",
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let check = |text: &str, expected: &str| {
            let said = said(text);
            assert!(said.starts_with(expected), "{text}: {said}");
        };
        check("HIGH", "HIGH: begins with none of NORMAL");
        check("NORMAL:VERS-TLS1.2", "VERS-TLS1.2: begins with none of +");
        check("NORMAL:+VERS-TLS1.1", "+VERS-TLS1.1: not spoken by this server");
        check("NORMAL:-VERS-TLS9.9", "-VERS-TLS9.9: unknown");
        check("NORMAL:-VERS-ALL", "leaves no version");
        check("NORMAL:-KX-ALL", "leaves no version, cipher");
        check("NONE", "leaves no version");
    }
}
