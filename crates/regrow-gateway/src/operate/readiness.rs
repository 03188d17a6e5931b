//! Whether the gateway can do its work, and why not.

use serde_json::{Value, json};

use super::report::{Overview, ServerReport, ServerState};

impl ServerReport {
    /// Why calls to it would fail or wait; none where they would not, or where it was stopped on purpose.
    pub fn why_not_ready(&self) -> Option<String> {
        let starts_on_demand = !self.eager && matches!(self.state, ServerState::Idle | ServerState::Closed);
        if self.state == ServerState::Ready || self.stopped || starts_on_demand {
            return None;
        }
        let standing = match self.state {
            ServerState::Idle => "it was not started yet",
            ServerState::Connecting => "it is starting",
            ServerState::Ready => "it is ready",
            ServerState::Draining => "it finishes its calls",
            ServerState::Closing => "its session is ending",
            ServerState::Backoff => "it waits for the next attempt",
            ServerState::Parked => "it is parked",
            ServerState::Closed => "it is closed",
            ServerState::Broken => {
                return Some(format!("its configuration is broken: {}", self.problems.join("; ")));
            }
        };
        let fault = self.last_fault.as_ref().map(|fault| format!(": {}", fault.text));
        Some(format!("{standing}{}", fault.unwrap_or_default()))
    }

    /// How many calls to it have ended.
    pub fn ended(&self) -> u64 {
        self.calls.iter().map(|call| call.count).sum()
    }

    /// How many of them got no answer although nobody had cancelled them.
    pub fn failed(&self) -> u64 {
        let fine = ["answered", "tool-error", "rpc-error", "cancelled"];
        let failed = self.calls.iter().filter(|call| !fine.contains(&&*call.outcome));
        failed.map(|call| call.count).sum()
    }

    /// Whether it has failed and is not serving, rather than being on its way.
    pub fn is_broken(&self) -> bool {
        !self.stopped
            && matches!(self.state, ServerState::Backoff | ServerState::Parked | ServerState::Broken)
    }
}

impl Overview {
    /// What is to be said where the gateway is not ready: of the named server, or of all that are wanted from the start.
    /// None where it is ready.
    pub(super) fn not_ready(&self, server: Option<&str>) -> Option<Value> {
        let looked_at = self.servers.iter().filter(|report| match server {
            Some(name) => report.name == name,
            None => report.eager,
        });
        let reasons = looked_at.filter_map(|report| {
            let why = report.why_not_ready()?;
            Some(json!({ "server": report.name, "state": report.state.name(), "why": why }))
        });
        let reasons: Vec<Value> = reasons.collect();
        let closing = self.gateway.shutting_down;
        (closing || !reasons.is_empty())
            .then(|| json!({ "ready": false, "shuttingDown": closing, "notReady": reasons }))
    }
}
