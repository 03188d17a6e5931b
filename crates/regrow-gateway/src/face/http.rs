//! The HTTP face: clients of both eras at `/mcp` and `/servers/NAME/mcp`, and those of the older HTTP+SSE at `/sse`.
//!
//! [`bind`] takes the addresses and checks everything that can be wrong before the first client comes; [`Bound::serve`] serves.
//! What a client sends in headers ends here: nothing of them is told to a server.

mod access;
mod aside;
mod bind;
mod body;
mod bound;
mod connection;
mod connections;
mod events;
mod face_stats;
pub(crate) mod fuzzing;
mod guard;
mod header_timer;
mod legacy;
mod memory;
mod message_body;
mod mirror;
mod modern;
mod modern_endpoint;
mod modern_endpoints;
mod older;
mod options;
mod origin;
mod peer;
mod post;
mod protocol_version;
mod refusal;
mod replies;
mod reply_stream;
mod route;
mod session;
mod sessions;
mod shield;
#[cfg(test)]
mod tests;
mod threads;
mod tls;
mod token;
mod unread_limit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow::ErrorStyle;

use crate::admit::{Admit, Principal};
use crate::audit::Audit;
use crate::shares::Shares;

pub use bind::{BindError, bind};
pub use bound::{Bound, Parting};
pub use face_stats::{Counts, FaceStats};
pub use options::{AllowUsers, ClientLimits, Options, Tls};

use memory::Account;
use modern_endpoints::ModernEndpoints;
use refusal::Refusal;
use sessions::LegacySessions;

/// What all requests share.
struct Face {
    admit: Arc<dyn Admit>,
    audit: Audit,
    style: ErrorStyle,
    limits: ClientLimits,
    shares: Arc<Shares>,
    sessions: LegacySessions,
    endpoints: ModernEndpoints,
    face_stats: Arc<FaceStats>,
    closing: AtomicBool,
}

impl Face {
    fn new(
        admit: Arc<dyn Admit>,
        audit: Audit,
        style: ErrorStyle,
        limits: ClientLimits,
        shares: Arc<Shares>,
        face_stats: Arc<FaceStats>,
    ) -> Arc<Face> {
        Arc::new(Face {
            admit,
            audit,
            style,
            sessions: LegacySessions::default(),
            endpoints: ModernEndpoints::default(),
            limits,
            shares,
            face_stats,
            closing: AtomicBool::new(false),
        })
    }

    /// Where the bytes of this principal are counted.
    fn account(&self, principal: Principal) -> Account {
        Account { shares: self.shares.clone(), principal }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Why a session is not found: in a shutdown, another one could not be had either.
    fn reason(&self, refusal: Refusal) -> Refusal {
        if self.is_closing() { Refusal::closing() } else { refusal }
    }

    /// No new client comes in, and streams that have no end of their own end now.
    fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.sessions.hush();
        self.endpoints.hush();
    }

    /// Every client leaves.
    fn end(&self) {
        self.sessions.end_all();
        self.endpoints.end_all();
    }

    /// Forgets what nobody came back for.
    fn sweep(&self, now: tokio::time::Instant) {
        self.sessions.sweep(now);
        self.endpoints.sweep(now);
    }
}

/// A session holds its client handle, and the client handle its session's inbox: that knot is undone here.
impl Drop for Face {
    fn drop(&mut self) {
        self.end();
    }
}
