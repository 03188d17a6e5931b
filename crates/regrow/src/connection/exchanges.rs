//! The exchanges of a session over HTTP: each message is carried by a task of its own, and none waits for another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regrow_core::{CallId, Fault};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::transport::{Exchanges, OutgoingMessage, Receipt};
use crate::watch;

/// At most this many messages that want no response are on their way at once.
const MAX_NOTES: usize = 1024;

/// The exchanges of one session that run.
pub(crate) struct ExchangeSet {
    pub(crate) exchanges: Arc<dyn Exchanges>,
    /// Starts the task of an exchange.
    spawn: SpawnExchange,
    calls: BTreeMap<CallId, JoinHandle<()>>,
    /// Exchanges that were told to stop: on another thread they may not have, yet.
    stopping: Vec<JoinHandle<()>>,
    notes: BTreeMap<u64, (usize, JoinHandle<()>)>,
    last_note: u64,
    queued: usize,
    /// Hears what the server says outside of every exchange.
    pub(crate) listener: Option<JoinHandle<()>>,
    /// The server has no stream of its own, on which it could answer a call that it only accepted.
    pub(crate) streamless: bool,
    /// The server has forgotten the session: its calls keep their exchanges.
    pub(crate) forgotten: bool,
    /// An exchange has ended.
    pub(crate) ended: Arc<Notify>,
    /// Whether the server still knows the session is being asked; becomes the answer.
    pub(crate) asking: Option<watch::Receiver<Option<bool>>>,
    /// Whether what is heard shows that the server of this session lives: not once it has forgotten the session.
    pub(crate) counts: Arc<AtomicBool>,
}

/// Starts the task that carries a message.
pub(crate) type SpawnExchange = Box<dyn Fn(ExchangeJob) -> JoinHandle<()> + Send>;

/// A message that an exchange carries.
pub(crate) struct ExchangeJob {
    pub(crate) message: OutgoingMessage,
    /// The call that it is, or
    pub(crate) call: Option<CallId>,
    /// the number of a message that wants no response.
    pub(crate) note: Option<u64>,
    /// Hears how it went.
    pub(crate) done: Option<oneshot::Sender<ExchangeResult>>,
}

/// How a message was carried.
pub(crate) type ExchangeResult = Result<Receipt, Fault>;

impl ExchangeSet {
    pub(crate) fn new(
        exchanges: Arc<dyn Exchanges>,
        counts: Arc<AtomicBool>,
        spawn: SpawnExchange,
    ) -> ExchangeSet {
        ExchangeSet {
            exchanges,
            spawn,
            calls: BTreeMap::new(),
            stopping: vec![],
            notes: BTreeMap::new(),
            last_note: 0,
            queued: 0,
            listener: None,
            streamless: false,
            forgotten: false,
            ended: Arc::default(),
            asking: None,
            counts,
        }
    }

    /// How many bytes of messages that want no response are on their way.
    pub(crate) fn queued(&self) -> usize {
        if self.notes.len() < MAX_NOTES { self.queued } else { usize::MAX }
    }

    /// The calls whose response can come on an exchange that is still open.
    pub(crate) fn calls(&self) -> impl Iterator<Item = CallId> {
        self.calls.keys().copied()
    }

    /// Starts to carry a message. `done` hears how that went.
    pub(crate) fn start(
        &mut self,
        call: Option<CallId>,
        message: OutgoingMessage,
        done: Option<oneshot::Sender<ExchangeResult>>,
    ) {
        let bytes = message.frame().bytes().len();
        // The task takes the lock to forget itself, which is held here, so it finds itself in its place.
        match call {
            Some(id) => {
                let task = (self.spawn)(ExchangeJob { message, call, note: None, done });
                self.calls.insert(id, task);
            }
            None => {
                self.last_note += 1;
                self.queued += bytes;
                let task = (self.spawn)(ExchangeJob { message, call, note: Some(self.last_note), done });
                self.notes.insert(self.last_note, (bytes, task));
            }
        }
    }

    /// Ends the exchange of a call that nobody waits for.
    pub(crate) fn abort(&mut self, call: CallId) {
        if let Some(task) = self.calls.remove(&call) {
            task.abort();
            self.stopping.retain(|task| !task.is_finished());
            self.stopping.push(task);
        }
    }

    /// An exchange has ended.
    pub(crate) fn forget(&mut self, call: Option<CallId>, note: Option<u64>) {
        if let Some(call) = call {
            self.calls.remove(&call);
        }
        if let Some((bytes, _)) = note.and_then(|note| self.notes.remove(&note)) {
            self.queued -= bytes;
        }
        self.ended.notify_waiters();
    }

    /// Stops everything. Nothing is left of an exchange once its task has ended.
    pub(crate) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        let notes = std::mem::take(&mut self.notes).into_values().map(|(_, task)| task);
        let mut tasks: Vec<_> = std::mem::take(&mut self.calls).into_values().chain(notes).collect();
        tasks.extend(self.listener.take());
        tasks.iter().for_each(JoinHandle::abort);
        tasks.append(&mut self.stopping);
        tasks
    }

    /// The server has forgotten the session: only the exchanges of these calls go on. Returns what must end before the others have.
    pub(crate) fn retire(&mut self, keeps: impl Fn(CallId) -> bool) -> Vec<JoinHandle<()>> {
        self.counts.store(false, Ordering::Relaxed);
        let kept = self.calls.extract_if(.., |id, _| keeps(*id)).collect();
        let tasks = self.stop();
        self.calls = kept;
        tasks
    }

    /// Whether nothing of it runs any more.
    pub(crate) fn is_over(&self) -> bool {
        self.calls.is_empty() && self.stopping.iter().all(JoinHandle::is_finished)
    }
}

impl Drop for ExchangeSet {
    fn drop(&mut self) {
        drop(self.stop()); // They end on their own.
    }
}
