//! Secure connections: certificate and key from files, HTTP/2 where a client can.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use super::options::Tls;

/// What is wrong with a file, by its path.
pub(super) type Problem = (PathBuf, String);

/// What takes connections with this certificate.
pub(super) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, Problem> {
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| problem(&tls.certificate, &error))?;
    if certificates.is_empty() {
        return Err(problem(&tls.certificate, &"it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| problem(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| problem(&tls.key, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn problem(path: &Path, problem: &impl ToString) -> Problem {
    (path.to_owned(), problem.to_string())
}
