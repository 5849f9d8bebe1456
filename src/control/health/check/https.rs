//! The HTTPS check (H-1, H-3): the HTTP check inside TLS 1.2 or 1.3. It asks whether the appliance
//! serves, not who it is: no certificate is verified, nor a signature made with its key, so that an
//! appliance whose certificate has expired, is self-signed, is for another name or uses an algorithm
//! of yesterday is as healthy as it answers. The session's keys are agreed on as ever.
//!
//! Each check is a full handshake without a session of before, without SNI (the target is an
//! address) and without a certificate of ours. A target may send [`MAX_RECEIVED`] bytes in all.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, LazyLock};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme, version};

use super::connect::{Deadline, connect};
use super::http::{self, failed};
use super::metered::Metered;
use crate::control::health::state::StateReason;
use crate::control::model::Matcher;

/// The most bytes that are read of a target, TLS and all: a certificate and a list of authorities,
/// each of the 64 KiB at which the TLS library ends a message, and the answer's head, twice.
const MAX_RECEIVED: usize = 256 * 1024;

/// The port that `Host` need not name over HTTPS (RFC 9110, 4.2.2).
const DEFAULT_PORT: u16 = 443;

/// `Ok` if a final answer came by the deadline, and its code is one that `matcher` has.
pub(super) async fn check(
    target: SocketAddrV4,
    source: Option<Ipv4Addr>,
    path: &str,
    matcher: &Matcher,
    deadline: Deadline,
) -> Result<(), StateReason> {
    let mut stream = Metered::new(connect(target, source, deadline).await?, MAX_RECEIVED);
    let name = ServerName::IpAddress(IpAddr::from(std::net::IpAddr::V4(*target.ip())));
    let handshake = TlsConnector::from(Arc::clone(&CONFIG)).connect(name, &mut stream);
    let mut session = match deadline.within(handshake).await {
        Some(Ok(session)) => session,
        Some(Err(error)) => return Err(failed(refusal(&error, &stream, target))),
        None => {
            let received = stream.received();
            return Err(
                deadline.passed(format_args!("TLS handshake not complete ({received} bytes received)"))
            );
        }
    };
    let code = http::ask(&mut session, &http::request(target, DEFAULT_PORT, path), deadline).await?;
    // A goodbye, as TLS asks for one (RFC 8446, 6.1). The answer is there: that the target has gone
    // already, or does not take the goodbye by the deadline, is no failure.
    deadline.within(session.shutdown()).await;
    http::judge(code, matcher)
}

/// How a handshake failed, and what had come.
fn refusal(error: &io::Error, stream: &Metered<TcpStream>, target: SocketAddrV4) -> String {
    let received = stream.received();
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return format!("connection closed during the TLS handshake ({received} bytes received)");
    }
    let what = format!("TLS handshake with {target}: {error} ({received} bytes received)");
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        // Not TLS, or not as it should be: what it is instead says more.
        Some(rustls::Error::InvalidMessage(_)) => {
            format!("{what}; it begins \"{}\"", stream.begin().escape_ascii())
        }
        _ => what,
    }
}

/// One for all checks: there is nothing in it that one target has and another has not.
static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .expect("the provider has cipher suites of both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Arc::new(config)
});

/// Takes any certificate for any name at any time, and any signature.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// All there are: a server picks its certificate, or finds none to serve, by this list.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            // rsa_pss_pss_sha256 to sha512 (RFC 8446, 4.2.3): keys that are for PSS alone.
            SignatureScheme::Unknown(0x0809),
            SignatureScheme::Unknown(0x080a),
            SignatureScheme::Unknown(0x080b),
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_SHA1_Legacy,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}

#[cfg(test)]
mod tests;
