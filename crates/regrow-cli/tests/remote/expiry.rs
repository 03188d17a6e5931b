//! Scenarios 29, 38 and 44 to 46: the server has forgotten the session, or refuses as if it had.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::slack;
use crate::site::{Era, Peer, Site};

/// Every way in which servers say that a session is gone, and that the request was not looked at.
const FLAVOURS: [&str; 6] = ["404", "404-text", "404-empty", "400", "400-bare", "400-text"];

/// Every kind of request that is not a tool call.
fn reads() -> Vec<(&'static str, Value)> {
    vec![
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "chaos://life" })),
        ("resources/subscribe", json!({ "uri": "chaos://life" })),
        ("resources/unsubscribe", json!({ "uri": "chaos://life" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "greet" })),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "greet" }, "argument": { "name": "name", "value": "a" } }),
        ),
        ("logging/setLevel", json!({ "level": "debug" })),
        ("ping", json!({})),
    ]
}

/// Forgets all sessions; nobody is told before the next request. (A stream that is open would tell.)
fn forget(site: &Site, generation: usize, flavour: &str) {
    site.control(&format!("no-get expiry={flavour} forget={generation}"));
}

#[test]
fn scenario_29_a_forgotten_session_costs_one_handshake_and_the_call_is_sent_again() {
    for flavour in FLAVOURS {
        let site = Site::new(Era::Legacy, "no-get");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        for round in 1..=2 {
            forget(&site, round, flavour);
            assert_eq!(peer.call("count", json!({ "key": "a" })), (round + 1).to_string(), "{flavour}");
            assert_eq!(site.journal.requests("initialize"), round + 1, "{flavour}: one more handshake");
            assert_eq!(site.journal.expired().iter().filter(|name| *name == "tools/call").count(), round);
        }
        assert_eq!(site.journal.runs("count"), 3, "{flavour}");
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_29_so_it_is_for_every_kind_of_request() {
    for flavour in ["404", "400"] {
        let site = Site::new(Era::Legacy, "no-get");
        let mut peer = site.connect();
        for (round, (method, params)) in reads().into_iter().enumerate() {
            peer.call("echo", json!({ "text": "the session is good" }));
            forget(&site, round + 1, flavour);
            let answer = peer.request(method, params);
            assert!(answer["result"].is_object(), "{flavour} {method}: {answer}");
            assert_eq!(site.journal.requests("initialize"), round + 2, "{flavour} {method}");
        }
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_29_a_restart_behind_a_stream_or_without_one() {
    for plan in ["", "no-get", "stateless"] {
        let mut site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        site.restart();
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "2", "{plan}");
        assert_eq!(site.journal.runs("count"), 2);
        peer.leave();
    }
}

#[test]
fn scenario_29_calls_at_once_on_a_forgotten_session_share_one_handshake() {
    let site = Site::new(Era::Legacy, "no-get");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "the session is good" }));
    forget(&site, 1, "404");
    let calls: Vec<_> = (0..20)
        .map(|number| format!("k{number}"))
        .map(|key| (peer.begin_call("count", json!({ "key": key })), key))
        .collect();
    for (id, key) in calls {
        let answer = peer.client.answer(id);
        // On a busy machine the server may take longer to refuse a call than we wait for it. Then it is not sent again.
        let told = fault(&answer);
        let late =
            told["cause"] == "session-expired" && told["delivery"] == "unknown" && slack() > Duration::ZERO;
        assert!(!is_failure(&answer) || late, "{answer}");
        assert_eq!(site.journal.runs_with("count", &key), usize::from(!is_failure(&answer)));
    }
    assert_eq!(site.journal.requests("initialize"), 2);
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_46_a_call_in_flight_when_the_session_is_forgotten_is_answered() {
    for plan in ["", "answer=sse"] {
        let site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        peer.call("echo", json!({ "text": "the session is good" }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.gets() == 1));
        let id = peer.begin_call("slow", json!({ "ms": 4000, "key": "a" }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
        site.end_session();
        assert_eq!(peer.call("count", json!({})), "1");
        assert_eq!(site.journal.requests("initialize"), 2, "the next session is there already");
        assert_eq!(peer.result(id), "slow");
        assert_eq!((site.journal.runs("slow"), site.journal.requests("initialize")), (1, 2));
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_46_a_call_on_a_forgotten_session_can_be_cancelled_and_ends_with_its_client() {
    let site = Site::new(Era::Legacy, "no-get");
    let mut peer = site.connect_with(&["--call-timeout", "6s"]);
    peer.call("echo", json!({ "text": "the session is good" }));
    let calls: Vec<u64> =
        ["a", "b"].iter().map(|key| peer.begin_call("slow", json!({ "ms": 60_000, "key": key }))).collect();
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 2));
    forget(&site, 1, "404");
    assert_eq!(peer.call("count", json!({})), "1");
    peer.client.notify("notifications/cancelled", json!({ "requestId": calls[0] }));
    let (_, told) = peer.client.failure(calls[1]);
    assert_eq!((&told["kind"], &told["delivery"]), (&json!("timeout"), &json!("unknown")), "{told}");
    assert_eq!(peer.call("count", json!({})), "2");
    peer.begin_call("slow", json!({ "ms": 60_000, "key": "c" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 3));
    forget(&site, 2, "404");
    assert_eq!(peer.call("count", json!({})), "3");
    let (code, _) = peer.client.leave();
    assert!(code.is_some(), "{}", peer.log());
    peer.client.marked.assert_none_left(Duration::from_secs(5));
}

/// Every way in which a tool can be refused as if the session were gone.
const REFUSALS: [(u16, &str); 5] =
    [(404, "text"), (404, "json"), (404, "empty"), (404, "rpc-null"), (400, "rpc-null")];

#[test]
fn scenario_44_one_tool_that_is_refused_is_sent_twice_at_most_and_nobody_else_notices() {
    for (status, body) in REFUSALS {
        let site = Site::new(Era::Legacy, "");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        let slow = peer.begin_call("slow", json!({ "ms": 3000, "key": "b" }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
        site.control(&format!("status={status} body={body} on=tools/call#echo"));
        for round in 1..=4 {
            let begun = Instant::now();
            let (text, told) = peer.failing_call("echo", json!({ "text": "x" }));
            assert!(begun.elapsed() < Duration::from_secs(5) + slack(), "{:?}", begun.elapsed());
            assert_eq!((&told["kind"], &told["httpStatus"]), (&json!("refused"), &json!(status)), "{told}");
            assert_eq!(told["delivery"], "unknown", "{told}");
            assert!(text.contains("may have run") && text.contains(&status.to_string()), "{text}");
            assert_eq!(site.journal.refused(status).len(), round + 1, "{status} {body}: sent twice once");
            assert_eq!(peer.call("count", json!({ "key": "a" })), (round + 1).to_string());
        }
        assert_eq!(peer.result(slow), "slow", "{status} {body}");
        assert_eq!(site.journal.requests("initialize"), 2, "{status} {body}");
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_44_where_a_refusal_proves_nothing_a_forgotten_session_is_found_out_all_the_same() {
    let site = Site::new(Era::Legacy, "no-get");
    let mut peer = site.connect();
    peer.call("count", json!({ "key": "a" }));
    site.control("no-get status=404 on=tools/call#echo");
    peer.failing_call("echo", json!({ "text": "x" }));
    for round in 1..=2 {
        forget(&site, round, "404-text");
        assert_eq!(peer.call("count", json!({ "key": "a" })), (round + 1).to_string());
        assert_eq!(site.journal.requests("initialize"), round + 2);
        assert_eq!(site.journal.requests("ping"), round, "the new session is pinged before it takes calls");
    }
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_44_without_a_session_id_no_status_is_an_expiry() {
    let site = Site::new(Era::Legacy, "stateless");
    let mut peer = site.connect();
    peer.call("count", json!({ "key": "a" }));
    for (status, body) in REFUSALS.into_iter().filter(|(_, body)| *body != "rpc-null") {
        site.control(&format!("stateless status={status} body={body} on=tools/call#echo"));
        let refused = site.journal.refused(status).len();
        let (text, told) = peer.failing_call("echo", json!({ "text": "x" }));
        assert_eq!((&told["httpStatus"], &told["delivery"]), (&json!(status), &json!("unknown")), "{told}");
        assert!(text.contains("may have run"), "{text}");
        assert_eq!(site.journal.refused(status).len(), refused + 1, "{status} {body}");
    }
    assert_eq!((peer.sessions(), site.journal.requests("initialize")), (1, 1));
    peer.leave();
}

#[test]
fn scenario_45_a_server_that_refuses_the_stream_has_none_and_keeps_its_session() {
    for status in [404, 400, 401, 403, 410] {
        let site = Site::new(Era::Legacy, &format!("status={status} on=GET"));
        let mut peer = site.connect();
        assert!(site.journal.wait(PATIENCE, |journal| !journal.refused(status).is_empty()));
        for number in 1..=8 {
            assert_eq!(peer.call("count", json!({ "key": "a" })), number.to_string(), "{status}");
        }
        assert_eq!((site.journal.requests("initialize"), site.journal.sessions().len()), (1, 1), "{status}");
        assert_eq!(peer.sessions(), 1);
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_29_an_idle_session_that_is_forgotten_is_noticed_without_a_call() {
    let site = Site::new(Era::Legacy, "");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "the session is good" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.gets() == 1));
    let (from, calls) = (peer.client.log().len(), site.journal.requests("tools/call"));
    site.end_session();
    peer.client.wait_for_log(from, "the server no longer knows the session");
    peer.client.wait_for_log(from, "ready (session");
    assert!(site.journal.wait(PATIENCE, |journal| journal.gets() >= 3), "it listens again");
    assert_eq!((site.journal.sessions().len(), site.journal.requests("tools/call")), (2, calls));
    assert_eq!(peer.call("change", json!({})), "change");
    peer.client.wait_for("notifications/tools/list_changed");
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_29_what_the_session_knew_is_told_again() {
    let site = Site::new(Era::Legacy, "");
    let mut peer = site.connect();
    peer.request("logging/setLevel", json!({ "level": "warning" }));
    peer.request("resources/subscribe", json!({ "uri": "chaos://life" }));
    site.control("forget=1");
    assert_eq!(peer.call("count", json!({})), "1");
    assert_eq!(site.journal.params("logging/setLevel"), vec![r#"{"level":"warning"}"#; 2]);
    assert_eq!(site.journal.requests("resources/subscribe"), 2);
    assert!(site.journal.wait(PATIENCE, |journal| journal.gets() >= 2));
    assert_eq!(peer.call("touch", json!({})), "1");
    peer.client.wait_for("notifications/resources/updated");
    peer.leave();
}

#[test]
fn scenario_29_said_inside_a_good_answer_only_what_is_safe_is_sent_again() {
    let site = Site::new(Era::Legacy, "no-get");
    let mut peer = site.connect_with(&["--safe-tool", "lookup"]);
    peer.call("echo", json!({ "text": "the session is good" }));
    let calls = site.journal.requests("tools/call");

    forget(&site, 1, "200");
    let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
    assert_eq!((&told["cause"], &told["delivery"]), (&json!("session-expired"), &json!("unknown")), "{told}");
    assert!(text.contains("may have run"), "{text}");
    peer.call("echo", json!({ "text": "a new session" }));
    assert_eq!(site.journal.requests("initialize"), 2);
    assert_eq!(site.journal.expired(), ["tools/call"], "asked once");
    assert_eq!(site.journal.runs("count"), 0);

    forget(&site, 2, "200");
    assert_eq!(peer.call("lookup", json!({ "key": "a" })), "1");
    assert_eq!(site.journal.requests("initialize"), 3);
    peer.call("echo", json!({ "text": "good again" }));
    forget(&site, 3, "200");
    assert!(peer.request("tools/list", json!({}))["result"].is_object());
    assert_eq!(site.journal.requests("initialize"), 4);
    assert_eq!(site.journal.requests("tools/call"), calls + 3);
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_29_plain_refusals_are_left_alone() {
    let site = Site::new(Era::Legacy, "");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "the session is good" }));
    // JSON-RPC errors, whatever the status: they are the server's answer.
    for (status, code) in [(400, -32602), (404, -32601), (500, -32603), (403, -32000)] {
        site.control(&format!("status={status} body=rpc on=tools/call|tools/list"));
        for (method, params) in
            [("tools/call", json!({ "name": "count", "arguments": {} })), ("tools/list", json!({}))]
        {
            let answer = peer.request(method, params);
            assert_eq!(answer["error"]["code"], code, "{status} {method}: {answer}");
            assert_eq!(answer["error"]["message"], "refused as planned");
        }
    }
    // A text is no answer. It is told with its status.
    for status in [400, 500, 410] {
        site.control(&format!("status={status} on=tools/call"));
        let (text, told) = peer.failing_call("count", json!({}));
        assert_eq!((&told["kind"], &told["httpStatus"]), (&json!("refused"), &json!(status)), "{told}");
        assert!(text.contains(&status.to_string()) && text.contains("refused as planned"), "{text}");
    }
    site.control("");
    assert_eq!(peer.call("count", json!({})), "1");
    assert_eq!(site.journal.requests("initialize"), 1, "{}", peer.log());
    peer.leave();
}

#[test]
fn scenario_29_in_the_modern_era_no_status_is_an_expiry() {
    let site = Site::new(Era::Modern, "");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "good" }));
    let greeted = peer.sessions();
    for (status, code) in [(404, -32601), (400, -32602)] {
        site.control(&format!("status={status} body=rpc on=tools/call"));
        let answer = peer.request("tools/call", json!({ "name": "count", "arguments": {} }));
        assert_eq!(answer["error"]["code"], code, "{answer}");
        site.control(&format!("status={status} body=text on=tools/call"));
        let answer = peer.request("tools/call", json!({ "name": "count", "arguments": {} }));
        assert!(is_failure(&answer), "{answer}");
        assert_eq!(fault(&answer)["httpStatus"], status, "{answer}");
    }
    assert_eq!(peer.request("no/such", json!({}))["error"]["code"], -32601);
    site.control("");
    assert_eq!(peer.call("count", json!({})), "1");
    assert_eq!(peer.sessions(), greeted);
    peer.leave();
}

#[test]
fn scenario_38_a_session_torn_down_every_few_calls_fifty_times() {
    for plan in ["forget-after=3", "forget-after=2 no-get expiry=400"] {
        let site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        for number in 1..=150 {
            assert_eq!(peer.call("count", json!({ "key": "a" })), number.to_string(), "{plan}");
        }
        assert_eq!(site.journal.runs("count"), 150, "{plan}");
        assert!(site.journal.sessions().len() >= 50, "{plan}");
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_38_with_calls_side_by_side() {
    let site = Site::new(Era::Legacy, "forget-after=4");
    let mut peer: Peer = site.connect();
    for _ in 0..20 {
        let ids: Vec<u64> =
            (0..3).map(|_| peer.begin_call("count", json!({ "key": "a", "delay_ms": 5 }))).collect();
        for id in ids {
            peer.result(id);
        }
    }
    assert_eq!(site.journal.runs("count"), 60);
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_29_a_call_that_still_runs_keeps_its_answer_when_another_finds_the_session_forgotten() {
    let site = Site::new(Era::Legacy, "no-get forget-after=2");
    let mut peer = site.connect();
    let slow = peer.begin_call("slow", json!({ "ms": 500, "key": "a" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
    assert_eq!(peer.call("count", json!({})), "1");
    let other = peer.begin_call("count", json!({}));
    assert_eq!(peer.result(slow), "slow");
    assert_eq!(peer.result(other), "2");
    assert_eq!((site.journal.runs("slow"), site.journal.requests("initialize")), (1, 2));
    peer.assert_nothing_charged();
    peer.leave();
}
