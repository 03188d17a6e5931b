//! A client's session at one server: on a connection of its own, or on a shared one.

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
use crate::share::{ServerObserver, Share, SharedSession};
use crate::usage::Usage;

/// A client's session at a server. Dropping it is leaving: what the client has there ends.
pub(crate) struct UpstreamSession {
    route: UpstreamLink,
    /// Stands between them where the client and the server speak different eras.
    bridge: Arc<Bridge>,
    usage: Arc<Usage>,
    _inbox: Arc<ServerInbox>,
}

/// What carries the client's messages.
enum UpstreamLink {
    Own(Connection),
    Shared(Arc<Share>),
}

impl UpstreamSession {
    /// With a connection of its own, made like this.
    pub(crate) fn own(
        name: Arc<str>,
        builder: Builder,
        observer: Arc<dyn ServerObserver>,
        client: Arc<dyn Inbox>,
    ) -> UpstreamSession {
        let (bridge, inbox) = ServerInbox::new(name, client, Some(observer));
        let connection = builder.bridge_to(inbox.clone()).build();
        bridge.lead_to(connection.server_side());
        UpstreamSession { route: UpstreamLink::Own(connection), bridge, usage: Arc::default(), _inbox: inbox }
    }

    /// On a shared connection, which hears itself what is no client's.
    pub(crate) fn shared(
        name: Arc<str>,
        shared: &Arc<SharedSession>,
        client: Arc<dyn Inbox>,
    ) -> UpstreamSession {
        let (bridge, inbox) = ServerInbox::new(name, client, None);
        let told: Arc<dyn Inbox> = inbox.clone();
        let share = shared.join(Arc::downgrade(&told));
        bridge.lead_to(share.clone());
        UpstreamSession { route: UpstreamLink::Shared(share), bridge, usage: Arc::default(), _inbox: inbox }
    }

    /// The connection that it has for itself.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        match &self.route {
            UpstreamLink::Own(connection) => Some(connection),
            UpstreamLink::Shared(_) => None,
        }
    }

    /// Starts its server now rather than with the first call.
    pub(crate) fn start(&self) {
        if let Some(own) = self.connection() {
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
        match &self.route {
            _ if self.bridge.is_needed_for(&request.frame) => self.bridge.submit(request),
            UpstreamLink::Own(connection) => connection.submit(request),
            UpstreamLink::Shared(share) => share.submit(request),
        }
    }

    /// Tells the server what its client has told the gateway. Nobody waits for the answer.
    pub(crate) fn tell(&self, request: Frame) {
        let id = answers::raw_text("regrow-told"); // No client's id: a cancellation must not mean it.
        self.submit(Request::new(request, id, Box::new(answers::Unheard)));
    }

    /// Adds the client's call that the server must mean, unless that is not clear, or the session is shared.
    pub(crate) fn attribute(&self, incoming: Incoming) -> Incoming {
        match &self.route {
            UpstreamLink::Own(connection) => connection.attribute(incoming),
            UpstreamLink::Shared(_) => incoming,
        }
    }

    /// Whether calls of the client run here, or wait for its input.
    pub(crate) fn has_calls(&self) -> bool {
        self.bridge.has_calls()
    }

    /// Whether a client was sent away from here with this, to come back with input.
    pub(crate) fn awaits(&self, request_state: &str) -> bool {
        self.bridge.awaits(request_state)
    }

    /// What the client has at the bridge is cancelled there, the rest behind it.
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
        if let (Some(own), Ok(runtime)) = (self.connection().cloned(), Handle::try_current()) {
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

/// Takes what the server sends: to the client itself, or over the bridge where the eras differ.
struct ServerInbox {
    bridge: Weak<Bridge>,
    client: Arc<dyn Inbox>,
    /// Hears of changed lists, which concern the catalog, whatever the client wants to hear.
    observer: Option<Arc<dyn ServerObserver>>,
}

impl ServerInbox {
    fn new(
        name: Arc<str>,
        client: Arc<dyn Inbox>,
        observer: Option<Arc<dyn ServerObserver>>,
    ) -> (Arc<Bridge>, Arc<ServerInbox>) {
        let bridge = Bridge::new(name, client.clone());
        let inbox = ServerInbox { bridge: Arc::downgrade(&bridge), client, observer };
        (bridge, Arc::new(inbox))
    }
}

impl Inbox for ServerInbox {
    fn take(&self, incoming: Incoming) -> bool {
        if let (Kind::Notification { method }, Some(observer)) = (incoming.frame.kind(), &self.observer) {
            let is_change = method.ends_with("/list_changed");
            if is_change {
                observer.list_changed(method);
            }
            if is_change || catalog::is_of_stream(&incoming.frame) {
                return true;
            }
        }
        match self.bridge.upgrade() {
            Some(bridge) if bridge.is_needed() => bridge.take(incoming),
            Some(_) => self.client.take(incoming),
            None => false, // The client has left.
        }
    }

    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        match self.bridge.upgrade() {
            Some(bridge) => bridge.auto_reply(method),
            None => Some(AutoReply::UnknownMethod),
        }
    }

    fn is_one_client(&self) -> bool {
        self.client.is_one_client()
    }

    fn has_room(&self) -> bool {
        self.client.has_room()
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        self.client.clone().room()
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
