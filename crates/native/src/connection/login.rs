//! Logging in: AUTHENTICATE, AUTH_RESPONSE by SASL PLAIN, AUTH_SUCCESS; or by certificate, before
//! READY.
//!
//! Invariants
//!  - *one-at-a-time*: a connection has one login in progress, and ends when it fails.
//!  - *only-the-login*: from AUTHENTICATE until the login is done nothing but an AUTH_RESPONSE is
//!    looked at.
//!
//! What a client sends is neither logged nor kept.

use super::{Connection, Ended, Stage};
use crate::frame::{self, Header, opcode};
use crate::request;
use query::CqlError;
use query::access::login::{Names, plain};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use std::rc::Rc;

/// What is said of a request that a connection does not expect at its stage; `None`: it does.
fn unexpected(stage: Stage, code: u8) -> Option<String> {
    let expected = match (stage, code) {
        (Stage::Ready, _)
        | (Stage::Established, opcode::STARTUP | opcode::OPTIONS)
        | (Stage::Authenticating, opcode::AUTH_RESPONSE) => return None,
        (Stage::Established, _) => "STARTUP or OPTIONS",
        // As the protocol's first versions called it, and servers still do.
        (Stage::Authenticating, _) => "SASL_RESPONSE",
    };
    Some(format!("Unexpected message {code}, expecting {expected}"))
}

impl Connection {
    /// An error if a request is not for the stage of the connection (*only-the-login*).
    pub(crate) fn check_stage(&self, header: &Header) -> Result<(), Ended> {
        match unexpected(self.stage(), header.opcode) {
            None => Ok(()),
            Some(text) => Err(self.protocol_error(header.stream, text)),
        }
    }

    /// Takes an AUTH_RESPONSE; the password is checked in the background (*one-at-a-time*).
    pub(crate) fn take_login(
        self: &Rc<Self>,
        header: &Header,
        body: &[u8],
        requests: &Scope,
    ) -> Result<(), Ended> {
        let (version, stream) = (header.version, header.stream);
        if !self.begins_login() {
            let text = "Unexpected message for the state of this connection".to_string();
            return Err(self.protocol_error(stream, text));
        }
        let token = request::auth_token(body).to_vec();
        let connection = self.clone();
        requests.run(async move {
            match connection.log_in(&token).await {
                Ok(()) => {
                    connection.outbox.push(|out| {
                        let start = frame::begin(out, version, 0, stream, opcode::AUTH_SUCCESS);
                        // No token: a length of -1.
                        out.extend_from_slice(&(-1i32).to_be_bytes());
                        frame::finish(out, start);
                    });
                    connection.logged_in();
                }
                Err(error) => {
                    let address = connection.peer.ip();
                    let delay = connection.service.failed_logins.add(address, Instant::now());
                    tracing::info!(target: "auth", %address, "login failed: {error}");
                    sleep(delay).await;
                    connection.refuse(stream, &error);
                    connection.stop();
                }
            }
        });
        Ok(())
    }

    /// Logs in by the certificate that the connection has shown, or answers why not. Nothing is
    /// held back: a certificate cannot be guessed.
    pub(crate) fn log_in_by_certificate(&self, stream: i16) -> Result<(), Ended> {
        let shown = self.stream.agreed().and_then(|agreed| agreed.peer.as_ref());
        let names = shown.map(|it| Names { subject: &it.subject, alternatives: &it.alternatives });
        let done = self.processor().log_in_by_certificate(&self.session, names);
        done.map_err(|error| {
            let address = self.peer.ip();
            self.service.failed_logins.add(address, Instant::now());
            tracing::info!(target: "auth", %address, "login failed: {error}");
            self.refuse(stream, &error);
            Ended
        })
    }

    async fn log_in(&self, token: &[u8]) -> Result<(), CqlError> {
        let (name, password) = plain(token).inspect_err(|_| {
            self.processor().write_down_login(&self.session, "", true);
        })?;
        self.processor().log_in(&self.session, name, password).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stage_expects_its_requests() {
        let all = 0..=0x10;
        let check = |stage, expected: &[u8], word: &str| {
            for code in all.clone() {
                let text = format!("Unexpected message {code}, expecting {word}");
                let refusal = (!expected.contains(&code)).then_some(text);
                assert_eq!(unexpected(stage, code), refusal, "{stage:?} {code}");
            }
        };
        check(Stage::Established, &[opcode::STARTUP, opcode::OPTIONS], "STARTUP or OPTIONS");
        check(Stage::Authenticating, &[opcode::AUTH_RESPONSE], "SASL_RESPONSE");
        check(Stage::Ready, &all.clone().collect::<Vec<u8>>(), "");
    }
}
