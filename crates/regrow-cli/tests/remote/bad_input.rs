//! Scenario 37: answers that are too much, too slow, or not for us.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::{peak_kib, slack};
use crate::site::{ERAS, Era, Site, in_both_eras};

/// More than the cap of one message, with room for what else there is.
const MOST_KIB: u64 = 64 * 1024;
const SMALL: [&str; 2] = ["--max-line", "1MiB"];

#[test]
fn scenario_37_a_body_over_the_cap_is_told_and_costs_no_memory() {
    for era in ERAS {
        for plan in ["", "answer=sse"] {
            for id in ["first", "last"] {
                let site = Site::new(era, plan);
                let mut peer = site.connect_with(&SMALL);
                let (_, told) = peer.failing_call("huge", json!({ "bytes": "20MB", "id": id }));
                assert_eq!(
                    (&told["kind"], &told["delivery"]),
                    (&json!("too-large"), &json!("answered")),
                    "{era:?} {plan} {id}: {told}"
                );
                assert_eq!(peer.call("count", json!({})), "1");
                assert_eq!(site.journal.runs("huge"), 1);
                let peak = peak_kib(peer.client.pid());
                assert!(peak < MOST_KIB, "{peak} KiB");
                peer.leave();
            }
        }
    }
}

#[test]
fn scenario_37_a_gzip_bomb_does_not_go_off() {
    for era in ERAS {
        let site = Site::new(era, "bomb=1GB on=tools/call");
        let mut peer = site.connect_with(&SMALL);
        let (text, told) = peer.failing_call("count", json!({}));
        assert!(
            ["not-mcp", "too-large"].iter().any(|kind| told["cause"] == *kind || told["kind"] == *kind),
            "{told}"
        );
        assert!(text.contains("gzip") || text.contains("limit"), "{text}");
        let peak = peak_kib(peer.client.pid());
        assert!(peak < MOST_KIB, "{peak} KiB");
        site.control("on=nothing");
        assert_eq!(peer.call("count", json!({})), "2", "the first one ran");
        peer.leave();
    }
}

#[test]
fn scenario_37_an_event_without_end_is_cut_off() {
    for era in ERAS {
        let site = Site::new(era, "endless=1GB on=tools/call");
        let mut peer = site.connect_with(&SMALL);
        let begun = Instant::now();
        let (_, told) = peer.failing_call("count", json!({}));
        assert_eq!(told["kind"], "too-large", "{told}");
        assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
        let peak = peak_kib(peer.client.pid());
        assert!(peak < MOST_KIB, "{peak} KiB");
        site.control("on=nothing");
        assert_eq!(peer.call("count", json!({})), "2");
        peer.leave();
    }
}

#[test]
fn scenario_37_retry_is_clamped_at_both_ends() {
    // Nobody is asked a thousand times a second ...
    let site = Site::new(Era::Legacy, "answer=sse event-ids prime retry=0 finish on=GET");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "x" }));
    let many = |journal: &regrow_chaos::Journal| journal.gets() > 25;
    assert!(!site.journal.wait(Duration::from_secs(2), many), "{} GETs in two seconds", site.journal.gets());
    assert_eq!(peer.call("count", json!({})), "1");
    peer.leave();
    // ... and nobody waits for a billion years.
    let site =
        Site::new(Era::Legacy, "answer=sse event-ids prime retry=1000000000000000000 cut on=tools/call");
    let mut peer = site.connect_with(&["--call-timeout", "2s"]);
    let begun = Instant::now();
    let (_, told) = peer.failing_call("count", json!({}));
    assert_eq!(told["delivery"], "unknown", "{told}");
    assert!(begun.elapsed() < Duration::from_secs(3) + slack());
    peer.leave();
}

#[test]
fn scenario_37_a_stream_that_ends_again_and_again_is_opened_more_and_more_slowly() {
    let site = Site::new(Era::Legacy, "finish on=GET");
    let mut peer = site.connect();
    peer.call("echo", json!({ "text": "x" }));
    assert!(site.journal.wait(PATIENCE, |journal| journal.gets() >= 2));
    assert!(
        !site.journal.wait(Duration::from_secs(3), |journal| journal.gets() > 8),
        "{}",
        site.journal.gets()
    );
    assert_eq!(site.journal.requests("initialize"), 1);
    peer.assert_nothing_charged();
    peer.leave();
}

#[test]
fn scenario_37_bytes_that_drip_do_not_outlive_the_deadline() {
    in_both_eras(|era| {
        for plan in ["drip-head=100ms", "drip-body=100ms", "drip-body=100ms answer=sse"] {
            let site = Site::new(era, &format!("{plan} on=tools/call"));
            let mut peer = site.connect_with(&["--call-timeout", "3s"]);
            let begun = Instant::now();
            let (_, told) = peer.failing_call("count", json!({}));
            assert_eq!(
                (&told["kind"], &told["delivery"]),
                (&json!("timeout"), &json!("unknown")),
                "{era:?} {plan}: {told}"
            );
            assert!(begun.elapsed() < Duration::from_millis(3700) + slack(), "{:?}", begun.elapsed());
            site.control("on=nothing");
            assert_eq!(peer.call("count", json!({})), "2", "{era:?} {plan}");
            assert_eq!(site.journal.runs("count"), 2);
            peer.leave();
        }
    });
}

#[test]
fn scenario_37_drips_at_the_handshake_end_at_the_connect_timeout() {
    for era in ERAS {
        let site = Site::new(era, "drip-head=200ms");
        let mut peer =
            crate::site::Peer { client: site.setup().options(&["--connect-timeout", "1s"]).start(), era };
        let id = peer.ask_greeting();
        let answer = peer.client.answer_within(id, Duration::from_secs(4) + slack());
        let told = crate::client::fault(&answer);
        assert_eq!((&told["kind"], &told["delivery"]), (&json!("timeout"), &json!("not-sent")), "{answer}");
    }
}

#[test]
fn scenario_37_answers_that_are_for_nobody_are_dropped() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        for tool in ["dup", "stray", "garbage"] {
            assert_eq!(peer.call(tool, json!({})), tool, "{era:?}");
        }
        // One that answers something else instead is no answer.
        for plan in ["answer-id on=tools/call", "answer-id on=tools/call answer=sse"] {
            site.control(plan);
            let (_, told) = peer.failing_call("count", json!({}));
            assert_eq!(told["delivery"], "unknown", "{era:?} {plan}: {told}");
        }
        site.control("");
        assert_eq!(peer.call("count", json!({})), "3");
        let (_, told) = peer.failing_call("malformed", json!({}));
        assert!(["malformed", "refused", "interrupted"].contains(&told["kind"].as_str().unwrap()), "{told}");
        assert_eq!(peer.call("echo", json!({ "text": "still here" })), "still here");
        peer.leave();
    }
}

#[test]
fn scenario_37_half_a_body_is_no_answer() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect();
        let (_, told) = peer.failing_call("half", json!({}));
        assert_eq!(told["delivery"], "unknown", "{told}");
        site.wait_for_end();
        site.start();
        assert_eq!(peer.call_back("count", json!({})), "1");
        assert_eq!(site.journal.runs("half"), 1);
        peer.leave();
    }
}

#[test]
fn answers_that_few_would_write_are_handed_on_in_one_line_or_refused() {
    for era in ERAS {
        for plan in ["", "answer=sse"] {
            let site = Site::new(era, plan);
            let mut peer = site.connect();
            for (kind, is_good) in [
                ("lines", true),
                ("deep", true),
                ("surrogate", true),
                ("mark", true),
                ("nan", false),
                ("nul", false),
                ("duplicate", false),
            ] {
                let id = peer.begin_call("odd", json!({ "kind": kind }));
                // The test itself cannot read all of them, so it looks at the line.
                let line = loop {
                    let line =
                        peer.client.next_line(PATIENCE).unwrap_or_else(|| panic!("{kind}: {}", peer.log()));
                    if line.contains(&format!("\"id\":{id}")) {
                        break line;
                    }
                };
                let told = line.contains("dev.regrow/fault");
                assert_eq!(told, !is_good, "{era:?} {plan} {kind}: {:.300}", line);
                assert!(
                    told || line.contains(r#""text":"odd""#) && line.ends_with('}'),
                    "{kind}: {line:.300}"
                );
            }
            assert_eq!(peer.call("count", json!({})), "1", "{era:?} {plan}");
            assert_eq!((peer.sessions(), site.journal.runs("odd")), (1, 7));
            peer.leave();
        }
    }
}
