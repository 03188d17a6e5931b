//! Whom we trust and who we are: roots of the system, more of the operator's, and a certificate of our own.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;

use super::SetupError;

/// TLS as a client speaks it.
pub(super) fn config(
    ca_file: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(tls_error)?;
    let builder = match verifier(ca_file, provider)? {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => builder
            .with_client_auth_cert(certificates(chain)?, private_key(key)?)
            .map_err(|error| unusable(key, error))?,
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Checks servers against the roots of the system and these; none where the system has no roots, which is no
/// reason to refuse plain HTTP.
fn verifier(
    ca_file: Option<&Path>,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, SetupError> {
    let Some(path) = ca_file else { return Ok(system(provider)) };
    let roots = certificates(path)?;
    for root in &roots {
        // Told here, where the file is known.
        RootCertStore::empty().add(root.clone()).map_err(|error| unusable(path, error))?;
    }
    let inner = Verifier::new_with_extra_roots(roots.clone(), provider).map_err(tls_error)?;
    Ok(Some(Arc::new(WithSelfSigned { inner, known: roots })))
}

/// Also accepts a server that shows one of the operator's own certificates. `openssl req -x509` makes them with `CA:TRUE`, and
/// those are otherwise refused as the certificate of a server.
#[derive(Debug)]
struct WithSelfSigned {
    inner: Verifier,
    known: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for WithSelfSigned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let judged = self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match judged {
            Err(error) if is_for_ca(&error) && self.known.iter().any(|known| known == end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Whether a certificate was refused only because it may sign others. One that is not valid now is refused for that first.
fn is_for_ca(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else {
        return false;
    };
    matches!(inner.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Read once for all clients: there are a hundred and more of them.
fn system(provider: Arc<CryptoProvider>) -> Option<Arc<dyn ServerCertVerifier>> {
    static SYSTEM: OnceLock<Option<Arc<Verifier>>> = OnceLock::new();
    let verifier = SYSTEM.get_or_init(|| match Verifier::new(provider) {
        Ok(verifier) => Some(Arc::new(verifier)),
        Err(error) => {
            tracing::warn!(%error, "the system has no root certificates, so no server can be trusted over TLS");
            None
        }
    });
    verifier.clone().map(|verifier| verifier as _)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let pem = fs::read(path).map_err(|error| unusable(path, error))?;
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| unusable(path, format!("it is not PEM ({error})")))?;
    if certificates.is_empty() {
        return Err(unusable(path, "it holds no certificate"));
    }
    Ok(certificates)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SetupError> {
    let pem = fs::read(path).map_err(|error| unusable(path, error))?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| unusable(path, format!("it holds no private key in PEM ({error})")))
}

fn unusable(path: &Path, reason: impl ToString) -> SetupError {
    SetupError::File { path: path.display().to_string(), reason: reason.to_string() }
}

fn tls_error(error: rustls::Error) -> SetupError {
    SetupError::Tls { reason: error.to_string() }
}
