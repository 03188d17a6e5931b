//! The shortest story: a call, a death, a call.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::Setup;
use crate::evidence::{kill, slack};
use crate::terminal::Terminal;

#[test]
fn a_call_a_death_a_call() {
    let mut client = Setup::plan("").connect();
    assert_eq!(client.call("echo", json!({ "text": "one" })), "one");
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "killed by SIGKILL");
    assert_eq!(client.call("echo", json!({ "text": "two" })), "two");
    assert_eq!(client.journal.starts(), 2);
    let (code, took) = client.leave();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(2) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn a_command_needs_no_dashes_before_it() {
    let client = Setup::plan("").without_dashes().options(&["--call-timeout", "9s"]);
    let script = "exec \"$0\" chaos-server";
    let mut client = client.command(&["sh", "-c", script, "{server}", "--name", "--", "x"]).connect();
    assert_eq!(client.call("echo", json!({ "text": "one" })), "one");
    assert_eq!(client.leave().0, Some(0));
}

#[test]
fn at_a_terminal_it_says_what_it_waits_for() {
    for words in [&["wrap", "cat"][..], &["serve", "--transport", "stdio", "--no-cache", "servers.json"]] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("servers.json"), "{ \"mcpServers\": {} }").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
        let (mut terminal, mut child) = Terminal::start(command.args(words).current_dir(folder.path()), true);
        terminal.read_until("waiting for JSON-RPC messages");
        terminal.read_until("regrow demo");
        kill(child.id(), Signal::TERM);
        child.wait().unwrap();
    }
    // A host reads no such thing.
    let mut client = Setup::plan("").connect();
    client.call("echo", json!({ "text": "one" }));
    client.leave();
    assert!(!client.log().iter().any(|line| line.contains("waiting for JSON-RPC")));
}

#[test]
fn scenario_48_a_handshake_and_a_call_written_together_work_with_a_strict_server() {
    // As `printf '%s\n' INIT INITIALIZED LIST | regrow wrap -- ...` writes them.
    let mut client = Setup::plan("strict slow-start=200ms").start();
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a shell" } });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }),
    ];
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    client.send_bytes(lines.as_bytes());
    assert!(client.answer(1)["result"]["serverInfo"].is_object());
    let tools = client.answer(2);
    assert!(tools["result"]["tools"].is_array(), "{tools}");
    assert_eq!(client.journal.starts(), 1);
    client.leave_cleanly();
}
