//! The audit log: one JSON line for each call, refusal, command, pin decision, sign-in and change of the configuration.
//!
//! A thread of its own writes the lines, so a slow disk or a pipe that nobody reads delays a response by 50 ms at most. Lines that
//! could not be written are counted, and so is a flood of refusals.

mod call;
mod output;
mod record;
mod repeats;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) use call::{AuditedReply, Target};
pub use output::OpenError;
use output::Output;
pub use record::{ChangedServers, ClientName, Digest, Event, Record};
pub(crate) use record::{client_name, principal_name, session_tag};
use repeats::Repeats;
use writer::{Job, Progress};

/// A response waits at most this long for its line to be written.
const WAIT: Duration = Duration::from_millis(50);
/// The shutdown waits at most this long for lines that are not written yet.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// At most this many lines wait to be written.
const QUEUE: usize = 1024;

/// Where lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// A file, to which lines are appended.
    File {
        /// Which one.
        path: PathBuf,
        /// A regular file that would become larger than this is renamed, and a new one is started.
        max_size: u64,
        /// How many renamed files are kept.
        keep: u32,
    },
}

/// The audit log, or none. Clones share it.
#[derive(Clone, Default)]
pub struct Audit(Option<Arc<Log>>);

struct Log {
    jobs: SyncSender<Job>,
    progress: Arc<Progress>,
    repeats: Arc<Mutex<Repeats>>,
}

/// What became of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditReport {
    /// Lines that were written.
    pub written: u64,
    /// Lines that could not be written.
    pub lost: u64,
}

impl Audit {
    /// Writes nothing.
    pub fn off() -> Audit {
        Audit::default()
    }

    /// Starts to write there.
    pub fn open(destination: Destination) -> Result<Audit, OpenError> {
        let output = Output::open(destination)?;
        let progress = Arc::new(Progress::new(output.name()));
        let (jobs, waiting) = mpsc::sync_channel(QUEUE);
        let log = Log { jobs, progress, repeats: Arc::default() };
        let (progress, repeats) = (log.progress.clone(), log.repeats.clone());
        thread::Builder::new()
            .name("audit".into())
            .spawn(move || writer::run(&waiting, output, &progress, &repeats))
            .map_err(OpenError::Thread)?;
        Ok(Audit(Some(Arc::new(log))))
    }

    /// Whether anything is written. Ask before you collect what only a line needs.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Hands a line to the writer, or counts it if there are many like it. Returns what its response waits for; none if there is nothing
    /// to wait for.
    pub fn write(&self, record: &Record) -> Option<Written> {
        let log = self.0.as_ref()?;
        let has_line = lock(&log.repeats).admit(Instant::now(), record);
        if has_line { log.send(record) } else { None }
    }

    /// What became of the lines so far; none where there is no audit log.
    pub fn report(&self) -> Option<AuditReport> {
        self.0.as_ref().map(|log| log.progress.report())
    }

    /// Waits, not for long, until all lines are written, what was counted is told, and the responses that waited have left.
    pub async fn close(&self) {
        let Some(log) = &self.0 else { return };
        let counted = lock(&log.repeats).tell_all(Instant::now());
        counted.iter().for_each(|record| drop(log.send(record))); // No response waits for them.
        if timeout(CLOSE_WITHIN, log.progress.settled()).await.is_err() {
            log.progress.give_up();
        }
    }

    /// Counts a response that waits for its line as long as this lives, for [`Audit::close`].
    fn held(&self) -> Option<Held> {
        let progress = self.0.as_ref()?.progress.clone();
        progress.hold();
        Some(Held(progress))
    }
}

impl Log {
    fn send(&self, record: &Record) -> Option<Written> {
        let (done, written) = oneshot::channel();
        self.progress.hold();
        match self.jobs.try_send(Job { line: record.line(SystemTime::now()), done }) {
            Ok(()) => Some(Written(written)),
            Err(error) => {
                self.progress.release();
                let why = match error {
                    TrySendError::Full(_) => "it is too slow",
                    TrySendError::Disconnected(_) => "its writer has ended",
                };
                self.progress.lose(&why);
                None
            }
        }
    }
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Audit(on)" } else { "Audit(off)" })
    }
}

/// A line that is on its way.
#[must_use = "a response waits for its line"]
pub struct Written(oneshot::Receiver<()>);

impl Written {
    /// Resolves when the line is written, or lost, or takes too long.
    pub async fn wait(self) {
        // In each case the response leaves now. What was lost is counted by the writer.
        let _ = timeout(WAIT, self.0).await;
    }
}

struct Held(Arc<Progress>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn lock(repeats: &Mutex<Repeats>) -> MutexGuard<'_, Repeats> {
    repeats.lock().unwrap_or_else(PoisonError::into_inner)
}
