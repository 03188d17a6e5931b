//! Results that are too long to be held whole: clients get them while they arrive, and the truth if the rest does not come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{PATIENCE, fault, text};
use crate::evidence::{peak_kib, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Entry, House, Place, remote};

const MB: usize = 1_000_000;
/// Of a result that is cut, so much comes.
const CUT: usize = 3 * MB;

/// A server over HTTP, of the era that a request is of. Its tool returns a text of `bytes` bytes as `form` (`json`, `events`), and what
/// becomes of it says `then`: `end`, `slow`, `cut`, `stall`, `garbage`, or `other-id`.
#[derive(Clone, Default)]
struct Lengthy {
    /// How often its tool was called, and how much of results it could write.
    calls: Arc<AtomicUsize>,
    written: Arc<AtomicUsize>,
}

impl Lengthy {
    fn start(&self) -> Entry {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).unwrap();
                let server = server.clone();
                thread::spawn(move || while server.answer(&stream).is_ok_and(|goes_on| goes_on) {});
            }
        });
        remote(&url)
    }

    /// One exchange. Returns whether another may follow.
    fn answer(&self, mut stream: &TcpStream) -> std::io::Result<bool> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while reader.read_line(&mut head)? > 2 {}
        let length = |line: &str| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
        let mut body = vec![0; head.lines().find_map(length).unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let Ok(request) = serde_json::from_slice::<Value>(&body) else {
            write!(stream, "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n")?;
            return Ok(!head.is_empty());
        };
        let server_info = json!({ "name": "lengthy", "version": "1" });
        let mut reply = match request["method"].as_str() {
            Some("initialize") => json!({ "result": {
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": server_info,
            } }),
            Some("server/discover") => json!({ "result": {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "serverInfo": server_info,
                "ttlMs": 0, "cacheScope": "private",
            } }),
            Some("tools/list") => json!({ "result": {
                "tools": [{ "name": "read", "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true } }],
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            } }),
            Some("tools/call") => return self.call(&request, stream),
            _ if request.get("id").is_none() => {
                write!(stream, "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")?;
                return Ok(true);
            }
            _ => json!({ "error": { "code": -32601, "message": "Method not found" } }),
        };
        reply["jsonrpc"] = "2.0".into();
        reply["id"] = request["id"].clone();
        let reply = reply.to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{reply}", reply.len())?;
        Ok(true)
    }

    fn call(&self, request: &Value, mut stream: &TcpStream) -> std::io::Result<bool> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let arguments = &request["params"]["arguments"];
        let bytes = arguments["bytes"].as_u64().unwrap() as usize;
        let then = arguments["then"].as_str().unwrap();
        let (kind, open, close) = match arguments["form"] == "events" {
            true => ("text/event-stream", "id: 5\ndata: ", "\n\n"),
            false => ("application/json", "", ""),
        };
        let id = if then == "other-id" { json!("another") } else { request["id"].clone() };
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{open}")?;
        // Some servers write the id last.
        write!(stream, r#"{{"result":{{"resultType":"complete","content":[{{"type":"text","text":""#)?;
        let mut written = 0;
        while written < bytes {
            if written >= CUT && then != "end" {
                match then {
                    "cut" => return Ok(false),
                    "slow" if written.is_multiple_of(MB) => thread::sleep(Duration::from_secs(1)),
                    "stall" => thread::sleep(PATIENCE * 4),
                    "garbage" => write!(stream, "\u{1}")?,
                    _ => {}
                }
            }
            let piece = vec![b'x'; (bytes - written).min(50_000)];
            stream.write_all(&piece)?;
            written += piece.len();
            self.written.fetch_add(piece.len(), Ordering::SeqCst);
        }
        write!(stream, r#""}}]}},"jsonrpc":"2.0","id":{id}}}{close}"#)?;
        Ok(false)
    }
}

fn arguments(bytes: usize, form: &str, then: &str) -> Value {
    json!({ "bytes": bytes, "form": form, "then": then })
}

fn gateway(entry: Entry, era: Era) -> (Place, House) {
    let era = if era == Era::Modern { "modern" } else { "legacy" };
    let place = Place::new([("long", entry.option("era", era))]);
    let house = place.start();
    house.wait_for_tools("long");
    (place, house)
}

fn call(guest: &mut Guest, arguments: Value) -> Value {
    guest.request("tools/call", json!({ "name": "read", "arguments": arguments }))
}

#[test]
fn a_long_result_arrives_whole_and_is_not_held_whole() {
    let bytes = 24 * MB;
    for era in ERAS {
        let (_place, house) = gateway(Lengthy::default().start(), era);
        let mut guest = Guest::of(&house, era);
        assert_eq!(guest.call("read", arguments(3, "json", "end")), "xxx");
        let before = peak_kib(house.pid());
        for form in ["json", "events"] {
            let answer = call(&mut guest, arguments(bytes, form, "end"));
            assert_eq!(answer["result"]["isError"], Value::Null);
            let text = text(&answer);
            assert!(text.len() == bytes && text.bytes().all(|byte| byte == b'x'), "{} bytes", text.len());
        }
        let grown = peak_kib(house.pid()) - before;
        assert!(grown < 16_000, "{era:?}: {grown} KiB for two results of {bytes} bytes");
        assert_eq!(house.server("long")["inFlight"], 0);
        house.end();
    }
}

#[test]
fn of_a_long_result_that_is_cut_the_client_gets_what_has_come_and_the_reason() {
    for era in ERAS {
        let lengthy = Lengthy::default();
        let (_place, house) = gateway(lengthy.start(), era);
        let mut guest = Guest::of(&house, era);
        for form in ["json", "events"] {
            let before = lengthy.calls.load(Ordering::SeqCst);
            let answer = call(&mut guest, arguments(10 * MB, form, "cut"));
            let blocks = answer["result"]["content"].as_array().unwrap();
            assert_eq!(blocks.len(), 2);
            assert_eq!(blocks[0]["text"].as_str().unwrap().len(), CUT);
            let said = blocks[1]["text"].as_str().unwrap();
            assert!(
                said.contains("closed before the response was complete") && said.contains("may have run"),
                "{said}"
            );
            assert_eq!(answer["result"]["isError"], true);
            assert_eq!(fault(&answer)["cause"], "answer-cut", "{}", answer["result"]["_meta"]);
            // It could be called again, but the client has a part of the first result.
            assert_eq!(lengthy.calls.load(Ordering::SeqCst), before + 1);
            assert_eq!(guest.call("read", arguments(3, form, "end")), "xxx");
        }
        house.end();
    }
}

#[test]
fn a_long_result_that_turns_out_to_be_none_ends_as_an_error() {
    let (_place, house) = gateway(Lengthy::default().start(), Era::Legacy);
    let mut guest = Guest::of(&house, Era::Legacy);
    for (form, then) in
        [("json", "garbage"), ("events", "garbage"), ("json", "other-id"), ("events", "other-id")]
    {
        let answer = call(&mut guest, arguments(10 * MB, form, then));
        assert_eq!(answer["result"]["isError"], true);
        assert_eq!(fault(&answer)["kind"], "malformed", "{}", answer["result"]["_meta"]);
        assert_eq!(guest.call("read", arguments(3, form, "end")), "xxx");
    }
    house.end();
}

#[test]
fn a_long_result_that_stops_coming_ends_at_its_calls_deadline() {
    let (_place, house) = gateway(Lengthy::default().start().option("callTimeout", "5s"), Era::Legacy);
    let mut guest = Guest::of(&house, Era::Legacy);
    let answer = call(&mut guest, arguments(10 * MB, "json", "stall"));
    assert_eq!(fault(&answer)["kind"], "timeout", "{}", answer["result"]["_meta"]);
    assert_eq!(text(&answer).len(), CUT);
    house.end();
}

#[test]
fn a_long_result_that_keeps_coming_may_take_longer_than_its_calls_deadline() {
    let (_place, house) = gateway(Lengthy::default().start().option("callTimeout", "4s"), Era::Legacy);
    let mut guest = Guest::of(&house, Era::Legacy);
    for form in ["json", "events"] {
        let answer = call(&mut guest, arguments(9 * MB, form, "slow"));
        assert_eq!(text(&answer).len(), 9 * MB, "{}", answer["result"]["_meta"]);
    }
    house.end();
}

#[test]
fn where_errors_are_told_as_such_a_long_result_comes_whole_or_not_at_all() {
    let place = Place::new([("long", Lengthy::default().start().option("era", "legacy"))]);
    let place = place.options(&["--errors", "protocol"]);
    let house = place.start();
    house.wait_for_tools("long");
    let mut guest = Guest::of(&house, Era::Legacy);
    let answer = call(&mut guest, arguments(10 * MB, "json", "cut"));
    assert!(answer["error"]["message"].is_string() && answer.get("result").is_none(), "{answer}");
    assert_eq!(guest.call("read", arguments(5 * MB, "json", "end")).len(), 5 * MB);
    house.end();
}

#[test]
fn a_client_that_does_not_read_a_long_result_holds_up_its_server_and_no_memory() {
    let bytes = 60 * MB;
    let lengthy = Lengthy::default();
    let (_place, house) = gateway(lengthy.start(), Era::Legacy);
    let mut guest = Guest::of(&house, Era::Legacy);
    let before = peak_kib(house.pid());
    let mut begun = guest.begin_call("read", arguments(bytes, "json", "end"));
    // Until what lies between is full.
    let (mut written, mut since) = (0, std::time::Instant::now());
    wait_until("the server is held up", PATIENCE * 2, || {
        let now = lengthy.written.load(Ordering::SeqCst);
        if now != written {
            (written, since) = (now, std::time::Instant::now());
        }
        written > MB && since.elapsed() > Duration::from_secs(1)
    });
    assert!(written < bytes, "all of it went somewhere");
    let grown = peak_kib(house.pid()) - before;
    assert!(grown < 16_000, "{grown} KiB");
    // Others are not held up.
    assert_eq!(guest.call("read", arguments(3, "json", "end")), "xxx");
    assert_eq!(text(&begun.answer()).len(), bytes);
    house.end();
}

#[test]
fn a_client_that_leaves_during_a_long_result_leaves_nothing_behind() {
    for era in ERAS {
        let lengthy = Lengthy::default();
        let (_place, house) = gateway(lengthy.start(), era);
        let mut guest = Guest::of(&house, era);
        for form in ["json", "events"] {
            let mut begun = guest.begin_call("read", arguments(60 * MB, form, "end"));
            begun.head();
            drop(begun);
            house.wait_where("long", "no call in flight", |status| status["inFlight"] == 0);
            assert_eq!(guest.call("read", arguments(3, form, "end")), "xxx");
        }
        house.end();
    }
}
