//! A client that closes its input still reads: what it wrote is answered before the relay ends.

use std::io;
use std::sync::Arc;

use regrow::core::{Fault, Manner};
use regrow::{Bridge, Connection, Era, ErrorStyle, Port, Upstream, relay};
use regrow_testkit::script::{Act, Plan, answer};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{fault, initialize, legacy_server, modern_server};

/// A client that has written everything it will ever write.
struct Script {
    output: DuplexStream,
    port: Arc<Port>,
    connection: Connection,
    relayed: JoinHandle<io::Result<()>>,
    input: Option<DuplexStream>,
}

impl Script {
    async fn of(server: &Server, bridged: bool, lines: &[String]) -> Script {
        let mut script = Script::open(server, bridged, 1 << 20, lines).await;
        script.input = None;
        script
    }

    /// Its input stays open, and `room` is how much of the output fits into its pipe.
    async fn open(server: &Server, bridged: bool, room: usize, lines: &[String]) -> Script {
        let (mut input, far_input) = duplex(4 << 20);
        let (far_output, output) = duplex(room);
        let port = Port::new("fake", far_output, ErrorStyle::Tool, 4 << 20);
        let builder = to(server).policy(policy());
        let (upstream, connection): (Arc<dyn Upstream + Send + Sync>, Connection) = match bridged {
            true => {
                let (bridge, connection) = Bridge::build(builder.era(Era::Auto), port.clone());
                (bridge, connection)
            }
            false => {
                let connection = builder.relay_to(port.clone()).build();
                (Arc::new(connection.clone()), connection)
            }
        };
        let told = port.clone();
        let relayed = tokio::spawn(async move { relay(&*upstream, &told, far_input).await });
        input.write_all(lines.join("\n").as_bytes()).await.unwrap();
        Script { output, port, connection, relayed, input: Some(input) }
    }

    /// Waits for the relay to end, and for the connection after it, as `wrap` does. All that the client can read, and whether that
    /// is everything.
    async fn end(self) -> (Vec<Value>, bool) {
        let Script { output, port, connection, relayed, input } = self;
        let read = tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            let mut read = vec![];
            while let Ok(Some(line)) = lines.next_line().await {
                read.push(serde_json::from_str(&line).unwrap());
            }
            read
        });
        timeout(secs(7200), relayed).await.expect("the relay ends").unwrap().unwrap();
        connection.close_in(Manner::ClientLeft).await;
        port.finish(millis(300)).await;
        let complete = port.has_answered_all();
        drop((connection, port, input));
        (timeout(secs(60), read).await.expect("nobody holds the output").unwrap(), complete)
    }
}

fn hello() -> String {
    initialize(0, "2025-11-25").to_string()
}

fn work(id: u64, arguments: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "work", "arguments": arguments } })
        .to_string()
}

/// The ids of the responses, in order of id.
fn answered(read: &[Value]) -> Vec<u64> {
    let mut ids: Vec<u64> = read
        .iter()
        .filter(|message| message.get("method").is_none())
        .map(|message| message["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

/// What the server was answered to its question `q`.
fn answer_to_question(server: &Server) -> Option<String> {
    server.heard().into_iter().find(|heard| heard.message["id"] == "q").map(|heard| heard.line)
}

#[tokio::test(start_paused = true)]
async fn everything_that_was_written_before_the_end_of_input_is_answered() {
    for bridged in [false, true] {
        let server = Server::always(legacy_server());
        let mut lines = vec![hello()];
        lines.extend((1..=1000).map(|id| work(id, json!({ "ms": 10 }))));
        let (read, complete) = Script::of(&server, bridged, &lines).await.end().await;
        assert_eq!(answered(&read), (0..=1000).collect::<Vec<_>>(), "bridged: {bridged}");
        assert!(complete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_slowly_gets_all_of_a_large_call() {
    for bridged in [false, true] {
        let server = Server::always(Plan { start_delay: secs(15), ..legacy_server() });
        let large = "x".repeat(1 << 20);
        let lines = [hello(), work(1, json!({ "say": large, "effect": "large" }))];
        let (read, complete) = Script::of(&server, bridged, &lines).await.end().await;
        assert_eq!(answered(&read), [0, 1], "bridged: {bridged}");
        assert_eq!(read[1]["result"]["got"].as_str().map(str::len), Some(1 << 20));
        assert_eq!((server.effects("large"), complete), (1, true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_answered_at_its_deadline() {
    let server = Server::always(legacy_server());
    let began = Instant::now();
    let lines = [hello(), work(1, json!({ "silent": true }))];
    let (read, complete) = Script::of(&server, false, &lines).await.end().await;
    assert_eq!((&read[1]["id"], &fault(&read[1])["kind"]), (&json!(1), &json!("timeout")));
    assert!(began.elapsed() < secs(303), "{:?}", began.elapsed());
    assert!(complete, "a typed answer is an answer");
}

#[tokio::test(start_paused = true)]
async fn with_nothing_unanswered_the_relay_ends_at_once() {
    let server = Server::always(legacy_server());
    let mut script = Script::open(&server, false, 1 << 20, &[hello() + "\n"]).await;
    sleep(secs(10)).await;
    script.input = None;
    let left = Instant::now();
    (&mut script.relayed).await.unwrap().unwrap();
    assert!(left.elapsed() < millis(10), "{:?}", left.elapsed());
    assert!(script.port.has_answered_all());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_after_the_end_of_input_is_replaced_and_every_call_gets_an_answer() {
    let server = Server::new(|start| match start {
        1 => legacy_server().dies_after(secs(5), Fault::Killed { signal: 9 }),
        _ => legacy_server(),
    });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    let lines = [hello(), work(1, json!({ "ms": 20_000, "effect": "once" })), list];
    let (read, complete) = Script::of(&server, false, &lines).await.end().await;
    assert_eq!(answered(&read), [0, 1, 2]);
    let died = read.iter().find(|message| message["id"] == 1).unwrap();
    assert_eq!((&fault(died)["kind"], server.effects("once")), (&json!("interrupted"), 1));
    assert!(complete);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_after_the_end_of_input_is_answered_for_the_client() {
    let kinds = [("elicitation/create", "cancel"), ("sampling/createMessage", "error"), ("ping", "{}")];
    for (method, expected) in kinds {
        // It answers the call when its own question was answered.
        let server = Server::always(legacy_server().on("tools/call", move |_| {
            let question = json!({ "jsonrpc": "2.0", "id": "q", "method": method, "params": {} });
            vec![Act::Wait(secs(5)), Act::Say(question)]
        }));
        let script = Script::of(&server, false, &[hello(), work(1, json!({}))]).await;
        sleep(secs(6)).await;
        let told = answer_to_question(&server).expect("an answer");
        assert!(told.contains(expected), "{method}: {told}");
        drop(script);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_open_at_the_end_of_input_does_not_keep_the_call() {
    let server = Server::always(legacy_server().on("tools/call", |_| {
        let question = json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {} });
        vec![Act::Say(question)]
    }));
    let lines = [hello(), work(1, json!({})) + "\n"];
    let mut script = Script::open(&server, false, 1 << 20, &lines).await;
    sleep(secs(6)).await;
    assert_eq!(answer_to_question(&server), None);
    script.input = None;
    settle().await;
    let told = answer_to_question(&server).expect("an answer");
    assert!(told.contains(r#""action":"cancel""#), "{told}");
}

#[tokio::test(start_paused = true)]
async fn input_that_a_modern_server_requires_ends_the_call_of_a_legacy_client_that_cannot_answer() {
    let server = Server::always(modern_server().on("tools/call", |message| {
        let inputs = json!({ "r": { "method": "roots/list" } });
        let result = json!({ "resultType": "input_required", "inputRequests": inputs });
        vec![Act::Wait(secs(1)), Act::Say(answer(&message["id"], result))]
    }));
    let began = Instant::now();
    let (read, _) = Script::of(&server, true, &[hello(), work(1, json!({}))]).await.end().await;
    assert_eq!(answered(&read), [0, 1]);
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_not_waited_for() {
    let server = Server::always(Plan { speaks: regrow_testkit::script::Speaks::Both, ..legacy_server() });
    let listen = json!({ "notifications": { "toolsListChanged": true } });
    let lines = [
        crate::client::modern(1, "server/discover", json!({})).to_string(),
        crate::client::modern("s", "subscriptions/listen", listen).to_string() + "\n",
    ];
    let mut script = Script::open(&server, false, 1 << 20, &lines).await;
    sleep(secs(10)).await;
    script.input = None;
    let left = Instant::now();
    (&mut script.relayed).await.unwrap().unwrap();
    assert!(left.elapsed() < millis(10), "{:?}", left.elapsed());
    assert!(script.port.has_answered_all(), "nobody waits for its end");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cancelled_is_not_waited_for() {
    let server = Server::always(legacy_server());
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    let lines = [hello(), work(1, json!({ "silent": true })), cancel.to_string()];
    let began = Instant::now();
    let (read, complete) = Script::of(&server, false, &lines).await.end().await;
    assert_eq!((answered(&read), complete), (vec![0], true));
    assert!(began.elapsed() < secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_large_notification_before_the_end_of_input_arrives_complete() {
    let server = Server::always(Plan { start_delay: millis(500), ..legacy_server() });
    let blank = "x".repeat(1 << 20);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "blank": blank } });
    let mut script = Script::open(&server, false, 1 << 20, &[hello() + "\n"]).await;
    sleep(secs(1)).await;
    script.input.as_mut().unwrap().write_all(note.to_string().as_bytes()).await.unwrap();
    script.input = None;
    script.end().await;
    assert_eq!(server.heard_of("notifications/x").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_gets_every_response() {
    let server = Server::always(legacy_server());
    let mut lines = vec![hello()];
    lines.extend((1..=50).map(|id| work(id, json!({ "say": "y".repeat(10_000) }))));
    let mut script = Script::open(&server, false, 1000, &lines).await;
    script.input = None;
    let mut read = vec![];
    let mut piece = [0; 1000];
    loop {
        sleep(millis(100)).await;
        match script.output.read(&mut piece).await.unwrap() {
            0 => break,
            length => read.extend_from_slice(&piece[..length]),
        }
        if read.iter().filter(|byte| **byte == b'\n').count() == 51 {
            break;
        }
    }
    (&mut script.relayed).await.unwrap().unwrap();
    assert!(script.port.has_answered_all());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closed_its_input_and_reads_nothing_is_not_waited_for_for_ever() {
    let server = Server::always(legacy_server());
    let lines = [hello(), work(1, json!({ "say": "y".repeat(10_000) }))];
    let mut script = Script::open(&server, false, 100, &lines).await;
    script.input = None;
    let began = Instant::now();
    (&mut script.relayed).await.unwrap().unwrap();
    assert!(began.elapsed() > secs(299) && began.elapsed() < secs(310), "{:?}", began.elapsed());
    assert!(!script.port.has_answered_all());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_read_ends_the_relay_although_its_input_is_open() {
    let server = Server::always(legacy_server());
    let lines = [hello(), work(1, json!({ "ms": 1000 })), work(2, json!({ "silent": true })) + "\n"];
    let script = Script::open(&server, false, 1 << 20, &lines).await;
    let Script { output, port, relayed, input, .. } = script;
    settle().await;
    drop(output); // Nobody notices before something is written.
    let began = Instant::now();
    timeout(secs(60), relayed).await.expect("the relay ends").unwrap().unwrap();
    assert!(began.elapsed() < millis(1100), "{:?}", began.elapsed());
    assert!(!port.has_answered_all());
    drop(input);
}

#[tokio::test(start_paused = true)]
async fn the_relay_ends_when_it_is_told_that_nobody_reads() {
    let server = Server::always(legacy_server());
    let mut script = Script::open(&server, false, 1 << 20, &[hello() + "\n"]).await;
    sleep(secs(1)).await;
    script.port.nobody_reads();
    timeout(millis(1), &mut script.relayed).await.expect("the relay ends").unwrap().unwrap();
    assert!(script.port.has_answered_all(), "nothing was owed to it");
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_made_up_for_a_client_that_has_left_when_we_are_told_to_end() {
    let server = Server::always(legacy_server());
    let lines = [hello(), work(1, json!({ "silent": true }))];
    let Script { mut output, port, connection, relayed, .. } = Script::of(&server, false, &lines).await;
    sleep(secs(1)).await;
    relayed.abort();
    let _ = relayed.await;
    connection.close_in(Manner::Told).await;
    port.finish(millis(300)).await;
    assert!(!port.has_answered_all());
    drop((connection, port));
    let mut read = String::new();
    output.read_to_string(&mut read).await.unwrap();
    assert_eq!(read.lines().count(), 1, "only the handshake was answered: {read}");
}
