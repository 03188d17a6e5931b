//! What must hold over time: nothing piles up, nothing spins, and idle connections may come and go.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, fault, is_failure};
use crate::evidence::{open_files, peak_kib, processor_time, slack, wait_until};
use crate::site::{ERAS, Era, Site};

#[test]
fn connections_that_a_server_closes_between_calls_cost_nothing_where_that_can_be_helped() {
    for era in ERAS {
        for plan in ["close-idle", "close-idle=5ms"] {
            let site = Site::new(era, plan);
            let mut peer = site.connect_with(&["--safe-tool", "lookup"]);
            for number in 1..=40 {
                let key = format!("k{number}");
                peer.call("lookup", json!({ "key": key }));
                // Sometimes the close is on its way already when a call leaves. Then nobody can tell whether it ran.
                thread::sleep(Duration::from_millis(number % 7));
                let id = peer.begin_call("count", json!({ "key": key }));
                let answer = peer.client.answer(id);
                let ran = site.journal.runs_with("count", &key);
                assert!(
                    ran == 1 || is_failure(&answer) && fault(&answer)["delivery"] == "unknown",
                    "{answer}"
                );
            }
            peer.leave();
        }
    }
}

#[test]
fn no_call_leaves_on_a_connection_that_many_servers_are_about_to_close() {
    for era in ERAS {
        let site = Site::new(era, "no-get");
        let mut peer = site.connect();
        peer.call("echo", json!({ "text": "x" }));
        let before = site.journal.connections();
        peer.call("echo", json!({ "text": "at once" }));
        assert_eq!(site.journal.connections(), before, "it is used again");
        thread::sleep(Duration::from_millis(4500)); // Many servers close a connection after five seconds.
        peer.call("echo", json!({ "text": "later" }));
        assert_eq!(site.journal.connections(), before + 1, "{era:?}");
        peer.leave();
    }
}

#[test]
fn failures_leave_no_files_open() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--call-timeout", "3s"]);
        peer.call("echo", json!({ "text": "warm" }));
        let before = open_files(peer.client.pid());
        for plan in [
            "status=500",
            "drop-answer",
            "answer=sse cut",
            "answer=sse finish",
            "swallow",
            "cut-body=5",
            "status=200 body=html",
        ] {
            site.control(&format!("{plan} on=tools/call"));
            let ids: Vec<u64> = (0..8).map(|_| peer.begin_call("count", json!({}))).collect();
            for id in ids {
                peer.client.failure(id);
            }
        }
        site.control("");
        assert!(!peer.call("count", json!({})).is_empty());
        // A few connections may wait for the next calls.
        wait_until("files are closed", PATIENCE, || open_files(peer.client.pid()) <= before + 12);
        peer.leave();
    }
}

#[test]
fn a_server_that_stays_away_costs_no_processor_and_few_words() {
    for era in ERAS {
        let mut site = Site::new(era, "");
        let mut peer = site.connect_with(&["--idle-probe", "200ms"]);
        peer.call("echo", json!({ "text": "x" }));
        site.kill();
        peer.client.wait_for_log(0, "cannot be reached");
        let (begun, used, lines) =
            (Instant::now(), processor_time(peer.client.pid()), peer.client.log().len());
        thread::sleep(Duration::from_secs(4)); // Nothing is to happen in this time but a few attempts.
        let share = (processor_time(peer.client.pid()) - used).as_secs_f64() / begun.elapsed().as_secs_f64();
        assert!(share < 0.05, "{share}");
        assert!(peer.client.log().len() - lines < 25, "{}", peer.log());
        site.start();
        assert_eq!(peer.call_back("count", json!({})), "1");
        peer.leave();
    }
}

#[test]
fn what_a_lost_session_asked_the_client_is_cancelled_and_a_late_answer_goes_nowhere() {
    let mut site = Site::new(Era::Legacy, "");
    let mut peer = site.connect();
    let id = peer.begin_call("ask", json!({}));
    let question = peer.client.wait_for("elicitation/create");
    site.restart();
    peer.client.failure(id);
    let cancelled = peer.client.wait_for("notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(peer.call_back("count", json!({})), "1");
    peer.client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept" } }));
    assert_eq!(peer.call("count", json!({})), "2");
    let answers = site.journal.lines().iter().filter(|line| line.contains("response")).count();
    assert_eq!(answers, 0);
    peer.leave();
}

#[test]
fn the_session_is_ended_at_the_server_however_we_are_ended() {
    use rustix::process::Signal;
    for signal in [None, Some(Signal::TERM), Some(Signal::INT)] {
        let site = Site::new(Era::Legacy, "");
        let mut peer = site.connect();
        peer.begin_call("slow", json!({ "ms": 60_000 }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("slow") == 1));
        let begun = Instant::now();
        match signal {
            Some(signal) => {
                crate::evidence::kill(peer.client.pid(), signal);
                peer.client.wait_for_exit();
            }
            None => drop(peer.client.leave_as_hosts_do()),
        }
        assert!(begun.elapsed() < Duration::from_secs(5) + slack(), "{signal:?}: {:?}", begun.elapsed());
        assert_eq!(site.journal.deletes(), site.journal.sessions(), "{signal:?}");
    }
}

#[test]
fn we_end_in_time_though_the_server_does_not_answer() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        let id = peer.begin_call("hang", json!({ "whole": true }));
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("hang") == 1), "{id}");
        let (code, took) = peer.client.leave_as_hosts_do();
        assert_eq!(code, Some(1), "a call was not answered");
        assert!(took < Duration::from_secs(5) + slack(), "{took:?}");
    }
}

#[test]
fn scenario_47_what_a_client_wrote_before_the_end_of_its_input_is_answered() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect();
        let mut ids: Vec<u64> = (0..100).map(|_| peer.begin_call("count", json!({ "key": "k" }))).collect();
        ids.push(peer.begin_call("echo", json!({ "text": "x".repeat(1 << 20) })));
        let (code, _) = peer.client.leave();
        assert_eq!(code, Some(0), "{:?}", peer.client.log());
        for id in ids {
            let answer = peer.client.answer(id);
            assert!(!is_failure(&answer), "{answer:.300}");
        }
        assert_eq!(site.journal.runs("count"), 100);
    }
}

#[test]
fn a_client_that_stops_reading_costs_no_memory_and_loses_nothing() {
    for era in ERAS {
        let site = Site::new(era, "");
        let mut peer = site.connect_with(&["--idle-probe", "500ms", "--call-timeout", "30s"]);
        peer.client.stop_reading();
        let count = 6_000;
        let params = json!({
            "name": "notify",
            "arguments": { "n": count, "bytes": 1_700 },
            "_meta": { "progressToken": "t", "io.modelcontextprotocol/logLevel": "info" },
        });
        let id = peer.ask("tools/call", params);
        assert!(site.journal.wait(PATIENCE, |journal| journal.runs("notify") == 1));
        // It reads nothing for longer than a server may be silent.
        thread::sleep(Duration::from_secs(2));
        let peak = peak_kib(peer.client.pid());
        assert!(peak < 64 * 1024, "{peak} KiB");
        peer.client.read_again();
        let answer = peer.client.answer_within(id, Duration::from_secs(60));
        assert!(!is_failure(&answer), "{answer}");
        let seen = peer.client.seen();
        let progress = seen.iter().filter(|message| message["method"] == "notifications/progress");
        let numbers: Vec<u64> =
            progress.map(|message| message["params"]["progress"].as_u64().unwrap()).collect();
        assert!(numbers.iter().copied().eq(1..=count), "{era:?}: {} of {count}", numbers.len());
        assert_eq!(peer.sessions(), 1, "{}", peer.log());
        peer.assert_nothing_charged();
        peer.leave();
    }
}
