//! Streamable HTTP of the legacy era, as a client of a proxy speaks it: each message has a thread and a connection of its own.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::Task;
use super::messages::{INITIALIZED, request_of};
use crate::fetch::{Request, fetch};
use crate::suite::place::Near;
use crate::sync::lock;

/// No exchange lasts longer.
const LONGEST: Duration = Duration::from_secs(60);
/// More exchanges at a time than any scenario has.
const ANSWERS: usize = 256;
/// How the complaint begins of a proxy that no longer knows the session.
const FORGOTTEN: &str = "HTTP status 404";

/// Brings messages to a proxy, and its responses back.
pub(super) struct Remote {
    /// The responses; where there was none, an error in its place.
    pub(super) messages: Receiver<Value>,
    answered: SyncSender<Value>,
    client: Arc<Client>,
}

struct Client {
    near: Near,
    session: Mutex<Option<String>>,
}

impl Remote {
    pub(super) fn new(near: Near) -> Remote {
        let (answered, messages) = sync_channel(ANSWERS);
        Remote { messages, answered, client: Arc::new(Client { near, session: Mutex::default() }) }
    }

    pub(super) fn post(&self, message: Value) {
        let (client, answered) = (Arc::clone(&self.client), self.answered.clone());
        thread::spawn(move || {
            let outcome = client.send(&message);
            let Some(id) = message["id"].as_u64() else { return }; // A notification has no answer.
            if outcome.as_ref().is_err_and(|text| text.starts_with(FORGOTTEN)) {
                // As the protocol wants it: the next request finds a new session. This one is not sent again.
                let hello = request_of(&Task::Connect { timeout: LONGEST }, id).unwrap_or_default();
                let _ = client.send(&hello); // The next request shows whether it went well.
            }
            let response = outcome.unwrap_or_else(|text| json!({ "id": id, "error": { "message": text } }));
            let _ = answered.send(response); // The scenario may be over.
        });
    }
}

impl Client {
    /// Sends a message on the session that is known; a handshake begins the next.
    fn send(&self, message: &Value) -> Result<Value, String> {
        let known = lock(&self.session).clone();
        if message["method"] != "initialize" {
            return self.exchange(known.as_deref(), message).map(|(response, _)| response);
        }
        let (response, new) = self.exchange(None, message)?;
        lock(&self.session).clone_from(&new);
        let initialized = serde_json::from_str(INITIALIZED).unwrap_or_default();
        // What it thinks of that is seen by what follows.
        let _ = self.exchange(new.as_deref(), &initialized);
        Ok(response)
    }

    /// The response to a message, and the session that it names.
    fn exchange(&self, session: Option<&str>, message: &Value) -> Result<(Value, Option<String>), String> {
        let failed = |error: io::Error| format!("HTTP: {error}");
        let known =
            session.map(|session| [("Mcp-Session-Id", session), ("Mcp-Protocol-Version", "2025-11-25")]);
        let headers = known.as_ref().map_or(&[][..], |headers| &headers[..]);
        let request = Request { method: "POST", path: &self.near.path, headers, body: &message.to_string() };
        let response = fetch(self.near.address, &request, LONGEST).map_err(failed)?;
        let (status, session) = (response.status, response.header("mcp-session-id").map(str::to_owned));
        let Some(id) = message.get("id") else { return Ok((Value::Null, session)) };
        if response.is_stream() {
            for message in response.events() {
                let message = message.map_err(failed)?;
                if message["id"] == *id && message.get("method").is_none() {
                    return Ok((message, session));
                }
            }
            return Err("the stream ended without an answer".to_owned());
        }
        let text = response.text().map_err(failed)?;
        match serde_json::from_str::<Value>(&text) {
            Ok(response) if response["id"] == *id => Ok((response, session)),
            _ => Err(format!("HTTP status {status}: {}", text.chars().take(200).collect::<String>())),
        }
    }
}
