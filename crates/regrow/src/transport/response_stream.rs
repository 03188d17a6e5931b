//! Where a long response goes while it arrives.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use regrow_protocol::frame::{RawId, StreamedResponse};

use super::BoxFuture;

/// Takes a long response while it arrives. The call's reply is called as for any other response: with a result without content if all of it
/// has [arrived](ResponseStream::finish), else with an error, which the caller must get instead of the rest. Nothing here may block.
pub trait ResponseStream: Send + Sync {
    /// The caller's id for the call; none if the response must come whole.
    fn id(&self) -> Option<RawId>;

    /// The response begins, and the caller can have this much of it. From now on the call is never sent again.
    fn begin(&self, response: StreamedResponse, start: VecDeque<Bytes>);

    /// More of it.
    fn push(&self, piece: Bytes) -> Result<(), StreamEnd>;

    /// Resolves when the server may be read on.
    fn room(self: Arc<Self>) -> BoxFuture<()>;

    /// Nothing more comes. Returns whether the response says that the tool failed.
    fn finish(&self) -> Result<bool, StreamEnd>;
}

/// Why a response is streamed no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// It is no response to the call.
    Malformed,
    /// It is not complete.
    Cut,
    /// The call has ended, or its client does not read any more.
    Gone,
}
