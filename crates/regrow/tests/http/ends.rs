//! Connections that end in the middle of things.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use regrow::core::{Fault, Ladder};

use crate::carry::{WELCOME, legacy};
use crate::ear::{ANSWER, CALL, Heard, frame, http, open};
use crate::server::{Request, Server, Talk};

pub(crate) const LADDER: Ladder =
    Ladder { term_after: Duration::from_secs(5), kill_after: Duration::from_secs(2) };

#[tokio::test]
async fn a_connection_that_closes_without_an_answer_is_broken_and_the_request_sent_once() {
    let server = Server::new(|_, talk| talk.close());
    let link = open(&http(&server.url())).await;
    let carried = link.carry(CALL).await;
    assert!(matches!(carried.fault(), Fault::Broken { .. }), "{:?}", carried.fault());
    assert_eq!((carried.ear.sent(), server.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_closes_then_is_not_repeated() {
    let server = Server::new(|request, talk| {
        if request.body.contains("pay") {
            talk.close()
        } else {
            talk.json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        }
    });
    let link = open(&http(&server.url())).await;
    link.carry(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.texts();
    let carried = link.carry(CALL).await;
    assert!(matches!(carried.fault(), Fault::Broken { .. }), "{:?}", carried.fault());
    assert_eq!((carried.ear.sent(), server.requests().len()), (1, 2));
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_reset_is_broken() {
    for before in ["", "HTTP/1.1 200 OK\r\nContent-Ty", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"] {
        let server = Server::new(move |_, talk| {
            talk.raw(before);
            talk.reset();
        });
        let carried = open(&http(&server.url())).await.carry(CALL).await;
        assert!(matches!(carried.fault(), Fault::Broken { .. }), "{before:?}: {:?}", carried.fault());
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_dropped_exchange_closes_its_connection() {
    let (closed, was_closed) = std::sync::mpsc::channel();
    let server = Server::new(move |_, talk| {
        talk.events("");
        talk.event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#);
        closed.send(talk.closed_by_client()).unwrap();
    });
    let link = open(&http(&server.url())).await;
    let ear = Heard::new(Some(7.into()));
    let carrying = tokio::spawn(link.exchanges.clone().carry(frame(CALL), ear.clone()));
    ear.until(1).await;
    carrying.abort();
    assert!(tokio::task::spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap());
}

#[tokio::test]
async fn a_message_that_was_given_up_before_it_left_never_leaves() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let link = open(&http(&server.url())).await;
    let ear = Heard::new(Some(7.into()));
    ear.given_up.store(true, Ordering::SeqCst);
    let carried = link.exchanges.clone().carry(frame(CALL), ear.clone()).await;
    assert!(carried.is_err(), "{carried:?}");
    assert_eq!((ear.sent(), ear.lines().len()), (1, 0));
    assert!(server.requests().iter().all(|request| request.body.is_empty()), "{:?}", server.requests());
}

#[tokio::test]
async fn the_end_of_a_link_takes_leave_of_the_session_once() {
    let server = legacy(
        |request, talk| {
            if request.method == "DELETE" { talk.reply(405, "", "") } else { talk.json(ANSWER) }
        },
    );
    let link = open(&http(&server.url())).await;
    link.greet().await;
    assert_eq!(link.process.end(LADDER).await, link.process.end(LADDER).await);
    let last = server.requests().pop().unwrap();
    assert_eq!((&last.method[..], last.header("mcp-session-id")), ("DELETE", Some("s-1")));
    assert_eq!(server.requests().len(), 3);
    assert_eq!(link.carry(CALL).await.fault(), Fault::Closed);
}

/// Leaves the first request of a method without a response. Says whether this was it.
pub(crate) fn leaves_first(
    method: &'static str,
    leave: fn(&mut Talk),
) -> impl Fn(&Request, &mut Talk) -> bool {
    let left = AtomicBool::new(false);
    move |request, talk| {
        let leaves = request.method == method && !left.swap(true, Ordering::SeqCst);
        if leaves {
            leave(talk);
        }
        leaves
    }
}

#[tokio::test]
async fn a_farewell_on_a_kept_connection_that_closes_then_is_repeated_once_on_a_new_one() {
    for leave in [Talk::close, Talk::reset] {
        let leaves = leaves_first("DELETE", leave);
        let server = legacy(move |request, talk| {
            if !leaves(request, talk) {
                talk.reply(200, "", "");
            }
        });
        let link = open(&http(&server.url())).await;
        link.greet().await;
        let kept = server.connections.load(Ordering::SeqCst);
        link.process.end(LADDER).await;
        let farewells = server.requests().into_iter().filter(|request| request.method == "DELETE");
        let sessions: Vec<_> = farewells.map(|it| it.header("mcp-session-id").map(str::to_owned)).collect();
        assert_eq!(sessions, [Some("s-1".to_owned()), Some("s-1".to_owned())]);
        assert_eq!(server.connections.load(Ordering::SeqCst), kept + 1);
    }
}

#[tokio::test]
async fn a_farewell_that_fails_on_a_new_connection_is_not_repeated() {
    let server = Server::new(|request, talk| {
        if request.calls("initialize") {
            let headers = "Content-Type: application/json\r\nMcp-Session-Id: s-1\r\nConnection: close\r\n";
            talk.reply(200, headers, WELCOME);
        } else if request.method != "DELETE" {
            talk.reply(202, "Connection: close\r\n", "");
        }
        talk.close();
    });
    let link = open(&http(&server.url())).await;
    link.greet().await;
    link.process.end(LADDER).await;
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["POST", "POST", "DELETE"]);
}

#[tokio::test]
async fn a_knock_on_a_kept_connection_that_closes_then_is_repeated_on_a_new_one() {
    let leaves = leaves_first("OPTIONS", Talk::close);
    let server = Server::new(move |request, talk| {
        if !leaves(request, talk) {
            talk.json(ANSWER);
        }
    });
    let link = open(&http(&server.url())).await;
    link.carry(CALL).await.texts();
    assert_eq!(link.exchanges.check_reachable().await, Ok(()));
    let methods: Vec<_> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, ["POST", "OPTIONS", "OPTIONS"]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}
