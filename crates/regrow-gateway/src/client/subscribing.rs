//! Subscriptions of a legacy client to resources: as long as it has one at a server, it uses that server.

use std::sync::Weak;

use regrow::{Outcome, Reply, Request};
use regrow_protocol::method;

use super::Client;
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
        let reply = Settled { client: self.me.clone(), key: server.key, uri, begins, reply: request.reply };
        self.call(&server, Request { frame, reply: Box::new(reply), ..request });
    }

    fn settled(&self, key: Key, uri: String, begins: bool) {
        let mut state = self.state();
        let Some(taken) = state.seats.get_mut(&key) else { return };
        let ended = match (begins, taken.hears.server()) {
            (true, Some(server)) if taken.subscribed.len() < MAX_KNOWN => {
                taken.subscribed.insert(uri, InUse::of(&server, &taken.seat))
            }
            _ => taken.subscribed.remove(&uri),
        };
        drop(state);
        drop(ended); // Not under the lock: it may be the last of its server.
    }
}

/// Waits for the server to say that it does so.
struct Settled {
    client: Weak<Client>,
    key: Key,
    uri: String,
    begins: bool,
    reply: Box<dyn Reply>,
}

impl Reply for Settled {
    fn end(self: Box<Self>, outcome: Outcome) {
        let is_done = matches!(&outcome, Outcome::Answered(answer) if !answer.is_error());
        if let Some(client) = self.client.upgrade().filter(|_| is_done || !self.begins) {
            client.settled(self.key, self.uri, self.begins);
        }
        self.reply.end(outcome);
    }
}
