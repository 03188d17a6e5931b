//! What callers, reader and owner of a connection share: the ledger and the live session, behind one short lock.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{
    Admission, CallId, Delivery, Ended, Epoch, Fault, Ladder, Ledger, Manner, Nature, Orderer, Policy, Pulse,
    Refusal, Step, Time, ToolSafety,
};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::call::{Caller, Outcome, Pending, Reply};
use crate::error::{CallError, ErrorKind, Outlook};
use crate::frame::{self, Frame, RawId};
use crate::handshake::Handshake;
use crate::inbox::Inbox;
use crate::mask::Mask;
use crate::memory::{Greeting, Memory};
use crate::notice::Oddities;
use crate::transport::{Input, Process};
use crate::writer::Writer;

/// What does not change over the life of a connection.
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Policy,
    pub(crate) max_line: usize,
    pub(crate) mask: Mask,
    pub(crate) stderr_in_errors: bool,
    pub(crate) is_safe_tool: Option<IsSafeTool>,
}

/// Whether the operator declared a tool safe to repeat.
pub(crate) type IsSafeTool = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What the parts of a connection share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) inbox: Arc<dyn Inbox>,
    began: Instant,
    desk: Mutex<Desk>,
    memory: Mutex<Memory>,
    /// Wakes the owner.
    pub(crate) wake: Notify,
    heard: AtomicU64,
    pub(crate) handshake: Handshake,
}

/// What happened, for the owner.
#[derive(Debug, PartialEq)]
pub(crate) enum News {
    Start,
    Opened(Epoch),
    Begun(Epoch, Step),
    Connected(Epoch),
    Lost(Epoch, Fault),
    /// Nothing is left of the epoch; how its process ended, if it had one, and how many helpers outside its group did.
    Gone(Epoch, Option<crate::transport::Ended>, usize),
    /// A call that was taken at this time.
    Cancelled(Epoch, Time),
    ProbeRefused(Epoch),
    Reconnect(Orderer),
    Drain,
    Close(Manner),
}

/// Behind the lock.
pub(crate) struct Desk {
    pub(crate) ledger: Ledger<Pending>,
    pub(crate) session: Option<Session>,
    pub(crate) news: VecDeque<News>,
    /// When the owner wakes by itself.
    pub(crate) armed: Option<Time>,
    /// How many calls the status says are pending.
    pub(crate) shown: usize,
    pub(crate) oddities: Oddities,
    /// How much of its input the last session can have read, once that is closed.
    pub(crate) read: Option<(Epoch, u64)>,
    /// Questions to a person; deadlines stand still while there are any.
    questions: HashSet<RawId>,
    /// The client does not read, so neither do we; deadlines stand still.
    blocked: bool,
    /// Tokens of calls that became tasks: their progress goes on after the answer.
    task_tokens: VecDeque<Bytes>,
}

/// One live exchange with the server.
pub(crate) struct Session {
    pub(crate) epoch: Epoch,
    /// None once we have closed the server's input. See [`Session::input`].
    pub(crate) writer: Option<Writer<Box<dyn Input>, Option<CallId>>>,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) signals: Arc<Signals>,
    pub(crate) reader: Option<JoinHandle<()>>,
    pub(crate) tasks: Vec<JoinHandle<()>>,
    /// We are ending it: its end is no news.
    pub(crate) hung_up: bool,
    /// Between asking its helpers to end and killing them; shorter when we are in a hurry.
    pub(crate) grace: Duration,
    /// The fault was told.
    pub(crate) lost: bool,
    /// The client itself shook hands with it.
    pub(crate) greeted_by_client: bool,
    /// Lists are being compared with what the client has seen: changes that the server tells meanwhile are kept back.
    pub(crate) kept_back: Option<BTreeSet<String>>,
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
    pub(crate) fn input(&mut self) -> Option<&mut Writer<Box<dyn Input>, Option<CallId>>> {
        self.writer.as_mut().filter(|_| !self.hung_up)
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

impl Shared {
    pub(crate) fn new(settings: Settings, inbox: Arc<dyn Inbox>, greeting: Greeting) -> Shared {
        let handshake = Handshake::new(matches!(greeting, Greeting::ByClient));
        Shared {
            inbox,
            began: Instant::now(),
            desk: Mutex::new(Desk {
                ledger: Ledger::new(settings.policy.clone()),
                session: None,
                news: VecDeque::new(),
                armed: None,
                shown: 0,
                oddities: Oddities::default(),
                read: None,
                questions: HashSet::new(),
                blocked: false,
                task_tokens: VecDeque::new(),
            }),
            settings,
            memory: Mutex::new(Memory::new(greeting)),
            wake: Notify::new(),
            heard: AtomicU64::new(0),
            handshake,
        }
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.began + Duration::from_millis(time.as_millis())
    }

    // A panic is caught at the message that caused it, between whole changes, so the state is sound.
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, news: News) {
        self.desk().tell(news);
        self.wake.notify_one();
    }

    /// A person is asked, or has answered.
    pub(crate) fn question(&self, id: RawId, open: bool) {
        self.desk().question(self.now(), id, open);
        self.wake.notify_one(); // Deadlines that stood still are near again.
    }

    /// The client does not read, or reads again.
    pub(crate) fn set_blocked(&self, blocked: bool) {
        self.desk().set_blocked(self.now(), blocked);
        self.wake.notify_one();
    }

    /// The session ended, and not because we wanted it. Its first fault counts.
    pub(crate) fn lost(&self, epoch: Epoch, fault: Fault) {
        let mut desk = self.desk();
        if let Some(session) = desk.session_of(epoch)
            && !session.hung_up
            && !std::mem::replace(&mut session.lost, true)
        {
            desk.news.push_back(News::Lost(epoch, fault));
            drop(desk);
            self.wake.notify_one();
        }
    }

    /// Something was read from the server.
    pub(crate) fn hear(&self) {
        self.heard.store(self.now().as_millis(), Ordering::Relaxed);
    }

    /// What the lifecycle must know about the session of this epoch; counts the calls that it may have seen.
    pub(crate) fn pulse(&self, epoch: Epoch) -> Pulse {
        let desk = self.desk();
        let heard = match desk.blocked {
            true => self.now(), // Its silence is our own doing.
            false => Time::from_millis(self.heard.load(Ordering::Relaxed)),
        };
        let read = desk.read_of(epoch);
        Pulse {
            heard,
            calls: desk.ledger.seen(epoch, read),
            eldest: desk.ledger.eldest(epoch),
            answered: desk.ledger.has_answered(epoch),
        }
    }

    /// Takes a call. Its end is told to `reply`.
    pub(crate) fn submit(
        &self,
        request: Frame,
        caller: Caller,
        caller_id: RawId,
        timeout: Option<Duration>,
        reply: Box<dyn Reply>,
    ) {
        let method = request.method().unwrap_or_default();
        let nature = Nature::of(method, self.tool_safety(&request), self.settings.policy.replay);
        let timeout = match nature.is_handshake() {
            true => Some(self.settings.policy.connect_timeout),
            false => timeout,
        };
        self.handshake.note_use(method);
        let bytes = request.bytes().len();
        let pending = Pending { request, reply, caller_id, caller, acknowledged: None };
        let mut desk = self.desk();
        match desk.ledger.admit(self.now(), nature, timeout, bytes, pending) {
            Ok(Admission::Send(epoch, id)) => {
                self.send(&mut desk, epoch, id);
                let earlier = match (desk.ledger.deadline(), desk.armed) {
                    (Some(deadline), Some(armed)) => deadline < armed,
                    (deadline, armed) => deadline.is_some() && armed.is_none(),
                };
                drop(desk);
                if earlier {
                    self.wake.notify_one();
                }
            }
            Ok(Admission::Wait(_)) => {
                drop(desk);
                self.wake.notify_one();
            }
            Err((refusal, pending)) => {
                drop(desk);
                let (kind, outlook) = match refusal {
                    Refusal::Overloaded => (ErrorKind::Overloaded, Outlook::Serving),
                    Refusal::Closed => (ErrorKind::Closed, Outlook::Closed),
                };
                let error = self.error(&pending, kind, Delivery::NotSent, None, None, outlook);
                pending.reply.end(Outcome::Failed(error));
            }
        }
    }

    /// Hands a call of the ledger to the session.
    fn send(&self, desk: &mut Desk, epoch: Epoch, id: CallId) {
        let Some(pending) = desk.ledger.reply(id) else { return };
        let wire_id = RawId::from(id.0);
        let line = match pending.caller {
            Caller::Program => self.memory().envelop(&pending.request, &wire_id),
            Caller::Client | Caller::Own => pending.request.with_id(&wire_id),
        };
        if pending.caller != Caller::Own && self.handshake.is_open() {
            let news = self.greeting_step(epoch, &pending.request);
            desk.news.extend(news);
            self.wake.notify_one();
        }
        desk.write(Some(id), line);
    }

    /// Opens the client's streams on this session.
    pub(crate) fn reopen_streams(&self, epoch: Epoch) -> Vec<CallId> {
        let mut desk = self.desk();
        if !desk.is_live(epoch) {
            return vec![];
        }
        let streams = desk.ledger.dispatch_streams(epoch);
        for &id in &streams {
            self.send(&mut desk, epoch, id);
        }
        streams
    }

    /// Resolves when the server has acknowledged each of these streams on this session, or ended it.
    pub(crate) async fn acknowledged(&self, epoch: Epoch, streams: Vec<CallId>) {
        let Some(signals) = self.desk().session.as_ref().map(|session| session.signals.clone()) else {
            return;
        };
        loop {
            let next = signals.acknowledged.notified();
            let open = {
                let desk = self.desk();
                streams
                    .iter()
                    .all(|&id| desk.ledger.reply(id).is_none_or(|stream| stream.acknowledged == Some(epoch)))
            };
            if open {
                return;
            }
            next.await;
        }
    }

    /// Sessions take calls from now on; those that waited go first.
    pub(crate) fn open(&self, epoch: Epoch) {
        let mut desk = self.desk();
        if !desk.is_live(epoch) {
            return;
        }
        desk.ledger.open(epoch);
        while let Some(id) = desk.ledger.dispatch(epoch) {
            self.send(&mut desk, epoch, id);
        }
        self.wake.notify_one();
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
        let pending =
            Pending { request, reply: Box::new(reply), caller_id, caller: Caller::Own, acknowledged: None };
        let mut desk = self.desk();
        if !desk.is_live(epoch) {
            return end; // Nobody would ever settle it, and another session must not be asked.
        }
        let id = desk.ledger.admit_own(self.now(), epoch, timeout, pending);
        self.send(&mut desk, epoch, id);
        drop(desk);
        self.wake.notify_one(); // Its deadline may be the next.
        end
    }

    /// The server answered. Gives who waits, if this very session owes an answer.
    pub(crate) fn answer(&self, epoch: Epoch, id: CallId, good: bool) -> Option<Pending> {
        let mut desk = self.desk();
        let pending = desk.ledger.answer(epoch, id, good)?;
        // The owner need not hear of every answer; but a drain may wait for this one, and the status may be too high.
        if !desk.ledger.is_open() || desk.ledger.len() < desk.shown {
            self.wake.notify_one();
        }
        Some(pending)
    }

    /// Sends a line that wants no answer to this session, or to whichever is live. Says whether it could.
    pub(crate) fn post(&self, epoch: Option<Epoch>, line: Bytes) -> bool {
        let mut desk = self.desk();
        let session =
            desk.session.as_mut().filter(|session| epoch.is_none_or(|epoch| epoch == session.epoch));
        let fits = session
            .and_then(|session| session.input())
            .is_some_and(|input| input.queued() <= self.settings.policy.max_pending_bytes);
        if fits {
            desk.write(None, line);
        } else {
            desk.oddities.undelivered += 1;
        }
        fits
    }

    /// Ends the newest call for which this holds, without an answer; a call that is not sent yet never is.
    pub(crate) fn cancel(&self, wanted: impl Fn(&Pending) -> bool, notification: Option<&Frame>) -> bool {
        let mut desk = self.desk();
        let Some(id) = desk.ledger.find(wanted) else { return false };
        let Some(ended) = desk.ledger.cancel(id) else { return false };
        desk.withdraw(&ended, notification, "the caller gave up");
        if let Some(epoch) = ended.epoch {
            desk.tell(News::Cancelled(epoch, ended.taken));
        }
        drop(desk);
        self.wake.notify_one();
        true
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
        CallError {
            server: self.settings.name.clone(),
            epoch,
            delivery,
            kind,
            fault,
            outlook,
            repeatable: false,
            tool: pending.tool(),
            stderr: vec![],
        }
    }

    fn tool_safety(&self, request: &Frame) -> ToolSafety {
        if request.method() != Some("tools/call") || request.has_task() {
            return ToolSafety::Unknown;
        }
        let Some(name) = request.name() else { return ToolSafety::Unknown };
        if self.settings.is_safe_tool.as_ref().is_some_and(|is_safe| is_safe(&name)) {
            ToolSafety::Declared
        } else if self.settings.policy.replay == regrow_core::Replay::Hints && self.memory().is_hinted(&name)
        {
            ToolSafety::Hinted
        } else {
            ToolSafety::Unknown
        }
    }
}

impl Desk {
    /// News for the owner. What programs can say as often as they like is kept once, so that it stays few.
    pub(crate) fn tell(&mut self, news: News) {
        match news {
            News::Start | News::Reconnect(_) | News::Drain | News::Close(_) if self.news.contains(&news) => {}
            News::Cancelled(epoch, taken) => {
                let known = self.news.iter_mut().find_map(|known| match known {
                    News::Cancelled(of, eldest) if *of == epoch => Some(eldest),
                    _ => None,
                });
                match known {
                    Some(eldest) => *eldest = taken.min(*eldest),
                    None => self.news.push_back(News::Cancelled(epoch, taken)),
                }
            }
            news => self.news.push_back(news),
        }
    }

    /// The session, if it is that of this epoch.
    pub(crate) fn session_of(&mut self, epoch: Epoch) -> Option<&mut Session> {
        self.session.as_mut().filter(|session| session.epoch == epoch)
    }

    /// Whether this is the session that we have, and we are not ending it.
    fn is_live(&self, epoch: Epoch) -> bool {
        self.session.as_ref().is_some_and(|session| session.epoch == epoch && !session.hung_up)
    }

    /// Writes a line to the session: here and now if the stream takes it.
    pub(crate) fn write(&mut self, key: Option<CallId>, line: Bytes) {
        let Desk { ledger, session: Some(session), .. } = self else { return };
        let Some(input) = session.input() else { return };
        match input.push(key, line, |key, at| key.into_iter().for_each(|id| ledger.sent(id, at))) {
            Ok(false) => {}
            Ok(true) => session.signals.pump.notify_one(),
            Err(_) => session.signals.broken.notify_one(),
        }
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
            (Some(Session { epoch: of, writer: Some(writer), .. }), _) if *of == epoch => {
                writer.accepted().saturating_sub(writer.stream().unread().unwrap_or(0))
            }
            (_, Some((of, read))) if of == epoch => read,
            _ => u64::MAX,
        }
    }

    /// From here on nothing is written to the session, and its end is no news. Gives what ends it.
    pub(crate) fn hang_up(
        &mut self,
        epoch: Epoch,
        manner: Manner,
        ladder: Ladder,
    ) -> Option<(Arc<dyn Process>, Arc<Signals>)> {
        if manner.closes_input() {
            self.close_input(epoch);
        }
        self.session_of(epoch).map(|session| {
            session.hung_up = true;
            session.grace = session.grace.min(ladder.kill_after);
            (session.process.clone(), session.signals.clone())
        })
    }

    /// Closes the server's input, and keeps in mind what it can have read.
    pub(crate) fn close_input(&mut self, epoch: Epoch) {
        let read = self.read_of(epoch);
        if let Some(session) = self.session_of(epoch)
            && session.writer.take().is_some()
        {
            self.read = Some((epoch, read));
        }
    }

    /// A call has ended without an answer: the server is told to stop, or never told to start.
    pub(crate) fn withdraw(&mut self, ended: &Ended<Pending>, notification: Option<&Frame>, reason: &str) {
        if ended.delivery == Delivery::NotSent {
            if let Some(input) = self.session.as_mut().and_then(Session::input) {
                input.revoke(Some(ended.id));
            }
            return;
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
    pub(crate) fn remember_task(&mut self, request: &Frame) {
        let Some(token) = request.meta_progress_token() else { return };
        if self.task_tokens.len() == TASK_TOKENS {
            self.task_tokens.pop_front();
        }
        self.task_tokens.push_back(Bytes::copy_from_slice(token));
    }

    /// Progress: the call has more time. Says whether anybody still waits for it.
    pub(crate) fn progress(&mut self, now: Time, token: &[u8]) -> bool {
        match self.ledger.find(|pending| pending.request.meta_progress_token() == Some(token)) {
            Some(id) => {
                self.ledger.extend(now, id);
                true
            }
            None => self.task_tokens.iter().any(|known| known == token),
        }
    }

    fn question(&mut self, now: Time, id: RawId, open: bool) {
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

    pub(crate) fn set_blocked(&mut self, now: Time, blocked: bool) {
        self.blocked = blocked;
        self.set_clock(now);
    }

    /// The session and its questions are gone.
    pub(crate) fn forget_questions(&mut self, now: Time) {
        self.questions.clear();
        self.set_clock(now);
    }

    fn set_clock(&mut self, now: Time) {
        match self.blocked || !self.questions.is_empty() {
            true => self.ledger.stop_clock(now),
            false => self.ledger.start_clock(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Queue;

    fn shared() -> Shared {
        let settings = Settings {
            name: "fake".into(),
            policy: Policy::default(),
            max_line: 1 << 20,
            mask: Mask::default(),
            stderr_in_errors: false,
            is_safe_tool: None,
        };
        Shared::new(settings, Arc::new(Queue::new()), Greeting::ByClient)
    }

    #[test]
    fn what_programs_may_say_in_a_loop_does_not_pile_up() {
        let shared = shared();
        for millis in 0..1000 {
            shared.tell(News::Start);
            shared.tell(News::Reconnect(Orderer::Program));
            shared.tell(News::Cancelled(Epoch(1), Time::from_millis(1000 - millis)));
            shared.tell(News::Close(Manner::Planned));
        }
        let desk = shared.desk();
        assert_eq!(desk.news.len(), 4);
        let eldest = News::Cancelled(Epoch(1), Time::from_millis(1));
        assert!(desk.news.contains(&eldest), "a doubt is raised by the one that waited longest");
    }
}
