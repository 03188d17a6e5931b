//! Takes a call: one entry in the ledger, and the first way to a session if there is one.

use std::time::Duration;

use regrow_core::{Admission, Delivery, Nature, Replay, ToolSafety};
use regrow_protocol::frame::Frame;
use regrow_protocol::method;
use tokio::time::Instant;

use super::Connection;
use super::shared::{Shared, tell};
use crate::call::{Caller, Outcome, Pending, Request};

impl Connection {
    /// Takes a request of one of several clients that share the connection, by a number of the program's own; without one, a request
    /// of the program itself. It ends within this time, counted from when it came; none is no limit.
    pub fn submit_for(&self, client: Option<u64>, request: Request, timeout: Option<Duration>) {
        let Request { frame: request, id: caller_id, reply, since } = request;
        let shared = &self.shared;
        shared.count_dropped_members(&request);
        let method = request.method().unwrap_or_default();
        let nature = Nature::of(method, tool_safety(shared, &request), shared.settings.policy.replay);
        let bytes = request.bytes().len();
        let mut state = shared.lock();
        state.handshake.note_use(method);
        if method == method::INITIALIZE {
            state.notes.forget_initialized();
        }
        let caller = client.map_or(Caller::Program, Caller::Client);
        let pending = Pending::new(request, reply, caller_id, caller);
        let now = Instant::now();
        let (waited, now) = (now - since, shared.time(now));
        match state.supervisor.ledger.admit(now, waited, nature, timeout, bytes, pending) {
            Ok(Admission::Send(epoch, id)) => {
                state.supervisor.note_deadline(now);
                let answered = shared.send(&mut state, epoch, id);
                let oversleeps = state.supervisor.oversleeps();
                drop(state);
                if oversleeps || answered.is_some() {
                    shared.wake.notify_one();
                }
                answered.into_iter().for_each(tell);
            }
            Ok(Admission::Wait(_)) => {
                state.supervisor.note_deadline(now);
                drop(state);
                shared.wake.notify_one();
            }
            Err((refusal, pending)) => {
                drop(state);
                let (kind, outlook) = refusal.told();
                let error = shared.error(&pending, kind.into(), Delivery::NotSent, None, None, outlook);
                pending.reply.end(Outcome::Failed(error));
            }
        }
    }
}

fn tool_safety(shared: &Shared, request: &Frame) -> ToolSafety {
    if request.method() != Some(method::TOOLS_CALL) || request.has_task() {
        return ToolSafety::Unknown;
    }
    let is_safe = shared.settings.is_safe_tool.as_ref();
    let heeds_hints = shared.settings.policy.replay == Replay::Hints;
    if is_safe.is_none() && !heeds_hints {
        return ToolSafety::Unknown;
    }
    match request.name() {
        Some(name) if is_safe.is_some_and(|is_safe| is_safe(&name)) => ToolSafety::Declared,
        Some(name) if heeds_hints && shared.lock().memory.is_hinted(&name) => ToolSafety::Hinted,
        _ => ToolSafety::Unknown,
    }
}
