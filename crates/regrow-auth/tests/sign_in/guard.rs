//! Where OAuth requests may go.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use regrow_auth::guarded::{Guarded, HttpError, MAX_BODY, Network, Proxy};
use regrow_chaos::issuer::Response;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use url::Url;

use crate::provider::{http, start};

fn guard(server: &str) -> Guarded {
    Guarded::new(&url(server), &Network { proxy: Proxy::Off, ..Network::default() }).unwrap()
}

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn an_address_is_https_and_public() {
    let http = guard("https://mcp.example/mcp");
    for good in ["https://auth.example/token", "https://1.1.1.1/", "https://[2606:4700::1111]/"] {
        assert_eq!(http.check(&url(good)), Ok(()), "{good}");
    }
    for bad in [
        "http://auth.example/",
        "http://127.0.0.1/",
        "http://localhost/",
        "ftp://auth.example/",
        "file:///etc/passwd",
        "data:text/plain,x",
        "https://ann@auth.example/",
        "https://127.0.0.1/",
        "https://0177.0.0.1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://0.0.0.0/",
    ] {
        assert!(matches!(http.check(&url(bad)), Err(HttpError::Refused { .. })), "{bad}");
    }
}

#[test]
fn a_server_on_this_computer_opens_this_computer_and_nothing_else() {
    for server in ["http://127.0.0.1:1/mcp", "http://localhost:1/mcp", "https://[::1]/mcp"] {
        let http = guard(server);
        for good in ["http://127.0.0.1:2/", "http://localhost/", "http://[::1]/", "https://127.0.0.1/"] {
            assert_eq!(http.check(&url(good)), Ok(()), "{server} {good}");
        }
        for bad in
            ["http://10.0.0.1/", "https://10.0.0.1/", "http://auth.example/", "https://169.254.169.254/"]
        {
            assert!(http.check(&url(bad)).is_err(), "{server} {bad}");
        }
    }
    let http = guard("https://10.1.2.3/mcp");
    assert_eq!(http.check(&url("https://10.9.9.9/")), Ok(()));
    assert!(http.check(&url("http://10.1.2.3/")).is_err());
    assert!(http.check(&url("https://127.0.0.1/")).is_err());
    // The neighbours of a server on the local link serve credentials.
    let http = guard("https://169.254.7.7/mcp");
    assert_eq!(http.check(&url("https://169.254.7.7/")), Ok(()));
    assert!(http.check(&url("https://169.254.169.254/")).is_err());
}

#[test]
fn the_operator_can_allow_a_private_host() {
    let network = Network { private_hosts: vec!["10.0.0.5".into(), "[::1]".into()], ..Network::default() };
    let http = Guarded::new(&url("https://mcp.example/"), &network).unwrap();
    assert_eq!(http.check(&url("https://10.0.0.5/")), Ok(()));
    assert_eq!(http.check(&url("https://[::1]/")), Ok(()));
    assert!(http.check(&url("https://10.0.0.6/")).is_err());
}

#[tokio::test]
async fn a_redirect_stays_within_its_origin() {
    let (provider, other) = (start(), start());
    let elsewhere = other.url("/document").to_string();
    provider.replace("/here", |_| Response::redirect(302, "/there?x=1"));
    provider.replace("/there", |_| Response::json(200, json!({})));
    provider.replace("/away", move |_| Response::redirect(307, &elsewhere));
    provider.replace("/loop", |_| Response::redirect(301, "/loop"));
    provider.replace("/metadata", |_| Response::redirect(302, "http://169.254.169.254/latest"));
    let http = http(&provider);
    assert_eq!(http.get(&provider.url("/here")).await.unwrap().status, 200);
    for path in ["/away", "/loop", "/metadata"] {
        let error = http.get(&provider.url(path)).await.unwrap_err();
        assert!(matches!(error, HttpError::Refused { .. }), "{path}: {error:?}");
    }
    assert_eq!(provider.heard("/loop").len(), 4);
    assert_eq!(other.paths(), [""; 0]);
}

#[tokio::test]
async fn a_post_follows_no_redirect() {
    let provider = start();
    for status in [301, 302, 303, 307, 308] {
        provider.replace("/register", move |_| Response::redirect(status, "/there"));
        let error = http(&provider).post_json(&provider.url("/register"), &json!({})).await.unwrap_err();
        assert!(matches!(error, HttpError::Refused { .. }), "{error:?}");
    }
    assert_eq!(provider.heard("/there").len(), 0);
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let provider = start();
    provider.replace("/fits", |_| Response::new(200, "x".repeat(MAX_BODY)));
    provider.replace("/long", |_| Response::new(200, "x".repeat(MAX_BODY + 1)));
    let http = http(&provider);
    assert_eq!(http.get(&provider.url("/fits")).await.unwrap().body.len(), MAX_BODY);
    let error = http.get(&provider.url("/long")).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn a_response_that_drips_times_out() {
    let provider = start();
    assert!(provider.fault("drip-metadata"));
    let network =
        Network { request_timeout: Duration::from_millis(200), proxy: Proxy::Off, ..Network::default() };
    let http = Guarded::new(&provider.server(), &network).unwrap();
    let error = http.get(&provider.url("/.well-known/oauth-authorization-server")).await.unwrap_err();
    assert_eq!(error, HttpError::Network { host: "127.0.0.1".into(), reason: "timed out".into() });
}

#[tokio::test]
async fn an_error_does_not_quote_the_query() {
    let provider = start();
    let port = {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        closed.local_addr().unwrap().port()
    };
    let gone = url(&format!("http://127.0.0.1:{port}/path?code=hunter2"));
    let error = http(&provider).get(&gone).await.unwrap_err();
    assert!(matches!(error, HttpError::Network { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

#[tokio::test]
async fn a_certificate_is_checked() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let config =
        ServerConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let acceptor =
        TlsAcceptor::from(Arc::new(config.with_single_cert(vec![cert.der().clone()], key).unwrap()));
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = url(&format!("https://{}/", tcp.local_addr().unwrap()));
    tokio::spawn(async move {
        loop {
            let (stream, _) = tcp.accept().await.unwrap();
            // A client that does not trust us ends the handshake.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            stream.read_u8().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    let error = guard(server.as_str()).get(&server).await.unwrap_err();
    assert!(matches!(error, HttpError::Network { .. }), "{error:?}");
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, cert.pem()).unwrap();
    let network = Network { ca_file: Some(ca_file), proxy: Proxy::Off, ..Network::default() };
    let answer = Guarded::new(&server, &network).unwrap().get(&server).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"{}".as_slice()));
}
