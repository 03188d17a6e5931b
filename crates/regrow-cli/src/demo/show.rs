//! A caller on the stage: makes calls, kills the server, tells about both, and counts.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow_chaos::processes;
use regrow_protocol::method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout};

use super::stage::{Answer, CALL_TIMEOUT, PATIENCE, Setting, Stage};
use super::summary::{Summary, length};
use super::teller::{Teller, Voice};

/// A server that dies again within a second is restarted once a second. Each act shows one death, so they are kept apart.
const APART: Duration = Duration::from_millis(1050);
/// Between two acts a reader may take breath.
const BREATH: Duration = Duration::from_millis(300);

pub(super) struct Show {
    pub(super) stage: Stage,
    teller: Arc<Teller>,
    began: Instant,
    summary: Summary,
    acts: usize,
    /// The keys of the calls that write.
    keys: Vec<String>,
    /// When the newest server was ready, once one has died.
    restarted: Option<Instant>,
}

/// A call that was made.
pub(super) struct Call {
    pub(super) at: Instant,
    answer: oneshot::Receiver<Answer>,
}

/// What was done to the server.
pub(super) struct Blow {
    pub(super) at: Instant,
    /// The line of the log from which on it may be told.
    pub(super) from: usize,
}

impl Show {
    pub(super) fn new(stage: Stage, teller: Arc<Teller>) -> Show {
        let now = Instant::now();
        Show {
            stage,
            teller,
            began: now,
            summary: Summary::default(),
            acts: 0,
            keys: vec![],
            restarted: None,
        }
    }

    /// Begins an act, when the one before it has sunk in.
    pub(super) async fn act(&mut self, title: &str) {
        let breath = Instant::now() + BREATH;
        let next = self.restarted.map_or(breath, |restarted| breath.max(restarted + APART));
        sleep_until(next.into()).await;
        self.acts += 1;
        self.teller.act(self.acts, title);
    }

    /// The first half of an act: the same without Regrow, on a stage of its own.
    pub(super) fn without_regrow(&self) -> io::Result<Show> {
        self.teller.half("without regrow");
        Ok(Show::new(Stage::start(Setting::WithoutRegrow, self.teller.clone())?, self.teller.clone()))
    }

    /// The second half begins, and the first is summed up.
    pub(super) async fn with_regrow(&mut self, without: Show) {
        self.summary.without.add(&without.end().await);
        self.teller.half("with regrow");
    }

    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Call {
        let said: Vec<String> = arguments
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.teller.say(Voice::Call, &format!("{tool} {}", said.join(" ")));
        self.call_quietly(tool, arguments)
    }

    /// A call to the tool that writes, for so long, with a key of its own.
    pub(super) fn write(&mut self, takes: Duration) -> (Call, String) {
        let key = self.new_key();
        let call = self.call("count", json!({ "key": key, "delay_ms": takes.as_millis() }));
        (call, key)
    }

    /// The same, and waits until the server runs it.
    pub(super) async fn write_begun(&mut self, takes: Duration) -> Call {
        let (call, key) = self.write(takes);
        self.stage.journal_shows(|journal| journal.runs_with("count", &key) > 0).await;
        call
    }

    /// This many such calls at once, which take no time.
    pub(super) fn writes(&mut self, count: usize) -> Vec<(Call, String)> {
        self.teller.say(Voice::Call, &format!("count, {count} times at once"));
        let call = |_| {
            let key = self.new_key();
            (self.call_quietly("count", json!({ "key": key })), key)
        };
        (0..count).map(call).collect()
    }

    fn new_key(&mut self) -> String {
        let key = format!("order-{}", self.keys.len() + 1);
        self.keys.push(key.clone());
        key
    }

    fn call_quietly(&mut self, tool: &str, arguments: Value) -> Call {
        self.summary.calls += 1;
        let at = Instant::now();
        Call {
            at,
            answer: self.stage.request(method::TOOLS_CALL, &json!({ "name": tool, "arguments": arguments })),
        }
    }

    /// The end of a call. None if it had none: then it is lost.
    pub(super) async fn answer(&mut self, call: Call) -> Option<Answer> {
        let at = call.at;
        let answer = self.answer_quietly(call).await;
        match &answer {
            Some(answer) if answer.from_server => {
                self.teller.say(Voice::Answer, &format!("{} (after {})", answer.text, length(answer.at - at)))
            }
            Some(answer) => self.told(answer),
            None if self.stage.setting == Setting::WithRegrow => {
                self.teller.say(Voice::Broken, "no response")
            }
            None if self.stage.has_ended() => {
                self.teller.say(Voice::Lost, "no response: the connection is closed")
            }
            None => {
                let waited = length(at.elapsed());
                self.teller.say(Voice::Lost, &format!("no response after {waited}; the call still hangs"));
            }
        }
        answer
    }

    /// Shows what a caller is told instead of a response.
    pub(super) fn told(&self, answer: &Answer) {
        self.teller.say(Voice::Told, &answer.text);
    }

    /// The end of a call, about which nothing is said here.
    pub(super) async fn answer_quietly(&mut self, call: Call) -> Option<Answer> {
        let answer = timeout(self.patience(), call.answer).await.ok()?.ok()?;
        match answer.from_server {
            true => self.summary.answered += 1,
            false => self.summary.told += 1,
        }
        Some(answer)
    }

    /// Regrow ends every call; the server alone may not.
    fn patience(&self) -> Duration {
        match self.stage.setting {
            Setting::WithRegrow => PATIENCE,
            Setting::WithoutRegrow => CALL_TIMEOUT,
        }
    }

    pub(super) async fn echo(&mut self, text: &str) -> Option<Answer> {
        let call = self.call("echo", json!({ "text": text }));
        self.answer(call).await.filter(|answer| answer.from_server)
    }

    /// SIGKILL to the server.
    pub(super) fn kill(&mut self) -> Blow {
        self.summary.kills += 1;
        self.signal_server(Signal::KILL, "SIGKILL")
    }

    /// SIGSTOP to the server: it lives, and does nothing.
    pub(super) fn freeze(&mut self) -> Blow {
        self.summary.hangs += 1;
        self.signal_server(Signal::STOP, "SIGSTOP")
    }

    /// SIGHUP to `regrow wrap`, which asks for a planned restart.
    pub(super) fn ask_for_restart(&mut self) -> Blow {
        self.summary.restarts += 1;
        self.signal(self.stage.program.pid, Signal::HUP, "SIGHUP to regrow: restart the server")
    }

    fn signal_server(&self, signal: Signal, name: &str) -> Blow {
        let pid = self.stage.server_pid();
        self.signal(pid, signal, &format!("{name} to the server (process {pid})"))
    }

    fn signal(&self, pid: u32, signal: Signal, said: &str) -> Blow {
        let from = self.stage.log_length();
        self.teller.say(Voice::Signal, said);
        let at = Instant::now();
        processes::signal(pid, signal); // What is gone on its own shows in what follows.
        Blow { at, from }
    }

    /// A call that makes the server kill itself. The death is dated back to the call, since it comes from inside.
    pub(super) fn deadly_call(&mut self, tool: &str, arguments: Value) -> (Call, Blow) {
        let from = self.stage.log_length();
        let call = self.call(tool, arguments);
        self.summary.kills += 1;
        let death = Blow { at: call.at, from };
        (call, death)
    }

    /// From now on, the server exits cleanly after its next answer; or it does not.
    pub(super) fn let_server_retire(&mut self, retires: bool) -> usize {
        let from = self.stage.log_length();
        let plan = if retires { "exit-after-calls=1" } else { "" };
        if self.stage.journal().set_control(plan).is_err() {
            self.break_promise("the server takes its plan");
        }
        self.summary.retirements += usize::from(retires);
        from
    }

    /// How long it took until the death was in the log.
    pub(super) async fn noticed(&mut self, death: &Blow) -> Option<Duration> {
        let at = self.stage.logged(death.from, "killed by SIGKILL").await?;
        let took = at.saturating_duration_since(death.at);
        self.summary.noticed.push(took);
        Some(took)
    }

    /// How long it took until the server answered again.
    pub(super) async fn recovered(&mut self, death: &Blow, answer: Option<&Answer>) -> Option<Duration> {
        self.restarted(death.from).await;
        let took = answer?.at - death.at;
        self.summary.recovered.push(took);
        Some(took)
    }

    /// Waits until the log says that there is a new session, and says when that was.
    pub(super) async fn restarted(&mut self, from: usize) -> Option<Instant> {
        let ready = self.stage.logged(from, "ready (session").await;
        self.restarted = ready.or(self.restarted);
        ready
    }

    /// A promise of this act, and whether it was kept.
    pub(super) fn promise(&mut self, kept: bool, promise: &str, how: &str) {
        if kept {
            self.teller.say(Voice::Kept, &format!("{promise}{how}"));
        } else {
            self.break_promise(promise);
        }
    }

    pub(super) fn break_promise(&mut self, promise: &str) {
        self.teller.say(Voice::Broken, promise);
        self.summary.broken_promises.push(promise.to_owned());
    }

    /// Leaves, looks whether anything is left, and sums up.
    pub(super) async fn end(mut self) -> Summary {
        let journal = self.stage.journal();
        self.summary.orphans = self.stage.leave().await;
        self.summary.writes = self.keys.len();
        self.summary.ran_twice = self.keys.iter().filter(|key| journal.runs_with("count", key) > 1).count();
        self.summary.took = self.began.elapsed();
        self.summary
    }
}
