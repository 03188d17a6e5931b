//! The body of a request, which tells when it leaves: until then the server cannot have seen the message.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use regrow_protocol::frame::Parts;
use tokio::sync::watch;

use crate::transport::ExchangeHandler;

/// The body of a request: a message on its way out, or nothing. It is asked for its bytes when there is a connection to write them to, and
/// not before.
#[derive(Default)]
pub(super) struct Departure {
    message: Parts,
    /// Hears when the message leaves.
    handler: Option<Arc<dyn ExchangeHandler>>,
    left: Option<watch::Sender<bool>>,
}

impl Departure {
    pub(super) fn new(message: Parts, handler: Arc<dyn ExchangeHandler>) -> Departure {
        Departure { message, handler: Some(handler), left: None }
    }

    /// Becomes true when the message leaves.
    pub(super) fn left(&mut self) -> watch::Receiver<bool> {
        self.left.get_or_insert_with(|| watch::Sender::new(false)).subscribe()
    }
}

impl Body for Departure {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(handler) = self.handler.take() {
            if !handler.sent() {
                self.message = Parts::default();
                // Its caller was told that it did not run, so it must not.
                return Poll::Ready(Some(Err(io::Error::other("nobody waits for this message any more"))));
            }
            if let Some(left) = &self.left {
                left.send_replace(true);
            }
        }
        Poll::Ready(self.message.next().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.message.len() as u64)
    }
}
