//! Clients of either era in front of servers of either era, one client or many.

use std::time::Duration;

use regrow_gateway::Clients::{Many, One};
use regrow_gateway::config::Sessions;
use serde_json::json;
use tokio::time::Instant;

use crate::fake::Fake;
use crate::guest::*;
use crate::house::House;

#[tokio::test(start_paused = true)]
async fn every_client_works_with_every_server() {
    for (clients, sessions) in [(One, Sessions::Shared), (Many, Sessions::Shared), (Many, Sessions::Private)]
    {
        let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
        let house = House::with(clients, &[&a, &b], |options| options.sessions = sessions);
        let mut guests = vec![Guest::legacy(&house.gateway).await];
        if clients == Many {
            guests.push(Guest::modern(&house.gateway));
        } else {
            guests = vec![Guest::modern(&house.gateway)];
        }
        for guest in &guests {
            assert_eq!(guest.tools().await.len(), 18, "{clients:?}");
            for name in ["a", "b"] {
                assert_eq!(guest.call(&format!("{name}__echo"), "x").await, format!("{name}: x"));
                let params = json!({ "uri": format!("{name}://listed") });
                let read = guest.ask("resources/read", params).await;
                assert_eq!(read["result"]["contents"][0]["text"], format!("{name}: {name}://listed"));
                let wrong = guest.ask("resources/read", json!({ "uri": format!("regrow://{name}/x") })).await;
                assert!(wrong["error"].is_object(), "{wrong}");
            }
            // The modern era has no ping.
            let ping = guest.ask("ping", json!({})).await;
            match guest.modern {
                true => assert_eq!(ping["error"]["code"], -32601),
                false => assert_eq!(ping["result"], json!({})),
            }
        }
        assert_eq!(b.count("initialize"), 0);
        assert!(
            a.heard_of("tools/call")
                .iter()
                .all(|call| { call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null() })
        );
        assert!(b.heard_of("tools/call").iter().all(|call| {
            call["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_told_in_its_own_era_what_all_servers_can_do_together() {
    let (a, b) = (Fake::legacy("a"), Fake::modern("b"));
    a.world().capabilities = json!({ "tools": {} });
    b.world().capabilities = json!({ "prompts": {} });
    let house = House::new(Many, &[&a, &b]);
    let legacy = Guest::legacy(&house.gateway).await;
    legacy.tools().await;
    let welcome = legacy.greet().await;
    assert_eq!(welcome["result"]["serverInfo"]["name"], "regrow");
    assert_eq!(welcome["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(welcome["result"]["capabilities"]["tools"]["listChanged"], true);
    assert!(welcome["result"]["capabilities"]["prompts"].is_object(), "{welcome}");
    let modern = Guest::modern(&house.gateway);
    let discovered = modern.ask("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(discovered["result"]["resultType"], "complete");
    let params = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "2027-01-01" } });
    let wrong = legacy.ask("tools/list", params).await;
    assert_eq!(wrong["error"]["code"], -32022);
}

#[tokio::test(start_paused = true)]
async fn servers_greeted_later_are_told_what_the_client_said_before() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::with(Many, &[&a, &b], |options| options.sessions = Sessions::Private);
    let guest = Guest::legacy(&house.gateway).await;
    guest.tools().await;
    assert_eq!(guest.ask("logging/setLevel", json!({ "level": "warning" })).await["result"], json!({}));
    assert_eq!(guest.ask("logging/setLevel", json!({ "level": "loud" })).await["error"]["code"], -32602);
    guest.call("b__echo", "x").await;
    settle().await;
    assert_eq!((a.starts(), b.starts()), (1, 2), "its own session, beside that which keeps the catalog");
    let own = b.heard_in(1, "initialize");
    assert_eq!(own[0]["params"]["capabilities"]["sampling"], json!({}), "it is the client's own greeting");
    assert_eq!(b.heard_in(1, "logging/setLevel")[0]["params"]["level"], "warning");
    assert_eq!(b.heard_in(1, "notifications/initialized").len(), 1);
    assert_eq!(b.heard_in(0, "initialize")[0]["params"]["capabilities"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn the_level_of_a_shared_session_is_the_most_verbose_and_its_logs_are_the_operator_s() {
    let (a, b) = (Fake::legacy("a"), Fake::legacy("b"));
    let house = House::new(Many, &[&a, &b]);
    let quiet = Guest::legacy(&house.gateway).await;
    let loud = Guest::legacy(&house.gateway).await;
    quiet.tools().await;
    for (guest, level) in [(&quiet, "error"), (&loud, "debug")] {
        guest.call("a__echo", "x").await;
        guest.ask("logging/setLevel", json!({ "level": level })).await;
    }
    quiet.ask("logging/setLevel", json!({ "level": "warning" })).await;
    settle().await;
    let told: Vec<_> =
        a.heard_of("logging/setLevel").iter().map(|set| set["params"]["level"].clone()).collect();
    assert_eq!(told.last(), Some(&json!("debug")), "{told:?}");
    quiet.call("a__log", "for the operator").await;
    settle().await;
    assert_eq!((quiet.methods().len(), loud.methods().len()), (0, 0));
    use regrow_gateway::operate::Operate;
    let logs = house.gateway.logs("a").expect("it is there");
    assert!(logs.iter().any(|line| line.contains("for the operator")), "{logs:?}");
    assert_eq!(b.count("logging/setLevel"), 0, "nobody sits there");
}

#[tokio::test(start_paused = true)]
async fn the_words_of_a_single_server_are_repeated_as_soon_as_it_has_said_them() {
    for clients in [One, Many] {
        for modern in [false, true] {
            let a = Fake::new("a", modern);
            a.world().start_takes = Duration::from_secs(1);
            let house = House::new(clients, &[&a]);
            let guest = Guest::modern(&house.gateway);
            let start = Instant::now();
            let discovered = guest.ask("server/discover", json!({})).await;
            assert_eq!(discovered["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "a");
            assert!(discovered["result"]["capabilities"]["completions"].is_object(), "{discovered}");
            assert!(start.elapsed() < Duration::from_secs(2), "{clients:?}: {:?}", start.elapsed());
        }
    }
}
