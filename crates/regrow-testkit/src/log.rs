//! What reached a server and what it did, with times.

use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// A message that a server was sent.
#[derive(Clone, Debug)]
pub struct Heard {
    pub at: Duration,
    /// Which start of the process, or which link over the network, from 1.
    pub start: usize,
    pub message: Value,
    /// As it was written, on a pipe.
    pub line: String,
}

impl Index<&str> for Heard {
    type Output = Value;

    fn index(&self, member: &str) -> &Value {
        &self.message[member]
    }
}

/// What a server remembers.
pub struct Log {
    began: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    starts: Vec<Duration>,
    heard: Vec<Heard>,
    effects: BTreeMap<String, u32>,
}

impl Log {
    pub(crate) fn new() -> Log {
        Log { began: Instant::now(), kept: Mutex::default() }
    }

    /// Notes a start, and returns its number.
    pub(crate) fn start(&self) -> usize {
        let at = self.elapsed();
        let starts = &mut self.kept().starts;
        starts.push(at);
        starts.len()
    }

    pub(crate) fn hear(&self, start: usize, message: Value, line: String) {
        let heard = Heard { at: self.elapsed(), start, message, line };
        self.kept().heard.push(heard);
    }

    pub(crate) fn effect(&self, key: String) {
        *self.kept().effects.entry(key).or_default() += 1;
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// When its processes were started, or links to it opened.
    pub fn starts(&self) -> Vec<Duration> {
        self.kept().starts.clone()
    }

    /// How often this happened.
    pub fn effects(&self, key: &str) -> u32 {
        self.kept().effects.get(key).copied().unwrap_or(0)
    }

    pub fn all_effects(&self) -> BTreeMap<String, u32> {
        self.kept().effects.clone()
    }

    /// All that it was sent.
    pub fn heard(&self) -> Vec<Heard> {
        self.kept().heard.clone()
    }

    /// What it was sent of this method.
    pub fn heard_of(&self, method: &str) -> Vec<Heard> {
        self.kept().heard.iter().filter(|heard| heard["method"] == method).cloned().collect()
    }

    /// How often that was.
    pub fn count(&self, method: &str) -> usize {
        self.kept().heard.iter().filter(|heard| heard["method"] == method).count()
    }

    /// What it was sent of this method, as it was written.
    pub fn raw_of(&self, method: &str) -> Vec<String> {
        self.heard_of(method).into_iter().map(|heard| heard.line).collect()
    }

    /// The responses that it was sent.
    pub fn responses(&self) -> Vec<Heard> {
        self.kept().heard.iter().filter(|heard| heard["method"].is_null()).cloned().collect()
    }

    /// What its n-th start was sent: methods, and `answer` for what has none.
    pub fn told(&self, start: usize) -> Vec<String> {
        let kept = self.kept();
        let heard = kept.heard.iter().filter(|heard| heard.start == start);
        heard.map(|heard| heard["method"].as_str().unwrap_or("answer").to_owned()).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }
}
