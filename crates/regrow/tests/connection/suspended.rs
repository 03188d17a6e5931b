//! Regrow itself did not run for a while: what arrived meanwhile counts, though its deadline has passed.

use regrow::core::Policy;
use regrow::protocol::frame::{Frame, RawId};
use regrow::{ErrorKind, Outcome, Request, Status};
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{Instant, advance};

fn hasty() -> Policy {
    Policy { call_timeout: Some(secs(2)), connect_timeout: secs(2), ..policy() }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_came_while_we_were_stopped_is_delivered() {
    let server = Server::always(Plan::default());
    let connection = to(&server).policy(hasty()).build();
    start(&connection).await;
    let call = begin(&connection, json!({ "ms": 1000, "say": "in time" }));
    settle().await;
    advance(secs(3)).await;
    assert_eq!(said(&call.await.unwrap().unwrap()), "in time");
    assert!(connection.status().borrow().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_response_is_delivered_if_we_were_stopped_right_after_its_call() {
    let server = Server::always(Plan::default());
    let connection = to(&server).policy(hasty()).build();
    start(&connection).await;
    let (reply, end) = oneshot::channel();
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"say":"in time"}}}"#;
    connection.submit(Request::new(
        Frame::parse(call.to_vec().into()).unwrap(),
        RawId::from(1),
        Box::new(reply),
    ));
    advance(secs(3)).await;
    assert!(matches!(end.await.unwrap(), Outcome::Answered(_)));
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_response_ends_a_moment_after_we_run_again() {
    let server = Server::always(Plan::default());
    let connection = to(&server).policy(hasty()).build();
    start(&connection).await;
    let call = begin(&connection, json!({ "silent": true }));
    settle().await;
    advance(secs(3)).await;
    let again = Instant::now();
    assert_eq!(call.await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
    assert!(again.elapsed() <= millis(200), "{:?}", again.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_was_answered_while_we_were_stopped_counts() {
    let server = Server::always(Plan { start_delay: secs(1), ..Plan::default() });
    let connection = to(&server).policy(hasty()).build();
    connection.start();
    settle().await;
    advance(secs(3)).await;
    until(&connection, Status::is_ready).await;
    assert_eq!(server.starts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_that_came_while_we_were_stopped_counts() {
    let slow = Plan::default()
        .on("ping", |message| vec![Act::Wait(secs(1)), Act::Say(answer(&message["id"], json!({})))]);
    let server = Server::always(slow);
    let connection = to(&server).policy(Policy { idle_probe: Some(secs(30)), ..policy() }).build();
    start(&connection).await;
    tokio::time::sleep(millis(30_500)).await;
    assert_eq!(server.heard_of("ping").len(), 1);
    advance(secs(60)).await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!((server.starts().len(), connection.status().borrow().sessions), (1, 1));
}
