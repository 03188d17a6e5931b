//! What was seen of one life from outside, by its clients, its server and its observers; and its hash.

use std::collections::BTreeMap;
use std::time::Duration;

use regrow::core::Epoch;
use regrow_testkit::storm::{self, hash_of};

use crate::key::Key;

/// How a call ended for its client; the three outcomes of a Jepsen history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The server's answer, which says whose it is; none where it is an error of the server's own.
    Answered(Option<Key>),
    /// It failed, and the client was told that it did not run.
    NotRun(String),
    /// It failed, and the client was told that it may have run.
    Unknown(String),
}

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A client calls, and expects the end within this time.
    Begins(Key, Duration),
    Ends(Key, End),
    /// A call is about to end because there is no session and so many attempts have failed, none of them for good.
    NoSession(Key, u32),
    /// A client does not want the answer any more.
    GivesUp(Key),
    /// A client goes, and hears nothing from here on.
    Leaves(char),
    /// A client is asked by the server.
    Asked(String),
    /// It has answered.
    Replied(String),
    /// The server has confirmed a subscription.
    Subscribed(String),
    /// The client takes it back.
    Unsubscribes(String),
    /// A client opens a stream of the modern era.
    Listens,
    /// It is told that the stream is open.
    Acknowledged,
    /// A client has seen the list of tools.
    Lists(Vec<String>),
    /// A client hears what the server says about a call before it answers that.
    Hears(char, Key),
    Notice(Notice),
    /// How much of the budget is left.
    Budget(u32),
    /// What happens to the server, or to the way to it.
    Weather(String),
    /// The machine sleeps for so long.
    Jumps(Duration),
    /// From here on the server behaves.
    Calm,
    Closes,
    Closed,
}

/// What observers are told, as far as it is checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notice {
    pub text: String,
    /// The session or attempt that it is about, if it begins one.
    pub begins: Option<Epoch>,
    /// Whether it tells that a session serves calls.
    pub ready: bool,
    /// Whether it tells that a session or an attempt has ended.
    pub ends: bool,
    /// Whether it tells that faults have parked the connection.
    pub parks: bool,
    /// Whether it tells of a fault.
    pub fault: bool,
    /// Whether it tells that a process could not be ended in time.
    pub abandons: bool,
}

/// A message that reached the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    Call(Key),
    Subscribe(String),
    Listen,
    /// The answer to its question of this id: what the client was asked, by its own account.
    Answer(String, String),
    Other(String),
}

/// What is left when everything is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub tasks: usize,
    pub processes: usize,
    /// How many processes or links lived at once at most.
    pub most_processes: usize,
    pub pending: usize,
    /// What was carried on a link that had been ended.
    pub after_end: Vec<String>,
    /// What panicked.
    pub panics: Vec<String>,
}

/// A life as it was seen.
#[derive(Clone, Debug, Default, Hash)]
pub struct History {
    pub events: Vec<(Duration, Event)>,
    /// The server's own ledger: which call ran, and how often.
    pub runs: BTreeMap<Key, u32>,
    /// What reached the server: when, and which process or link of it.
    pub heard: Vec<(Duration, usize, Heard)>,
    /// When each process was started, or each link opened.
    pub starts: Vec<Duration>,
    /// Whether the server is a process on two pipes, where order is exact.
    pub piped: bool,
    /// Whether the client is on two pipes, too.
    pub relayed: bool,
    /// The tools that the server offers in the end, where the client must know them.
    pub offers: Option<Vec<String>>,
    pub left: Left,
}

/// Where the parts of a life write down what happens.
pub type Recorder = storm::Recorder<Event>;

impl storm::History for History {
    fn hash(&self) -> u64 {
        hash_of(self)
    }

    fn log(&self) -> String {
        let mut lines: Vec<(Duration, String)> =
            self.events.iter().map(|(at, event)| (*at, describe(event))).collect();
        lines.extend(
            self.heard.iter().map(|(at, start, heard)| (*at, format!("  server {start} hears {heard:?}"))),
        );
        let starts = self.starts.iter().enumerate();
        lines.extend(starts.map(|(n, at)| (*at, format!("  server {} starts", n + 1))));
        lines.sort_by_key(|(at, _)| *at);
        let lines = lines.into_iter().map(|(at, line)| format!("{:>10.3}s {line}\n", at.as_secs_f64()));
        let runs = self.runs.iter().map(|(key, runs)| format!("  {key} ran {runs} times\n"));
        lines.chain(runs).chain([format!("  left: {:?}\n", self.left)]).collect()
    }
}

fn describe(event: &Event) -> String {
    match event {
        Event::Notice(notice) => format!("    {}", notice.text),
        Event::Weather(what) => format!("        {what}"),
        Event::Begins(key, within) => format!("{key} begins, to end within {within:?}"),
        Event::Ends(key, end) => format!("{key} ends: {end:?}"),
        other => format!("{other:?}"),
    }
}
