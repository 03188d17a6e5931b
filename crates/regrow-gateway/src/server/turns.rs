//! Calls on their way to a server: each goes when it is its turn.

use std::sync::Arc;

use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::method;

use super::Server;
use crate::gate::{Pass, Turned};
use crate::seat::Seat;
use crate::usage::Usage;

impl Server {
    /// A request comes, for this place. It goes when it is its turn.
    pub(crate) fn enter(&self, client: u64, number: u64, request: Request, seat: Arc<Seat>) {
        let Some(me) = self.me.upgrade() else { return };
        let used = InUse::of(&me, &seat);
        let queued = self.stats.queued();
        let limit = self.config.options.call_timeout;
        let left = limit.map(|limit| limit.saturating_sub(request.since.elapsed()));
        self.turnstile.submit((client, number), left, move |turn| {
            drop(queued);
            let Request { frame, id, reply, since } = request;
            match turn {
                Ok(pass) => {
                    // A request that only waits is no work for the server: it must not keep other calls out.
                    let waits = method::waits_by_design(frame.method().unwrap_or_default());
                    let reply = Box::new(Passing { reply, _pass: (!waits).then_some(pass), _used: used });
                    seat.submit(Request { frame, id, reply, since });
                }
                Err(turned) => {
                    let kind = match turned {
                        Turned::Full => ErrorKind::Overloaded,
                        Turned::Late => ErrorKind::Timeout,
                        Turned::Closed => ErrorKind::Closed,
                    };
                    reply.end(Outcome::Failed(CallError::unsent(me.name.clone(), &frame, kind)));
                }
            }
        });
    }

    /// A call that may still wait for its turn is not wanted any more. Says whether it waited.
    pub(crate) fn withdraw(&self, client: u64, number: u64) -> bool {
        self.turnstile.withdraw(|key| *key == (client, number)) > 0
    }

    /// The same with all of a client that has left.
    pub(crate) fn withdraw_all(&self, client: u64) {
        self.turnstile.withdraw(|(of, _)| *of == client);
    }
}

/// A call that was let through.
struct Passing {
    reply: Box<dyn Reply>,
    _pass: Option<Pass>,
    _used: InUse,
}

impl Reply for Passing {
    fn end(self: Box<Self>, outcome: Outcome) {
        self.reply.end(outcome);
    }
}

/// As long as this lives, the server and the place there are in use. The place itself may go: its calls must not keep it.
pub(crate) struct InUse {
    server: Arc<Server>,
    seat: Arc<Usage>,
}

impl InUse {
    pub(crate) fn of(server: &Arc<Server>, seat: &Seat) -> InUse {
        server.usage.begin();
        seat.usage().begin();
        InUse { server: server.clone(), seat: seat.usage().clone() }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.server.usage.end();
        self.seat.end();
    }
}
