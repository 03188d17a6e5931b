//! What one principal holds of the byte budget: bodies that arrive, calls that wait, responses that are not read.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use http::StatusCode;
use regrow::ErrorKind;
use regrow_protocol::frame::{Frame, Parts};

use super::connections::Slot;
use super::refusal::Refusal;
use crate::admit::Principal;
use crate::shares::{BytePermit, Refused, Shares};

/// Where the bytes of one principal are counted.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) shares: Arc<Shares>,
    pub(super) principal: Principal,
}

impl Account {
    /// See [`Shares::take`].
    pub(super) fn take(
        &self,
        bytes: usize,
        give_way: impl FnOnce() + Send + 'static,
    ) -> Result<BytePermit, Refused> {
        self.shares.take(self.principal, bytes, give_way)
    }

    /// The most that its principal may ever hold.
    pub(super) fn most(&self) -> usize {
        self.shares.most_each()
    }
}

/// What a client gets whose body has no room.
impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let status = match refused {
            Refused::Share => StatusCode::TOO_MANY_REQUESTS,
            Refused::Full | Refused::GaveWay => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::later(status, ErrorKind::Overloaded, &refused.to_string())
    }
}

/// A message of a client, with the room that it takes as long as a call of it has not ended.
pub(super) struct IncomingMessage {
    pub(super) frame: Frame,
    pub(super) permit: Option<Arc<BytePermit>>,
}

/// A message to a client, with the room that it takes. What is small takes none.
#[derive(Clone)]
pub(super) struct OutgoingLine {
    pub(super) message: Parts,
    pub(super) permit: Option<Arc<BytePermit>>,
}

impl From<Bytes> for OutgoingLine {
    fn from(bytes: Bytes) -> OutgoingLine {
        OutgoingLine { message: bytes.into(), permit: None }
    }
}

/// The connection that a stream is read on now, or was read on last: the stream's bytes may still be on their way there.
#[derive(Default)]
pub(super) struct Reader(Mutex<Weak<Slot>>);

impl Reader {
    pub(super) fn set(&self, slot: &Arc<Slot>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(slot);
    }

    pub(super) fn hang_up(&self) {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(slot) = slot {
            slot.hang_up();
        }
    }
}
