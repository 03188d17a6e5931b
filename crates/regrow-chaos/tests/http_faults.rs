//! What goes wrong over HTTP, as planned.
#![cfg(unix)]

mod common;

use std::time::{Duration, Instant};

use common::LIMIT;
use common::http::{Site, request, site};
use serde_json::json;

fn count(site: &Site) -> common::http::Answer {
    let session = site.session();
    site.call(&session, "count", json!({"key": "a"}))
}

#[test]
fn statuses_are_answered_as_often_as_planned_with_and_without_a_time_to_wait() {
    let site = site("status=429 times=1 retry-after=7 on=tools/call");
    let refused = count(&site);
    assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("7")));
    assert_eq!(count(&site).result(), "1");
    site.journal.set_control("status=503 retry-after-date=60 !retry-after").unwrap();
    assert!(count(&site).header("retry-after").unwrap().ends_with(" GMT"));
    assert_eq!(site.journal.refused(429), ["tools/call"]);
    assert_eq!(site.journal.runs("count"), 1);
}

#[test]
fn refusals_have_every_kind_of_body() {
    for (body, kind, part) in [
        ("text", Some("text/plain"), "refused as planned"),
        ("rpc", Some("application/json"), "\"id\":7,\"error\":{\"code\":-32601"),
        ("rpc-null", Some("application/json"), "\"id\":null"),
        ("json", Some("application/json"), "{\"error\":"),
        ("html", Some("text/html; charset=utf-8"), "<h1>It works!"),
        ("empty", None, ""),
    ] {
        let answer = count(&site(&format!("status=404 on=tools/call body={body}")));
        assert_eq!((answer.status(), answer.header("content-type")), (404, kind));
        assert!(answer.body.contains(part), "{answer:?}");
    }
}

#[test]
fn a_token_is_demanded_and_may_change() {
    let site = site("need-token=first");
    let hello = request(1, "initialize", json!({"protocolVersion": "2025-11-25"})).to_string();
    let ask =
        |token: &str| site.ask("POST", "/mcp", &[("Authorization", &format!("Bearer {token}"))], &hello);
    assert_eq!((ask("first").status(), ask("second").status()), (200, 401));
    assert!(ask("second").header("www-authenticate").unwrap().starts_with("Bearer "));
    site.journal.set_control("need-token=second").unwrap();
    assert_eq!((ask("first").status(), ask("second").status()), (401, 200));
    assert_eq!(site.journal.refused(401).len(), 3);
    assert_eq!(site.journal.authorizations()[0], "initialize Bearer first");
}

#[test]
fn redirects_lead_to_another_path_or_another_origin() {
    let site = site("redirect");
    let answer = count_without_session(&site, "/mcp");
    assert_eq!(
        (answer.status(), answer.header("location")),
        (307, Some(&format!("http://127.0.0.1:{}/moved", site.port)[..]))
    );
    assert_eq!(count_without_session(&site, "/moved").status(), 400, "it serves there, and wants a session");
    site.journal.set_control("redirect=9").unwrap();
    assert_eq!(count_without_session(&site, "/mcp").header("location"), Some("http://127.0.0.1:9/mcp"));
}

fn count_without_session(site: &Site, path: &str) -> common::http::Answer {
    site.ask("POST", path, &[], &request(1, "tools/call", json!({"name": "count"})).to_string())
}

#[test]
fn a_request_or_its_answer_is_lost() {
    for (plan, runs) in [("drop-request", 0), ("drop-answer", 1), ("drop-answer answer=sse", 1)] {
        let site = site(&format!("{plan} on=tools/call"));
        let answer = count(&site);
        assert_eq!((answer.whole, &answer.head[..]), (false, ""), "{plan}");
        assert_eq!(site.journal.runs("count"), runs, "{plan}");
    }
    let site = site("swallow on=tools/call");
    let session = site.session();
    let mut wire = site.connect();
    wire.send(
        "POST",
        "/mcp",
        &[("Mcp-Session-Id", &session)],
        &request(1, "tools/call", json!({"name": "count"})).to_string(),
    );
    wire.socket.set_read_timeout(Some(common::QUIET)).unwrap();
    assert!(!wire.read_until("HTTP") && wire.text().is_empty());
    assert_eq!(site.journal.runs("count"), 0);
}

#[test]
fn answers_come_as_events_when_planned() {
    let answer = count(&site("answer=sse retry=1000000000000000000"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert!(answer.body.starts_with("retry: 1000000000000000000\n\n"), "{answer:?}");
    assert_eq!(answer.events()[0]["id"], 7);
    assert!(answer.whole);
}

#[test]
fn a_stream_is_cut_or_ends_without_an_answer() {
    for (plan, whole) in [("cut", false), ("finish", true)] {
        for (events, tool) in [(0, "count"), (1, "notify")] {
            let site = site(&format!("answer=sse {plan}={events} on=tools/call"));
            let session = site.session();
            let answer = site.call(&session, tool, json!({"n": 2}));
            assert_eq!(
                (answer.status(), answer.whole, answer.events().len()),
                (200, whole, events),
                "{plan}"
            );
            assert!(site.journal.wait(LIMIT, |journal| journal.runs(tool) == 1), "it runs all the same");
        }
    }
    let answer = count(&site("cut-body=20 on=tools/call"));
    assert_eq!((answer.whole, answer.body.len()), (false, 20));
}

#[test]
fn a_cut_stream_goes_on_where_it_stopped() {
    for plan in ["cut", "finish"] {
        let site = site(&format!("answer=sse event-ids prime {plan} on=tools/call"));
        let session = site.session();
        let mut wire = site.connect();
        wire.send(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &session)],
            &request(9, "tools/call", json!({"name": "notify", "arguments": {"n": 2}})).to_string(),
        );
        let first = wire.answer();
        let id = first.body.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
        let resumed = site.ask("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Last-Event-ID", &id)], "");
        assert_eq!((resumed.events().len(), resumed.whole), (3, true), "{resumed:?}");
        assert_eq!(resumed.events()[2]["id"], 9);
        let ids: Vec<_> = resumed.body.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        let again = site.ask("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Last-Event-ID", ids[1])], "");
        assert_eq!(again.events().len(), 1, "only what it has not seen");
        assert_eq!((site.journal.runs("notify"), site.journal.resumed()), (1, vec![id, ids[1].to_owned()]));
    }
}

#[test]
fn a_resumed_stream_waits_for_an_answer_that_is_not_there_yet() {
    let site = site("answer=sse event-ids prime cut on=tools/call");
    let session = site.session();
    let answer = site.call(&session, "slow", json!({"ms": 300}));
    assert!(!answer.whole);
    let id = answer.body.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    let resumed = site.ask("GET", "/mcp", &[("Mcp-Session-Id", &session), ("Last-Event-ID", &id)], "");
    assert_eq!(resumed.events()[0]["id"], 7);
}

#[test]
fn bytes_come_slowly() {
    for (plan, begin) in [("drip-head=10ms", ""), ("drip-body=10ms", "HTTP/1.1 200")] {
        let site = site(&format!("{plan} on=tools/call"));
        let session = site.session();
        let mut wire = site.connect();
        let start = Instant::now();
        wire.send(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &session)],
            &request(1, "tools/call", json!({"name": "count"})).to_string(),
        );
        assert!(wire.read_until(begin));
        assert!(wire.answer().whole);
        assert!(start.elapsed() > Duration::from_millis(500), "{plan}: {:?}", start.elapsed());
    }
}

#[test]
fn answers_are_larger_than_anybody_wants() {
    let bomb = count(&site("bomb=10MB on=tools/call"));
    assert_eq!((bomb.header("content-encoding"), bomb.whole), (Some("gzip"), true));
    assert!(bomb.body.len() < 300_000);
    let event = count(&site("endless=1MB on=tools/call"));
    assert!(event.body.starts_with("data: xxx") && event.body.len() > 1_000_000);
    let plain = site("");
    let session = plain.session();
    assert_eq!(plain.call(&session, "huge", json!({"bytes": 300_000, "id": "last"})).result().len(), 300_000);
    let events = site("answer=sse");
    let session = events.session();
    let answer = events.call(&session, "huge", json!({"bytes": 300_000}));
    assert_eq!(answer.events()[0]["result"]["content"][0]["text"].as_str().unwrap().len(), 300_000);
}

#[test]
fn answers_have_ids_that_nobody_asked_with() {
    assert_eq!(count(&site("answer-id=5 on=tools/call")).json()["id"], 5);
    let site = site("");
    let session = site.session();
    let ids = |tool| {
        site.call(&session, tool, json!({}))
            .events()
            .iter()
            .map(|event| event["id"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids("dup"), [json!(7), json!(7)]);
    assert_eq!(ids("stray"), [json!(987_654_321), json!("nobody"), json!(7)]);
    let broken = site.call(&session, "malformed", json!({}));
    assert!(broken.whole && serde_json::from_str::<serde_json::Value>(&broken.body).is_err());
}

#[test]
fn pings_are_not_understood_in_three_ways() {
    let ping = |plan| {
        let site = site(plan);
        let session = site.session();
        let mut wire = site.connect();
        wire.send(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &session)],
            &request(1, "ping", json!({})).to_string(),
        );
        wire.socket.set_read_timeout(Some(common::QUIET)).unwrap();
        wire.read_until("}}").then(|| wire.answer().json()["error"]["code"].clone())
    };
    assert_eq!(ping("no-ping"), Some(json!(-32601)));
    assert_eq!(ping("invalid-ping"), Some(json!(-32600)));
    assert_eq!(ping("silent-ping"), None);
}

#[test]
fn a_hung_server_still_accepts() {
    let site = site("hang-after=1");
    let session = site.session();
    let mut wire = site.connect();
    wire.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &request(1, "ping", json!({})).to_string());
    wire.socket.set_read_timeout(Some(common::QUIET)).unwrap();
    assert!(!wire.read_until("HTTP") && wire.text().is_empty());
}

#[test]
fn death_in_the_middle_is_seen_before_the_head_or_in_the_stream() {
    for (plan, head) in [("", false), ("answer=sse", true)] {
        let site = site(plan);
        let session = site.session();
        let answer = site.call(&session, "die", json!({"key": "a", "how": "kill"}));
        assert_eq!((answer.whole, answer.head.starts_with("HTTP/1.1 200")), (false, head));
        assert!(site.journal.wait(LIMIT, |journal| journal.alive().is_empty()));
        assert_eq!(site.journal.runs_with("die", "a"), 1);
    }
}

#[test]
fn idle_connections_are_closed_when_planned() {
    for (plan, reused) in [("close-idle", false), ("close-idle=10s", true)] {
        let site = site(plan);
        let session = site.session();
        let mut wire = site.connect();
        let ping = request(1, "ping", json!({})).to_string();
        wire.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &ping);
        assert!(wire.answer().whole);
        if reused {
            wire.send("POST", "/mcp", &[("Mcp-Session-Id", &session)], &ping);
        }
        assert_eq!(wire.answer().whole, reused, "{plan}");
    }
}
