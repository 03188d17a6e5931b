//! Requests and notifications that wait until it is known which era the server speaks.

use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;

use regrow_core::Delivery;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;

use super::timer::Timer;
use super::{Bridge, BridgeState, Speaks, hello, words};
use crate::call::{Outcome, Reply, Request};
use crate::error::{CallError, ErrorKind};

/// More requests than this do not wait,
const MAX_HELD: usize = 1024;
/// nor more bytes.
const MAX_HELD_BYTES: usize = 16 << 20;

/// Requests in the order in which they came.
#[derive(Default)]
pub(super) struct HeldRequests {
    queue: VecDeque<HeldRequest>,
    /// Notifications, each with the number of the last request before it.
    notes: VecDeque<(u64, Frame)>,
    /// Of both.
    bytes: usize,
    last: u64,
    /// The questions to the server that are open.
    asked: Vec<Patience>,
}

/// What a request does when the server cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// A handshake waits on for as long as it may take: a client that is refused there gives up its server.
    Waits,
    /// Everything else gets an error.
    Fails,
}

impl Patience {
    fn of(request: &Frame) -> Patience {
        match request.method().is_some_and(method::is_handshake) {
            true => Patience::Waits,
            false => Patience::Fails,
        }
    }

    /// A question that waits or fails like that. The connection answers it with what the server said, in whichever era that was.
    fn question(self) -> &'static str {
        match self {
            Patience::Waits => method::INITIALIZE,
            Patience::Fails => method::SERVER_DISCOVER,
        }
    }
}

struct HeldRequest {
    number: u64,
    patience: Patience,
    request: Request,
    /// It waits no longer than until its time is over.
    _limit: Option<Timer>,
}

/// What waited longest.
enum Next {
    Request(Request),
    Note(Frame),
}

/// What became of a request that had to wait.
enum HoldResult {
    /// It waits for a question that is open.
    Waits,
    /// It waits, and the server must be asked, in the name of its sender.
    Asks(Frame, Patience),
    /// There was no room.
    Refused(Request),
}

impl HeldRequests {
    fn take(&mut self, request: Request, time: Option<Duration>, bridge: &Weak<Bridge>) -> HoldResult {
        let bytes = self.bytes + request.frame.bytes().len();
        if self.queue.len() == MAX_HELD || bytes > MAX_HELD_BYTES {
            return HoldResult::Refused(request);
        }
        self.bytes = bytes;
        self.last += 1;
        let number = self.last;
        let left = time.map(|time| time.saturating_sub(request.since.elapsed()));
        let limit = left.map(|left| Timer::after(bridge, left, move |bridge| bridge.held_too_long(number)));
        let (patience, frame) = (Patience::of(&request.frame), request.frame.clone());
        self.queue.push_back(HeldRequest { number, patience, request, _limit: limit });
        if self.asked.contains(&patience) {
            return HoldResult::Waits;
        }
        self.asked.push(patience);
        HoldResult::Asks(frame, patience)
    }

    /// A notification waits for its turn. Returns whether there was room.
    pub(super) fn take_note(&mut self, notification: &Frame, server: &str) -> bool {
        let bytes = self.bytes + notification.bytes().len();
        let fits = self.notes.len() < MAX_HELD && bytes <= MAX_HELD_BYTES;
        if fits {
            self.bytes = bytes;
            self.notes.push_back((self.last, notification.clone()));
        } else {
            tracing::warn!(
                server,
                "dropped a notification of the client: too many are waiting for the server"
            );
        }
        fits
    }

    /// What came first of all that waits.
    fn next(&mut self) -> Option<Next> {
        let request = self.queue.front().map(|waiting| waiting.number);
        let note = self.notes.front().map(|&(after, _)| after);
        if note.is_some_and(|after| request.is_none_or(|request| after < request)) {
            let (_, note) = self.notes.pop_front()?;
            self.bytes -= note.bytes().len();
            return Some(Next::Note(note));
        }
        self.remove(0).map(Next::Request)
    }

    /// The newest request of this id is not wanted any more. Returns whether there was one.
    pub(super) fn cancel(&mut self, id: &RawId) -> bool {
        self.give_up(|waiting| waiting.request.id == *id).is_some()
    }

    /// Takes out the newest that is meant by this.
    fn give_up(&mut self, is_it: impl Fn(&HeldRequest) -> bool) -> Option<Request> {
        let at = self.queue.iter().rposition(is_it)?;
        self.remove(at)
    }

    fn remove(&mut self, at: usize) -> Option<Request> {
        let HeldRequest { request, .. } = self.queue.remove(at)?;
        self.bytes -= request.frame.bytes().len();
        Some(request)
    }
}

impl Bridge {
    /// A request waits until the server's era is known, unless it has become so meanwhile.
    pub(super) fn hold(&self, request: Request) {
        let time = self.far().time_for(&request.frame);
        let mut state = self.state();
        if let Some(&server) = self.server.get() {
            drop(state);
            return self.route(request, server);
        }
        let taken = state.held.take(request, time, &self.me);
        drop(state);
        match taken {
            HoldResult::Waits => {}
            HoldResult::Asks(first, patience) => self.ask(&first, patience),
            HoldResult::Refused(request) => {
                let error = self.error(&request.frame, ErrorKind::Overloaded);
                request.reply.end(Outcome::Failed(error));
            }
        }
    }

    /// Has the connection greet the server, in the name of its sender.
    fn ask(&self, first: &Frame, patience: Patience) {
        // A legacy client says who it is in its greeting alone.
        if first.method() == Some(method::INITIALIZE) || hello::speaks(first) == Speaks::Modern {
            self.far().greet_as(hello::hello(first));
        }
        let id = words::own_id("greeting", 0); // No client's id: a cancellation must not mean it.
        let Ok(question) = Frame::parse(frame::request(&id, patience.question(), None)) else { return };
        self.pass(Request::new(question, id, Box::new(GreetingReply { bridge: self.me.clone(), patience })));
    }

    /// The server's era is known: those that waited go first, in their order.
    fn release(&self, server: Speaks) {
        loop {
            let (next, client) = {
                let mut state = self.state();
                let next = state.held.next();
                if next.is_none() {
                    // From this moment on: what comes now must not overtake. A second greeting finds the same era.
                    let _ = self.server.set(server);
                }
                (next, state.client)
            };
            match next {
                Some(Next::Request(request)) => self.route(request, server),
                Some(Next::Note(note)) => drop(self.forward_to(client, server, &note)),
                None => return,
            }
        }
    }

    /// There is no session, and none of those that waited like this has been sent. The next request asks again.
    fn fail_held(&self, patience: Patience, error: &CallError) {
        let alike = |waiting: &HeldRequest| waiting.patience == patience;
        let no_more = |state: &mut BridgeState| state.held.asked.retain(|asked| *asked != patience);
        while let Some(request) = self.next_held(alike, no_more) {
            let tool = self.error(&request.frame, error.kind).tool;
            let own = CallError { tool, delivery: Delivery::NotSent, epoch: None, ..error.clone() };
            request.reply.end(Outcome::Failed(CallError { repeatable: false, ..own }));
        }
    }

    /// Its time is over. The far side does not send it any more, and tells why there was no server.
    fn held_too_long(&self, number: u64) {
        let late = self.state().held.give_up(|waiting| waiting.number == number);
        if let Some(request) = late {
            self.pass(request);
        }
    }

    /// The next that waits like this. When there is none, this holds from that moment on.
    fn next_held(
        &self,
        is_meant: impl Fn(&HeldRequest) -> bool,
        or_else: impl FnOnce(&mut BridgeState),
    ) -> Option<Request> {
        let mut state = self.state();
        let first = state.held.queue.iter().position(is_meant);
        let next = first.and_then(|at| state.held.remove(at));
        if next.is_none() {
            or_else(&mut state);
        }
        next
    }
}

/// Waits for the first greeting.
struct GreetingReply {
    bridge: Weak<Bridge>,
    patience: Patience,
}

impl Reply for GreetingReply {
    fn end(self: Box<Self>, outcome: Outcome) {
        let Some(bridge) = self.bridge.upgrade() else { return };
        let is_modern = bridge.far().is_modern();
        match outcome {
            Outcome::Failed(error) => bridge.fail_held(self.patience, &error),
            _ if is_modern => bridge.release(Speaks::Modern),
            _ => bridge.release(Speaks::Legacy),
        }
    }
}
