//! What the callers, tasks and owner of a connection work on together, behind one short lock.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use regrow_core::{
    CallId, Delivery, Ended, Epoch, Event, Facts, Fault, Ladder, Manner, Notes, Output, Policy, Supervisor,
    Time,
};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::method;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::era::Greeting;
use super::events::EventQueue;
use super::exchanges::ExchangeSet;
use super::handshake::ClientHandshake;
use super::memory::Memory;
use super::session::{Channel, Session};
use super::wire_ids::WireIds;
use crate::call::{Caller, Pending};
use crate::inbox::CallInbox;
use crate::notice::{Anomalies, Status};
use crate::transport::Process;

/// Behind the lock.
pub(crate) struct ConnectionState {
    pub(crate) supervisor: Supervisor<Box<Pending>>,
    pub(crate) wire_ids: WireIds,
    pub(crate) session: Option<Session>,
    /// Sessions that their server has forgotten, and whose last exchanges go on. Each has a call in flight, so there are no more of
    /// them than of those.
    retired: Vec<RetiredSession>,
    pub(crate) memory: Memory,
    pub(crate) handshake: ClientHandshake,
    /// Notifications of the client that wait for a session.
    pub(crate) notes: Notes<Bytes>,
    /// For the owner.
    pub(crate) events: EventQueue,
    pub(crate) anomalies: Anomalies,
    /// How many pending calls the status shows.
    pub(crate) shown: usize,
    /// How much of its input the last session can have read, once that is closed.
    read: Option<(Epoch, u64)>,
    holds: ClockHolds,
    tasks: Tasks,
}

/// What is left of a session that its server has forgotten.
pub(crate) struct RetiredSession {
    epoch: Epoch,
    exchanges: ExchangeSet,
    /// What carries the exchanges; they end with it.
    _process: Arc<dyn Process>,
}

/// Why the deadlines of calls stand still, if they do.
#[derive(Default)]
struct ClockHolds {
    /// Questions to a person.
    questions: HashSet<RawId>,
    /// How many readers stand still because the client does not read.
    blocked: usize,
}

/// Calls that became tasks.
#[derive(Default)]
struct Tasks {
    /// Those that asked for progress, which goes on after the response.
    calls: VecDeque<(CallId, Progress)>,
    /// The newest session on which one began; it may run on.
    newest: Option<Epoch>,
}

/// Whom the progress of a call concerns.
#[derive(Clone)]
pub(crate) struct Progress {
    /// As the caller knows it.
    pub(crate) token: RawId,
    /// By its number; 0 where it is the only one, or no client.
    pub(crate) client: u64,
    /// As the client knows it; none once the call has become a task.
    pub(crate) call: Option<RawId>,
    /// Where its messages go, if it has a place of its own for them.
    pub(crate) to: Option<Arc<dyn CallInbox>>,
}

const MAX_TASKS: usize = 1024;
/// A program need not answer what it is asked.
const MAX_QUESTIONS: usize = 4096;

impl ConnectionState {
    pub(crate) fn new(policy: Policy, greeting: Greeting, seed: u64, wire_ids: WireIds) -> ConnectionState {
        ConnectionState {
            supervisor: Supervisor::new(policy, seed),
            wire_ids,
            session: None,
            retired: vec![],
            handshake: ClientHandshake::new(matches!(greeting, Greeting::ByClient)),
            memory: Memory::new(greeting),
            notes: Notes::default(),
            events: EventQueue::default(),
            anomalies: Anomalies::default(),
            shown: 0,
            read: None,
            holds: ClockHolds::default(),
            tasks: Tasks::default(),
        }
    }

    /// Lets the supervisor decide what must be done. What concerns the session is done here, before anybody else sees it; the rest
    /// is for the owner.
    pub(crate) fn handle(&mut self, now: Time, event: Event, facts: &Facts) -> Vec<Output<Box<Pending>>> {
        let mut outputs = vec![];
        self.supervisor.handle(now, event, facts, &mut outputs);
        for output in &outputs {
            match output {
                Output::TimedOut(failure) => self.withdraw(&failure.call, None, "timed out"),
                Output::Settled(epoch, fault) => {
                    self.forget_questions(now);
                    if let Some(exchanges) = self.exchanges(*epoch) {
                        exchanges.ended.notify_waiters();
                    }
                    if matches!(fault, Fault::Replaced | Fault::Parked) {
                        self.memory.era.forget_question();
                    }
                }
                Output::Retired(epoch) => {
                    self.forget_questions(now);
                    if let Some(exchanges) = self.session_of(*epoch).and_then(Session::exchanges) {
                        exchanges.forgotten = true;
                    }
                }
                Output::Hangup(epoch, manner, ladder) => self.hang_up(now, *epoch, *manner, *ladder),
                Output::Abandon(_) => {
                    self.session = None;
                    self.unblock(now);
                }
                _ => {}
            }
        }
        outputs
    }

    /// What the supervisor must know of the newest session, from which something was `heard` last, and `messages` so far.
    pub(crate) fn facts(&mut self, now: Time, heard: Time, messages: u64) -> Facts {
        let epoch = self.supervisor.lifecycle().epoch();
        Facts {
            heard: if self.holds.blocked > 0 { now } else { heard }, // Its silence may be our own doing.
            messages,
            read: self.read_of(epoch),
            exchanges: self.exchanges(epoch).map(|exchanges| exchanges.calls().collect()),
            knows_era: self.memory.era.is_modern(),
            listening: self.memory.is_subscribed() || self.tasks.newest == Some(epoch),
            behind: self.session_of(epoch).is_some_and(|session| session.signals.is_behind()),
        }
    }

    /// The reader of this session must read what is there. Exchanges have no reader of their own.
    pub(crate) fn catch_up(&mut self, epoch: Epoch) {
        let has_reader = |session: &&mut Session| session.is_live() && session.reader.is_some();
        if let Some(session) = self.session_of(epoch).filter(has_reader) {
            session.signals.ask_to_catch_up();
        }
    }

    /// What observers see of a state that begins now.
    pub(crate) fn status(&self, now: Time) -> Status {
        let lifecycle = self.supervisor.lifecycle();
        Status {
            state: lifecycle.state().clone(),
            since: Instant::now(),
            epoch: lifecycle.epoch(),
            last_fault: self.supervisor.last_fault().cloned(),
            budget_left: lifecycle.budget_left(now),
            pending: self.shown,
            sessions: self.supervisor.sessions(),
            pid: self.session.as_ref().and_then(Session::pid),
            anomalies: self.anomalies,
        }
    }

    /// The session, if it is that of this epoch.
    pub(crate) fn session_of(&mut self, epoch: Epoch) -> Option<&mut Session> {
        self.session.as_mut().filter(|session| session.epoch == epoch)
    }

    /// Whether this is the session that we have, and we are not ending it.
    pub(crate) fn is_live(&self, epoch: Epoch) -> bool {
        self.session.as_ref().is_some_and(|session| session.epoch == epoch && session.is_live())
    }

    /// Whether this session is live, and nothing has happened to it.
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        self.session.as_ref().is_some_and(|session| session.epoch == epoch && session.is_open())
    }

    /// Puts a new session in its place. The readers of an abandoned one cannot say any more that they go on.
    pub(crate) fn begin(&mut self, now: Time, session: Session) -> &mut Session {
        self.unblock(now);
        self.session.insert(session)
    }

    /// Ends the session for good. Returns it, to be dropped when the lock is free again.
    pub(crate) fn end(&mut self, now: Time, epoch: Epoch) -> Option<Session> {
        self.close_input(epoch);
        let session = self.session.take();
        self.unblock(now);
        session
    }

    /// Writes a line to the session: here and now if the stream takes it.
    pub(crate) fn write(&mut self, call: Option<CallId>, line: Bytes) {
        if let Some(session) = &mut self.session {
            session.add(call, line);
            session.write(&mut self.supervisor.ledger);
        }
    }

    /// More messages to the session follow at once, and leave in one write.
    pub(crate) fn cork(&mut self) {
        if let Some(session) = &mut self.session {
            session.cork();
        }
    }

    /// That was the last of them.
    pub(crate) fn uncork(&mut self) {
        if let Some(session) = &mut self.session {
            session.uncork(&mut self.supervisor.ledger);
        }
    }

    /// The exchanges of this session, where it has some, or had.
    pub(crate) fn exchanges(&mut self, epoch: Epoch) -> Option<&mut ExchangeSet> {
        let live = self.session.as_mut().filter(|session| session.epoch == epoch);
        match live.and_then(Session::exchanges) {
            Some(exchanges) => Some(exchanges),
            None => self.retired.iter_mut().find(|old| old.epoch == epoch).map(|old| &mut old.exchanges),
        }
    }

    /// The server has forgotten this session, and calls of it are in flight: their exchanges go on beside the next session. Returns
    /// what must end before all else of it has; none where nothing goes on.
    pub(crate) fn retire(&mut self, now: Time, epoch: Epoch) -> Option<Vec<JoinHandle<()>>> {
        let is_forgotten = |session: &mut Session| {
            session.epoch == epoch && session.exchanges().is_some_and(|exchanges| exchanges.forgotten)
        };
        if self.supervisor.ledger.in_flight(epoch) == 0 {
            return None;
        }
        let session = self.session.take_if(is_forgotten)?;
        let process = session.process.clone();
        let mut exchanges = session.into_exchanges()?;
        let tasks = exchanges.retire(|call| self.supervisor.ledger.is_on(epoch, call));
        self.retired.push(RetiredSession { epoch, exchanges, _process: process });
        self.unblock(now);
        Some(tasks)
    }

    /// The sessions whose last exchange has ended, to be dropped when the lock is free again.
    #[must_use]
    pub(crate) fn take_ended(&mut self) -> Vec<RetiredSession> {
        self.retired.extract_if(.., |old| old.exchanges.is_over()).collect()
    }

    /// Stops the exchanges of retired sessions. Returns what must end before they have.
    pub(crate) fn stop_retired(&mut self) -> Vec<JoinHandle<()>> {
        self.retired.drain(..).flat_map(|mut old| old.exchanges.stop()).collect()
    }

    /// How many bytes of its input the server of this epoch can have read.
    fn read_of(&mut self, epoch: Epoch) -> u64 {
        let read = self.session_of(epoch).and_then(Session::read);
        let closed = self.read.filter(|(of, _)| *of == epoch).map(|(_, read)| read);
        read.or(closed).unwrap_or(u64::MAX)
    }

    /// From here on nothing is written to the session, its questions need no answer, and its end is not reported.
    pub(crate) fn hang_up(&mut self, now: Time, epoch: Epoch, manner: Manner, ladder: Ladder) {
        let read = self.session_of(epoch).and_then(|session| session.hang_up(manner, ladder));
        self.input_closed(epoch, read);
        self.forget_questions(now);
    }

    /// The pump has written all there was, to a session that may be waiting for that.
    pub(crate) fn flushed(&mut self, epoch: Epoch) {
        let read = self.session_of(epoch).and_then(Session::flushed);
        self.input_closed(epoch, read);
    }

    fn close_input(&mut self, epoch: Epoch) {
        let read = self.session_of(epoch).and_then(Session::close_input);
        self.input_closed(epoch, read);
    }

    fn input_closed(&mut self, epoch: Epoch, read: Option<u64>) {
        if let Some(read) = read {
            self.read = Some((epoch, read));
        }
    }

    /// A call has ended without a response: the server is told to stop, or never told to start.
    pub(crate) fn withdraw(
        &mut self,
        ended: &Ended<Box<Pending>>,
        notification: Option<&Frame>,
        reason: &str,
    ) {
        if let Some(old) = self.retired.iter_mut().find(|old| ended.epoch == Some(old.epoch)) {
            return old.exchanges.abort(ended.id); // Nobody knows its session who could be told more.
        }
        let Some(session) = &mut self.session else { return };
        if ended.delivery == Delivery::NotSent {
            return session.revoke(ended.id);
        }
        if let Some(Channel::Http(exchanges)) = session.channel() {
            exchanges.abort(ended.id);
            if self.memory.era.is_modern() {
                return; // Closing the exchange of a request cancels it; in the legacy era a notification does.
            }
        }
        // Nobody may cancel a handshake.
        if ended.epoch.is_none() || ended.reply.request.method() == Some(method::INITIALIZE) {
            return;
        }
        let id = self.wire_ids.of(ended.id);
        let line = match notification {
            Some(notification) => notification.with_request_id(&id),
            None => frame::cancellation(&id, Some(reason)),
        };
        self.write(None, line);
    }

    /// The caller does not want this call any more. Returns it, to be dropped when the lock is free again.
    pub(crate) fn cancel(&mut self, id: CallId, notification: Option<&Frame>) -> Option<Box<Pending>> {
        let ended = self.supervisor.ledger.cancel(id)?;
        self.withdraw(&ended, notification, "the caller gave up");
        if let Some(epoch) = ended.epoch {
            self.events.push(Event::Cancelled(epoch, ended.taken));
        }
        Some(ended.reply)
    }

    /// The only call of a client on this session, or the only one of a tool; none if that is not clear. Streams are no calls.
    pub(crate) fn only_call(&self, epoch: Epoch) -> Option<(RawId, Option<Arc<dyn CallInbox>>)> {
        let ledger = &self.supervisor.ledger;
        let is_call = |call: &Pending| {
            matches!(call.caller, Caller::Client(_))
                && call.request.method() != Some(method::SUBSCRIPTIONS_LISTEN)
        };
        let mut calls = ledger.find_all(|call| is_call(call));
        calls.retain(|&id| ledger.is_on(epoch, id));
        if calls.len() > 1 {
            calls.retain(|&id| ledger.reply(id).is_some_and(|call| call.request.tool().is_some()));
        }
        let [only] = calls[..] else { return None };
        ledger.reply(only).map(|call| (call.caller_id.clone(), call.reply.inbox()))
    }

    /// The session that takes a client's notifications at once, if there is one.
    pub(crate) fn takes_notes(&self) -> Option<Epoch> {
        let session = self.session.as_ref().filter(|session| session.is_live())?;
        self.supervisor.ledger.is_open().then_some(session.epoch)
    }

    /// Writes the notifications that waited for this session and go before the call of this arrival.
    pub(crate) fn write_notes(&mut self, epoch: Epoch, before: Option<u64>) {
        let by_client = self.session_of(epoch).is_some_and(|session| session.greeted_by_client);
        while let Some(line) = self.notes.next(epoch, by_client, before) {
            self.write(None, line);
        }
    }

    /// A stream was acknowledged, or has ended.
    pub(crate) fn stream_changed(&self) {
        if let Some(session) = &self.session {
            session.signals.acknowledged.notify_one();
        }
    }

    /// A call became a task: its progress goes on after its response.
    pub(crate) fn remember_task(&mut self, epoch: Epoch, id: CallId, call: &Pending) {
        self.tasks.newest = Some(epoch);
        let Some(token) = call.progress_token() else { return };
        if self.tasks.calls.len() == MAX_TASKS {
            self.tasks.calls.pop_front();
        }
        let client = call.of_client().map_or(0, |(client, _)| client);
        self.tasks.calls.push_back((id, Progress { token, client, call: None, to: None }));
    }

    /// Progress of this call, which has more time now. Returns whose it is; none if nobody waits for it any more.
    pub(crate) fn progress(&mut self, now: Time, id: CallId) -> Option<Progress> {
        let Some(call) = self.supervisor.ledger.reply(id) else {
            let task = self.tasks.calls.iter().find(|(task, _)| *task == id);
            return task.map(|(_, progress)| progress.clone());
        };
        let token = call.progress_token()?;
        let to = call.reply.inbox();
        let (client, call) = call.of_client().unzip();
        self.supervisor.ledger.extend(now, id);
        Some(Progress { token, client: client.unwrap_or(0), call, to })
    }

    /// A person is asked, or has answered.
    pub(crate) fn question(&mut self, now: Time, id: RawId, open: bool) {
        if open {
            // One is enough for the clock to stand.
            if self.holds.questions.len() < MAX_QUESTIONS {
                self.holds.questions.insert(id);
            }
        } else {
            self.holds.questions.remove(&id);
        }
        self.set_clock(now);
    }

    /// A reader of this session stands still, or goes on.
    pub(crate) fn set_blocked(&mut self, now: Time, epoch: Epoch, blocked: bool) {
        if self.session_of(epoch).is_some() {
            let readers = &mut self.holds.blocked;
            *readers = if blocked { *readers + 1 } else { readers.saturating_sub(1) };
            self.set_clock(now);
        }
    }

    fn unblock(&mut self, now: Time) {
        self.holds.blocked = 0;
        self.set_clock(now);
    }

    /// Nobody can answer the session's questions any more.
    fn forget_questions(&mut self, now: Time) {
        self.holds.questions.clear();
        self.set_clock(now);
    }

    fn set_clock(&mut self, now: Time) {
        match self.holds.blocked > 0 || !self.holds.questions.is_empty() {
            true => self.supervisor.ledger.stop_clock(now),
            false => self.supervisor.ledger.start_clock(now),
        }
    }
}
