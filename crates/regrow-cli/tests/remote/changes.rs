//! A server that comes back as another: other tools, another version, another era.

use std::time::Duration;

use serde_json::json;

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::wait_until;
use crate::site::{Era, Peer, Site, in_both_eras};

#[test]
fn other_tools_after_a_restart_are_announced_once() {
    for plan in ["extra-tool=more@2-", "extra-tool=more@2- announce"] {
        let mut site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        peer.request("tools/list", json!({}));
        site.restart();
        assert_eq!(peer.call_back("count", json!({})), "1");
        peer.client.wait_for("notifications/tools/list_changed");
        let listed = peer.request("tools/list", json!({})).to_string();
        assert!(listed.contains("\"more\""), "{plan}");
        let again = peer
            .client
            .seen()
            .iter()
            .filter(|message| message["method"] == "notifications/tools/list_changed")
            .count();
        assert_eq!(again, 0, "{plan}");
        peer.leave();
    }
}

#[test]
fn equal_tools_after_a_restart_are_no_news() {
    for plan in ["", "announce"] {
        let mut site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect();
        peer.request("tools/list", json!({}));
        peer.client.seen();
        site.restart();
        assert_eq!(peer.call_back("count", json!({})), "1");
        let lists = |journal: &regrow_chaos::Journal| journal.requests("tools/list") >= 2;
        assert!(site.journal.wait(PATIENCE, lists), "it is compared");
        assert_eq!(peer.call("count", json!({})), "2");
        let news = peer.client.seen();
        assert!(
            news.iter().all(|message| message["method"] != "notifications/tools/list_changed"),
            "{plan}: {news:?}"
        );
        peer.leave();
    }
}

#[test]
fn another_version_after_a_restart_is_told_as_such() {
    let mut site = Site::new(Era::Legacy, "version=2025-06-18@2-");
    let mut peer = site.connect();
    assert_eq!(peer.call("count", json!({})), "1");
    site.restart();
    let mut told = json!(null);
    wait_until("it is told", PATIENCE, || {
        let id = peer.begin_call("count", json!({}));
        told = fault(&peer.client.answer(id));
        told["cause"] == "version-changed"
    });
    assert_eq!(told["delivery"], "not-sent", "{told}");
    assert_eq!(site.journal.runs("count"), 1);
}

#[test]
fn a_server_of_the_other_era_after_a_restart_serves_or_is_told_and_never_hangs() {
    for (before, after) in [("refuse-discover@1", "modern-only@2-"), ("modern-only@1", "refuse-discover@2-")]
    {
        let era = if before.starts_with("modern") { Era::Modern } else { Era::Legacy };
        let mut site = Site::with_plan(era, &format!("{before} {after}"));
        let mut peer = site.connect_with(&["--call-timeout", "5s", "--connect-timeout", "5s"]);
        assert_eq!(peer.call("count", json!({})), "1");
        site.restart();
        for _ in 0..3 {
            let id = peer.begin_call("count", json!({}));
            let answer = peer.client.answer_within(id, Duration::from_secs(8));
            assert!(!is_failure(&answer) || fault(&answer)["delivery"] != "answered", "{answer}");
        }
        assert!(site.journal.runs("count") <= 4);
    }
}

#[test]
fn an_era_that_is_insisted_on_and_not_spoken_is_told() {
    let site = Site::new(Era::Legacy, "");
    let setup = site.setup().options(&["--era", "modern", "--connect-timeout", "3s"]);
    let mut peer = Peer { client: setup.start(), era: Era::Legacy };
    let id = peer.ask_greeting();
    let answer = peer.client.answer_within(id, Duration::from_secs(8));
    assert_eq!(fault(&answer)["cause"], "handshake-refused", "{answer}\n{}", peer.log());
    assert_eq!(site.journal.requests("initialize"), 0, "nobody shook hands");

    let site = Site::new(Era::Modern, "");
    let setup = site.setup().options(&["--era", "legacy", "--connect-timeout", "3s"]);
    let mut peer = Peer { client: setup.start(), era: Era::Legacy };
    let id = peer.ask_greeting();
    let answer = peer.client.answer_within(id, Duration::from_secs(8));
    assert_eq!(fault(&answer)["cause"], "handshake-refused", "{answer}\n{}", peer.log());
    assert_eq!(site.journal.requests("server/discover"), 0, "nobody asked");
}

#[test]
fn a_greeting_refused_for_a_while_is_tried_again() {
    in_both_eras(|era| {
        let mut site = Site::new(era, "");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({})), "1");
        site.control("status=500 on=initialize|server/discover|tools/call");
        site.restart();
        let id = peer.begin_call("count", json!({}));
        let answer = peer.client.answer(id);
        assert!(is_failure(&answer), "{answer}");
        assert_eq!(fault(&answer)["httpStatus"], 500, "{answer}");
        site.control("");
        let mut answer = json!(null);
        wait_until("it is back", PATIENCE, || {
            let id = peer.begin_call("count", json!({}));
            answer = peer.client.answer(id);
            !is_failure(&answer)
        });
        assert_eq!(site.journal.runs("count"), 2, "{era:?}");
        peer.leave();
    });
}

#[test]
fn a_session_forgotten_while_a_stream_is_to_be_resumed_is_told() {
    let site = Site::new(Era::Legacy, "answer=sse event-ids prime retry=500 cut on=tools/call");
    let mut peer = site.connect();
    let id = peer.begin_call("count", json!({ "key": "a" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
    site.control("forget=1 on=nothing");
    let (_, told) = peer.client.failure(id);
    assert_eq!(told["delivery"], "unknown", "{told}");
    assert_eq!(peer.call("count", json!({ "key": "a" })), "2");
    assert_eq!((site.journal.runs("count"), site.journal.requests("initialize")), (2, 2));
    peer.leave();
}
