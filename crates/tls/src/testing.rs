//! An identity for tests, and the door of the fuzzer. The key is public: it protects nothing.

use crate::config::{self, Ends, Files, ServerNames, Trust};
use crate::options::{ClientAuth, Options};
use crate::session::Session;
pub use rustls::ServerConfig as Config;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

/// The certificate of `localhost` and 127.0.0.1, signed by itself.
pub const CERTIFICATE: &[u8] = include_bytes!("testing/certificate.pem");
/// Its key.
pub const KEY: &[u8] = include_bytes!("testing/key.pem");

/// The options of a server with that identity.
pub fn options() -> Options {
    Options {
        certificate: "certificate.pem".into(),
        keyfile: "key.pem".into(),
        truststore: None,
        revoked: None,
        client_auth: ClientAuth::No,
        priority: String::new(),
        tickets: true,
        dials: None,
    }
}

/// A server with that identity.
pub fn server() -> Arc<ServerConfig> {
    let files =
        Files { certificate: CERTIFICATE.into(), key: KEY.into(), truststore: None, revoked: None };
    config::server(&options(), &files).expect("the identity of tests")
}

/// A client that trusts it.
pub fn client(priority: &str) -> Arc<ClientConfig> {
    let roots = ("certificate.pem".into(), CERTIFICATE.to_vec());
    config::client(&Trust { roots, priority: priority.to_string(), ..Trust::default() })
        .expect("the trust of tests")
}

/// Both ends of a connection between nodes: each shows that identity, and trusts who shows it.
pub fn between_nodes() -> Ends {
    ends_of(CERTIFICATE, KEY, CERTIFICATE)
}

/// Both ends of a node that shows another identity, which the others do not trust. Whether it
/// trusts them is `knows`.
pub fn stranger_among_nodes(knows: bool) -> Ends {
    let certificate = include_bytes!("testing/stranger.pem");
    let trusted = if knows { CERTIFICATE } else { certificate };
    ends_of(certificate, include_bytes!("testing/stranger-key.pem"), trusted)
}

fn ends_of(certificate: &[u8], key: &[u8], trusted: &[u8]) -> Ends {
    let (truststore, client_auth) = (Some("trusted.pem".into()), ClientAuth::Required);
    let options = Options { truststore, client_auth, dials: Some(ServerNames::Any), ..options() };
    let (certificate, key, truststore) = (certificate.into(), key.into(), Some(trusted.into()));
    let files = Files { certificate, key, truststore, revoked: None };
    config::ends(&options, &files).expect("an identity of tests")
}

/// Feeds `bytes` to a server as a client would, in pieces whose sizes they tell. Returns how many
/// bytes the server wants to answer.
pub fn feed(config: &Arc<ServerConfig>, bytes: &[u8]) -> usize {
    let Ok(mut session) = Session::server(config.clone()) else { return 0 };
    let (mut plain, mut answer, mut rest) = (Vec::new(), Vec::new(), bytes);
    while let Some((&first, more)) = rest.split_first() {
        let (piece, after) = more.split_at(more.len().min(1 + first as usize * 8));
        rest = after;
        let opened = session.open(piece, &mut plain);
        session.take(&mut answer);
        if opened != Ok(true) {
            break;
        }
    }
    assert!(plain.len() <= bytes.len(), "more came out than went in");
    answer.len()
}

/// What a client sends first, each piece of it with the byte that [`feed`] takes for its size.
pub fn hello(priority: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    if let Ok(mut session) = Session::client(client(priority), "localhost") {
        session.take(&mut wire);
    }
    wire.chunks(249).flat_map(|piece| [&[31], piece].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fed_is_answered() {
        for priority in ["", "NORMAL:-VERS-TLS1.3"] {
            // A whole flight of the server, with its certificate.
            assert!(500 < feed(&server(), &hello(priority)), "{priority}");
        }
        // Plain CQL: an alert.
        assert_eq!(feed(&server(), &[9, 4, 0, 0, 0, 5, 0, 0, 0, 0]), 7);
        assert_eq!(feed(&server(), &[]), 0);
    }
}
