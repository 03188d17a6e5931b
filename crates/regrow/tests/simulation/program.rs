//! Clients that are parts of one program: each holds the connection, and none may see what another asked for.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use regrow::core::{Delivery, Fault};
use regrow::{Answer, CallError, Connection, ErrorKind, Incoming, IncomingMessages};
use regrow_testkit::world::{millis, secs};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::bug::Bug;
use crate::history::{End, Event, Recorder};
use crate::key::Key;

#[derive(Clone)]
pub struct Program {
    pub connection: Connection,
    recorder: Recorder,
    bug: Option<Bug>,
    /// The last answer, for a bug that mixes them up.
    last: Arc<Mutex<Option<Key>>>,
}

impl Program {
    pub fn new(connection: Connection, recorder: Recorder, bug: Option<Bug>) -> Program {
        Program { connection, recorder, bug, last: Arc::default() }
    }

    /// Hears what the server says by itself, for as long as the connection lasts.
    pub async fn receive(self, mut incoming: IncomingMessages) {
        let mut work = JoinSet::new();
        while let Some(message) = incoming.next().await {
            let params = message.frame.params().and_then(|params| serde_json::from_slice(params).ok());
            let params: Value = params.unwrap_or_default();
            match message.frame.method() {
                Some("elicitation/create") => drop(work.spawn(self.clone().reply(message, params))),
                Some("notifications/tools/list_changed") if self.bug != Some(Bug::HidesChanges) => {
                    work.spawn(self.clone().list());
                }
                Some("notifications/subscriptions/acknowledged") => self.recorder.note(Event::Acknowledged),
                Some("notifications/message") => {
                    if self.bug == Some(Bug::Disorders) {
                        sleep(secs(40)).await;
                    }
                    let data = &params["data"];
                    if let Some(Ok(key)) = data["key"].as_str().map(str::parse::<Key>) {
                        self.recorder.note(Event::Hears(key.client, key));
                    }
                }
                _ => {}
            }
        }
        while work.join_next().await.is_some() {}
    }

    /// A person takes a while to answer, and some never do.
    async fn reply(self, question: Incoming, params: Value) {
        let nonce = params["nonce"].as_str().unwrap_or_default().to_owned();
        self.recorder.note(Event::Asked(nonce.clone()));
        let Some(pause) = thought(&nonce) else { return };
        sleep(pause).await;
        self.connection.respond(&question, &json!({ "action": "accept", "nonce": nonce }));
        self.recorder.note(Event::Replied(nonce));
    }

    pub async fn call(self, key: Key, params: Value, deadline: Duration, gives_up: Option<Duration>) {
        self.recorder.note(Event::Begins(key, deadline));
        if self.bug == Some(Bug::HasNoPatience) && !self.connection.status().borrow().is_ready() {
            self.recorder.note(Event::NoSession(key, 1));
            return self.recorder.note(Event::Ends(key, End::NotRun("unavailable".into())));
        }
        let call = self.connection.request_within("tools/call", Some(params), Some(deadline));
        match timeout(gives_up.unwrap_or(secs(100_000)), call).await {
            Ok(end) => {
                if let Err(error) = &end
                    && is_without_a_session(error)
                {
                    self.recorder.note(Event::NoSession(key, error.attempts));
                }
                self.report(key, deadline, of(&end)).await;
            }
            Err(_) => self.recorder.note(Event::GivesUp(key)),
        }
    }

    /// Tells the end of a call to its client, if no bug prevents it.
    async fn report(&self, key: Key, deadline: Duration, mut end: End) {
        match (self.bug, &end) {
            (Some(Bug::Swallows), _) if key.number.is_multiple_of(5) => return,
            (Some(Bug::EndsTwice), _) if key.number.is_multiple_of(5) => {
                self.recorder.note(Event::Ends(key, end.clone()));
            }
            (Some(Bug::EndsLate), _) if key.number.is_multiple_of(5) => sleep(deadline + secs(1)).await,
            (Some(Bug::Lies), End::Unknown(kind)) => end = End::NotRun(kind.clone()),
            (Some(Bug::CrossesClients), End::Answered(Some(_))) => {
                let last = self.last.lock().expect("nobody panics while writing").replace(key);
                end = End::Answered(last.filter(|last| last.client != key.client).or(Some(key)));
            }
            (Some(Bug::ThrowsDice), _) => sleep(millis(RandomState::new().hash_one(0) % 50)).await,
            _ => {}
        }
        self.recorder.note(Event::Ends(key, end));
    }

    /// Looks at the tools, until they are seen.
    pub async fn list(self) {
        for _ in 0..40 {
            let end = self.connection.request_within("tools/list", None, Some(secs(20))).await;
            let value = end.ok().and_then(|answer| answer.value()).unwrap_or_default();
            if let Some(tools) = value["tools"].as_array() {
                let names = tools.iter().map(|tool| tool["name"].as_str().unwrap_or_default().to_owned());
                return self.recorder.note(Event::Lists(names.collect()));
            }
            if self.connection.status().borrow().is_closed() {
                return;
            }
            sleep(secs(5)).await;
        }
    }

    pub async fn subscribe(self, uri: String) {
        let params = json!({ "uri": uri });
        let end = self.connection.request_within("resources/subscribe", Some(params), Some(secs(20)));
        if end.await.is_ok_and(|answer| answer.value().is_some()) {
            self.recorder.note(Event::Subscribed(uri));
        }
    }

    pub async fn unsubscribe(self, uri: String) {
        self.recorder.note(Event::Unsubscribes(uri.clone()));
        let params = json!({ "uri": uri });
        // Whether the server hears it or not, the client does not rely on it from here on.
        let _ = self.connection.request_within("resources/unsubscribe", Some(params), Some(secs(20))).await;
    }

    /// Opens a stream of the modern era, and hears it to its end.
    pub async fn listen(self) {
        self.recorder.note(Event::Listens);
        let params = json!({ "notifications": { "toolsListChanged": true } });
        // It ends with the connection, or at once where the server knows no streams.
        let _ = self.connection.request("subscriptions/listen", Some(params)).await;
    }
}

/// How long a person thinks about this question; none: for ever.
pub fn thought(nonce: &str) -> Option<Duration> {
    let number: u64 = nonce.bytes().fold(7, |sum, byte| sum * 31 % 100_003 + u64::from(byte));
    (!number.is_multiple_of(8)).then(|| millis(number % 3000))
}

/// Whether a call failed with an attempt that might as well have succeeded.
fn is_without_a_session(error: &CallError) -> bool {
    let passing = |fault: &Fault| {
        !fault.is_permanent() && !matches!(fault, Fault::Deferred { .. } | Fault::Parked | Fault::Closed)
    };
    let is_told = error.kind == ErrorKind::Unavailable && error.delivery == Delivery::NotSent;
    is_told && error.attempts > 0 && error.fault.as_deref().is_some_and(passing)
}

fn of(end: &Result<Answer, CallError>) -> End {
    match end {
        Ok(answer) => {
            let got = answer.value().unwrap_or_default()["got"].as_str().map(str::parse::<Key>);
            End::Answered(got.and_then(Result::ok))
        }
        Err(error) if error.delivery == Delivery::NotSent => End::NotRun(error.kind.name().into()),
        Err(error) => End::Unknown(error.kind.name().into()),
    }
}
