//! SECURITY 27: the audit log tells who did what and how it ended, and none of what is secret.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::evidence::wait_until;
use crate::guest::{ERAS, Era, Guest};
use crate::house::{Place, chaos, done};
use crate::validity;
use crate::wire::Wire;

const SCHEMA: &str = include_str!("../../../../docs/audit.schema.json");
const A: (&str, &str) = ("Authorization", "Bearer alpha-token");
const B: (&str, &str) = ("Authorization", "Bearer beta-token");
/// What the clients send, and its hash as another program computes it.
const SECRET: &str = "argument-5ecret";
const ARGUMENTS: (&str, usize) = ("4d7ef762b3b912181cfceba3c3f9956a06edc98218e2464fa57abd68f40613bd", 26);

/// Path and headers of a request; status, principal and outcome of its refusal.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a str, &'a str);

pub fn with_log(place: Place) -> Place {
    let path = place.path("audit.jsonl");
    place.options(&["--audit", path.to_str().unwrap()])
}

fn with_tokens(place: Place) -> Place {
    with_log(place).variable("TOKEN_A", "alpha-token").variable("TOKEN_B", "beta-token").options(&[
        "--token-env",
        "TOKEN_A",
        "--token-env",
        "TOKEN_B",
    ])
}

/// Whole lines that keep to the schema.
pub fn read(path: &Path) -> Vec<Value> {
    let schema = serde_json::from_str(SCHEMA).unwrap();
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let check = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        validity::check(&schema, &line).unwrap();
        line
    };
    whole.lines().map(check).collect()
}

/// Waits for lines like this: a response waits for its line only for a moment.
pub fn wait_for(place: &Place, count: usize, what: &str, is_it: impl Fn(&Value) -> bool) -> Vec<Value> {
    let path = place.path("audit.jsonl");
    let found = || read(&path).into_iter().filter(&is_it).collect::<Vec<_>>();
    wait_until(&format!("{count} lines of {what}"), PATIENCE * 2, || found().len() >= count);
    let found = found();
    assert_eq!(found.len(), count, "{what}: {found:#?}");
    found
}

pub fn is(line: &Value, members: &Value) -> bool {
    members.as_object().unwrap().iter().all(|(name, value)| line[name] == *value)
}

#[test]
fn security_27_each_call_has_a_line_with_who_what_and_how_it_ended() {
    let place = with_tokens(Place::new([("one", chaos("")), ("two", chaos(""))]));
    let house = place.start();
    for (era, token) in ERAS.into_iter().zip(["alpha-token", "beta-token"]) {
        let mut guest = Guest::new(&house, era).token(token);
        guest.greet();
        assert!(guest.tools().contains(&"one__echo".to_owned()));
        assert_eq!(guest.call("one__echo", json!({ "text": SECRET })), SECRET);
        guest.failing_call("two__fail", json!({}));
        guest.failing_call("one__die", json!({}));
        // A name that forges a line, unless it is escaped. The modern one is in a header, too.
        let unknown = if era == Era::Legacy { "one__x\"}\n{\"event\":\"call\"}\u{2028}" } else { "one__x" };
        guest.failing_call(unknown, json!({ "text": SECRET }));
        guest.request("resources/read", json!({ "uri": "nowhere://x" }));
        let session = guest.session.clone();

        let who = if era == Era::Legacy { "client-1" } else { "client-2" };
        let lines = wait_for(&place, 5, who, |line| line["principal"] == who);
        let expected = [
            json!({ "event": "call", "server": "one", "tool": "echo", "outcome": "answered", "delivery": "answered" }),
            json!({ "event": "call", "server": "two", "tool": "fail", "outcome": "tool-error", "delivery": "answered" }),
            json!({ "event": "call", "server": "one", "tool": "die", "outcome": "interrupted", "delivery": "unknown" }),
            json!({ "event": "refusal", "outcome": "unknown-tool", "delivery": "not-sent" }),
            json!({ "event": "refusal", "method": "resources/read", "outcome": "unknown-resource" }),
        ];
        for (line, expected) in lines.iter().zip(expected) {
            assert!(is(line, &expected), "{line} is not {expected}");
            assert_eq!(line["client"], json!({ "name": "scenario", "version": "1" }));
            assert_eq!(line.get("session").is_some(), era == Era::Legacy, "{line}");
            assert_eq!(line["session"], lines[0]["session"]);
        }
        assert_eq!(lines[0]["arguments"], json!({ "sha256": ARGUMENTS.0, "bytes": ARGUMENTS.1 }));
        let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
        let secrets =
            [Some(SECRET.to_owned()), session, Some("alpha-token".into()), Some("beta-token".into())];
        for secret in secrets.into_iter().flatten() {
            assert!(!text.contains(&secret), "{secret} in {text}");
        }
    }
    let mode = fs::metadata(place.path("audit.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    house.end();
    let before = read(&place.path("audit.jsonl")).len();
    place.start().end();
    assert_eq!(read(&place.path("audit.jsonl")).len(), before + 1, "a restart goes on with the file");
}

#[test]
fn security_27_a_call_that_its_client_leaves_has_a_line() {
    let place = with_log(Place::new([("one", chaos(""))]));
    let house = place.start();
    for era in ERAS {
        let mut guest = Guest::of(&house, era);
        let call = guest.begin_call("slow", json!({ "ms": 60_000 }));
        let runs = if era == Era::Legacy { 1 } else { 2 };
        assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("slow") == runs));
        drop(call);
        if era == Era::Legacy {
            assert_eq!(guest.leave(), 200);
        }
        let cancelled =
            json!({ "event": "call", "tool": "slow", "outcome": "cancelled", "delivery": "unknown" });
        wait_for(&place, runs, "cancelled calls", |line| is(line, &cancelled));
    }
}

#[test]
fn security_27_refused_requests_have_a_line_without_what_they_showed() {
    let place = with_tokens(Place::new([("one", chaos(""))]));
    let house = place.start();
    let mut guest = Guest::new(&house, Era::Legacy).token("alpha-token");
    guest.greet();
    guest.call("echo", json!({ "text": "x" }));
    let session = guest.session.clone().unwrap();
    let operator = place.operator(&house);
    let of_a = wait_for(&place, 1, "calls", |line| line["event"] == "call");

    let call = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "echo" } })
        .to_string();
    let ask = |path: &str, headers: &[(&str, &str)]| {
        let method = if path.starts_with("/mcp") || path.starts_with("/admin") { "POST" } else { "GET" };
        Wire::connect(house.address).ask(method, path, headers, &call).0.status
    };
    let shown = ("Authorization", "Bearer shown-5ecret");
    let cases: [Case<'_>; 8] = [
        ("/mcp?token=query-5ecret", &[], 401, "none", "no-token"),
        ("/mcp", &[shown], 401, "none", "wrong-token"),
        ("/mcp", &[A, ("Host", "evil.example")], 403, "client-1", "foreign-host"),
        ("/mcp", &[A, ("Origin", "https://evil.example")], 403, "client-1", "foreign-origin"),
        ("/mcp", &[B, ("Mcp-Session-Id", &session)], 404, "client-2", "not-found"),
        ("/mcp", &[("Authorization", &operator)], 403, "operator", "forbidden"),
        ("/status", &[A], 403, "client-1", "forbidden"),
        ("/admin/servers/one/park", &[B], 403, "client-2", "forbidden"),
    ];
    for (path, headers, status, principal, outcome) in cases {
        assert_eq!(ask(path, headers), status, "{path} {headers:?}");
        let path = path.split('?').next().unwrap();
        let expected =
            json!({ "event": "refusal", "principal": principal, "outcome": outcome, "httpStatus": status });
        let found = wait_for(&place, 1, outcome, |line| {
            is(line, &expected) && line["request"].as_str().is_some_and(|request| request.ends_with(path))
        });
        if outcome == "not-found" {
            assert_eq!(found[0]["session"], of_a[0]["session"], "whose session it tried is known");
        }
    }
    let text = fs::read_to_string(place.path("audit.jsonl")).unwrap();
    for secret in [&session, &operator["Bearer ".len()..], "shown-5ecret", "query-5ecret", "alpha-token"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    // What is not refused has no line: probes, pages of the operator.
    let before = read(&place.path("audit.jsonl")).len();
    for path in ["/livez", "/readyz", "/status", "/metrics"] {
        assert_eq!(house.page(path, &[("Authorization", &operator)]).0, 200, "{path}");
    }
    guest.call("echo", json!({ "text": "y" }));
    wait_for(&place, 2, "calls", |line| line["event"] == "call");
    assert_eq!(read(&place.path("audit.jsonl")).len(), before + 1);
}

#[test]
fn security_27_a_flood_of_refusals_is_counted_and_has_few_lines() {
    const EACH: usize = 100;
    let place = with_tokens(Place::new([("one", chaos("")), ("two", chaos(""))]));
    let house = place.start();
    let began = Instant::now();
    thread::scope(|scope| {
        for thread in 0..3 {
            let address = house.address;
            scope.spawn(move || {
                for number in 0..EACH {
                    let token = format!("Bearer wrong-{thread}-{number}");
                    // The gateway closes the connection after each refusal.
                    let (head, _) =
                        Wire::connect(address).ask("POST", "/mcp", &[("Authorization", &token)], "{}");
                    assert_eq!(head.status, 401);
                }
            });
        }
    });
    let wrong = |line: &Value| is(line, &json!({ "event": "refusal", "outcome": "wrong-token" }));
    let flood = || read(&place.path("audit.jsonl")).into_iter().filter(wrong).collect::<Vec<_>>();
    let told = || flood().iter().map(|line| line["repeats"].as_u64().unwrap_or(1)).sum::<u64>();
    wait_until("each refusal is told", PATIENCE * 2, || told() == 3 * EACH as u64);
    let seconds = began.elapsed().as_secs() as usize + 1;
    let lines = flood();
    assert!(lines.len() <= 10 * (seconds + 1), "{} lines in {seconds} s", lines.len());
    assert!(lines.iter().all(|line| line["principal"] == "none"), "{lines:?}");

    // Others keep their lines, and the shutdown tells what is not told yet.
    let mut guest = Guest::new(&house, Era::Legacy).token("alpha-token");
    guest.greet();
    for number in 0..30 {
        guest.call("one__echo", json!({ "text": number.to_string() }));
        guest.failing_call("one__nothing", json!({}));
    }
    house.end();
    let lines = read(&place.path("audit.jsonl"));
    let count = |what: &Value| {
        let found = lines.iter().filter(|line| is(line, what));
        found.map(|line| line["repeats"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    assert_eq!(count(&json!({ "event": "call", "principal": "client-1", "outcome": "answered" })), 30);
    assert_eq!(count(&json!({ "principal": "client-1", "outcome": "unknown-tool" })), 30);
    assert_eq!(told(), 3 * EACH as u64);
}

#[test]
fn security_27_too_many_clients_are_refused_with_a_line() {
    let place = with_log(Place::new([("one", chaos(""))])).options(&["--max-clients", "1"]);
    let house = place.start();
    let _guest = Guest::of(&house, Era::Legacy);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }).to_string();
    assert_eq!(Wire::connect(house.address).ask("POST", "/mcp", &[], &hello).0.status, 503);
    let refused = json!({ "principal": "local-user", "outcome": "overloaded", "httpStatus": 503 });
    wait_for(&place, 1, "refusals", |line| line["event"] == "refusal" && is(line, &refused));
}

#[test]
fn security_27_commands_have_a_line() {
    let place = with_log(Place::new([("one", chaos(""))]));
    let house = place.start();
    house.wait_for_tools("one");
    assert_eq!(done(&mut place.command(&["park", "one"])).0, 0);
    assert_ne!(done(&mut place.command(&["wake", "nobody"])).0, 0);
    assert_eq!(done(&mut place.command(&["log-level", "debug"])).0, 0);
    let lines = wait_for(&place, 3, "commands", |line| line["event"] == "command");
    let expected = [
        json!({ "command": "park", "server": "one", "outcome": "ok", "httpStatus": 202 }),
        json!({ "command": "wake", "server": "nobody", "outcome": "no-such-server", "httpStatus": 404 }),
        json!({ "command": "log-level debug", "outcome": "ok", "httpStatus": 200 }),
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(is(line, &expected) && line["principal"] == "operator", "{line} is not {expected}");
    }
    // Somebody who is not the operator.
    let (head, _) = Wire::connect(house.address).ask("POST", "/admin/servers/one/wake", &[], "{}");
    assert_eq!(head.status, 401);
    let refused = json!({ "event": "refusal", "principal": "local-user", "outcome": "unauthorized" });
    wait_for(&place, 1, "refusals", |line| is(line, &refused));
}

#[test]
fn security_27_changes_of_the_configuration_have_a_line() {
    let place = with_log(Place::new([("one", chaos("")), ("two", chaos(""))]));
    let house = place.start();
    place.configure([("one", chaos("")), ("three", chaos(""))]);
    house.wait_for_log("reloaded");
    let from = house.log().len();
    place.write_config("{ \"mcpServers\": { \"password\": 5ecret");
    house.wait_for_log_after(from, "keeping the previous one");
    let lines = wait_for(&place, 3, "configurations", |line| line["event"] == "config");
    let expected = [
        json!({ "added": ["one", "two"], "removed": [], "changed": [], "kept": 0, "outcome": "ok" }),
        json!({ "added": ["three"], "removed": ["two"], "changed": [], "kept": 1, "outcome": "ok" }),
        json!({ "outcome": "rejected" }),
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(is(line, &expected), "{line} is not {expected}");
    }
    assert!(!fs::read_to_string(place.path("audit.jsonl")).unwrap().contains("5ecret"));
}

#[test]
fn security_27_the_file_is_rotated_by_size() {
    let place = with_log(Place::new([("one", chaos(""))]));
    let place = place.options(&["--audit-max-size", "2KiB", "--audit-keep", "2"]);
    let house = place.start();
    let mut guest = Guest::of(&house, Era::Legacy);
    for number in 0..40 {
        guest.call("echo", json!({ "text": number.to_string() }));
    }
    house.end();
    let names = ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"];
    for name in names {
        let found = fs::metadata(place.path(name)).unwrap();
        assert!(found.len() <= 2048 && found.permissions().mode() & 0o777 == 0o600, "{name}: {found:?}");
        assert!(!read(&place.path(name)).is_empty(), "{name}");
    }
    assert!(!place.path("audit.jsonl.3").exists());
    let last = read(&place.path("audit.jsonl")).pop().unwrap();
    assert!(is(&last, &json!({ "event": "call", "tool": "echo", "outcome": "answered" })), "{last}");
}

#[test]
fn security_27_a_file_that_cannot_be_written_is_an_error_at_the_start() {
    let place = Place::new([("one", chaos(""))]);
    symlink(place.path("target"), place.path("link")).unwrap();
    fs::write(place.path("shared"), "").unwrap();
    fs::set_permissions(place.path("shared"), PermissionsExt::from_mode(0o666)).unwrap();
    for (name, part) in [
        ("missing/audit.jsonl", "No such file or directory"),
        ("link", "it is a symbolic link; name the file itself"),
        ("shared", "other users can change it; run `chmod 600` on it"),
    ] {
        let path = place.path(name);
        let (code, _, said) = done(place.serve().arg("--audit").arg(&path));
        assert!(
            code == 2 && said.contains("cannot write the audit log to") && said.contains(part),
            "{code} {said}"
        );
        assert!(said.contains(name), "{said}");
    }
    assert!(!place.path("target").exists());
    let (code, _, said) = done(place.serve().args(["--audit", "x", "--audit-keep", "0"]));
    assert!(code == 64 && said.contains("--audit-keep"), "{code} {said}");
}

#[test]
fn security_27_lines_that_are_lost_are_counted_and_stop_nobody() {
    let place = Place::new([("one", chaos(""))]).options(&["--audit", "/dev/full"]);
    let house = place.start();
    let mut guest = Guest::of(&house, Era::Legacy);
    for number in 0..3 {
        assert_eq!(guest.call("echo", json!({ "text": number.to_string() })), number.to_string());
    }
    let lost = || house.status()["gateway"]["audit"].clone();
    wait_until("lost lines are counted", PATIENCE, || lost() == json!({ "written": 0, "lost": 4 }));
    let (_, metrics) = house.page("/metrics", &[]);
    assert!(metrics.contains("\nregrow_audit_lost_total 4\n"), "{metrics}");
    assert!(metrics.contains("\nregrow_audit_lines_total 0\n"), "{metrics}");
    let (_, table, _) = done(&mut place.command(&["status"]));
    assert!(table.contains("lines missing from the audit log: 4"), "{table}");
    house.wait_for_log("audit log");
    let warnings: Vec<_> = house.log().into_iter().filter(|line| line.contains("audit log")).collect();
    assert_eq!(warnings.len(), 1, "once for all of them: {warnings:?}");
    assert!(warnings[0].contains("No space left on device"), "{warnings:?}");
    house.end();
}

#[test]
fn security_27_lines_go_to_standard_error_if_asked() {
    let place = Place::new([("one", chaos(""))]).options(&["--audit", "stderr"]);
    let house = place.start();
    Guest::of(&house, Era::Modern).call("echo", json!({ "text": SECRET }));
    let line = house.wait_for_log("\"tool\":\"echo\"");
    let line: Value = serde_json::from_str(&line).unwrap();
    validity::check(&serde_json::from_str(SCHEMA).unwrap(), &line).unwrap();
    assert!(
        is(&line, &json!({ "event": "call", "principal": "local-user", "outcome": "answered" })),
        "{line}"
    );
    assert!(!house.log().join("\n").contains(SECRET));
}

#[test]
fn security_27_a_client_on_standard_input_has_lines_too() {
    let place = with_log(Place::new([("one", chaos(""))]));
    let mut host = place
        .serve()
        .args(["--transport", "stdio"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = host.stdin.take().unwrap();
    let greeting = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "host", "version": "7" } });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "echo", "arguments": { "text": SECRET } } }),
    ];
    messages.iter().for_each(|message| writeln!(stdin, "{message}").unwrap());
    drop(stdin); // The response comes all the same.
    let lines: Vec<String> =
        BufReader::new(host.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(lines.iter().any(|line| line.contains(SECRET)), "{lines:?}");
    assert_eq!(host.wait().unwrap().code(), Some(0));
    let call =
        json!({ "principal": "local-user", "client": { "name": "host", "version": "7" }, "tool": "echo" });
    let found = wait_for(&place, 1, "calls", |line| is(line, &call));
    assert!(found[0]["durationMs"].as_f64().unwrap() < Duration::from_secs(3600).as_millis() as f64);
}
