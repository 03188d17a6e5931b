//! What callers, reader and owner of a connection work on together, behind one short lock: the supervisor and the live session.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{
    CallId, Delivery, Ended, Epoch, Event, Facts, Ladder, Manner, Notes, Output, Policy, Supervisor, Time,
};
use regrow_protocol::frame::{self, Frame, RawId};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::exchange::Exchanger;
use crate::call::Pending;
use crate::notice::Oddities;
use crate::transport::{Input, Process};
use crate::writer::Writer;

/// Behind the lock.
pub(crate) struct Desk {
    pub(crate) supervisor: Supervisor<Pending>,
    pub(crate) session: Option<Session>,
    /// Notifications of the client that wait for a session.
    pub(crate) notes: Notes<Bytes>,
    /// Sessions that their server has forgotten, and whose last exchanges go on. Each has a call in flight, so there are no more of
    /// them than of those.
    old: Vec<OldSession>,
    pub(crate) news: VecDeque<News>,
    /// How many calls the status says are pending.
    pub(crate) shown: usize,
    pub(crate) oddities: Oddities,
    /// How much of its input the last session can have read, once that is closed.
    pub(crate) read: Option<(Epoch, u64)>,
    /// Questions to a person; deadlines stand still while there are any.
    questions: HashSet<RawId>,
    /// How many readers stand still because the client does not read; deadlines stand still, too.
    blocked: usize,
    /// Tokens of calls that became tasks: their progress goes on after the answer.
    task_tokens: VecDeque<Bytes>,
    /// The newest session on which a call became a task, which may run on.
    task_on: Option<Epoch>,
}

/// What happened, for the owner.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    /// For the supervisor.
    Event(Event),
    /// Nothing is left of the epoch; how its process ended, if it had one, and how many helpers outside its group did.
    Gone(Epoch, Option<crate::transport::Ended>, usize),
    /// What the server said by itself may have been missed.
    Unheard(Epoch),
}

impl From<Event> for News {
    fn from(event: Event) -> News {
        News::Event(event)
    }
}

/// One live exchange with the server.
pub(crate) struct Session {
    pub(crate) epoch: Epoch,
    /// None once we have closed the server's input. See [`Session::input`].
    pub(crate) way: Option<Way>,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) reader: Option<JoinHandle<()>>,
    pub(crate) tasks: Vec<JoinHandle<()>>,
    /// We are ending it: its end is no news.
    pub(crate) hung_up: bool,
    /// Its input is closed when what is queued has been written.
    pub(crate) writes_out: bool,
    /// Between asking its helpers to end and killing them; shorter when we are in a hurry.
    pub(crate) grace: Duration,
    /// The fault was told.
    pub(crate) lost: bool,
    /// The server has forgotten it: its calls keep their exchanges.
    pub(crate) forgotten: bool,
    /// The client itself shook hands with it.
    pub(crate) greeted_by_client: bool,
    /// Lists are being compared with what the client has seen: changes that the server tells meanwhile are kept back.
    pub(crate) kept_back: Option<BTreeSet<String>>,
    /// What was logged about its messages.
    pub(crate) logged: BTreeSet<&'static str>,
}

/// What is left of a session that its server has forgotten.
pub(crate) struct OldSession {
    epoch: Epoch,
    exchanger: Exchanger,
    /// What carries the exchanges; they end with it.
    _process: Arc<dyn Process>,
}

/// How messages get to the server.
pub(crate) enum Way {
    Pipe(Writer<Box<dyn Input>, Option<CallId>>),
    Exchanges(Exchanger),
}

impl Way {
    /// How many bytes are on their way.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Way::Pipe(writer) => writer.queued(),
            Way::Exchanges(exchanger) => exchanger.queued(),
        }
    }
}

/// How the tasks of a session are reached.
#[derive(Default)]
pub(crate) struct Signals {
    /// There is something to write that the stream did not take.
    pub(crate) pump: Notify,
    /// Writing failed; the reader finds out why.
    pub(crate) broken: Notify,
    /// The server has acknowledged a stream, or ended one.
    pub(crate) acknowledged: Notify,
    /// The server is gone; read what is there, and end.
    pub(crate) finish: Notify,
    /// A change of a list was kept back.
    pub(crate) kept_back: Notify,
}

impl Session {
    /// What can be written to: none once we are ending it, though its input may stay open to tell what was never read.
    pub(crate) fn input(&mut self) -> Option<&mut Way> {
        self.way.as_mut().filter(|_| !self.hung_up)
    }

    /// What the pump writes to: also what is written out while we are ending it.
    pub(crate) fn outlet(&mut self) -> Option<&mut Way> {
        self.way.as_mut().filter(|_| !self.hung_up || self.writes_out)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for task in self.tasks.drain(..).chain(self.reader.take()) {
            task.abort();
        }
    }
}

const TASK_TOKENS: usize = 1024;
/// A program need not answer what it is asked.
const MAX_QUESTIONS: usize = 4096;

impl Desk {
    pub(crate) fn new(policy: Policy, seed: u64) -> Desk {
        Desk {
            supervisor: Supervisor::new(policy, seed),
            session: None,
            notes: Notes::default(),
            old: vec![],
            news: VecDeque::new(),
            shown: 0,
            oddities: Oddities::default(),
            read: None,
            questions: HashSet::new(),
            blocked: 0,
            task_tokens: VecDeque::new(),
            task_on: None,
        }
    }

    /// News for the owner. What programs can say as often as they like is kept once, so that it stays few.
    pub(crate) fn tell(&mut self, news: News) {
        match news {
            News::Unheard(_)
            | News::Event(
                Event::Start
                | Event::Reconnect(_)
                | Event::Mended
                | Event::Rest
                | Event::ResetBudget
                | Event::Drain
                | Event::Close(_)
                | Event::Doubted(_),
            ) if self.news.contains(&news) => {}
            // They undo each other: the last word counts.
            News::Event(Event::Park | Event::Wake) => {
                self.news.retain(|known| *known != news);
                self.news.push_back(news);
            }
            News::Event(Event::Cancelled(epoch, taken)) => {
                let known = self.news.iter_mut().find_map(|known| match known {
                    News::Event(Event::Cancelled(of, eldest)) if *of == epoch => Some(eldest),
                    _ => None,
                });
                match known {
                    Some(eldest) => *eldest = taken.min(*eldest),
                    None => self.news.push_back(news),
                }
            }
            news => self.news.push_back(news),
        }
    }

    /// The session, if it is that of this epoch.
    pub(crate) fn session_of(&mut self, epoch: Epoch) -> Option<&mut Session> {
        self.session.as_mut().filter(|session| session.epoch == epoch)
    }

    /// Whether this is to be logged: oddities of a session are, once each.
    pub(crate) fn is_new(&mut self, epoch: Epoch, oddity: &'static str) -> bool {
        self.session_of(epoch).is_some_and(|session| session.logged.insert(oddity))
    }

    /// Whether this is the session that we have, and we are not ending it.
    pub(crate) fn is_live(&self, epoch: Epoch) -> bool {
        self.session.as_ref().is_some_and(|session| session.epoch == epoch && !session.hung_up)
    }

    /// Whether this session is live, and nothing has happened to it.
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        self.is_live(epoch) && self.session.as_ref().is_some_and(|session| !session.lost)
    }

    /// Writes a line to the session: here and now if the stream takes it.
    pub(crate) fn write(&mut self, key: Option<CallId>, line: Bytes) {
        let Desk { supervisor: Supervisor { ledger, .. }, session: Some(session), .. } = self else { return };
        let pushed = match session.input() {
            None => return,
            Some(Way::Exchanges(exchanger)) => return exchanger.start(key, line, None),
            Some(Way::Pipe(writer)) => {
                writer.push(key, line, |key, at| key.into_iter().for_each(|id| ledger.sent(id, at)))
            }
        };
        match pushed {
            Ok(false) => {}
            Ok(true) => session.signals.pump.notify_one(),
            Err(_) => session.signals.broken.notify_one(),
        }
    }

    /// The exchanges of the session of this epoch, where it has some, or had.
    pub(crate) fn exchanger(&mut self, epoch: Epoch) -> Option<&mut Exchanger> {
        let session = self.session.as_mut().filter(|session| session.epoch == epoch);
        match session.and_then(|session| session.way.as_mut()) {
            Some(Way::Exchanges(exchanger)) => Some(exchanger),
            Some(Way::Pipe(_)) => None,
            None => {
                let old = self.old.iter_mut().find(|old| old.epoch == epoch);
                old.map(|old| &mut old.exchanger)
            }
        }
    }

    /// Stops the exchanges of this session and what listens to it. Gives what must have ended before they have.
    pub(crate) fn stop_exchanges(&mut self, epoch: Epoch) -> Vec<JoinHandle<()>> {
        let Some(exchanger) = self.exchanger(epoch) else { return vec![] };
        let mut tasks = exchanger.stop();
        if let Some(session) = self.session_of(epoch) {
            session.tasks.iter().for_each(JoinHandle::abort);
            tasks.append(&mut session.tasks);
        }
        tasks
    }

    /// The server has forgotten this session, and calls of it are in flight: their exchanges go on beside the next session. Gives what
    /// must have ended before all else of it has; none where nothing goes on.
    pub(crate) fn leave_exchanges(&mut self, now: Time, epoch: Epoch) -> Option<Vec<JoinHandle<()>>> {
        let Desk { supervisor: Supervisor { ledger, .. }, session, old, .. } = self;
        let session = session.as_mut().filter(|session| session.epoch == epoch && session.forgotten)?;
        if ledger.in_flight(epoch) == 0 {
            return None;
        }
        let Some(Way::Exchanges(mut exchanger)) = session.way.take() else { return None };
        let mut tasks = exchanger.retire(|call| ledger.is_on(epoch, call));
        session.tasks.iter().for_each(JoinHandle::abort);
        tasks.append(&mut session.tasks);
        old.push(OldSession { epoch, exchanger, _process: session.process.clone() });
        self.session = None;
        self.unblock(now);
        Some(tasks)
    }

    /// What is left of sessions whose last exchange has ended, to be dropped when the desk is free again.
    #[must_use]
    pub(crate) fn take_ended(&mut self) -> Vec<OldSession> {
        self.old.extract_if(.., |old| old.exchanger.is_over()).collect()
    }

    /// Stops what goes on of sessions that were left. Gives what must have ended before it has.
    pub(crate) fn stop_old(&mut self) -> Vec<JoinHandle<()>> {
        self.old.drain(..).flat_map(|mut old| old.exchanger.stop()).collect()
    }

    /// Lets the supervisor take in what happened. What it wants done to the session is done here, before anybody else sees that;
    /// the rest is for the owner.
    pub(crate) fn handle(&mut self, now: Time, event: Event, facts: &Facts) -> Vec<Output<Pending>> {
        let mut outputs = vec![];
        self.supervisor.handle(now, event, facts, &mut outputs);
        for output in &outputs {
            match output {
                Output::TimedOut(failure) => self.withdraw(&failure.call, None, "timed out"),
                Output::Settled(epoch, _) => {
                    self.forget_questions(now);
                    if let Some(exchanger) = self.exchanger(*epoch) {
                        exchanger.look();
                    }
                }
                Output::Retired(epoch) => {
                    self.forget_questions(now);
                    if let Some(session) = self.session_of(*epoch) {
                        session.forgotten = true;
                    }
                }
                Output::Hangup(epoch, manner, ladder) => {
                    drop(self.hang_up(now, *epoch, *manner, *ladder));
                }
                Output::Abandon(_) => {
                    self.session = None;
                    self.unblock(now);
                }
                _ => {}
            }
        }
        outputs
    }

    /// The calls of this session whose exchange is open; none where they share a pipe.
    pub(crate) fn exchanges(&mut self, epoch: Epoch) -> Option<BTreeSet<CallId>> {
        self.exchanger(epoch).map(|exchanger| exchanger.calls().collect())
    }

    /// Whether a call on this session became a task, which may run on.
    pub(crate) fn has_task(&self, epoch: Epoch) -> bool {
        self.task_on == Some(epoch)
    }

    /// A stream was acknowledged, or has ended.
    pub(crate) fn stream_changed(&self) {
        if let Some(session) = &self.session {
            session.signals.acknowledged.notify_one();
        }
    }

    /// How many bytes of its input the server of this epoch can have read.
    pub(crate) fn read_of(&self, epoch: Epoch) -> u64 {
        match (&self.session, self.read) {
            (Some(Session { epoch: of, way: Some(Way::Pipe(writer)), .. }), _) if *of == epoch => {
                writer.accepted().saturating_sub(writer.stream().unread().unwrap_or(0))
            }
            (_, Some((of, read))) if of == epoch => read,
            _ => u64::MAX,
        }
    }

    /// From here on nothing is written to the session, its questions need no answer, and its end is no news. Gives what
    /// ends it.
    pub(crate) fn hang_up(
        &mut self,
        now: Time,
        epoch: Epoch,
        manner: Manner,
        ladder: Ladder,
    ) -> Option<(Arc<dyn Process>, Arc<Signals>)> {
        let queued =
            |session: &mut Session| matches!(&session.way, Some(Way::Pipe(writer)) if writer.queued() > 0);
        let writes_out = manner.writes_out() && self.session_of(epoch).is_some_and(queued);
        if manner.closes_input() && !writes_out {
            self.close_input(epoch);
        }
        self.forget_questions(now);
        self.session_of(epoch).map(|session| {
            session.hung_up = true;
            session.writes_out = writes_out;
            session.grace = session.grace.min(ladder.kill_after);
            (session.process.clone(), session.signals.clone())
        })
    }

    /// The pump has written all there was, to a session that may be waiting for that.
    pub(crate) fn written_out(&mut self, epoch: Epoch) {
        if self.session_of(epoch).is_some_and(|session| session.writes_out) {
            self.close_input(epoch);
        }
    }

    /// Closes the server's input, and keeps in mind what it can have read.
    pub(crate) fn close_input(&mut self, epoch: Epoch) {
        let read = self.read_of(epoch);
        if let Some(session) = self.session_of(epoch)
            && matches!(session.way, Some(Way::Pipe(_)))
        {
            session.way = None;
            self.read = Some((epoch, read));
        }
    }

    /// A call has ended without an answer: the server is told to stop, or never told to start.
    pub(crate) fn withdraw(&mut self, ended: &Ended<Pending>, notification: Option<&Frame>, reason: &str) {
        if let Some(old) = self.old.iter_mut().find(|old| ended.epoch == Some(old.epoch)) {
            return old.exchanger.abort(ended.id); // Nobody knows its session who could be told more.
        }
        if ended.delivery == Delivery::NotSent {
            // Also where we are ending the session: its exchanges go on for a moment, and this one must not leave.
            match self.session.as_mut().and_then(|session| session.way.as_mut()) {
                Some(Way::Pipe(writer)) => writer.revoke(Some(ended.id)),
                Some(Way::Exchanges(exchanger)) => exchanger.abort(ended.id),
                None => {}
            }
            return;
        }
        if let Some(Way::Exchanges(exchanger)) = self.session.as_mut().and_then(Session::input) {
            exchanger.abort(ended.id);
            if exchanger.closing_cancels() {
                return;
            }
        }
        // Nobody may cancel a handshake.
        if ended.epoch.is_none() || ended.reply.request.method() == Some("initialize") {
            return;
        }
        let id = RawId::from(ended.id.0);
        let line = match notification {
            Some(notification) => notification.with_request_id(&id),
            None => {
                let params = format!("{{\"requestId\":{id},\"reason\":\"{reason}\"}}");
                frame::notification("notifications/cancelled", Some(params.as_bytes()))
            }
        };
        self.write(None, line);
    }

    /// A call became a task: its progress goes on after its answer.
    pub(crate) fn remember_task(&mut self, epoch: Epoch, request: &Frame) {
        self.task_on = Some(epoch);
        let Some(token) = request.meta_progress_token() else { return };
        if self.task_tokens.len() == TASK_TOKENS {
            self.task_tokens.pop_front();
        }
        self.task_tokens.push_back(Bytes::copy_from_slice(token));
    }

    /// Progress: the call has more time. Says whether anybody still waits for it.
    pub(crate) fn progress(&mut self, now: Time, token: &[u8]) -> bool {
        match self.supervisor.ledger.find(|pending| pending.request.meta_progress_token() == Some(token)) {
            Some(id) => {
                self.supervisor.ledger.extend(now, id);
                true
            }
            None => self.task_tokens.iter().any(|known| known == token),
        }
    }

    pub(crate) fn question(&mut self, now: Time, id: RawId, open: bool) {
        if open {
            // One is enough for the clock to stand.
            if self.questions.len() < MAX_QUESTIONS {
                self.questions.insert(id);
            }
        } else {
            self.questions.remove(&id);
        }
        self.set_clock(now);
    }

    /// A reader of this session stands still, or goes on.
    pub(crate) fn set_blocked(&mut self, now: Time, epoch: Epoch, blocked: bool) {
        if self.session_of(epoch).is_some() {
            self.blocked = if blocked { self.blocked + 1 } else { self.blocked.saturating_sub(1) };
            self.set_clock(now);
        }
    }

    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked > 0
    }

    /// A new session: the readers of an abandoned one cannot say any more that they go on.
    pub(crate) fn unblock(&mut self, now: Time) {
        self.blocked = 0;
        self.set_clock(now);
    }

    /// Nobody can answer the session's questions any more.
    pub(crate) fn forget_questions(&mut self, now: Time) {
        self.questions.clear();
        self.set_clock(now);
    }

    fn set_clock(&mut self, now: Time) {
        match self.is_blocked() || !self.questions.is_empty() {
            true => self.supervisor.ledger.stop_clock(now),
            false => self.supervisor.ledger.start_clock(now),
        }
    }
}
