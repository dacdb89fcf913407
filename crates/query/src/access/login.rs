//! Authentication by name and password, or by certificate.
//!
//! Invariants
//!  - *same-for-all*: a role that does not exist, or has no password, gets the same error after
//!    the same work as a wrong password.

use crate::error::CqlError;
use crate::processor::Processor;
use crate::session::Session;
pub use auth::certificate::Names;
use auth::password::PASSWORD_BYTES_MAX;
use cluster::Authenticator;

/// The hash that a role without a password is compared with: of no password.
const NOBODY: &str = "$6$................$";

/// The hash of a new password, which is no longer than one that can be logged in with.
pub(super) async fn hash(processor: &Processor, password: &str) -> Result<String, CqlError> {
    if PASSWORD_BYTES_MAX < password.len() {
        let text = format!("A password has {PASSWORD_BYTES_MAX} bytes at most");
        return Err(CqlError::Invalid(text));
    }
    let (password, salt) = (password.to_owned(), cluster::access::salt());
    processor.hashing().run(move || auth::password::hash(&password, salt)).await
}

fn bad_credentials(text: impl Into<String>) -> CqlError {
    CqlError::BadCredentials(text.into())
}

/// Logs a session in, or says why not. Knows nothing of addresses: guessing is slowed down by
/// the caller.
pub(crate) async fn log_in(
    processor: &Processor,
    session: &Session,
    name: &str,
    password: &str,
) -> Result<(), CqlError> {
    const WRONG: &str = "Username and/or password are incorrect";
    let access = processor.cluster().access();
    let is_lenient = match access.authenticator() {
        Authenticator::AllowAll => return Ok(()),
        Authenticator::Transitional => true,
        Authenticator::Certificate => {
            return Err(bad_credentials("This node authenticates by certificate, not by password"));
        }
        Authenticator::Password | Authenticator::CertificateOrPassword => false,
    };
    if name.is_empty() {
        return match is_lenient {
            true => Ok(()),
            false => Err(bad_credentials("Authentication ID must not be null")),
        };
    }
    let hash = {
        let state = access.state();
        let role = state.role(name);
        let hash = role.and_then(|role| role.salted_hash.clone());
        hash.filter(|hash| auth::password::is_hash(hash))
    };
    let stored = hash.unwrap_or_else(|| NOBODY.to_owned() + &"a".repeat(86));
    let given = password.to_owned();
    let is_right = processor.hashing().run(move || auth::password::verify(&given, &stored)).await?;
    match is_right {
        false if is_lenient => return Ok(()),
        false => return Err(bad_credentials(WRONG)),
        true => {}
    }
    // Whether it still is there, and may log in.
    let can_login = access.state().role(name).map(|role| role.can_login);
    match can_login {
        Some(true) => session.log_in(name),
        Some(false) => return Err(bad_credentials(format!("{name} is not permitted to log in"))),
        None => return Err(bad_credentials(WRONG)),
    }
    Ok(())
}

/// The role of the certificate of a TLS connection. `None`: it has presented none.
pub(crate) fn certified_role(
    processor: &Processor,
    names: Option<Names<'_>>,
) -> Result<String, CqlError> {
    let Some(names) = names else {
        return Err(bad_credentials(
            "This node authenticates by certificate, and the client presented none",
        ));
    };
    let queries = processor.cluster().access().certificate_roles();
    let role = queries.as_ref().and_then(|queries| queries.role(names));
    role.map(str::to_owned).ok_or_else(|| {
        bad_credentials(format!(
            "No query of auth_certificate_role_queries finds a role in {names}"
        ))
    })
}

/// Logs a session in as the role of its certificate.
pub(crate) fn let_in(processor: &Processor, session: &Session, role: &str) -> Result<(), CqlError> {
    let can_login = processor.cluster().access().state().role(role).map(|role| role.can_login);
    match can_login {
        Some(true) => session.log_in(role),
        Some(false) => return Err(bad_credentials(format!("{role} is not permitted to log in"))),
        None => {
            let text = format!("Role {role}, which the certificate names, does not exist");
            return Err(bad_credentials(text));
        }
    }
    Ok(())
}

/// Name and password of a response by SASL PLAIN: `[authorization] NUL name NUL password`.
pub fn plain(token: &[u8]) -> Result<(&str, &str), CqlError> {
    let malformed = || bad_credentials("Malformed PLAIN response: name and password are expected");
    let mut parts = token.split(|byte| *byte == 0);
    let (Some(_), Some(name), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed());
    let (name, password) = (text(name)?, text(password)?);
    match name.is_empty() && !password.is_empty() {
        true => Err(malformed()),
        false => Ok((name, password)),
    }
}
