//! A client leaves a shared connection, or is dropped from it: nothing of it goes on there.

use std::sync::Arc;

use regrow::Outcome;
use regrow_protocol::frame::{self, Frame, RawId};

use super::Commons;
use super::scope::scoped;
use super::seat::{Call, Seat};

impl Commons {
    /// A client leaves. Nobody waits for the answers to its calls.
    pub(super) fn leave(&self, seat: &Arc<Seat>) {
        drop(self.part_with(seat));
    }

    /// A client does not read what it is told. On a connection of its own the server would have to wait; here it must go.
    pub(super) fn drop_slow(&self, seat: &Arc<Seat>) {
        let Some(calls) = self.part_with(seat) else { return }; // It is gone already.
        tracing::warn!(
            server = &*self.name,
            "a client does not read what it is told, and was dropped from the shared session"
        );
        for call in calls {
            let error = seat.interrupted(&call);
            call.reply.end(Outcome::Failed(error));
        }
        seat.over();
    }

    /// Ends all that the client has here. Gives its open calls, which the server was told to stop; none if that was done before.
    fn part_with(&self, seat: &Arc<Seat>) -> Option<Vec<Call>> {
        let calls = seat.close()?;
        let (level, unwanted) = {
            let mut floor = self.floor();
            floor.seats.remove(&seat.share);
            (floor.levels.leave(seat.share), floor.subscriptions.leave(seat.share))
        };
        let notification = notification();
        for call in calls.iter().filter(|call| !call.waits_here) {
            self.connection.cancel(&scoped(seat.share, &call.id), &notification);
        }
        self.ask_for_level(level.ask);
        unwanted.iter().for_each(|uri| self.ask_for_resource(uri, Some(false)));
        Some(calls)
    }
}

/// In which words the server is told.
pub(super) fn notification() -> Frame {
    Frame::built(frame::cancellation(&RawId::from(0), Some("the client left")))
}
