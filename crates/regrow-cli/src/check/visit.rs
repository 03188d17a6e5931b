//! A visit to one server: start it, complete the handshake, count its tools, stop it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regrow::core::{Fault, Manner, Notice, seconds};
use regrow::transport::http::Credential;
use regrow::transport::stdio::{Guard, Sandbox, Stderr};
use regrow::{CallError, Connection, Excerpt, Notices, Outcome, Request, Said};
use regrow_gateway::config::ServerConfig;
use regrow_gateway::connect;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;
use regrow_protocol::text::escape;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::finding::{Finding, Problem, State};
use super::missing::missing;
use crate::account::stored::StoredAccount;
use crate::account::stored_of;

/// The lines of a server's stderr that are shown: of the first,
const FIRST_LINES: usize = 5;
/// and of the last.
const LAST_LINES: usize = 8;
/// Longer lines are cut.
const LONGEST_LINE: usize = 300;
/// A server that has more pages of tools lists them without end.
const MAX_PAGES: usize = 100;
/// A handshake that is given up at its limit gets so long to say so itself.
const GRACE: Duration = Duration::from_millis(500);

/// Visits the server, at most for so long; ends it in any case. Stops early when told to.
pub(super) async fn visit(
    server: &ServerConfig,
    account: Option<Arc<dyn Credential>>,
    guard: Option<Arc<Guard>>,
    timeout: Duration,
    mut stopped: watch::Receiver<bool>,
) -> Finding {
    if let Some(problems) = server.problems() {
        let problem = Some(Problem::of_entry(problems));
        return Finding { state: State::Broken, problem, ..Finding::disabled(server.name.clone()) };
    }
    let mut server = server.clone();
    server.options.connect_timeout = server.options.connect_timeout.min(timeout);
    let stderr = Tail::new();
    let mut finding = Finding { state: State::Broken, ..Finding::disabled(server.name.clone()) };
    finding.sandbox_gaps = server.sandbox().map(Sandbox::gaps).unwrap_or_default();
    let connection = match connect(&server, guard, stderr.sink(), account) {
        Ok(builder) => builder.build(),
        Err(error) => {
            finding.problem =
                Some(Problem { text: error.to_string(), fault: None, stderr: vec![], entry: vec![] });
            return finding;
        }
    };
    let mut notices = connection.notices();
    let deadline = Instant::now() + timeout + GRACE;
    let outcome = tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => Err(VisitFailure::Stopped),
        outcome = examine(&connection, &mut notices, &stderr, &mut finding) => outcome,
        () = sleep_until(deadline) => Err(VisitFailure::Late),
    };
    let manner =
        if matches!(outcome, Err(VisitFailure::Stopped)) { Manner::Told } else { Manner::ClientLeft };
    connection.close_in(manner).await;
    match outcome {
        Ok(()) => finding.state = State::Ok,
        Err(failure) => {
            let text = failure.text(timeout, finding.start.is_some(), stored_of(&server));
            let fault = if let VisitFailure::Fault(fault) = &failure { Some(fault.name()) } else { None };
            let stderr = stderr.lines();
            finding.missing = missing(&server, &stderr);
            finding.problem = Some(Problem { text: escape(&text), fault, stderr, entry: vec![] });
        }
    }
    finding
}

/// Why a visit failed.
enum VisitFailure {
    Fault(Fault),
    /// The server answered, but not as it should.
    Answer(String),
    Late,
    Stopped,
}

impl VisitFailure {
    fn text(&self, timeout: Duration, was_ready: bool, account: Option<StoredAccount>) -> String {
        let limit = seconds(timeout);
        match self {
            VisitFailure::Fault(Fault::SignInNeeded { command, .. }) => {
                let account = account.map(|account| format!(" {}", account.in_words())).unwrap_or_default();
                format!("the server requires sign-in{account}; sign in: {command}")
            }
            VisitFailure::Fault(fault) => fault.to_string(),
            VisitFailure::Answer(text) => text.clone(),
            VisitFailure::Late if was_ready => {
                format!("timed out after {limit}: it did not list its tools; --timeout allows more time")
            }
            VisitFailure::Late => {
                format!("timed out after {limit}: it was not ready; --timeout allows more time")
            }
            VisitFailure::Stopped => "the check was stopped".into(),
        }
    }
}

async fn examine(
    connection: &Connection,
    notices: &mut Notices,
    stderr: &Tail,
    finding: &mut Finding,
) -> Result<(), VisitFailure> {
    finding.start = Some(ready(connection, notices, stderr).await?);
    let welcome = connection.welcome();
    finding.era = welcome.as_ref().map(|welcome| if welcome.modern { "modern" } else { "legacy" });
    let said: Value =
        welcome.and_then(|welcome| serde_json::from_slice(&welcome.result).ok()).unwrap_or_default();
    if said["capabilities"].get("tools").is_none() {
        finding.tools = Some(0);
        return Ok(());
    }
    let tools = tokio::select! {
        biased;
        tools = count_tools(connection) => tools?,
        fault = first_fault(notices) => return Err(VisitFailure::Fault(fault)),
    };
    finding.tools = Some(tools);
    Ok(())
}

/// Waits for the first session and returns how long its start took, without the process that was only asked for its era.
/// It waits like a client's handshake, so the connection decides how often a failing start is tried.
async fn ready(
    connection: &Connection,
    notices: &mut Notices,
    stderr: &Tail,
) -> Result<Duration, VisitFailure> {
    let (reply, mut greeted) = oneshot::channel();
    let id = RawId::from(0);
    let greeting = Frame::built(frame::request(&id, method::INITIALIZE, None));
    connection.submit(Request::new(greeting, id, Box::new(reply)));
    let mut began = Duration::ZERO;
    let mut waits = true;
    loop {
        let notice = tokio::select! {
            biased; // Before the next start clears what the failed one wrote.
            end = &mut greeted, if waits => match end {
                Ok(Outcome::Failed(CallError { fault: Some(fault), .. })) => {
                    return Err(VisitFailure::Fault((*fault).clone()));
                }
                // Answered; or out of time, as the attempt is: its fault says more.
                Ok(_) => {
                    waits = false;
                    continue;
                }
                Err(_) => return Err(VisitFailure::Fault(Fault::Closed)),
            },
            notice = notices.next() => notice.ok_or(VisitFailure::Fault(Fault::Closed))?,
        };
        match &notice.what {
            // What a server said when it was asked for its era is of no interest any more.
            Notice::Connecting(_) => {
                stderr.clear();
                began = notice.at;
            }
            Notice::Ready(_) => return Ok(notice.at.saturating_sub(began)),
            Notice::Fault(_, fault, _) if !waits => return Err(VisitFailure::Fault(fault.clone())),
            _ => {}
        }
    }
}

async fn first_fault(notices: &mut Notices) -> Fault {
    while let Some(notice) = notices.next().await {
        if let Notice::Fault(_, fault, _) = notice.what {
            return fault;
        }
    }
    Fault::Closed
}

async fn count_tools(connection: &Connection) -> Result<usize, VisitFailure> {
    let mut count = 0;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.as_ref().map(|cursor| json!({ "cursor": cursor }));
        let answer = connection.request(method::TOOLS_LIST, params).await;
        let answer = answer.map_err(|error| match error.fault.as_deref() {
            Some(fault) => VisitFailure::Fault(fault.clone()),
            None => VisitFailure::Answer(error.to_string()),
        })?;
        let Some(page) = answer.value() else {
            let error = answer.into_result().err().unwrap_or_default();
            let error: Value = serde_json::from_slice(error).unwrap_or_default();
            let said: String = error["message"].as_str().unwrap_or_default().chars().take(200).collect();
            return Err(VisitFailure::Answer(format!(
                "it refuses to list its tools: {}",
                said.escape_debug()
            )));
        };
        let Some(tools) = page["tools"].as_array() else {
            return Err(VisitFailure::Answer("its response to tools/list has no list of tools".into()));
        };
        count += tools.len();
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(count);
        }
    }
    Err(VisitFailure::Answer(format!("its list of tools has more than {MAX_PAGES} pages; it may never end")))
}

/// What a server wrote on its standard error, already escaped.
#[derive(Clone)]
struct Tail(Arc<Mutex<Excerpt>>);

impl Tail {
    fn new() -> Tail {
        Tail(Arc::new(Mutex::new(Excerpt::new(FIRST_LINES, LAST_LINES))))
    }

    fn sink(&self) -> Stderr {
        let tail = self.clone();
        Stderr::Latest(Arc::new(move |said| match said {
            Said::Line(line) => tail.lock().push(line.chars().take(LONGEST_LINE).collect()),
            Said::LeftOut(lines) => tail.lock().leave_out(lines),
        }))
    }

    fn clear(&self) {
        *self.lock() = Excerpt::new(FIRST_LINES, LAST_LINES);
    }

    fn lines(&self) -> Vec<String> {
        self.lock().lines()
    }

    fn lock(&self) -> MutexGuard<'_, Excerpt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
