//! How calls are made on the program under torture, and how its own word about its state is heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use regrow_chaos::program::Program;
use serde_json::{Value, json};

use super::call::{Tool, request};
use super::history::{Begun, History};

/// A program under torture, as a client and an operator of one server behind it see it.
pub(crate) trait Face: Send + Sync {
    fn program(&self) -> &Program;
    /// Sends a request. Its answer goes to the history, whenever it comes.
    fn send(&self, id: u64, method: &str, params: Value);
    /// Sends what has no answer.
    fn notify(&self, method: &str);
    /// How many children the program has while all is well with this server. None where that depends on others, too.
    fn children(&self) -> Option<usize>;
    /// Whether it says that it is ready. None where it cannot be asked.
    fn says_ready(&self) -> Option<bool>;
    /// How many tasks it says that it has. None where it cannot be asked.
    fn tasks(&self) -> Option<u64>;
    /// Asks for a planned restart of the server behind it.
    fn restart(&self);
}

/// Makes calls, and writes each down before it is made.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) history: Arc<History>,
    pub(crate) face: Arc<dyn Face>,
    /// The client speaks the modern era.
    pub(crate) modern: bool,
}

impl Hand {
    /// Makes a call. None when the history is full.
    pub(crate) fn call(&self, tool: Tool) -> Option<Begun> {
        self.call_with(tool, &Value::Null)
    }

    /// Makes a call with these arguments, too.
    pub(crate) fn call_with(&self, tool: Tool, more: &Value) -> Option<Begun> {
        let begun = self.history.begin(tool)?;
        let (method, params) = request(tool, begun.key, more);
        self.send(begun.key, method, params);
        Some(begun)
    }

    /// Greets the server; true if it answers within the limit.
    pub(crate) fn greet(&self, limit: Duration) -> bool {
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

    /// Calls, waits for the answer, rests for a moment, and calls again, until it is over.
    pub(crate) fn call_on(&self, mut random: Rng, patience: Duration, over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            let tool = match random.u8(0..10) {
                0 => Tool::List,
                1 => Tool::Echo,
                2 => Tool::Lookup,
                3..6 => Tool::Count(random.u64(5..400)),
                _ => Tool::Count(0),
            };
            let Some(begun) = self.call(tool) else { return };
            // Whether it was answered is in the history, where it is judged.
            let _ = begun.answer.recv_timeout(patience);
            thread::sleep(Duration::from_millis(random.u64(1..80)));
        }
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
