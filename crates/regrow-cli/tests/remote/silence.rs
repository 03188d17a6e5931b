//! Scenarios 33 and 34: nothing is heard, with and without a reason to worry.

use std::time::{Duration, Instant};

use regrow_chaos::proxy::Fault;
use rustix::process::Signal;
use serde_json::json;

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::{kill, slack, stop, wait_until};
use crate::site::{ERAS, Era, Peer, Site, in_both_eras};

#[test]
fn scenario_33_half_open_calls_end_at_their_deadline() {
    for era in ERAS {
        let site = Site::new(era, "");
        let proxy = site.proxy();
        let options = ["--call-timeout", "3s", "--reach-timeout", "1s", "--connect-timeout", "15s"];
        let mut peer = Peer::greet(site.setup_through(&proxy).options(&options), era);
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        proxy.set(Fault::Blackhole);
        let begun = Instant::now();
        let id = peer.begin_call("count", json!({ "key": "b" }));
        let answer = peer.client.answer_within(id, Duration::from_secs(5) + slack());
        assert!(is_failure(&answer), "{answer}");
        assert_eq!(fault(&answer)["kind"], "timeout", "{answer}");
        assert!(begun.elapsed() < Duration::from_millis(3500) + slack(), "{:?}", begun.elapsed());
        proxy.set(Fault::None);
        // What the black hole took stays lost, so a new connection must be made.
        let deadline = Instant::now() + Duration::from_secs(30) + slack();
        loop {
            let id = peer.begin_call("count", json!({ "key": "c" }));
            let answer = peer.client.answer_within(id, Duration::from_secs(5) + slack());
            if !is_failure(&answer) {
                break;
            }
            assert!(Instant::now() < deadline, "it does not recover: {answer}\n{}", peer.log());
        }
        assert_eq!(site.journal.runs_with("count", "b"), 0, "{era:?}");
        assert_eq!(site.journal.runs_with("count", "c"), 1, "{era:?}: not once for each try");
        peer.leave();
    }
}

#[test]
fn scenario_33_half_open_while_idle_is_noticed_by_a_probe() {
    in_both_eras(|era| {
        let site = Site::new(era, "");
        let proxy = site.proxy();
        // A handshake that is begun before the network is back is lost: the next one must not be far.
        let options = ["--idle-probe", "300ms", "--reach-timeout", "1s", "--connect-timeout", "15s"];
        let mut peer = Peer::greet(site.setup_through(&proxy).options(&options), era);
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        proxy.set(Fault::Blackhole);
        // The probe has ten seconds to be answered.
        peer.client.wait_for_log(0, "the server did not respond");
        let from = peer.client.log().len();
        proxy.set(Fault::None);
        peer.client.wait_for_log(from, "ready (session");
        assert_eq!(peer.call("count", json!({ "key": "a" })), "2", "{era:?}");
        assert_eq!(site.journal.requests("tools/call"), 2);
        peer.leave();
    });
}

#[test]
fn scenario_33_a_server_that_hangs_ends_no_later_than_the_deadline_allows() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--call-timeout", "3s"]);
        let begun = Instant::now();
        let (_, told) = peer.failing_call("hang", json!({ "whole": true, "key": "a" }));
        assert_eq!((&told["kind"], &told["delivery"]), (&json!("timeout"), &json!("unknown")), "{told}");
        assert!(begun.elapsed() < Duration::from_millis(3500) + slack());
        assert_eq!(site.journal.runs("hang"), 1);
    }
}

#[test]
fn scenario_34_a_server_without_ping_is_not_replaced() {
    for plan in ["no-ping", "invalid-ping", "silent-ping"] {
        let site = Site::new(Era::Legacy, plan);
        let mut peer = site.connect_with(&["--idle-probe", "200ms"]);
        peer.call("echo", json!({ "text": "x" }));
        let probed = |journal: &regrow_chaos::Journal| journal.requests("ping") >= 2;
        // A silent one may be asked once in ten seconds, and below the protocol.
        site.journal.wait(Duration::from_secs(3), probed);
        assert_eq!(peer.call("count", json!({})), "1", "{plan}");
        assert_eq!(site.journal.requests("initialize"), 1, "{plan}: {}", peer.log());
        peer.assert_nothing_charged();
        peer.leave();
    }
}

#[test]
fn scenario_34_silence_to_pings_for_longer_than_a_probe_may_take() {
    let site = Site::new(Era::Legacy, "silent-ping");
    let mut peer = site.connect_with(&["--idle-probe", "200ms"]);
    peer.call("echo", json!({ "text": "x" }));
    assert!(
        !site.journal.wait(Duration::from_secs(12), |journal| journal.requests("initialize") > 1),
        "{}",
        peer.log()
    );
    assert_eq!(peer.call("count", json!({})), "1");
    peer.leave();
}

#[test]
fn scenario_34_modern_servers_are_asked_in_their_own_way() {
    let site = Site::new(Era::Modern, "");
    let mut peer = site.connect_with(&["--idle-probe", "200ms"]);
    peer.call("echo", json!({ "text": "x" }));
    let from = peer.client.log().len();
    std::thread::sleep(Duration::from_secs(2)); // Nothing is to happen in this time.
    assert_eq!(site.journal.requests("ping"), 0);
    assert_eq!(peer.client.log().len(), from, "{}", peer.log());
    assert_eq!(peer.call("count", json!({})), "1");
    peer.leave();
}

#[test]
fn scenario_50_a_response_that_came_while_regrow_was_stopped_is_delivered() {
    in_both_eras(|era| {
        let site = Site::new(era, "");
        let mut peer = Peer::greet(site.setup().options(&["--call-timeout", "4s"]), era);
        let id = peer.begin_call("slow", json!({ "ms": 2000, "key": "a" }));
        wait_until("the call runs", PATIENCE, || site.journal.runs("slow") == 1);
        stop(peer.client.pid());
        std::thread::sleep(Duration::from_secs(6)); // The deadline must pass while it is stopped.
        kill(peer.client.pid(), Signal::CONT);
        assert_eq!(peer.result(id), "slow", "{era:?}");
        peer.leave();
    });
}
