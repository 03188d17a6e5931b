//! Where the messages go that servers send a legacy client by themselves.

use std::sync::Arc;

use regrow::core::Epoch;
use regrow::transport::BoxFuture;
use regrow::{AutoReply, Inbox, Incoming};
use regrow_protocol::frame::{self, Frame, Kind, RawId};
use regrow_protocol::notification;

use super::super::lane::{Lane, Weight};
use super::{Call, Session, State};

impl State {
    /// Which lane a message of a server goes to; none if what it belongs to is over.
    fn way(&self, listening: &Arc<Lane>, call: Option<&RawId>, message: &Frame) -> Option<Arc<Lane>> {
        let of = |is_it: &dyn Fn(&Call) -> bool| {
            self.calls.iter().rev().find(|call| is_it(call)).map(|call| call.lane.clone())
        };
        if let Some(lane) = call.and_then(|id| of(&|call| call.id == *id)) {
            return Some(lane);
        }
        if message.method() == Some(notification::PROGRESS) {
            let token = message.progress_token().and_then(RawId::parse)?;
            return of(&|call| call.token.as_ref() == Some(&token));
        }
        if listening.is_listened_to() {
            return Some(listening.clone());
        }
        let open = |lane: &&Arc<Lane>| lane.is_listened_to() && !lane.has_ended();
        Some(self.lanes.values().rev().find(open).unwrap_or(listening).clone())
    }
}

impl Inbox for Session {
    fn take(&self, incoming: Incoming) -> bool {
        let Incoming { epoch, call, frame, .. } = incoming;
        let mut state = self.state();
        let Some(lane) = state.way(&self.listening, call.as_ref(), &frame) else {
            self.census.stray();
            return false;
        };
        let (line, weight) = match frame.kind() {
            Kind::Request { id, method } => {
                (frame.with_id(&state.questions.ask(epoch, id, method)), Weight::Needed)
            }
            Kind::Notification { method: notification::CANCELLED } => {
                let ours = frame.request_id().and_then(|id| state.questions.withdraw(epoch, &id));
                let Some(ours) = ours else { return false };
                (frame.with_request_id(&ours), Weight::Notification)
            }
            _ => (frame.to_line(), Weight::Notification),
        };
        if weight == Weight::Notification && self.room.is_overrun() {
            self.census.refuse();
            return false;
        }
        lane.push(line, weight)
    }

    fn auto_reply(&self, _method: &str) -> Option<AutoReply> {
        let state = self.state();
        let mut lanes = state.lanes.values().chain([&self.listening]);
        (state.questions.is_full() || lanes.any(|lane| lane.is_full())).then_some(AutoReply::TooMany)
    }

    fn has_room(&self) -> bool {
        self.room.is_left()
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move { self.room.wait().await })
    }

    fn lost(&self, epoch: Epoch) {
        let lost = self.state().questions.lose(epoch);
        for ours in lost {
            let line = frame::cancellation(&ours, Some("the server is gone"));
            if let Ok(frame) = Frame::parse(line.clone()) {
                let lane = self.state().way(&self.listening, None, &frame);
                // A client that cannot be told has left, or will find its answer dropped.
                let _ = lane.is_some_and(|lane| lane.push(line, Weight::Notification));
            }
        }
    }

    fn over(&self) {
        self.end();
    }
}
