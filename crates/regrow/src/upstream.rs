//! What a client's side talks to: a connection, or whatever stands in for one.

use std::time::Duration;

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{Frame, RawId};
use serde_json::Value;

use crate::call::Request;

/// Where messages of a client go. Nothing here may block.
pub trait Upstream {
    /// A request. Its end is reported to its reply.
    fn submit(&self, request: Request);

    /// The client cancelled its newest request of this id with this notification. Returns whether there was one.
    fn cancel(&self, id: &RawId, notification: &Frame) -> bool;

    /// Any other notification. Returns whether it reached the server.
    fn forward(&self, notification: &Frame) -> bool;

    /// The response to a request of the server, which knows it by this id. Returns whether it can still be of use.
    fn hand_over(&self, epoch: Epoch, server_id: &RawId, answer: Bytes) -> bool;

    /// More messages follow at once: they may be kept until [`uncork`](Upstream::uncork), and leave in one write.
    fn cork(&self) {}

    /// That was the last of them.
    fn uncork(&self) {}
}

/// What a [bridge](crate::Bridge) leads to: a [connection](crate::Connection), or one client's share of one.
pub trait ServerSide: Upstream + Send + Sync {
    /// Sets who greets the server, if it is not greeted yet.
    fn greet_as(&self, hello: ClientParams);

    /// What the server said when it was last greeted.
    fn welcome(&self) -> Option<HandshakeResult>;

    /// Whether the server was found to be modern.
    fn is_modern(&self) -> bool;

    /// How long a request like this may take in all; `None` if it has no deadline.
    fn time_for(&self, request: &Frame) -> Option<Duration>;
}

/// Who greets, where Regrow itself is the client.
#[derive(Clone, Debug)]
pub struct ClientParams {
    /// `clientInfo`.
    pub client_info: Value,
    /// The client's `capabilities`.
    pub capabilities: Value,
    /// The revision of the legacy era that is offered; the newest where none is named.
    pub legacy_version: Option<String>,
}

/// What a server said when we greeted it.
#[derive(Clone, Debug)]
pub struct HandshakeResult {
    /// Whether it speaks the modern era.
    pub modern: bool,
    /// Its result of `initialize`, or of `server/discover`; raw.
    pub result: Bytes,
}
