//! The stream of the older HTTP+SSE that is open, and who hears what it brings.

use std::sync::{Arc, Mutex, PoisonError};

use regrow_core::Fault;
use regrow_protocol::lines::Line;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::plain_request::Target;
use crate::transport::{BoxFuture, ExchangeHandler};

/// A stream that is open, and where messages go.
pub(in crate::transport::http) struct Older {
    pub(super) endpoint: Arc<Target>,
    pub(super) handler: Arc<Switch>,
    pub(super) stream: OlderStream,
}

/// The task that reads the stream. It ends with the link, and with this.
pub(super) struct OlderStream {
    /// Why the stream is over, once it is.
    pub(super) over: watch::Receiver<Option<Fault>>,
    pub(super) task: AbortHandle,
}

impl Older {
    /// Resolves when the handler that the stream was opened with has its answer, or with the fault if that cannot come.
    pub(in crate::transport::http) async fn answered(&self) -> Result<(), Fault> {
        let mut answered = self.handler.answered.subscribe();
        tokio::select! {
            biased;
            _ = answered.wait_for(|answered| *answered) => Ok(()),
            fault = self.stream.end() => Err(fault),
        }
    }

    /// From now on this handler hears what comes; resolves with the end of the stream, which is that of the session.
    pub(in crate::transport::http) async fn listen(&self, handler: Arc<dyn ExchangeHandler>) -> Fault {
        *self.handler.current.lock().unwrap_or_else(PoisonError::into_inner) = handler;
        self.stream.end().await
    }
}

impl OlderStream {
    pub(super) async fn end(&self) -> Fault {
        match self.over.clone().wait_for(Option::is_some).await.map(|over| over.clone()) {
            Ok(Some(fault)) => fault,
            // The task is gone without a word: so is the runtime.
            Ok(None) | Err(_) => Fault::Closed,
        }
    }
}

impl Drop for OlderStream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Hands on to the handler that was given last.
pub(super) struct Switch {
    pub(super) current: Mutex<Arc<dyn ExchangeHandler>>,
    pub(super) answered: watch::Sender<bool>,
}

impl Switch {
    fn current(&self) -> Arc<dyn ExchangeHandler> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ExchangeHandler for Switch {
    fn sent(&self) -> bool {
        true
    }

    fn heard(&self) {
        self.current().heard();
    }

    fn take(&self, message: Line) -> bool {
        let answered = self.current().take(message);
        self.answered.send_if_modified(|before| !std::mem::replace(before, *before || answered) && answered);
        answered
    }

    fn room(&self) -> BoxFuture<()> {
        self.current().room()
    }
}
