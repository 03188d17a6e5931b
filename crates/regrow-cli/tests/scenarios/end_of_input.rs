//! Scenarios 47 and 49: `regrow wrap` in shell pipelines. What was written before the end of input is answered, and nobody writes for
//! a client that does not read.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::journal::Journal;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup, fault, is_failure, text};
use crate::evidence::{Marked, kill};

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");
/// What a pipeline may take on a busy machine.
const LONG: Duration = Duration::from_secs(100);
/// The command in front of which `regrow wrap` stands.
const WRAP: &str = r#""$REGROW" wrap --name=chaos -- "$REGROW" chaos-server"#;

/// A folder with a file of requests, and what the server did.
struct Folder {
    folder: TempDir,
    marked: Marked,
}

impl Folder {
    fn new(requests: &[String]) -> Folder {
        let folder = Folder { folder: TempDir::new().unwrap(), marked: Marked::new() };
        fs::write(folder.path("calls"), requests.join("\n")).unwrap();
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn journal(&self) -> Journal {
        Journal::new(self.folder.path())
    }

    fn command(&self, program: &str, plan: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env("REGROW", REGROW)
            .env(Marked::VARIABLE, self.marked.value())
            .env("CHAOS_DIR", self.folder.path())
            .env("CHAOS", plan)
            .env("CHAOS_LIFE", "120s")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs a script to its end. Its exit code.
    fn run(&self, script: &str, plan: &str) -> Option<i32> {
        let mut shell = self.command("sh", plan);
        let code = wait(&mut shell.args(["-c", script]).spawn().unwrap());
        self.marked.assert_none_left(Duration::from_secs(10));
        code
    }

    /// The responses in this file, by id.
    fn responses(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let mut responses: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|message| message.get("method").is_none())
            .collect();
        responses.sort_by_key(|response| response["id"].as_u64());
        responses
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.marked.end_all(); // What a failed test left.
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > LONG {
            let _ = child.kill();
            panic!("it does not end");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn hello() -> String {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "elicitation": {}, "sampling": {} },
        "clientInfo": { "name": "pipeline", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }).to_string()
}

fn call(id: u64, tool: &str, arguments: Value) -> String {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
}

/// A greeting and a thousand calls; the last line has no end.
fn thousand() -> Vec<String> {
    let calls = (1..=1000).map(|id| call(id, "count", json!({ "key": "k" })));
    [hello()].into_iter().chain(calls).collect()
}

#[test]
fn scenario_47_a_thousand_calls_from_a_file_are_all_answered() {
    for script in [format!("{WRAP} < calls > out"), format!("cat calls | {WRAP} | cat > out")] {
        let folder = Folder::new(&thousand());
        assert_eq!(folder.run(&script, ""), Some(0), "{script}");
        let responses = folder.responses("out");
        let ids: Vec<_> = responses.iter().filter_map(|response| response["id"].as_u64()).collect();
        assert!(ids.into_iter().eq(0..=1000), "{script}: {} responses", responses.len());
        assert!(!responses.iter().any(is_failure), "{script}");
        assert_eq!(folder.journal().runs("count"), 1000);
    }
}

#[test]
fn scenario_47_a_large_call_arrives_complete() {
    for bytes in [200_000, 1 << 20] {
        let folder = Folder::new(&[hello(), call(1, "echo", json!({ "text": "x".repeat(bytes) }))]);
        assert_eq!(folder.run(&format!("cat calls | {WRAP} > out"), ""), Some(0));
        assert_eq!(text(&folder.responses("out")[1]).len(), bytes);
    }
}

#[test]
fn scenario_47_a_slow_start_loses_nothing() {
    let large = call(1001, "echo", json!({ "text": "x".repeat(200_000) }));
    let requests: Vec<String> = thousand().into_iter().chain([large]).collect();
    let folder = Folder::new(&requests);
    assert_eq!(folder.run(&format!("{WRAP} < calls > out"), "slow-start=4s"), Some(0));
    assert_eq!(folder.responses("out").len(), 1002);
}

#[test]
fn scenario_47_a_server_that_dies_after_the_end_of_input_leaves_no_call_without_an_answer() {
    let requests = [
        hello(),
        call(1, "die", json!({ "how": "kill" })),
        call(2, "slow", json!({ "ms": 60_000 })),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/list" }).to_string(),
    ];
    let folder = Folder::new(&requests);
    assert_eq!(folder.run(&format!("{WRAP} < calls > out"), ""), Some(0));
    let responses = folder.responses("out");
    assert_eq!(responses.len(), 4, "{responses:?}");
    assert_eq!(fault(&responses[1])["delivery"], "unknown");
}

#[test]
fn scenario_52_the_usual_smoke_test_tells_at_once_why_a_server_does_not_start() {
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned();
    let folder = Folder::new(&[hello(), initialized, list, String::new()]);
    let server = r#"sh -c 'echo x >> starts; echo "TOKEN missing" >&2; exit 1'"#;
    let code = folder.run(&format!(r#""$REGROW" wrap --name=smoke -- {server} <calls >told"#), "");
    assert_eq!(code, Some(1));
    assert_eq!(fs::read_to_string(folder.path("starts")).unwrap().lines().count(), 3);
    let told = folder.responses("told");
    assert_eq!(told.len(), 2, "{told:?}");
    for answer in told {
        let fault = &answer["error"]["data"]["dev.regrow/fault"];
        assert_eq!(
            (&fault["exitCode"], &fault["stderr"]),
            (&json!(1), &json!(["TOKEN missing"])),
            "{answer}"
        );
    }
}

#[test]
fn scenario_47_what_the_server_asks_when_nobody_can_answer_does_not_keep_the_call() {
    for kind in ["elicitation", "sampling"] {
        let folder = Folder::new(&[hello(), call(1, "ask", json!({ "kind": kind }))]);
        assert_eq!(folder.run(&format!("{WRAP} < calls > out"), ""), Some(0), "{kind}");
        let responses = folder.responses("out");
        assert_eq!(responses.len(), 2, "{kind}: {responses:?}");
    }
}

#[test]
fn scenario_47_sigterm_ends_the_wait_for_a_call_that_hangs() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut client = Setup::plan("").connect();
        client.begin_call("hang", json!({ "key": "k" }));
        assert!(client.journal.wait(PATIENCE, |journal| journal.runs_with("hang", "k") == 1));
        client.close_input();
        client.wait_for_log(0, "the client closed its input");
        kill(client.pid(), signal);
        let (code, _) = client.wait_for_exit();
        assert_eq!(code, Some(1), "a call was not answered");
        client.marked.assert_none_left(Duration::from_secs(5));
    }
}

#[test]
fn scenario_49_a_pipeline_that_wants_one_line_ends_at_once() {
    let mut requests = thousand();
    requests.push(call(1001, "hang", json!({})));
    let folder = Folder::new(&requests);
    let script = format!("({WRAP} < calls; echo $? > code) | head -1 > out");
    assert_eq!(folder.run(&script, ""), Some(0));
    assert_eq!(folder.responses("out").len(), 1);
    assert_eq!(fs::read_to_string(folder.path("code")).unwrap().trim(), "1", "calls were not answered");
}

/// `regrow wrap` that was greeted, whose input stays open and whose output nobody reads any more.
fn unread(folder: &Folder, plan: &str, requests: &[String]) -> Child {
    let mut command = folder.command(REGROW, plan);
    command.args(["wrap", "--name=chaos", "--", REGROW, "chaos-server"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let input = child.stdin.as_mut().unwrap();
    writeln!(input, "{}", hello()).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("protocolVersion"), "{line}");
    for request in requests {
        writeln!(input, "{request}").unwrap();
    }
    child
}

#[test]
fn scenario_49_a_client_that_closes_only_its_reading_end_is_noticed() {
    for plan in ["", "ignore-eof ignore-term"] {
        // While nothing is written, and with a call in flight.
        for (requests, expected) in [(vec![], 0), (vec![call(1, "slow", json!({ "ms": 60_000 }))], 1)] {
            let folder = Folder::new(&[]);
            let mut child = unread(&folder, plan, &requests);
            let input = child.stdin.take();
            assert_eq!(wait(&mut child), Some(expected), "{plan:?}");
            folder.marked.assert_none_left(Duration::from_secs(5));
            drop(input);
        }
    }
}
