//! Subscription streams over exchanges: cut, opened again on the same session or the next, under one id.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Fault, Requester};
use regrow::{Connection, Era, ErrorKind, IncomingMessages, Outcome};
use regrow_protocol::frame::Frame;
use regrow_testkit::client::Stream;
use regrow_testkit::remote::Remote;
use regrow_testkit::script::{Act, answer};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const ID: &str = "io.modelcontextprotocol/subscriptionId";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const CHANGED: &str = "notifications/tools/list_changed";

/// The id of the stream that was opened last, as the server knows it.
fn wire_id(server: &Remote) -> Value {
    server.heard_of("subscriptions/listen").last().unwrap().message["id"].clone()
}

fn event(wire_id: &Value) -> Act {
    Act::Say(json!({ "jsonrpc": "2.0", "method": CHANGED, "params": { "_meta": { ID: wire_id } } }))
}

fn cut(server: &Remote) {
    server.order(&wire_id(server), Act::Fail(Fault::AnswerCut));
}

async fn next(incoming: &mut IncomingMessages) -> (String, Value) {
    let frame = timeout(secs(1), incoming.next()).await.expect("it is there").unwrap().frame;
    let params: Value = serde_json::from_slice(frame.params().unwrap()).unwrap();
    (frame.method().unwrap().to_owned(), params["_meta"][ID].clone())
}

async fn connected(server: &Remote) -> (Connection, IncomingMessages) {
    let connection = to(server).era(Era::Modern).build();
    start(&connection).await;
    let incoming = connection.incoming().unwrap();
    (connection, incoming)
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_is_opened_again_on_the_same_session_under_the_clients_id() {
    let server = Remote::modern();
    let (connection, mut incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, r#""s""#);
    assert_eq!(next(&mut incoming).await, (ACKNOWLEDGED.into(), json!("s")));
    for round in 1..10 {
        sleep(secs(600)).await;
        cut(&server);
        sleep(secs(1)).await;
        assert_eq!(server.count("subscriptions/listen"), round + 1);
        server.order(&wire_id(&server), event(&wire_id(&server)));
        assert_eq!(next(&mut incoming).await, (CHANGED.into(), json!("s")), "not acknowledged again");
    }
    assert_eq!(stream.ends(), 0);
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.budget_left), (1, 5));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_cut_is_opened_after_growing_pauses_and_at_once_again_when_it_has_lasted() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, "1");
    settle().await;
    for _ in 0..12 {
        let opened = server.count("subscriptions/listen");
        cut(&server);
        while server.count("subscriptions/listen") == opened {
            sleep(millis(50)).await;
        }
    }
    let at: Vec<Duration> = server.heard_of("subscriptions/listen").iter().map(|heard| heard.at).collect();
    let pauses: Vec<Duration> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted_by(|a, b| *a <= *b + millis(60)), "{pauses:?}");
    assert!(pauses[0] <= millis(300) && pauses[11] >= secs(25), "{pauses:?}");
    assert!(pauses[11] <= secs(31), "{pauses:?}");
    sleep(secs(60)).await;
    let opened = server.count("subscriptions/listen");
    cut(&server);
    sleep(millis(300)).await;
    assert_eq!(server.count("subscriptions/listen"), opened + 1, "it had lasted");
    assert_eq!(stream.ends(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_outlives_its_session_however_that_ends() {
    let server = Remote::modern();
    let (connection, mut incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, "7");
    assert_eq!(next(&mut incoming).await, (ACKNOWLEDGED.into(), json!(7)));
    for round in 1..10 {
        sleep(secs(3600)).await;
        match round % 2 {
            0 => connection.reconnect(Requester::Person),
            _ => {
                server.kill();
                sleep(millis(50)).await;
                server.revive();
            }
        }
        until(&connection, |status| status.sessions == round + 1).await;
        sleep(secs(1)).await;
        server.order(&wire_id(&server), event(&wire_id(&server)));
        assert_eq!(next(&mut incoming).await, (CHANGED.into(), json!(7)));
    }
    assert_eq!(stream.ends(), 0);
    assert_eq!(server.count("subscriptions/listen"), 10, "once in every session");
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_open_before_the_calls_of_a_new_session_leave() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;
    Stream::open(&connection, "7");
    settle().await;
    let running = begin(&connection, json!({ "ms": 1000 }));
    settle().await;
    connection.reconnect(Requester::Person);
    settle().await;
    work(&connection, json!({})).await.unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(server.told(2), ["server/discover", "subscriptions/listen", "tools/call"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_server_the_client_or_the_connection_ends_it() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;

    let (by_server, _) = Stream::open(&connection, "1");
    settle().await;
    let wire = wire_id(&server);
    let end = answer(&wire, json!({ "resultType": "complete", "_meta": { ID: wire } }));
    server.order(&wire, Act::Say(end));
    settle().await;
    let Some(Outcome::Answered(end)) = by_server.0.lock().unwrap().pop() else { panic!("not answered") };
    let result: Value = serde_json::from_slice(end.result().unwrap()).unwrap();
    assert_eq!(result["_meta"][ID], 1);

    let (by_client, id) = Stream::open(&connection, "2");
    settle().await;
    let cancel =
        Frame::parse(r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#.into()).unwrap();
    assert!(connection.cancel(&id, &cancel));
    settle().await;
    assert_eq!(by_client.ends(), 0, "it wants no answer");
    assert_eq!(server.dropped(), ["subscriptions/listen"], "which is how it is cancelled");
    assert_eq!(server.count("notifications/cancelled"), 0);

    let (by_us, _) = Stream::open(&connection, "3");
    settle().await;
    connection.close().await;
    let Some(Outcome::Failed(error)) = by_us.0.lock().unwrap().pop() else { panic!("not failed") };
    assert_eq!(error.kind, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cancelled_while_it_pauses_is_not_opened_again() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;
    let (stream, id) = Stream::open(&connection, "1");
    settle().await;
    cut(&server);
    settle().await;
    let cancel =
        Frame::parse(r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#.into()).unwrap();
    assert!(connection.cancel(&id, &cancel));
    sleep(secs(60)).await;
    assert_eq!((server.count("subscriptions/listen"), stream.ends()), (1, 0));
    assert_eq!(connection.status().borrow().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_missed_by_its_cut_stream_with_no_call_made() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;
    Stream::open(&connection, "1");
    sleep(secs(10)).await;
    server.kill();
    sleep(millis(100)).await;
    assert!(!connection.status().borrow().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_neither_a_busy_server_nor_a_reason_to_wait() {
    let server = Remote::modern();
    let (connection, _incoming) = connected(&server).await;
    Stream::open(&connection, "1");
    settle().await;
    let before = server.elapsed();
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.sessions == 2).await;
    assert!(server.elapsed() - before <= millis(100), "{:?}", server.elapsed() - before);
    let before = server.elapsed();
    connection.close().await;
    assert!(server.elapsed() - before <= millis(100), "{:?}", server.elapsed() - before);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_a_server_does_not_know_ends_with_its_answer() {
    let server = Remote::modern().on("subscriptions/listen", |message| {
        Some(vec![Act::Say(regrow_testkit::script::refusal(&message["id"], -32601, "Method not found"))])
    });
    let (connection, _incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, "1");
    settle().await;
    assert_eq!(stream.ends(), 1);
    assert_eq!(server.count("subscriptions/listen"), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_that_were_missed_while_a_stream_was_cut_are_told() {
    let changes = Arc::new(Mutex::new("add"));
    let tools = changes.clone();
    let server = Remote::modern().on("tools/list", move |message| {
        let name = *tools.lock().unwrap();
        Some(vec![Act::Say(answer(&message["id"], json!({ "tools": [{ "name": name }] })))])
    });
    let (connection, mut incoming) = connected(&server).await;
    Stream::open(&connection, r#""s""#);
    assert_eq!(next(&mut incoming).await, (ACKNOWLEDGED.into(), json!("s")));
    connection.request("tools/list", None).await.unwrap();
    cut(&server);
    *changes.lock().unwrap() = "other";
    assert_eq!(next(&mut incoming).await, (CHANGED.into(), json!("s")));
    assert!(timeout(secs(60), incoming.next()).await.is_err(), "once");
}
