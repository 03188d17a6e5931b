//! docs/migration.md: the command lines of other proxies and ours, as the page has them, lead to the same server.
//! Needs `tests/peers/install` once; says so where that has not been done, and fails in CI.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Some start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn mcp_remote_and_regrow_reach_the_same_server() {
    compare("mcp-remote", 1);
}

#[test]
fn supergateway_and_regrow_reach_the_same_server() {
    compare("supergateway", 2);
}

#[test]
fn mcp_proxy_and_regrow_reach_the_same_server() {
    compare("mcp-proxy (PyPI)", 3);
}

#[test]
fn the_proxy_of_fastmcp_and_regrow_reach_the_same_server() {
    compare("fastmcp", 2);
}

/// Runs both lines of each block in this section of the page.
fn compare(section: &str, blocks: usize) {
    let peers = Path::new(ROOT).join(".peers/proxies");
    if !peers.join("installed").exists() {
        assert!(std::env::var_os("REGROW_CI").is_none(), "in CI nothing may be skipped");
        let skipped = "skipped: the other proxies are not installed; tests/peers/install does that\n";
        std::io::stderr().write_all(skipped.as_bytes()).unwrap(); // `eprintln!` is only shown for tests that fail.
        return;
    }
    let page = fs::read_to_string(Path::new(ROOT).join("docs/migration.md")).unwrap();
    let table = Table::new(&peers, &page);
    let (_, text) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let mut compared = 0;
    for (before, block) in blocks_of(text, "console") {
        let [theirs, ours] = block.lines().collect::<Vec<_>>()[..] else { panic!("not two lines: {block}") };
        assert!(ours.starts_with("regrow "), "{ours}");
        let address = before.lines().last().unwrap().split('`').find(|part| part.starts_with("http://"));
        let (theirs, ours) = (table.ask(theirs, address), table.ask(ours, address));
        assert!(theirs.0.contains(&"echo".to_owned()), "{theirs:?}");
        assert_eq!(theirs, ours, "{block}");
        compared += 1;
    }
    assert_eq!(compared, blocks, "{section}");
}

/// The code blocks in this language, each with the paragraph before it.
fn blocks_of<'a>(text: &'a str, language: &str) -> Vec<(&'a str, &'a str)> {
    let fence = format!("\n\n```{language}\n");
    let mut found = vec![];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(&*fence) {
        let (block, after) = after.split_once("\n```").unwrap();
        found.push((before, block));
        rest = after;
    }
    found
}

/// A folder with the programs and the file that the page names, and the remote server.
struct Table {
    folder: TempDir,
    url: String,
    _server: Group,
}

impl Table {
    fn new(peers: &Path, page: &str) -> Table {
        let folder = TempDir::new().unwrap();
        let peers = peers.canonicalize().unwrap();
        let peers = peers.display();
        let program = |name: &str, script: &str| {
            let path = folder.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        program(
            "npx",
            &format!("shift; name=$1; shift; exec node '{peers}/node/node_modules/.bin/'$name \"$@\""),
        );
        program("uvx", &format!("name=$1; shift; exec '{peers}/'$name/bin/$name \"$@\""));
        program("fastmcp", &format!("exec '{peers}/fastmcp/bin/fastmcp' \"$@\""));
        program("regrow", &format!("exec '{REGROW}' \"$@\""));
        // Some proxies leave it behind, so it says who it is. All of them speak the legacy era.
        let pids = folder.path().join("pids");
        let server =
            format!("echo $$ >>'{}'; CHAOS=refuse-discover exec '{REGROW}' chaos-server", pids.display());
        program("some-server", &server);
        let (_, file) = blocks_of(page, "json")[0];
        let file = file.replace("some-server", &folder.path().join("some-server").to_string_lossy());
        fs::write(folder.path().join("mcp.json"), file).unwrap();
        let port = free_port();
        let mut server = Command::new(REGROW);
        server.args(["chaos-server", "--http", &format!("127.0.0.1:{port}")]);
        server
            .env("CHAOS", "refuse-discover")
            .env("CHAOS_LIFE", "300s")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Group::start(&mut server);
        wait_for(port);
        Table { url: format!("http://127.0.0.1:{port}/mcp"), folder, _server: server }
    }

    /// What a client of this command line sees: the names of all tools, and the result of a call.
    fn ask(&self, line: &str, address: Option<&str>) -> (Vec<String>, Value) {
        let port = free_port();
        let line = line.replace("https://mcp.example.com/mcp", &self.url).replace("8000", &port.to_string());
        let started = Group::start(self.shell(&line).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let Some(address) = address else { return Client::of(started, line).ask() };
        wait_for(port);
        let wrap = format!("regrow wrap --era legacy {}", address.replace("8000", &port.to_string()));
        let client = Group::start(self.shell(&wrap).stdin(Stdio::piped()).stdout(Stdio::piped()));
        let asked = Client::of(client, line).ask();
        drop(started);
        asked
    }

    fn shell(&self, line: &str) -> Command {
        let path = std::env::join_paths([self.folder.path().to_owned()].into_iter().chain(paths()));
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec {line}")])
            .current_dir(self.folder.path())
            .env("PATH", path.unwrap());
        command.env("HOME", self.folder.path()).env_remove("XDG_CACHE_HOME").env_remove("XDG_CONFIG_HOME");
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1").stderr(Stdio::null());
        command
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let pids = fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| pid.parse().ok()) {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if command.contains("chaos-server") {
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL); // It may have ended.
            }
        }
    }
}

fn paths() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect()
}

/// A process and all that it started. It is ended when this is dropped.
struct Group(Child);

impl Group {
    fn start(command: &mut Command) -> Group {
        Group(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        let _ = kill_process_group(group, Signal::KILL); // It may have ended.
        let _ = self.0.wait();
    }
}

/// A client on standard input and output.
struct Client {
    input: ChildStdin,
    output: Receiver<Value>,
    line: String,
    _group: Group,
}

impl Client {
    fn of(mut group: Group, line: String) -> Client {
        let (input, stdout) = (group.0.stdin.take().unwrap(), group.0.stdout.take().unwrap());
        let (read, output) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Not all keep their output for the protocol alone.
                let _ = serde_json::from_str(&line).map(|message| read.send(message));
            }
        });
        Client { input, output, line, _group: group }
    }

    fn ask(mut self) -> (Vec<String>, Value) {
        let client = json!({ "name": "migration", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        self.request(1, "initialize", hello);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        let tools = self.request(2, "tools/list", json!({}));
        let names =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        let call =
            self.request(3, "tools/call", json!({ "name": "echo", "arguments": { "text": "the same?" } }));
        (names, call["content"][0]["text"].clone())
    }

    fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.output.recv_timeout(left);
            let message = message.unwrap_or_else(|_| panic!("{}: no response to {method}", self.line));
            if message["id"] == id {
                assert!(message["result"].is_object(), "{}: {message}", self.line);
                return message["result"].clone();
            }
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn wait_for(port: u16) {
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "nobody listens on port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
