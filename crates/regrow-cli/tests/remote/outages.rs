//! Scenarios 27, 28 and 30: the server is down, is killed, is away for a while.

use std::time::{Duration, Instant};

use regrow_chaos::proxy::Fault;
use serde_json::json;

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::{slack, wait_until};
use crate::site::{ERAS, Era, Peer, Site, in_both_eras};

/// On a machine that has other work to do; 200 ms on one that has not.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn scenario_27_down_at_start_ready_soon_after_it_appears() {
    for era in ERAS {
        let mut site = Site::down(era, "");
        let mut peer = Peer { client: site.setup().start(), era };
        let id = peer.ask_greeting();
        peer.client.wait_for_log(0, "cannot be reached");
        site.start();
        let answer = peer.client.answer_within(id, Duration::from_secs(5));
        assert!(answer["result"].is_object(), "{era:?}: {answer}\n{}", peer.log());
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "1");
        assert_eq!(site.journal.runs("count"), 1);
        peer.leave();
    }
}

#[test]
fn scenario_27_down_for_too_long_is_told_with_the_reason_and_a_later_call_finds_it() {
    for era in ERAS {
        let mut site = Site::down(era, "");
        let setup = site.setup().options(&["--connect-timeout", "2s"]);
        let mut peer = Peer { client: setup.start(), era };
        let began = Instant::now();
        let id = peer.ask_greeting();
        let answer = peer.client.answer_within(id, Duration::from_secs(5));
        let told = fault(&answer);
        // On a busy machine the last attempt may fail when the time is over, which is as true; but never before that.
        let too_late = began.elapsed() > Duration::from_secs(2) && told["kind"] == "unavailable";
        assert!(told["kind"] == "timeout" || too_late, "{answer}");
        assert_eq!(told["delivery"], "not-sent", "{answer}");
        // The time may also be over within an attempt.
        let busy = told["cause"] == "handshake-timeout";
        let address = site.address().to_string();
        let named = || answer["error"]["message"].as_str().unwrap().contains(&address);
        assert!(busy || told["cause"] == "unreachable" && named(), "{answer}");
        site.start();
        wait_until("it is found", PATIENCE, || {
            let id = peer.ask_greeting();
            peer.client.answer(id)["result"].is_object()
        });
        if era == Era::Legacy {
            peer.client.notify("notifications/initialized", json!({}));
        }
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    }
}

#[test]
fn scenario_27_an_address_that_refuses_is_retried_for_ten_seconds_and_then_reported() {
    in_both_eras(|era| {
        let site = Site::down(era, "");
        let mut peer = Peer { client: site.setup().start(), era };
        let began = Instant::now();
        let id = peer.ask_greeting();
        // Far less than the minute that a silent server has.
        let answer = peer.client.answer_within(id, Duration::from_secs(40));
        assert!(began.elapsed() >= Duration::from_secs(9), "{:?}", began.elapsed());
        let told = fault(&answer);
        assert_eq!(
            (&told["kind"], &told["cause"]),
            (&json!("unavailable"), &json!("unreachable")),
            "{answer}"
        );
        assert_eq!(told["delivery"], "not-sent");
    });
}

#[test]
fn scenario_52_a_call_made_while_the_port_of_a_healthy_server_is_closed_runs_when_it_is_open() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect_with(&["--patience", "120s"]);
        peer.call("echo", json!({ "text": "one" }));
        site.kill();
        site.wait_until_disconnected();
        let call = peer.begin_call("count", json!({ "key": "a" }));
        wait_until("several attempts have failed", PATIENCE, || peer.client.logged("cannot be reached") >= 4);
        site.start();
        assert_eq!(peer.result(call), "1");
        assert_eq!(site.journal.runs("count"), 1);
        peer.leave();
    }
}

#[test]
fn scenario_52_a_call_to_a_healthy_server_whose_port_stays_closed_fails_and_counts_the_attempts() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect_with(&["--patience", "2s"]);
        peer.call("echo", json!({ "text": "one" }));
        site.kill();
        site.wait_until_disconnected();
        let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
        assert_eq!((&told["kind"], &told["cause"]), (&json!("unavailable"), &json!("unreachable")), "{told}");
        assert_eq!(told["delivery"], "not-sent");
        assert!(told["attempts"].as_u64().is_some_and(|attempts| attempts >= 2), "{told}");
        assert!(text.contains("attempts to connect failed"), "{text}");
        peer.leave();
    }
}

#[test]
fn scenario_28_killed_while_idle_the_next_call_finds_the_next_life() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect();
        peer.call("echo", json!({ "text": "one" }));
        site.kill();
        site.wait_until_disconnected();
        if era == Era::Legacy {
            // It listens, so it hears the end.
            peer.client.wait_for_log(0, "cannot be reached");
        }
        site.start();
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "1");
        assert_eq!((site.journal.runs("count"), site.journal.requests("tools/call")), (1, 2));
        peer.leave();
    }
}

#[test]
fn scenario_28_killed_in_a_call_is_told_at_once_before_the_headers_and_within_the_stream() {
    for era in ERAS {
        for plan in ["", "answer=sse"] {
            let mut site = Site::new(era, plan);
            let mut peer = site.connect();
            let id = peer.begin_call("slow", json!({ "ms": 60_000, "key": "a" }));
            assert!(site.journal.wait(PATIENCE, |journal| journal.runs_with("slow", "a") == 1));
            let killed = site.kill();
            let (text, told) = peer.client.failure(id);
            assert!(killed.elapsed() < SOON + slack(), "{:?}", killed.elapsed());
            assert_eq!(
                (&told["kind"], &told["delivery"]),
                (&json!("interrupted"), &json!("unknown")),
                "{told}"
            );
            assert!(["broken", "answer-cut"].contains(&told["cause"].as_str().unwrap()), "{told}");
            assert!(text.contains("may have run") && text.contains("slow"), "{text}");
            assert_eq!(told["tool"], "slow");
            site.start();
            assert_eq!(peer.call_back("count", json!({ "key": "b" })), "1");
            assert_eq!(site.journal.runs("slow"), 1, "{era:?} {plan}: sent once");
            peer.leave();
        }
    }
}

#[test]
fn scenario_28_a_connection_closed_in_a_call_is_told_at_once_and_safe_tools_are_sent_again() {
    for era in ERAS {
        for plan in ["drop-answer", "drop-answer answer=sse", "cut answer=sse", "cut-body=10"] {
            let site = Site::new(era, &format!("{plan} on=tools/call times=1"));
            let mut peer = site.connect_with(&["--safe-tool", "lookup"]);
            assert_eq!(peer.call("lookup", json!({ "key": "a" })), "2", "{era:?} {plan}");
            // Another plan, so that it is struck once more.
            site.control("skip=0");
            let begun = Instant::now();
            let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
            assert!(begun.elapsed() < SOON + slack(), "{:?}", begun.elapsed());
            assert_eq!(told["delivery"], "unknown", "{told}");
            assert!(text.contains("may have run"), "{text}");
            assert!(site.journal.wait(PATIENCE, |journal| journal.runs("count") == 1));
            assert_eq!(peer.call("count", json!({ "key": "a" })), "2");
            assert_eq!((site.journal.runs("lookup"), site.journal.starts()), (2, 1), "{era:?} {plan}");
            peer.leave();
        }
    }
}

#[test]
fn scenario_28_many_calls_when_it_is_killed_all_end_and_one_session_follows() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect();
        let ids: Vec<u64> = (0..20)
            .map(|number| peer.begin_call("slow", json!({ "ms": 60_000, "key": format!("k{number}") })))
            .collect();
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 20));
        let before = peer.sessions();
        site.restart();
        for id in ids {
            let (_, told) = peer.client.failure(id);
            assert_eq!(told["delivery"], "unknown");
        }
        assert_eq!(peer.call_back("count", json!({})), "1");
        assert_eq!(site.journal.runs("slow"), 20);
        if era == Era::Legacy {
            wait_until("the log tells of the next one", PATIENCE, || peer.sessions() > before);
        }
        // A modern server that is back before it was missed needs no new session.
        let new = peer.sessions() - before;
        assert!(new == 1 || new == 0 && era == Era::Modern, "{}", peer.log());
        peer.leave();
    }
}

#[test]
fn scenario_30_after_an_outage_it_recovers_by_itself_or_with_the_next_call() {
    in_both_eras(|era| {
        let mut site = Site::new(era, "");
        let mut peer = site.connect_with(&["--idle-probe", "300ms", "--call-timeout", "2s"]);
        peer.call("echo", json!({ "text": "before" }));
        site.kill();
        peer.client.wait_for_log(0, "cannot be reached");
        // Calls in the outage end in time, and say that they did not run.
        for _ in 0..3 {
            let begun = Instant::now();
            let (_, told) = peer.failing_call("count", json!({ "key": "a" }));
            assert!(begun.elapsed() < Duration::from_secs(3) + slack(), "{:?}", begun.elapsed());
            assert_eq!(told["delivery"], "not-sent", "{told}");
        }
        let from = peer.client.log().len();
        site.start();
        peer.client.wait_for_log(from, "ready (session");
        assert_eq!(peer.call_back("count", json!({ "key": "a" })), "1");
        assert_eq!(site.journal.runs("count"), 1);
        peer.leave();
    });
}

#[test]
fn scenario_30_an_outage_of_the_network_alone_loses_nothing() {
    for era in ERAS {
        let site = Site::new(era, "");
        let proxy = site.proxy();
        let mut peer = Peer::greet(site.setup_through(&proxy), era);
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        // Packets that are late are not lost.
        proxy.set(Fault::Stall);
        let id = peer.begin_call("count", json!({ "key": "a" }));
        assert!(!site.journal.wait(Duration::from_millis(300), |journal| journal.runs("count") > 1));
        proxy.set(Fault::None);
        assert_eq!(peer.result(id), "2", "{era:?}");
        // Where nobody listens a call does not run, whether it waits for the next session or is told.
        proxy.set(Fault::Refuse);
        wait_until("its connections are gone", PATIENCE, || proxy.open_connections() == 0);
        let id = peer.begin_call("count", json!({ "key": "b" }));
        peer.client.wait_for_log(0, "cannot be reached");
        proxy.set(Fault::None);
        let answer = peer.client.answer(id);
        let ran = usize::from(!is_failure(&answer));
        assert_eq!(site.journal.runs_with("count", "b"), ran, "{answer}");
        assert_eq!(peer.call("count", json!({ "key": "b" })), (ran + 1).to_string());
        peer.leave();
    }
}

#[test]
fn scenario_30_resets_in_a_row_end_calls_but_not_the_connection() {
    for era in ERAS {
        let site = Site::new(era, "");
        let proxy = site.proxy();
        let mut peer = Peer::greet(site.setup_through(&proxy), era);
        for round in 0..3 {
            let id = peer.begin_call("slow", json!({ "ms": 60_000, "key": "a" }));
            assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == round + 1));
            proxy.set(Fault::Reset);
            let answer = peer.client.answer_within(id, SOON + slack());
            assert!(is_failure(&answer), "{answer}");
            assert_eq!(fault(&answer)["delivery"], "unknown", "{answer}");
            proxy.set(Fault::None);
            assert_eq!(peer.call("count", json!({ "key": "b" })), (round + 1).to_string());
        }
        assert_eq!(site.journal.runs("slow"), 3);
        wait_until("all is quiet", PATIENCE, || proxy.open_connections() < 10);
        peer.leave();
    }
}
