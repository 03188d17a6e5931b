//! A running `regrow serve`, its configuration, and its servers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::journal::Journal;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::PATIENCE;
use crate::evidence::{Marked, kill};
use crate::wire::Wire;

pub const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

/// Where a gateway is at home: its configuration, its cache, and what its servers did. It outlives the gateway.
pub struct Place {
    folder: TempDir,
    marked: Arc<Marked>,
    options: Vec<String>,
    variables: Vec<(String, String)>,
}

/// A server that misbehaves to a plan, as the configuration describes it.
#[derive(Clone)]
pub struct Entry(Value);

/// One that follows this plan (see `regrow_chaos`). Where it speaks one era only, that is said, so that no life is spent to find it out.
pub fn chaos(plan: &str) -> Entry {
    let has = |item: &str| plan.split(' ').any(|word| word == item);
    let entry =
        json!({ "command": REGROW, "args": ["chaos-server"], "env": { "CHAOS": plan }, "regrow": {} });
    match (has("refuse-discover"), has("modern-only")) {
        (true, _) => Entry(entry).option("era", "legacy"),
        (_, true) => Entry(entry).option("era", "modern"),
        _ => Entry(entry),
    }
}

/// One that runs elsewhere.
pub fn remote(url: &str) -> Entry {
    Entry(json!({ "url": url, "regrow": {} }))
}

impl Entry {
    /// With this option of ours.
    pub fn option(mut self, name: &str, value: impl Into<Value>) -> Entry {
        self.0["regrow"][name] = value.into();
        self
    }

    /// With this variable.
    pub fn variable(mut self, name: &str, value: &str) -> Entry {
        self.0["env"][name] = value.into();
        self
    }

    /// With this member, whatever it is.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Entry {
        self.0[name] = value.into();
        self
    }
}

impl Place {
    /// With these servers.
    pub fn new<'a>(servers: impl IntoIterator<Item = (&'a str, Entry)>) -> Place {
        let marked = Arc::new(Marked::new());
        let place = Place { folder: TempDir::new().unwrap(), marked, options: vec![], variables: vec![] };
        place.configure(servers);
        place
    }

    /// With these options of `regrow serve`.
    pub fn options(mut self, options: &[&str]) -> Place {
        self.options.extend(options.iter().map(|option| option.to_string()));
        self
    }

    /// With this variable in the environment of `regrow serve`.
    pub fn variable(mut self, name: &str, value: &str) -> Place {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("servers.json")
    }

    /// Writes the configuration, as a whole, as editors do.
    pub fn configure<'a>(&self, servers: impl IntoIterator<Item = (&'a str, Entry)>) {
        let mut all = serde_json::Map::new();
        for (name, Entry(mut server)) in servers {
            if server.get("command").is_some() {
                let folder = self.journal(name).dir().to_owned();
                fs::create_dir_all(&folder).unwrap();
                server["env"]["CHAOS_DIR"] = folder.to_str().unwrap().into();
                server["env"]["CHAOS_LIFE"] = life().into();
                server["env"][Marked::VARIABLE] = self.marked.value().into();
            }
            all.insert(name.into(), server);
        }
        self.write_config(&json!({ "mcpServers": all }).to_string());
    }

    pub fn write_config(&self, text: &str) {
        fs::write(self.path("draft"), text).unwrap();
        fs::rename(self.path("draft"), self.config()).unwrap();
    }

    /// What this server did.
    pub fn journal(&self, server: &str) -> Journal {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        Journal::new(self.path(&format!("of-{}", server.chars().map(plain).collect::<String>())))
    }

    /// The process of this server that was started last.
    pub fn pid(&self, server: &str) -> u32 {
        let journal = self.journal(server);
        assert!(journal.wait(PATIENCE, |journal| journal.starts() > 0), "{server} was never started");
        *journal.pids().last().unwrap()
    }

    /// The mark that everything here carries.
    pub fn marked(&self) -> Arc<Marked> {
        self.marked.clone()
    }

    /// The command, to be run with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(REGROW);
        command.args(arguments);
        let ours = std::env::vars().map(|(name, _)| name);
        for name in ours.filter(|name| name.starts_with("REGROW_") || name.to_lowercase().ends_with("_proxy"))
        {
            command.env_remove(name); // Nothing here is for the network, and nothing is set by the machine.
        }
        command
            .env(Marked::VARIABLE, self.marked.value())
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.path("cache"))
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// The operator token that this gateway has written down for its user's commands, as a header.
    pub fn operator(&self, house: &House) -> String {
        let files =
            fs::read_dir(self.path("regrow")).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        let mut running = files.map(|text| serde_json::from_slice::<Value>(&text).unwrap());
        let ours = running.find(|running| running["pid"] == house.pid()).expect("its file is there");
        format!("Bearer {}", ours["operatorToken"].as_str().unwrap())
    }

    /// `regrow serve` with this configuration and any port.
    pub fn serve(&self) -> Command {
        let mut command = self.command(&["serve", "--port", "0"]);
        command.args(&self.options).arg(self.config());
        command
    }

    /// The same, from a shell that first does this.
    pub fn start_after(&self, script: &str) -> House {
        let serve = self.serve();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{script}; exec \"$@\""), "sh", REGROW]).args(serve.get_args());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        House::of(shell, self.marked.clone())
    }

    /// Starts it, and waits until it listens.
    pub fn start(&self) -> House {
        House::of(self.serve(), self.marked.clone())
    }
}

/// How long a server lives at most, so that nothing outlives a test that was killed.
fn life() -> &'static str {
    if std::env::var_os("REGROW_SOAK").is_some() { "120m" } else { "150s" }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.marked.end_all(); // What a failed test left.
    }
}

/// A gateway that listens.
pub struct House {
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    pub address: SocketAddr,
    /// Finds every process that descends from it.
    pub marked: Arc<Marked>,
}

impl House {
    pub fn of(mut command: Command, marked: Arc<Marked>) -> House {
        let mut child = command.spawn().unwrap();
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stderr, kept) = (child.stderr.take().unwrap(), log.clone());
        thread::spawn(move || {
            for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                kept.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let mut house = House { child, log, address: ([127, 0, 0, 1], 0).into(), marked };
        let line = house.wait_for_log("serving at http");
        let address = line.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        house.address = address.parse().unwrap();
        house
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line that contains this.
    pub fn wait_for_log(&self, part: &str) -> String {
        self.wait_for_log_after(0, part)
    }

    /// The same; the first so many lines do not count.
    pub fn wait_for_log_after(&self, from: usize, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            if let Some(line) = self.log().into_iter().skip(from).find(|line| line.contains(part)) {
                return line;
            }
            assert!(Instant::now() < deadline, "no log line with {part:?}:\n{}", self.log().join("\n"));
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Status and body of a page.
    pub fn page(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let (head, body) = Wire::connect(self.address).ask("GET", path, headers, "");
        (head.status, body)
    }

    pub fn status(&self) -> Value {
        let (status, body) = self.page("/status", &[("Accept", "application/json")]);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Where this server stands.
    pub fn server(&self, name: &str) -> Value {
        let status = self.status();
        let servers = status["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).cloned().unwrap_or_default()
    }

    /// Waits until this holds for a server.
    pub fn wait_where(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            let server = self.server(name);
            if holds(&server) {
                return server;
            }
            assert!(Instant::now() < deadline, "{name} is never {what}: {server}\n{}", self.log().join("\n"));
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a server is in this state.
    pub fn wait_for_state(&self, name: &str, state: &str) -> Value {
        self.wait_where(name, state, |server| server["state"] == state)
    }

    /// Waits until a server is ready and has told what it offers.
    pub fn wait_for_tools(&self, name: &str) -> Value {
        let is_listed = |server: &Value| server["catalog"]["tools"]["count"].as_u64() > Some(0);
        self.wait_where(name, "ready", |server| server["state"] == "ready" && is_listed(server))
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits until it has ended; its exit code and how long that took.
    pub fn wait_for_exit(&mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return (status.code(), began.elapsed()),
                None if began.elapsed() > PATIENCE * 2 => {
                    panic!("it does not end; log:\n{}", self.log().join("\n"))
                }
                None => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Ends it as an operator does, and sees that nothing is left.
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        let (code, _) = self.wait_for_exit();
        assert_eq!(code, Some(0), "{}", self.log().join("\n"));
        self.marked.assert_none_left(Duration::from_secs(5));
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.child.kill(); // It may have ended.
        let _ = self.child.wait();
    }
}

/// Runs to its end: the exit code, and what was said on standard output and on standard error.
pub fn done(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap(), text(stdout), text(stderr))
}
