//! What the parts of a connection share, and how a call reaches its session.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{CallId, Delivery, Epoch, Event, Facts, Failure, Fault, Nature, Outlook, Time, timeout_of};
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::method;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::era::Greeting;
use super::events::OwnerEvent;
use super::session::Session;
use super::settings::Settings;
use super::state::ConnectionState;
use crate::call::{Caller, Outcome, Pending, shielded};
use crate::error::{CallError, ErrorKind};
use crate::inbox::{Inbox, Incoming};

/// What the parts of a connection share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) inbox: Arc<dyn Inbox>,
    began: Instant,
    state: Mutex<ConnectionState>,
    /// Wakes the owner.
    pub(crate) wake: Notify,
    heard: AtomicU64,
    /// How many messages were read from the server.
    read: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: Settings, inbox: Arc<dyn Inbox>, greeting: Greeting, seed: u64) -> Shared {
        Shared {
            inbox,
            began: Instant::now(),
            state: Mutex::new(ConnectionState::new(
                settings.policy.clone(),
                greeting,
                seed,
                settings.wire_ids,
            )),
            settings,
            wake: Notify::new(),
            heard: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.time(Instant::now())
    }

    pub(crate) fn time(&self, instant: Instant) -> Time {
        Time::ZERO + (instant - self.began)
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.began + Duration::from_millis(time.as_millis())
    }

    // A panic is caught at the message that caused it, between whole changes, so the state is sound.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the owner what happened.
    pub(crate) fn notify(&self, event: impl Into<OwnerEvent>) {
        self.lock().events.push(event);
        self.wake.notify_one();
    }

    /// A person is asked, or has answered.
    pub(crate) fn question(&self, id: RawId, open: bool) {
        self.lock().question(self.now(), id, open);
        self.wake.notify_one(); // Deadlines that stood still are near again.
    }

    /// The client does not read, or reads again.
    pub(crate) fn set_blocked(&self, epoch: Epoch, blocked: bool) {
        self.lock().set_blocked(self.now(), epoch, blocked);
        self.wake.notify_one();
    }

    /// The session ended, and not because we wanted it. Its first fault counts.
    pub(crate) fn lost(&self, epoch: Epoch, fault: Fault) {
        let mut state = self.lock();
        if state.session_of(epoch).is_some_and(Session::lose) {
            state.events.push(Event::Lost(epoch, fault));
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Hands a message of the server to the client.
    pub(crate) fn hand_on(&self, incoming: Incoming) {
        if !self.inbox.take(incoming) {
            self.lock().anomalies.undelivered += 1;
        }
    }

    /// Something was read from the server.
    pub(crate) fn hear(&self) {
        self.heard.store(self.now().as_millis(), Ordering::Relaxed);
    }

    /// One of its messages was read, or what stands for one.
    pub(crate) fn count_message(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Members that no envelope has were left out of a message, in either direction.
    pub(crate) fn count_dropped_members(&self, message: &Frame) {
        if message.dropped_members() > 0 {
            self.lock().anomalies.dropped_members += u64::from(message.dropped_members());
            self.wake.notify_one(); // For the status.
        }
    }

    /// What the supervisor must know of the newest session.
    pub(crate) fn facts(&self, state: &mut ConnectionState) -> Facts {
        let heard = Time::from_millis(self.heard.load(Ordering::Relaxed));
        state.facts(self.now(), heard, self.read.load(Ordering::Relaxed))
    }

    /// How long a request of this method may take.
    pub(crate) fn time_for(&self, method: &str) -> Option<Duration> {
        timeout_of(method, &self.settings.policy)
    }

    /// Hands a call of the ledger to the session. Returns it with its end where we know that ourselves: to be told when the
    /// state is free again.
    #[must_use]
    pub(crate) fn send(
        &self,
        state: &mut ConnectionState,
        epoch: Epoch,
        id: CallId,
    ) -> Option<(Box<Pending>, Outcome)> {
        let pending = state.supervisor.ledger.reply(id)?;
        let is_shared = matches!(pending.caller, Caller::Client(_));
        let wire_id = state.wire_ids.of(id);
        if is_shared && let Some(answer) = self.own_welcome(state, &pending.request) {
            let pending = state.supervisor.ledger.answer(epoch, id, true);
            return pending.map(|pending| (pending, Outcome::Answered(answer)));
        }
        // Here, because it may have waited for this session, or been sent to an earlier one.
        if let Some(unapproved) =
            self.settings.approver.as_ref().and_then(|approver| approver.refuse(&pending.request))
        {
            let ended = state.supervisor.ledger.cancel(id)?;
            let kind = ErrorKind::NotApproved(unapproved);
            let error = self.error(&ended.reply, kind, ended.delivery, Some(epoch), None, Outlook::Serving);
            let error = CallError { repeatable: ended.nature != Nature::Effect, ..error };
            return Some((ended.reply, Outcome::Failed(error)));
        }
        let ConnectionState { session, supervisor, memory, handshake, events, .. } = state;
        let pending = supervisor.ledger.reply(id)?;
        let (request, id_edit) = (&pending.request, Edit::Id(&wire_id));
        if let Some(session) = session {
            match (pending.caller, pending.progress_token()) {
                (Caller::Program, _) => session.add(Some(id), memory.era.envelop(request, &wire_id)),
                (_, None) => session.add_edited(id, request, [id_edit]),
                (_, Some(_)) => {
                    session.add_edited(id, request, [id_edit, Edit::MetaProgressToken(&wire_id)]);
                }
            }
        }
        if pending.caller != Caller::Own && handshake.is_open() {
            let event = handshake.sent(epoch, request, &mut memory.era);
            event.into_iter().for_each(|event| events.push(event));
            self.wake.notify_one();
        }
        if let Some(session) = session {
            session.write(&mut supervisor.ledger);
            if is_shared && supervisor.ledger.len() > 1 {
                session.gather();
            }
        }
        None
    }

    /// A client greets a server that we have greeted for it.
    fn own_welcome(&self, state: &ConnectionState, request: &Frame) -> Option<Frame> {
        if !self.settings.greets || !request.method().is_some_and(method::is_handshake) {
            return None;
        }
        let welcome = state.memory.era.welcome.as_ref()?;
        Frame::parse(frame::response(&RawId::from(0), &welcome.result)).ok()
    }

    /// Opens the client's streams on this session.
    pub(crate) fn reopen_streams(&self, epoch: Epoch) -> Vec<CallId> {
        let mut state = self.lock();
        if !state.is_live(epoch) {
            return vec![];
        }
        let streams = state.supervisor.ledger.dispatch_streams(epoch);
        for &id in &streams {
            let answered = self.send(&mut state, epoch, id);
            debug_assert!(answered.is_none(), "a stream is no handshake");
        }
        streams
    }

    /// Sessions take calls from now on; those that waited go first.
    pub(crate) fn open(&self, epoch: Epoch) {
        let mut state = self.lock();
        if state.is_live(epoch) && state.supervisor.ledger.open(epoch) {
            self.dispatch(state, epoch);
        }
    }

    /// The calls that wait go to this session, if it still takes calls.
    pub(crate) fn dispatch(&self, mut state: MutexGuard<'_, ConnectionState>, epoch: Epoch) {
        let mut answered = vec![];
        if state.supervisor.ledger.open_session() != Some(epoch) || !state.is_live(epoch) {
            return;
        }
        loop {
            let before = state.supervisor.ledger.next_arrival();
            state.write_notes(epoch, before);
            let Some(id) = state.supervisor.ledger.dispatch(epoch) else { break };
            answered.extend(self.send(&mut state, epoch, id));
        }
        drop(state);
        self.wake.notify_one();
        answered.into_iter().for_each(tell);
    }

    /// Tells a caller that there is no answer, with what the server said on stderr.
    pub(crate) fn fail(&self, failure: Failure<Box<Pending>>, stderr: Vec<String>) {
        let Failure { call, kind, fault, outlook } = failure;
        if call.refused {
            return shielded(|| call.reply.reply.end(Outcome::Refused));
        }
        let error = self.error(&call.reply, kind.into(), call.delivery, call.epoch, fault, outlook);
        let repeatable = call.nature != Nature::Effect;
        let (attempts, timeout) = (call.attempts, call.timeout);
        let error = CallError { repeatable, attempts, timeout, stderr, ..error };
        shielded(|| call.reply.reply.end(Outcome::Failed(error)));
    }

    /// Carries a message that wants no answer, and resolves when the server has it; on a pipe that is at once.
    pub(crate) async fn deliver(&self, epoch: Epoch, line: Bytes) -> Result<(), Fault> {
        let carried = {
            let mut state = self.lock();
            let (done, carried) = oneshot::channel();
            match state.is_live(epoch).then(|| state.exchanges(epoch)).flatten() {
                Some(exchanges) => {
                    let Ok(message) = Frame::parse(line) else { return Ok(()) }; // No server would take it.
                    exchanges.start(None, message.into(), Some(done));
                    carried
                }
                None => {
                    state.write(None, line);
                    return Ok(());
                }
            }
        };
        match carried.await {
            Ok(Err(fault)) => Err(fault),
            Ok(Ok(_)) | Err(_) => Ok(()), // Or the session is gone, and its end is reported with the reason.
        }
    }

    /// A call of our own on this session; resolves with its end. `params` is raw JSON.
    pub(crate) fn own_call(
        &self,
        epoch: Epoch,
        method: &str,
        params: Option<&[u8]>,
        timeout: Duration,
    ) -> oneshot::Receiver<Outcome> {
        let (reply, end) = oneshot::channel();
        let caller_id = RawId::from(0);
        let Ok(request) = Frame::parse(frame::request(&caller_id, method, params)) else { return end };
        let pending = Pending::new(request, Box::new(reply), caller_id, Caller::Own);
        let mut state = self.lock();
        if !state.is_live(epoch) {
            return end; // Nobody would ever settle it, and another session must not be asked.
        }
        let id = state.supervisor.ledger.admit_own(self.now(), epoch, timeout, pending);
        state.supervisor.note_deadline(self.now());
        let answered = self.send(&mut state, epoch, id);
        debug_assert!(answered.is_none(), "we do not answer ourselves");
        drop(state);
        self.wake.notify_one(); // Its deadline may be the next.
        end
    }

    /// The server answered. Returns who waits, if this very session owes an answer.
    pub(crate) fn answer(&self, epoch: Epoch, id: CallId, good: bool) -> Option<Box<Pending>> {
        let mut state = self.lock();
        let pending = state.supervisor.ledger.answer(epoch, id, good)?;
        // The owner need not hear of every answer; but a drain may wait for this one, and the status may be too high.
        if !state.supervisor.ledger.is_open() || state.supervisor.ledger.len() < state.shown {
            self.wake.notify_one();
        }
        Some(pending)
    }

    /// Sends a line that wants no answer to this session, or to whichever is live. Returns whether it could.
    pub(crate) fn post(&self, epoch: Option<Epoch>, line: Bytes) -> bool {
        self.post_on(&mut self.lock(), epoch, line)
    }

    pub(crate) fn post_on(&self, state: &mut ConnectionState, epoch: Option<Epoch>, line: Bytes) -> bool {
        let session =
            state.session.as_mut().filter(|session| epoch.is_none_or(|epoch| epoch == session.epoch));
        let fits = session
            .and_then(|session| session.channel())
            .is_some_and(|channel| channel.queued() <= self.settings.policy.max_pending_bytes);
        if fits {
            state.write(None, line);
        } else {
            state.anomalies.undelivered += 1;
        }
        fits
    }

    /// Ends the newest call for which this holds, without an answer; a call that is not sent yet never is.
    pub(crate) fn cancel(&self, wanted: impl Fn(&Pending) -> bool, notification: Option<&Frame>) -> bool {
        let mut state = self.lock();
        let Some(id) = state.supervisor.ledger.find(|pending| wanted(pending)) else { return false };
        let ended = state.cancel(id, notification);
        drop(state);
        self.wake.notify_one();
        ended.is_some()
    }

    /// The same with all calls for which this holds. Returns them, oldest first.
    pub(crate) fn cancel_all(
        &self,
        wanted: impl Fn(&Pending) -> bool,
        notification: Option<&Frame>,
    ) -> Vec<Pending> {
        let mut state = self.lock();
        let calls = state.supervisor.ledger.find_all(|pending| wanted(pending));
        let ended = calls.into_iter().filter_map(|id| Some(*state.cancel(id, notification)?)).collect();
        drop(state);
        self.wake.notify_one();
        ended
    }

    /// Who waits, told why there is no answer.
    pub(crate) fn error(
        &self,
        pending: &Pending,
        kind: ErrorKind,
        delivery: Delivery,
        epoch: Option<Epoch>,
        fault: Option<Arc<Fault>>,
        outlook: Outlook,
    ) -> CallError {
        let error = CallError::unsent(self.settings.name.clone(), &pending.request, kind);
        CallError { epoch, delivery, fault, outlook, ..error }
    }
}

/// Tells a caller the end that we know ourselves.
pub(crate) fn tell((pending, outcome): (Box<Pending>, Outcome)) {
    shielded(|| pending.reply.end(outcome));
}
