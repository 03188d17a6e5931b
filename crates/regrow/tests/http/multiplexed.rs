//! HTTP/2 servers that give requests back before they process them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use regrow::core::{Delivery, Fault};
use regrow::transport::http::Http;
use regrow::{Connection, Era};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::ear::{CALL, open};
use crate::tls::{Authority, client};

/// Serves each connection like this, over TLS.
async fn listen<F>(authority: &Authority, serve: impl Fn(TlsStream<TcpStream>) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut config = authority.config("127.0.0.1", None);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(socket).await.unwrap();
            tokio::spawn(serve(stream));
        }
    });
    port
}

fn http(authority: &Authority, port: u16) -> Http {
    let client = client().ca_file(authority.file("ca.pem")).build().unwrap();
    Http::new(&format!("https://127.0.0.1:{port}/mcp")).unwrap().client(client)
}

/// A legacy server that refuses the streams of its first so many tool calls. Counts all of them.
async fn refusing(authority: &Authority, refusals: usize) -> (u16, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let port = listen(authority, move |stream| {
        let calls = calls.clone();
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let calls = calls.clone();
                tokio::spawn(async move {
                    let mut body = request.into_body();
                    let mut message = vec![];
                    while let Some(Ok(chunk)) = body.data().await {
                        let _ = body.flow_control().release_capacity(chunk.len());
                        message.extend_from_slice(&chunk);
                    }
                    let message: Value = serde_json::from_slice(&message).unwrap_or_default();
                    let result = match message["method"].as_str() {
                        Some("initialize") => json!({
                            "protocolVersion": "2025-11-25",
                            "capabilities": { "tools": {} },
                            "serverInfo": { "name": "t", "version": "1" },
                        }),
                        Some("tools/call") => {
                            if calls.fetch_add(1, Ordering::SeqCst) < refusals {
                                return respond.send_reset(h2::Reason::REFUSED_STREAM);
                            }
                            json!({ "content": [] })
                        }
                        _ => {
                            let head =
                                http::Response::builder().status(if message.is_null() { 405 } else { 202 });
                            respond.send_response(head.body(()).unwrap(), true).unwrap();
                            return;
                        }
                    };
                    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                    let head = http::Response::builder().header("content-type", "application/json");
                    let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    stream.send_data(Bytes::from(answer.to_string()), true).unwrap();
                });
            }
        }
    })
    .await;
    (port, count)
}

#[tokio::test]
async fn a_call_whose_stream_was_refused_did_not_run_and_is_sent_again() {
    let authority = Authority::new();
    let (port, calls) = refusing(&authority, 1).await;
    let connection = Connection::builder("busy", http(&authority, port)).era(Era::Legacy).build();
    let answer = connection.request("tools/call", Some(json!({ "name": "pay" }))).await.unwrap();
    assert_eq!(answer.value().unwrap()["content"], json!([]));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(connection.status().borrow().sessions, 1);
}

#[tokio::test]
async fn a_call_whose_stream_is_always_refused_ends_and_says_that_it_did_not_run() {
    let authority = Authority::new();
    let (port, _) = refusing(&authority, usize::MAX).await;
    let connection = Connection::builder("busy", http(&authority, port)).era(Era::Legacy).build();
    let limit = Some(std::time::Duration::from_secs(3));
    let call = connection.request_within("tools/call", Some(json!({ "name": "pay" })), limit);
    let error = call.await.unwrap_err();
    assert_eq!(error.delivery, Delivery::NotSent);
    assert_eq!(error.data()["dev.regrow/fault"]["cause"], "unprocessed");
    assert!(error.to_string().contains("REFUSED_STREAM"), "{error}");
}

/// Answers the first request with GOAWAY: the last stream that it took is the one before.
async fn goes_away(mut stream: TlsStream<TcpStream>) {
    const HEADERS: u8 = 1;
    let (settings, go_away) = ([0, 0, 0, 4, 0, 0, 0, 0, 0], [0, 0, 8, 7, 0, 0, 0, 0, 0]);
    stream.write_all(&settings).await.unwrap();
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.unwrap();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        stream.read_exact(&mut vec![0; length]).await.unwrap();
        if head[3] == HEADERS {
            break;
        }
    }
    stream.write_all(&[&go_away[..], &[0; 8]].concat()).await.unwrap();
    stream.flush().await.unwrap();
    let _ = stream.read_to_end(&mut vec![]).await; // Until the client has closed it.
}

#[tokio::test]
async fn a_request_after_the_last_that_a_leaving_server_took_did_not_run() {
    let authority = Authority::new();
    let port = listen(&authority, goes_away).await;
    let fault = open(&http(&authority, port)).await.carry(CALL).await.fault();
    assert_eq!(fault, Fault::Unprocessed { how: "GOAWAY" });
    assert!(!fault.may_have_run());
}

#[tokio::test]
async fn a_refused_stream_is_told_as_what_it_is() {
    let authority = Authority::new();
    let (port, _) = refusing(&authority, 1).await;
    let fault = open(&http(&authority, port)).await.carry(CALL).await.fault();
    assert_eq!(fault, Fault::Unprocessed { how: "REFUSED_STREAM" });
}
