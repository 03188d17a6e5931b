//! Everything is bounded: what a server sends, and how long it may take.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use regrow::core::Fault;
use regrow::transport::http::{Http, Limits};
use regrow_protocol::lines::Line;

use crate::carry::legacy;
use crate::ear::{ANSWER, CALL, Carried, LIMIT, http, open};
use crate::server::Server;

fn limited(server: &Server, limits: impl FnOnce(&mut Limits)) -> Http {
    let mut all = Limits::default();
    limits(&mut all);
    http(&server.url()).limits(all)
}

fn too_long(carried: &Carried) -> u64 {
    assert!(carried.receipt.is_ok(), "{:?}", carried.receipt);
    let lines = carried.ear.lines();
    let Some(Line::TooLong { bytes, salvage }) = lines.last() else { panic!("{lines:?}") };
    assert_eq!(salvage.id, Some(7.into()));
    *bytes
}

#[tokio::test]
async fn a_body_over_the_cap_is_not_read_to_its_end() {
    let server = Server::new(|_, talk| {
        talk.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n");
        talk.raw(r#"{"jsonrpc":"2.0","result":""#);
        while talk.raw([b'x'; 4096]) {}
    });
    let link = open(&limited(&server, |limits| limits.max_message = 100_000)).await;
    assert_eq!(too_long(&link.carry(CALL).await), 99_999_999_999);

    let server = Server::new(|_, talk| talk.json(ANSWER));
    let exact = ANSWER.len();
    let link = open(&limited(&server, |limits| limits.max_message = exact)).await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
    let link = open(&limited(&server, |limits| limits.max_message = exact - 1)).await;
    assert_eq!(too_long(&link.carry(CALL).await), exact as u64);
}

#[tokio::test]
async fn an_event_over_the_cap_tells_whose_it_was() {
    let server = Server::new(|_, talk| {
        talk.events("");
        talk.chunk("data: {\"jsonrpc\":\"2.0\",\"result\":\"");
        for _ in 0..100 {
            talk.chunk([b'x'; 1000]);
        }
        talk.chunk("\",\"id\":7}\n\n");
        talk.done();
    });
    let link = open(&limited(&server, |limits| limits.max_message = 50_000)).await;
    assert_eq!(
        too_long(&link.carry(CALL).await),
        100_000 + r#"{"jsonrpc":"2.0","result":"","id":7}"#.len() as u64
    );
}

#[tokio::test]
async fn an_event_over_the_cap_that_is_not_the_answer_passes_by() {
    let server = Server::new(|_, talk| {
        talk.events("");
        talk.event(&format!(r#"{{"jsonrpc":"2.0","method":"log","params":"{}"}}"#, "x".repeat(2000)));
        talk.event(ANSWER);
        talk.done();
    });
    let link = open(&limited(&server, |limits| limits.max_message = 1000)).await;
    assert_eq!(link.carry(CALL).await.texts(), ["too long", ANSWER]);
}

#[tokio::test]
async fn an_endless_event_is_cut() {
    let server = Server::new(|_, talk| {
        talk.events("");
        talk.chunk("data: ");
        while talk.chunk([b'x'; 4096]) {}
    });
    let link = open(&limited(&server, |limits| limits.max_message = 10_000)).await;
    let bytes = too_long(&link.carry(CALL).await);
    assert!((160_000..1_000_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_stream_that_is_cut_is_closed_before_it_is_resumed() {
    let (closed, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let server = legacy(move |request, talk| {
        if request.header("last-event-id").is_none() {
            talk.events("");
            talk.chunk("retry: 0\nid: 1\ndata: \n\nevent: other\ndata: ");
            while talk.chunk([b'x'; 4096]) {}
            closed.send(()).unwrap();
        } else {
            wait.lock().unwrap().recv_timeout(LIMIT).unwrap();
            talk.events("");
            talk.event(ANSWER);
            talk.done();
        }
    });
    let link = open(&limited(&server, |limits| limits.max_message = 10_000)).await;
    link.greet().await;
    assert_eq!(link.carry(CALL).await.texts(), [ANSWER]);
}

#[tokio::test]
async fn a_refusal_without_end_is_not_read_to_its_end() {
    let server = Server::new(|_, talk| {
        talk.raw("HTTP/1.1 500 X\r\nContent-Type: text/plain\r\n\r\n");
        while talk.raw([b'x'; 4096]) {}
    });
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    let Fault::Status { code: 500, said } = fault else { panic!("{fault}") };
    assert!(said.len() < 300, "{said}");
}

#[tokio::test]
async fn headers_that_do_not_come_in_time() {
    for begin in ["", "HTTP/1.1 200 OK\r\nX: "] {
        let server = Server::new(move |_, talk| {
            talk.raw(begin);
            while !begin.is_empty() && talk.raw("x") {
                std::thread::sleep(Duration::from_millis(10)); // A slow drip.
            }
            talk.closed_by_client();
        });
        let limit = Duration::from_millis(300);
        let link = open(&limited(&server, |limits| limits.header = Some(limit))).await;
        assert_eq!(link.carry(CALL).await.fault(), Fault::Stalled { after: limit });
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_does_not_go_on_in_time() {
    let json = "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{";
    let events = "Content-Type: text/event-stream\r\n\r\nid: 1\n\n: half";
    for begin in [json, events] {
        let server = Server::new(move |_, talk| {
            talk.raw(format!("HTTP/1.1 200 OK\r\n{begin}"));
            talk.closed_by_client();
        });
        let limit = Duration::from_millis(300);
        let link = open(&limited(&server, |limits| limits.idle = Some(limit))).await;
        assert_eq!(link.carry(CALL).await.fault(), Fault::Stalled { after: limit });
    }
}

#[tokio::test]
async fn bytes_that_say_nothing_are_heard() {
    let (go, wait) = std::sync::mpsc::channel();
    let wait = std::sync::Mutex::new(wait);
    let server = Server::new(move |_, talk| {
        talk.events("");
        while wait.lock().unwrap().recv().is_ok() {
            talk.chunk(": still here\n");
        }
        talk.event(ANSWER);
        talk.done();
    });
    let link = open(&http(&server.url())).await;
    let ear = crate::ear::Heard::new(Some(7.into()));
    let carrying = tokio::spawn(link.exchanges.clone().carry(crate::ear::frame(CALL), ear.clone()));
    for _ in 0..3 {
        let before = ear.heard.load(std::sync::atomic::Ordering::SeqCst);
        go.send(()).unwrap();
        let heard = async {
            while ear.heard.load(std::sync::atomic::Ordering::SeqCst) == before {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(crate::ear::LIMIT, heard).await.unwrap();
    }
    drop(go);
    carrying.await.unwrap().unwrap();
}

#[tokio::test]
async fn headers_beyond_measure_are_refused() {
    let server = Server::new(|_, talk| {
        talk.raw("HTTP/1.1 200 OK\r\n");
        while talk.raw("X: 0123456789012345678901234567890123456789\r\n") {}
    });
    let fault = open(&http(&server.url())).await.carry(CALL).await.fault();
    assert_eq!(
        fault,
        Fault::NotMcp { found: "something that does not speak HTTP (message head is too large)".into() }
    );
}
