//! Input that no good client, server or operator would give us.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{PATIENCE, Setup};
use crate::evidence::{peak_kib, wait_until};

#[test]
fn what_is_not_json_is_refused_and_the_relay_goes_on() {
    let mut client = Setup::plan("").connect();
    let garbage: [&[u8]; 8] = [
        b"hello",
        b"{",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\0ng\"}",
        b"\xff\xfe\xc3\x28",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":NaN,\"method\":\"ping\"}",
        b"}{",
    ];
    for line in garbage {
        client.send_bytes(&[line, b"\n"].concat());
        let answer = client.next_message(PATIENCE).expect("an answer");
        assert_eq!(answer["error"]["code"], -32700, "{answer} to {line:?}");
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    }
    assert_eq!(client.journal.starts(), 1);
    assert_eq!(unreadable(&client.journal.lines()), 0, "nothing of it reached the server");
}

#[test]
fn what_is_json_but_no_message_is_refused_and_the_relay_goes_on() {
    let mut client = Setup::plan("").connect();
    let cases = [
        ("{}", Value::Null),
        ("42", Value::Null),
        ("null", Value::Null),
        ("\"text\"", Value::Null),
        ("[]", Value::Null),
        (r#"{"jsonrpc":"2.0","id":901}"#, json!(901)),
        (r#"{"jsonrpc":"2.0","id":902,"method":7}"#, json!(902)),
        (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":903,"method":"ping","method":"tools/list"}"#, json!(903)),
        (r#"{"jsonrpc":"2.0","id":904,"id":905,"method":"ping"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":906,"method":"ping","result":{}}"#, json!(906)),
        (r#"{"jsonrpc":"2.0","id":907,"method":"ping","params":{},"params":{}}"#, json!(907)),
        (r#"{"jsonrpc":"2.0","id":908,"m\u0065thod":"ping","method":"ping"}"#, json!(908)),
        (r#"{"jsonrpc":"2.0","id":909,"method":"\ud800"}"#, json!(909)),
    ];
    for (line, id) in cases {
        client.send_line(line);
        let answer = client.next_message(PATIENCE).expect("an answer");
        assert_eq!(answer["error"]["code"], -32600, "{answer} to {line}");
        assert_eq!(answer["id"], id, "{line}");
        assert!(answer["error"]["message"].as_str().unwrap().len() > 10, "{answer}");
    }
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    assert_eq!(client.journal.requests("ping"), 0, "nothing of it reached the server");
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn line_ends_byte_order_marks_blank_lines_and_odd_spacing_are_borne() {
    let mut client = Setup::plan("").connect();
    let ping = r#"{"jsonrpc":"2.0","id":501,"method":"ping"}"#;
    let forms: [Vec<u8>; 5] = [
        format!("{ping}\r\n").into_bytes(),
        [b"\xef\xbb\xbf", ping.as_bytes(), b"\n"].concat(),
        format!("\n\n  \r\n\t{ping}  \n").into_bytes(),
        b" { \"id\" : 501 ,\t\"method\" : \"p\\u0069ng\" } \n".to_vec(),
        b"{\"id\":501,\"method\":\"ping\",\"unknown\":[1,{\"id\":7}]}\n".to_vec(),
    ];
    for form in forms {
        client.send_bytes(&form);
        let answer = client.next_message(PATIENCE).expect("an answer");
        assert_eq!((&answer["id"], &answer["result"]), (&json!(501), &json!({})), "{form:?}");
    }
    assert_eq!(unreadable(&client.journal.lines()), 0);
}

#[test]
fn a_message_in_crumbs_is_put_together_and_a_last_one_without_an_end_counts() {
    let mut client = Setup::plan("finish-on-eof").connect();
    for byte in br#"{"jsonrpc":"2.0","id":601,"method":"ping"}"# {
        client.send_bytes(&[*byte]);
    }
    client.send_bytes(b"\n");
    assert_eq!(client.next_message(PATIENCE).unwrap()["id"], 601);
    client.send_bytes(br#"{"jsonrpc":"2.0","id":602,"method":"ping"}"#);
    client.leave();
    let last = client.next_message(PATIENCE).expect("an answer to the last line");
    assert_eq!(last["id"], 602, "{last}");
}

#[test]
fn json_a_million_deep_harms_nobody() {
    let mut client = Setup::plan("").connect();
    let deep = |count: usize| format!("{}{}", "[".repeat(count), "]".repeat(count));
    let objects = |count: usize| format!("{}1{}", "{\"a\":".repeat(count), "}".repeat(count));
    for (id, value) in [(701, deep(1_000_000)), (702, objects(1_000_000))] {
        client
            .send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"a":{value}}}}}"#));
        assert_eq!(client.answer(id)["id"], id);
        client.send_line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{{"_meta":{value}}}}}"#
        ));
        assert_eq!(client.answer(id)["id"], id);
        client.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x","params":{value}}}"#));
        assert_eq!(client.answer(id)["id"], id);
        client.send_line(&value); // A batch of one batch, or no message.
        let answer = client.next_message(PATIENCE).expect("an answer");
        assert!(answer.to_string().contains("-32600"), "{answer:.300}");
    }
    client.send_line(&"[".repeat(1_000_000));
    assert_eq!(client.next_message(PATIENCE).unwrap()["error"]["code"], -32700);
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn a_request_over_the_limit_is_refused_and_never_sent() {
    let mut client = Setup::plan("").options(&["--max-line", "64KiB"]).connect();
    let long = "x".repeat(3_000_000);
    for (id, line) in [
        (
            801,
            format!(
                r#"{{"jsonrpc":"2.0","id":801,"method":"tools/call","params":{{"name":"count","x":"{long}"}}}}"#
            ),
        ),
        (802, format!(r#"{{"method":"tools/call","params":{{"name":"count","x":"{long}"}},"id":802}}"#)),
    ] {
        client.send_line(&line);
        let (text, fault) = client.failure(id);
        assert!(text.contains("over the limit") && text.contains("It did not run"), "{text}");
        assert_eq!((&fault["kind"], &fault["delivery"]), (&json!("too-large"), &json!("not-sent")));
    }
    assert_eq!(client.journal.runs("count"), 0);
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
}

#[test]
fn garbage_without_end_from_a_client_that_does_not_read_takes_no_memory_without_end() {
    let mut client = Setup::plan("").connect();
    client.stop_reading();
    let pid = client.pid();
    // A megabyte of two-byte lines makes some forty megabytes of refusals. Whoever floods us may be kept waiting.
    let feeder = std::thread::spawn(move || {
        client.send_bytes(&b"x\n".repeat(1_000_000));
        client
    });
    let (mut peak, mut same) = (0, 0);
    while !feeder.is_finished() && same < 100 {
        let now = peak_kib(pid);
        same = if now == peak { same + 1 } else { 0 };
        peak = now;
        assert!(peak < 60 << 10, "{peak} KiB");
        std::thread::sleep(Duration::from_millis(20));
    }
    crate::evidence::kill(pid, rustix::process::Signal::KILL);
    let _ = feeder.join(); // Its pipe may have broken under it.
}

#[test]
fn answers_that_nobody_waits_for_are_dropped() {
    let mut client = Setup::plan("").connect();
    for tool in ["stray", "dup", "stray", "dup"] {
        assert_eq!(client.call(tool, json!({})), tool);
    }
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    assert_eq!(client.seen(), Vec::<Value>::new(), "nothing that was not asked for");
    // The other way: a client that answers what was never asked.
    client.send_line(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    client.send_line(r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}"#);
    client.send_line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#);
    client.call("echo", json!({ "text": "on" }));
    assert!(client.journal.lines().iter().all(|line| !line.starts_with("stray-response")));
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn what_is_no_message_on_the_servers_stdout_is_said_once_and_the_call_is_answered() {
    let mut client = Setup::plan("garbage-on-start").connect();
    for _ in 0..5 {
        assert_eq!(client.call("garbage", json!({})), "garbage");
    }
    let (text, fault) = client.failing_call("malformed", json!({}));
    assert_eq!(fault["kind"], "malformed");
    assert!(text.contains("a malformed response"), "{text}");
    assert_eq!(client.logged("that is not a message"), 1, "{:#?}", client.log());
    assert_eq!(client.seen(), Vec::<Value>::new());
    assert_eq!(client.journal.starts(), 1);
}

#[test]
fn a_server_that_asks_without_end_is_refused_and_not_left_waiting() {
    let script = r#"
        read -r hello
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{}}}'
        read -r initialized
        seq 1 5000 | sed 's/.*/{"jsonrpc":"2.0","id":&,"method":"roots\/list"}/'
        cat > "$CHAOS_DIR/answers"; true # The shell keeps its own stdout.
    "#;
    let mut client = Setup::plan("").command(&["sh", "-c", script]).connect();
    let answers = client.journal.dir().join("answers");
    let refused = || std::fs::read_to_string(&answers).unwrap_or_default().matches("\"error\"").count();
    wait_until("the rest is refused", Duration::from_secs(20), || refused() >= 5000 - 4096);
    let asked = client.seen().iter().filter(|message| message["method"] == "roots/list").count();
    assert_eq!(asked, 4096);
    // An answer makes room for the next.
    client.send(json!({ "jsonrpc": "2.0", "id": 1, "result": { "roots": [] } }));
    wait_until("the answer arrives", Duration::from_secs(20), || {
        std::fs::read_to_string(&answers).unwrap_or_default().contains("\"roots\"")
    });
    assert_eq!(refused(), 5000 - 4096);
}

#[test]
fn calls_beyond_the_queue_are_refused_and_an_answer_makes_room() {
    let mut client = Setup::plan("").options(&["--queue", "2"]).connect();
    let slow = ["a", "b"].map(|key| client.begin_call("slow", json!({ "ms": 60_000, "key": key })));
    let (_, fault) = client.failing_call("echo", json!({ "text": "third" }));
    assert_eq!(fault["kind"], "overloaded", "{fault}");
    client.cancel(slow[0]);
    assert_eq!(client.call("echo", json!({ "text": "room" })), "room");
    client.cancel(slow[1]);
    client.leave_cleanly();
}

#[test]
fn names_from_outside_cannot_forge_lines_or_drive_a_terminal() {
    let mut client = Setup::plan("").connect();
    let name = "die\nregrow: chaos: all is well\u{1b}[2J\u{202e}";
    client.request("tools/call", json!({ "name": name, "arguments": {} }));
    let id = client.ask("tools/call", json!({ "name": "hang", "arguments": {}, "title": name }));
    client.notify("notifications/\u{1b}[2J\nforged", json!({}));
    assert!(client.journal.wait(PATIENCE, |journal| journal.runs("hang") == 1));
    crate::evidence::kill(client.server_pid(), rustix::process::Signal::KILL);
    client.failure(id);
    client.wait_for_log(0, "ready (session 2)");
    let log = client.log();
    assert!(
        log.iter().all(|line| !line.contains('\u{1b}') && !line.starts_with("regrow: chaos: all is well")),
        "{log:#?}"
    );
}

#[test]
fn a_server_name_cannot_forge_lines_either() {
    let name = "a\nb\u{1b}[2J\u{202e}c";
    let mut client = Setup::plan("").name(name).connect();
    let (text, _) = client.failing_call("die", json!({}));
    assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text:?}");
    let log = client.log();
    assert!(
        log.iter().all(|line| !line.contains(['\u{1b}', '\u{202e}']) && !line.starts_with('b')),
        "{log:#?}"
    );
}

fn regrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regrow"))
        .args(arguments)
        .env_remove("NO_SUCH_VARIABLE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_command_that_is_not_understood_is_answered_with_the_next_step() {
    let cases: [(&[&str], &[&str]); 15] = [
        (&[], &["Usage"]),
        (&["wrap"], &["COMMAND", "--help"]),
        (&["wrap", "--"], &["COMMAND", "--help"]),
        (&["wrp", "--", "x"], &["wrap"]),
        (&["wrap", "--call-timeuot", "3s", "--", "x"], &["--call-timeout"]),
        (&["wrap", "--call-timeout", "3", "--", "x"], &["--call-timeout", "300ms, 6s or 10m"]),
        (&["wrap", "--connect-timeout", "none", "--", "x"], &["--connect-timeout", "300ms, 6s or 10m"]),
        (&["wrap", "--max-line", "64MB", "--", "x"], &["--max-line", "64MiB"]),
        (&["wrap", "--max-line", "1", "--", "x"], &["--max-line", "at least 1KiB"]),
        (&["wrap", "--budget", "5", "--", "x"], &["--budget", "5/180"]),
        (&["wrap", "--errors", "loud", "--", "x"], &["--errors", "tool", "protocol"]),
        (&["wrap", "--replay", "always", "--", "x"], &["--replay", "never", "safe", "hints"]),
        (&["wrap", "-e", "NO_SUCH_VARIABLE", "--", "x"], &["NO_SUCH_VARIABLE", "set it, or write"]),
        (&["wrap", "-e", "=x", "--", "x"], &["NAME=VALUE"]),
        (&["wrap", "--watch", "/no/such/file", "--", "x"], &["--watch", "/no/such/file", "exists"]),
    ];
    for (arguments, wanted) in cases {
        let output = regrow(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}: stdout is for the protocol");
        for part in wanted {
            assert!(said.contains(part), "{arguments:?} does not say {part:?}:\n{said}");
        }
    }
}

#[test]
fn an_option_in_the_environment_is_judged_as_on_the_command_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_regrow"))
        .args(["wrap", "--", "x"])
        .env("REGROW_CALL_TIMEOUT", "soon")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("6s"), "{said}");
}

#[test]
fn help_and_version_are_no_failures() {
    for arguments in [&["--help"][..], &["--version"], &["wrap", "--help"], &["help", "wrap"]] {
        let output = regrow(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arguments:?}");
    }
}

fn unreadable(journal: &[String]) -> usize {
    journal.iter().filter(|line| line.starts_with("unreadable")).count()
}
