//! Servers with a certificate that nobody but themselves has signed.

use std::fs;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;

use crate::ear::{ANSWER, CALL};
use crate::tls::{client, secure, serve, untrusted};

/// Certificate and key (PEM) as `openssl req -x509` makes them by default: `CA:TRUE`.
fn self_signed(name: &str, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

fn config((certificate, key): &(String, String)) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
        .unwrap()
}

/// A server with this certificate, and a call from a client that trusts the other one.
async fn call(shown: &(String, String), trusted: &str) -> Result<(), String> {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("ca.pem");
    fs::write(&file, trusted).unwrap();
    let server = serve(config(shown));
    let carried = secure(&server, client().ca_file(file)).await.carry(CALL).await;
    match carried.receipt {
        Ok(_) => {
            assert_eq!(carried.texts(), [ANSWER]);
            Ok(())
        }
        Err(fault) => {
            assert_eq!(carried.ear.sent(), 0);
            Err(untrusted(fault))
        }
    }
}

#[tokio::test]
async fn a_self_signed_certificate_in_the_ca_file_is_trusted() {
    let shown = self_signed("127.0.0.1", |_| {});
    assert_eq!(call(&shown, &shown.0).await, Ok(()));
    let other = self_signed("other.example", |_| {});
    assert_eq!(call(&shown, &format!("{}{}", other.0, shown.0)).await, Ok(()), "one of several");
}

#[tokio::test]
async fn a_self_signed_certificate_that_only_resembles_the_one_in_the_ca_file_is_not_trusted() {
    let (known, shown) = (self_signed("127.0.0.1", |_| {}), self_signed("127.0.0.1", |_| {}));
    let reason = call(&shown, &known.0).await.unwrap_err();
    assert!(reason.contains("CaUsedAsEndEntity"), "{reason}");
}

#[tokio::test]
async fn a_self_signed_certificate_must_be_for_this_server_and_for_now() {
    let elsewhere = self_signed("mcp.example", |_| {});
    let reason = call(&elsewhere, &elsewhere.0).await.unwrap_err();
    assert!(reason.contains("not valid for name"), "{reason}");

    let expired = self_signed("127.0.0.1", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let reason = call(&expired, &expired.0).await.unwrap_err();
    assert!(reason.contains("expired"), "{reason}");

    let early = self_signed("127.0.0.1", |params| params.not_before = date_time_ymd(2900, 1, 1));
    let reason = call(&early, &early.0).await.unwrap_err();
    assert!(reason.contains("not valid yet"), "{reason}");
}

#[tokio::test]
async fn a_certificate_that_openssl_made_is_trusted() {
    let folder = TempDir::new().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "7", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    let Ok(made) = made else { return eprintln!("not tested: there is no openssl command here") };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let shown = (fs::read_to_string(certificate).unwrap(), fs::read_to_string(key).unwrap());
    assert_eq!(call(&shown, &shown.0).await, Ok(()));
}
