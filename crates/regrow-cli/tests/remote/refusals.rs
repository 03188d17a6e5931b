//! Scenarios 31 and 35: the server lives, and refuses for now.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow_chaos::proxy::{Canned, Fault};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::{slack, wait_until};
use crate::site::{ERAS, Era, Peer, Site, in_both_eras};

#[test]
fn scenario_31_come_back_later_is_obeyed_and_costs_nothing() {
    in_both_eras(|era| {
        for status in [429, 503] {
            for when in ["retry-after=1", "retry-after-date=2"] {
                let site = Site::new(era, "");
                let mut peer = site.connect();
                let greeted = peer.sessions();
                site.control(&format!("status={status} {when} times=1 on=tools/call"));
                let begun = Instant::now();
                assert_eq!(peer.call("count", json!({ "key": "a" })), "1", "{era:?} {status} {when}");
                let took = begun.elapsed();
                assert!(took > Duration::from_millis(800), "it waited: {took:?}");
                assert!(took < Duration::from_secs(3) + slack(), "and not for long: {took:?}");
                assert_eq!((site.journal.runs("count"), site.journal.refused(status).len()), (1, 1));
                assert_eq!(peer.sessions(), greeted);
                peer.assert_nothing_charged();
                peer.leave();
            }
        }
    });
}

#[test]
fn scenario_31_a_time_longer_than_a_call_may_take_is_told_with_the_time() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--call-timeout", "3s"]);
        site.control("status=429 retry-after=1800 on=tools/call");
        let begun = Instant::now();
        let (_, told) = peer.failing_call("count", json!({ "key": "a" }));
        assert!(begun.elapsed() < Duration::from_secs(4) + slack());
        assert_eq!((&told["cause"], &told["delivery"]), (&json!("deferred"), &json!("not-sent")), "{told}");
        assert_eq!(told["httpStatus"], 429);
        assert!(told["retryAfterMs"].as_u64().unwrap() > 1_700_000, "{told}");
        assert_eq!(site.journal.runs("count"), 0);
        // Other requests go on.
        assert!(peer.request("tools/list", json!({}))["result"].is_object());
        peer.leave();
    }
}

#[test]
fn scenario_31_come_back_later_at_the_handshake_is_obeyed_too() {
    in_both_eras(|era| {
        let site = Site::new(era, "status=503 retry-after=1 times=2");
        let mut peer = site.connect();
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1", "{era:?}");
        peer.leave();
    });
}

#[test]
fn scenario_31_one_bad_gateway_fails_one_call_only() {
    for era in ERAS {
        let site = Site::new(era, "");
        let proxy = site.proxy();
        let mut peer = Peer::greet(site.setup_through(&proxy), era);
        let greeted = peer.sessions();
        let other = peer.begin_call("slow", json!({ "ms": 1500, "key": "a" }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
        proxy.set(Fault::Answer(Canned {
            body: "<h1>bad gateway</h1>".into(),
            ..Canned::status(1, 502).header("Content-Type", "text/html")
        }));
        let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
        assert_eq!(
            (&told["kind"], &told["cause"], &told["httpStatus"]),
            (&json!("refused"), &json!("status"), &json!(502)),
            "{told}"
        );
        assert!(text.contains("502"), "{text}");
        assert_eq!(peer.result(other), "slow");
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        assert_eq!((site.journal.runs("count"), peer.sessions(), proxy.injected()), (1, greeted, 1));
        peer.leave();
    }
}

#[test]
fn scenario_31_statuses_are_no_reason_to_reconnect_however_many() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        let greeted = peer.sessions();
        site.control("status=500 on=tools/call");
        for _ in 0..20 {
            let (_, told) = peer.failing_call("count", json!({}));
            assert_eq!(told["httpStatus"], 500, "{told}");
        }
        site.control("");
        assert_eq!(peer.call("count", json!({})), "1");
        assert_eq!(peer.sessions(), greeted, "{}", peer.log());
        peer.leave();
    }
}

fn write_token(path: &Path, token: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, format!("# kept fresh by somebody else\nAuthorization: Bearer {token}\n")).unwrap();
    fs::rename(draft, path).unwrap();
}

/// A client that shows the token in this file.
fn with_file(site: &Site, era: Era, path: &Path, options: &[&str]) -> Peer {
    let file = path.to_str().unwrap();
    Peer::greet(site.setup().options(&["--header-file", file]).options(options), era)
}

#[test]
fn scenario_35_ten_refused_at_once_are_renewed_and_all_succeed() {
    for era in ERAS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        write_token(&path, "first");
        let site = Site::new(era, "need-token=first");
        let mut peer = with_file(&site, era, &path, &[]);
        let greeted = peer.sessions();
        write_token(&path, "second");
        site.control("need-token=second");
        let ids: Vec<u64> = (0..10).map(|_| peer.begin_call("count", json!({ "key": "a" }))).collect();
        for id in ids {
            peer.result(id);
        }
        assert_eq!((site.journal.runs("count"), peer.sessions()), (10, greeted), "{era:?}");
        assert!(site.journal.refused(401).len() <= 11, "{:?}", site.journal.refused(401));
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_35_what_cannot_be_renewed_is_parked_without_a_loop_and_wakes_with_the_file() {
    for era in ERAS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        write_token(&path, "stale");
        let site = Site::new(era, "need-token=fresh");
        let file = path.to_str().unwrap();
        let mut peer = Peer { client: site.setup().options(&["--header-file", file]).start(), era };
        let id = peer.ask_greeting();
        let answer = peer.client.answer_within(id, Duration::from_secs(5));
        let told = fault(&answer);
        assert_eq!(
            (&told["kind"], &told["cause"]),
            (&json!("unavailable"), &json!("unauthorized")),
            "{answer}"
        );
        assert_eq!((&told["httpStatus"], &told["delivery"]), (&json!(401), &json!("not-sent")), "{answer}");
        peer.client.wait_for_log(0, "parked");
        let refused = site.journal.refused(401).len();
        assert!(refused <= 3, "{:?}", site.journal.refused(401));
        let again =
            site.journal.wait(Duration::from_millis(1500), |journal| journal.refused(401).len() > refused);
        assert!(!again, "nobody knocks again and again");

        let from = peer.client.log().len();
        write_token(&path, "fresh");
        peer.client.wait_for_log(from, "connecting");
        let id = peer.ask_greeting();
        let answer = peer.client.answer_within(id, Duration::from_secs(5));
        assert!(answer["result"].is_object(), "{answer}\n{}", peer.log());
        if era == Era::Legacy {
            peer.client.notify("notifications/initialized", json!({}));
        }
        assert_eq!(peer.call("count", json!({})), "1");
        peer.leave();
    }
}

#[test]
fn scenario_35_refused_in_the_middle_of_a_life_each_call_is_told_and_the_file_mends_it() {
    for era in ERAS {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("token");
        write_token(&path, "first");
        let site = Site::new(era, "need-token=first");
        let mut peer = with_file(&site, era, &path, &[]);
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        site.control("need-token=second");
        for _ in 0..3 {
            let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
            assert_eq!(
                (&told["cause"], &told["delivery"]),
                (&json!("unauthorized"), &json!("not-sent")),
                "{told}"
            );
            assert!(text.contains("credentials"), "{text}");
        }
        let refused = site.journal.refused(401).len();
        assert!(refused < 30, "{refused}");
        write_token(&path, "second");
        let mut answer = json!(null);
        wait_until("the new token is used", PATIENCE, || {
            let id = peer.begin_call("count", json!({ "key": "a" }));
            answer = peer.client.answer(id);
            !is_failure(&answer)
        });
        assert_eq!(site.journal.runs("count"), 2);
        peer.leave();
    }
}

#[test]
fn scenario_35_a_token_from_the_environment_that_is_refused_is_not_tried_again_and_again() {
    for era in ERAS {
        let site = Site::new(era, "need-token=other");
        let setup =
            site.setup().variable("MY_TOKEN", "wrong-token-value").options(&["--bearer-env", "MY_TOKEN"]);
        let mut peer = Peer { client: setup.start(), era };
        let id = peer.ask_greeting();
        let answer = peer.client.answer_within(id, Duration::from_secs(5));
        assert_eq!(fault(&answer)["cause"], "unauthorized", "{answer}");
        peer.client.wait_for_log(0, "parked");
        let refused = site.journal.refused(401).len();
        assert!(refused <= 3, "{refused}");
        // A call asks at most once in ten seconds.
        let (_, told) = {
            let id = peer.begin_call("count", json!({}));
            peer.client.failure(id)
        };
        assert_eq!(told["cause"], "unauthorized", "{told}");
        assert!(site.journal.refused(401).len() <= refused + 2);
        assert_eq!(site.journal.runs("count"), 0);
    }
}
