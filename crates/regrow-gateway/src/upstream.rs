//! One client's place at one server: a connection of its own, or a share of one.

mod quiet;

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use regrow::core::Epoch;
use regrow::transport::BoxFuture;
use regrow::{AutoReply, Bridge, Builder, Connection, Inbox, Incoming, Request, Upstream};
use regrow_protocol::frame::{Frame, Kind, RawId};
use tokio::runtime::Handle;

use crate::answers;
use crate::catalog;
use crate::share::{Heard, SharedSession};
use crate::usage::Usage;
use quiet::Quiet;

/// A client's place. Dropping it is leaving: what the client has there ends.
pub(crate) struct UpstreamSession {
    bridge: Arc<Bridge>,
    /// None of a client that has only a share.
    own: Option<Connection>,
    usage: Arc<Usage>,
}

impl UpstreamSession {
    /// With a connection of its own, made like this.
    pub(crate) fn own(
        name: Arc<str>,
        builder: Builder,
        heard: Arc<dyn Heard>,
        hears: Arc<dyn Inbox>,
    ) -> UpstreamSession {
        let mut own = None;
        let bridge = Bridge::new(name, hears, |bridge| {
            let tap = Tap { bridge, heard };
            let connection = builder.bridge_to(Arc::new(tap)).build();
            Box::new(Quiet(own.insert(connection).far_side()))
        });
        let usage = Arc::new(Usage::new());
        UpstreamSession { bridge, own, usage }
    }

    /// With a share of a connection.
    pub(crate) fn shared(
        name: Arc<str>,
        shared: &Arc<SharedSession>,
        hears: Arc<dyn Inbox>,
    ) -> UpstreamSession {
        let bridge = Bridge::new(name, hears, |bridge| Box::new(Quiet(shared.join(bridge))));
        UpstreamSession { bridge, own: None, usage: Arc::new(Usage::new()) }
    }

    /// The connection that it has for itself.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.own.as_ref()
    }

    /// Starts its server now rather than with the first call.
    pub(crate) fn start(&self) {
        if let Some(own) = &self.own {
            own.start();
        }
    }

    /// Who uses it.
    pub(crate) fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }

    /// Whether it has expired.
    pub(crate) fn is_over(&self) -> bool {
        self.usage.is_over()
    }

    pub(crate) fn submit(&self, request: Request) {
        self.bridge.submit(request);
    }

    /// Tells the server what its client has told the gateway. Nobody waits for the answer.
    pub(crate) fn tell(&self, request: Frame) {
        let id = answers::raw_text("regrow-told"); // No client's id: a cancellation must not mean it.
        self.submit(Request::new(request, id, Box::new(answers::Unheard)));
    }

    /// The client's call that the server must mean when it says something during this session; none if that is not clear, or if the
    /// session is shared.
    pub(crate) fn only_call(&self, epoch: Epoch) -> Option<RawId> {
        self.own.as_ref()?.only_call(epoch)
    }

    pub(crate) fn cancel(&self, id: &RawId, notification: &Frame) -> bool {
        self.bridge.cancel(id, notification)
    }

    pub(crate) fn forward(&self, notification: &Frame) -> bool {
        self.bridge.forward(notification)
    }

    pub(crate) fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool {
        self.bridge.hand_over(epoch, server_id, answer)
    }
}

impl Drop for UpstreamSession {
    fn drop(&mut self) {
        // Others know of the connection, too: it must not live on because of them. Without a runtime it has ended already.
        if let (Some(own), Ok(runtime)) = (self.own.take(), Handle::try_current()) {
            runtime.spawn(async move { own.close().await });
        }
    }
}

/// Closes a connection that a client has for itself when it was not used for so long. Its next call opens another.
pub(crate) async fn expire(connection: Connection, usage: Arc<Usage>, idle: Duration) {
    let mut status = connection.status();
    // It is closed before that when its client leaves.
    let closed = async { status.wait_for(|status| status.is_closed()).await.is_ok() };
    tokio::select! {
        biased;
        _ = closed => {}
        () = usage.unused_for(idle) => {
            usage.retire(); // A call that comes while it closes is for another one.
            connection.close().await;
        }
    }
}

/// Hears what a server says before its client does: changes of lists concern the catalog, whatever the client wants to hear.
struct Tap {
    bridge: Weak<Bridge>,
    heard: Arc<dyn Heard>,
}

impl Inbox for Tap {
    fn take(&self, incoming: Incoming) -> bool {
        if let Kind::Notification { method } = incoming.frame.kind() {
            let is_change = method.ends_with("/list_changed");
            if is_change {
                self.heard.list_changed(method);
            }
            if is_change || catalog::is_of_stream(&incoming.frame) {
                return true;
            }
        }
        self.bridge.upgrade().is_some_and(|bridge| bridge.take(incoming))
    }

    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        match self.bridge.upgrade() {
            Some(bridge) => bridge.auto_reply(method),
            None => Some(AutoReply::UnknownMethod),
        }
    }

    fn has_room(&self) -> bool {
        self.bridge.upgrade().is_none_or(|bridge| bridge.has_room())
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        match self.bridge.upgrade() {
            Some(bridge) => bridge.room(),
            None => Box::pin(std::future::ready(())),
        }
    }

    fn lost(&self, epoch: Epoch) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.lost(epoch);
        }
    }

    fn over(&self) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.over();
        }
    }
}
