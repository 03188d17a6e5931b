//! Clients that greet a server which we have greeted for them: answered with its welcome, whenever they come.

use std::sync::{Arc, Mutex};

use regrow::{CallError, Connection, Era, ErrorKind, Inbox, Incoming, Outcome, Request};
use regrow_protocol::frame::{Frame, RawId};
use regrow_testkit::remote::{Path, Remote};
use regrow_testkit::script::{Act, unreachable};
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// An inbox that keeps what it takes.
#[derive(Default)]
struct Kept(Mutex<Vec<Incoming>>);

impl Inbox for Kept {
    fn take(&self, incoming: Incoming) -> bool {
        self.0.lock().unwrap().push(incoming);
        true
    }
}

fn ask(connection: &Connection, id: u64, method: &str, params: &Value) -> oneshot::Receiver<Outcome> {
    let (sender, receiver) = oneshot::channel();
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let frame = Frame::parse(line.to_string().into()).unwrap();
    connection.submit(Request::new(frame, RawId::from(id), Box::new(sender)));
    receiver
}

fn answered(outcome: Outcome) -> Value {
    let Outcome::Answered(frame) = outcome else { panic!("no answer: {outcome:?}") };
    serde_json::from_slice(frame.result().expect("a result")).unwrap()
}

fn failed(outcome: Outcome) -> CallError {
    let Outcome::Failed(error) = outcome else { panic!("no failure: {outcome:?}") };
    error
}

fn bridged(server: &Remote) -> Connection {
    to(server).era(Era::Auto).bridge_to(Arc::new(Kept::default())).build()
}

fn hello() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } })
}

#[tokio::test(start_paused = true)]
async fn a_client_that_greets_before_or_after_the_session_is_up_gets_its_welcome() {
    for (server, member) in [(Remote::legacy(), "protocolVersion"), (Remote::modern(), "supportedVersions")] {
        server.world().latency = millis(500);
        let connection = bridged(&server);
        let early = ask(&connection, 1, "initialize", &hello());
        let asked = ask(&connection, 2, "server/discover", &json!({}));
        let call = begin(&connection, json!({ "say": 1 }));
        assert!(answered(early.await.unwrap())[member].is_string() || member == "supportedVersions");
        assert!(!answered(asked.await.unwrap())[member].is_null());
        assert_eq!(said(&call.await.unwrap().unwrap()), 1);
        let late = ask(&connection, 3, "initialize", &hello());
        assert!(!answered(late.await.unwrap())[member].is_null());
        assert_eq!(connection.welcome().unwrap().modern, member == "supportedVersions");
        let greetings = server.count("initialize") + server.count("server/discover");
        assert_eq!(greetings, if connection.is_modern() { 1 } else { 2 }, "only our own");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_greets_a_server_which_is_down_waits_for_it() {
    let server = Remote::legacy();
    server.set_path(Path::Down);
    let connection = bridged(&server);
    let greeting = ask(&connection, 1, "initialize", &hello());
    sleep(secs(9)).await;
    server.revive();
    assert_eq!(answered(greeting.await.unwrap())["protocolVersion"], "2025-11-25");
    assert!(server.elapsed() <= secs(11));
}

#[tokio::test(start_paused = true)]
async fn a_greeting_of_a_server_that_does_not_come_up_fails_in_time_and_says_why() {
    let server = Remote::legacy();
    server.set_path(Path::Down);
    let connection = bridged(&server);
    let before = Instant::now();
    let error = failed(ask(&connection, 1, "initialize", &hello()).await.unwrap());
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!((secs(10)..secs(12)).contains(&before.elapsed()), "{:?}", before.elapsed());
    assert_eq!(error.fault.as_deref(), Some(&unreachable()));
    let error = failed(ask(&connection, 2, "server/discover", &json!({})).await.unwrap());
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(error.fault.as_deref(), Some(&unreachable()));
}

#[tokio::test(start_paused = true)]
async fn a_greeting_of_a_server_that_refuses_us_fails_at_once() {
    let server = Remote::legacy();
    let fault = regrow::core::Fault::Unauthorized { code: 401 };
    server.world().refuses = Some(fault.clone());
    let connection = bridged(&server);
    let before = Instant::now();
    for method in ["initialize", "server/discover"] {
        let error = failed(ask(&connection, 1, method, &hello()).await.unwrap());
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.fault.as_deref(), Some(&fault));
    }
    assert!(before.elapsed() <= millis(100), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_greeting_of_a_server_that_says_nothing_fails_with_the_time() {
    let server = Remote::legacy().on("initialize", |_| Some(vec![Act::Stay]));
    let connection = to(&server).bridge_to(Arc::new(Kept::default())).build();
    let before = Instant::now();
    let error = failed(ask(&connection, 1, "initialize", &hello()).await.unwrap());
    assert!(before.elapsed() <= secs(60), "{:?}", before.elapsed());
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_greets_in_the_middle_of_an_outage_is_answered_by_the_next_session() {
    let server = Remote::legacy();
    let connection = bridged(&server);
    start(&connection).await;
    server.kill();
    until(&connection, |status| !status.is_ready()).await;
    let greeting = ask(&connection, 1, "initialize", &hello());
    sleep(secs(3)).await;
    server.revive();
    assert_eq!(answered(greeting.await.unwrap())["protocolVersion"], "2025-11-25");
    assert_eq!(server.count("initialize"), 2, "only our own");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_sends_by_itself_reaches_the_clients_inbox() {
    let server = Remote::legacy();
    let inbox = Arc::new(Kept::default());
    let connection = to(&server).bridge_to(inbox.clone()).build();
    start(&connection).await;
    server.say(json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    settle().await;
    let taken = inbox.0.lock().unwrap();
    assert_eq!(taken[0].frame.method(), Some("notifications/tools/list_changed"));
}
