//! Requests that wait until it is known which era the server speaks.

use std::collections::VecDeque;
use std::sync::Weak;

use regrow_core::Delivery;

use super::{Bridge, Speaks, hello};
use crate::call::{Outcome, Reply};
use crate::error::{CallError, ErrorKind};
use crate::frame::{self, Frame, RawId};

/// More requests than this do not wait,
const MAX_HELD: usize = 1024;
/// nor more bytes.
const MAX_HELD_BYTES: usize = 16 << 20;

/// A request of the client, and who waits for its end.
pub(super) struct Request {
    pub(super) frame: Frame,
    pub(super) id: RawId,
    pub(super) reply: Box<dyn Reply>,
}

/// Requests in the order in which they came.
#[derive(Default)]
pub(super) struct Held {
    queue: VecDeque<Request>,
    bytes: usize,
    /// The server was asked, and somebody waits for its answer.
    asking: bool,
}

/// What became of a request that had to wait.
pub(super) enum Taken {
    /// It waits for a question that is open.
    Waits,
    /// It waits, and the server must be asked, in the name of whoever sent this.
    Asks(Frame),
    /// There was no room.
    Refused(Request),
}

impl Held {
    pub(super) fn take(&mut self, request: Request) -> Taken {
        let bytes = self.bytes + request.frame.bytes().len();
        if self.queue.len() == MAX_HELD || bytes > MAX_HELD_BYTES {
            return Taken::Refused(request);
        }
        self.bytes = bytes;
        let frame = request.frame.clone();
        self.queue.push_back(request);
        match std::mem::replace(&mut self.asking, true) {
            true => Taken::Waits,
            false => Taken::Asks(frame),
        }
    }

    /// The newest request of this id is not wanted any more. Says whether there was one.
    pub(super) fn cancel(&mut self, id: &RawId) -> bool {
        let Some(at) = self.queue.iter().rposition(|held| held.id == *id) else { return false };
        self.queue.remove(at).inspect(|held| self.bytes -= held.frame.bytes().len()).is_some()
    }

    fn next(&mut self) -> Option<Request> {
        self.queue.pop_front().inspect(|next| self.bytes -= next.frame.bytes().len())
    }
}

impl Bridge {
    pub(super) fn hold(&self, taken: Taken) {
        match taken {
            Taken::Waits => {}
            Taken::Asks(first) => self.ask(&first),
            Taken::Refused(request) => {
                let error = self.error(&request.frame, ErrorKind::Overloaded);
                request.reply.end(Outcome::Failed(error));
            }
        }
    }

    /// Has the connection greet the server, in the name of whoever sent this.
    fn ask(&self, first: &Frame) {
        self.far().greet_as(hello::hello(first));
        let id = RawId::from(0);
        // The connection answers it with what the server said, in whichever era that was.
        let Ok(question) = Frame::parse(frame::request(&id, "initialize", None)) else { return };
        self.pass(question, id, Box::new(Greeted(self.me.clone())));
    }

    /// The server's era is known: those that waited go first, in their order.
    fn release(&self, server: Speaks) {
        while let Some(request) = self.next_held(|state| state.server = Some(server)) {
            self.route(request, server);
        }
    }

    /// There is no session, and none of those that waited has been sent. The next request asks again.
    fn fail_held(&self, error: &CallError) {
        while let Some(request) = self.next_held(|state| state.held.asking = false) {
            let tool = self.error(&request.frame, error.kind).tool;
            let own = CallError { tool, delivery: Delivery::NotSent, epoch: None, ..error.clone() };
            request.reply.end(Outcome::Failed(CallError { repeatable: false, ..own }));
        }
    }

    /// The next that waits. When there is none, this holds from that moment on: what comes then must not overtake.
    fn next_held(&self, or_else: impl FnOnce(&mut super::State)) -> Option<Request> {
        let mut state = self.state();
        let next = state.held.next();
        if next.is_none() {
            or_else(&mut state);
        }
        next
    }
}

/// Waits for the first greeting.
struct Greeted(Weak<Bridge>);

impl Reply for Greeted {
    fn end(self: Box<Self>, outcome: Outcome) {
        let Some(bridge) = self.0.upgrade() else { return };
        let is_modern = bridge.far().is_modern();
        match outcome {
            Outcome::Failed(error) => bridge.fail_held(&error),
            _ if is_modern => bridge.release(Speaks::Modern),
            _ => bridge.release(Speaks::Legacy),
        }
    }
}
