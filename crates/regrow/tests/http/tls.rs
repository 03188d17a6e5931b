//! Secure connections: who is trusted, who is not, and HTTP/2 over them.

use std::fs;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use regrow::core::Fault;
use regrow::transport::http::{ClientBuilder, Http, HttpClient};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::ear::{ANSWER, CALL, Heard, Open, frame, open};
use crate::ends::leaves_first;
use crate::server::{Request, Server, Stream, Talk};

/// An authority that signs for whom we like, and the files it writes.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    directory: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let authority = Authority {
            issuer: Issuer::new(params, key),
            pem: pem.clone(),
            directory: tempfile::tempdir().unwrap(),
        };
        authority.write("ca.pem", &pem);
        authority
    }

    /// Certificate and key for a name.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.file(name), text).unwrap();
        self.file(name)
    }

    /// What a server at `name` needs; it asks for certificates of `clients`, if there are any.
    pub(crate) fn config(&self, name: &str, clients: Option<&Authority>) -> ServerConfig {
        let (certificate, key) = self.sign(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = match clients {
            None => builder.unwrap().with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(clients.pem.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.unwrap().with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
        builder
            .with_single_cert(vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
            .unwrap()
    }
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

/// A server that answers every call, after a handshake.
pub(crate) fn serve(config: ServerConfig) -> Server {
    serve_with(config, |_, talk| talk.json(ANSWER))
}

fn serve_with(config: ServerConfig, answer: impl Fn(&Request, &mut Talk) + Send + Sync + 'static) -> Server {
    let config = Arc::new(config);
    let shake = move |mut socket: TcpStream| -> io::Result<Box<dyn Stream>> {
        let mut tls = ServerConnection::new(config.clone()).unwrap();
        while tls.is_handshaking() {
            if let Err(error) = tls.complete_io(&mut socket) {
                // Closed so that the reason, which was sent, arrives.
                socket.shutdown(Shutdown::Write)?;
                io::copy(&mut socket.by_ref(), &mut io::sink())?;
                return Err(error);
            }
        }
        Ok(Box::new(StreamOwned::new(tls, socket)))
    };
    Server::with(move |socket| shake(socket).ok(), answer)
}

pub(crate) fn client() -> ClientBuilder {
    HttpClient::builder().no_proxy()
}

pub(crate) async fn secure(server: &Server, client: ClientBuilder) -> Open {
    let url = format!("https://127.0.0.1:{}/mcp", server.address.port());
    open(&Http::new(&url).unwrap().client(client.build().unwrap())).await
}

pub(crate) fn untrusted(fault: Fault) -> String {
    match fault {
        Fault::Untrusted { host, reason } if host == "127.0.0.1" => reason,
        fault => panic!("{fault:?}"),
    }
}

#[tokio::test]
async fn a_server_of_our_own_authority_is_trusted() {
    let authority = Authority::new();
    let server = serve(authority.config("127.0.0.1", None));
    let link = secure(&server, client().ca_file(authority.file("ca.pem"))).await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
}

#[tokio::test]
async fn a_long_message_arrives_whole_over_tls() {
    let authority = Authority::new();
    let answer = |_: &Request, talk: &mut Talk| talk.json(&ANSWER.replace('7', "\"new\""));
    let server = serve_with(authority.config("127.0.0.1", None), answer);
    let link = secure(&server, client().ca_file(authority.file("ca.pem"))).await;
    crate::carry::long_messages_arrive_whole(&link, &server).await;
}

#[tokio::test]
async fn a_kept_connection_that_closes_then_has_a_knock_repeated_but_no_call() {
    for (method, expected) in [("OPTIONS", ["OPTIONS", "OPTIONS"].as_slice()), ("POST", &["POST"])] {
        let leaves = leaves_first(method, Talk::close);
        let authority = Authority::new();
        let greeted = AtomicBool::new(false);
        let server = serve_with(authority.config("127.0.0.1", None), move |request, talk| {
            if !greeted.swap(true, Ordering::SeqCst) || !leaves(request, talk) {
                talk.json(ANSWER);
            }
        });
        let link = secure(&server, client().ca_file(authority.file("ca.pem"))).await;
        link.carry(CALL).await.texts();
        if method == "POST" {
            let carried = link.carry(CALL).await;
            assert!(matches!(carried.fault(), Fault::Broken { .. }), "{:?}", carried.fault());
        } else {
            assert_eq!(link.exchanges.check_reachable().await, Ok(()));
        }
        let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).skip(1).collect();
        assert_eq!(methods, expected);
    }
}

#[tokio::test]
async fn a_server_of_an_unknown_authority_or_another_name_is_not() {
    let authority = Authority::new();
    let server = serve(authority.config("127.0.0.1", None));
    let carried = secure(&server, client()).await.carry(CALL).await;
    assert_eq!(untrusted(carried.fault()), "invalid peer certificate: UnknownIssuer");
    assert_eq!((carried.ear.sent(), server.requests().len()), (0, 0));

    let server = serve(authority.config("mcp.example", None));
    let carried = secure(&server, client().ca_file(authority.file("ca.pem"))).await.carry(CALL).await;
    let reason = untrusted(carried.fault());
    assert!(reason.contains("not valid for name"), "{reason}");
}

#[tokio::test]
async fn a_server_may_ask_who_we_are() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = serve(authority.config("127.0.0.1", Some(&clients)));
    let (certificate, key) = clients.sign("ann");
    let (certificate, key) = (clients.write("ann.pem", &certificate), clients.write("ann.key", &key));
    let trusting = || client().ca_file(authority.file("ca.pem"));
    let link = secure(&server, trusting().certificate(&certificate, &key)).await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);

    // Without a certificate, or with that of a stranger, the server does not listen.
    let reason = untrusted(secure(&server, trusting()).await.carry(CALL).await.fault());
    assert_eq!(reason, "the server refused the TLS handshake (CertificateRequired)");
    let (certificate, key) = authority.sign("eve");
    let (certificate, key) = (clients.write("eve.pem", &certificate), clients.write("eve.key", &key));
    let link = secure(&server, trusting().certificate(certificate, key)).await;
    let reason = untrusted(link.carry(CALL).await.fault());
    assert!(reason.starts_with("the server refused the TLS handshake"), "{reason}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn what_does_not_speak_tls_or_hangs_up_is_told_apart() {
    let plain = Server::new(|_, _| {});
    let link = secure(&plain, client()).await;
    // A plain server reads the greeting as a request, and waits for its end.
    let gone = Server::with(
        |socket| {
            let _ = (&socket).read(&mut [0; 5]); // Unread bytes make the close a reset.
            None
        },
        |_, _| {},
    );
    let fault = secure(&gone, client()).await.carry(CALL).await.fault();
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault}");
    drop(link);

    let chatty = Server::with(
        |mut socket| {
            let _ = io::Write::write_all(&mut socket, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            io::copy(&mut socket, &mut io::sink()).ok();
            None
        },
        |_, _| {},
    );
    let reason = untrusted(secure(&chatty, client()).await.carry(CALL).await.fault());
    assert!(reason.contains("corrupt message"), "{reason}");
}

#[test]
fn a_file_that_is_no_certificate_is_named() {
    let authority = Authority::new();
    let (certificate, key) = authority.sign("ann");
    let good = (authority.write("ann.pem", &certificate), authority.write("ann.key", &key));
    let bad = authority.write("bad.pem", "hello");
    let broken =
        authority.write("broken.pem", "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n");
    let other = authority.write("other.key", &KeyPair::generate().unwrap().serialize_pem());
    let missing = authority.file("missing.pem");
    for (built, path) in [
        (client().ca_file(&bad).build(), &bad),
        (client().ca_file(&broken).build(), &broken),
        (client().ca_file(&missing).build(), &missing),
        (client().certificate(&bad, &good.1).build(), &bad),
        (client().certificate(&good.0, &bad).build(), &bad),
        (client().certificate(&good.0, &other).build(), &other),
    ] {
        let said = built.unwrap_err().to_string();
        assert!(
            said.starts_with(&format!("the file {:?} cannot be used: ", path.display().to_string())),
            "{said}"
        );
    }
    assert!(client().proxy("::hunter2").build().unwrap_err().to_string().contains("proxy"));
}

/// What a server over HTTP/2 does with a request.
#[derive(Clone, Copy)]
enum Second {
    Answers,
    Resets,
    Holds,
}

/// A server that speaks nothing but HTTP/2. Tells of each stream that the client gives up.
async fn second(authority: &Authority, manner: Second) -> (u16, tokio::sync::mpsc::Receiver<()>) {
    let mut config = authority.config("127.0.0.1", None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (given_up, told) = tokio::sync::mpsc::channel(10);
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(acceptor.accept(socket).await.unwrap()).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let given_up = given_up.clone();
            tokio::spawn(async move {
                let mut body = request.into_body();
                while let Some(chunk) = body.data().await {
                    let _ = body.flow_control().release_capacity(chunk.unwrap().len());
                }
                let kind =
                    if matches!(manner, Second::Answers) { "application/json" } else { "text/event-stream" };
                let head = http::Response::builder().header("content-type", kind).body(()).unwrap();
                let mut stream = respond.send_response(head, false).unwrap();
                match manner {
                    Second::Answers => stream.send_data(Bytes::from_static(ANSWER.as_bytes()), true).unwrap(),
                    Second::Resets => stream.send_reset(h2::Reason::INTERNAL_ERROR),
                    Second::Holds => {
                        let event = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
                        stream.send_data(format!("data: {event}\n\n").into(), false).unwrap();
                        std::future::poll_fn(|context| stream.poll_reset(context)).await.unwrap();
                        given_up.send(()).await.unwrap();
                    }
                }
            });
        }
    });
    (port, told)
}

async fn second_link(authority: &Authority, port: u16) -> Open {
    let client = client().ca_file(authority.file("ca.pem")).build().unwrap();
    open(&Http::new(&format!("https://127.0.0.1:{port}/mcp")).unwrap().client(client)).await
}

#[tokio::test]
async fn http_2_carries_many_calls_on_one_connection() {
    let authority = Authority::new();
    let (port, _) = second(&authority, Second::Answers).await;
    let link = second_link(&authority, port).await;
    let (one, two, three) = tokio::join!(link.carry(CALL), link.carry(CALL), link.carry(CALL));
    for carried in [one, two, three] {
        assert_eq!((carried.texts(), carried.ear.sent()), (vec![ANSWER.to_owned()], 1));
    }
}

#[tokio::test]
async fn a_stream_of_http_2_that_is_reset_is_broken() {
    let authority = Authority::new();
    let (port, _) = second(&authority, Second::Resets).await;
    let fault = second_link(&authority, port).await.carry(CALL).await.fault();
    assert!(matches!(&fault, Fault::Broken { reason } if reason.contains("internal error")), "{fault}");
}

#[tokio::test]
async fn a_dropped_exchange_over_http_2_resets_its_stream_alone() {
    let authority = Authority::new();
    let (port, mut given_up) = second(&authority, Second::Holds).await;
    let link = second_link(&authority, port).await;
    let (left, stays) = (Heard::new(Some(7.into())), Heard::new(Some(7.into())));
    let leaving = tokio::spawn(link.exchanges.clone().carry(frame(CALL), left.clone()));
    let staying = tokio::spawn(link.exchanges.clone().carry(frame(CALL), stays.clone()));
    left.until(1).await;
    stays.until(1).await;
    leaving.abort();
    tokio::time::timeout(crate::ear::LIMIT, given_up.recv()).await.unwrap().unwrap();
    assert!(!staying.is_finished());
}
