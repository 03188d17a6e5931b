//! What an operator sees of a running gateway and has it do, from the command line.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/far.rs"]
mod far;
#[path = "operate/gateway.rs"]
mod gateway;
#[path = "harness/terminal.rs"]
mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use gateway::{Gateway, TOKEN};
use regrow_gateway::operate::{FaultReport, ServerReport, ServerState};
use serde_json::Value;
use terminal::{Terminal, screen};

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

fn regrow(arguments: &[&str]) -> Command {
    let mut command = Command::new(REGROW);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A proxy of the machine has no part in this.
    for name in ["REGROW_URL", "REGROW_ADMIN_TOKEN_ENV", "REGROW_ADMIN_TOKEN", "REGROW_CA_FILE"] {
        command.env_remove(name);
    }
    command.env("XDG_RUNTIME_DIR", "/nowhere"); // Gateways of others are not ours.
    command.env("http_proxy", "http://127.0.0.1:1").env("HTTPS_PROXY", "http://127.0.0.1:1");
    command
}

/// The exit code, and what was said on standard output and on standard error.
fn done(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn ready(name: &str) -> ServerReport {
    ServerReport {
        name: name.into(),
        state: ServerState::Ready,
        eager: true,
        budget_left: 5,
        ..Default::default()
    }
}

fn broken(name: &str) -> ServerReport {
    let text = "the server process exited with code 3".to_owned();
    let last_fault = Some(FaultReport { kind: "exited".into(), text, ..Default::default() });
    let stderr = vec!["no \x1b[31mtoken".to_owned()];
    ServerReport { state: ServerState::Parked, last_fault, stderr, ..ready(name) }
}

#[test]
fn a_person_sees_where_each_server_stands() {
    let url = Gateway::of([ready("files"), broken("github")]).start();
    let (code, table, said) = done(&mut regrow(&["status", "--url", &url]));
    assert_eq!((code, &*said), (1, ""), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "regrow 9.9.9, running for 61.0 s; 2 clients");
    assert!(lines[1].starts_with("SERVER  STATE"), "{table}");
    assert!(lines[2].starts_with("files   ready"), "{table}");
    assert!(lines[3].starts_with("github  parked"), "{table}");
    assert_eq!(lines[4], "  it is parked: the server process exited with code 3");
    assert_eq!(lines[5], "  | no \\u{1b}[31mtoken");
}

#[test]
fn a_server_that_requires_sign_in_is_shown_with_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let far = serde_json::json!({ "mcpServers": { "far": { "url": far::start_with_sign_in() } } });
    std::fs::write(&file, far.to_string()).unwrap();
    // It remembers which server has this name.
    let mut check = regrow(&["check", file.to_str().unwrap()]);
    let checked = done(check.env("XDG_STATE_HOME", folder.path()).env_remove("http_proxy"));
    assert!(checked.1.contains("requires sign-in"), "{checked:?}");
    let text = "the server requires sign-in (HTTP 401)".to_owned();
    let last_fault = Some(FaultReport { kind: "sign-in-needed".into(), text, ..Default::default() });
    let url = Gateway::of([ServerReport { last_fault, ..broken("far") }]).start();
    let (_, table, _) = done(regrow(&["status", "--url", &url]).env("XDG_STATE_HOME", folder.path()));
    let expected = "  it is parked: the server requires sign-in (HTTP 401); sign in: regrow login far\n";
    assert!(table.contains(expected), "{table}");
}

#[test]
fn a_machine_gets_json_and_an_exit_code() {
    let url = Gateway::of([ready("files")]).start();
    // As `regrow serve` prints it.
    let (code, json, _) = done(regrow(&["status", "--json"]).env("REGROW_URL", format!("{url}/mcp")));
    assert_eq!(code, 0);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["servers"][0]["state"], "ready");
    assert_eq!(value["gateway"]["version"], "9.9.9");
}

#[test]
fn a_watcher_sees_it_again_and_again_and_may_leave() {
    let url = Gateway::of([ready("files")]).start();
    let mut child = regrow(&["status", "--json", "--watch", "--url", &url]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let value: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(value["servers"][0]["name"], "files");
    }
    drop(lines);
    assert_eq!(child.wait().unwrap().code(), Some(0), "a reader that has left is no failure");
}

#[test]
fn on_a_terminal_the_status_is_redrawn_in_place_until_an_interrupt() {
    let url = Gateway::of([ready("files"), broken("github")]).start();
    for (columns, last) in [(80, "BUDGET"), (40, "RESTARTS")] {
        // Ctrl-C needs a terminal that is the controlling one.
        let mut command = Command::new("setsid");
        command.args(["--ctty", REGROW, "status", "--watch", "--interval", "10ms", "--url", &url]);
        command.env("NO_COLOR", "1").env_remove("REGROW_ADMIN_TOKEN_ENV");
        let (mut terminal, mut child) = Terminal::start_sized(&mut command, true, columns, 24);
        terminal.read_until_times("\x1b[?25h", 3);
        terminal.write("\x03");
        terminal.read_all();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{:?}", terminal.seen);
        let (seen, _) = terminal.seen.rsplit_once("\x1b[?25h").unwrap();
        assert!(!seen.contains("\x1b[3") && seen.matches("SERVER").count() >= 3, "{seen:?}");
        let shown = screen(seen, columns.into());
        let tables: Vec<_> = shown.iter().filter(|line| line.starts_with("SERVER")).collect();
        assert!(
            matches!(tables[..], [table] if table.ends_with(last)),
            "one, in the place of the others: {shown:?}"
        );
        assert!(shown.iter().any(|line| line.starts_with("github")), "{shown:?}");
        let is_shown = terminal.seen.rfind("\x1b[?25h") > terminal.seen.rfind("\x1b[?25l");
        assert!(is_shown, "the cursor: {:?}", terminal.seen);
    }
}

#[test]
fn orders_reach_their_server_whatever_its_name() {
    let gateway = Gateway::of([ready("my/files ü")]);
    let url = gateway.start();
    for order in ["reconnect", "drain", "park", "wake", "reset-budget"] {
        let (code, out, said) = done(&mut regrow(&[order, "my/files ü", "--url", &url]));
        assert_eq!((code, &*out), (0, ""), "{said}");
        assert_eq!(said, format!("regrow: my/files ü: {order} accepted\n"));
    }
    assert_eq!(done(&mut regrow(&["log-level", "debug", "--url", &url])).0, 0);
    let expected =
        ["reconnect", "drain", "park", "wake", "reset-budget"].map(|order| format!("{order} my/files ü"));
    assert_eq!(gateway.orders(), [&expected[..], &["log-level Debug".to_owned()]].concat());
}

#[test]
fn an_order_to_nobody_fails_and_says_who_was_meant() {
    let gateway = Gateway::of([ready("github")]);
    let (code, _, said) = done(&mut regrow(&["drain", "gihtub", "--url", &gateway.start()]));
    assert_eq!((code, &*said), (1, "regrow: no server is called gihtub; did you mean github?\n"));
    assert!(gateway.orders().is_empty());
}

#[test]
fn logs_are_shown_and_followed() {
    let gateway = Gateway::of([ready("files")]);
    let url = gateway.start();
    gateway.log("first");
    gateway.log("| \x1b[2J");
    let (code, lines, _) = done(&mut regrow(&["logs", "files", "--url", &url]));
    assert_eq!((code, &*lines), (0, "first\n| \\u{1b}[2J\n"));

    let mut child = regrow(&["logs", "files", "--follow", "--url", &url]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    assert_eq!(lines.next().unwrap().unwrap(), "| \\u{1b}[2J");
    gateway.log("later");
    assert_eq!(lines.next().unwrap().unwrap(), "later");
    drop(lines);
    gateway.log("nobody reads this");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_that_is_not_there_is_said_with_the_next_step() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    let (code, _, said) = done(&mut regrow(&["status", "--url", &url]));
    assert_eq!(code, 2);
    assert!(
        said.starts_with(&format!("regrow: no gateway can be reached at {url}: Connection refused")),
        "{said}"
    );
    assert!(said.contains("start it with `regrow serve`"), "{said}");
}

#[test]
fn something_else_that_answers_is_no_gateway() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", port.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in port.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]); // Whatever it is.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
        }
    });
    let (code, _, said) = done(&mut regrow(&["status", "--url", &url]));
    assert_eq!(code, 2);
    assert!(said.contains("is not a regrow gateway"), "{said}");
}

#[test]
fn a_gateway_behind_tls_opens_to_who_has_the_token_and_trusts_it() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::of([ready("files")]);
    let (url, certificate) = gateway.start_with_token(folder.path());
    let trusting = |arguments: &[&str]| {
        let mut command = regrow(arguments);
        command
            .args(["--url", &url, "--ca-file"])
            .arg(&certificate)
            .env("TOKEN", TOKEN)
            .env("WRONG", "s3cr3t-other");
        done(&mut command)
    };
    let (code, table, said) = trusting(&["status", "--admin-token-env", "TOKEN"]);
    assert_eq!(code, 0, "{said}");
    assert!(table.contains("files"), "{table}");

    let mut usual = regrow(&["status", "--url", &url, "--ca-file"]);
    let (code, _, said) = done(usual.arg(&certificate).env("REGROW_ADMIN_TOKEN", TOKEN));
    assert_eq!(code, 0, "{said}");

    let (code, _, said) = trusting(&["status"]);
    assert_eq!(code, 2);
    assert!(said.contains("needs the operator token: run the command on the same machine"), "{said}");
    assert!(said.contains("or set REGROW_ADMIN_TOKEN"), "{said}");
    let (code, _, said) = trusting(&["drain", "files", "--admin-token-env", "WRONG"]);
    assert_eq!(code, 2);
    assert!(said.contains("refused the operator token") && !said.contains("s3cr3t"), "{said}");
    assert!(gateway.orders().is_empty());

    let (code, _, said) =
        done(regrow(&["status", "--url", &url, "--admin-token-env", "TOKEN"]).env("TOKEN", TOKEN));
    assert_eq!(code, 2, "it is not trusted by itself");
    assert!(said.contains("no gateway can be reached") && !said.contains("s3cr3t"), "{said}");
}

#[test]
fn what_makes_no_sense_is_a_failure_of_usage() {
    for arguments in [
        &["status", "--url", "ftp://127.0.0.1"][..],
        &["status", "--url", "http://user:s3cr3t@127.0.0.1"],
        &["status", "--admin-token-env", "REGROW_NO_SUCH_VARIABLE"],
        &["log-level", "loud"],
        &["drain"],
    ] {
        let (code, out, said) = done(&mut regrow(arguments));
        assert_eq!((code, &*out), (64, ""), "{arguments:?}: {said}");
        assert!(!said.is_empty() && !said.contains("s3cr3t"), "{said}");
    }
}
