//! A proxy under test that is driven over HTTP (Streamable HTTP of the legacy era).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::exchange::{INITIALIZED, answer_of, request_of};
use super::{Answer, Driver, Outcome, Task, Ticket, end_of};
use crate::fetch::{Request, fetch};
use crate::processes::signal;
use crate::suite::process::Process;

/// No exchange lasts longer.
const LONGEST: Duration = Duration::from_secs(60);
/// More exchanges at a time than any scenario has.
const ANSWERS: usize = 256;

/// How the complaint begins of a proxy that no longer knows the session.
const FORGOTTEN: &str = "HTTP status 404";
/// How the complaint about a proxy begins that has ended before it served anybody.
pub(crate) const ENDED_EARLY: &str = "it ended before it listened";

/// Where the proxy listens.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
}

/// A proxy that speaks HTTP on its client's side.
pub(crate) struct Remote {
    process: Process,
    place: Place,
    session: Arc<Mutex<Option<String>>>,
    last: Ticket,
    early: HashMap<Ticket, Answer>,
    answers: Receiver<(Ticket, Answer)>,
    answered: SyncSender<(Ticket, Answer)>,
}

impl Remote {
    pub(crate) fn new(process: Process, place: Place) -> Remote {
        let (answered, answers) = sync_channel(ANSWERS);
        let (session, early) = (Arc::default(), HashMap::new());
        Remote { process, place, session, last: 0, early, answers, answered }
    }

    /// Waits until the proxy listens.
    pub(crate) fn listens_within(&mut self, limit: Duration) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        while std::net::TcpStream::connect(self.place.address).is_err() {
            if let Some(status) = self.process.exit() {
                let said = self.process.stderr().join(" | ");
                return Err(format!("{ENDED_EARLY} ({status}); its last words: {said}"));
            }
            if Instant::now() >= deadline {
                return Err(format!("it did not listen within {} s", limit.as_secs()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn post(&self, ticket: Option<Ticket>, message: Value) {
        let (place, answered) = (self.place.clone(), self.answered.clone());
        let session = Arc::clone(&self.session);
        thread::spawn(move || {
            let outcome = match message["method"] == "initialize" {
                true => greet(&place, &session, &message, ticket),
                false => {
                    let known = session.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    post(&place, known.as_deref(), &message, ticket, LONGEST).map(|(response, _)| response)
                }
            };
            let Some(ticket) = ticket else { return }; // A notification has no answer.
            if outcome.as_ref().is_err_and(|text| text.starts_with(FORGOTTEN)) {
                // As the protocol wants it: the next request finds a new session. This one is not sent again.
                let hello = request_of(&Task::Connect { timeout: LONGEST }, ticket).unwrap_or_default();
                let _ = greet(&place, &session, &hello, Some(ticket)); // The next request shows whether it went well.
            }
            let answer = match outcome {
                Ok(response) => answer_of(&response),
                Err(text) => Answer { ok: false, text },
            };
            let _ = answered.send((ticket, answer)); // The scenario may be over.
        });
    }
}

/// A handshake, after which the session is the new one.
fn greet(
    place: &Place,
    session: &Mutex<Option<String>>,
    hello: &Value,
    ticket: Option<Ticket>,
) -> Result<Value, String> {
    let (response, new_session) = post(place, None, hello, ticket, LONGEST)?;
    session.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&new_session);
    let initialized = serde_json::from_str(INITIALIZED).unwrap_or_default();
    // What it thinks of that is seen by what follows.
    let _ = post(place, new_session.as_deref(), &initialized, None, LONGEST);
    Ok(response)
}

/// The response to the message with this id, and the session that it names.
fn post(
    place: &Place,
    session: Option<&str>,
    message: &Value,
    id: Option<u64>,
    limit: Duration,
) -> Result<(Value, Option<String>), String> {
    exchange(place, session, message, id, limit).map_err(|error| format!("HTTP: {error}"))?
}

type Exchanged = Result<(Value, Option<String>), String>;

fn exchange(
    place: &Place,
    session: Option<&str>,
    message: &Value,
    id: Option<u64>,
    limit: Duration,
) -> std::io::Result<Exchanged> {
    let known = session.map(|session| [("Mcp-Session-Id", session), ("Mcp-Protocol-Version", "2025-11-25")]);
    let headers = known.as_ref().map_or(&[][..], |headers| &headers[..]);
    let request = Request { method: "POST", path: &place.path, headers, body: &message.to_string() };
    let response = fetch(place.address, &request, limit)?;
    let (status, session) = (response.status, response.header("mcp-session-id").map(str::to_owned));
    let Some(id) = id else { return Ok(Ok((Value::Null, session))) };
    if response.is_stream() {
        let is_ours = |message: &Value| message["id"] == id && message.get("method").is_none();
        for message in response.events() {
            let message = message?;
            if is_ours(&message) {
                return Ok(Ok((message, session)));
            }
        }
        return Ok(Err("the stream ended without an answer".to_owned()));
    }
    let text = response.text()?;
    match serde_json::from_str::<Value>(&text) {
        Ok(response) if response["id"] == id => Ok(Ok((response, session))),
        _ => Ok(Err(format!("HTTP status {status}: {}", text.chars().take(200).collect::<String>()))),
    }
}

impl Driver for Remote {
    fn begin(&mut self, task: Task) -> Ticket {
        self.last += 1;
        let ticket = self.last;
        match request_of(&task, ticket) {
            Some(request) => self.post(Some(ticket), request),
            None => {
                let answer = Answer { ok: true, text: "unknown".to_owned() };
                self.early.insert(ticket, answer);
            }
        }
        ticket
    }

    fn outcome(&mut self, ticket: Ticket, limit: Duration) -> Outcome {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(answer) = self.early.remove(&ticket) {
                return Outcome::Answered(answer);
            }
            match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((other, answer)) => drop(self.early.insert(other, answer)),
                Err(_) if self.process.exit().is_some() => return Outcome::Over(end_of(&mut self.process)),
                Err(_) => return Outcome::Silent,
            }
        }
    }

    fn give_up(&mut self, ticket: Ticket) {
        let params = json!({ "requestId": ticket, "reason": "it took too long" });
        self.post(None, json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }

    /// A server is ended by a signal.
    fn leave(&mut self) {
        self.process.close_input();
        signal(self.process.pid(), Signal::TERM);
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    fn version(&self) -> Option<String> {
        None
    }
}
