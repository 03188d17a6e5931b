//! The tasks of a session over HTTP: each carries one message and hears what comes back; each failure is its call's own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use bytes::Bytes;
use regrow_core::{Backoff, CallId, Epoch, Event, Fault, Missed, Reach, Ruling};
use regrow_protocol::frame::{Frame, RawId, StreamedResponse};
use regrow_protocol::lines::Line;
use regrow_protocol::method;
use tokio::time::sleep;

use super::events::OwnerEvent;
use super::exchanges::{ExchangeJob, ExchangeResult, ExchangeSet};
use super::messages::{Messages, panicked};
use super::probe;
use super::shared::Shared;
use crate::call::{Caller, Pending};
use crate::transport::{
    BoxFuture, ExchangeHandler, Exchanges, ListenEnd, Receipt, ResponseStream, no_stream,
};

/// The exchanges of a new session.
pub(crate) fn exchange_set(shared: &Arc<Shared>, epoch: Epoch, exchanges: Arc<dyn Exchanges>) -> ExchangeSet {
    let counts = Arc::new(AtomicBool::new(true));
    let spawn = {
        let (shared, exchanges, counts) = (shared.clone(), exchanges.clone(), counts.clone());
        move |job: ExchangeJob| {
            let handler = SessionHandler::new(shared.clone(), epoch, job.call, counts.clone());
            tokio::spawn(carry(exchanges.clone(), Arc::new(handler), job))
        }
    };
    ExchangeSet::new(exchanges, counts, Box::new(spawn))
}

/// One exchange, from the message to its end.
async fn carry(exchanges: Arc<dyn Exchanges>, handler: Arc<SessionHandler>, job: ExchangeJob) {
    let ExchangeJob { message, note, done, .. } = job;
    let mut carried = exchanges.carry(message, handler.clone()).await;
    if let Err(fault @ Fault::NoSession { .. }) = carried {
        carried = Err(Box::pin(handler.judge(fault)).await); // Boxed, since few exchanges need it.
    }
    handler.finish(note, &carried);
    if let Some(done) = done {
        let _ = done.send(carried); // Nobody need wait.
    }
}

/// Handles one exchange of a session.
struct SessionHandler {
    shared: Arc<Shared>,
    epoch: Epoch,
    /// The call that it is about.
    call: Option<CallId>,
    messages: Messages,
    counts: Arc<AtomicBool>,
}

impl SessionHandler {
    fn new(
        shared: Arc<Shared>,
        epoch: Epoch,
        call: Option<CallId>,
        counts: Arc<AtomicBool>,
    ) -> SessionHandler {
        let messages = Messages::new(shared.clone(), epoch, call);
        SessionHandler { messages, shared, epoch, call, counts }
    }

    fn hear(&self) {
        if self.counts.load(Ordering::Relaxed) {
            self.shared.hear();
        }
    }

    /// A refusal may tell of a forgotten session: what the core takes it for.
    async fn judge(&self, fault: Fault) -> Fault {
        let expired = match self.rule() {
            Ruling::Expired => true,
            Ruling::Answer => false,
            Ruling::Ask => probe::is_forgotten(&self.shared, self.epoch).await,
        };
        if expired { fault } else { fault.as_answer() }
    }

    /// What it means that the message was refused as if the server did not know the session.
    fn rule(&self) -> Ruling {
        let ledger = &mut self.shared.lock().supervisor.ledger;
        let is_ping =
            |call: &Pending| call.caller == Caller::Own && call.request.method() == Some(method::PING);
        match self.call.and_then(|id| ledger.reply(id)).is_some_and(|call| is_ping(call)) {
            true => ledger.rule_ping(self.epoch),
            false => ledger.rule(self.epoch, self.call),
        }
    }

    /// The exchange is over.
    fn finish(&self, note: Option<u64>, carried: &ExchangeResult) {
        match carried {
            Ok(Receipt::Elsewhere(code)) => self.accepted(*code),
            Ok(Receipt::Done) if !self.is_open() => {}
            Ok(Receipt::Done) => self.fail(&Fault::AnswerCut),
            Err(Fault::Closed) => {} // We ended it. The owner knows why, and tells it when the session is settled.
            Err(fault) => self.fail(fault),
        }
        if let Some(exchanges) = self.shared.lock().exchanges(self.epoch) {
            exchanges.forget(self.call, note);
        }
        if !self.counts.load(Ordering::Relaxed) {
            self.shared.wake.notify_one(); // It may have been the last of its session.
        }
    }

    /// The server accepted the call with this status; the response comes on the server's own stream, if there is one.
    fn accepted(&self, code: u16) {
        let Some(call) = self.call else { return };
        let mut state = self.shared.lock();
        let streamless = state.exchanges(self.epoch).is_some_and(|exchanges| exchanges.streamless);
        if let Some(pending) = state.supervisor.ledger.reply_mut(call).filter(|_| !streamless) {
            pending.accepted = Some((self.epoch, code));
        }
        drop(state);
        if streamless && self.is_open() {
            self.fail(&no_stream(code));
        }
    }

    fn fail(&self, fault: &Fault) {
        match self.call {
            Some(call) => missed(&self.shared, self.epoch, call, fault),
            None => self.shared.lock().anomalies.undelivered += 1,
        }
        concern(&self.shared, self.epoch, fault);
    }

    /// A message was handled, or that panicked. Returns whether nobody waits any more.
    fn taken(&self, handled: bool) -> bool {
        if !handled {
            self.shared.lost(self.epoch, panicked());
        }
        !self.is_open()
    }

    /// Whether somebody waits for the answer.
    fn is_open(&self) -> bool {
        self.call.is_some_and(|call| self.shared.lock().supervisor.ledger.is_on(self.epoch, call))
    }
}

impl Drop for SessionHandler {
    fn drop(&mut self) {
        // What messages do is caught where they are taken; the transport itself can fail, too.
        if std::thread::panicking() {
            self.shared.lost(self.epoch, panicked());
        }
    }
}

impl ExchangeHandler for SessionHandler {
    fn sent(&self) -> bool {
        let Some(call) = self.call else { return true };
        let mut state = self.shared.lock();
        // One that waits for a later session has not left by this exchange, and will not.
        let leaves = state.supervisor.ledger.is_on(self.epoch, call);
        if leaves {
            state.supervisor.ledger.sent(call, 0);
        }
        leaves
    }

    fn heard(&self) {
        self.hear();
    }

    fn is_awaited(&self) -> bool {
        let ledger = &self.shared.lock().supervisor.ledger;
        ledger.waiting() > 0 || self.call.is_some_and(|call| ledger.is_client_call(call))
    }

    fn take(&self, message: Line) -> bool {
        self.hear();
        self.taken(self.messages.take_line(message))
    }

    fn take_message(&self, message: Frame) -> bool {
        self.hear();
        self.taken(self.messages.take_message(message))
    }

    fn begin_stream(&self, id: &RawId, start: Bytes) -> Option<Arc<dyn ResponseStream>> {
        let call = self.call?;
        let stream = {
            let ledger = &self.shared.lock().supervisor.ledger;
            let pending = ledger.reply(call).filter(|_| ledger.is_on(self.epoch, call))?;
            pending.reply.response_stream()?
        };
        let mut begun = VecDeque::new();
        let response = StreamedResponse::begin(id.clone(), stream.id()?, start, &mut begun)?;
        if !self.shared.lock().supervisor.ledger.begin_response(self.epoch, call) {
            return None;
        }
        stream.begin(response, begun);
        Some(stream)
    }

    fn streamed_more(&self) {
        if let Some(call) = self.call {
            // What arrives is progress: a long result may take longer than a call.
            let now = self.shared.now();
            self.shared.lock().supervisor.ledger.extend(now, call);
        }
    }

    fn end_stream(&self, is_tool_error: Option<bool>) {
        self.taken(self.messages.take_streamed(is_tool_error));
    }

    fn room(&self) -> BoxFuture<()> {
        if self.shared.inbox.has_room() {
            return Box::pin(std::future::ready(()));
        }
        let (shared, epoch) = (self.shared.clone(), self.epoch);
        Box::pin(async move {
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

/// After the handshake: hears what the server says outside of every exchange. On a pipe, the reader does.
pub(crate) fn listen(shared: &Arc<Shared>, epoch: Epoch) {
    let exchanges = {
        let mut state = shared.lock();
        if !state.is_live(epoch) {
            return; // It is being ended already, and nothing may be begun on it.
        }
        let Some(set) = state.exchanges(epoch) else { return };
        set.exchanges.clone()
    };
    let mut listening = Box::pin(keep_listening(shared.clone(), epoch, exchanges));
    // Begun here and now: what the next call makes the server say is to be heard.
    if listening.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
        return;
    }
    let mut state = shared.lock();
    if state.is_live(epoch)
        && let Some(set) = state.exchanges(epoch)
    {
        set.listener = Some(tokio::spawn(listening));
    }
}

/// Listens for as long as the session lasts.
async fn keep_listening(shared: Arc<Shared>, epoch: Epoch, exchanges: Arc<dyn Exchanges>) {
    let handler = Arc::new(SessionHandler::new(shared.clone(), epoch, None, Arc::new(AtomicBool::new(true))));
    let mut backoff = Backoff::new(shared.settings.policy.backoff, epoch.0);
    backoff.pause(); // The first is none, and some servers end a stream as soon as it is open.
    loop {
        let since = shared.now();
        match exchanges.clone().listen(handler.clone()).await {
            ListenEnd::Over(fault) => return shared.lost(epoch, fault),
            ListenEnd::Lost(fault) => concern(&shared, epoch, &fault),
            ListenEnd::NoStream => return hears_nothing(&shared, epoch),
        }
        backoff.proven(shared.now() - since);
        sleep(backoff.pause()).await;
        shared.notify(OwnerEvent::Missed(epoch));
    }
}

/// The server has no stream of its own: calls that it only accepted get no response.
fn hears_nothing(shared: &Shared, epoch: Epoch) {
    let accepted: Vec<(CallId, u16)> = {
        let mut state = shared.lock();
        let Some(exchanges) = state.exchanges(epoch) else { return };
        exchanges.streamless = true;
        let ledger = &state.supervisor.ledger;
        let accepted = ledger.iter().filter_map(|(id, pending)| Some((id, pending.accepted?)));
        let of_epoch = accepted.filter(|(id, (on, _))| *on == epoch && ledger.is_on(epoch, *id));
        of_epoch.map(|(id, (_, code))| (id, code)).collect()
    };
    for (id, code) in accepted {
        missed(shared, epoch, id, &no_stream(code));
    }
}

/// The exchange of this call ended without a response.
fn missed(shared: &Shared, epoch: Epoch, id: CallId, fault: &Fault) {
    let mut state = shared.lock();
    let missed = state.supervisor.miss(shared.now(), epoch, id, fault);
    match missed {
        Some(Missed::Kept { dispatch: Some(next) }) => shared.dispatch(state, next),
        _ => drop(state),
    }
    shared.wake.notify_one(); // A pause ends some time, or a drain waits for this call.
    if let Some(Missed::Over(failure)) = missed {
        shared.fail(failure, vec![]);
    }
}

/// An exchange of the session ended with this fault, which may concern more than its own message.
fn concern(shared: &Shared, epoch: Epoch, fault: &Fault) {
    match fault.reach() {
        Reach::Call => {}
        Reach::Doubt => shared.notify(Event::Doubted(epoch)),
        Reach::Session => {
            if let Some(set) = shared.lock().exchanges(epoch) {
                set.exchanges.forgotten();
            }
            shared.lost(epoch, fault.as_expiry());
        }
    }
}
