//! Subscriptions of a legacy client to resources: as long as it has one at a server, it uses that server.

use std::sync::Arc;

use regrow::Request;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;
use serde_json::json;

use super::Client;
use super::call::OnEnd;
use crate::route::{ResourceOwner, with_uri};
use crate::server::{InUse, Server};

impl Client {
    /// A subscription begins or ends at the server that most likely has the resource.
    pub(super) fn subscribe(&self, owner: ResourceOwner, begins: bool, request: Request) {
        let ResourceOwner { server, uri } = owner;
        let frame = with_uri(&request.frame, &uri);
        self.call(&server, Request { frame, ..request }, OnEnd::Subscribed { uri, begins });
    }

    /// The server has confirmed that it tells the client of this resource, or was asked not to any more.
    pub(super) fn subscribed(&self, server: &Arc<Server>, uri: String, begins: bool) {
        let name = &server.config.name;
        let mut state = self.state();
        match begins {
            true => state.record.subscribe(name, uri),
            false => state.record.unsubscribe(name, &uri),
        }
        let has_some = state.record.subscriptions(name).next().is_some();
        let Some(taken) = state.upstreams.get_mut(&server.key) else { return };
        let ended = match has_some {
            true => {
                taken.subscribed.get_or_insert_with(|| InUse::of(server, &taken.upstream));
                None
            }
            false => taken.subscribed.take(),
        };
        drop(state);
        drop(ended); // Not under the lock: it may be the last of its server.
    }
}

/// A request for a subscription that the client has.
pub(super) fn subscription(uri: &str) -> Frame {
    let params = json!({ "uri": uri }).to_string();
    Frame::built(frame::request(&RawId::from(0), method::RESOURCES_SUBSCRIBE, Some(params.as_bytes())))
}
