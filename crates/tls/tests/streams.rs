//! Encrypted connections in a simulation, and on a real shard.

use runtime::net::{ListenOptions, TcpListener, TcpStream};
use runtime::task::Scope;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tls::config::{Files, ServerNames, Trust};
use tls::handshake::{self, Failed};
use tls::testing::{CERTIFICATE, KEY, client, options, server};
use tls::{ClientAuth, Options, Stream};

const LIMIT: Duration = Duration::from_secs(30);

fn listen() -> TcpListener {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = ListenOptions { reuse_port: false, backlog: 16 };
    TcpListener::bind(any, options).expect("a free port")
}

/// Both ends of a connection through `relay`, which says how much of what arrives goes on at once.
async fn pair(scope: &Scope, relay: fn() -> usize) -> (TcpStream, TcpStream) {
    let (front, back) = (listen(), listen());
    let client = TcpStream::connect(front.local_addr()).await.expect("a connection");
    let (near, _) = front.accept().await.expect("a connection");
    let far = TcpStream::connect(back.local_addr()).await.expect("a connection");
    let (server, _) = back.accept().await.expect("a connection");
    let (near, far) = (Rc::new(near), Rc::new(far));
    for (from, to) in [(near.clone(), far.clone()), (far, near)] {
        scope.spawn(async move {
            while let (Ok(1..), bytes) = from.read(Vec::new()).await {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let (piece, after) = rest.split_at(relay().clamp(1, rest.len()));
                    let (Ok(()), _) = to.write_all(piece.to_vec()).await else { return };
                    rest = after;
                }
            }
            let _ = to.shutdown();
        });
    }
    (client, server)
}

/// Reads so many bytes.
async fn read(stream: &Stream, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        let (read, buf) = stream.read(all).await;
        assert_ne!(read, Ok(0), "the end after {} bytes", buf.len());
        all = buf;
    }
    all
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at * 7 % 251) as u8).collect()
}

/// Shakes hands, sends both ways, ends.
async fn exchange(priority: &'static str, relay: fn() -> usize, count: usize) -> String {
    let scope = Scope::new();
    let (near, far) = pair(&scope, relay).await;
    let answering = scope.spawn(async move {
        let stream = handshake::accept(far, server(), LIMIT).await.expect("a handshake");
        let asked = read(&stream, count).await;
        stream.write_all(asked).await.0.expect("an answer");
        assert_eq!(stream.read(Vec::new()).await.0, Ok(0), "the client has ended");
        stream.shutdown().expect("an end");
    });
    let shaken = handshake::connect(near, client(priority), "localhost", LIMIT).await;
    let stream = shaken.expect("a handshake");
    stream.write_all(bytes(count)).await.0.expect("a question");
    assert!(read(&stream, count).await == bytes(count), "{priority}: other bytes came back");
    stream.shutdown().expect("an end");
    answering.await.expect("it ran");
    assert_eq!(stream.read(Vec::new()).await.0, Ok(0), "the server has ended");
    let agreed = stream.agreed().expect("it is encrypted");
    let peer = agreed.peer.as_ref().expect("the server has a certificate");
    assert_eq!(peer.subject, "CN=localhost,O=Nereid tests");
    format!("{} {}", agreed.protocol, agreed.cipher_suite)
}

#[test]
fn torn_pieces_make_no_difference() {
    for seed in 0..8 {
        let agreed = runtime::sim::test(seed, || async {
            let relay = || (runtime::random_u64() % 700) as usize;
            let newest = exchange("NORMAL:-AES-256-GCM", relay, 40_000).await;
            let older = exchange("NORMAL:-VERS-TLS1.3", || 1, 300).await;
            [newest, older]
        });
        let suites = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"];
        assert_eq!(agreed, [format!("TLS1.3 {}", suites[0]), format!("TLS1.2 {}", suites[1])]);
    }
}

#[test]
fn a_real_shard_carries_megabytes() {
    let agreed = runtime::testing::block_on_with(runtime::Config::new(1), || {
        exchange("NORMAL", || usize::MAX, 3 << 20)
    });
    assert_eq!(agreed, "TLS1.3 TLS_AES_256_GCM_SHA384");
}

#[test]
fn a_record_that_cannot_be_opened_ends_its_connection_only() {
    for priority in ["NORMAL", "NORMAL:-VERS-TLS1.3"] {
        let error = runtime::sim::test(1, move || async move {
            let scope = Scope::new();
            let (near, far) = pair(&scope, || usize::MAX).await;
            let answering = scope.spawn(async move {
                let stream = handshake::accept(far, server(), LIMIT).await.expect("a handshake");
                let asked = read(&stream, 1).await;
                stream.write_all(asked).await.0.expect("an answer");
                stream.read(Vec::new()).await.0.expect_err("nothing was sealed by the client")
            });
            let shaken = handshake::connect(near, client(priority), "localhost", LIMIT).await;
            let stream = shaken.expect("a handshake");
            stream.write_all(vec![7]).await.0.expect("a question");
            read(&stream, 1).await;
            let forged = [&[0x17, 3, 3, 0, 32][..], &[0; 32]].concat();
            stream.write_sealed(forged).await.0.expect("it is sent");
            answering.await.expect("it ran")
        });
        assert_eq!(error.op, "read", "{priority}");
    }
}

/// What becomes of a handshake with a peer that sends `bytes`; what the peer is told.
fn refused(limit: Duration, bytes: Vec<u8>) -> (Failed, Vec<u8>) {
    runtime::sim::test(1, move || async move {
        let scope = Scope::new();
        let (near, far) = pair(&scope, || usize::MAX).await;
        let answering = scope.spawn(async move {
            let shaken = handshake::accept(far, server(), limit).await;
            shaken.expect_err("no handshake")
        });
        let _ = near.write_all(bytes).await;
        let failed = answering.await.expect("it ran");
        let mut told = Vec::new();
        while let (Ok(1..), buf) = near.read(told.clone()).await {
            told = buf;
        }
        (failed, told)
    })
}

#[test]
fn a_peer_without_tls_is_told_so_and_bounded() {
    let (failed, told) = refused(LIMIT, vec![4, 0, 0, 1, 5, 0, 0, 0, 0]);
    assert!(matches!(&failed, Failed::Refused(_)), "{failed}");
    // An alert, which is fatal.
    assert_eq!((told[0], told[5]), (21, 2), "{told:?}");
    let (failed, _) = refused(Duration::from_secs(5), Vec::new());
    assert_eq!(failed, Failed::Late);
    // A message of a handshake that never becomes whole.
    let record = [vec![22, 3, 1, 0x3f, 0xff], vec![1; 4], vec![0; 0x3ffb]].concat();
    let (failed, _) = refused(LIMIT, record.repeat(4));
    assert!(matches!(&failed, Failed::TooLong | Failed::Refused(_)), "{failed}");
}

/// A server that wants certificates of those whom the certificate of tests vouches for.
fn mutual(client_auth: ClientAuth) -> Arc<rustls::ServerConfig> {
    let options = Options { client_auth, truststore: Some("trust.pem".into()), ..options() };
    let files = Files {
        certificate: CERTIFICATE.into(),
        key: KEY.into(),
        truststore: Some(CERTIFICATE.into()),
        revoked: None,
    };
    tls::config::server(&options, &files).expect("a configuration")
}

fn showing() -> Arc<rustls::ClientConfig> {
    let identity =
        [("certificate.pem".into(), CERTIFICATE.to_vec()), ("key.pem".into(), KEY.to_vec())];
    let roots = ("certificate.pem".into(), CERTIFICATE.to_vec());
    let trust = Trust { roots, identity: Some(identity), ..Trust::default() };
    tls::config::client(&trust).expect("a configuration")
}

/// Whom the server saw, or why it did not shake hands.
fn seen(config: Arc<rustls::ServerConfig>, client: Arc<rustls::ClientConfig>) -> String {
    runtime::sim::test(1, move || async move {
        let scope = Scope::new();
        let (near, far) = pair(&scope, || usize::MAX).await;
        let answering = scope.spawn(async move {
            match handshake::accept(far, config, LIMIT).await {
                Ok(stream) => match &stream.agreed().expect("it is encrypted").peer {
                    Some(names) => names.subject.clone(),
                    None => "nobody".to_string(),
                },
                Err(error) => error.to_string(),
            }
        });
        let _stream = handshake::connect(near, client, "127.0.0.1", LIMIT).await;
        answering.await.expect("it ran")
    })
}

#[test]
fn clients_show_certificates_where_they_are_asked() {
    let alice = "CN=localhost,O=Nereid tests";
    assert_eq!(seen(mutual(ClientAuth::Required), showing()), alice);
    assert_eq!(seen(mutual(ClientAuth::Optional), showing()), alice);
    assert_eq!(seen(mutual(ClientAuth::Optional), client("")), "nobody");
    assert_eq!(seen(server(), showing()), "nobody");
    let refused = seen(mutual(ClientAuth::Required), client(""));
    assert!(refused.contains("no certificates"), "{refused}");
}

/// Whether a client trusts a server that is reached by a name that its certificate has not.
fn trusts(roots: Vec<u8>, server_name: ServerNames) -> Result<(), String> {
    let trust = Trust { roots: ("roots.pem".into(), roots), server_name, ..Trust::default() };
    let client = tls::config::client(&trust).expect("a configuration");
    runtime::sim::test(1, move || async move {
        let scope = Scope::new();
        let (near, far) = pair(&scope, || usize::MAX).await;
        scope.spawn(async move { handshake::accept(far, server(), LIMIT).await.map(drop) });
        let shaken = handshake::connect(near, client, "10.1.2.3", LIMIT).await;
        shaken.map(drop).map_err(|failed| failed.to_string())
    })
}

#[test]
fn between_nodes_the_chain_counts_and_not_the_name() {
    let refused = trusts(CERTIFICATE.to_vec(), ServerNames::Checked).expect_err("another name");
    assert!(refused.contains("not valid for name"), "{refused}");
    assert_eq!(trusts(CERTIFICATE.to_vec(), ServerNames::Any), Ok(()));
    let pair = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a pair");
    let refused = trusts(pair.cert.pem().into_bytes(), ServerNames::Any).expect_err("not its root");
    assert!(refused.contains("TLS"), "{refused}");
}

/// Two nodes of one authority: what each of them uses. The second certificate is revoked, and the
/// first node knows, if it is told.
fn two_nodes(is_told: bool) -> [tls::config::Ends; 2] {
    use rcgen::{CertificateParams, IsCa, Issuer, KeyPair, SerialNumber, date_time_ymd};
    let named = |name: &str, serial: u64, is_ca| {
        let mut made = CertificateParams::new([name.to_string()]).expect("a name");
        made.serial_number = Some(SerialNumber::from(serial));
        made.is_ca = is_ca;
        made
    };
    let unlimited = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (root, root_key) = (named("root", 1, unlimited), KeyPair::generate().expect("a key"));
    let trusted = root.self_signed(&root_key).expect("a certificate").pem().into_bytes();
    let issuer = Issuer::new(root, root_key);
    let revoked = rcgen::RevokedCertParams {
        serial_number: SerialNumber::from(3),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = rcgen::CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2120, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&issuer).expect("a list").pem().expect("a text").into_bytes();
    [(2, is_told), (3, false)].map(|(serial, is_told)| {
        let key = KeyPair::generate().expect("a key");
        let signed = named("node", serial, IsCa::NoCa).signed_by(&key, &issuer);
        let revoked = is_told.then(|| list.clone());
        let options = Options {
            truststore: Some("roots.pem".into()),
            client_auth: ClientAuth::Required,
            revoked: revoked.is_some().then(|| "revoked.pem".into()),
            dials: Some(ServerNames::Any),
            ..options()
        };
        let files = Files {
            certificate: signed.expect("a certificate").pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            truststore: Some(trusted.clone()),
            revoked,
        };
        tls::config::ends(&options, &files).expect("a configuration")
    })
}

/// What becomes of a handshake between two nodes, at the end of who dials and of who is dialed.
fn shaken(dials: &tls::config::Ends, serves: &tls::config::Ends) -> [Result<(), Failed>; 2] {
    let client = dials.client.clone().expect("nodes dial");
    let server = serves.server.clone();
    runtime::sim::test(1, move || async move {
        let scope = Scope::new();
        let (near, far) = pair(&scope, || usize::MAX).await;
        let answering =
            scope.spawn(async move { handshake::accept(far, server, LIMIT).await.map(drop) });
        let near = handshake::connect(near, client, "10.1.2.3", LIMIT).await;
        let answered = answering.await.expect("it ran");
        let near = match near {
            Ok(stream) => {
                // In TLS 1.3 who dials hears after the handshake whether it is trusted.
                if answered.is_err() {
                    assert!(stream.read(Vec::new()).await.0.is_err());
                }
                stream.refused_by_peer().map_or(Ok(()), |what| Err(Failed::RefusedByPeer(what)))
            }
            Err(failed) => Err(failed),
        };
        [near, answered]
    })
}

/// A node whose certificate is signed by itself and calls itself an authority, in its time or not.
/// It trusts that one, or `trusted`.
fn self_signed(until: i32, trusted: Option<&[u8]>) -> (tls::config::Ends, Vec<u8>) {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
    let mut made = CertificateParams::new(["node".to_string()]).expect("a name");
    made.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (made.not_before, made.not_after) = (date_time_ymd(1970, 1, 1), date_time_ymd(until, 1, 1));
    let key = KeyPair::generate().expect("a key");
    let certificate = made.self_signed(&key).expect("a certificate").pem().into_bytes();
    let options = Options {
        truststore: Some("roots.pem".into()),
        client_auth: ClientAuth::Required,
        dials: Some(ServerNames::Any),
        ..options()
    };
    let files = Files {
        truststore: Some(trusted.unwrap_or(&certificate).to_vec()),
        certificate: certificate.clone(),
        key: key.serialize_pem().into_bytes(),
        revoked: None,
    };
    (tls::config::ends(&options, &files).expect("a configuration"), certificate)
}

/// *the-same-bytes*
#[test]
fn a_node_is_trusted_whose_own_certificate_is_in_the_truststore() {
    let (one, certificate) = self_signed(2120, None);
    assert_eq!(shaken(&one, &one), [Ok(()), Ok(())]);
    // Who has another one, whoever dials.
    let (other, _) = self_signed(2120, Some(&certificate));
    for [dials, serves] in [[&one, &other], [&other, &one]] {
        let all = shaken(dials, serves);
        assert!(all.iter().any(|it| matches!(it, Err(Failed::Refused(_)))), "{all:?}");
    }
    let (late, _) = self_signed(1971, None);
    assert!(shaken(&late, &late).iter().any(Result::is_err), "it has expired");
}

#[test]
fn a_revoked_node_is_refused_whoever_dials() {
    for is_told in [false, true] {
        let [one, revoked] = two_nodes(is_told);
        let (dialed, dialing) = (shaken(&one, &revoked), shaken(&revoked, &one));
        if !is_told {
            assert_eq!((dialed, dialing), ([Ok(()), Ok(())], [Ok(()), Ok(())]));
            continue;
        }
        let [ours, theirs] = dialing;
        for [refuses, is_refused] in [dialed, [theirs, ours]] {
            let Err(Failed::Refused(why)) = refuses else { panic!("{refuses:?}") };
            assert!(why.contains("Revoked"), "{why}");
            let Err(Failed::RefusedByPeer(why)) = is_refused else { panic!("{is_refused:?}") };
            assert!(why.contains("alert"), "{why}");
        }
    }
}

#[test]
fn a_session_goes_on_with_its_ticket_and_not_without() {
    let resumed = |config: Arc<rustls::ServerConfig>| {
        runtime::sim::test(1, move || async move {
            let client = client("");
            let mut resumed = Vec::new();
            for _ in 0..2 {
                let scope = Scope::new();
                let (near, far) = pair(&scope, || usize::MAX).await;
                let config = config.clone();
                let answering = scope.spawn(async move {
                    let stream = handshake::accept(far, config, LIMIT).await.expect("a handshake");
                    stream.write_all(vec![1]).await.0.expect("an answer");
                    stream
                });
                let shaken = handshake::connect(near, client.clone(), "localhost", LIMIT).await;
                let stream = shaken.expect("a handshake");
                // The ticket comes before what is read first.
                read(&stream, 1).await;
                resumed.push(
                    answering.await.expect("it ran").agreed().expect("it is encrypted").resumed,
                );
            }
            resumed
        })
    };
    assert_eq!(resumed(server()), [false, true]);
    let options = Options { tickets: false, ..options() };
    let (certificate, key) = (CERTIFICATE.into(), KEY.into());
    let files = Files { certificate, key, truststore: None, revoked: None };
    let without = tls::config::server(&options, &files).expect("a configuration");
    assert_eq!(resumed(without), [false, false]);
}

#[test]
fn changed_files_are_used_whole_or_not_at_all() {
    runtime::sim::test(1, || async {
        let option = "client_encryption_options";
        let write = |name: &'static str, bytes: Vec<u8>| async move {
            runtime::io::fs::write_file_atomic(name, &bytes).await.expect("a file");
        };
        assert!(tls::service::current(option).is_none());
        let missing = tls::Keeper::start(option, options()).await.expect_err("no file is there");
        assert!(missing.contains("certificate.pem"), "{missing}");
        write("certificate.pem", CERTIFICATE.to_vec()).await;
        write("key.pem", KEY.to_vec()).await;
        let mut keeper = tls::Keeper::start(option, options()).await.expect("both are there");
        let first = tls::service::current(option).expect("it is used");
        assert_eq!(keeper.look().await, Ok(false));
        // A key without its certificate: told once, and not used.
        let pair = rcgen::generate_simple_self_signed(["localhost".to_string()]).expect("a pair");
        write("key.pem", pair.signing_key.serialize_pem().into_bytes()).await;
        let told = keeper.look().await.expect_err("they do not match").expect("it is new");
        assert!(told.contains("key.pem: not the key of"), "{told}");
        assert_eq!(keeper.look().await, Err(None));
        assert!(Arc::ptr_eq(&first, &tls::service::current(option).expect("it is used")));
        write("certificate.pem", pair.cert.pem().into_bytes()).await;
        assert_eq!(keeper.look().await, Ok(true));
        assert!(!Arc::ptr_eq(&first, &tls::service::current(option).expect("it is used")));
    });
}
