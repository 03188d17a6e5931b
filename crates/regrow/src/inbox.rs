//! Where the messages go that a server sends by itself.

use std::sync::{Arc, Mutex};

use regrow_core::Epoch;
use tokio::sync::{Notify, mpsc};

use crate::frame::Frame;
use crate::transport::BoxFuture;

/// A request or notification of a server.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The session that it came from. An answer must go back to the same.
    pub epoch: Epoch,
    /// The message.
    pub frame: Frame,
}

/// Takes what a server sends by itself, in the order in which it was sent. Nothing here may block.
pub trait Inbox: Send + Sync + 'static {
    /// A message.
    fn take(&self, incoming: Incoming);

    /// Whether the server may go on sending. While it may not, it is not read.
    fn has_room(&self) -> bool {
        true
    }

    /// Resolves when there is room again.
    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// The session is lost: its requests need no answer any more.
    fn lost(&self, epoch: Epoch) {
        let _ = epoch;
    }
}

/// An inbox for a program: a bounded queue. Messages that nobody ever receives are dropped when it is full.
pub(crate) struct Queue {
    sender: mpsc::Sender<Incoming>,
    receiver: Mutex<Option<mpsc::Receiver<Incoming>>>,
    received: Arc<Notify>,
}

const QUEUE: usize = 1024;

impl Queue {
    pub(crate) fn new() -> Queue {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Queue { sender, receiver: Mutex::new(Some(receiver)), received: Default::default() }
    }

    /// The receiving end, once.
    pub(crate) fn receiver(&self) -> Option<IncomingMessages> {
        let receiver = self.receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()?;
        Some(IncomingMessages { receiver, received: self.received.clone() })
    }

    fn is_read(&self) -> bool {
        self.receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_none()
    }
}

impl Inbox for Queue {
    fn take(&self, incoming: Incoming) {
        if self.sender.try_send(incoming).is_err() {
            tracing::debug!("a message of the server was dropped: nobody receives them");
        }
    }

    fn has_room(&self) -> bool {
        !self.is_read() || self.sender.is_closed() || self.sender.capacity() > QUEUE / 2
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            while !self.has_room() {
                self.received.notified().await;
            }
        })
    }
}

/// What a server sends by itself.
pub struct IncomingMessages {
    receiver: mpsc::Receiver<Incoming>,
    received: Arc<Notify>,
}

impl IncomingMessages {
    /// The next message; none when the connection is over.
    pub async fn next(&mut self) -> Option<Incoming> {
        let incoming = self.receiver.recv().await;
        self.received.notify_one();
        incoming
    }
}

impl Drop for IncomingMessages {
    fn drop(&mut self) {
        self.receiver.close();
        self.received.notify_one();
    }
}
