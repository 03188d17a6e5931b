//! Drives a supervisor: reports what happened, starts what must be done, and awaits in one place.

use std::sync::Arc;
use std::time::Duration;

use regrow_core::{
    Epoch, Event, Facts, Failure, FailureKind, Fault, Ladder, Manner, Notice as What, Output, State, Time,
};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::attempt;
use super::compare;
use super::probe;
use super::shared::{LastWords, Shared};
use super::state::News;
use crate::call::{Pending, shielded};
use crate::notice::{Notice, Status};
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
    shared: Arc<Shared>,
    transport: Arc<dyn Transport>,
    status: watch::Sender<Status>,
    notices: broadcast::Sender<Arc<Notice>>,
    farewell: watch::Sender<Option<Farewell>>,
    attempt: Option<JoinHandle<()>>,
    hangup: Option<JoinHandle<()>>,
    /// What the server said on stderr before it failed to start.
    last_words: Vec<String>,
    bye: Farewell,
}

impl Owner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        transport: Arc<dyn Transport>,
        status: watch::Sender<Status>,
        notices: broadcast::Sender<Arc<Notice>>,
        farewell: watch::Sender<Option<Farewell>>,
    ) -> Owner {
        Owner {
            shared,
            transport,
            status,
            notices,
            farewell,
            attempt: None,
            hangup: None,
            last_words: vec![],
            bye: Farewell::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mending = tokio::spawn(mending(self.shared.clone(), self.transport.clone()));
        while !self.shared.desk().supervisor.lifecycle().is_closed() {
            self.next().await;
            let news: Vec<News> = self.shared.desk().news.drain(..).collect();
            for news in news {
                if let Some(event) = self.event(news) {
                    self.handle(event);
                }
            }
            self.handle(Event::Tick);
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
            let deadline = desk.supervisor.sleep(now);
            if !desk.news.is_empty() {
                return;
            }
            deadline
        };
        match deadline {
            Some(deadline) => tokio::select! {
                () = self.shared.wake.notified() => {}
                () = sleep_until(self.shared.instant(deadline)) => {}
            },
            None => self.shared.wake.notified().await,
        }
    }

    /// What news mean to the supervisor, if anything.
    fn event(&mut self, news: News) -> Option<Event> {
        match news {
            News::Event(event) => Some(event),
            News::Unheard(epoch) => {
                tokio::spawn(compare::catch_up(self.shared.clone(), epoch));
                None
            }
            News::Gone(epoch, ended, helpers) => {
                let disorder = ended.as_ref().and_then(|ended| ended.disorder()).cloned();
                let desk = self.shared.desk();
                let lifecycle = desk.supervisor.lifecycle();
                if lifecycle.is_closing() && epoch == lifecycle.epoch() {
                    self.bye.ended = ended;
                    self.bye.helpers = helpers;
                }
                Some(Event::Gone(epoch, disorder))
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.shared.now();
        let outputs = {
            let mut desk = self.shared.desk();
            // Most often an answer woke us, and nothing is due: then nobody looks at the facts, which cost a system call.
            let is_idle = event == Event::Tick && desk.supervisor.is_idle(now);
            let facts = if is_idle { Facts::default() } else { self.shared.facts(&mut desk) };
            desk.handle(now, event, &facts)
        };
        let mut starting = false;
        for output in outputs {
            if let Output::Step(step) = &output {
                starting = matches!(step.before, State::Connecting { .. });
            }
            self.carry_out(now, starting, output);
        }
    }

    /// Does what the supervisor wants; what that means for the session was done with the decision. `starting`: it was decided while an
    /// attempt was under way.
    fn carry_out(&mut self, now: Time, starting: bool, output: Output<Pending>) {
        match output {
            Output::Step(_) => {}
            Output::Connect(epoch) => {
                let attempt = attempt::attempt(self.shared.clone(), self.transport.clone(), epoch);
                self.attempt = Some(tokio::spawn(attempt));
            }
            Output::Probe(epoch) => {
                tokio::spawn(probe::probe(self.shared.clone(), epoch, now));
            }
            Output::Hangup(epoch, manner, ladder) => self.hang_up(epoch, manner, ladder),
            Output::Abandon(_) => {
                self.bye.abandoned = true;
                if let Some(hangup) = self.hangup.take() {
                    hangup.abort();
                }
            }
            Output::Settled(epoch, fault) => {
                if matches!(fault, Fault::Replaced | Fault::Parked) {
                    self.shared.memory().forget_question();
                }
                shielded(|| self.shared.inbox.lost(epoch));
            }
            Output::Retired(epoch) => shielded(|| self.shared.inbox.lost(epoch)),
            Output::Dispatch(epoch) => self.shared.dispatch(self.shared.desk(), epoch),
            Output::TimedOut(failure) => {
                if let Some(fault @ Fault::HandshakeTimeout { .. }) = failure.fault.as_deref() {
                    self.hear_last_words(fault, true);
                }
                self.fail(failure);
            }
            Output::Failed(failure) => self.fail(failure),
            Output::Notice(what) => {
                if let What::Fault(_, fault, _) | What::Retired(_, fault) = &what {
                    self.hear_last_words(fault, starting);
                }
                self.notify(now, what);
            }
        }
    }

    /// Tells a caller that there is no answer.
    fn fail(&self, failure: Failure<Pending>) {
        // What we ended ourselves has no last words.
        let by_itself = failure.fault.as_deref().is_some_and(|fault| *fault != Fault::Parked);
        let told = failure.kind != FailureKind::Closed && by_itself;
        self.shared.fail(failure, if told { self.last_words.clone() } else { vec![] });
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

    /// Ends a session, to which nothing is written any more; that goes on beside us.
    fn hang_up(&mut self, epoch: Epoch, manner: Manner, ladder: Ladder) {
        if self.hangup.as_ref().is_some_and(|hangup| !hangup.is_finished()) {
            // It is being ended already; from now on the faster times hold.
            let mut desk = self.shared.desk();
            drop(desk.stop_exchanges(epoch));
            let process = desk.session_of(epoch).map(|session| session.process.clone());
            drop(desk);
            drop(process.map(|process| process.end(ladder)));
            return;
        }
        let attempt = self.attempt.take();
        self.hangup = Some(tokio::spawn(hang_up(self.shared.clone(), epoch, attempt, manner, ladder)));
    }

    fn notify(&self, now: Time, what: What) {
        let server = self.shared.settings.name.clone();
        let remote = self.transport.is_remote();
        let again = self.shared.desk().supervisor.sessions() > 1;
        let notice = Notice { server, at: now - Time::ZERO, what, again, remote };
        let server = &*notice.server;
        match notice.is_bad() {
            true => tracing::warn!(server, "{}", notice.text()),
            false => tracing::info!(server, "{}", notice.text()),
        }
        let _ = self.notices.send(Arc::new(notice)); // Nobody need listen.
    }

    fn publish(&self) {
        let mut desk = self.shared.desk();
        let ended = desk.take_ended();
        desk.shown = desk.supervisor.ledger.len();
        let pid = desk.session.as_ref().filter(|session| !session.lost).and_then(|s| s.process.pid());
        let supervisor = &desk.supervisor;
        let status = Status {
            state: supervisor.lifecycle().state().clone(),
            epoch: supervisor.lifecycle().epoch(),
            last_fault: supervisor.last_fault().cloned(),
            budget_left: supervisor.lifecycle().budget_left(self.shared.now()),
            pending: desk.shown,
            sessions: supervisor.sessions(),
            pid,
            oddities: desk.oddities,
        };
        drop(desk);
        drop(ended); // Not under the lock.
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
            (grace, desk.supervisor.ledger.is_closed())
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
        shared.tell(Event::Mended);
        sleep(MENDED_AGAIN).await;
    }
}
