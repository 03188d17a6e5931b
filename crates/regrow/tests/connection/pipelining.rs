//! Notifications of a client keep their place among its requests, also while there is no session.

use std::sync::Arc;

use regrow::core::{Fault, Policy};
use regrow::{Connection, ErrorStyle, Port, Status, relay};
use regrow_testkit::script::{Act, Plan};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex};
use tokio::time::timeout;

/// A client that greets the server itself, as behind `regrow wrap`.
struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    connection: Connection,
}

impl Client {
    fn of(server: &Server, policy: Policy) -> Client {
        let (input, far_input) = duplex(1 << 20);
        let (far_output, output) = duplex(1 << 20);
        let port: Arc<Port> = Port::new("fake", far_output, ErrorStyle::Tool, 1 << 20);
        let connection = to(server).policy(policy).relay_to(port.clone()).build();
        connection.start();
        let upstream = connection.clone();
        tokio::spawn(async move { relay(&upstream, &port, far_input).await });
        Client { input, output: BufReader::new(output).lines(), connection }
    }

    /// Writes them in one go.
    async fn write(&mut self, messages: &[Value]) {
        let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
        self.input.write_all(lines.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let line = timeout(secs(60), self.output.next_line()).await.expect("something is said");
        serde_json::from_str(&line.unwrap().expect("the relay lives")).unwrap()
    }

    /// The session is lost, and the next one is on its way.
    async fn lose(&mut self, server: &Server) {
        server.die(Fault::Killed { signal: 9 });
        until(&self.connection, |status: &Status| !status.is_ready()).await;
    }
}

fn initialize() -> Value {
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "ann" } });
    json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })
}

fn list() -> Value {
    json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" })
}

fn note(name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{name}"), "params": {} })
}

const SMOKE_TEST: [&str; 3] = ["initialize", "notifications/initialized", "tools/list"];

#[tokio::test(start_paused = true)]
async fn what_a_client_writes_in_one_go_reaches_a_strict_server_in_its_order() {
    let server = Server::always(Plan { strict: true, spawn_delay: secs(1), ..Plan::default() });
    let mut client = Client::of(&server, policy());
    client.write(&[initialize(), note("initialized"), list()]).await;
    let answers = [client.next().await, client.next().await];
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
    assert_eq!(server.told(1), SMOKE_TEST);
}

#[tokio::test(start_paused = true)]
async fn it_reaches_the_next_server_in_the_same_order_if_the_first_dies_of_the_handshake() {
    let server = Server::new(|start| {
        let plan = Plan { strict: true, ..Plan::default() };
        match start {
            1 => plan.on("initialize", |_| vec![Act::Die(Fault::Exited { code: 1 })]),
            _ => plan,
        }
    });
    let mut client = Client::of(&server, policy());
    client.write(&[initialize(), note("initialized"), list()]).await;
    let answers = [client.next().await, client.next().await];
    assert!(answers.iter().all(|answer| answer["result"].is_object()), "{answers:?}");
    assert_eq!(server.told(server.starts().len()), SMOKE_TEST);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_exits_without_reading_is_never_ready_and_reported_to_all_that_was_written() {
    let exits = Plan::default().dies_after(millis(50), Fault::Exited { code: 1 });
    let server = Server::always(Plan { start_delay: secs(9), stderr: vec!["TOKEN missing".into()], ..exits });
    let mut client = Client::of(&server, policy());
    let was_ready = tokio::spawn({
        let connection = client.connection.clone();
        async move { until(&connection, Status::is_ready).await }
    });
    client.write(&[initialize(), note("initialized"), list()]).await;
    let answers = [client.next().await, client.next().await];
    for answer in &answers {
        let fault = &answer["error"]["data"]["dev.regrow/fault"];
        assert_eq!(
            (&fault["cause"], &fault["stderr"]),
            (&json!("exited"), &json!(["TOKEN missing"])),
            "{answer}"
        );
    }
    assert_eq!(server.starts().len(), 3);
    assert!(!was_ready.is_finished(), "a handshake without a response is no session");
}

#[tokio::test(start_paused = true)]
async fn what_follows_a_refused_handshake_is_answered() {
    let server = Server::always(Plan::default().on("initialize", |message| {
        vec![Act::Say(regrow_testkit::script::refusal(&message["id"], -32000, "no licence"))]
    }));
    let mut client = Client::of(&server, policy());
    client.write(&[initialize(), note("initialized"), list()]).await;
    let answers = [client.next().await, client.next().await];
    assert_eq!(answers[0]["error"]["code"], -32000, "{answers:?}");
    assert!(answers[1]["result"].is_object(), "{answers:?}");
    assert!(client.connection.status().borrow().is_ready());
}

#[tokio::test(start_paused = true)]
async fn during_a_restart_what_means_something_to_the_next_session_waits_for_it_and_the_rest_is_counted() {
    let server = Server::new(|start| Plan {
        strict: true,
        spawn_delay: if start == 1 { secs(0) } else { secs(5) },
        ..Plan::default()
    });
    let mut client = Client::of(&server, policy());
    client.write(&[initialize()]).await;
    client.next().await;
    // It dies before the client says that the handshake is complete: then we say so, once.
    client.lose(&server).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "work" } });
    let cancelled =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "work" } });
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } });
    client
        .write(&[
            note("initialized"),
            cancelled,
            note("roots/list_changed"),
            call,
            note("progress"),
            note("custom"),
            cancel,
        ])
        .await;
    assert_eq!(client.next().await["id"], 1);
    settle().await;
    assert_eq!(
        server.told(2),
        [
            "initialize",
            "notifications/initialized",
            "notifications/roots/list_changed",
            "tools/call",
            "notifications/custom"
        ]
    );
    client.connection.close().await;
    assert_eq!(client.connection.status().borrow().anomalies.undelivered, 1, "progress of a dead session");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_without_a_session_is_bounded_and_counted() {
    let server = Server::always(Plan { spawn_delay: secs(5), ..Plan::default() });
    let mut client = Client::of(&server, Policy { max_calls: 10, ..policy() });
    client.write(&vec![note("custom"); 25]).await;
    client.write(&[initialize()]).await;
    client.next().await;
    assert_eq!(server.heard_of("notifications/custom").len(), 10);
    client.connection.close().await;
    assert_eq!(client.connection.status().borrow().anomalies.undelivered, 15);
}
