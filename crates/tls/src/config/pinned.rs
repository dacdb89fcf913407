//! Certificates of nodes that are in the truststore themselves.
//!
//! Who signs a certificate for a node by itself often makes one that calls itself an authority, as
//! tools do where nothing else is said. As the end of a chain such a one is refused. But whoever
//! has put just that certificate into the truststore trusts it, and nobody else has its key.
//!
//! Invariants
//!  - *the-same-bytes*: only a certificate that is in the truststore as it is, and in its time.
//!  - *not-good-only*: what is good as a chain is judged as that; what a chain is refused for
//!    otherwise (a name, a list of what is revoked) stays refused.

use crate::peer;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::fmt::Debug;
use std::sync::Arc;

/// Trusts what the chains' verifier does, and the certificates that are known.
#[derive(Debug)]
pub(super) struct Pinned<V: ?Sized> {
    pub(super) of_chains: Arc<V>,
    pub(super) known: Vec<CertificateDer<'static>>,
}

impl<V: ?Sized> Pinned<V> {
    /// Whether a certificate that was refused for this is trusted all the same.
    fn trusts(&self, refused: &Error, shown: &CertificateDer<'_>, now: UnixTime) -> bool {
        // *not-good-only*: what rustls has no word for is that an authority is shown.
        let Error::InvalidCertificate(CertificateError::Other(_)) = refused else { return false };
        let is_known = self.known.iter().any(|it| it.as_ref() == shown.as_ref());
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let in_time = peer::validity(shown).is_some_and(|(from, to)| (from..=to).contains(&now));
        is_known && in_time
    }
}

impl<V: ServerCertVerifier + ?Sized> ServerCertVerifier for Pinned<V> {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.of_chains.verify_server_cert(shown, others, name, ocsp_response, now) {
            Err(why) if self.trusts(&why, shown, now) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_chains.supported_verify_schemes()
    }
}

impl<V: ClientCertVerifier + ?Sized> ClientCertVerifier for Pinned<V> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.of_chains.root_hint_subjects()
    }

    fn offer_client_auth(&self) -> bool {
        self.of_chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.of_chains.client_auth_mandatory()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.of_chains.verify_client_cert(shown, others, now) {
            Err(why) if self.trusts(&why, shown, now) => Ok(ClientCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.of_chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.of_chains.supported_verify_schemes()
    }
}
