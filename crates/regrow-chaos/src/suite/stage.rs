//! Where a scenario is played: one program under test, one misbehaving server, and the findings so far.

pub(super) mod judge;

use std::time::{Duration, Instant};
use std::{io, thread};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::driver::{Answer, Driver, ENDED_EARLY, Outcome, Task, Ticket};
use super::place::{self, Near};
use super::process::{MARK, Mark, Process};
use super::scenario::{Scenario, Start};
use super::site::Site;
use super::verdict::{Finding, Group, Verdict};
use super::{Role, Setup, Transport};
use crate::journal::Journal;

/// A server that is well is reached in this time, however slow the machine.
const CONNECT: Duration = Duration::from_secs(30);
/// A program that serves HTTP listens after so long.
const LISTEN: Duration = Duration::from_secs(60);
/// Our servers speak the era that every client speaks.
const LEGACY: &str = "refuse-discover";
/// A program that is not there.
const MISSING: &str = "/no-such-folder/no-such-program";

/// The scenario cannot go on: what stopped it has been found already.
pub(super) struct Over;

/// How the steps of a story end.
pub(super) type Step<T = ()> = Result<T, Over>;

/// One scenario while it is played.
pub(super) struct Stage<'a> {
    setup: &'a Setup,
    scenario: &'static Scenario,
    pub(super) journal: Journal,
    pub(super) site: Option<Site>,
    pub(super) driver: Driver,
    mark: Mark,
    findings: Vec<Finding>,
    /// How many lives the server had when the client was connected.
    lives: usize,
    tries: usize,
    has_left: bool,
    _folder: TempDir,
}

/// Plays a scenario from its start to its end, and says what was found, and what the program calls itself.
pub(super) fn play(
    setup: &Setup,
    scenario: &'static Scenario,
    story: fn(&mut Stage<'_>) -> Step,
) -> (Vec<Finding>, Option<String>) {
    let mut stage = match Stage::open(setup, scenario) {
        Ok(stage) => stage,
        Err(problem) => return (not_started(scenario, problem), None),
    };
    // Whatever stopped a story has been found.
    let _ = story(&mut stage);
    if !stage.has_left {
        stage.leave("nothing is left after close", judge::LEAVE);
    }
    (std::mem::take(&mut stage.findings), stage.driver.version.take())
}

/// A program that starts its server before it serves may end where there is none, and say so.
fn not_started(scenario: &Scenario, problem: String) -> Vec<Finding> {
    let ended = problem.starts_with(ENDED_EARLY);
    if scenario.start != Start::Missing || !ended {
        return vec![scenario.finding(Group::Answers, "it starts", Verdict::Fail(short(&problem)))];
    }
    let named = Verdict::of(problem.contains("no-such-program"), || short(&problem));
    vec![
        scenario.finding(Group::Answers, "connecting to a missing program ends", Verdict::Pass),
        scenario.finding(Group::TellsTheTruth, "the error names the program", named),
    ]
}

impl<'a> Stage<'a> {
    fn open(setup: &'a Setup, scenario: &'static Scenario) -> Result<Stage<'a>, String> {
        let ours = |error: io::Error| format!("the suite itself failed: {error}");
        let folder = TempDir::new().map_err(ours)?;
        let journal = Journal::new(folder.path());
        let mark = Mark::new();
        let plan = format!("{LEGACY} {}", scenario.plan);
        let site = match setup.transport {
            Transport::Stdio => None,
            Transport::Http => {
                let mut site = Site::new(&setup.server, &plan, &journal).map_err(ours)?;
                if scenario.start != Start::Missing {
                    site.start().map_err(ours)?;
                }
                Some(site)
            }
        };
        let command = server_command(setup, scenario, &journal, &plan, &mark);
        let driver = start(setup, &command, site.as_ref().map(Site::url), mark.clone())?;
        Ok(Stage {
            setup,
            scenario,
            journal,
            site,
            driver,
            mark,
            findings: vec![],
            lives: 0,
            tries: 0,
            has_left: false,
            _folder: folder,
        })
    }

    /// Changes the server's plan, from its next request or life on.
    pub(super) fn control(&mut self, plan: &str) -> Step {
        self.journal.set_control(plan).map_err(|error| self.failed(&error))
    }

    /// The suite itself failed, so that nothing can be judged.
    pub(super) fn failed(&mut self, error: &io::Error) -> Over {
        let verdict = Verdict::Fail(format!("the suite itself failed: {error}"));
        self.find(Group::Answers, "the suite works", verdict);
        Over
    }

    pub(super) fn is_proxy(&self) -> bool {
        self.setup.role == Role::Proxy
    }

    /// The process of the server that was started last.
    pub(super) fn server(&self) -> u32 {
        self.journal.pids().last().copied().unwrap_or(0)
    }

    /// The process of the program under test.
    pub(super) fn subject(&self) -> u32 {
        self.driver.process.program.pid
    }

    /// Lives of the server that began after the client was connected.
    pub(super) fn new_lives(&self) -> usize {
        self.journal.starts().saturating_sub(self.lives)
    }

    /// Lets it connect to a server that is well, and list its tools, as agents do. Without that nothing else can be judged.
    pub(super) fn connect(&mut self) -> Step {
        let ticket = self.begin(Task::Connect { timeout: self.scaled(CONNECT) });
        let seen = match self.outcome(ticket, CONNECT * 2) {
            Ok(answer) if answer.ok => {
                let ticket = self.begin(Task::List);
                let _ = self.answer(ticket, CONNECT); // One that cannot list fails at what follows.
                self.lives = self.journal.starts();
                return Ok(());
            }
            Ok(answer) => format!("it said: {}", short(&answer.text)),
            Err(seen) => seen,
        };
        self.find(Group::Answers, "it connects to a server that is well", Verdict::Fail(seen));
        Err(Over)
    }

    pub(super) fn begin(&mut self, task: Task) -> Ticket {
        self.driver.begin(&task)
    }

    /// Begins a tool call with a deadline of its own.
    pub(super) fn call(&mut self, tool: &'static str, arguments: Value, timeout: Duration) -> Ticket {
        self.begin(Task::Call { tool, arguments, timeout })
    }

    /// The answer to a task within this limit, which is longer on a busy machine; else what was seen instead.
    pub(super) fn outcome(&mut self, ticket: Ticket, limit: Duration) -> Result<Answer, String> {
        let limit = self.scaled(limit);
        match self.driver.outcome(ticket, limit) {
            Outcome::Answered(answer) => Ok(answer),
            Outcome::Silent => Err(format!("no answer within {} s", limit.as_secs())),
            Outcome::Over(end) => Err(format!("no answer; {end}")),
        }
    }

    /// A bound as it holds on this machine.
    pub(super) fn scaled(&self, bound: Duration) -> Duration {
        self.setup.scaled(bound)
    }

    /// The answer to a task, if there is one in time.
    pub(super) fn answer(&mut self, ticket: Ticket, limit: Duration) -> Option<Answer> {
        self.outcome(ticket, limit).ok()
    }

    pub(super) fn find(&mut self, group: Group, promise: &'static str, verdict: Verdict) {
        self.findings.push(self.scenario.finding(group, promise, verdict));
    }

    /// Waits until something holds; not longer than the limit, and not when the suite was told to stop.
    pub(super) fn wait(&mut self, limit: Duration, holds: impl FnMut(&mut Self) -> bool) -> bool {
        self.watch(self.scaled(limit), holds)
    }

    /// The same for exactly so long, however busy the machine.
    pub(super) fn watch(&mut self, limit: Duration, mut holds: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if holds(self) {
                return true;
            }
            if Instant::now() >= deadline || self.setup.is_stopped() {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The command that starts our server. It carries its own environment, since many clients hand none on.
fn server_command(
    setup: &Setup,
    scenario: &Scenario,
    journal: &Journal,
    plan: &str,
    mark: &Mark,
) -> Vec<String> {
    let mut command = vec![
        "env".to_owned(),
        format!("CHAOS={plan}"),
        format!("CHAOS_DIR={}", journal.dir().display()),
        "CHAOS_LIFE=300s".to_owned(),
        format!("{MARK}={}", mark.value()),
    ];
    match scenario.start {
        Start::Missing => return vec![MISSING.to_owned()],
        Start::Plain => {}
        // The shell stays, as `npx` and other starters do.
        Start::Shell => command.extend(["sh", "-c", "\"$@\"; exit $?", "sh"].map(str::to_owned)),
    }
    command.extend(setup.server.iter().cloned());
    command
}

/// Starts the program under test with the server for its use.
fn start(setup: &Setup, server: &[String], url: Option<String>, mark: Mark) -> Result<Driver, String> {
    let failed = |error: io::Error| format!("{}: {error}", setup.command.join(" "));
    if setup.role == Role::Client {
        let (described, variable) = match &url {
            Some(url) => (json!({ "url": url }), ("REGROW_CHAOS_URL", url.clone())),
            None => (json!({ "command": server }), ("REGROW_CHAOS_COMMAND", json!(server).to_string())),
        };
        let process = Process::start(&setup.command, &[variable], mark).map_err(failed)?;
        return Driver::client(process, &described, setup.patience.max(1));
    }
    let near = setup.near.as_deref().map(Near::new).transpose()?;
    let port = near.as_ref().map(|near| near.address.port());
    let command = place::fill(&setup.command, server, url.as_deref(), port);
    let process = Process::start(&command, &[], mark).map_err(failed)?;
    match near {
        None => Ok(Driver::pipe(process)),
        Some(near) => Driver::remote(process, near, setup.scaled(LISTEN)),
    }
}

/// A text as it fits into a verdict.
pub(super) fn short(text: &str) -> String {
    let text = text.trim();
    let cut: String = text.chars().take(200).collect();
    match text {
        "" => "an empty text".to_owned(),
        _ if cut.len() < text.len() => format!("{cut}…"),
        _ => cut,
    }
}
