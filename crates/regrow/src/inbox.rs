//! Where the messages go that a server sends on its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regrow_core::Epoch;
use regrow_protocol::frame::{Frame, RawId};
use regrow_protocol::method;
use tokio::sync::{Notify, mpsc};

use crate::transport::BoxFuture;

/// A request or notification of a server.
#[derive(Clone)]
pub struct Incoming {
    /// The session that it came from. An answer must go back to the same.
    pub epoch: Epoch,
    /// The call of the client that it belongs to, by the client's id for it, where that is known.
    pub call: Option<RawId>,
    /// The number of that client, where several share the connection; else 0.
    pub client: u64,
    /// Where messages of that call go, if it has a place of its own for them.
    pub to: Option<Arc<dyn CallInbox>>,
    /// The message.
    pub frame: Frame,
}

impl Incoming {
    /// A message that belongs to no call.
    pub fn of_no_call(epoch: Epoch, frame: Frame) -> Incoming {
        Incoming { epoch, call: None, client: 0, to: None, frame }
    }
}

/// Takes the messages that a server sends during one call, except its response. Must not block.
pub trait CallInbox: Send + Sync {
    /// A message. Returns whether it was taken; what was not is counted.
    fn take(&self, incoming: Incoming) -> bool;
}

/// An answer to a request of the server that nobody is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoReply {
    /// We are there.
    Pong,
    /// Nobody here knows the method.
    UnknownMethod,
    /// Too many of its requests are unanswered already.
    TooMany,
}

/// Takes what a server sends on its own, in the order in which it was sent. Nothing here may block.
pub trait Inbox: Send + Sync + 'static {
    /// A message. Returns whether it was taken; what was not is counted.
    fn take(&self, incoming: Incoming) -> bool;

    /// A call of this client was answered, in so many bytes.
    fn answered(&self, client: u64, bytes: usize) {
        let _ = (client, bytes);
    }

    /// How a request of the server is answered without anybody being asked; none if it can be taken.
    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        let _ = method;
        None
    }

    /// Whether everything that comes here is for one client. Where it is not, a message that names no call is for nobody: which client
    /// it is for is not guessed.
    fn is_one_client(&self) -> bool {
        true
    }

    /// The id by which its client shows that the session is its own, where it has one. It is a secret.
    fn session_id(&self) -> Option<&str> {
        None
    }

    /// Whether the server may go on sending. While it may not, it is not read.
    fn has_room(&self) -> bool {
        true
    }

    /// Resolves when there is room again.
    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// More messages and responses follow at once: they may be kept until [`uncork`](Inbox::uncork), and leave in one write.
    fn cork(&self) {}

    /// That was the last of them.
    fn uncork(&self) {}

    /// The session is lost: its requests need no answer any more.
    fn lost(&self, epoch: Epoch) {
        let _ = epoch;
    }

    /// The connection is over: nothing comes any more.
    fn over(&self) {}
}

/// An inbox for a program: a bounded queue, of boxes since it reserves room for several. Messages that nobody ever receives are dropped when it is full.
pub(crate) struct Queue {
    /// None once the connection is over.
    sender: Mutex<Option<mpsc::Sender<Box<Incoming>>>>,
    receiver: Mutex<Option<mpsc::Receiver<Box<Incoming>>>>,
    received: Arc<Notify>,
}

const QUEUE: usize = 1024;

impl Queue {
    pub(crate) fn new() -> Queue {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Queue {
            sender: Mutex::new(Some(sender)),
            receiver: Mutex::new(Some(receiver)),
            received: Default::default(),
        }
    }

    fn sender(&self) -> MutexGuard<'_, Option<mpsc::Sender<Box<Incoming>>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The receiving end, once.
    pub(crate) fn receiver(&self) -> Option<IncomingMessages> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(IncomingMessages { receiver, received: self.received.clone() })
    }

    fn is_read(&self) -> bool {
        self.receiver.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Inbox for Queue {
    fn take(&self, incoming: Incoming) -> bool {
        self.sender().as_ref().is_some_and(|sender| sender.try_send(Box::new(incoming)).is_ok())
    }

    /// A program need not care for pings. While nobody receives the others, nobody will answer them.
    fn auto_reply(&self, method: &str) -> Option<AutoReply> {
        let received = self.is_read() && self.sender().as_ref().is_some_and(|sender| !sender.is_closed());
        match method {
            method::PING => Some(AutoReply::Pong),
            _ => (!received).then_some(AutoReply::UnknownMethod),
        }
    }

    fn has_room(&self) -> bool {
        let fits = |sender: &mpsc::Sender<_>| sender.is_closed() || sender.capacity() > QUEUE / 2;
        !self.is_read() || self.sender().as_ref().is_none_or(fits)
    }

    fn over(&self) {
        *self.sender() = None;
    }

    fn room(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            while !self.has_room() {
                self.received.notified().await;
            }
            self.received.notify_one(); // Others may wait for the same room.
        })
    }
}

/// What a server sends on its own.
pub struct IncomingMessages {
    receiver: mpsc::Receiver<Box<Incoming>>,
    received: Arc<Notify>,
}

impl IncomingMessages {
    /// The next message; none when the connection is over.
    pub async fn next(&mut self) -> Option<Incoming> {
        let incoming = self.receiver.recv().await;
        self.received.notify_one();
        incoming.map(|incoming| *incoming)
    }
}

impl Drop for IncomingMessages {
    fn drop(&mut self) {
        self.receiver.close();
        self.received.notify_one();
    }
}
