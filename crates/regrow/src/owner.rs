//! Drives a lifecycle: reports what happened, starts what must be done, and awaits in one place.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use regrow_core::{
    Again, CallId, Effect, Ended, Epoch, Event, Fault, Grace, Ladder, Lifecycle, Manner, Nature,
    Notice as What, State, Time,
};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};

use crate::call::{Caller, Outcome, Pending, shielded};
use crate::compare;
use crate::desk::News;
use crate::error::{ErrorKind, Outlook};
use crate::notice::{Notice, Status};
use crate::probe;
use crate::restore;
use crate::shared::{LastWords, Shared};
use crate::transport::{self, Transport};

/// The lines of stderr that an error carries at most: of the first,
const FIRST_LINES: usize = 5;
/// and of the last.
const LAST_LINES: usize = 10;
/// What the helpers of a stubborn server get to end by themselves.
const MOMENT: Duration = Duration::from_millis(100);
/// How long the reader of an ended process may take to read what is left.
const READER_ENDS: Duration = Duration::from_secs(1);

/// What it took to close a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Farewell {
    /// How the last process ended, if one was running.
    pub ended: Option<transport::Ended>,
    /// How many helpers outside its group had to be ended.
    pub helpers: usize,
    /// Whether a process could not be ended in time.
    pub abandoned: bool,
}

pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) notices: broadcast::Sender<Arc<Notice>>,
    pub(crate) farewell: watch::Sender<Option<Farewell>>,
    attempt: Option<JoinHandle<()>>,
    hangup: Option<JoinHandle<()>>,
    last_fault: Option<Arc<Fault>>,
    /// Why there is no session; none where we meant it so, or nothing is known yet.
    cause: Option<Arc<Fault>>,
    /// What the server said on stderr before it failed to start.
    last_words: Vec<String>,
    sessions: u64,
    /// A pause began, and observers have not been told how long it is.
    pausing: bool,
    /// When we meant to wake at the latest. A deadline that was over before we knew of it is not late.
    awaited: Option<Time>,
    /// Whether we woke too late.
    grace: Grace,
    bye: Farewell,
}

impl Owner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        transport: Arc<dyn Transport>,
        lifecycle: Lifecycle,
        status: watch::Sender<Status>,
        notices: broadcast::Sender<Arc<Notice>>,
        farewell: watch::Sender<Option<Farewell>>,
    ) -> Owner {
        Owner {
            shared,
            transport,
            lifecycle,
            status,
            notices,
            farewell,
            attempt: None,
            hangup: None,
            last_fault: None,
            cause: None,
            last_words: vec![],
            sessions: 0,
            pausing: false,
            awaited: None,
            grace: Grace::default(),
            bye: Farewell::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mending = tokio::spawn(mending(self.shared.clone(), self.transport.clone()));
        while !self.lifecycle.is_closed() {
            self.next().await;
            let news: Vec<News> = self.shared.desk().news.drain(..).collect();
            for news in news {
                if let Some(event) = self.event(news) {
                    self.step(event);
                }
            }
            self.look();
            self.tell_pause();
            self.publish();
        }
        mending.abort();
        let old = self.shared.desk().stop_old();
        for task in old {
            let _ = task.await; // Stopped, or done; either way nothing of it runs.
        }
        shielded(|| self.shared.inbox.over());
        self.farewell.send_replace(Some(self.bye.clone()));
    }

    /// Waits until there is news, or a deadline has come.
    async fn next(&mut self) {
        let deadline = {
            let now = self.shared.now();
            let mut desk = self.shared.desk();
            let deadlines = [self.lifecycle.deadline(), desk.ledger.deadline(), desk.ledger.pause_ends()];
            desk.armed = deadlines.into_iter().flatten().min().max(self.grace.until());
            self.awaited = desk.armed.map(|armed| armed.max(now));
            if !desk.news.is_empty() {
                return;
            }
            desk.armed
        };
        match deadline {
            Some(deadline) => tokio::select! {
                () = self.shared.wake.notified() => {}
                () = sleep_until(self.shared.instant(deadline)) => {}
            },
            None => self.shared.wake.notified().await,
        }
    }

    /// What news mean to the lifecycle, if anything.
    fn event(&mut self, news: News) -> Option<Event> {
        Some(match news {
            News::Unheard(epoch) => {
                tokio::spawn(compare::catch_up(self.shared.clone(), epoch));
                return None;
            }
            News::Start => Event::Start,
            News::Opened(epoch) => Event::Opened(epoch),
            News::Begun(epoch, step) => Event::Begun(epoch, step),
            News::Connected(epoch) => Event::Connected(epoch),
            News::Lost(epoch, fault) => Event::Lost(epoch, fault, self.shared.pulse(epoch)),
            News::Gone(epoch, ended, helpers) => {
                let disorder = ended.as_ref().and_then(|ended| ended.disorder()).cloned();
                if self.lifecycle.is_closing() && epoch == self.lifecycle.epoch() {
                    self.bye.ended = ended;
                    self.bye.helpers = helpers;
                }
                Event::Gone(epoch, disorder)
            }
            News::Cancelled(epoch, taken) => Event::Cancelled(epoch, taken, self.shared.pulse(epoch)),
            News::Doubted(epoch) => Event::Doubted(epoch, self.shared.pulse(epoch)),
            News::ProbeFailed(epoch, fault) => {
                let pulse = self.shared.pulse(epoch);
                Event::ProbeFailed(epoch, fault, pulse)
            }
            News::ProbeAnswered(epoch, asked) => Event::ProbeAnswered(epoch, asked, self.shared.pulse(epoch)),
            News::ProbeRefused(epoch) => Event::ProbeRefused(epoch),
            News::Mended => Event::Mended,
            News::Reconnect(orderer) => Event::Reconnect(orderer, self.shared.pulse(self.lifecycle.epoch())),
            News::Rest => self.rest(),
            News::Park => Event::Park(self.shared.pulse(self.lifecycle.epoch())),
            News::Wake => Event::Wake,
            News::ResetBudget => Event::ResetBudget,
            News::Drain => Event::Drain,
            News::Close(manner) => Event::Close(manner),
        })
    }

    /// Asks for a rest. Where that will be granted, no call may slip in before the session is held.
    fn rest(&self) -> Event {
        let epoch = self.lifecycle.epoch();
        let pulse = self.shared.pulse(epoch);
        let mut desk = self.shared.desk();
        let subscribed = self.shared.memory().is_subscribed();
        let ties = desk.ties(epoch, subscribed);
        if self.lifecycle.may_rest(ties) {
            desk.ledger.hold(epoch);
        }
        Event::Rest(ties, pulse)
    }

    fn step(&mut self, event: Event) {
        let now = self.shared.now();
        let starting = matches!(self.lifecycle.state(), State::Connecting { .. });
        let effects = self.lifecycle.step(now, event);
        for effect in &effects {
            if let Effect::Notice(What::Fault(_, fault, _) | What::Retired(_, fault)) = effect {
                self.hear_last_words(fault, starting);
            }
        }
        if self.lifecycle.is_closing() {
            // Before the calls that wait are failed: none may come after.
            self.shared.desk().ledger.close();
        }
        for effect in effects {
            self.start(now, effect);
        }
    }

    /// What follows from the time and from the ledger, rather than from news.
    fn look(&mut self) {
        let now = self.shared.now();
        let due = self.shared.desk().due.take();
        // Nobody is told that nothing came before what came is read.
        if self.grace.is_over(now, self.awaited.into_iter().chain(due).min()) {
            if self.lifecycle.deadline().is_some_and(|deadline| deadline <= now) {
                let pulse = self.shared.pulse(self.lifecycle.epoch());
                self.step(Event::Tick(pulse));
            }
            self.expire(now);
        }
        let epoch = self.lifecycle.epoch();
        self.shared.end_pauses(epoch);
        let (waiting, in_flight) = {
            let desk = self.shared.desk();
            let in_flight = match self.lifecycle.is_closing() {
                true => desk.ledger.in_flight_anywhere(),
                false => desk.ledger.in_flight(epoch), // What runs on sessions before it runs on.
            };
            (desk.ledger.waiting(), in_flight)
        };
        if waiting > 0 && self.lifecycle.heeds_demand() {
            self.step(Event::Demand);
        }
        if in_flight == 0 && matches!(self.lifecycle.state(), State::Draining { .. }) {
            self.step(Event::Drained(epoch));
        }
    }

    /// Calls whose time has come.
    fn expire(&mut self, now: Time) {
        let expired = {
            let mut desk = self.shared.desk();
            if desk.ledger.deadline().is_none_or(|deadline| deadline > now) {
                return;
            }
            let expired = desk.ledger.expire(now);
            for ended in &expired {
                desk.withdraw(ended, None, "timed out");
            }
            expired
        };
        let epoch = self.lifecycle.epoch();
        let ready = matches!(self.lifecycle.state(), State::Ready { .. });
        let tells = |ended: &Ended<Pending>| {
            let counts = ready || ended.nature.is_handshake();
            ended.epoch == Some(epoch) && ended.reply.caller != Caller::Own && counts
        };
        // Before the callers are told: a client's next try must not reach a server that we are about to end.
        if expired.iter().any(tells) {
            self.step(Event::TimedOut(epoch, self.shared.pulse(epoch)));
        }
        for ended in expired {
            let fault = match ended.epoch {
                None => self.cause.clone(),
                Some(_) if ended.nature.is_handshake() => Some(self.handshake_timeout()),
                Some(_) => None,
            };
            self.fail(ended, ErrorKind::Timeout, fault);
        }
    }

    /// A client's handshake has the time of the attempt. Whichever of the two ends first, this is what happened.
    fn handshake_timeout(&mut self) -> Arc<Fault> {
        let fault = Fault::HandshakeTimeout { after: self.shared.settings.policy.connect_timeout };
        self.hear_last_words(&fault, true);
        Arc::new(fault)
    }

    fn start(&mut self, now: Time, effect: Effect) {
        match effect {
            Effect::Connect(epoch) => {
                let attempt = restore::attempt(self.shared.clone(), self.transport.clone(), epoch);
                self.attempt = Some(tokio::spawn(attempt));
            }
            Effect::Probe(epoch) => {
                tokio::spawn(probe::probe(self.shared.clone(), epoch, now));
            }
            Effect::Hold(epoch) => self.shared.desk().ledger.hold(epoch),
            Effect::Settle(epoch, fault) => self.settle(now, epoch, fault),
            Effect::FailWaiting(fault) => {
                let ended = self.shared.desk().ledger.fail_waiting(&fault);
                self.fail_all(ended, fault);
            }
            Effect::FailCalls(fault) => {
                let ended = self.shared.desk().ledger.fail_calls();
                self.fail_all(ended, fault);
            }
            Effect::FailAttempt { fault, handshakes_wait, patience } => {
                let ended = self.shared.desk().ledger.fail_attempt(now, &fault, handshakes_wait, patience);
                self.fail_all(ended, fault);
            }
            Effect::Retire(epoch, fault) => self.retire(now, epoch, fault),
            Effect::EndAll(fault) => {
                let ended = self.shared.desk().ledger.end_all(now);
                self.fail_in_flight(ended, fault);
            }
            Effect::Hangup(epoch, manner) => self.hang_up(epoch, manner),
            Effect::Abandon(epoch) => self.abandon(epoch),
            Effect::Notice(What::Backoff(_)) => self.pausing = true,
            Effect::Notice(what) => self.notify(now, what),
        }
    }

    /// How long a pause is shows when the calls that wait have been looked at: they make it shorter, or end it.
    fn tell_pause(&mut self) {
        let now = self.shared.now();
        if std::mem::take(&mut self.pausing)
            && let State::Backoff { retry_at, .. } = self.lifecycle.state()
        {
            self.notify(now, What::Backoff(*retry_at - now));
        }
    }

    fn settle(&mut self, now: Time, epoch: Epoch, fault: Fault) {
        let greeted = {
            let mut memory = self.shared.memory();
            if matches!(fault, Fault::Replaced | Fault::Parked) {
                memory.forget_question();
            }
            // A question for the era is not asked again of a server that the client greets in the other one.
            memory.is_modern()
        };
        let ended = {
            let mut desk = self.shared.desk();
            desk.forget_questions(now);
            let read = desk.read_of(epoch);
            let ended = desk.ledger.settle(now, epoch, read, greeted);
            if let Some(exchanger) = desk.exchanger(epoch) {
                exchanger.look();
            }
            ended
        };
        shielded(|| self.shared.inbox.lost(epoch));
        self.fail_in_flight(ended, fault);
    }

    /// The server has forgotten the session. What it works on it may still answer, each call on its own exchange.
    fn retire(&mut self, now: Time, epoch: Epoch, fault: Fault) {
        let ended = {
            let mut desk = self.shared.desk();
            desk.forget_questions(now);
            let carried: HashSet<CallId> =
                desk.exchanger(epoch).map(|exchanger| exchanger.calls().collect()).unwrap_or_default();
            if let Some(session) = desk.session_of(epoch) {
                session.forgotten = true;
            }
            desk.ledger.retire(now, epoch, |id| carried.contains(&id))
        };
        shielded(|| self.shared.inbox.lost(epoch));
        self.fail_in_flight(ended, fault);
    }

    fn fail_in_flight(&mut self, ended: Vec<Ended<Pending>>, fault: Fault) {
        let kind = match fault {
            Fault::Closed => ErrorKind::Closed,
            Fault::HandshakeTimeout { .. } => ErrorKind::Timeout,
            _ => ErrorKind::Interrupted,
        };
        let fault = Arc::new(fault);
        for ended in ended {
            self.fail(ended, kind, Some(fault.clone()));
        }
    }

    /// Calls that waited for a session, and get none.
    fn fail_all(&mut self, ended: Vec<Ended<Pending>>, fault: Fault) {
        let kind = if self.lifecycle.is_closing() { ErrorKind::Closed } else { ErrorKind::Unavailable };
        let fault = Arc::new(fault);
        for ended in ended {
            self.fail(ended, kind, Some(fault.clone()));
        }
    }

    /// Tells a caller that there is no answer.
    fn fail(&self, ended: Ended<Pending>, kind: ErrorKind, fault: Option<Arc<Fault>>) {
        if ended.refused {
            return shielded(|| ended.reply.reply.end(Outcome::Refused));
        }
        let mut error = self.shared.error(
            &ended.reply,
            kind,
            ended.delivery,
            ended.epoch,
            fault.clone(),
            self.outlook(kind),
        );
        if let Some(Again::After(wait)) = fault.map(|fault| fault.again()) {
            error.outlook = Outlook::Deferred(wait);
        }
        error.repeatable = ended.nature != Nature::Effect;
        error.attempts = ended.attempts;
        // What we ended ourselves has no last words.
        let by_itself = error.fault.as_deref().is_some_and(|fault| *fault != Fault::Parked);
        if kind != ErrorKind::Closed && by_itself {
            error.stderr = self.last_words.clone();
        }
        shielded(|| ended.reply.reply.end(Outcome::Failed(error)));
    }

    fn outlook(&self, kind: ErrorKind) -> Outlook {
        let now = self.shared.now();
        let wait = || self.lifecycle.next_attempt().map_or(Duration::ZERO, |at| at - now);
        let permanent = self.last_fault.as_ref().is_some_and(|fault| fault.is_permanent());
        match self.lifecycle.state() {
            _ if kind == ErrorKind::Closed || self.lifecycle.is_closing() => Outlook::Closed,
            state if state.is_parked_by_order() => Outlook::NeedsWaking,
            State::Ready { .. } | State::Draining { .. } => Outlook::Serving,
            _ if self.lifecycle.parks(now) && permanent => Outlook::NeedsMending(wait()),
            _ if self.lifecycle.parks(now) => Outlook::Parked(wait()),
            _ => Outlook::Restarting,
        }
    }

    /// What a server said before it failed to start tells the cause; what it says later may tell too much.
    fn hear_last_words(&mut self, fault: &Fault, starting: bool) {
        self.last_words.clear();
        let are_told = match self.shared.settings.last_words {
            LastWords::Never => false,
            LastWords::AtStart => starting || fault.is_at_start(),
            LastWords::Always => true,
        };
        if are_told {
            let process = self.shared.desk().session.as_ref().map(|session| session.process.clone());
            let said = process.map(|process| process.stderr().cut(FIRST_LINES, LAST_LINES));
            let mask = &self.shared.settings.mask;
            self.last_words = said.map(|said| said.map(|line| mask.apply(line)).lines()).unwrap_or_default();
        }
    }

    /// Ends a session. Nothing is written to it from here on; the rest goes on beside us.
    fn hang_up(&mut self, epoch: Epoch, manner: Manner) {
        let ladder = self.shared.settings.policy.ladders.ladder(manner);
        let process =
            self.shared.desk().hang_up(self.shared.now(), epoch, manner, ladder).map(|(process, _)| process);
        if self.hangup.as_ref().is_some_and(|hangup| !hangup.is_finished()) {
            // It is being ended already; from now on the faster times hold.
            drop(self.shared.desk().stop_exchanges(epoch));
            drop(process.map(|process| process.end(ladder)));
            return;
        }
        let attempt = self.attempt.take();
        self.hangup = Some(tokio::spawn(hang_up(self.shared.clone(), epoch, attempt, manner, ladder)));
    }

    fn abandon(&mut self, _epoch: Epoch) {
        self.bye.abandoned = true;
        if let Some(hangup) = self.hangup.take() {
            hangup.abort();
        }
        let mut desk = self.shared.desk();
        desk.session = None;
        desk.unblock(self.shared.now());
    }

    fn notify(&mut self, now: Time, what: What) {
        match &what {
            What::Fault(_, fault, _) | What::Late(_, fault) => {
                self.last_fault = Some(Arc::new(fault.clone()));
                self.cause = self.last_fault.clone();
            }
            What::Retired(_, fault @ Fault::Deferred { .. }) => self.cause = Some(Arc::new(fault.clone())),
            What::Ready(_) => {
                self.sessions += 1;
                self.cause = None;
            }
            _ => {}
        }
        let server = self.shared.settings.name.clone();
        let remote = self.transport.is_remote();
        let notice = Notice { server, at: now - Time::ZERO, what, again: self.sessions > 1, remote };
        let server = &*notice.server;
        match notice.is_bad() {
            true => tracing::warn!(server, "{}", notice.text()),
            false => tracing::info!(server, "{}", notice.text()),
        }
        let _ = self.notices.send(Arc::new(notice)); // Nobody need listen.
    }

    fn publish(&self) {
        let ended = self.shared.desk().take_ended();
        drop(ended); // Not under the lock.
        let (pending, pid, oddities) = {
            let mut desk = self.shared.desk();
            desk.shown = desk.ledger.len();
            let pid = desk.session.as_ref().filter(|session| !session.lost).and_then(|s| s.process.pid());
            (desk.shown, pid, desk.oddities)
        };
        let status = Status {
            state: self.lifecycle.state().clone(),
            epoch: self.lifecycle.epoch(),
            last_fault: self.last_fault.clone(),
            budget_left: self.lifecycle.budget_left(self.shared.now()),
            pending,
            sessions: self.sessions,
            pid,
            oddities,
        };
        self.status.send_if_modified(|old| {
            let changed = *old != status;
            *old = status;
            changed
        });
    }
}

/// Ends what an attempt or session has running, and tells when nothing is left.
async fn hang_up(
    shared: Arc<Shared>,
    epoch: Epoch,
    attempt: Option<JoinHandle<()>>,
    manner: Manner,
    ladder: Ladder,
) {
    if let Some(attempt) = attempt {
        attempt.abort();
        let _ = attempt.await; // Aborted, or done; either way nothing of it runs.
    }
    // Again: the attempt may have put its session there since we were told to.
    let session = shared.desk().hang_up(shared.now(), epoch, manner, ladder);
    let left = shared.desk().leave_exchanges(shared.now(), epoch);
    if let Some(tasks) = left {
        for task in tasks {
            let _ = task.await; // Stopped, or done; either way nothing of it runs.
        }
        return shared.tell(News::Gone(epoch, None, 0));
    }
    // What one exchange has found out, the others are about to; and a client that left may still read.
    let patience = match manner {
        Manner::Failed => shared.settings.policy.abandon_after, // Or until their calls are settled.
        Manner::ClientLeft => ladder.length(),
        Manner::Planned | Manner::Told => Duration::ZERO,
    };
    let _ = timeout(patience, shared.exchanges_end(epoch)).await;
    shared.stop_exchanges(epoch).await;
    let mut ended = None;
    let mut helpers = 0;
    if let Some((process, signals)) = session {
        let killed = ended.insert(process.end(ladder).await).killed;
        // Only now: if we are abandoned before, it goes with its session.
        let reader = shared.desk().session.as_mut().and_then(|session| session.reader.take());
        if let Some(mut reader) = reader {
            signals.finish.notify_one();
            if timeout(READER_ENDS, &mut reader).await.is_err() {
                reader.abort();
            }
        }
        let (grace, closing) = {
            let mut desk = shared.desk();
            desk.close_input(epoch);
            let grace = desk.session.take().map_or(ladder.kill_after, |session| session.grace);
            desk.unblock(shared.now());
            (grace, desk.ledger.is_closed())
        };
        // The helpers of a server that used up all of its time get a moment, so that we end in ours.
        let sweep = process.sweep(if killed { grace.min(MOMENT) } else { grace });
        if closing {
            helpers = sweep.await;
        } else {
            tokio::spawn(sweep); // The next session need not wait for helpers outside the group.
        }
    }
    shared.tell(News::Gone(epoch, ended, helpers));
}

/// Who says that it is mended again and again is heard once in so long.
const MENDED_AGAIN: Duration = Duration::from_secs(1);

/// Tells when something has changed that may mend a permanent fault.
async fn mending(shared: Arc<Shared>, transport: Arc<dyn Transport>) {
    loop {
        transport.mended().await;
        shared.tell(News::Mended);
        sleep(MENDED_AGAIN).await;
    }
}
