//! One client on standard input and output, all servers behind it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{PATIENCE, envelope, is_failure, text};
use crate::evidence::{kill, slack};
use crate::house::{Place, chaos};

struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    seen: Vec<Value>,
    next_id: u64,
}

impl Host {
    fn of(place: &Place) -> Host {
        let mut command = place.serve();
        let mut child = command
            .args(["--transport", "stdio"])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Nothing but the protocol is on standard output.
                let _ = send.send(serde_json::from_str(&line).unwrap_or_else(|_| json!({ "bad": line })));
            }
        });
        let stdin = child.stdin.take();
        Host { child, stdin, lines, seen: vec![], next_id: 0 }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }));
        self.next_id
    }

    fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&wanted) {
            return self.seen.remove(at);
        }
        loop {
            let message = self.lines.recv_timeout(PATIENCE * 2).unwrap();
            assert!(message.get("bad").is_none(), "{message}");
            if wanted(&message) {
                return message;
            }
            self.seen.push(message);
        }
    }

    fn answer(&mut self, id: u64) -> Value {
        self.wait_for(|message| message["id"] == id && message.get("method").is_none())
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        self.answer(id)
    }

    fn greet(&mut self) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": "host", "version": "1" } });
        let id = self.ask("initialize", params);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    fn wait_for_exit(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return (status.code(), began.elapsed()),
                None if began.elapsed() > PATIENCE => panic!("it does not end"),
                None => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended.
        let _ = self.child.wait();
    }
}

#[test]
fn a_host_on_standard_streams_lists_calls_is_asked_and_survives_a_death() {
    let place = Place::new([
        ("one", chaos("refuse-discover")),
        ("two", chaos("modern-only")),
        ("hung", chaos("never-answer")),
    ])
    .options(&["--list-wait", "2s"]);
    let mut host = Host::of(&place);
    host.greet();
    let id = host.ask("tools/list", json!({}));
    let tools = host.answer(id)["result"]["tools"].to_string();
    assert!(tools.contains("one__echo"), "{tools}");
    if !tools.contains("two__echo") {
        host.wait_for(|message| message["method"] == "notifications/tools/list_changed");
    }
    for server in ["one", "two"] {
        let answer = host.call(&format!("{server}__echo"), json!({ "text": server }));
        assert_eq!(text(&answer), server, "{answer}");
    }
    // The client's own abilities are told to its servers, and their questions reach it.
    let id = host.ask("tools/call", json!({ "name": "one__ask", "arguments": { "kind": "elicitation" } }));
    let question = host.wait_for(|message| message["method"] == "elicitation/create");
    host.send(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "accept", "content": { "w": "yes-it-is" } } }));
    let answer = host.answer(id);
    assert!(text(&answer).contains("yes-it-is"), "{answer}");

    let answer = host.call("one__die", json!({}));
    assert!(is_failure(&answer) && text(&answer).contains("may have run"), "{answer}");
    let answer = host.call("one__echo", json!({ "text": "again" }));
    assert_eq!(text(&answer), "again", "{answer}");
    assert_eq!(place.journal("one").runs("die"), 1);

    drop(host.stdin.take());
    let (code, took) = host.wait_for_exit();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(6) + slack(), "{took:?}");
    place.marked().assert_none_left(Duration::from_secs(5));
}

#[test]
fn a_modern_host_on_standard_streams_needs_no_greeting() {
    let place = Place::new([("one", chaos("refuse-discover")), ("two", chaos("modern-only"))]);
    let mut host = Host::of(&place);
    for server in ["one", "two"] {
        let id = host.ask("tools/list", json!({ "_meta": envelope() }));
        let tools = host.answer(id)["result"]["tools"].to_string();
        assert!(tools.contains(&format!("{server}__echo")), "{tools}");
        let params = json!({ "name": format!("{server}__echo"), "arguments": { "text": server }, "_meta": envelope() });
        let id = host.ask("tools/call", params);
        let answer = host.answer(id);
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        assert_eq!(text(&answer), server);
    }
}

#[test]
fn told_to_end_a_host_on_standard_streams_is_left_within_its_patience() {
    let place = Place::new([("one", chaos("refuse-discover ignore-term ignore-eof helper"))]);
    let mut host = Host::of(&place);
    host.greet();
    assert_eq!(text(&host.call("echo", json!({ "text": "on" }))), "on");
    kill(host.child.id(), Signal::TERM);
    let (code, took) = host.wait_for_exit();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(6) + slack(), "{took:?}");
    place.marked().assert_none_left(Duration::from_secs(5));
}

/// A host that writes all of this and closes our input; how we end, and the responses by id.
fn script(place: &Place, lines: &[String]) -> (Option<i32>, Vec<Value>) {
    let mut host = Host::of(place);
    let mut stdin = host.stdin.take().unwrap();
    stdin.write_all(lines.join("\n").as_bytes()).unwrap();
    drop(stdin);
    let (code, _) = host.wait_for_exit();
    let mut responses: Vec<Value> =
        host.lines.iter().filter(|message| message.get("method").is_none()).collect();
    responses.sort_by_key(|response| response["id"].as_u64());
    (code, responses)
}

fn hello() -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "host", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

fn call(id: u64, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

#[test]
fn scenario_47_what_a_host_wrote_before_the_end_of_its_input_is_answered() {
    for plan in ["refuse-discover", "refuse-discover slow-start=3s"] {
        let place = Place::new([("one", chaos(plan))]);
        let mut lines = vec![hello()];
        lines.extend((1..=500).map(|id| call(id, "count", json!({ "key": "k" }))));
        lines.push(call(501, "echo", json!({ "text": "x".repeat(1 << 20) })));
        let (code, responses) = script(&place, &lines);
        assert_eq!(code, Some(0), "{plan}");
        let ids: Vec<_> = responses.iter().filter_map(|response| response["id"].as_u64()).collect();
        assert!(ids.into_iter().eq(0..=501), "{plan}: {} responses", responses.len());
        assert_eq!(text(&responses[501]).len(), 1 << 20);
        assert_eq!(place.journal("one").runs("count"), 500, "{plan}");
        place.marked().assert_none_left(Duration::from_secs(5));
    }
}

#[test]
fn scenario_49_a_host_that_closes_only_its_reading_end_is_noticed() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let mut command = place.serve();
    command.args(["--transport", "stdio"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", hello()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("protocolVersion"), "{line}");
    // Its output is closed now. Nothing is unanswered.
    let mut host = Host { child, stdin: Some(input), lines: channel().1, seen: vec![], next_id: 0 };
    assert_eq!(host.wait_for_exit().0, Some(0));
    place.marked().assert_none_left(Duration::from_secs(5));
}
