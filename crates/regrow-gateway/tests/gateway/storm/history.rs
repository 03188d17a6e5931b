//! What is seen of a life from outside: what clients did and were told, what happened around them, what ran, and what was left.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use regrow_testkit::storm::{self, hash_of};

/// The name of a call, which travels with it to the server and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub client: u32,
    pub number: u64,
    pub server: &'static str,
    pub tool: &'static str,
}

/// What a client is called in all that it writes.
pub fn called(client: u32) -> String {
    format!("client{client}.")
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", called(self.client), self.server, self.number, self.tool)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// With this text.
    Answered(String),
    /// The client was asked for input, and went away.
    Asked,
    /// With an error of the protocol, of this code: it did not run.
    Refused(i64),
    /// It is said not to have run, for a reason of this kind.
    NotRun(String),
    /// It is said that it may have run.
    Unknown(String),
    /// Nobody was told.
    Dropped,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    Comes(u32),
    Leaves(u32),
    Begins(Key),
    Cancels(Key),
    Ends(Key, End),
    /// A client is told something by itself: the method, and all of it.
    Hears(u32, String, String),
    /// A client is asked, and answers: by the text of the call.
    Asked(u32, String),
    Replied(u32, String),
    Weather(String),
    /// The clock jumps.
    Jumps(Duration),
    /// From here on nothing happens to servers.
    Calm,
    /// In the calm a server was called without success until now, and is like this.
    StaysDown(&'static str, String),
    /// The gateway is shut down. Clients leave later.
    Closed,
}

/// What is left when everything is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    pub clients: u64,
    pub calls: u64,
    pub sessions: u64,
    pub processes: usize,
    pub tasks: usize,
    pub panics: Vec<String>,
    /// What was carried on a link that had been ended, or beside another.
    pub on_wires: Vec<String>,
}

/// A life as it was seen.
#[derive(Clone, Debug, Default, Hash)]
pub struct History {
    pub events: Vec<(Duration, Event)>,
    /// The servers' own ledgers: which call came to which server, and how often.
    pub runs: BTreeMap<(String, String), u32>,
    pub left: Left,
}

/// Where the parts of a life write down what happens.
pub type Recorder = storm::Recorder<Event>;

impl storm::History for History {
    /// What happens at one instant has no order: clients do not wait for each other.
    fn hash(&self) -> u64 {
        let mut sorted = self.clone();
        sorted.events.sort();
        hash_of(&sorted)
    }

    fn log(&self) -> String {
        let events = self.events.iter().map(|(at, event)| format!("{:>10.3}s {event:?}\n", at.as_secs_f64()));
        let runs =
            self.runs.iter().map(|((server, call), runs)| format!("  {call} ran {runs} times at {server}\n"));
        events.chain(runs).chain([format!("  left: {:?}\n", self.left)]).collect()
    }
}
