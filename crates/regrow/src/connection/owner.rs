//! Drives a supervisor: reports what happened, starts what must be done, and awaits in one place.

use std::sync::Arc;
use std::time::Duration;

use regrow_core::{
    Epoch, Event, Facts, Failure, FailureKind, Fault, Ladder, Manner, Notice as What, Output, State, Time,
};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};

use super::attempt;
use super::compare;
use super::events::OwnerEvent;
use super::hangup::{self, ended};
use super::probe;
use super::settings::StderrInErrors;
use super::shared::Shared;
use crate::call::{Pending, shielded};
use crate::notice::{Notice, Status};
use crate::transport::{self, Transport};
use crate::watch;

/// The lines of stderr that an error carries at most: of the first,
const FIRST_LINES: usize = 5;
/// and of the last.
const LAST_LINES: usize = 10;

/// What it took to close a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseReport {
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
    closed: watch::Sender<Option<CloseReport>>,
    attempt: Option<JoinHandle<()>>,
    hangup: Option<JoinHandle<()>>,
    /// What the server said on stderr before it failed to start.
    stderr: Vec<String>,
    report: CloseReport,
}

impl Owner {
    pub(crate) fn new(
        shared: Arc<Shared>,
        transport: Arc<dyn Transport>,
        status: watch::Sender<Status>,
        notices: broadcast::Sender<Arc<Notice>>,
        closed: watch::Sender<Option<CloseReport>>,
    ) -> Owner {
        Owner {
            shared,
            transport,
            status,
            notices,
            closed,
            attempt: None,
            hangup: None,
            stderr: vec![],
            report: CloseReport::default(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mending = tokio::spawn(mending(self.shared.clone(), self.transport.clone()));
        while !self.shared.lock().supervisor.lifecycle().is_closed() {
            self.next().await;
            let events = self.shared.lock().events.take();
            for event in events {
                if let Some(event) = self.event(event) {
                    self.handle(event);
                }
            }
            self.handle(Event::Tick);
            self.publish();
        }
        mending.abort();
        let retired = self.shared.lock().stop_retired();
        ended(retired).await;
        shielded(|| self.shared.inbox.over());
        self.closed.send(Some(self.report.clone()));
    }

    /// Waits until something has happened, or a deadline has come.
    async fn next(&mut self) {
        let deadline = {
            let now = self.shared.now();
            let mut state = self.shared.lock();
            let deadline = state.supervisor.sleep(now);
            if !state.events.is_empty() {
                return;
            }
            deadline
        };
        match deadline {
            Some(deadline) => tokio::select! {
                biased; // Both lead to the same: events first, then deadlines.
                () = self.shared.wake.notified() => {}
                () = sleep_until(self.shared.instant(deadline)) => {}
            },
            None => self.shared.wake.notified().await,
        }
    }

    /// What the supervisor must hear of this, if anything.
    fn event(&mut self, event: OwnerEvent) -> Option<Event> {
        match event {
            OwnerEvent::Supervisor(event) => Some(event),
            OwnerEvent::Missed(epoch) => {
                tokio::spawn(compare::catch_up(self.shared.clone(), epoch));
                None
            }
            OwnerEvent::Gone(epoch, ended, helpers) => {
                let disorder = ended.as_ref().and_then(|ended| ended.disorder()).cloned();
                let state = self.shared.lock();
                let lifecycle = state.supervisor.lifecycle();
                if lifecycle.is_closing() && epoch == lifecycle.epoch() {
                    self.report.ended = ended;
                    self.report.helpers = helpers;
                }
                Some(Event::Gone(epoch, disorder))
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.shared.now();
        let outputs = {
            let mut state = self.shared.lock();
            // Most often an answer woke us, and nothing is due: then nobody looks at the facts, which cost a system call.
            let is_idle = event == Event::Tick && state.supervisor.is_idle(now);
            let facts = if is_idle { Facts::default() } else { self.shared.facts(&mut state) };
            state.handle(now, event, &facts)
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
    fn carry_out(&mut self, now: Time, starting: bool, output: Output<Box<Pending>>) {
        match output {
            Output::Step(_) => {}
            Output::Connect(epoch) => {
                let attempt = attempt::attempt(self.shared.clone(), self.transport.clone(), epoch);
                self.attempt = Some(spawn_boxed(attempt));
            }
            Output::Probe(epoch) => {
                tokio::spawn(probe::probe(self.shared.clone(), epoch, now));
            }
            Output::Hangup(epoch, manner, ladder) => self.hang_up(epoch, manner, ladder),
            Output::Abandon(_) => {
                self.report.abandoned = true;
                if let Some(hangup) = self.hangup.take() {
                    hangup.abort();
                }
            }
            Output::Settled(epoch, _) | Output::Retired(epoch) => shielded(|| self.shared.inbox.lost(epoch)),
            Output::CatchUp(epoch) => self.shared.lock().catch_up(epoch),
            Output::Dispatch(epoch) => self.shared.dispatch(self.shared.lock(), epoch),
            Output::TimedOut(failure) => {
                if let Some(fault @ Fault::HandshakeTimeout { .. }) = failure.fault.as_deref() {
                    self.read_stderr(fault, true);
                }
                self.fail(failure);
            }
            Output::Failed(failure) => self.fail(failure),
            Output::Notice(what) => {
                if let What::Fault(_, fault, _) | What::Retired(_, fault) = &what {
                    self.read_stderr(fault, starting);
                }
                self.notify(now, what);
            }
        }
    }

    /// Tells a caller that there is no answer.
    fn fail(&self, failure: Failure<Box<Pending>>) {
        // What we ended ourselves has no last words.
        let by_itself = failure.fault.as_deref().is_some_and(|fault| *fault != Fault::Parked);
        let told = failure.kind != FailureKind::Closed && by_itself;
        self.shared.fail(failure, if told { self.stderr.clone() } else { vec![] });
    }

    /// What a server said before it failed to start tells the cause; what it says later may tell too much.
    fn read_stderr(&mut self, fault: &Fault, starting: bool) {
        self.stderr.clear();
        let is_told = match self.shared.settings.stderr_in_errors {
            StderrInErrors::Never => false,
            StderrInErrors::AtStart => starting || fault.is_at_start(),
            StderrInErrors::Always => true,
        };
        if is_told {
            let process = self.shared.lock().session.as_ref().map(|session| session.process.clone());
            let said = process.map(|process| process.stderr().cut(FIRST_LINES, LAST_LINES));
            let mask = &self.shared.settings.mask;
            self.stderr = said.map(|said| said.map(|line| mask.apply(line)).lines()).unwrap_or_default();
        }
    }

    /// Ends a session, to which nothing is written any more; that goes on beside us.
    fn hang_up(&mut self, epoch: Epoch, manner: Manner, ladder: Ladder) {
        if self.hangup.as_ref().is_some_and(|hangup| !hangup.is_finished()) {
            return hangup::hurry(&self.shared, epoch, ladder);
        }
        let attempt = self.attempt.take();
        self.hangup = Some(spawn_boxed(hangup::hang_up(self.shared.clone(), epoch, attempt, manner, ladder)));
    }

    fn notify(&self, now: Time, what: What) {
        let server = self.shared.settings.name.clone();
        let remote = self.transport.is_remote();
        let again = self.shared.lock().supervisor.sessions() > 1;
        let notice = Notice { server, at: now - Time::ZERO, what, again, remote };
        let server = &*notice.server;
        match notice.is_bad() {
            true => tracing::warn!(server, "{}", notice.text()),
            false => tracing::info!(server, "{}", notice.text()),
        }
        let _ = self.notices.send(Arc::new(notice)); // Nobody need listen.
    }

    fn publish(&self) {
        let mut state = self.shared.lock();
        let ended = state.take_ended();
        state.shown = state.supervisor.ledger.len();
        let mut status = state.status(self.shared.now());
        drop(state);
        drop(ended); // Not under the lock.
        self.status.send_if_modified(|old| {
            if old.state.name() == status.state.name() {
                status.since = old.since; // It began earlier.
            }
            let changed = *old != status;
            *old = status;
            changed
        });
    }
}

/// Spawns a large future whose handle is kept after its end: the handle keeps what it was spawned with, which here is a pointer.
fn spawn_boxed(future: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(Box::pin(future))
}

/// Repeated reports that it is fixed are heard once in this time.
const MENDED_AGAIN: Duration = Duration::from_secs(1);

/// Tells when something has changed that may fix a permanent fault.
async fn mending(shared: Arc<Shared>, transport: Arc<dyn Transport>) {
    loop {
        transport.mended().await;
        shared.notify(Event::Mended);
        sleep(MENDED_AGAIN).await;
    }
}
