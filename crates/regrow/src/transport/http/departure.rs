//! The body of a request, which tells when it leaves: until then the server cannot have seen the message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

use crate::transport::ExchangeHandler;

/// A message on its way out. It is asked for its bytes when there is a connection to write them to, and not before.
pub(super) struct Departure {
    bytes: Option<Bytes>,
    handler: Arc<dyn ExchangeHandler>,
    left: watch::Sender<bool>,
}

impl Departure {
    pub(super) fn new(bytes: Bytes, handler: Arc<dyn ExchangeHandler>) -> Departure {
        Departure { bytes: Some(bytes), handler, left: watch::Sender::new(false) }
    }

    /// Becomes true when the message leaves.
    pub(super) fn left(&self) -> watch::Receiver<bool> {
        self.left.subscribe()
    }
}

impl Body for Departure {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(bytes) = self.bytes.take() else { return Poll::Ready(None) };
        if !self.handler.sent() {
            // Its caller was told that it did not run, so it must not.
            return Poll::Ready(Some(Err(io::Error::other("nobody waits for this message any more"))));
        }
        self.left.send_replace(true);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
