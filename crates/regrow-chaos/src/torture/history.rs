//! The history of a lane: every call that was made, and what its caller was told.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No lane makes more calls; near that it goes through no more cycles.
const MOST_CALLS: usize = 4_000_000;
const RESERVE: usize = 100_000;
/// Where Regrow says what happened to a call.
const FAULT_KEY: &str = "dev.regrow/fault";

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// One durable effect, after which it takes so many milliseconds.
    Count(u64),
    /// Declared safe to call again.
    Lookup,
    /// Returns its own key.
    Echo,
    /// `tools/list`.
    List,
    /// Another tool of the chaos server.
    Other(&'static str),
}

impl Tool {
    /// How often a call may run.
    pub fn most_runs(self) -> u32 {
        if self == Tool::Lookup { 3 } else { 1 }
    }

    /// Whether an answer means that the journal has it.
    pub fn leaves_evidence(self) -> bool {
        matches!(self, Tool::Count(_) | Tool::Lookup | Tool::Echo)
    }

    fn name(self) -> &'static str {
        match self {
            Tool::Count(_) => "count",
            Tool::Lookup => "lookup",
            Tool::Echo => "echo",
            Tool::List => "tools/list",
            Tool::Other(name) => name,
        }
    }
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing yet.
    Nothing,
    /// The right answer.
    Right,
    /// An answer that cannot be this call's.
    Wrong,
    /// The server's own error.
    Refused,
    /// Regrow's word in place of an answer.
    Fault {
        /// What happened to the call.
        kind: Box<str>,
        /// `not-sent`, `unknown` or `answered`.
        delivery: Delivery,
    },
}

/// Whether a call ran, as its caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It did not run.
    NotSent,
    /// It may have run.
    Unknown,
    /// It ran.
    Answered,
}

/// One call. Its place in the history is its key, and one more its id on the wire.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was called.
    pub tool: Tool,
    /// When, since the run began.
    pub begun: Duration,
    /// When it was answered.
    pub ended: Option<Duration>,
    /// What its caller was told first.
    pub told: Told,
    /// How many answers came.
    pub answers: u32,
}

/// All calls of a lane.
pub(super) struct History {
    began: Instant,
    book: Mutex<Book>,
    news: Condvar,
    /// Answers to ids that nobody used.
    unasked: AtomicU64,
}

#[derive(Default)]
struct Book {
    calls: Vec<Call>,
    /// Who waits, by the order of calls; at most as many as calls in flight.
    waiting: std::collections::HashMap<usize, SyncSender<Told>>,
}

/// A call that was begun.
pub(super) struct Begun {
    pub(super) key: usize,
    pub(super) answer: Receiver<Told>,
}

impl History {
    pub(super) fn new(began: Instant) -> History {
        History { began, book: Mutex::default(), news: Condvar::new(), unasked: AtomicU64::new(0) }
    }

    /// Writes down a call that is about to be made. None when the book is full.
    pub(super) fn begin(&self, tool: Tool) -> Option<Begun> {
        let mut book = self.book();
        let key = book.calls.len();
        if key >= MOST_CALLS {
            return None;
        }
        let (sender, answer) = sync_channel(1);
        let begun = self.began.elapsed();
        book.calls.push(Call { tool, begun, ended: None, told: Told::Nothing, answers: 0 });
        book.waiting.insert(key, sender);
        Some(Begun { key, answer })
    }

    /// Writes down an answer.
    pub(super) fn answer(&self, id: &Value, message: &Value) {
        let ended = self.began.elapsed();
        let mut book = self.book();
        let key = id.as_u64().and_then(|id| usize::try_from(id.checked_sub(1)?).ok());
        let Some((key, call)) = key.and_then(|key| Some((key, book.calls.get_mut(key)?))) else {
            self.unasked.fetch_add(1, Ordering::SeqCst);
            return;
        };
        call.answers += 1;
        if call.answers > 1 {
            return;
        }
        call.ended = Some(ended);
        call.told = told(call.tool, key, message);
        let told = call.told.clone();
        if let Some(waiting) = book.waiting.remove(&key) {
            let _ = waiting.send(told); // Nobody may wait any more; it is written down.
        }
        self.news.notify_all();
    }

    /// There will be no more answers: nobody waits any longer.
    pub(super) fn close(&self) {
        self.book().waiting.clear();
        self.news.notify_all();
    }

    /// Waits for any answer, at most so long.
    pub(super) fn wait(&self, limit: Duration) {
        // Whether it was news or the time does not matter: the caller looks.
        drop(self.news.wait_timeout(self.book(), limit).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until every call has its answer, at most so long.
    pub(super) fn settle(&self, limit: Duration) {
        let open = |book: &mut Book| !book.waiting.is_empty();
        drop(self.news.wait_timeout_while(self.book(), limit, open).unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.len() > MOST_CALLS - RESERVE
    }

    pub(super) fn len(&self) -> usize {
        self.book().calls.len()
    }

    pub(super) fn ended(&self, key: usize) -> Option<Duration> {
        self.book().calls.get(key)?.ended
    }

    pub(super) fn unasked(&self) -> u64 {
        self.unasked.load(Ordering::SeqCst)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.book().calls.clone()
    }

    /// No holder panics, and the book is whole at any time.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key by which the journal knows a call.
pub(super) fn key_text(key: usize) -> String {
    format!("k{key}")
}

/// A request: method and params.
pub(super) fn request(tool: Tool, key: usize, more: &Value) -> (&'static str, Value) {
    if tool == Tool::List {
        return ("tools/list", json!({}));
    }
    let mut arguments = json!({ "key": key_text(key) });
    match tool {
        Tool::Count(delay) => arguments["delay_ms"] = delay.into(),
        Tool::Echo => arguments["text"] = key_text(key).into(),
        _ => {}
    }
    for (name, value) in more.as_object().into_iter().flatten() {
        arguments[name] = value.clone();
    }
    ("tools/call", json!({ "name": tool.name(), "arguments": arguments }))
}

fn told(tool: Tool, key: usize, message: &Value) -> Told {
    let (result, error) = (&message["result"], &message["error"]);
    let fault = [&error["data"][FAULT_KEY], &result["_meta"][FAULT_KEY]];
    if let Some(fault) = fault.into_iter().find(|fault| fault.is_object()) {
        let delivery = match fault["delivery"].as_str() {
            Some("not-sent") => Delivery::NotSent,
            Some("answered") => Delivery::Answered,
            _ => Delivery::Unknown,
        };
        return Told::Fault { kind: fault["kind"].as_str().unwrap_or("unnamed").into(), delivery };
    }
    if error.is_object() || result["isError"] == true {
        return Told::Refused;
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let right = match tool {
        Tool::Count(_) => text == "1",
        Tool::Lookup => matches!(text, "1" | "2" | "3"),
        Tool::Echo => text == key_text(key),
        Tool::List => result["tools"].is_array(),
        Tool::Other(_) => true,
    };
    if right { Told::Right } else { Told::Wrong }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_regrow_says_is_told_from_what_the_server_says() {
        let fault = json!({ "kind": "interrupted", "delivery": "unknown" });
        let in_result = json!({ "result": { "isError": true, "_meta": { FAULT_KEY: fault } } });
        let in_error = json!({ "error": { "code": -31001, "data": { FAULT_KEY: fault } } });
        let wanted = Told::Fault { kind: "interrupted".into(), delivery: Delivery::Unknown };
        assert_eq!(told(Tool::Count(0), 1, &in_result), wanted);
        assert_eq!(told(Tool::List, 1, &in_error), wanted);
        assert_eq!(told(Tool::List, 1, &json!({ "error": { "code": -32000 } })), Told::Refused);
    }

    #[test]
    fn an_answer_that_belongs_to_another_call_is_wrong() {
        let answer = |text: &str| json!({ "result": { "content": [{ "text": text }] } });
        assert_eq!(told(Tool::Echo, 4, &answer("k4")), Told::Right);
        assert_eq!(told(Tool::Echo, 4, &answer("k5")), Told::Wrong);
        assert_eq!(told(Tool::Count(0), 4, &answer("2")), Told::Wrong);
    }

    #[test]
    fn the_first_answer_counts_and_the_second_is_counted() {
        let history = History::new(Instant::now());
        let begun = history.begin(Tool::Echo).unwrap();
        let answer = json!({ "result": { "content": [{ "text": "k0" }] } });
        history.answer(&json!(1), &answer);
        history.answer(&json!(1), &answer);
        history.answer(&json!("nobody"), &answer);
        assert_eq!(begun.answer.recv().unwrap(), Told::Right);
        assert_eq!((history.calls()[0].answers, history.unasked()), (2, 1));
        history.settle(Duration::from_secs(60));
    }
}
