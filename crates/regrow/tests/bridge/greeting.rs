//! How client and server get to know each other, whatever either speaks.

use regrow::core::{Fault, Policy};
use regrow_testkit::script::{Plan, Speaks};
use regrow_testkit::server::Server;
use regrow_testkit::world::*;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::client::*;

#[tokio::test(start_paused = true)]
async fn a_legacy_client_shakes_hands_with_a_modern_server() {
    let server = Server::always(modern_server());
    let mut client = Client::of(&server);
    let answer = client.initialize("2025-03-26").await;
    let expected = json!({
        "protocolVersion": "2025-03-26",
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true },
            "logging": {},
        },
        "serverInfo": { "name": "fake", "version": "9" },
        "instructions": "be kind",
    });
    assert_eq!(answer["result"], expected);
    assert_eq!(server.told(1), ["initialize"], "its own era first");
    assert_eq!(server.told(2), ["server/discover"]);
    let meta = &server.heard_of("server/discover")[0].message["params"]["_meta"];
    assert_eq!(meta[INFO], json!({ "name": "old", "version": "1" }), "greeted in the client's name");
    assert_eq!(meta[CAPABILITIES], can());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_no_legacy_server_knows_is_answered_with_the_newest() {
    let server = Server::always(modern_server());
    let answer = Client::of(&server).initialize("2031-01-01").await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_discovers_a_legacy_server() {
    let server = Server::always(legacy_server());
    let mut client = Client::of(&server);
    let answer = client.ask(modern("d", "server/discover", json!({}))).await;
    let expected = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {
            "tools": { "listChanged": true },
            "resources": { "subscribe": true, "listChanged": true },
            "prompts": {},
            "logging": {},
        },
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "fake", "version": "1" } },
    });
    assert_eq!(answer["result"], expected);
    let greeting = &server.heard_of("initialize")[0].message["params"];
    assert_eq!(greeting["clientInfo"], json!({ "name": "new", "version": "2" }));
    assert_eq!(greeting["capabilities"], can());
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_need_not_discover_and_what_it_asks_first_waits_in_order() {
    for plan in [legacy_server(), modern_server()] {
        let server = Server::always(Plan { start_delay: secs(3), ..plan });
        let mut client = Client::of(&server);
        for id in 0..20 {
            client
                .send(modern(id, "tools/call", json!({ "name": "work", "arguments": { "say": id } })))
                .await;
        }
        for id in 0..20 {
            let answer = client.next().await;
            assert_eq!((&answer["id"], &answer["result"]["got"]), (&json!(id), &json!(id)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_tries_the_modern_era_first_and_falls_back_is_served() {
    // Such a client waits for ten seconds, and the server is silent for longer.
    let silent = Plan { speaks: Speaks::LegacySilentOnDiscover, ..legacy_server() };
    for plan in [silent, Plan { start_delay: secs(15), ..modern_server() }] {
        let server = Server::always(plan);
        let mut client = Client::of(&server);
        client.send(modern(1, "server/discover", json!({}))).await;
        sleep(secs(10)).await;
        client.send(initialize(2, "2025-11-25")).await;
        let late = client.next().await;
        assert_eq!((&late["id"], &late["result"]["resultType"]), (&json!(1), &json!("complete")));
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(2), &json!("2025-11-25")));
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        let listed = client.call("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"][0]["name"], "add");
        assert!(listed["result"]["ttlMs"].is_null(), "it lives in the legacy era now");
        let meta = &server.heard_of("tools/list")[0].message["params"]["_meta"];
        assert_eq!(meta[VERSION].is_string(), client.connection.is_modern());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_start_fails_all_that_wait_and_the_next_request_asks_again() {
    let fault_of = || Fault::NotFound { program: "x".into() };
    let server = Server::new(move |start| match start {
        1 => Plan { cannot_start: Some(fault_of()), spawn_delay: secs(1), ..legacy_server() },
        _ => legacy_server(),
    });
    let mut client = Client::of(&server);
    client.send(modern(1, "tools/call", json!({ "name": "work" }))).await;
    client.send(modern(2, "tools/list", json!({}))).await;
    let call = client.next().await;
    assert_eq!((&call["id"], &call["result"]["isError"]), (&json!(1), &json!(true)));
    assert_eq!(call["result"]["resultType"], "complete");
    assert_eq!((&fault(&call)["kind"], &fault(&call)["tool"]), (&json!("unavailable"), &json!("work")));
    assert_eq!(fault(&call)["delivery"], "not-sent");
    let list = client.next().await;
    assert_eq!((&list["id"], &list["error"]["code"]), (&json!(2), &json!(-31002)));
    sleep(secs(20)).await;
    let listed = client.modern_call("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "add");
}

#[tokio::test(start_paused = true)]
async fn while_a_server_fails_to_start_the_greeting_waits_on_with_the_calls_behind_it() {
    let server = Server::new(|start| match start {
        ..3 => Plan { cannot_start: Some(Fault::Exited { code: 1 }), ..modern_server() },
        _ => modern_server(),
    });
    let mut client = Client::of(&server);
    client.send(initialize(1, "2025-11-25")).await;
    client
        .send(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "work" } }))
        .await;
    let greeting = client.next().await;
    assert_eq!((&greeting["id"], &greeting["result"]["protocolVersion"]), (&json!(1), &json!("2025-11-25")));
    let call = client.next().await;
    assert_eq!((&call["id"], call["result"].is_object()), (&json!(2), true), "{call}");
    let meta = &server.heard_of("server/discover")[0].message["params"]["_meta"];
    assert_eq!(meta[INFO]["name"], "old", "greeted in the client's name");
}

#[tokio::test(start_paused = true)]
async fn a_first_start_that_fails_three_times_is_told_to_the_greeting() {
    let server = Server::always(Plan { cannot_start: Some(Fault::Exited { code: 1 }), ..modern_server() });
    for handshake in [initialize(1, "2025-11-25"), modern(1, "server/discover", json!({}))] {
        let before = server.starts().len();
        let mut client = Client::of(&server);
        client.send(handshake).await;
        let answer = client.next().await;
        let told = fault(&answer);
        assert_eq!((&told["kind"], &told["exitCode"]), (&json!("unavailable"), &json!(1)), "{answer}");
        assert_eq!(server.starts().len() - before, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_and_can_be_cancelled() {
    let server = Server::always(Plan { start_delay: secs(5), ..legacy_server() });
    let mut client = Client::of(&server);
    for id in 0..1025 {
        client.send(modern(id, "tools/call", json!({ "name": "work", "arguments": { "say": id } }))).await;
    }
    let refused = client.next().await;
    assert_eq!((&refused["id"], &fault(&refused)["kind"]), (&json!(1024), &json!("overloaded")));
    client.cancel(json!(3)).await;
    for id in (0..1024).filter(|id| *id != 3) {
        assert_eq!(client.next().await["id"], id);
    }
    assert_eq!(server.heard_of("tools/call").len(), 1023);
    client.hears_nothing(secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_call_runs_while_it_waits_for_the_era_of_its_server() {
    for plan in [legacy_server(), modern_server()] {
        let server = Server::always(Plan { start_delay: secs(2), ..plan });
        let mut client = Client::with(&server, Policy { call_timeout: Some(secs(5)), ..Policy::default() });
        let start = Instant::now();
        client
            .send(modern(1, "tools/call", json!({ "name": "work", "arguments": { "silent": true } })))
            .await;
        let answer = client.next().await;
        let fault = fault(&answer);
        assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("timeout"), &json!("unknown")), "{answer}");
        assert_eq!((start.elapsed().as_secs(), server.heard_of("tools/call").len()), (5, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_by_its_deadline_also_if_its_server_never_tells_its_era() {
    let server = Server::always(Plan { start_delay: secs(3600), ..modern_server() });
    let mut client = Client::with(&server, Policy { call_timeout: Some(secs(5)), ..Policy::default() });
    let start = Instant::now();
    client.send(modern(0, "server/discover", json!({}))).await;
    client.send(modern(1, "tools/call", json!({ "name": "work" }))).await;
    sleep(secs(2)).await;
    client.send(modern(2, "tools/list", json!({}))).await;
    for (id, ends_after) in [(1, 5), (2, 7)] {
        let answer = client.next().await;
        let fault = fault(&answer);
        assert_eq!((&answer["id"], &fault["kind"]), (&json!(id), &json!("timeout")), "{answer}");
        assert_eq!((&fault["delivery"], start.elapsed().as_secs()), (&json!("not-sent"), ends_after));
    }
    assert_eq!(client.next().await["id"], 0, "a greeting has the time of a handshake");
    assert_eq!(start.elapsed().as_secs(), Policy::default().connect_timeout.as_secs());
    assert!(server.heard_of("tools/call").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ping_before_the_handshake_tells_nothing_about_who_asks() {
    let server = Server::always(legacy_server());
    let mut client = Client::of(&server);
    assert_eq!(client.call("ping", json!({})).await["result"], json!({}));
    client.initialize("2025-11-25").await;
    assert_eq!(server.heard_of("initialize")[0].message["params"]["clientInfo"]["name"], "old");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_writes_in_one_go_keeps_its_order_and_nothing_of_it_is_lost() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let server = Server::always(Plan { speaks, strict: speaks == Speaks::Legacy, ..Plan::default() });
        let mut client = Client::of(&server);
        let roots = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
        let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
        client.send(initialize(1, "2025-06-18")).await;
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client.send(roots).await;
        client.send(list).await;
        let answers = [client.next().await, client.next().await];
        assert!(answers.iter().all(|answer| answer["result"].is_object()), "{speaks:?}: {answers:?}");
        settle().await;
        let told = server.told(server.starts().len());
        match speaks {
            Speaks::Modern => {
                assert_eq!(
                    told.iter().filter(|method| *method == "subscriptions/listen").count(),
                    1,
                    "{told:?}"
                );
            }
            _ => {
                let last = ["notifications/initialized", "notifications/roots/list_changed", "tools/list"];
                assert_eq!(told[told.len() - 3..], last, "{told:?}");
            }
        }
    }
}
