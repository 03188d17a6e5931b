//! A panic while handling one server's message ends that session, and nothing else.

use std::sync::Arc;

use regrow::core::{Epoch, Fault};
use regrow::{Connection, Era, Inbox, Incoming, Outcome, Reply, Request};
use regrow_protocol::frame::Frame;
use regrow_testkit::script::Plan;
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};

fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

struct Explosive;

impl Reply for Explosive {
    fn end(self: Box<Self>, _: Outcome) {
        panic!("a reply that fails");
    }
}

fn submit(connection: &Connection, arguments: Value) {
    let line =
        json!({ "id": 1, "method": "tools/call", "params": { "name": "work", "arguments": arguments } });
    let frame = Frame::parse(line.to_string().into()).unwrap();
    let id = frame.id().unwrap();
    connection.submit(Request::new(frame, id, Box::new(Explosive)));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_at_its_answer_ends_one_session() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    submit(&connection, json!({}));
    until(&connection, |status| status.sessions == 2).await;
    let fault = connection.status().borrow().last_fault.clone().unwrap();
    assert!(fault.to_string().contains("internal error in Regrow"), "{fault}");
    work(&connection, json!({})).await.unwrap();
}

/// Fails wherever it is told to.
struct Bomb(&'static str);

impl Bomb {
    fn at(&self, place: &str) {
        assert!(self.0 != place, "an inbox that fails");
    }
}

impl Inbox for Bomb {
    fn take(&self, _: Incoming) -> bool {
        self.at("take");
        true
    }

    fn has_room(&self) -> bool {
        self.at("has_room");
        true
    }

    fn lost(&self, _: Epoch) {
        self.at("lost");
    }

    fn over(&self) {
        self.at("over");
    }
}

fn frame(message: Value) -> Frame {
    Frame::parse(message.to_string().into()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_when_it_is_failed_harms_nobody() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    submit(&connection, json!({ "silent": true }));
    let beside = begin(&connection, json!({ "silent": true }));
    settle().await;
    server.die(killed());
    assert!(beside.await.unwrap().is_err());
    work(&connection, json!({})).await.unwrap();
    submit(&connection, json!({ "silent": true }));
    tokio::time::sleep(secs(301)).await;
    work(&connection, json!({})).await.unwrap();
    connection.close().await;
    settle().await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_inbox_that_panics_ends_no_connection() {
    for place in ["take", "has_room", "lost", "over"] {
        let server = Server::always(Plan::default());
        let connection = to(&server).era(Era::Auto).relay_to(Arc::new(Bomb(place))).build();
        for _ in 0..3 {
            let _ = connection.request("initialize", Some(json!({ "protocolVersion": "2025-11-25" }))).await;
            connection.forward(&frame(json!({ "method": "notifications/initialized" })));
            let _ = work(&connection, json!({})).await;
            server.say(json!({ "method": "notifications/message" }));
            settle().await;
        }
        server.die(killed());
        settle().await;
        connection.close().await;
        settle().await;
        assert_eq!((tasks(), server.alive()), (0, 0), "{place}");
        assert!(connection.status().borrow().is_closed(), "{place}");
    }
}
