//! Scenario 32, and what else comes as a stream: answers, questions, notifications.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, text};
use crate::evidence::slack;
use crate::site::{ERAS, Era, Site, in_both_eras};

/// On a machine that has other work to do; 200 ms on one that has not.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn scenario_32_a_stream_that_ends_without_an_answer_fails_at_once() {
    for era in ERAS {
        for plan in ["finish=0", "cut=0"] {
            let site = Site::new(era, &format!("answer=sse {plan} on=tools/call"));
            let mut peer = site.connect();
            let greeted = peer.sessions();
            let begun = Instant::now();
            let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
            assert!(begun.elapsed() < SOON + slack(), "{:?}", begun.elapsed());
            assert_eq!(
                (&told["cause"], &told["delivery"]),
                (&json!("answer-cut"), &json!("unknown")),
                "{told}"
            );
            assert!(text.contains("may have run"), "{text}");
            assert!(site.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
            site.control("on=nothing");
            assert_eq!(peer.call("count", json!({ "key": "a" })), "2");
            assert_eq!((site.journal.runs("count"), peer.sessions()), (2, greeted), "{era:?} {plan}");
            peer.leave();
        }
    }
}

#[test]
fn scenario_32_after_some_events_too() {
    for era in ERAS {
        for plan in ["finish=1", "cut=1"] {
            let site = Site::new(era, &format!("{plan} on=tools/call"));
            let mut peer = site.connect();
            let params = json!({ "name": "slow", "arguments": { "ms": 10_000, "progress_ms": 20, "key": "a" }, "_meta": { "progressToken": "t" } });
            let id = peer.ask("tools/call", params);
            let (_, told) = peer.client.failure(id);
            assert_eq!(told["cause"], "answer-cut", "{told}");
            assert_eq!(peer.client.wait_for("notifications/progress")["params"]["progress"], 1);
            assert_eq!(site.journal.runs("slow"), 1);
        }
    }
}

#[test]
fn scenario_32_with_event_ids_it_goes_on_where_it_stopped() {
    for plan in ["finish", "cut"] {
        let site =
            Site::new(Era::Legacy, &format!("answer=sse event-ids prime retry=50 {plan} on=tools/call"));
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1", "{plan}");
        assert_eq!(peer.call("slow", json!({ "ms": 500, "key": "a" })), "slow", "{plan}: it is waited for");
        assert_eq!((site.journal.runs("count"), site.journal.runs("slow")), (1, 1), "no double effect");
        assert!(site.journal.resumed().len() >= 2, "{:?}", site.journal.resumed());
        assert_eq!(site.journal.requests("tools/call"), 2);
        assert_eq!(site.journal.requests("initialize"), 1);
        peer.leave();
    }
}

#[test]
fn scenario_32_events_before_and_after_the_cut_come_once_and_in_order() {
    let site = Site::new(Era::Legacy, "event-ids retry=50 cut=4 on=tools/call");
    let mut peer = site.connect();
    let params = json!({ "name": "notify", "arguments": { "n": 10 } });
    let answer = peer.request("tools/call", params);
    assert_eq!(text(&answer), "10");
    let seen = peer.client.seen();
    let data: Vec<_> = seen
        .iter()
        .filter(|message| message["method"] == "notifications/message")
        .map(|message| message["params"]["data"].clone())
        .collect();
    assert_eq!(data, (1..=10).map(|number| json!(number)).collect::<Vec<_>>());
    assert_eq!((site.journal.runs("notify"), site.journal.resumed().len()), (1, 1));
    peer.leave();
}

#[test]
fn scenario_32_a_stream_that_cannot_be_resumed_after_all_is_told() {
    let site = Site::new(Era::Legacy, "answer=sse event-ids prime retry=50 cut on=tools/call");
    let mut peer = site.connect();
    assert!(site.journal.wait(PATIENCE, |journal| journal.gets() == 1), "it listens already");
    site.control("answer=sse prime retry=50 cut on=tools/call no-get");
    let begun = Instant::now();
    let (_, told) = peer.failing_call("count", json!({ "key": "a" }));
    assert!(begun.elapsed() < Duration::from_secs(10) + slack(), "{:?}", begun.elapsed());
    assert_eq!((&told["cause"], &told["delivery"]), (&json!("answer-cut"), &json!("unknown")), "{told}");
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
    peer.leave();
}

#[test]
fn scenario_32_the_modern_era_resumes_nothing() {
    let site = Site::new(Era::Modern, "answer=sse event-ids prime retry=50 cut on=tools/call");
    let mut peer = site.connect();
    let (_, told) = peer.failing_call("count", json!({ "key": "a" }));
    assert_eq!((&told["cause"], &told["delivery"]), (&json!("answer-cut"), &json!("unknown")), "{told}");
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
    assert_eq!(site.journal.gets(), 0);
    peer.leave();
}

#[test]
fn progress_comes_before_its_answer_and_keeps_a_call_alive() {
    in_both_eras(|era| {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--call-timeout", "3s"]);
        let params = json!({ "name": "slow", "arguments": { "ms": 7000, "progress_ms": 300, "key": "a" }, "_meta": { "progressToken": "t" } });
        let answer = peer.request("tools/call", params);
        assert_eq!(text(&answer), "slow", "{era:?}");
        let progress =
            peer.client.seen().iter().filter(|message| message["method"] == "notifications/progress").count();
        assert!(progress >= 5, "{progress}");
        peer.leave();
    });
}

#[test]
fn a_slow_tool_ends_at_its_deadline_and_the_server_is_told() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--call-timeout", "3s"]);
        let greeted = peer.sessions();
        let begun = Instant::now();
        let (_, told) = peer.failing_call("slow", json!({ "ms": 60_000, "key": "a" }));
        assert_eq!((&told["kind"], &told["delivery"]), (&json!("timeout"), &json!("unknown")), "{told}");
        assert!(begun.elapsed() < Duration::from_millis(3500) + slack());
        // By a notification, or by closing the stream.
        assert!(site.journal.wait(PATIENCE, |journal| journal.cancelled().len() == 1), "{era:?}");
        assert_eq!(peer.call("count", json!({})), "1");
        assert_eq!((site.journal.runs("slow"), peer.sessions()), (1, greeted));
        peer.leave();
    }
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        let id = peer.begin_call("slow", json!({ "ms": 60_000, "key": "a" }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
        peer.client.cancel(id);
        assert!(site.journal.wait(PATIENCE, |journal| journal.cancelled().len() == 1), "{era:?}");
        assert_eq!(peer.call("count", json!({})), "1");
        assert!(peer.client.unclaimed_answers().is_empty());
        peer.leave();
    }
}

#[test]
fn questions_come_through_on_either_stream() {
    for plan in ["", "ask-on-get"] {
        let site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        assert!(site.journal.wait(PATIENCE, |journal| journal.gets() == 1));
        let id = peer.begin_call("ask", json!({ "kind": "elicitation" }));
        let question = peer.client.wait_for("elicitation/create");
        peer.client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } }));
        assert!(peer.result(id).contains("accept"), "{plan}");
        assert_eq!(site.journal.runs("ask"), 1);
        peer.leave();
    }
}

#[test]
fn a_modern_question_is_an_answer_and_the_call_is_repeated() {
    let site = Site::new(Era::Modern, "");
    let mut peer = site.connect();
    let answer = peer.request("tools/call", json!({ "name": "ask", "arguments": {} }));
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    let again = json!({ "name": "ask", "arguments": {}, "requestState": answer["result"]["requestState"], "inputResponses": { "question": { "action": "accept" } } });
    assert!(text(&peer.request("tools/call", again)).contains("accept"));
    peer.leave();
}

#[test]
fn a_listen_stream_lives_through_a_restart() {
    let mut site = Site::new(Era::Modern, "");
    let mut peer = site.connect_with(&["--idle-probe", "300ms"]);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let stream = peer.ask("subscriptions/listen", wanted);
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(
        peer.client.wait_for("notifications/subscriptions/acknowledged")["params"]["_meta"][key],
        stream
    );
    peer.call("change", json!({}));
    assert_eq!(peer.client.wait_for("notifications/tools/list_changed")["params"]["_meta"][key], stream);
    site.restart();
    assert!(
        site.journal.wait(PATIENCE, |journal| journal.requests("subscriptions/listen") >= 2),
        "{}",
        peer.log()
    );
    peer.call_back("change", json!({}));
    assert_eq!(peer.client.wait_for("notifications/tools/list_changed")["params"]["_meta"][key], stream);
    assert!(peer.client.unclaimed_answers().is_empty(), "the stream has not ended");
    peer.leave();
}

#[test]
fn a_listen_stream_lives_through_a_planned_reconnect() {
    let site = Site::new(Era::Modern, "");
    let mut peer = site.connect();
    let stream = peer.ask("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    peer.client.wait_for("notifications/subscriptions/acknowledged");
    peer.client.restart();
    assert!(site.journal.wait(PATIENCE, |journal| journal.requests("subscriptions/listen") == 2));
    peer.call_back("change", json!({}));
    let news = peer.client.wait_for("notifications/tools/list_changed");
    assert_eq!(news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], stream);
    assert!(peer.client.unclaimed_answers().is_empty(), "the stream has not ended");
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn what_a_tool_wants_in_a_header_stands_there() {
    let site = Site::new(Era::Modern, "");
    let mut peer = site.connect();
    peer.request("tools/list", json!({}));
    assert_eq!(peer.call("region", json!({ "region": "eu-west" })), "eu-west");
    assert_eq!(
        peer.call("region", json!({ "region": "\u{e9}t\u{e9}\r\nX-Evil: 1" })),
        "\u{e9}t\u{e9}\r\nX-Evil: 1"
    );
    assert!(!site.journal.lines().iter().any(|line| line.starts_with("mismatch")));
    peer.leave();
}
