//! Where the messages go that servers send a legacy client on their own.

use std::sync::Arc;

use regrow::core::Epoch;
use regrow::transport::BoxFuture;
use regrow::{AutoReply, CallInbox, Inbox, Incoming};
use regrow_protocol::frame::{self, Kind};
use regrow_protocol::notification;

use super::super::reply_stream::{ReplyStream, Weight};
use super::Session;

/// Takes the messages of one call, on the stream that its answer goes to.
pub(super) struct StreamInbox {
    pub(super) session: Arc<Session>,
    pub(super) stream: Arc<ReplyStream>,
}

impl CallInbox for StreamInbox {
    fn take(&self, incoming: Incoming) -> bool {
        self.session.tell(&self.stream, incoming)
    }
}

impl Session {
    /// Where a message goes that belongs to no call.
    fn common_stream(&self) -> Arc<ReplyStream> {
        let open = |stream: &&Arc<ReplyStream>| stream.is_listened_to() && !stream.has_ended();
        match self.listening.is_listened_to() {
            true => self.listening.clone(),
            false => self.state().streams.values().rev().find(open).unwrap_or(&self.listening).clone(),
        }
    }

    fn tell(&self, stream: &ReplyStream, incoming: Incoming) -> bool {
        let Incoming { epoch, frame, .. } = incoming;
        let mut state = self.state();
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
            self.face_stats.refuse();
            return false;
        }
        stream.push(line, weight)
    }
}

impl Inbox for Session {
    fn take(&self, incoming: Incoming) -> bool {
        // Progress of what has ended.
        if incoming.frame.method() == Some(notification::PROGRESS) {
            self.face_stats.stray();
            return false;
        }
        self.tell(&self.common_stream(), incoming)
    }

    fn auto_reply(&self, _method: &str) -> Option<AutoReply> {
        let state = self.state();
        let mut streams = state.streams.values().chain([&self.listening]);
        (state.questions.is_full() || streams.any(|stream| stream.is_full())).then_some(AutoReply::TooMany)
    }

    fn session_id(&self) -> Option<&str> {
        Some(&self.id)
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
            // A client that cannot be told has left, or will find its answer dropped.
            let _ = self.common_stream().push(line, Weight::Notification);
        }
    }

    fn over(&self) {
        self.end();
    }
}
