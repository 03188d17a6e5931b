//! A client leaves a shared connection, or is dropped from it: nothing of it goes on there.

use std::sync::Arc;

use regrow::core::Delivery;
use regrow::{CallError, ErrorKind, Outcome, Reply};
use regrow_protocol::frame::{self, Frame, RawId};

use super::SharedSession;
use super::member::{SessionMember, WaitingRequest};

/// Requests, and who waits for each.
type PendingCalls = Vec<(Frame, Box<dyn Reply>)>;

impl SharedSession {
    /// A client leaves. Nobody waits for the answers to its calls.
    pub(super) fn leave(&self, member: &Arc<SessionMember>) {
        drop(self.part_with(member));
    }

    /// A client does not read what it is told. On a connection of its own the server would have to wait; here it must go.
    pub(super) fn drop_slow(&self, member: &Arc<SessionMember>) {
        let Some((calls, waiting)) = self.part_with(member) else { return }; // It is gone already.
        tracing::warn!(
            server = &*self.name,
            "dropped a client from the shared session: it does not read its messages"
        );
        interrupt(member, calls);
        for WaitingRequest { request, reply, .. } in waiting {
            reply.end(Outcome::Failed(member.error(&request, ErrorKind::Closed)));
        }
        member.over();
    }

    /// A call came to the connection when its client had just been dropped from it.
    pub(super) fn end_late_calls(&self, member: &Arc<SessionMember>) {
        interrupt(member, self.connection.cancel_all(member.share, &notification()));
    }

    /// Ends all that the client has here. Returns its calls, which the server was told to stop, and what waits here; none if that was
    /// done before.
    fn part_with(&self, member: &Arc<SessionMember>) -> Option<(PendingCalls, Vec<WaitingRequest>)> {
        let waiting = member.close()?;
        let (level, unwanted) = {
            let mut state = self.state();
            state.members.remove(&member.share);
            (state.levels.leave(member.share), state.subscriptions.leave(member.share))
        };
        let calls = self.connection.cancel_all(member.share, &notification());
        self.ask_for_level(level.ask);
        unwanted.iter().for_each(|uri| self.ask_for_resource(uri, Some(false)));
        Some((calls, waiting))
    }
}

/// The server may have run these calls; their client is told that it was dropped.
fn interrupt(member: &SessionMember, calls: PendingCalls) {
    for (request, reply) in calls {
        let error = member.error(&request, ErrorKind::Closed);
        reply.end(Outcome::Failed(CallError { delivery: Delivery::Unknown, ..error }));
    }
}

/// In which words the server is told.
fn notification() -> Frame {
    Frame::built(frame::cancellation(&RawId::from(0), Some("the client left")))
}
