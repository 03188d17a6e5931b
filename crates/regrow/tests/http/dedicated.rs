//! The stream of what a server says by itself, which is read outside of the pool.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use regrow::core::{Fault, Policy};
use regrow::transport::ListenEnd;
use regrow::transport::http::{Http, HttpClient, Limits};
use regrow::{Connection, Era};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::carry::legacy;
use crate::ear::{LIMIT, http, open};
use crate::listen::{CHANGED, end, goes_on, greeted, listen};
use crate::server::Server;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

#[tokio::test]
async fn it_may_be_framed_in_every_way() {
    let event = format!("data: {CHANGED}\n\n");
    let length = event.len();
    for answer in [
        format!("{HEAD}\r\n{event}"),
        format!("{HEAD}Content-Length: {length}\r\n\r\n{event}and nothing of this"),
        format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{length:x};a=b\r\n{event}\r\n0\r\nX: y\r\n\r\n"),
        format!("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{event}"),
        format!("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n{HEAD}\r\n{event}"),
    ] {
        let (_server, link) = greeted(move |_, _, talk| {
            for byte in answer.as_bytes().chunks(7) {
                talk.raw(byte);
            }
            talk.close();
        })
        .await;
        let (mut listening, ear) = listen(&link);
        assert_eq!(ear.until(1).await, [CHANGED]);
        assert!(goes_on(&mut listening).await, "it is opened again");
    }
}

#[tokio::test]
async fn a_long_message_is_whole() {
    let text = "x".repeat(3 << 20);
    let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":"{text}"}}"#);
    let sent = message.clone();
    let (_server, link) = greeted(move |_, _, talk| {
        talk.events("");
        talk.event(&sent);
        talk.closed_by_client();
    })
    .await;
    let (_listening, ear) = listen(&link);
    assert_eq!(ear.until(1).await, [message]);
}

#[tokio::test]
async fn what_is_not_http_is_told() {
    let long = format!("{HEAD}X: {}", "x".repeat(1 << 20));
    let many = format!("{HEAD}{}\r\n", "A: b\r\n".repeat(1000));
    for answer in ["SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7, 8\r\n\r\n", &long, &many]
    {
        let answer = answer.to_owned();
        let (_server, link) = greeted(move |_, _, talk| {
            talk.raw(&answer);
            talk.close();
        })
        .await;
        let end = end(listen(&link).0).await;
        let ListenEnd::Lost(Fault::NotMcp { found }) = &end else { panic!("{end:?}") };
        assert!(found.starts_with("something that does not speak HTTP"), "{found}");
    }
}

#[tokio::test]
async fn what_breaks_off_or_is_garbled_is_told() {
    let cut = [
        ("", "before the server responded"),
        ("HTTP/1.1 200 OK\r\nContent-", "before the server responded"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n: o", "AnswerCut"),
        ("Transfer-Encoding: chunked\r\n\r\nfive\r\n", "chunk size"),
    ];
    for (answer, expected) in cut {
        let (_server, link) = greeted(move |_, _, talk| {
            talk.raw(if answer.starts_with("Transfer") { HEAD } else { "" });
            talk.raw(answer);
            talk.close();
        })
        .await;
        let end = end(listen(&link).0).await;
        assert!(matches!(&end, ListenEnd::Lost(fault) if format!("{fault:?}").contains(expected)), "{end:?}");
    }
}

#[tokio::test]
async fn the_request_is_like_the_others() {
    let server = legacy(|_, talk| talk.events(""));
    let url = format!("{}?a=b%20c", server.url());
    let link = open(&http(&url)).await;
    link.greet().await;
    let (_listening, _) = listen(&link);
    server.until(3).await;
    let requests = server.requests();
    let (post, get) = (&requests[1], &requests[2]);
    assert_eq!((get.method.as_str(), get.path.as_str()), ("GET", "/mcp?a=b%20c"));
    for name in ["host", "user-agent", "accept-encoding", "mcp-session-id", "mcp-protocol-version"] {
        assert!(get.header(name).is_some() && get.header(name) == post.header(name), "{name}");
    }
}

#[tokio::test]
async fn a_proxy_is_not_passed_by() {
    let seen = Arc::new(AtomicBool::new(false));
    let flag = seen.clone();
    let proxy = legacy(move |request, talk| {
        flag.fetch_or(request.path == "http://mcp.example/mcp", Ordering::SeqCst);
        talk.events("");
    });
    let client = HttpClient::builder().proxy(format!("http://{}", proxy.address)).build().unwrap();
    let link = open(&Http::new("http://mcp.example/mcp").unwrap().client(client)).await;
    link.greet().await;
    let (_listening, _) = listen(&link);
    proxy.until(3).await;
    assert!(seen.load(Ordering::SeqCst));
}

/// Like a server of one thread that takes on connections and reads requests as they come. Tells their methods.
fn in_order() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, order) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(requests(socket, seen.clone()));
            }
        });
    });
    (address, order)
}

async fn requests(socket: TcpStream, seen: mpsc::Sender<String>) {
    let mut socket = BufReader::new(socket);
    while one_request(&mut socket, &seen, "keep-alive").await.is_some() {}
}

async fn one_request(
    socket: &mut BufReader<TcpStream>,
    seen: &mpsc::Sender<String>,
    then: &str,
) -> Option<()> {
    let (mut head, mut length) = (vec![], 0);
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    seen.send(head[0].split(' ').next().unwrap().to_owned()).ok()?;
    let id = serde_json::from_slice(&body).ok().and_then(|body: Value| body.get("id").cloned());
    let answer = match id {
        _ if length == 0 => "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".into(),
        None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".into(),
        Some(id) => {
            let server = json!({ "name": "t", "version": "1" });
            let result = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server });
            let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: {then}");
            format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
    };
    socket.write_all(answer.as_bytes()).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_overtakes_the_question_for_it() {
    for _ in 0..50 {
        let (address, order) = in_order();
        let url = format!("http://{address}/mcp");
        let connection = Connection::builder("t", http(&url)).era(Era::Legacy).build();
        connection.request("tools/list", None).await.unwrap();
        let order: Vec<_> = order.try_iter().collect();
        assert_eq!(order, ["POST", "POST", "GET", "POST"]);
    }
}

/// Like a simple server: it takes one connection after the other, answers one request on each, and
/// closes it, of which it says nothing to a notification.
fn one_at_a_time() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, order) = mpsc::channel();
    tokio::spawn(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((socket, _)) = listener.accept().await {
            one_request(&mut BufReader::new(socket), &seen, "close").await;
        }
    });
    (address, order)
}

#[tokio::test]
async fn it_is_asked_for_at_once_although_its_connection_was_closed() {
    let (address, order) = one_at_a_time();
    let mut policy = Policy::default();
    policy.backoff.first = LIMIT; // So that it is not asked for a second time.
    let url = format!("http://{address}/mcp");
    let connection = Connection::builder("t", http(&url)).era(Era::Legacy).policy(policy).build();
    connection.request("tools/list", None).await.unwrap();
    let asked = async {
        while order.try_iter().all(|method| method != "GET") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT / 2, asked).await.expect("the stream is asked for");
}

#[tokio::test]
async fn a_server_that_does_not_answer_to_initialized_has_shown_no_life() {
    let server = Server::new(|_, talk| {
        talk.closed_by_client();
    });
    let limit = Duration::from_millis(100);
    let mut limits = Limits::default();
    limits.header = Some(limit);
    let link = open(&http(&server.url()).limits(limits)).await;
    let initialized = link.carry(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!(initialized.receipt, Err(Fault::Stalled { after: limit }));
    assert_eq!(initialized.ear.heard.load(Ordering::SeqCst), 0);
}
