//! What the demo plays on: a server, behind `regrow wrap` or without it, and the server's journal.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use regrow_chaos::program::{Program, clean};
use regrow_chaos::sync::lock;
use regrow_chaos::{Journal, processes};
use regrow_protocol::{method, notification};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::teller::Teller;

/// The variable in the environment of everything that the demo starts.
const MARK: &str = "REGROW_DEMO";
/// The options that the demo runs `regrow wrap` with.
pub(super) const OPTIONS: [&str; 6] = ["--name", "demo", "--call-timeout", "2s", "--safe-tool", "lookup"];
/// The deadline in those options.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Nothing is waited for any longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long the program may take to end, before it is killed.
const FAREWELL: Duration = Duration::from_secs(4);
/// How often the journal and processes are looked at while we wait for them.
const GLANCE: Duration = Duration::from_millis(1);

pub(super) struct Stage {
    /// `regrow wrap`, or the server alone.
    pub(super) program: Program,
    pub(super) setting: Setting,
    last_id: u64,
    pending: Pending,
    ended: watch::Receiver<bool>,
    log: watch::Receiver<Vec<(Instant, String)>>,
    mark: String,
    /// The server's journal.
    folder: TempDir,
}

/// How the client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// The server is a child of the client, as hosts start it.
    WithoutRegrow,
    WithRegrow,
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// How a call ended.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) at: Instant,
    /// What a model would read.
    pub(super) text: String,
    /// Whether that is an answer of the server, or what regrow says in its place.
    pub(super) from_server: bool,
}

impl Stage {
    pub(super) fn start(setting: Setting, teller: Arc<Teller>) -> io::Result<Stage> {
        let folder = tempfile::Builder::new().prefix("regrow-demo-").tempdir()?;
        let mark = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let regrow = std::env::current_exe()?;
        let mut command = clean(&regrow);
        if setting == Setting::WithRegrow {
            command.arg("wrap").args(OPTIONS).arg("--").arg(&regrow);
        }
        command.arg("chaos-server");
        command.env(MARK, &mark).env("CHAOS_DIR", folder.path()).env("CHAOS_LIFE", "120s");
        let (log_written, log) = watch::channel(vec![]);
        let logged = move |line: &str| {
            let at = Instant::now();
            teller.log(line);
            log_written.send_modify(|log| log.push((at, line.to_owned())));
        };
        let pending = Pending::default();
        let (has_ended, ended) = watch::channel(false);
        let waiting = pending.clone();
        let said = move |line: Option<String>| match line {
            Some(line) => hear(&line, &waiting),
            None => {
                has_ended.send_replace(true);
                lock(&waiting).clear();
            }
        };
        let program = Program::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()), said, logged)?;
        Ok(Stage { program, setting, last_id: 0, pending, ended, log, mark, folder })
    }

    /// The handshake of a client. False if it failed.
    pub(super) async fn shake_hands(&mut self) -> bool {
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "regrow-demo", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer = self.request(method::INITIALIZE, &hello);
        let greeted = timeout(PATIENCE, answer).await.is_ok_and(|answer| answer.is_ok());
        self.send(&json!({ "jsonrpc": "2.0", "method": notification::INITIALIZED }));
        greeted
    }

    /// Sends a request. The receiver fails if there will be no answer any more.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> oneshot::Receiver<Answer> {
        self.last_id += 1;
        let (answered, answer) = oneshot::channel();
        lock(&self.pending).insert(self.last_id, answered);
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }));
        if self.has_ended() {
            lock(&self.pending).clear(); // Nobody else does it any more.
        }
        answer
    }

    /// If it cannot be written, the program has ended, and that is watched.
    fn send(&self, message: &Value) {
        self.program.write(message.to_string());
    }

    pub(super) fn server_pid(&self) -> u32 {
        self.journal().pids().last().copied().unwrap_or_default()
    }

    pub(super) fn journal(&self) -> Journal {
        Journal::new(self.folder.path())
    }

    /// Waits until this holds for the journal. False if it does not in time.
    pub(super) async fn journal_shows(&self, condition: impl Fn(&Journal) -> bool) -> bool {
        let journal = self.journal();
        let shown = async {
            while !condition(&journal) {
                sleep(GLANCE).await;
            }
        };
        timeout(PATIENCE, shown).await.is_ok()
    }

    /// How many lines the log has.
    pub(super) fn log_length(&self) -> usize {
        self.log.borrow().len()
    }

    /// Whether one of the lines from this one on is a warning.
    pub(super) fn warned_since(&self, from: usize) -> bool {
        self.log.borrow().iter().skip(from).any(|(_, line)| line.contains(": warning: "))
    }

    /// When a line from this one on said this. None if it does not in time.
    pub(super) async fn logged(&self, from: usize, part: &str) -> Option<Instant> {
        let find = |log: &Vec<(Instant, String)>| {
            log.iter().skip(from).find(|(_, line)| line.contains(part)).map(|(at, _)| *at)
        };
        let mut log = self.log.clone();
        let log = timeout(PATIENCE, log.wait_for(|log| find(log).is_some())).await.ok()?.ok()?;
        find(&log)
    }

    /// Whether the program has closed its output.
    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Resolves when the program says nothing any more.
    pub(super) fn watch_end(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(|ended| *ended).await; // A reader that is gone has ended, too.
        }
    }

    /// Leaves as a host does; without Regrow, what is left is killed. Returns how many processes are left after that; none where that cannot be told.
    pub(super) async fn leave(&self) -> Option<usize> {
        // The guard carries no mark.
        let is_guard =
            |pid: &u32| processes::Stat::of(*pid).is_some_and(|stat| stat.parent == self.program.pid);
        let ours: Vec<u32> = processes::all().filter(is_guard).collect();
        self.program.close_input();
        if self.setting == Setting::WithoutRegrow {
            processes::signal(self.program.pid, Signal::KILL); // It may hang.
        }
        let began = Instant::now();
        while self.program.exit().is_none() {
            if began.elapsed() > FAREWELL {
                processes::signal(self.program.pid, Signal::KILL);
            }
            sleep(GLANCE).await;
        }
        let left = || {
            let mut left: BTreeSet<u32> =
                ours.iter().copied().filter(|pid| !processes::is_dead(*pid)).collect();
            left.extend(processes::marked(MARK, &self.mark));
            left.len()
        };
        let ended = Instant::now();
        while left() > 0 && ended.elapsed() < FAREWELL {
            sleep(GLANCE).await;
        }
        cfg!(target_os = "linux").then(left)
    }
}

fn hear(line: &str, pending: &Pending) {
    let at = Instant::now();
    let Ok(message) = serde_json::from_str::<Value>(line) else { return };
    let answered = message["id"].as_u64().and_then(|id| lock(pending).remove(&id));
    if let Some(answered) = answered {
        let result = &message["result"];
        let text = result["content"][0]["text"].as_str().or(message["error"]["message"].as_str());
        let from_server = result["isError"] != true && message.get("error").is_none();
        // Nobody may wait for it any more.
        let _ = answered.send(Answer { at, text: text.unwrap_or_default().into(), from_server });
    }
}
