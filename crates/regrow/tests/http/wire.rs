//! The stream of what a server says by itself, which is read outside of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::core::Fault;
use regrow::transport::Deaf;
use regrow::transport::http::{Http, HttpClient};
use regrow::{Connection, Era};
use serde_json::{Value, json};

use crate::carry::legacy;
use crate::ear::{http, open};
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
        let Deaf::Lost(Fault::NotMcp { found }) = &end else { panic!("{end:?}") };
        assert!(found.starts_with("something that does not speak HTTP"), "{found}");
    }
}

#[tokio::test]
async fn what_breaks_off_or_is_garbled_is_told() {
    let cut = [
        ("", "before it answered"),
        ("HTTP/1.1 200 OK\r\nContent-", "before it answered"),
        ("Transfer-Encoding: chunked\r\n\r\n5\r\n: o", "AnswerCut"),
        ("Transfer-Encoding: chunked\r\n\r\nfive\r\n", "garbled"),
    ];
    for (answer, expected) in cut {
        let (_server, link) = greeted(move |_, _, talk| {
            talk.raw(if answer.starts_with("Transfer") { HEAD } else { "" });
            talk.raw(answer);
            talk.close();
        })
        .await;
        let end = end(listen(&link).0).await;
        assert!(matches!(&end, Deaf::Lost(fault) if format!("{fault:?}").contains(expected)), "{end:?}");
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

#[tokio::test]
async fn a_call_does_not_overtake_it() {
    for _ in 0..20 {
        let server = Server::new(|request, talk| match request.method.as_str() {
            "GET" => talk.events(""),
            _ => match serde_json::from_str::<Value>(&request.body).unwrap().get("id") {
                None => talk.reply(202, "", ""),
                Some(id) => {
                    let server = json!({ "name": "t", "version": "1" });
                    let result =
                        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server });
                    talk.json(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string());
                }
            },
        });
        let connection = Connection::builder("t", http(&server.url())).era(Era::Legacy).build();
        connection.request("tools/list", None).await.unwrap();
        let order: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
        assert_eq!(order, ["POST", "POST", "GET", "POST"]);
    }
}
