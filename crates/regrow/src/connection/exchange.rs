//! A session of exchanges: each message is carried by a task of its own, and none waits for another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use regrow_core::{Backoff, CallId, Epoch, Event, Fault, Reach, Ruling};
use regrow_protocol::frame::Frame;
use regrow_protocol::lines::Line;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::messages::{Messages, Taken, panicked};
use super::probe;
use super::shared::Shared;
use super::state::News;
use crate::call::Pending;
use crate::pace::{Flow, Next};
use crate::transport::{BoxFuture, Deaf, Ear, Exchanges, Receipt, no_stream};

/// So many messages that want no answer may be on their way at once.
const MAX_NOTES: usize = 1024;

/// The exchanges of one session.
pub(crate) struct Exchanger {
    shared: Arc<Shared>,
    epoch: Epoch,
    exchanges: Arc<dyn Exchanges>,
    calls: HashMap<CallId, JoinHandle<()>>,
    /// Exchanges that were told to stop: on another thread they may not have, yet.
    stopping: Vec<JoinHandle<()>>,
    notes: HashMap<u64, (usize, JoinHandle<()>)>,
    last_note: u64,
    queued: usize,
    /// The server has no stream of its own, on which it could answer a call that it only accepted.
    streamless: bool,
    /// An exchange has ended.
    ended: Arc<Notify>,
    /// Whether the server still knows the session is being asked; becomes the answer.
    pub(crate) asking: Option<watch::Receiver<Option<bool>>>,
    /// Whether what is heard is a sign of life of the server that we have: not once it has forgotten the session.
    counts: Arc<AtomicBool>,
}

impl Exchanger {
    pub(crate) fn new(shared: Arc<Shared>, epoch: Epoch, exchanges: Arc<dyn Exchanges>) -> Exchanger {
        Exchanger {
            shared,
            epoch,
            exchanges,
            calls: HashMap::new(),
            stopping: vec![],
            notes: HashMap::new(),
            last_note: 0,
            queued: 0,
            streamless: false,
            ended: Arc::default(),
            asking: None,
            counts: Arc::new(AtomicBool::new(true)),
        }
    }

    pub(crate) fn exchanges(&self) -> &Arc<dyn Exchanges> {
        &self.exchanges
    }

    /// How many bytes of messages that want no answer are on their way.
    pub(crate) fn queued(&self) -> usize {
        if self.notes.len() < MAX_NOTES { self.queued } else { usize::MAX }
    }

    /// Whether closing the exchange of a request cancels it; in the legacy era a notification does.
    pub(crate) fn closing_cancels(&self) -> bool {
        self.shared.memory().is_modern()
    }

    /// The calls whose answer can come on an exchange that is still open.
    pub(crate) fn calls(&self) -> impl Iterator<Item = CallId> {
        self.calls.keys().copied()
    }

    /// Calls of it may have ended.
    pub(crate) fn look(&self) {
        self.ended.notify_waiters();
    }

    /// Stops everything. Nothing is left of an exchange once its task has ended.
    pub(crate) fn stop(&mut self) -> Vec<JoinHandle<()>> {
        let notes = self.notes.drain().map(|(_, (_, task))| task);
        let mut tasks: Vec<_> = self.calls.drain().map(|(_, task)| task).chain(notes).collect();
        tasks.iter().for_each(JoinHandle::abort);
        tasks.append(&mut self.stopping);
        tasks
    }

    /// Starts to carry a message. `done` hears how that went.
    pub(crate) fn start(
        &mut self,
        call: Option<CallId>,
        line: Bytes,
        done: Option<oneshot::Sender<Carried>>,
    ) {
        let bytes = line.len();
        let note = call.is_none().then(|| {
            self.last_note += 1;
            self.last_note
        });
        let Ok(message) = Frame::parse(line) else { return }; // We have parsed or written it before.
        let ear = Arc::new(SessionEar::new(self.shared.clone(), self.epoch, call, self.counts.clone()));
        let exchanges = self.exchanges.clone();
        let task = tokio::spawn(async move {
            let carried = exchanges.carry(message, ear.clone()).await;
            let carried = ear.judge(carried).await;
            ear.finish(note, &carried);
            if let Some(done) = done {
                let _ = done.send(carried); // Nobody need wait.
            }
        });
        // The task takes the lock to forget itself, which is held here, so it finds itself in its place.
        match (call, note) {
            (Some(call), _) => drop(self.calls.insert(call, task)),
            (None, Some(note)) => {
                self.queued += bytes;
                self.notes.insert(note, (bytes, task));
            }
            (None, None) => {}
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

    /// The server has forgotten the session: only the exchanges of these calls go on. Gives what must have ended before the others
    /// have.
    pub(crate) fn retire(&mut self, keeps: impl Fn(CallId) -> bool) -> Vec<JoinHandle<()>> {
        self.counts.store(false, Ordering::Relaxed);
        let (kept, left): (HashMap<_, _>, HashMap<_, _>) = self.calls.drain().partition(|(id, _)| keeps(*id));
        self.calls = left;
        let tasks = self.stop();
        self.calls = kept;
        tasks
    }

    /// Whether nothing of it runs any more.
    pub(crate) fn is_over(&self) -> bool {
        self.calls.is_empty() && self.stopping.iter().all(JoinHandle::is_finished)
    }

    fn forget(&mut self, call: Option<CallId>, note: Option<u64>) {
        if let Some(call) = call {
            self.calls.remove(&call);
        }
        if let Some((bytes, _)) = note.and_then(|note| self.notes.remove(&note)) {
            self.queued -= bytes;
        }
        self.look();
    }
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        drop(self.stop()); // They end by themselves.
    }
}

/// How a message was carried.
pub(crate) type Carried = Result<Receipt, Fault>;

/// Hears what one exchange of a session brings.
struct SessionEar {
    shared: Arc<Shared>,
    epoch: Epoch,
    /// The call that it is about.
    call: Option<CallId>,
    messages: Messages,
    flow: Mutex<Flow>,
    counts: Arc<AtomicBool>,
}

impl SessionEar {
    fn new(shared: Arc<Shared>, epoch: Epoch, call: Option<CallId>, counts: Arc<AtomicBool>) -> SessionEar {
        let messages = Messages::of(shared.clone(), epoch, call);
        SessionEar { messages, shared, epoch, call, flow: Mutex::new(Flow::new()), counts }
    }

    fn hear(&self) {
        if self.counts.load(Ordering::Relaxed) {
            self.shared.hear();
        }
    }

    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a refusal may tell of a forgotten session: what the core takes it for.
    async fn judge(&self, carried: Carried) -> Carried {
        let Err(fault @ Fault::NoSession { .. }) = carried else { return carried };
        let expired = match self.shared.rule(self.epoch, self.call) {
            Ruling::Expired => true,
            Ruling::Answer => false,
            Ruling::Ask => probe::is_forgotten(&self.shared, self.epoch).await,
        };
        Err(if expired { fault } else { fault.as_answer() })
    }

    /// The exchange is over.
    fn finish(&self, note: Option<u64>, carried: &Carried) {
        match carried {
            Ok(Receipt::Elsewhere(code)) => self.accepted(*code),
            Ok(Receipt::Done) if !self.is_open() => {}
            Ok(Receipt::Done) => self.fail(&Fault::AnswerCut),
            Err(Fault::Closed) => {} // We ended it. The owner knows why, and tells it when the session is settled.
            Err(fault) => self.fail(fault),
        }
        if let Some(exchanger) = self.shared.desk().exchanger(self.epoch) {
            exchanger.forget(self.call, note);
        }
        if !self.counts.load(Ordering::Relaxed) {
            self.shared.wake.notify_one(); // It may have been the last of its session.
        }
    }

    /// The server accepted the call with this status; the response comes on the server's own stream, if there is one.
    fn accepted(&self, code: u16) {
        let Some(call) = self.call else { return };
        let mut desk = self.shared.desk();
        let streamless = desk.exchanger(self.epoch).is_some_and(|exchanger| exchanger.streamless);
        if let Some(pending) = desk.supervisor.ledger.reply_mut(call).filter(|_| !streamless) {
            pending.accepted = Some((self.epoch, code));
        }
        drop(desk);
        if streamless && self.is_open() {
            self.fail(&no_stream(code));
        }
    }

    fn fail(&self, fault: &Fault) {
        match self.call {
            Some(call) => self.shared.missed(self.epoch, call, fault),
            None => self.shared.desk().oddities.undelivered += 1,
        }
        self.shared.concern(self.epoch, fault);
    }

    /// Whether somebody waits for the answer.
    fn is_open(&self) -> bool {
        self.call.is_some_and(|call| self.shared.desk().supervisor.ledger.is_on(self.epoch, call))
    }
}

impl Drop for SessionEar {
    fn drop(&mut self) {
        // What messages do is caught where they are taken; the transport itself can fail, too.
        if std::thread::panicking() {
            self.shared.lost(self.epoch, panicked());
        }
    }
}

impl Ear for SessionEar {
    fn sent(&self) -> bool {
        let Some(call) = self.call else { return true };
        let mut desk = self.shared.desk();
        // One that waits for a later session has not left by this exchange, and will not.
        let leaves = desk.supervisor.ledger.is_on(self.epoch, call);
        if leaves {
            desk.supervisor.ledger.sent(call, 0);
        }
        leaves
    }

    fn heard(&self) {
        self.hear();
    }

    fn take(&self, message: Line) -> bool {
        self.hear();
        let bytes = message.bytes();
        match self.messages.take_line(message) {
            Some(taken) => self.flow().count(bytes, taken == Taken::ByItself),
            None => self.shared.lost(self.epoch, panicked()),
        }
        !self.is_open()
    }

    fn room(&self) -> BoxFuture<()> {
        let next = self.flow().next();
        if next == Next::Now && self.shared.inbox.has_room() {
            return Box::pin(std::future::ready(()));
        }
        let (shared, epoch) = (self.shared.clone(), self.epoch);
        Box::pin(async move {
            next.wait().await;
            if shared.inbox.has_room() {
                return;
            }
            // The client does not read. That is not the server's fault.
            let blocked = Blocked::new(shared.clone(), epoch);
            shared.inbox.clone().room().await;
            shared.hear();
            drop(blocked);
        })
    }
}

/// As long as this lives, we do not read because the client does not.
struct Blocked {
    shared: Arc<Shared>,
    epoch: Epoch,
}

impl Blocked {
    fn new(shared: Arc<Shared>, epoch: Epoch) -> Blocked {
        shared.set_blocked(epoch, true);
        Blocked { shared, epoch }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.shared.set_blocked(self.epoch, false);
    }
}

/// Listens to what the server says by itself, for as long as the session lasts.
pub(crate) async fn listen(shared: Arc<Shared>, epoch: Epoch, exchanges: Arc<dyn Exchanges>) {
    let ear = Arc::new(SessionEar::new(shared.clone(), epoch, None, Arc::new(AtomicBool::new(true))));
    let mut backoff = Backoff::new(shared.settings.policy.backoff, epoch.0);
    backoff.pause(); // The first is none, and some servers end a stream as soon as it is open.
    loop {
        let since = shared.now();
        match exchanges.clone().listen(ear.clone()).await {
            Deaf::Over(fault) => return shared.lost(epoch, fault),
            Deaf::Lost(fault) => shared.concern(epoch, &fault),
            Deaf::NoStream => return shared.hears_nothing(epoch),
        }
        backoff.proven(shared.now() - since);
        sleep(backoff.pause()).await;
        shared.tell(News::Unheard(epoch));
    }
}

impl Shared {
    /// Resolves when no call is in flight on this session, if it is one of exchanges. Streams are none.
    pub(crate) async fn exchanges_end(&self, epoch: Epoch) {
        let Some(ended) = self.desk().exchanger(epoch).map(|exchanger| exchanger.ended.clone()) else {
            return;
        };
        loop {
            let next = ended.notified();
            tokio::pin!(next);
            next.as_mut().enable();
            if self.desk().supervisor.ledger.in_flight(epoch) == 0 {
                return;
            }
            next.await;
        }
    }

    /// Stops the exchanges of this session, where it has some, and what listens to it: from here on nothing is carried.
    pub(crate) async fn stop_exchanges(&self, epoch: Epoch) {
        let tasks = self.desk().stop_exchanges(epoch);
        for task in tasks {
            let _ = task.await; // Stopped, or done; either way nothing of it runs.
        }
    }

    /// The server has no stream of its own: calls that it only accepted get no response.
    fn hears_nothing(&self, epoch: Epoch) {
        let accepted: Vec<(CallId, u16)> = {
            let mut desk = self.desk();
            let Some(exchanger) = desk.exchanger(epoch) else { return };
            exchanger.streamless = true;
            let of_epoch = |(id, pending): (CallId, &Pending)| match pending.accepted {
                Some((on, code)) if on == epoch && desk.supervisor.ledger.is_on(epoch, id) => {
                    Some((id, code))
                }
                _ => None,
            };
            desk.supervisor.ledger.iter().filter_map(of_epoch).collect()
        };
        for (id, code) in accepted {
            self.missed(epoch, id, &no_stream(code));
        }
    }

    /// An exchange of the session ended with this fault, which may concern more than its own message.
    pub(crate) fn concern(&self, epoch: Epoch, fault: &Fault) {
        match fault.reach() {
            Reach::Call => {}
            Reach::Doubt => self.tell(Event::Doubted(epoch)),
            Reach::Session => {
                if let Some(exchanger) = self.desk().exchanger(epoch) {
                    exchanger.exchanges.forgotten();
                }
                self.lost(epoch, fault.as_expiry());
            }
        }
    }
}
