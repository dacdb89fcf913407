//! Logging in: AUTHENTICATE, AUTH_RESPONSE by SASL PLAIN, AUTH_SUCCESS; or by certificate, before
//! READY.
//!
//! Invariants
//!  - *slower-with-each*: each failed login of an address is answered later than the one before, so
//!    guessing a password over the network is slow; a successful login never waits.
//!  - *one-at-a-time*: a connection has one login in progress, and ends when it fails.
//!  - *only-the-login*: from AUTHENTICATE until the login is done nothing but an AUTH_RESPONSE is
//!    looked at.
//!
//! What a client sends is neither logged nor kept.

use crate::connection::{Connection, Ended};
use crate::frame::{self, Header, opcode};
use crate::request;
use crate::server::Stage;
use query::CqlError;
use query::access::login::{Names, plain};
use runtime::task::Scope;
use runtime::time::{Instant, sleep};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;
use stdx::HashMap;

/// Addresses whose failures are remembered at most.
const ADDRESSES_MAX: usize = 4096;
/// After so long without a failure the delay of an address is reset.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How long the answer to a first failure is held back, and to many.
const DELAY_MIN: Duration = Duration::from_millis(20);
const DELAY_MAX: Duration = Duration::from_secs(2);

/// Failed logins of a shard, by address.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    by_address: RefCell<HashMap<IpAddr, (u32, Instant)>>,
    count: Cell<u64>,
}

impl Failures {
    /// Counts a failure; how long its answer is held back (*slower-with-each*).
    fn add(&self, address: IpAddr, now: Instant) -> Duration {
        self.count.set(self.count.get() + 1);
        let mut known = self.by_address.borrow_mut();
        if ADDRESSES_MAX <= known.len() && !known.contains_key(&address) {
            known.retain(|_, (_, last)| now - *last < FORGOTTEN_AFTER);
            if ADDRESSES_MAX <= known.len() {
                // Many guess at once: all of them are slow.
                return DELAY_MAX;
            }
        }
        let (count, last) = known.entry(address).or_insert((0, now));
        if FORGOTTEN_AFTER <= now - *last {
            *count = 0;
        }
        (*count, *last) = (*count + 1, now);
        let doublings = (*count - 1).min(16);
        DELAY_MIN.saturating_mul(1 << doublings).min(DELAY_MAX)
    }

    /// How many logins have failed.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }
}

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
                    let delay = connection.failures().add(address, Instant::now());
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
            self.failures().add(address, Instant::now());
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

    #[test]
    fn who_fails_again_waits_longer() {
        runtime::testing::block_on_with(runtime::Config::new(1), || async {
            let (failures, start) = (Failures::default(), Instant::now());
            let address = |last| IpAddr::from([10, 0, 0, last]);
            let delays = (0..10).map(|_| failures.add(address(1), start).as_millis());
            let delays: Vec<u128> = delays.collect();
            assert_eq!(delays, [20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000]);
            assert_eq!(failures.add(address(2), start), DELAY_MIN);
            let later = start + FORGOTTEN_AFTER;
            assert_eq!(failures.add(address(1), later), DELAY_MIN);
            assert_eq!(failures.count(), 12);
        });
    }

    #[test]
    fn addresses_are_bounded() {
        runtime::testing::block_on_with(runtime::Config::new(1), || async {
            let (failures, start) = (Failures::default(), Instant::now());
            let address = |index: usize| IpAddr::from((index as u32).to_be_bytes());
            for index in 0..ADDRESSES_MAX {
                failures.add(address(index), start);
            }
            assert_eq!(failures.add(address(ADDRESSES_MAX), start), DELAY_MAX);
            assert_eq!(failures.by_address.borrow().len(), ADDRESSES_MAX);
            let later = start + FORGOTTEN_AFTER;
            assert_eq!(failures.add(address(ADDRESSES_MAX), later), DELAY_MIN);
            assert_eq!(failures.by_address.borrow().len(), 1);
        });
    }
}
