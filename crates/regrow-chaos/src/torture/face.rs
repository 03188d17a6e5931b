//! How calls are made on the program under torture, and how its own word about its state is heard.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::call::{Tool, request};
use super::history::{Begun, History};

/// A program under torture, as its client and its operator see it.
pub(super) trait Face: Send + Sync {
    /// Sends a request. Its answer goes to the history, whenever it comes.
    fn send(&self, id: u64, method: &str, params: Value);
    /// Sends what has no answer.
    fn notify(&self, method: &str);
    /// The process whose memory, files and children are watched.
    fn pid(&self) -> u32;
    /// How many children it has while all is well.
    fn children(&self) -> usize;
    /// Whether it says that it is ready. None where it cannot be asked.
    fn says_ready(&self) -> Option<bool>;
    /// Asks for a planned restart of the server behind it.
    fn restart(&self);
    /// Whether it has ended, though nobody asked it to.
    fn has_ended(&self) -> bool;
    /// Ends it so. Returns how it ended and how long that took.
    fn end(&self, ending: Ending, limit: Duration) -> Farewell;
    /// Its last words.
    fn log(&self) -> Vec<String>;
}

/// A way to end the program under torture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its client leaves.
    Left,
    /// SIGTERM.
    Told,
    /// SIGKILL; what it started must not outlive it even so.
    Killed,
}

impl Ending {
    /// Each in turn.
    pub(super) fn of(seed: u64, lane: usize) -> Ending {
        [Ending::Left, Ending::Told, Ending::Killed][(seed.wrapping_add(lane as u64) % 3) as usize]
    }
}

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Farewell {
    pub(super) took: Duration,
    /// As the system tells it; none if it had to be killed.
    pub(super) code: Option<i32>,
}

/// Makes calls, and writes each down before it is made.
#[derive(Clone)]
pub(super) struct Hand {
    pub(super) history: Arc<History>,
    pub(super) face: Arc<dyn Face>,
    /// The client speaks the modern era.
    pub(super) modern: bool,
}

impl Hand {
    /// Makes a call. None when the history is full.
    pub(super) fn call(&self, tool: Tool) -> Option<Begun> {
        self.call_with(tool, &Value::Null)
    }

    /// Makes a call with these arguments, too.
    pub(super) fn call_with(&self, tool: Tool, more: &Value) -> Option<Begun> {
        let begun = self.history.begin(tool)?;
        let (method, params) = request(tool, begun.key, more);
        self.send(begun.key, method, params);
        Some(begun)
    }

    /// Greets the server; true if it answers within the limit.
    pub(super) fn greet(&self, limit: Duration) -> bool {
        let Some(begun) = self.history.begin(Tool::Other("greeting")) else { return false };
        if self.modern {
            self.send(begun.key, "server/discover", json!({}));
        } else {
            let client = json!({ "name": "regrow-torture", "version": env!("CARGO_PKG_VERSION") });
            let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
            self.send(begun.key, "initialize", hello);
        }
        let greeted = begun.answer.recv_timeout(limit).is_ok();
        if !self.modern {
            self.face.notify("notifications/initialized");
        }
        greeted
    }

    fn send(&self, key: usize, method: &str, mut params: Value) {
        if self.modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "regrow-torture", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.face.send(key as u64 + 1, method, params);
    }
}
