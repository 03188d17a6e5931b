//! What is borne of clients at most: whoever is over is told so politely, and everybody else goes on.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{PATIENCE, fault, is_failure, text};
use crate::evidence::{peak_kib, stop, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Place, chaos};
use crate::wire::Wire;

#[test]
fn no_more_calls_run_at_a_time_than_the_configuration_allows_and_the_others_wait_their_turn() {
    let place = Place::new([("one", chaos("").option("concurrency", 2)), ("two", chaos(""))]);
    let house = place.start();
    house.wait_for_tools("one");
    house.wait_for_tools("two");
    let mut guest = Guest::of(&house, Era::Modern);
    let mut running: Vec<_> = (0..2).map(|_| guest.begin_call("one__hang", json!({}))).collect();
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 2));
    let mut waiting = guest.begin_call("one__echo", json!({ "text": "at last" }));
    wait_until("it waits", PATIENCE, || house.server("one")["queue"] == 1);
    assert_eq!(guest.call("two__echo", json!({ "text": "on" })), "on", "another server has its own limit");
    assert_eq!(place.journal("one").runs("echo"), 0);
    drop(running.pop());
    let answer = waiting.answer();
    assert_eq!(text(&answer), "at last");
}

#[test]
fn no_more_calls_are_sent_in_a_time_than_the_configuration_allows() {
    let place = Place::new([("one", chaos("").option("rate", "2/2"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    let began = Instant::now();
    (0..5).for_each(|_| drop(guest.call("echo", json!({ "text": "on" }))));
    assert!(began.elapsed() > Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn calls_over_the_queue_are_refused_at_once_and_did_not_run() {
    let place = Place::new([("one", chaos("refuse-discover").option("queue", 3).option("concurrency", 1))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    let _running = guest.begin_call("hang", json!({}));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1));
    let mut others: Vec<_> = (0..8).map(|_| guest.begin_call("count", json!({ "key": "over" }))).collect();
    // Those that are refused are answered, in whichever order they came.
    wait_until("the queue is full", PATIENCE, || {
        let calls = house.server("one")["calls"].clone();
        let refused = |call: &&Value| call["outcome"] == "overloaded" && call["delivery"] == "not-sent";
        calls.as_array().unwrap().iter().find(refused).is_some_and(|call| call["count"].as_u64() >= Some(4))
    });
    assert_eq!(place.journal("one").runs("count"), 0);
    drop(others.drain(..));
    wait_until("those that waited are forgotten", PATIENCE, || house.server("one")["queue"] == 0);
}

#[test]
fn security_17_ten_thousand_pending_calls_are_refused_politely_and_others_go_on() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut other = Guest::of(&house, Era::Modern);
    let greedy = Guest::of(&house, Era::Legacy);
    let call =
        |id| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "hang" } });
    let mut batch: Vec<Value> = (1..10_000).map(call).collect();
    // A call that ends leaves its place to another. None does until the last of the batch has had its turn.
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    batch.push(cancel);
    let session = greedy.session.clone().unwrap();
    let headers = [("Mcp-Session-Id", &*session), ("MCP-Protocol-Version", "2025-03-26")];
    let mut wire = Wire::connect(house.address);
    wire.send("POST", "/mcp", &headers, &Value::from(batch).to_string());
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1024));
    assert_eq!(other.call("echo", json!({ "text": "on" })), "on");
    wait_until("one is cancelled", PATIENCE, || house.server("one")["inFlight"] == 1023);
    assert_eq!(place.journal("one").starts(), 1);
    other.failing_call("die", json!({}));

    // A session may have 1024 calls open; every other one is told. No call runs again.
    let head = wire.head();
    let answers = wire.messages(&head).pop_back().expect("all answers");
    let answers = answers.as_array().unwrap_or_else(|| panic!("{answers:.300}"));
    let with = |delivery| answers.iter().filter(|answer| fault(answer)["delivery"] == delivery).count();
    assert_eq!((answers.len(), with("not-sent"), with("unknown")), (9_998, 9_999 - 1024, 1023));
    assert!(peak_kib(house.pid()) < 200 << 10, "{} KiB", peak_kib(house.pid()));
    wait_until("nothing is in flight", PATIENCE, || house.server("one")["inFlight"] == 0);
    assert_eq!(other.call("echo", json!({ "text": "again" })), "again");
    assert_eq!(place.journal("one").runs("hang"), 1024);
}

#[test]
fn security_17_connections_that_do_nothing_take_no_file_from_servers_and_clients_that_work() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start_after("ulimit -n 128");
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Modern);
    assert_eq!(guest.call("echo", json!({ "text": "before" })), "before");
    let idle: Vec<TcpStream> = (0..400).filter_map(|_| TcpStream::connect(house.address).ok()).collect();
    assert!(idle.len() > 300);
    // A client that is here goes on, and its server can be started again.
    assert_eq!(guest.call("echo", json!({ "text": "during" })), "during");
    guest.failing_call("die", json!({}));
    assert_eq!(guest.call("echo", json!({ "text": "again" })), "again");
    drop(idle);
    wait_until("new clients are served", PATIENCE, || house.page("/livez", &[]).0 == 200);
    house.end();
}

#[test]
fn security_17_ten_thousand_idle_connections_take_little_memory_and_others_go_on() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Ours, and that of the gateway, which inherits it.
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files }).unwrap();
    let many = files.maximum.unwrap_or(20_000).saturating_sub(1_000).min(10_000);
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    assert_eq!(guest.call("echo", json!({ "text": "before" })), "before");
    let mut idle = vec![];
    while (idle.len() as u64) < many {
        idle.extend((0..100).map(|_| TcpStream::connect(house.address).unwrap()));
        assert_eq!(guest.call("echo", json!({ "text": "during" })), "during");
    }
    assert!(peak_kib(house.pid()) < 200 << 10, "{} KiB", peak_kib(house.pid()));
    drop(idle);
    wait_until("new clients are served", PATIENCE, || house.page("/livez", &[]).0 == 200);
    assert_eq!(place.journal("one").starts(), 1);
    house.end();
}

#[test]
fn more_clients_than_there_may_be_are_refused_and_told_to_come_back() {
    let place = Place::new([("one", chaos(""))]).options(&["--max-clients", "2"]);
    let house = place.start();
    let mut guests = [0, 1].map(|_| Guest::of(&house, Era::Legacy));
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    let (head, body) = Wire::connect(house.address).ask("POST", "/mcp", &[], &hello.to_string());
    assert_eq!(head.status, 503, "{body}");
    assert!(head.header("retry-after").is_some(), "{head:?}");
    assert_eq!(guests[0].call("echo", json!({ "text": "on" })), "on");
    assert_eq!(guests[1].leave(), 200);
    Guest::of(&house, Era::Legacy);
}

#[test]
fn scenario_50_a_response_that_came_while_the_gateway_was_stopped_is_delivered() {
    let place = Place::new([("one", chaos("").option("callTimeout", "10s"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guests = ERAS.map(|era| Guest::of(&house, era));
    let calls = guests.each_mut().map(|guest| guest.begin_call("slow", json!({ "ms": 3000 })));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("slow") == 2));
    stop(house.pid());
    std::thread::sleep(Duration::from_secs(11)); // The deadline must pass while it is stopped.
    house.signal(Signal::CONT);
    for mut call in calls {
        let answer = call.answer();
        assert!(!is_failure(&answer), "{answer}");
        assert_eq!(text(&answer), "slow");
    }
}
