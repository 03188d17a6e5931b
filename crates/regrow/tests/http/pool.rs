//! Connections that are used again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use tokio::task::{spawn_blocking, yield_now};

use crate::ear::{ANSWER, CALL, http, open};
use crate::server::Server;

#[tokio::test]
async fn there_are_as_many_as_calls_at_once_and_the_next_calls_use_them_again() {
    let all_here = Arc::new(Barrier::new(3));
    let server = Server::new(move |_, talk| {
        all_here.wait();
        talk.json(ANSWER);
    });
    let link = open(&http(&server.url())).await;
    for _ in 0..3 {
        let calls = tokio::join!(link.carry(CALL), link.carry(CALL), link.carry(CALL));
        for call in [calls.0, calls.1, calls.2] {
            assert_eq!(call.texts(), [ANSWER]);
        }
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn one_that_the_server_closed_meanwhile_is_not_used() {
    let (closed, was_closed) = mpsc::channel();
    let server = Server::new(move |_, talk| {
        talk.json(ANSWER);
        talk.close();
        closed.send(()).unwrap();
    });
    let link = open(&http(&server.url())).await;
    link.carry(CALL).await.texts();
    spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap();
    yield_now().await; // The runtime hears of it.
    let second = link.carry(CALL).await;
    assert_eq!((second.texts().len(), second.ear.sent()), (1, 1));
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn one_that_has_been_idle_is_closed() {
    let (closed, was_closed) = mpsc::channel();
    let server = Server::new(move |_, talk| {
        talk.json(ANSWER);
        closed.send(talk.closed_by_client()).unwrap();
    });
    let link = open(&http(&server.url())).await;
    link.carry(CALL).await.texts();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(spawn_blocking(move || was_closed.recv().unwrap()).await.unwrap());
}

#[test]
fn one_of_a_runtime_that_has_ended_is_not_used() {
    let server = Server::new(|_, talk| talk.json(ANSWER));
    let http = http(&server.url());
    for connections in [1, 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let called = runtime.block_on(async {
            let link = open(&http).await;
            link.carry(CALL).await.texts();
            link.carry(CALL).await.texts()
        });
        assert_eq!(called, [ANSWER]);
        assert_eq!(server.connections.load(Ordering::SeqCst), connections);
    }
}
