//! What the demo plays on: `regrow wrap` as a child of ours, a server behind it, and the server's journal.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
/// How long `regrow wrap` may take to end, before it is killed.
const FAREWELL: Duration = Duration::from_secs(4);
/// How often the journal and processes are looked at while we wait for them.
const GLANCE: Duration = Duration::from_millis(1);

pub(super) struct Stage {
    wrap: Child,
    stdin: Option<ChildStdin>,
    last_id: u64,
    pending: Pending,
    ended: watch::Receiver<bool>,
    log: watch::Receiver<Vec<(Instant, String)>>,
    mark: String,
    /// The server's journal.
    folder: TempDir,
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
    pub(super) fn start(teller: Arc<Teller>) -> io::Result<Stage> {
        let folder = tempfile::Builder::new().prefix("regrow-demo-").tempdir()?;
        let mark = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let regrow = std::env::current_exe()?;
        let mut command = Command::new(&regrow);
        for (name, _) in std::env::vars_os() {
            // What is set for the user's own servers is not meant for this one.
            if name.to_string_lossy().starts_with("REGROW_") || name.to_string_lossy().starts_with("CHAOS") {
                command.env_remove(name);
            }
        }
        command.arg("wrap").args(OPTIONS).arg("--").arg(&regrow).arg("chaos-server");
        command.env(MARK, &mark).env("CHAOS_DIR", folder.path()).env("CHAOS_LIFE", "120s");
        let mut wrap = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (log_written, log) = watch::channel(vec![]);
        if let Some(stderr) = wrap.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
                    let at = Instant::now();
                    let line = String::from_utf8_lossy(&line).into_owned();
                    teller.log(&line);
                    log_written.send_modify(|log| log.push((at, line)));
                }
            });
        }
        let pending = Pending::default();
        let (has_ended, ended) = watch::channel(false);
        if let Some(stdout) = wrap.stdout.take() {
            let pending = pending.clone();
            thread::spawn(move || {
                read_answers(stdout, &pending);
                lock(&pending).clear();
                has_ended.send_replace(true);
            });
        }
        let stdin = wrap.stdin.take();
        Ok(Stage { wrap, stdin, last_id: 0, pending, ended, log, mark, folder })
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
        answer
    }

    fn send(&mut self, message: &Value) {
        if let Some(stdin) = &mut self.stdin {
            // If it cannot be written, `regrow wrap` has ended, and that is watched.
            let _ = stdin.write_all(format!("{message}\n").as_bytes());
        }
    }

    /// A signal to the server that runs now; says when it was sent.
    pub(super) fn signal_server(&self, signal: Signal) -> Instant {
        send_signal(self.server_pid(), signal)
    }

    /// A signal to `regrow wrap`; says when it was sent.
    pub(super) fn signal_wrap(&self, signal: Signal) -> Instant {
        send_signal(self.wrap.id(), signal)
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

    /// Resolves when `regrow wrap` says nothing any more.
    pub(super) fn watch_end(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(|ended| *ended).await; // A reader that is gone has ended, too.
        }
    }

    /// Leaves as a host does. Returns how many processes are left after that; none where that cannot be told.
    pub(super) async fn leave(&mut self) -> io::Result<Option<usize>> {
        // The guard carries no mark.
        let wrap = self.wrap.id();
        let is_guard = |pid: &u32| processes::Stat::of(*pid).is_some_and(|stat| stat.parent == wrap);
        let ours: Vec<u32> = processes::all().filter(is_guard).collect();
        drop(self.stdin.take());
        let began = Instant::now();
        while self.wrap.try_wait()?.is_none() {
            if began.elapsed() > FAREWELL {
                self.wrap.kill()?;
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
        Ok(cfg!(target_os = "linux").then(left))
    }
}

fn read_answers(stdout: ChildStdout, pending: &Pending) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let at = Instant::now();
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let answered = message["id"].as_u64().and_then(|id| lock(pending).remove(&id));
        if let Some(answered) = answered {
            let result = &message["result"];
            let text = result["content"][0]["text"].as_str().or(message["error"]["message"].as_str());
            let from_server = result["isError"] != true && message.get("error").is_none();
            // Nobody may wait for it any more.
            let _ = answered.send(Answer { at, text: text.unwrap_or_default().into(), from_server });
        }
    }
}

/// No holder of these locks panics, and what they hold is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn send_signal(pid: u32, signal: Signal) -> Instant {
    let at = Instant::now();
    processes::signal(pid, signal); // What is gone on its own shows in what follows.
    at
}
