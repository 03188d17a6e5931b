//! Subscriptions of a legacy client to resources: as long as it has one at a server, it uses that server.

use regrow::Request;
use regrow_protocol::method;

use super::Client;
use super::call::OnEnd;
use super::calls::{unknown_resource, with_uri};
use crate::server::{InUse, Key};

/// Of so many it is known that they are there. Servers refuse far fewer.
const MAX_KNOWN: usize = 4096;

impl Client {
    /// A resource is subscribed to, or not any more, at the server that most likely has it.
    pub(super) fn subscribe(&self, request: Request) {
        let Some((server, uri)) = self.owners(&request.frame).pop_front() else {
            return request.reply.end(unknown_resource(&request.frame));
        };
        let begins = request.frame.method() == Some(method::RESOURCES_SUBSCRIBE);
        let frame = with_uri(&request.frame, &uri);
        self.call(&server, Request { frame, ..request }, OnEnd::Subscribed { uri, begins });
    }

    /// The server has confirmed that it tells the client of this resource, or was asked not to any more.
    pub(super) fn settled(&self, key: Key, uri: String, begins: bool) {
        let mut state = self.state();
        let Some(taken) = state.upstreams.get_mut(&key) else { return };
        let ended = match (begins, taken.inbox.server()) {
            (true, Some(server)) if taken.subscribed.len() < MAX_KNOWN => {
                taken.subscribed.insert(uri, InUse::of(&server, &taken.upstream))
            }
            _ => taken.subscribed.remove(&uri),
        };
        drop(state);
        drop(ended); // Not under the lock: it may be the last of its server.
    }
}
