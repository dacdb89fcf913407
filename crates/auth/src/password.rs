//! Hashed passwords in the format of crypt(3).
//!
//! Made are hashes by SHA-512 (`$6$`); verified are also those by SHA-256 (`$5$`) and by bcrypt
//! (`$2a$`, `$2b$`, `$2x$`, `$2y$`), as older tables and other tools have them. Hashes by MD5 are
//! refused: they protect nothing.
//!
//! Invariants
//!  - *bounded-work*: no hash is accepted that takes more than some tenths of a second to verify,
//!    however it came into the table.
//!
//! Hashing takes milliseconds at least: never on a shard.

use sha_crypt::{PasswordHasher, PasswordVerifier, ShaCrypt};

/// What says that a hash has as many rounds as one that does not say it.
const ROUNDS_USUAL: &str = "$rounds=5000$";
/// Rounds of SHA that are accepted at most.
const ROUNDS_MAX: u32 = 500_000;
/// The cost of bcrypt that is accepted at most.
const COST_MAX: u32 = 13;
/// Bytes of the salt of a new hash; 16 characters.
pub const SALT_BYTES: usize = 12;
/// Bytes of a password that is looked at: a longer one is wrong.
pub const PASSWORD_BYTES_MAX: usize = 4096;

/// A hash of the password, with a salt of random bytes.
pub fn hash(password: &str, salt: [u8; SALT_BYTES]) -> String {
    let hashed = ShaCrypt::SHA512.hash_password_with_salt(password.as_bytes(), &salt);
    // The salt has the right length, and nothing else can be wrong.
    let hashed = hashed.map(|hashed| hashed.as_str().to_owned()).unwrap_or_default();
    // Who reads hashes elsewhere knows the usual number as crypt(3) writes it: not at all.
    hashed.replacen(ROUNDS_USUAL, "$", 1)
}

/// Whether a hash is one that [`verify`] can work with.
pub fn is_hash(hash: &str) -> bool {
    kind(hash).is_some()
}

/// Whether it is the hash of that password. Takes long.
pub fn verify(password: &str, hash: &str) -> bool {
    if PASSWORD_BYTES_MAX < password.len() {
        return false;
    }
    match kind(hash) {
        Some(Kind::Sha) => ShaCrypt::SHA512.verify_password(password.as_bytes(), hash).is_ok(),
        Some(Kind::Bcrypt) => bcrypt::verify(password, hash).unwrap_or(false),
        None => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sha,
    Bcrypt,
}

/// By what it was made, where that is known and *bounded-work*.
fn kind(hash: &str) -> Option<Kind> {
    let (scheme, rest) = hash.strip_prefix('$')?.split_once('$')?;
    let is_digits = |text: &str, length| {
        let crypt = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/');
        text.len() == length && text.bytes().all(crypt)
    };
    match scheme {
        "5" | "6" => {
            let rest = match rest.strip_prefix("rounds=") {
                None => rest,
                Some(more) => {
                    let (rounds, rest) = more.split_once('$')?;
                    let rounds: u32 = rounds.parse().ok()?;
                    (1000..=ROUNDS_MAX).contains(&rounds).then_some(rest)?
                }
            };
            let (salt, digest) = rest.split_once('$')?;
            let length = if scheme == "6" { 86 } else { 43 };
            (salt.len() <= 16 && is_digits(digest, length)).then_some(Kind::Sha)
        }
        "2a" | "2b" | "2x" | "2y" => {
            let (cost, rest) = rest.split_once('$')?;
            let cost: u32 = cost.parse().ok()?;
            ((4..=COST_MAX).contains(&cost) && is_digits(rest, 53)).then_some(Kind::Bcrypt)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes of other implementations: of glibc and of the author of bcrypt.
    const KNOWN: [(&str, &str); 6] = [
        (
            "Hello world!",
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnI\
             FNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        ),
        (
            "Hello world!",
            "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3\
             Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.",
        ),
        ("Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
        ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
        ("U*U", "$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
        ("U*U", "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
    ];

    #[test]
    fn hashes_of_others_are_verified() {
        for (password, hash) in KNOWN {
            assert!(is_hash(hash), "{hash}");
            assert!(verify(password, hash), "{hash}");
            assert!(!verify("other", hash), "{hash}");
            assert!(!verify("", hash), "{hash}");
        }
    }

    #[test]
    fn own_hashes_are_verified_and_salted() {
        let made = hash("secret", [7; SALT_BYTES]);
        assert!(made.starts_with("$6$") && made.split('$').count() == 4, "{made}");
        assert!(is_hash(&made) && verify("secret", &made) && !verify("Secret", &made));
        assert_ne!(made, hash("secret", [8; SALT_BYTES]));
        let long = "x".repeat(PASSWORD_BYTES_MAX + 1);
        assert!(!verify(&long, &hash(&long, [1; SALT_BYTES])));
    }

    #[test]
    fn what_is_malformed_or_takes_long_is_refused() {
        let digest = "a".repeat(86);
        let mut cases = vec![
            "".to_owned(),
            "secret".to_owned(),
            "$".to_owned(),
            "$6$".to_owned(),
            "$6$salt$short".to_owned(),
            "$1$salt$qJH7.N4xYta3aEG/dfqo/0".to_owned(),
            format!("$7$salt${digest}"),
            format!("$6$rounds=999999999$salt${digest}"),
            format!("$6$rounds=x$salt${digest}"),
            format!("$6$saltsaltsaltsalts${digest}"),
            format!("$6$salt$\u{e4}{}", "a".repeat(84)),
            "$2b$05$CCCCCCCCCCCCCCCCCCCCC.".to_owned(),
        ];
        cases.push(format!("$2b$31${}", "C".repeat(53)));
        cases.push(format!("$2b$\u{e4}$${}", "C".repeat(53)));
        for hash in cases {
            assert!(!is_hash(&hash), "{hash}");
            assert!(!verify("", &hash), "{hash}");
        }
    }
}
