//! A panic while handling one server's message ends that session, and nothing else.

use std::sync::Arc;

use regrow::core::{Epoch, Fault};
use regrow::frame::Frame;
use regrow::{Connection, Era, Inbox, Incoming, Outcome, Reply};
use serde_json::{Value, json};

use crate::server::{Plan, Server};
use crate::world::*;

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
    connection.submit(frame, id, Box::new(Explosive));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_at_its_answer_ends_one_session() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    submit(&connection, json!({}));
    until(&connection, |status| status.sessions == 2).await;
    let fault = connection.status().borrow().last_fault.clone().unwrap();
    assert!(fault.to_string().contains("failed inside Regrow"), "{fault}");
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
    fn take(&self, _: Incoming) {
        self.at("take");
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
