//! What the parts of a connection share, and the way of a call through it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{
    Admission, CallId, Delivery, Epoch, Event, Facts, Failure, Fault, Missed, Nature, Outlook, Policy,
    Ruling, Time, ToolSafety, timeout_of,
};
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::version::Era;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::handshake::Handshake;
use super::memory::{Greeting, Memory};
use super::state::{Desk, News};
use crate::call::{Caller, Outcome, Pending, Request, shielded};
use crate::eras::EraFile;
use crate::error::{CallError, ErrorKind};
use crate::inbox::{Inbox, Incoming};
use crate::mask::Mask;

/// Which errors carry the last lines of a server's stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastWords {
    Never,
    /// Those of a failed start: they tell the cause.
    AtStart,
    Always,
}

/// What does not change over the life of a connection.
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    pub(crate) policy: Policy,
    pub(crate) max_line: usize,
    pub(crate) mask: Mask,
    pub(crate) last_words: LastWords,
    pub(crate) is_safe_tool: Option<IsSafeTool>,
    /// The era that was asked for.
    pub(crate) era: Era,
    /// Where the era of the server, known by this address, is remembered over starts.
    pub(crate) era_file: Option<(EraFile, String)>,
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
    /// How many messages were read from the server.
    read: AtomicU64,
    pub(crate) handshake: Handshake,
    /// We greet the server ourselves, also where a client does.
    pub(crate) greets: bool,
}

impl Shared {
    pub(crate) fn new(settings: Settings, inbox: Arc<dyn Inbox>, greeting: Greeting, seed: u64) -> Shared {
        let greets = !matches!(greeting, Greeting::ByClient);
        let handshake = Handshake::new(!greets);
        Shared {
            inbox,
            began: Instant::now(),
            desk: Mutex::new(Desk::new(settings.policy.clone(), seed)),
            settings,
            memory: Mutex::new(Memory::new(greeting)),
            wake: Notify::new(),
            heard: AtomicU64::new(0),
            read: AtomicU64::new(0),
            handshake,
            greets,
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

    pub(crate) fn tell(&self, news: impl Into<News>) {
        self.desk().tell(news.into());
        self.wake.notify_one();
    }

    /// A person is asked, or has answered.
    pub(crate) fn question(&self, id: RawId, open: bool) {
        self.desk().question(self.now(), id, open);
        self.wake.notify_one(); // Deadlines that stood still are near again.
    }

    /// The client does not read, or reads again.
    pub(crate) fn set_blocked(&self, epoch: Epoch, blocked: bool) {
        self.desk().set_blocked(self.now(), epoch, blocked);
        self.wake.notify_one();
    }

    /// The session ended, and not because we wanted it. Its first fault counts.
    pub(crate) fn lost(&self, epoch: Epoch, fault: Fault) {
        let mut desk = self.desk();
        if let Some(session) = desk.session_of(epoch)
            && !session.hung_up
            && !std::mem::replace(&mut session.lost, true)
        {
            desk.tell(Event::Lost(epoch, fault).into());
            drop(desk);
            self.wake.notify_one();
        }
    }

    /// Hands a message of the server to the client.
    pub(crate) fn hand_on(&self, incoming: Incoming) {
        if !self.inbox.take(incoming) {
            self.desk().oddities.undelivered += 1;
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

    /// What the supervisor must know of the newest session.
    pub(crate) fn facts(&self, desk: &mut Desk) -> Facts {
        let epoch = desk.supervisor.lifecycle().epoch();
        let heard = match desk.is_blocked() {
            true => self.now(), // Its silence is our own doing.
            false => Time::from_millis(self.heard.load(Ordering::Relaxed)),
        };
        let memory = self.memory();
        Facts {
            heard,
            messages: self.read.load(Ordering::Relaxed),
            read: desk.read_of(epoch),
            exchanges: desk.exchanges(epoch),
            knows_era: memory.is_modern(),
            listening: memory.is_subscribed() || desk.has_task(epoch),
        }
    }

    fn nature(&self, request: &Frame) -> Nature {
        let method = request.method().unwrap_or_default();
        Nature::of(method, self.tool_safety(request), self.settings.policy.replay)
    }

    /// How long a request of this method may take.
    pub(crate) fn time_for(&self, method: &str) -> Option<Duration> {
        timeout_of(method, &self.settings.policy)
    }

    /// Takes a call.
    pub(crate) fn submit(&self, request: Request, caller: Caller, timeout: Option<Duration>) {
        let Request { frame: request, id: caller_id, reply, since } = request;
        let method = request.method().unwrap_or_default();
        let nature = self.nature(&request);
        self.handshake.note_use(method);
        let greets = method == "initialize";
        let bytes = request.bytes().len();
        let pending = Pending::new(request, reply, caller_id, caller);
        let mut desk = self.desk();
        if greets {
            desk.notes.forget_initialized();
        }
        match desk.supervisor.ledger.admit(self.now(), since.elapsed(), nature, timeout, bytes, pending) {
            Ok(Admission::Send(epoch, id)) => {
                desk.supervisor.note_deadline(self.now());
                let answered = self.send(&mut desk, epoch, id);
                let oversleeps = desk.supervisor.oversleeps();
                drop(desk);
                if oversleeps {
                    self.wake.notify_one();
                }
                answered.into_iter().for_each(tell_answer);
            }
            Ok(Admission::Wait(_)) => {
                desk.supervisor.note_deadline(self.now());
                drop(desk);
                self.wake.notify_one();
            }
            Err((refusal, pending)) => {
                drop(desk);
                let (kind, outlook) = refusal.told();
                let error = self.error(&pending, kind.into(), Delivery::NotSent, None, None, outlook);
                pending.reply.end(Outcome::Failed(error));
            }
        }
    }

    /// Hands a call of the ledger to the session. Gives it back with its answer where we know that ourselves: to be told when the
    /// desk is free again.
    #[must_use]
    fn send(&self, desk: &mut Desk, epoch: Epoch, id: CallId) -> Option<(Pending, Frame)> {
        let pending = desk.supervisor.ledger.reply(id)?;
        let wire_id = RawId::from(id.0);
        if pending.caller == Caller::Client
            && let Some(answer) = self.own_welcome(&pending.request)
        {
            return desk.supervisor.ledger.answer(epoch, id, true).map(|pending| (pending, answer));
        }
        let line = match pending.caller {
            Caller::Program => self.memory().envelop(&pending.request, &wire_id),
            Caller::Client | Caller::Own => pending.request.with_id(&wire_id),
        };
        if pending.caller != Caller::Own && self.handshake.is_open() {
            let news = self.greeting_step(epoch, &pending.request);
            desk.news.extend(news.map(News::Event));
            self.wake.notify_one();
        }
        desk.write(Some(id), line);
        None
    }

    /// A client greets a server that we have greeted for it.
    fn own_welcome(&self, request: &Frame) -> Option<Frame> {
        let handshake = matches!(request.method(), Some("initialize" | "server/discover"));
        if !handshake || !self.greets {
            return None;
        }
        let welcome = self.memory().welcome.clone()?;
        Frame::parse(frame::response(&RawId::from(0), &welcome.result)).ok()
    }

    /// Opens the client's streams on this session.
    pub(crate) fn reopen_streams(&self, epoch: Epoch) -> Vec<CallId> {
        let mut desk = self.desk();
        if !desk.is_live(epoch) {
            return vec![];
        }
        let streams = desk.supervisor.ledger.dispatch_streams(epoch);
        for &id in &streams {
            let answered = self.send(&mut desk, epoch, id);
            debug_assert!(answered.is_none(), "a stream is no handshake");
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
                streams.iter().all(|&id| {
                    desk.supervisor.ledger.reply(id).is_none_or(|stream| stream.acknowledged == Some(epoch))
                })
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
        if desk.is_live(epoch) && desk.supervisor.ledger.open(epoch) {
            self.dispatch(desk, epoch);
        }
    }

    /// The calls that wait go to this session, if it still takes calls.
    pub(crate) fn dispatch(&self, mut desk: MutexGuard<'_, Desk>, epoch: Epoch) {
        let mut answered = vec![];
        if desk.supervisor.ledger.open_session() != Some(epoch) || !desk.is_live(epoch) {
            return;
        }
        loop {
            let before = desk.supervisor.ledger.next_arrival();
            desk.write_notes(epoch, before);
            let Some(id) = desk.supervisor.ledger.dispatch(epoch) else { break };
            answered.extend(self.send(&mut desk, epoch, id));
        }
        drop(desk);
        self.wake.notify_one();
        answered.into_iter().for_each(tell_answer);
    }

    /// What it means that a message was refused as if the server did not know the session.
    pub(crate) fn rule(&self, epoch: Epoch, call: Option<CallId>) -> Ruling {
        let ledger = &mut self.desk().supervisor.ledger;
        let is_ping = |call: &Pending| call.caller == Caller::Own && call.request.method() == Some("ping");
        match call.and_then(|id| ledger.reply(id)).is_some_and(is_ping) {
            true => ledger.rule_ping(epoch),
            false => ledger.rule(epoch, call),
        }
    }

    /// The exchange of this call ended without an answer.
    pub(crate) fn missed(&self, epoch: Epoch, id: CallId, fault: &Fault) {
        let mut desk = self.desk();
        let missed = desk.supervisor.miss(self.now(), epoch, id, fault);
        match missed {
            Some(Missed::Kept { dispatch: Some(next) }) => self.dispatch(desk, next),
            _ => drop(desk),
        }
        self.wake.notify_one(); // A pause ends some time, or a drain waits for this call.
        if let Some(Missed::Over(failure)) = missed {
            self.fail(failure, vec![]);
        }
    }

    /// Tells a caller that there is no answer, with what the server said on stderr.
    pub(crate) fn fail(&self, failure: Failure<Pending>, stderr: Vec<String>) {
        let Failure { call, kind, fault, outlook } = failure;
        if call.refused {
            return shielded(|| call.reply.reply.end(Outcome::Refused));
        }
        let error = self.error(&call.reply, kind.into(), call.delivery, call.epoch, fault, outlook);
        let repeatable = call.nature != Nature::Effect;
        let error = CallError { repeatable, attempts: call.attempts, stderr, ..error };
        shielded(|| call.reply.reply.end(Outcome::Failed(error)));
    }

    /// Carries a message that wants no answer, and resolves when the server has it; on a pipe that is at once.
    pub(crate) async fn deliver(&self, epoch: Epoch, line: Bytes) -> Result<(), Fault> {
        let carried = {
            let mut desk = self.desk();
            let (done, carried) = oneshot::channel();
            match desk.is_live(epoch).then(|| desk.exchanger(epoch)).flatten() {
                Some(exchanger) => {
                    exchanger.start(None, line, Some(done));
                    carried
                }
                None => {
                    desk.write(None, line);
                    return Ok(());
                }
            }
        };
        match carried.await {
            Ok(Err(fault)) => Err(fault),
            Ok(Ok(_)) | Err(_) => Ok(()), // Or the session is gone, and whoever ended it tells why.
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
        let mut desk = self.desk();
        if !desk.is_live(epoch) {
            return end; // Nobody would ever settle it, and another session must not be asked.
        }
        let id = desk.supervisor.ledger.admit_own(self.now(), epoch, timeout, pending);
        desk.supervisor.note_deadline(self.now());
        let answered = self.send(&mut desk, epoch, id);
        debug_assert!(answered.is_none(), "we do not answer ourselves");
        drop(desk);
        self.wake.notify_one(); // Its deadline may be the next.
        end
    }

    /// The server answered. Gives who waits, if this very session owes an answer.
    pub(crate) fn answer(&self, epoch: Epoch, id: CallId, good: bool) -> Option<Pending> {
        let mut desk = self.desk();
        let pending = desk.supervisor.ledger.answer(epoch, id, good)?;
        // The owner need not hear of every answer; but a drain may wait for this one, and the status may be too high.
        if !desk.supervisor.ledger.is_open() || desk.supervisor.ledger.len() < desk.shown {
            self.wake.notify_one();
        }
        Some(pending)
    }

    /// Sends a line that wants no answer to this session, or to whichever is live. Says whether it could.
    pub(crate) fn post(&self, epoch: Option<Epoch>, line: Bytes) -> bool {
        self.post_on(&mut self.desk(), epoch, line)
    }

    pub(crate) fn post_on(&self, desk: &mut Desk, epoch: Option<Epoch>, line: Bytes) -> bool {
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
        let Some(id) = desk.supervisor.ledger.find(wanted) else { return false };
        let Some(ended) = desk.supervisor.ledger.cancel(id) else { return false };
        desk.withdraw(&ended, notification, "the caller gave up");
        if let Some(epoch) = ended.epoch {
            desk.tell(Event::Cancelled(epoch, ended.taken).into());
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
            attempts: 0,
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

fn tell_answer((pending, answer): (Pending, Frame)) {
    shielded(|| pending.reply.end(Outcome::Answered(answer)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inbox::Queue;
    use regrow_core::{Manner, Orderer};

    fn shared() -> Shared {
        let settings = Settings {
            name: "fake".into(),
            policy: Policy::default(),
            max_line: 1 << 20,
            mask: Mask::default(),
            last_words: LastWords::AtStart,
            is_safe_tool: None,
            era: Era::Auto,
            era_file: None,
        };
        Shared::new(settings, Arc::new(Queue::new()), Greeting::ByClient, 0)
    }

    #[test]
    fn what_programs_may_say_in_a_loop_does_not_pile_up() {
        let shared = shared();
        for millis in 0..1000 {
            shared.tell(Event::Start);
            shared.tell(Event::Rest);
            shared.tell(Event::ResetBudget);
            shared.tell(Event::Reconnect(Orderer::Program));
            shared.tell(Event::Cancelled(Epoch(1), Time::from_millis(1000 - millis)));
            shared.tell(Event::Close(Manner::Planned));
        }
        let desk = shared.desk();
        assert_eq!(desk.news.len(), 6);
        let eldest = News::Event(Event::Cancelled(Epoch(1), Time::from_millis(1)));
        assert!(desk.news.contains(&eldest), "a doubt is raised by the one that waited longest");
    }

    #[test]
    fn of_orders_that_undo_each_other_the_last_one_counts() {
        let shared = shared();
        for order in [Event::Park, Event::Wake, Event::Park] {
            shared.tell(order);
        }
        assert_eq!(shared.desk().news, [Event::Wake, Event::Park].map(News::Event));
    }
}
