//! TLS from files in PEM, with HTTP/2 for those who can.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use regrow::transport::http::{Http, HttpClient};
use regrow::{Connection, Era};
use regrow_gateway::face::http::{BindError, Options, Tls, bind};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::World;

fn certified() -> (TempDir, Tls) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let directory = tempfile::tempdir().expect("a directory");
    let tls = Tls { certificate: directory.path().join("cert.pem"), key: directory.path().join("key.pem") };
    std::fs::write(&tls.certificate, cert.pem()).expect("written");
    std::fs::write(&tls.key, signing_key.serialize_pem()).expect("written");
    (directory, tls)
}

/// A connection of a client that offers these.
async fn connect(world: &World, certificate: &Path, offered: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("a good one");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
    let tcp = TcpStream::connect(world.address).await.expect("somebody listens");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("a handshake")
}

#[tokio::test]
async fn our_own_client_calls_over_tls_with_messages_of_any_length() {
    let (_directory, tls) = certified();
    let certificate = tls.certificate.clone();
    let world = World::with(|options| options.tls = Some(tls)).await;
    let client = HttpClient::builder().no_proxy().ca_file(certificate).build().unwrap();
    for era in [Era::Legacy, Era::Modern] {
        let http = Http::new(&format!("https://{}/mcp", world.address)).unwrap().client(client.clone());
        let connection = Connection::builder("face", http).era(era).build();
        for repeated in [1, 10_000] {
            let text = "prose\n and \"code\" ".repeat(repeated);
            let params = json!({ "name": "echo", "arguments": { "text": text } });
            let answer = connection.request("tools/call", Some(params)).await.unwrap();
            assert!(answer.value().unwrap()["echo"]["text"] == text, "{era:?} {repeated}");
        }
        connection.close().await;
    }
}

#[tokio::test]
async fn each_client_gets_the_http_that_it_can() {
    let (_directory, tls) = certified();
    let certificate = tls.certificate.clone();
    let world = World::with(|options| options.tls = Some(tls)).await;
    for (offered, taken) in
        [(vec!["h2", "http/1.1"], Some("h2")), (vec!["http/1.1"], Some("http/1.1")), (vec![], None)]
    {
        let mut stream = connect(&world, &certificate, &offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), taken.map(str::as_bytes));
        if taken != Some("h2") {
            let request =
                format!("GET /livez HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", world.address);
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            // Whether the other side says goodbye in TLS, too, is not the point.
            let _ = stream.read_to_string(&mut answer).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_does_not_come_is_not_waited_for() {
    let (_directory, tls) = certified();
    let world = World::with(|options| {
        options.tls = Some(tls);
        options.limits.handshake_timeout = Duration::from_secs(7);
    })
    .await;
    let began = Instant::now();
    world.wire().await.rest().await;
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http2_that_asks_nothing_is_closed() {
    let (_directory, tls) = certified();
    let certificate = tls.certificate.clone();
    let world = World::with(|options| options.tls = Some(tls)).await;
    for sent in [&b""[..], b"PRI * HTT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
        let mut stream = connect(&world, &certificate, &["h2"]).await;
        stream.write_all(sent).await.unwrap();
        stream.flush().await.unwrap();
        let began = Instant::now();
        // Closed or cut: it is over.
        let _ = stream.read_to_end(&mut vec![]).await;
        assert!((9..=11).contains(&began.elapsed().as_secs()), "{sent:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn files_that_are_no_certificate_or_key_are_named() {
    let (directory, tls) = certified();
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (certificate, key, named) in [
        (empty.clone(), tls.key.clone(), "empty.pem"),
        (tls.certificate.clone(), empty, "empty.pem"),
        (directory.path().join("none.pem"), tls.key.clone(), "none.pem"),
        (tls.certificate.clone(), tls.certificate.clone(), "cert.pem"),
    ] {
        let options = Options {
            addresses: vec!["127.0.0.1:0".parse().unwrap()],
            tls: Some(Tls { certificate, key }),
            ..Options::default()
        };
        let error = bind(options).await.err().unwrap();
        assert!(matches!(error, BindError::Tls { .. }) && error.to_string().contains(named), "{error}");
    }
}
