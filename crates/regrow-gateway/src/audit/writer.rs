//! The thread that writes the lines, and what is known of its progress.

use std::fmt::Display;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Instant, SystemTime};

use tokio::sync::{Notify, oneshot};

use super::output::Output;
use super::repeats::Repeats;
use super::{AuditReport, lock};

/// A line to be written.
pub(super) struct Job {
    pub(super) line: Vec<u8>,
    /// Told when it is written, or lost.
    pub(super) done: oneshot::Sender<()>,
}

/// Writes until nobody can send lines any more.
pub(super) fn run(jobs: &Receiver<Job>, output: Output, progress: &Progress, repeats: &Mutex<Repeats>) {
    let mut writer = Writer { output, progress, is_well: true };
    loop {
        let next = writer.next(jobs, repeats);
        let is_end = matches!(next, Next::End);
        if let Next::Line(job) = next {
            writer.write(&job.line);
            let _ = job.done.send(()); // Its response may have left: it waits for a moment only.
            progress.release();
        }
        let counted = {
            let (now, mut repeats) = (Instant::now(), lock(repeats));
            let counted = if is_end { repeats.tell_all(now) } else { repeats.tell(now) };
            counted.iter().for_each(|_| progress.hold()); // Under the lock, so that the shutdown waits for them.
            counted
        };
        for record in counted {
            writer.write(&record.line(SystemTime::now()));
            progress.release();
        }
        if is_end {
            return;
        }
    }
}

enum Next {
    /// This is to be written.
    Line(Job),
    /// What was counted may be.
    Counted,
    /// Nobody can send lines any more.
    End,
}

struct Writer<'a> {
    output: Output,
    progress: &'a Progress,
    /// The last line was written.
    is_well: bool,
}

impl Writer<'_> {
    fn next(&self, jobs: &Receiver<Job>, repeats: &Mutex<Repeats>) -> Next {
        match jobs.try_recv() {
            Ok(job) => return Next::Line(job),
            Err(TryRecvError::Disconnected) => return Next::End,
            Err(TryRecvError::Empty) if self.is_well => self.progress.caught_up(),
            Err(TryRecvError::Empty) => {}
        }
        let due = lock(repeats).due();
        let received = match due {
            Some(due) => jobs.recv_timeout(due.saturating_duration_since(Instant::now())),
            // Before anything is counted, a line of its kind comes here.
            None => jobs.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(job) => Next::Line(job),
            Err(RecvTimeoutError::Timeout) => Next::Counted,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    fn write(&mut self, line: &[u8]) {
        let written = self.output.write(line);
        self.is_well = written.is_ok();
        match written {
            Ok(()) => self.progress.wrote(),
            Err(error) => self.progress.lose(&error),
        }
    }
}

/// What became of the lines so far.
pub(super) struct Progress {
    /// Where they go, for messages.
    name: String,
    written: AtomicU64,
    lost: AtomicU64,
    /// Lines are being lost, and the log says so.
    is_losing: AtomicBool,
    /// Lines that are not written, and responses that wait for theirs.
    pending: AtomicU64,
    released: Notify,
}

impl Progress {
    pub(super) fn new(name: String) -> Progress {
        Progress {
            name,
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            is_losing: AtomicBool::new(false),
            pending: AtomicU64::new(0),
            released: Notify::new(),
        }
    }

    pub(super) fn report(&self) -> AuditReport {
        AuditReport { written: self.written.load(Relaxed), lost: self.lost.load(Relaxed) }
    }

    fn wrote(&self) {
        self.written.fetch_add(1, Relaxed);
    }

    /// A line could not be written. The first one of a burst is logged.
    pub(super) fn lose(&self, why: &dyn Display) {
        self.lost.fetch_add(1, Relaxed);
        if !self.is_losing.swap(true, Relaxed) {
            tracing::warn!("the audit log {} cannot be written: {why}; its lines are lost", self.name);
        }
    }

    /// Nothing waits to be written, and the last line was: a burst is over.
    fn caught_up(&self) {
        if self.is_losing.swap(false, Relaxed) {
            let lost = self.lost.load(Relaxed);
            tracing::warn!("the audit log {} is written again; lines lost so far: {lost}", self.name);
        }
    }

    pub(super) fn hold(&self) {
        self.pending.fetch_add(1, SeqCst);
    }

    pub(super) fn release(&self) {
        if self.pending.fetch_sub(1, SeqCst) == 1 {
            self.released.notify_waiters();
        }
    }

    /// Resolves when every line is written or lost, and no response waits.
    pub(super) async fn settled(&self) {
        loop {
            let released = self.released.notified();
            if self.pending.load(SeqCst) == 0 {
                return;
            }
            released.await;
        }
    }

    /// The program ends before all lines are written.
    pub(super) fn give_up(&self) {
        let left = self.pending.load(SeqCst);
        tracing::warn!("the audit log {} is too slow: up to {left} lines are not written", self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rustix::fs::{Mode, OFlags};

    use crate::audit::{Audit, Destination, Event, QUEUE, Record};

    fn open(path: PathBuf) -> Audit {
        Audit::open(Destination::File { path, max_size: 1 << 20, keep: 1 }).unwrap()
    }

    fn record() -> Record {
        Record { server: Some("x".repeat(300).into()), ..Record::new(Event::Config, "ok") }
    }

    /// A named pipe. The tests hold its reading end open, also while nobody reads.
    fn pipe(folder: &Path) -> (PathBuf, std::fs::File) {
        let path = folder.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
        (path, reader.into())
    }

    #[tokio::test]
    async fn a_line_is_in_the_file_before_its_response_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = open(path.clone());
        for number in 1..=20 {
            // Without the bound of `wait`, for a machine that is very slow.
            audit.write(&record()).unwrap().0.await.unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), number);
        }
        audit.close().await;
        assert_eq!((audit.report().unwrap().written, audit.report().unwrap().lost), (20, 0));
    }

    #[tokio::test]
    async fn what_was_counted_is_told_after_a_second_at_the_shutdown_and_when_the_log_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        // How many refusals the lines stand for.
        let told = || -> u64 {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            lines.map(|line| line["repeats"].as_u64().unwrap_or(1)).sum()
        };
        let audit = open(path.clone());
        let refuse = || drop(audit.write(&Record::new(Event::Refusal, "wrong-token")));
        (0..300).for_each(|_| refuse());
        wait_until(|| told() == 300).await;
        (0..300).for_each(|_| refuse());
        audit.close().await;
        audit.0.as_ref().unwrap().progress.settled().await; // Without the bound of `close`.
        assert_eq!(told(), 600);
        (0..300).for_each(|_| refuse());
        drop(audit);
        wait_until(|| told() == 900).await;
        assert!(std::fs::read_to_string(&path).unwrap().lines().count() < 450);
    }

    async fn wait_until(mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn on_a_full_disk_lines_are_counted_as_lost() {
        let audit = open("/dev/full".into());
        for _ in 0..5 {
            audit.write(&record()).unwrap().0.await.unwrap();
        }
        assert_eq!((audit.report().unwrap().written, audit.report().unwrap().lost), (0, 5));
    }

    #[tokio::test]
    async fn a_pipe_that_nobody_reads_holds_up_nobody_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut reader) = pipe(folder.path());
        let audit = open(path);
        let more_than_fits = QUEUE + (1 << 20) / record().line(std::time::SystemTime::now()).len();
        let mut last = None;
        for _ in 0..more_than_fits {
            last = audit.write(&record()).or(last);
        }
        let lost = audit.report().unwrap().lost;
        assert!(lost > 0, "it is full");
        assert!(audit.write(&record()).is_none(), "nothing to wait for");
        let began = Instant::now();
        last.unwrap().wait().await;
        audit.close().await;
        assert!(began.elapsed() < Duration::from_secs(60), "it gives up");

        // When somebody reads again, lines are written again.
        let reading = std::thread::spawn(move || {
            let mut text = vec![];
            reader.read_to_end(&mut text).unwrap();
            text.iter().filter(|&&byte| byte == b'\n').count() as u64
        });
        audit.0.as_ref().unwrap().progress.settled().await;
        let report = audit.report().unwrap();
        assert_eq!(report.written + report.lost, more_than_fits as u64 + 1);
        drop(audit); // The writer ends, and with it the pipe.
        assert_eq!(reading.join().unwrap(), report.written);
    }

    #[tokio::test]
    async fn a_reader_that_leaves_loses_lines_and_not_the_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let (path, reader) = pipe(folder.path());
        let audit = open(path.clone());
        drop(reader);
        audit.write(&record()).unwrap().0.await.unwrap();
        assert_eq!(audit.report().unwrap().lost, 1);
        let refused = Audit::open(Destination::File { path, max_size: 1 << 20, keep: 1 });
        assert!(refused.err().unwrap().to_string().contains("start its reader first"));
    }
}
