//! The journal: durable evidence of what a chaos server did, readable after it died.
//!
//! One line per fact, appended with one write each, in `CHAOS_DIR/journal`:
//!
//! | line | when |
//! |---|---|
//! | `start PID N` | the N-th life begins |
//! | `request METHOD ID` | a request was read; the id as it stood on the wire |
//! | `params METHOD JSON` | its params, for every method except `tools/call` and `ping` |
//! | `notification METHOD` | a notification was read |
//! | `response ID` / `stray-response ID` | an answer to a question of ours / to none that is open |
//! | `run TOOL KEY PID` | a tool is about to have its effect (`-` where there is no key) |
//! | `cancelled ID` / `cancelled-unknown ID` | a cancellation of a call or stream that runs / does not run |
//! | `unreadable BYTES` | a line was read that is not JSON-RPC |
//! | `port N` | HTTP is served at this port |
//! | `connection PID` | a connection was accepted |
//! | `session ID` | a session of HTTP has begun |
//! | `expired NAME` | a request was refused because its session is not known; NAME is its JSON-RPC or HTTP method |
//! | `refused STATUS NAME` | a request was refused with this status before it was looked at |
//! | `swallowed NAME`, `dropped NAME` | a request was read and is never answered, or its connection closed |
//! | `mismatch TEXT` | a modern request's headers and body differ |
//! | `authorization NAME VALUE` | a request had this header |
//! | `get SESSION EVENT` | a client listens; `-` where it named none |
//! | `delete SESSION` | a client ends its session |
//! | `gone NAME` | a client closed the connection before the response was over |
//! | `helper PID` | a helper process runs |
//! | `eof PID` | the end of stdin was read |
//! | `end PID REASON` | the server ends itself; absent after a signal from outside |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::processes::is_dead;
use crate::sync::wait_until;

/// Reads the journal of the servers that share one `CHAOS_DIR`; each question reads the file again.
#[derive(Clone, Debug)]
pub struct Journal {
    dir: PathBuf,
}

impl Journal {
    /// The journal in `dir`, which may not have been begun yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The folder to name in `CHAOS_DIR`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the control file, whole, so that no server reads half of it. Running servers obey from their next
    /// request on.
    pub fn set_control(&self, plan: &str) -> io::Result<()> {
        let draft = self.dir.join("control.draft");
        fs::write(&draft, plan)?;
        fs::rename(draft, self.dir.join("control"))
    }

    /// All lines so far; none if no server has started. A line is here whole or not at all.
    pub fn lines(&self) -> Vec<String> {
        let bytes = fs::read(self.dir.join("journal")).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        String::from_utf8_lossy(&bytes[..whole]).lines().map(str::to_owned).collect()
    }

    /// How many lives have begun.
    pub fn starts(&self) -> usize {
        self.after("start").len()
    }

    /// The process ids of all lives, in order.
    pub fn pids(&self) -> Vec<u32> {
        self.numbers("start")
    }

    /// The process ids of all helpers.
    pub fn helpers(&self) -> Vec<u32> {
        self.numbers("helper")
    }

    /// The servers and helpers that still live. Zombies are dead.
    pub fn alive(&self) -> Vec<u32> {
        self.pids().into_iter().chain(self.helpers()).filter(|pid| !is_dead(*pid)).collect()
    }

    /// How often a tool ran, over all lives.
    pub fn runs(&self, tool: &str) -> usize {
        self.after(&format!("run {tool}")).len()
    }

    /// How often a tool ran with this key, over all lives.
    pub fn runs_with(&self, tool: &str, key: &str) -> usize {
        self.after(&format!("run {tool} {key}")).len()
    }

    /// How many requests of this method were read from the wire.
    pub fn requests(&self, method: &str) -> usize {
        self.after(&format!("request {method}")).len()
    }

    /// The ids of those requests, as they stood on the wire.
    pub fn request_ids(&self, method: &str) -> Vec<String> {
        self.after(&format!("request {method}"))
    }

    /// The params of the requests of this method, as JSON. None are kept for `tools/call` and `ping`.
    pub fn params(&self, method: &str) -> Vec<String> {
        self.after(&format!("params {method}"))
    }

    /// How many notifications of this method were read from the wire.
    pub fn notifications(&self, method: &str) -> usize {
        self.lines().iter().filter(|line| **line == format!("notification {method}")).count()
    }

    /// The ids of running calls and streams that were cancelled, as they stood on the wire.
    pub fn cancelled(&self) -> Vec<String> {
        self.after("cancelled")
    }

    /// The port at which the last life serves HTTP.
    pub fn port(&self) -> Option<u16> {
        self.after("port").last()?.parse().ok()
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.after("connection").len()
    }

    /// The ids of all sessions of HTTP, in order.
    pub fn sessions(&self) -> Vec<String> {
        self.after("session")
    }

    /// The methods of requests that were refused because their session was not known.
    pub fn expired(&self) -> Vec<String> {
        self.after("expired")
    }

    /// The methods of requests that were refused with this HTTP status.
    pub fn refused(&self, status: u16) -> Vec<String> {
        self.after(&format!("refused {status}"))
    }

    /// The credentials that came with requests: `METHOD VALUE`.
    pub fn authorizations(&self) -> Vec<String> {
        self.after("authorization")
    }

    /// How often a client began to listen by GET.
    pub fn gets(&self) -> usize {
        self.after("get").len()
    }

    /// The `Last-Event-ID`s with which clients came back.
    pub fn resumed(&self) -> Vec<String> {
        let gets = self.after("get");
        gets.iter()
            .filter_map(|get| get.split_once(' ').map(|pair| pair.1.to_owned()))
            .filter(|id| id != "-")
            .collect()
    }

    /// The sessions that clients ended.
    pub fn deletes(&self) -> Vec<String> {
        self.after("delete")
    }

    /// The methods of requests whose client closed the connection before the response was over.
    pub fn gone(&self) -> Vec<String> {
        self.after("gone")
    }

    /// What ended lives said about it: `PID REASON`.
    pub fn ends(&self) -> Vec<String> {
        self.after("end")
    }

    /// Waits until `condition` holds for this journal. False if it does not within `limit`.
    pub fn wait(&self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        wait_until(limit, || condition(self))
    }

    /// What follows `head` and a space, for each line that begins so.
    fn after(&self, head: &str) -> Vec<String> {
        let rest = |line: &String| line.strip_prefix(head)?.strip_prefix(' ').map(str::to_owned);
        self.lines().iter().filter_map(rest).collect()
    }

    fn numbers(&self, head: &str) -> Vec<u32> {
        self.after(head).iter().filter_map(|rest| rest.split(' ').next()?.parse().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(text: &str) -> (tempfile::TempDir, Journal) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("journal"), text).unwrap();
        let journal = Journal::new(dir.path());
        (dir, journal)
    }

    #[test]
    fn counts_what_is_asked_and_nothing_that_only_begins_alike() {
        let (_dir, journal) = journal(
            "start 7 1\nrequest tools/list 1\nrun count a 7\nrun count ab 7\nrun counter a 7\nstart 8 2\ncancelled \"x y\"\ncancelled-unknown 3\n",
        );
        assert_eq!(journal.starts(), 2);
        assert_eq!(journal.pids(), [7, 8]);
        assert_eq!(journal.runs("count"), 2);
        assert_eq!(journal.runs_with("count", "a"), 1);
        assert_eq!(journal.requests("tools/list"), 1);
        assert_eq!(journal.cancelled(), ["\"x y\""]);
    }

    #[test]
    fn a_journal_not_yet_begun_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Journal::new(dir.path()).starts(), 0);
    }

    #[test]
    fn this_process_is_alive() {
        let (_dir, journal) = journal(&format!("start {} 1\n", std::process::id()));
        assert_eq!(journal.alive(), [std::process::id()]);
    }
}
