//! A panic while handling one server's message ends that session, and nothing else.

use regrow::Era;
use regrow::core::Fault;
use regrow_protocol::frame::Frame;
use regrow_testkit::client::{PanickingInbox, call_and_panic};
use regrow_testkit::script::Plan;
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};

fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_at_its_answer_ends_one_session() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    call_and_panic(&connection, json!({}));
    until(&connection, |status| status.sessions == 2).await;
    let fault = connection.status().borrow().last_fault.clone().unwrap();
    assert!(fault.to_string().contains("internal error in Regrow"), "{fault}");
    work(&connection, json!({})).await.unwrap();
}

fn frame(message: Value) -> Frame {
    Frame::parse(message.to_string().into()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_panics_when_it_is_failed_harms_nobody() {
    let server = Server::always(Plan::default());
    let connection = ready(&server).await;
    call_and_panic(&connection, json!({ "silent": true }));
    let beside = begin(&connection, json!({ "silent": true }));
    settle().await;
    server.die(killed());
    assert!(beside.await.unwrap().is_err());
    work(&connection, json!({})).await.unwrap();
    call_and_panic(&connection, json!({ "silent": true }));
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
        let connection = to(&server).era(Era::Auto).relay_to(PanickingInbox::new(place, true)).build();
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
