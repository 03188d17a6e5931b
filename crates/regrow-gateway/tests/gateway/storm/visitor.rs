//! A client that writes down all that it does and hears.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use regrow::core::Delivery;
use regrow::{Inbox, Incoming, Outcome, Reply};
use regrow_gateway::Gateway;
use regrow_gateway::admit::{Admit, Principal, ServerScope};
use serde_json::json;

use super::bug::{Bug, Planted};
use super::history::{End, Event, Key, Recorder, called};
use super::{NAMES, TOOLS};
use crate::guest::{Guest, read};

/// What a modern client says in each request. To legacy servers it means nothing.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// A client. Dropping it is leaving.
pub struct Visitor {
    number: u32,
    /// The one server that it talks to, if it does not talk to all.
    scope: Option<&'static str>,
    pub guest: Guest,
    ear: Arc<Ear>,
    recorder: Recorder,
    planted: Planted,
    /// Its calls, the newest last.
    calls: Vec<Key>,
    last: u64,
}

/// How a client comes.
pub struct Manners {
    pub scope: Option<&'static str>,
    pub principal: Principal,
    pub modern: bool,
}

/// All that servers tell it by themselves.
struct Ear {
    client: u32,
    recorder: Recorder,
    planted: Planted,
    questions: Mutex<Vec<Incoming>>,
}

impl Inbox for Ear {
    fn take(&self, incoming: Incoming) -> bool {
        let heard = read(incoming.frame.bytes());
        let method = heard["method"].as_str().unwrap_or_default().to_owned();
        if method == "sampling/createMessage" {
            let text = heard["params"]["question"].to_string();
            self.recorder.note(Event::Asked(self.client, text));
            self.questions.lock().expect("nobody panics with it").push(incoming);
        }
        let hearer = if self.planted.is(Bug::Overhears) { self.client + 1 } else { self.client };
        let event = Event::Hears(hearer, method, heard["params"].to_string());
        let after = Duration::from_millis(if self.planted.is(Bug::Disorders) { 100 } else { 0 });
        self.recorder.note_after(after, event);
        true
    }
}

impl Visitor {
    pub fn enter(
        gateway: &Gateway,
        number: u32,
        manners: Manners,
        recorder: &Recorder,
        planted: &Planted,
    ) -> Visitor {
        let (recorder, planted) = (recorder.clone(), planted.clone());
        let ear = Ear {
            client: number,
            recorder: recorder.clone(),
            planted: planted.clone(),
            questions: Mutex::default(),
        };
        let ear = Arc::new(ear);
        let Manners { scope, principal, modern } = manners;
        let servers = scope.map_or(ServerScope::All, |server| ServerScope::One(server.to_owned()));
        let admitted = gateway.admit(&servers, principal, ear.clone()).expect("it is let in");
        let mut guest = Guest::of(admitted);
        guest.modern = modern;
        recorder.note(Event::Comes(number));
        Visitor { number, scope, guest, ear, recorder, planted, calls: vec![], last: 0 }
    }

    /// Calls some tool somewhere.
    pub fn calls(&mut self, random: &mut Rng) {
        let server = self.scope.unwrap_or(NAMES[random.usize(..NAMES.len())]);
        self.call(server, TOOLS[random.usize(..TOOLS.len())], random.u64(..8000));
    }

    pub fn call(&mut self, server: &'static str, tool: &'static str, ms: u64) -> Key {
        // Small numbers, so that those of different clients are equal.
        self.last += 1;
        let key = Key { client: self.number, number: self.last, server, tool };
        let params = json!({
            "name": if self.scope.is_some() { tool.to_owned() } else { format!("{server}__{tool}") },
            "arguments": { "text": key.to_string(), "ms": ms },
            "_meta": { "progressToken": self.last, CAPABILITIES: { "sampling": {} } },
        });
        self.recorder.note(Event::Begins(key));
        let ending =
            Ending { key, recorder: self.recorder.clone(), planted: self.planted.clone(), end: None };
        self.guest.submit(&json!(self.last), "tools/call", params, Box::new(ending));
        self.calls.push(key);
        key
    }

    /// Wants to hear of a resource that is called like itself.
    pub fn listens(&mut self, random: &mut Rng) {
        let uri = format!("{}://file/{}", NAMES[random.usize(..NAMES.len())], called(self.number));
        self.last += 1;
        let (method, params) = match self.guest.is_modern() {
            true => ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [uri] } })),
            false => ("resources/subscribe", json!({ "uri": uri })),
        };
        // Its end does not matter, only that nobody else hears of it.
        drop(self.guest.send(&json!(self.last), method, params));
    }

    pub fn cancels(&mut self, random: &mut Rng) {
        if let Some(key) = random.choice(&self.calls).copied()
            && self.guest.cancel(key.number)
        {
            self.recorder.note(Event::Cancels(key));
        }
    }

    /// Answers what it was asked.
    pub fn answers(&self) {
        let questions = std::mem::take(&mut *self.ear.questions.lock().expect("nobody panics with it"));
        for question in questions {
            let asked = read(question.frame.bytes())["params"]["question"].clone();
            self.recorder.note(Event::Replied(self.number, asked.to_string()));
            self.guest.answer(&question, &json!({ "text": asked }));
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.recorder.note(Event::Leaves(self.number));
    }
}

/// Waits for the end of a call.
struct Ending {
    key: Key,
    recorder: Recorder,
    planted: Planted,
    end: Option<End>,
}

impl Reply for Ending {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        self.end = Some(match outcome {
            Outcome::Answered(frame) => {
                let answer = read(frame.bytes());
                let result = &answer["result"];
                match (answer["error"]["code"].as_i64(), result["content"][0]["text"].as_str()) {
                    (Some(code), _) => End::Refused(code),
                    (None, Some(text)) => End::Answered(text.to_owned()),
                    (None, None) if result["resultType"] == "input_required" => End::Asked,
                    (None, None) => End::Answered(answer.to_string()),
                }
            }
            Outcome::Failed(error) => {
                let kind = format!("{:?}", error.kind);
                match error.delivery {
                    Delivery::NotSent => End::NotRun(kind),
                    _ => End::Unknown(kind),
                }
            }
            Outcome::Refused => End::Refused(-32601),
        });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let end = self.end.take().unwrap_or(End::Dropped);
        for (after, end) in self.planted.instead(self.key, end) {
            self.recorder.note_after(after, Event::Ends(self.key, end));
        }
    }
}
