//! SECURITY 24 and 17: what one token makes the gateway hold is bounded, and takes nothing from another.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use serde_json::{Value, json};

use crate::client::{PATIENCE, text};
use crate::evidence::{peak_kib, wait_until};
use crate::guest::{Era, Guest};
use crate::house::{House, Place, chaos};
use crate::wire::Wire;

const ALICE: &str = "alice-token";
const BOB: &str = "bob-token";
const MIB: usize = 1 << 20;
/// What a gateway uses besides its budget: itself, the buffers of connections, and messages that are being copied.
const CONSTANT_KIB: u64 = 96 << 10;

/// With a token for each of two clients.
fn for_two(servers: &[(&'static str, crate::house::Entry)], options: &[&str]) -> Place {
    Place::new(servers.iter().cloned())
        .variable("TOKEN_A", ALICE)
        .variable("TOKEN_B", BOB)
        .options(&["--token-env", "TOKEN_A", "--token-env", "TOKEN_B"])
        .options(options)
}

fn guest(house: &House, token: &str, era: Era) -> Guest {
    let mut guest = Guest::new(house, era).token(token);
    guest.greet();
    guest
}

/// A number of the gateway's memory, as its status shows it to the operator.
fn memory(house: &House, operator: &str, name: &str) -> u64 {
    let headers = [("Authorization", operator), ("Accept", "application/json")];
    let (status, body) = house.page("/status", &headers);
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["gateway"]["memory"][name].as_u64().unwrap()
}

/// Begins a body of this length, sends this much of it unless it is refused, and keeps the connection open.
fn withhold(address: SocketAddr, token: &str, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let piece = vec![b' '; MIB];
    // Once it is refused the gateway closes the connection.
    let _ = (0..sent / MIB).try_for_each(|_| stream.write_all(&piece));
    stream
}

#[test]
fn security_24_bodies_that_never_complete_stay_within_the_budget_and_another_client_is_served() {
    let place = for_two(&[("one", chaos("refuse-discover"))], &["--memory-budget", "128MiB"]);
    let house = place.start();
    let operator = place.operator(&house);
    let mut bob = guest(&house, BOB, Era::Modern);
    assert_eq!(bob.call("echo", json!({ "text": "before" })), "before");

    // Five times the share of one token.
    let address = house.address;
    let bodies: Vec<_> =
        (0..40).map(|_| thread::spawn(move || withhold(address, ALICE, 60 * MIB, 8 * MIB))).collect();
    // At most eight of them fit into half of the budget.
    wait_until("the others are refused", PATIENCE * 4, || memory(&house, &operator, "refused") >= 32);
    let withheld: Vec<TcpStream> = bodies.into_iter().map(|body| body.join().unwrap()).collect();
    assert!(memory(&house, &operator, "held") <= 64 * MIB as u64);

    let large = "x".repeat(4 * MIB);
    assert_eq!(bob.call("echo", json!({ "text": large })).len(), large.len());
    let mut alice = guest(&house, ALICE, Era::Legacy);
    assert_eq!(alice.call("echo", json!({ "text": "small" })), "small");
    let peak = peak_kib(house.pid());
    assert!(peak < (128 << 10) + CONSTANT_KIB, "{peak} KiB");
    drop(withheld);
    wait_until("all is returned", PATIENCE * 2, || memory(&house, &operator, "held") == 0);
    assert_eq!(alice.call("echo", json!({ "text": large })).len(), large.len());
}

#[test]
fn security_24_a_body_over_the_share_is_refused_with_a_reason() {
    let place = for_two(&[("one", chaos("refuse-discover"))], &["--memory-budget", "8MiB"]);
    let house = place.start();
    let body = " ".repeat(5 * MIB);
    let headers = [("Authorization", &*format!("Bearer {ALICE}"))];
    let (head, body) = Wire::connect(house.address).ask("POST", "/mcp", &headers, &body);
    assert_eq!(head.status, 413, "{body}");
    assert!(body.contains("over the limit of 4194304 bytes"), "{body}");

    let _withheld = withhold(house.address, ALICE, 4 * MIB, 3 * MIB);
    let operator = place.operator(&house);
    wait_until("it is held", PATIENCE, || memory(&house, &operator, "held") >= 3 * MIB as u64);
    let (head, body) = Wire::connect(house.address).ask("POST", "/mcp", &headers, &" ".repeat(3 * MIB));
    assert_eq!((head.status, head.header("retry-after")), (429, Some("5")), "{body}");
    assert!(body.contains("this client uses more than its share of the gateway's memory"), "{body}");
}

#[test]
fn security_24_a_client_that_holds_most_gives_way_to_one_below_its_fair_share() {
    let place = for_two(&[("one", chaos("refuse-discover"))], &["--memory-budget", "16MiB"])
        .variable("TOKEN_C", "carol-token")
        .options(&["--token-env", "TOKEN_C"]);
    let house = place.start();
    let operator = place.operator(&house);
    let withheld = [ALICE, BOB].map(|token| withhold(house.address, token, 8 * MIB, 7 * MIB));
    wait_until("both hold their share", PATIENCE, || memory(&house, &operator, "held") >= 14 * MIB as u64);
    let mut carol = guest(&house, "carol-token", Era::Modern);
    let large = "x".repeat(2 * MIB);
    assert_eq!(carol.call("echo", json!({ "text": large })).len(), large.len());
    assert_eq!(memory(&house, &operator, "dropped"), 1);
    let mut answered = None;
    wait_until("one of the two gets a reason", PATIENCE, || {
        answered = withheld.iter().find(|stream| {
            stream.set_nonblocking(true).unwrap();
            stream.peek(&mut [0]).is_ok_and(|read| read > 0)
        });
        answered.is_some()
    });
    let mut start = [0; 4096];
    let read = answered.unwrap().read(&mut start).unwrap();
    let answer = String::from_utf8_lossy(&start[..read]);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("retry-after: 5"), "{answer}");
}

/// A tenth of what the case names, so that it takes a tenth of the time.
#[test]
fn security_24_unread_responses_stay_within_the_budget_and_another_client_is_served() {
    let place = for_two(&[("one", chaos("refuse-discover"))], &["--memory-budget", "16MiB"]);
    let house = place.start();
    let operator = place.operator(&house);
    for era in [Era::Legacy, Era::Modern] {
        let (mut alice, mut bob) = (guest(&house, ALICE, era), guest(&house, BOB, era));
        let before = place.journal("one").runs("huge");
        let unread: Vec<_> = (0..20).map(|_| alice.begin_call("huge", json!({ "bytes": 6 * MIB }))).collect();
        assert!(place.journal("one").wait(PATIENCE * 2, |journal| journal.runs("huge") == before + 20));
        wait_until("one is held, and others are dropped", PATIENCE * 4, || {
            let is_held = memory(&house, &operator, "held") >= 6 * MIB as u64;
            is_held && memory(&house, &operator, "refused") > 0
        });
        let (said, fault) = alice.failing_call("huge", json!({ "bytes": 6 * MIB }));
        assert_eq!(
            (&fault["kind"], &fault["delivery"]),
            (&json!("overloaded"), &json!("answered")),
            "{said}"
        );
        assert!(said.contains("the response to this call was dropped"), "{said}");
        assert_eq!(bob.call("huge", json!({ "bytes": 6 * MIB })).len(), 6 * MIB);
        assert!(memory(&house, &operator, "held") <= 16 * MIB as u64);
        drop(unread);
        if era == Era::Legacy {
            // A session keeps small responses for a client that comes back.
            assert_eq!([alice.leave(), bob.leave()], [200; 2]);
        }
        wait_until("all is returned", PATIENCE * 2, || memory(&house, &operator, "held") == 0);
    }
    let peak = peak_kib(house.pid());
    assert!(peak < (16 << 10) + CONSTANT_KIB, "{peak} KiB");
}

#[test]
fn security_24_one_token_opens_sessions_until_refused_and_another_still_gets_one() {
    let servers = [("one", chaos("refuse-discover").option("sessions", "private").option("maxSessions", 4))];
    let place = for_two(&servers, &["--max-clients", "16"]);
    let house = place.start();
    let mut alices: Vec<Guest> = (0..8).map(|_| guest(&house, ALICE, Era::Legacy)).collect();
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    let headers = [("Authorization", &*format!("Bearer {ALICE}"))];
    for _ in 0..20 {
        let (head, body) = Wire::connect(house.address).ask("POST", "/mcp", &headers, &hello.to_string());
        assert_eq!((head.status, head.header("retry-after")), (503, Some("5")), "{body}");
        assert!(body.contains("too many sessions"), "{body}");
    }
    let mut bob = guest(&house, BOB, Era::Legacy);

    // The same with sessions at a server: two of four for one token.
    for alice in &mut alices[..2] {
        assert_eq!(alice.call("echo", json!({ "text": "in" })), "in");
    }
    let (said, fault) = alices[2].failing_call("echo", json!({ "text": "out" }));
    assert_eq!(fault["kind"], "too-many-sessions", "{said}");
    assert_eq!(bob.call("echo", json!({ "text": "in" })), "in");
    alices[3].leave();
    guest(&house, ALICE, Era::Legacy);
}

#[test]
fn security_24_the_calls_of_one_token_do_not_keep_another_waiting_behind_them() {
    let place =
        for_two(&[("one", chaos("refuse-discover").option("concurrency", 1).option("queue", 16))], &[]);
    let house = place.start();
    let (mut alice, mut bob) = (guest(&house, ALICE, Era::Modern), guest(&house, BOB, Era::Modern));
    let operator = place.operator(&house);
    let queue = || {
        let headers = [("Authorization", &*operator), ("Accept", "application/json")];
        let status: Value = serde_json::from_str(&house.page("/status", &headers).1).unwrap();
        status["servers"][0]["queue"].as_u64()
    };
    let running = alice.begin_call("hang", json!({}));
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 1));
    let mut waiting = vec![];
    for number in 1..=4 {
        waiting.push(alice.begin_call("hang", json!({})));
        wait_until("it waits", PATIENCE, || queue() == Some(number));
    }
    let mut call = bob.begin_call("echo", json!({ "text": "in turn" }));
    wait_until("it waits, too", PATIENCE, || queue() == Some(5));
    drop(running);
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("hang") == 2));
    // One more call of Alice's came first; the others of hers still wait.
    drop(waiting.remove(0));
    assert_eq!(text(&call.answer()), "in turn");
}

#[test]
fn security_17_24_connections_without_a_request_have_the_smallest_share() {
    let place = for_two(&[("one", chaos("refuse-discover"))], &[]);
    let house = place.start_after("ulimit -n 256");
    let mut bob = guest(&house, BOB, Era::Modern);
    let mut idle: Vec<TcpStream> = (0..300).filter_map(|_| TcpStream::connect(house.address).ok()).collect();
    assert!(idle.len() > 200);
    // All of them are still open at this end, and the oldest are closed at the other.
    assert_eq!(bob.call("echo", json!({ "text": "here already" })), "here already");
    let mut alice = guest(&house, ALICE, Era::Legacy);
    assert_eq!(alice.call("echo", json!({ "text": "new" })), "new");
    for stream in &mut idle[..100] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let closed = stream.read(&mut [0]);
        let is_closed = match &closed {
            Ok(read) => *read == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(is_closed, "{closed:?}");
    }
    // A request with a wrong token does not make its connection last.
    let mut wire = Wire::connect(house.address);
    let (head, _) = wire.ask("GET", "/status", &[("Authorization", "Bearer wrong")], "");
    assert_eq!((head.status, head.header("connection")), (401, Some("close")));
}
