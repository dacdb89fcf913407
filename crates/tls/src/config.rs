//! From options and the bytes of their files to what rustls works with. Pure.

mod pinned;

use crate::files;
pub use crate::options::ServerNames;
use crate::options::{ClientAuth, Options};
use crate::peer;
use crate::priority;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
pub use rustls::{ClientConfig, ServerConfig};
use rustls::{DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the files of a configuration hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Files {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    pub truststore: Option<Vec<u8>>,
    pub revoked: Option<Vec<u8>>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is secret.
        write!(f, "Files({} bytes of certificates)", self.certificate.len())
    }
}

/// The time of day, for how long certificates are valid: the runtime's, on any thread.
#[derive(Debug)]
struct Wall;

impl TimeProvider for Wall {
    fn current_time(&self) -> Option<UnixTime> {
        let micros = u64::try_from(runtime::time::wall_micros()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_micros(micros)))
    }
}

/// What a server uses. The error names file and place, or the word of an option.
pub fn server(options: &Options, files: &Files) -> Result<Arc<ServerConfig>, String> {
    let spoken = priority::spoken(&options.priority)?;
    let chain = files::certificates(&options.certificate, &files.certificate)?;
    let key = files::key(&options.keyfile, &files.key)?;
    let provider = Arc::new(spoken.provider);
    let verifier = verifier(options, files, provider.clone())?;
    let builder = ServerConfig::builder_with_details(provider, Arc::new(Wall))
        .with_protocol_versions(&spoken.versions)
        .map_err(|error| format!("priority_string: {error}"))?;
    let built = builder.with_client_cert_verifier(verifier).with_single_cert(chain, key);
    let mut config = built.map_err(|error| mismatch(options, &error))?;
    // What a session needs is in its ticket: nothing is remembered for clients that never return.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if options.tickets {
        let ticketer = rustls::crypto::ring::Ticketer::new();
        config.ticketer = ticketer.map_err(|error| format!("no key for tickets: {error}"))?;
    } else {
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

/// What links between nodes use: to answer, and to dial.
#[derive(Clone, Debug)]
pub struct Ends {
    pub server: Arc<ServerConfig>,
    /// `None`: of a service that dials nobody.
    pub client: Option<Arc<ClientConfig>>,
}

/// What a service uses, and what it dials by if it does. The error names file and place, or the
/// word of an option.
pub fn ends(options: &Options, files: &Files) -> Result<Ends, String> {
    let server = server(options, files)?;
    let Some(server_name) = options.dials else { return Ok(Ends { server, client: None }) };
    let (Some(path), Some(text)) = (&options.truststore, &files.truststore) else {
        return Err("truststore: missing: it says which nodes are trusted".to_string());
    };
    let identity = [(&options.certificate, &files.certificate), (&options.keyfile, &files.key)];
    let trust = Trust {
        roots: (path.clone(), text.clone()),
        revoked: options.revoked.clone().zip(files.revoked.clone()),
        server_name,
        identity: Some(identity.map(|(path, text)| (path.clone(), text.clone()))),
        priority: options.priority.clone(),
    };
    Ok(Ends { server, client: Some(client(&trust)?) })
}

fn mismatch(options: &Options, error: &rustls::Error) -> String {
    let (certificate, key) = (options.certificate.display(), options.keyfile.display());
    match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            format!("{key}: not the key of the certificate in {certificate}")
        }
        other => format!("{certificate} and {key} do not make an identity: {other}"),
    }
}

fn roots(file: &Path, text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in files::certificates(file, text)? {
        let added = roots.add(certificate);
        added.map_err(|error| format!("{}: not a root of trust: {error}", file.display()))?;
    }
    Ok(roots)
}

fn verifier(
    options: &Options,
    files: &Files,
    provider: Arc<rustls::crypto::CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let (Some(path), Some(text)) = (&options.truststore, &files.truststore) else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let roots = Arc::new(roots(path, text)?);
    if options.client_auth == ClientAuth::No {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let (Some(path), Some(text)) = (&options.revoked, &files.revoked) {
        let lists = files::revocations(path, text)?;
        builder = builder.with_crls(lists).allow_unknown_revocation_status();
    }
    if options.client_auth == ClientAuth::Optional {
        builder = builder.allow_unauthenticated();
    }
    let built = builder.build().map_err(|error| format!("{}: {error}", path.display()))?;
    // Between nodes, and where no list says of whom that is over.
    if options.dials.is_none() || files.revoked.is_some() {
        return Ok(built);
    }
    Ok(Arc::new(pinned::Pinned { of_chains: built, known: files::certificates(path, text)? }))
}

/// What the operator should know of a certificate that is used: it is not valid, or not for long.
pub fn warning(options: &Options, files: &Files, now_secs: i64) -> Option<String> {
    const SOON_SECS: i64 = 14 * 24 * 3600;
    let chain = files::certificates(&options.certificate, &files.certificate).ok()?;
    let (from, to) = peer::validity(chain.first()?)?;
    let file = options.certificate.display();
    let days = (to - now_secs) / (24 * 3600);
    match now_secs {
        now if to < now => Some(format!("{file}: the certificate has expired")),
        now if now < from => Some(format!("{file}: the certificate is not valid yet")),
        now if to - now < SOON_SECS => Some(format!("{file}: it expires in {days} days")),
        _ => None,
    }
}

/// What a client trusts and shows.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// PEM, by the name of its file: who vouches for servers.
    pub roots: (PathBuf, Vec<u8>),
    /// PEM, by the name of its file: certificates of servers that are not valid any more.
    pub revoked: Option<(PathBuf, Vec<u8>)>,
    pub server_name: ServerNames,
    /// PEM, by the names of their files: our certificate and its key.
    pub identity: Option<[(PathBuf, Vec<u8>); 2]>,
    pub priority: String,
}

/// What a client uses. The error names file and place, or the word of an option.
pub fn client(trust: &Trust) -> Result<Arc<ClientConfig>, String> {
    let spoken = priority::spoken(&trust.priority)?;
    let provider = Arc::new(spoken.provider);
    let roots = Arc::new(roots(&trust.roots.0, &trust.roots.1)?);
    let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    if let Some((path, text)) = &trust.revoked {
        let lists = files::revocations(path, text)?;
        verifier = verifier.with_crls(lists).allow_unknown_revocation_status();
    }
    let verifier: Arc<dyn ServerCertVerifier> =
        verifier.build().map_err(|error| format!("{}: {error}", trust.roots.0.display()))?;
    let builder = ClientConfig::builder_with_details(provider, Arc::new(Wall))
        .with_protocol_versions(&spoken.versions)
        .map_err(|error| format!("priority_string: {error}"))?
        .dangerous()
        .with_custom_certificate_verifier(match (trust.server_name, &trust.revoked) {
            (ServerNames::Checked, _) => verifier,
            (ServerNames::Any, Some(_)) => Arc::new(AnyName(verifier)),
            (ServerNames::Any, None) => {
                let known = files::certificates(&trust.roots.0, &trust.roots.1)?;
                let of_chains: Arc<dyn ServerCertVerifier> = Arc::new(AnyName(verifier));
                Arc::new(pinned::Pinned { of_chains, known })
            }
        });
    let mut config = match &trust.identity {
        None => builder.with_no_client_auth(),
        Some([(certificate, chain), (keyfile, key)]) => {
            let (chain, key) =
                (files::certificates(certificate, chain)?, files::key(keyfile, key)?);
            let built = builder.with_client_auth_cert(chain, key);
            built.map_err(|error| format!("{}: {error}", certificate.display()))?
        }
    };
    config.resumption = Resumption::in_memory_sessions(16);
    Ok(Arc::new(config))
}

/// Trusts whom the roots vouch for, whatever the certificate names.
#[derive(Debug)]
struct AnyName(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let AnyName(verifier) = self;
        // The name is looked at last, when the chain has been found good.
        match verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        ) {
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CERTIFICATE, KEY, options};

    fn files() -> Files {
        Files { certificate: CERTIFICATE.into(), key: KEY.into(), truststore: None, revoked: None }
    }

    fn refused(options: &Options, files: &Files) -> String {
        server(options, files).expect_err("a refusal")
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        let options = options();
        assert!(server(&options, &files()).is_ok());
        let other = rcgen::KeyPair::generate().expect("a key").serialize_pem().into_bytes();
        let said = refused(&options, &Files { key: other, ..files() });
        assert_eq!(said, "key.pem: not the key of the certificate in certificate.pem");
        let said = refused(&options, &Files { certificate: b"x".into(), ..files() });
        assert!(said.starts_with("certificate.pem: no certificate"), "{said}");
        let trusting = Options {
            truststore: Some("trust.pem".into()),
            client_auth: ClientAuth::Required,
            ..options.clone()
        };
        let said = refused(&trusting, &Files { truststore: Some(b"x".into()), ..files() });
        assert!(said.starts_with("trust.pem: no certificate"), "{said}");
        let picky = Options { priority: "FAST".into(), ..options };
        let said = refused(&picky, &files());
        assert!(said.starts_with("priority_string: FAST"), "{said}");
    }

    #[test]
    fn the_end_of_a_certificate_is_told_in_time() {
        let (_, to) = peer::validity(&files::certificates(Path::new("c"), CERTIFICATE).unwrap()[0])
            .expect("a certificate has its time");
        let told = |now| warning(&options(), &files(), now);
        assert_eq!(told(to - 20 * 24 * 3600), None);
        let soon = told(to - 3 * 24 * 3600 - 5);
        assert_eq!(soon.as_deref(), Some("certificate.pem: it expires in 3 days"));
        let gone = told(to + 1);
        assert_eq!(gone.as_deref(), Some("certificate.pem: the certificate has expired"));
        let early = told(0);
        assert_eq!(early.as_deref(), Some("certificate.pem: the certificate is not valid yet"));
    }

    #[test]
    fn a_key_is_not_shown() {
        let shown = format!("{:?}", files());
        assert!(!shown.contains("key"), "{shown}");
    }
}
