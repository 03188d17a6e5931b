//! Subscription streams: open for hours, through restarts, under one id.

use std::sync::Mutex;

use regrow::core::{Fault, Requester};
use regrow::{Connection, Era, ErrorKind, IncomingMessages, Outcome};
use regrow_protocol::frame::Frame;
use regrow_testkit::client::Stream;
use regrow_testkit::script::{Act, Plan, Speaks, answer, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn event(wire_id: &Value) -> Value {
    json!({ "method": "notifications/tools/list_changed", "params": { "_meta": { ID: wire_id } } })
}

async fn next(incoming: &mut IncomingMessages) -> (String, Value) {
    let frame = timeout(secs(1), incoming.next()).await.expect("it is there").unwrap().frame;
    let params: Value = serde_json::from_slice(frame.params().unwrap()).unwrap();
    (frame.method().unwrap().to_owned(), params["_meta"][ID].clone())
}

fn modern() -> Plan {
    Plan { speaks: Speaks::Modern, ..Plan::default() }
}

async fn connected(server: &Server) -> (Connection, IncomingMessages) {
    let connection = to(server).era(Era::Modern).build();
    start(&connection).await;
    let incoming = connection.incoming().unwrap();
    (connection, incoming)
}

#[tokio::test(start_paused = true)]
async fn a_stream_stays_open_for_hours_through_restarts_and_keeps_its_id() {
    let server = Server::always(modern());
    let (connection, mut incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, r#""listen-1""#);
    let acknowledged = "notifications/subscriptions/acknowledged";
    assert_eq!(next(&mut incoming).await, (acknowledged.to_owned(), json!("listen-1")));
    for hour in 1..10 {
        sleep(secs(3600)).await;
        match hour % 2 {
            0 => connection.reconnect(Requester::Person),
            _ => server.die(Fault::Killed { signal: 9 }),
        }
        until(&connection, |status| status.sessions == hour + 1).await;
        settle().await;
        let opened = server.heard_of("subscriptions/listen");
        assert_eq!(opened.len() as u64, hour + 1, "once in every session");
        server.say(event(&opened.last().unwrap().message["id"]));
        let changed = "notifications/tools/list_changed".to_owned();
        assert_eq!(next(&mut incoming).await, (changed, json!("listen-1")));
    }
    assert_eq!(stream.ends(), 0);
    assert_eq!(connection.status().borrow().budget_left, 4, "deaths hours apart never add up");
}

#[tokio::test(start_paused = true)]
async fn an_event_for_a_stream_of_an_earlier_session_goes_to_nobody() {
    let server = Server::always(modern());
    let (connection, mut incoming) = connected(&server).await;
    Stream::open(&connection, "7");
    next(&mut incoming).await;
    let old = server.heard_of("subscriptions/listen")[0].message["id"].clone();
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    settle().await;
    server.say(event(&old));
    assert!(timeout(secs(1), incoming.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_its_streams_when_it_is_replaced_ends_no_stream() {
    let server = Server::always(modern());
    let (connection, _incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, "7");
    settle().await;
    let wire = server.heard_of("subscriptions/listen")[0].message["id"].clone();
    let running = begin(&connection, json!({ "ms": 1000 }));
    settle().await;
    connection.reconnect(Requester::Person);
    settle().await;
    server.say(refusal(&wire, -32000, "Connection closed"));
    running.await.unwrap().unwrap();
    until(&connection, |status| status.sessions == 2).await;
    settle().await;
    assert_eq!(stream.ends(), 0);
    assert_eq!(server.told(2), ["server/discover", "subscriptions/listen"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_the_server_the_client_or_the_connection_ends_it() {
    let server = Server::always(modern());
    let (connection, _incoming) = connected(&server).await;

    let (by_server, _) = Stream::open(&connection, "1");
    settle().await;
    let wire = server.heard_of("subscriptions/listen").last().unwrap().message["id"].clone();
    server.say(answer(&wire, json!({ "resultType": "complete", "_meta": { ID: wire } })));
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
    let wire = server.heard_of("subscriptions/listen").last().unwrap().message["id"].clone();
    assert_eq!(server.heard_of("notifications/cancelled")[0].message["params"]["requestId"], wire);

    let (by_us, _) = Stream::open(&connection, "3");
    settle().await;
    connection.close().await;
    let Some(Outcome::Failed(error)) = by_us.0.lock().unwrap().pop() else { panic!("not failed") };
    assert_eq!(error.kind, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stream_neither_hinders_a_drain_nor_makes_a_server_busy() {
    let server = Server::always(modern().on("server/discover", {
        let asked = Mutex::new(0);
        move |message| {
            let mut asked = asked.lock().unwrap();
            *asked += 1;
            match *asked {
                1 => vec![Act::Say(answer(&message["id"], json!({ "supportedVersions": ["2026-07-28"] })))],
                _ => vec![],
            }
        }
    }));
    let (connection, _incoming) = connected(&server).await;
    Stream::open(&connection, "1");
    sleep(secs(75)).await;
    let status = connection.status().borrow().clone();
    assert_eq!(status.last_fault.as_deref(), Some(&Fault::Silent { after: secs(70) }));
}

#[tokio::test(start_paused = true)]
async fn changed_tools_are_told_on_the_streams_that_asked_for_them() {
    let server = Server::new(|start| match start {
        1 => modern(),
        _ => Plan { tools: vec!["other"], ..modern() },
    });
    let (connection, mut incoming) = connected(&server).await;
    Stream::open(&connection, "\"s\u{200b}\"");
    next(&mut incoming).await;
    connection.request("tools/list", None).await.unwrap();
    server.die(Fault::Killed { signal: 9 });
    assert_eq!(
        next(&mut incoming).await,
        ("notifications/tools/list_changed".to_owned(), json!("s\u{200b}"))
    );
    assert!(timeout(secs(10), incoming.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_end_a_stream_by_cancelling_it() {
    let server = Server::always(modern());
    let (connection, mut incoming) = connected(&server).await;
    let (stream, _) = Stream::open(&connection, "\"s\u{200b}\""); // An invisible character is written back as it came.
    next(&mut incoming).await;
    let wire = server.heard_of("subscriptions/listen")[0].message["id"].clone();
    server.say(json!({ "method": "notifications/cancelled", "params": { "requestId": wire } }));
    settle().await;
    let Some(Outcome::Answered(end)) = stream.0.lock().unwrap().pop() else { panic!("not ended") };
    let result: Value = serde_json::from_slice(end.result().unwrap()).unwrap();
    assert_eq!(result, json!({ "resultType": "complete", "_meta": { ID: "s\u{200b}" } }));
    assert_eq!(connection.status().borrow().pending, 0);
    server.die(Fault::Killed { signal: 9 });
    until(&connection, |status| status.sessions == 2).await;
    settle().await;
    assert_eq!(server.heard_of("subscriptions/listen").len(), 1, "it is over");
}
