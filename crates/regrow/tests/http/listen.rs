//! What a server says by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regrow::core::Fault;
use regrow::transport::ListenEnd;
use regrow::{Connection, Era};
use tokio::task::JoinHandle;

use crate::carry::legacy;
use crate::ear::{ANSWER, CALL, Heard, LIMIT, Open, http, open};
use crate::server::{Server, Talk};

pub(crate) const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

pub(crate) fn listen(link: &Open) -> (JoinHandle<ListenEnd>, Arc<Heard>) {
    let ear = Heard::new(None);
    (tokio::spawn(link.exchanges.clone().listen(ear.clone())), ear)
}

pub(crate) async fn end(listening: JoinHandle<ListenEnd>) -> ListenEnd {
    tokio::time::timeout(LIMIT, listening).await.expect("an end in time").unwrap()
}

pub(crate) async fn goes_on(listening: &mut JoinHandle<ListenEnd>) -> bool {
    tokio::time::timeout(Duration::from_millis(300), listening).await.is_err()
}

pub(crate) async fn greeted(
    answer: impl Fn(usize, &crate::server::Request, &mut Talk) + Send + Sync + 'static,
) -> (Server, Open) {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let server = legacy(move |request, talk| {
        if request.method == "GET" {
            answer(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst), request, talk);
        } else {
            talk.json(ANSWER);
        }
    });
    let link = open(&http(&server.url())).await;
    link.greet().await;
    (server, link)
}

#[tokio::test]
async fn it_is_heard_through_streams_that_come_and_go() {
    let (server, link) = greeted(|count, _, talk| {
        talk.events("");
        talk.chunk(format!("id: {count}\nretry: 100\ndata: {CHANGED}\n\n"));
        if count < 2 {
            talk.done();
        } else {
            talk.closed_by_client();
        }
    })
    .await;
    let (mut listening, ear) = listen(&link);
    assert_eq!(ear.until(3).await, [CHANGED; 3]);
    assert!(goes_on(&mut listening).await);
    let gets: Vec<_> = server.requests().into_iter().filter(|it| it.method == "GET").collect();
    let last: Vec<_> = gets.iter().map(|it| it.header("last-event-id")).collect();
    assert_eq!(last, [None, Some("0"), Some("1")]);
    for get in &gets {
        assert_eq!(get.header("accept"), Some("text/event-stream"));
        assert_eq!(get.header("mcp-session-id"), Some("s-1"));
        assert_eq!(get.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    link.process.end(crate::ends::LADDER).await;
    assert_eq!(end(listening).await, ListenEnd::Over(Fault::Closed));
}

#[tokio::test]
async fn a_server_without_such_a_stream_is_left_in_peace() {
    for status in [405, 501, 400, 401, 403, 404, 406, 410, 422] {
        let (server, link) = greeted(move |_, _, talk| talk.reply(status, "", "")).await;
        assert_eq!(end(listen(&link).0).await, ListenEnd::NoStream, "{status}");
        assert_eq!(server.requests().len(), 3);
    }
    let (_server, link) =
        greeted(|_, _, talk| talk.reply(200, "Content-Type: text/html\r\n", "<html>")).await;
    assert_eq!(end(listen(&link).0).await, ListenEnd::NoStream);
}

#[tokio::test]
async fn a_stream_that_is_refused_after_it_was_open_is_a_reason_to_doubt() {
    for status in [404, 400] {
        let (_server, link) = greeted(move |count, _, talk| {
            if count == 0 {
                talk.events("");
                talk.event(CHANGED);
                talk.done();
            } else {
                talk.reply(status, "", "");
            }
        })
        .await;
        let (listening, ear) = listen(&link);
        ear.until(1).await;
        let end = end(listening).await;
        assert!(matches!(end, ListenEnd::Lost(Fault::Broken { .. })), "{end:?}");
        assert_eq!(self::end(listen(&link).0).await, ListenEnd::NoStream, "{status}: now it has none");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_is_a_reason_to_doubt() {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let (_server, link) = greeted(move |count, _, talk| {
        if count > 0 {
            return talk.reply(404, "", "");
        }
        talk.events("");
        talk.event(CHANGED);
        wait.lock().unwrap().recv().unwrap();
        talk.reset();
    })
    .await;
    let (listening, ear) = listen(&link);
    ear.until(1).await;
    go.send(()).unwrap();
    let broken = end(listening).await;
    assert!(matches!(broken, ListenEnd::Lost(Fault::Broken { .. })), "{broken:?}");
    // The next server may be there already, and not know the session.
    let refused = Fault::Broken { reason: "HTTP 404 to a stream that was open".into() };
    assert_eq!(end(listen(&link).0).await, ListenEnd::Lost(refused));
    assert_eq!(end(listen(&link).0).await, ListenEnd::NoStream);
}

#[tokio::test]
async fn without_a_handshake_nothing_is_listened_to() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let link = open(&http(&server.url())).await;
    link.carry(CALL).await.texts();
    let (mut listening, _) = listen(&link);
    assert!(goes_on(&mut listening).await);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn streams_that_end_at_once_are_opened_more_and_more_slowly() {
    let (server, link) = greeted(|_, _, talk| {
        talk.events("");
        talk.chunk("retry: 0\n\n");
        talk.done();
    })
    .await;
    let begun = std::time::Instant::now();
    let (_listening, _) = listen(&link);
    server.until(2 + 5).await;
    // Not 4 but 1 + 2 + 4 + 8 times the shortest pause.
    assert!(begun.elapsed() >= Duration::from_millis(1_000), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stream_without_end_is_read_as_fast_as_it_comes_and_stops_nobody() {
    let long = CHANGED.replace('}', &format!(r#","params":{{"x":"{}"}}}}"#, "x".repeat(500)));
    let block = format!("data: {long}\n\n").repeat(100);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let server = Server::new(move |request, talk| {
        if request.calls("initialize") {
            let id = serde_json::from_str::<serde_json::Value>(&request.body).unwrap()["id"].clone();
            let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"t","version":"1"}}"#;
            talk.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        } else if request.method == "GET" {
            talk.events("");
            while talk.chunk(&block) {
                count.fetch_add(block.len(), Ordering::SeqCst);
            }
        } else if request.calls("ping") {
            let id = serde_json::from_str::<serde_json::Value>(&request.body).unwrap()["id"].clone();
            talk.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        } else {
            talk.reply(202, "", "");
        }
    });
    let connection = Connection::builder("talkative", http(&server.url())).era(Era::Legacy).build();
    connection.start();
    server.until(3).await;
    // One thread reads the stream, calls, and runs this test.
    let calls_beside = async {
        while sent.load(Ordering::SeqCst) < 32 << 20 {
            connection.request("ping", None).await.expect("an answer");
        }
    };
    tokio::time::timeout(LIMIT, calls_beside).await.expect("neither the stream nor the calls stop");
}
