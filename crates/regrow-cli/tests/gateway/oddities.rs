//! SECURITY 13, 14 and 18: answers that nobody asked for, names that want to be more than names, and messages that nobody can read.

use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Place, chaos, done};

#[test]
fn security_13_answers_with_unknown_or_used_ids_are_dropped_and_counted() {
    for plan in ["refuse-discover", "modern-only"] {
        let place = Place::new([("one", chaos(plan))]);
        let house = place.start();
        house.wait_for_tools("one");
        let [mut first, mut second] = ERAS.map(|era| Guest::of(&house, era));
        let mut waiting = second.begin_call("slow", json!({ "ms": 1000 }));
        for _ in 0..5 {
            assert_eq!(first.call("stray", json!({})), "stray");
            assert_eq!(first.call("dup", json!({})), "dup");
        }
        assert_eq!(crate::client::text(&waiting.answer()), "slow");
        // One that was cancelled is answered to nobody.
        let cancelled = second.begin_call("count", json!({ "delay_ms": 300 }));
        assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("count") == 1));
        drop(cancelled);
        assert_eq!(first.call("echo", json!({ "text": "mine" })), "mine");
        let stray =
            house.wait_where("one", "counted", |server| server["oddities"]["stray"].as_u64() >= Some(15));
        assert_eq!(stray["state"], "ready", "{stray}");
        assert_eq!(place.journal("one").starts(), 1);
    }
}

const EVIL: &str = "ev\u{1b}[31mil\n\u{202e}<script>alert(1)</script>\"'&";

fn is_tame(text: &str) -> bool {
    !text.contains(['\u{1b}', '\u{202e}', '\r']) && !text.contains("<script>alert(1)")
}

#[test]
fn security_14_names_and_errors_are_escaped_in_logs_on_terminals_and_on_pages() {
    let place = Place::new([
        (
            EVIL,
            chaos("refuse-discover exit-at-start=3 log-secret=WORDS")
                .variable("WORDS", EVIL)
                .option("budget", "1/60"),
        ),
        ("good", chaos("refuse-discover extra-tool=<script>alert(1)</script>")),
    ]);
    let house = place.start();
    house.wait_for_tools("good");
    let name = EVIL.escape_debug().to_string();
    house.wait_where(&name, "parked", |server| server["state"] == "parked");
    let (_, page) = house.page("/status", &[("Accept", "text/html")]);
    assert!(page.contains("&lt;script&gt;"), "{page}");
    assert!(is_tame(&page), "{page}");
    let (_, metrics) = house.page("/metrics", &[]);
    assert!(!metrics.contains('\u{1b}') && !metrics.contains('\u{202e}'), "{metrics}");
    assert!(metrics.lines().all(|line| line.starts_with("regrow") || line.starts_with('#')), "{metrics}");
    for words in [&["status"][..], &["logs", EVIL], &["park", EVIL], &["park", "\u{1b}[31mnobody"]] {
        let (_, said, log) = done(place.command(words).env("REGROW_URL", house.url()));
        let all = said + &log;
        assert!(!all.contains(['\u{1b}', '\u{202e}']), "{words:?}: {all}");
    }
    for line in house.log() {
        assert!(!line.contains(['\u{1b}', '\u{202e}', '\r']), "{line:?}");
        assert!(
            line.starts_with("regrow") || line.trim().is_empty() || !line.contains("script"),
            "no line is forged: {line:?}"
        );
    }
    // What a model reads is one line.
    let mut guest = Guest::of(&house, Era::Legacy);
    let (said, _) = guest.failing_call(EVIL, json!({}));
    assert!(said.contains("ev") && !said.contains(['\u{1b}', '\u{202e}', '\n', '\r']), "{said:?}");
    let tools = guest.tools();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(tools.iter().all(|tool| tool.chars().all(is_plain)), "{tools:?}");
}

#[test]
fn security_18_a_message_that_nobody_can_read_ends_at_most_the_session_that_it_came_in() {
    // With the default deadline of minutes: none of them waits for it.
    let place = Place::new([("odd", chaos("refuse-discover")), ("good", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("odd");
    house.wait_for_tools("good");
    let mut guest = Guest::of(&house, Era::Legacy);
    let mut waiting = guest.begin_call("good__slow", json!({ "ms": 5000 }));
    for kind in ["deep", "nan", "surrogate", "mark", "nul", "duplicate"] {
        let call = json!({ "name": "odd__odd", "arguments": { "kind": kind } });
        answered(&mut guest, call);
    }
    for tool in ["garbage", "malformed", "batch", "half"] {
        answered(&mut guest, json!({ "name": format!("odd__{tool}"), "arguments": {} }));
    }
    assert_eq!(crate::client::text(&waiting.answer()), "slow");
    assert_eq!(guest.call("odd__echo", json!({ "text": "back" })), "back");
    assert_eq!(place.journal("good").starts(), 1);
}

/// Any answer: the point is that one comes, or that its session is given up and it is told.
fn answered(guest: &mut Guest, call: Value) {
    let mut begun = guest.begin("tools/call", call);
    let head = begun.head();
    assert_eq!(head.status, 200);
    assert!(!begun.wire.messages(&head).is_empty(), "no answer")
}
