//! A new session is told again what the old one was, once, before any call.

use regrow::core::{Fault, Requester};
use regrow::{CallError, ClientParams, Connection};
use regrow_testkit::script::{Act, Plan, refusal};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;

fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

async fn set_up(connection: &Connection) {
    for (method, params) in [
        ("logging/setLevel", json!({ "level": "info" })),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("resources/subscribe", json!({ "uri": "a://1" })),
        ("resources/subscribe", json!({ "uri": "a://2" })),
        ("resources/subscribe", json!({ "uri": "a://2" })),
        ("resources/unsubscribe", json!({ "uri": "a://1" })),
    ] {
        connection.request(method, Some(params)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_log_level_and_subscriptions_are_told_once_and_calls_leave_after_them() {
    let server = Server::always(Plan::default());
    let hello = ClientParams {
        client_info: json!({ "name": "ann" }),
        capabilities: json!({ "roots": {} }),
        legacy_version: None,
    };
    let connection = to(&server).client_params(hello).build();
    set_up(&connection).await;
    for start in 2..5 {
        server.die(killed());
        settle().await;
        work(&connection, json!({})).await.unwrap();
        assert_eq!(
            server.told(start),
            [
                "initialize",
                "notifications/initialized",
                "logging/setLevel",
                "resources/subscribe",
                "tools/call"
            ]
        );
    }
    let greetings: Vec<_> =
        server.heard_of("initialize").iter().map(|h| h.message["params"].clone()).collect();
    assert_eq!(greetings[0]["clientInfo"]["name"], "ann");
    assert!(greetings.iter().all(|params| *params == greetings[0]));
    assert_eq!(server.heard_of("logging/setLevel").last().unwrap().message["params"]["level"], "debug");
    assert_eq!(server.heard_of("resources/subscribe").last().unwrap().message["params"]["uri"], "a://2");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_was_in_flight_is_made_once() {
    let server = Server::new(|start| match start {
        1 => Plan::default().on("resources/subscribe", |_| vec![Act::Die(killed())]),
        _ => Plan::default(),
    });
    let connection = ready(&server).await;
    connection.request("resources/subscribe", Some(json!({ "uri": "a://1" }))).await.unwrap();
    assert_eq!(server.told(2), ["initialize", "notifications/initialized", "resources/subscribe"]);
}

async fn restarted_as(second: Plan) -> (CallError, usize) {
    let server = Server::new(move |start| if start == 1 { Plan::default() } else { second.clone() });
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.die(killed());
    settle().await;
    let error = work(&connection, json!({ "effect": "a" })).await.unwrap_err();
    tokio::time::sleep(secs(3600)).await;
    assert_eq!(server.effects("a"), 0);
    assert_eq!(state(&connection).name(), "parked");
    (error, server.starts().len())
}

#[tokio::test(start_paused = true)]
async fn another_version_is_a_fault_that_only_a_person_can_mend() {
    let (error, starts) = restarted_as(Plan { version: "2024-11-05", ..Plan::default() }).await;
    let changed = Fault::VersionChanged { was: "2025-11-25".into(), is: "2024-11-05".into() };
    assert_eq!(error.fault.as_deref(), Some(&changed));
    assert!(error.to_string().contains("restart this server in your host"), "{error}");
    assert_eq!(starts, 2, "it is not tried again by itself");
}

#[tokio::test(start_paused = true)]
async fn a_lost_capability_that_was_used_is_a_fault_and_one_that_was_not_is_none() {
    let (error, _) = restarted_as(Plan { capabilities: json!({ "resources": {} }), ..Plan::default() }).await;
    assert_eq!(error.fault.as_deref(), Some(&Fault::CapabilityLost { name: "tools".into() }));

    let server = Server::new(|start| match start {
        1 => Plan::default(),
        _ => Plan { capabilities: json!({ "tools": {} }), ..Plan::default() },
    });
    let connection = ready(&server).await;
    work(&connection, json!({})).await.unwrap();
    server.die(killed());
    settle().await;
    work(&connection, json!({})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_subscription_does_not_keep_the_session_from_serving() {
    let server = Server::new(|start| match start {
        1 => Plan::default(),
        _ => Plan::default()
            .on("resources/subscribe", |m| vec![Act::Say(refusal(&m["id"], -32002, "no such resource"))])
            .on("logging/setLevel", |_| vec![]),
    });
    let connection = ready(&server).await;
    set_up(&connection).await;
    server.die(killed());
    settle().await;
    work(&connection, json!({})).await.unwrap();
    tokio::time::sleep(secs(100)).await;
    let status = connection.status().borrow().clone();
    assert_eq!((status.sessions, status.pending), (2, 0));
    assert!(status.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_is_offered_the_version_that_was_agreed() {
    let server = Server::always(Plan { version: "2025-06-18", ..Plan::default() });
    let connection = ready(&server).await;
    connection.reconnect(Requester::Person);
    until(&connection, |status| status.sessions == 2).await;
    let offered: Vec<_> = server
        .heard_of("initialize")
        .iter()
        .map(|h| h.message["params"]["protocolVersion"].clone())
        .collect();
    assert_eq!(offered, ["2025-11-25", "2025-06-18"]);
}
