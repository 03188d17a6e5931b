//! The live session: what carries its messages, and how far it is towards its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{CallId, Epoch, Ladder, Ledger, Manner};
use regrow_protocol::frame::{Edit, Frame};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::exchanges::ExchangeSet;
use crate::call::Pending;
use crate::transport::{Input, OutgoingMessage, Process};
use crate::writer::LineWriter;

/// One live exchange with the server.
pub(crate) struct Session {
    pub(crate) epoch: Epoch,
    phase: SessionPhase,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) signals: Arc<Signals>,
    /// The tasks of a pipe.
    pub(crate) reader: Option<JoinHandle<()>>,
    pub(crate) pump: Option<JoinHandle<()>>,
    /// The client itself shook hands with it.
    pub(crate) greeted_by_client: bool,
    /// Lists are being compared with what the client has seen: changes that the server reports meanwhile are kept back.
    pub(crate) kept_back: Option<BTreeSet<String>>,
    /// What was logged about its messages.
    logged: BTreeSet<&'static str>,
}

enum SessionPhase {
    /// Messages go to it.
    Open(Channel),
    /// Its fault was reported, and the owner is about to hang up.
    Lost(Channel),
    /// We are ending it: nothing new goes to it, and its end is not reported.
    HangingUp {
        channel: EndingChannel,
        /// Between asking its helpers to end and killing them; shorter when we are in a hurry.
        grace: Duration,
        /// Its fault was reported before.
        lost: bool,
    },
}

/// What messages go to.
pub(crate) enum Channel {
    Pipe(PipeWriter),
    Http(ExchangeSet),
}

/// Lines to the server, each with the call that it belongs to.
pub(crate) type PipeWriter = LineWriter<Box<dyn Input>, Option<CallId>>;

/// What is left of a channel while its session is being ended.
enum EndingChannel {
    /// What is queued is still written; then the input is closed.
    Flushing(PipeWriter),
    /// Nothing more is written. The input stays open to tell what was never read.
    Held(PipeWriter),
    /// The input is closed.
    Closed,
    /// Exchanges go on until they end or are stopped.
    Http(ExchangeSet),
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
    /// The reader must read what is there, and say so.
    pub(crate) catch_up: Notify,
    behind: AtomicBool,
}

impl Signals {
    /// Asks the reader to read what is there.
    pub(crate) fn ask_to_catch_up(&self) {
        self.behind.store(true, Ordering::Release);
        self.catch_up.notify_one();
    }

    /// The reader has found nothing more.
    pub(crate) fn caught_up(&self) {
        self.behind.store(false, Ordering::Release);
    }

    /// Whether the reader was asked to read what is there, and has not.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }
}

impl Session {
    pub(crate) fn new(
        epoch: Epoch,
        channel: Channel,
        process: Arc<dyn Process>,
        greeted_by_client: bool,
    ) -> Session {
        Session {
            epoch,
            phase: SessionPhase::Open(channel),
            process,
            signals: Arc::default(),
            reader: None,
            pump: None,
            greeted_by_client,
            kept_back: None,
            logged: BTreeSet::new(),
        }
    }

    /// Whether we are not ending it.
    pub(crate) fn is_live(&self) -> bool {
        !matches!(self.phase, SessionPhase::HangingUp { .. })
    }

    /// Whether nothing has happened to it.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, SessionPhase::Open(_))
    }

    /// The server's process id, unless its fault was reported.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self.phase {
            SessionPhase::Lost(_) | SessionPhase::HangingUp { lost: true, .. } => None,
            SessionPhase::Open(_) | SessionPhase::HangingUp { lost: false, .. } => self.process.pid(),
        }
    }

    /// Its fault is about to be reported. Returns whether it is the first one, and nobody is ending the session.
    pub(crate) fn lose(&mut self) -> bool {
        let first = self.is_open();
        if first && let SessionPhase::Open(channel) = self.take_phase() {
            self.phase = SessionPhase::Lost(channel);
        }
        first
    }

    /// Whether this is the first time that this is said about its messages.
    pub(crate) fn logs_first(&mut self, what: &'static str) -> bool {
        self.logged.insert(what)
    }

    /// What messages can be written to.
    pub(crate) fn channel(&mut self) -> Option<&mut Channel> {
        match &mut self.phase {
            SessionPhase::Open(channel) | SessionPhase::Lost(channel) => Some(channel),
            SessionPhase::HangingUp { .. } => None,
        }
    }

    /// Its exchanges, where it has some.
    pub(crate) fn exchanges(&mut self) -> Option<&mut ExchangeSet> {
        match &mut self.phase {
            SessionPhase::Open(Channel::Http(exchanges))
            | SessionPhase::Lost(Channel::Http(exchanges))
            | SessionPhase::HangingUp { channel: EndingChannel::Http(exchanges), .. } => Some(exchanges),
            _ => None,
        }
    }

    /// The same, for good.
    pub(crate) fn into_exchanges(mut self) -> Option<ExchangeSet> {
        match self.take_phase() {
            SessionPhase::Open(Channel::Http(exchanges))
            | SessionPhase::Lost(Channel::Http(exchanges))
            | SessionPhase::HangingUp { channel: EndingChannel::Http(exchanges), .. } => Some(exchanges),
            _ => None,
        }
    }

    fn writer(&mut self) -> Option<&mut PipeWriter> {
        match &mut self.phase {
            SessionPhase::Open(Channel::Pipe(writer))
            | SessionPhase::Lost(Channel::Pipe(writer))
            | SessionPhase::HangingUp {
                channel: EndingChannel::Flushing(writer) | EndingChannel::Held(writer),
                ..
            } => Some(writer),
            _ => None,
        }
    }

    /// What the pump writes to: also what is flushed while we are ending the session.
    pub(crate) fn flushes_to(&mut self) -> Option<&mut PipeWriter> {
        match &mut self.phase {
            SessionPhase::Open(Channel::Pipe(writer))
            | SessionPhase::Lost(Channel::Pipe(writer))
            | SessionPhase::HangingUp { channel: EndingChannel::Flushing(writer), .. } => Some(writer),
            _ => None,
        }
    }

    /// How many bytes of its input the server can have read; none where that is not known, or not any more.
    pub(crate) fn read(&mut self) -> Option<u64> {
        let writer = self.writer()?;
        Some(writer.accepted().saturating_sub(writer.stream().unread().unwrap_or(0)))
    }

    /// Adds a line, which leaves with the next [`write`](Session::write). Over HTTP it leaves at once, unless it is no message: no server would take it.
    pub(crate) fn add(&mut self, call: Option<CallId>, line: Bytes) {
        match self.channel() {
            None => {}
            Some(Channel::Http(exchanges)) => {
                Frame::parse(line).into_iter().for_each(|frame| exchanges.start(call, frame.into(), None));
            }
            Some(Channel::Pipe(writer)) => writer.add(call, line),
        }
    }

    /// The same with a message, and these values replaced.
    pub(crate) fn add_edited<const N: usize>(&mut self, call: CallId, message: &Frame, edits: [Edit<'_>; N]) {
        match self.channel() {
            None => {}
            Some(Channel::Http(exchanges)) => {
                exchanges.start(Some(call), OutgoingMessage::edited(message, edits), None);
            }
            Some(Channel::Pipe(writer)) => writer.add_edited(Some(call), message, edits),
        }
    }

    /// Writes what was added to a pipe: here and now if the stream takes it.
    pub(crate) fn write(&mut self, ledger: &mut Ledger<Box<Pending>>) {
        if let Some(Channel::Pipe(writer)) = self.channel() {
            let written = writer.write(|call, at| call.into_iter().for_each(|id| ledger.sent(id, at)));
            self.written(written);
        }
    }

    /// Others may write in the same moment. What they do leaves in one write.
    pub(crate) fn gather(&mut self) {
        if let Some(Channel::Pipe(writer)) = self.channel()
            && writer.gather()
        {
            self.signals.pump.notify_one();
        }
    }

    /// More messages follow at once, and leave in one write. Exchanges have nothing to share.
    pub(crate) fn cork(&mut self) {
        if let Some(Channel::Pipe(writer)) = self.channel() {
            writer.cork();
        }
    }

    /// That was the last of them.
    pub(crate) fn uncork(&mut self, ledger: &mut Ledger<Box<Pending>>) {
        match self.channel() {
            Some(Channel::Pipe(writer)) => {
                let written = writer.uncork(|call, at| call.into_iter().for_each(|id| ledger.sent(id, at)));
                self.written(written);
            }
            Some(Channel::Http(_)) => {}
            None => self.signals.pump.notify_one(), // Its end began meanwhile: the pump writes what must still leave.
        }
    }

    fn written(&self, written: std::io::Result<bool>) {
        match written {
            Ok(false) => {}
            Ok(true) => self.signals.pump.notify_one(),
            Err(_) => self.signals.broken.notify_one(),
        }
    }

    /// This call must not leave any more, also while we are ending the session: its exchanges go on for a moment.
    pub(crate) fn revoke(&mut self, call: CallId) {
        if let Some(writer) = self.writer() {
            writer.revoke(Some(call));
        } else if let Some(exchanges) = self.exchanges() {
            exchanges.abort(call);
        }
    }

    /// From here on nothing new goes to it, and its end is not reported. Returns how much of its input was read, if that is closed.
    pub(crate) fn hang_up(&mut self, manner: Manner, ladder: Ladder) -> Option<u64> {
        let (channel, grace, lost) = match self.take_phase() {
            SessionPhase::Open(channel) => (channel.into(), ladder.kill_after, false),
            SessionPhase::Lost(channel) => (channel.into(), ladder.kill_after, true),
            SessionPhase::HangingUp { channel, grace, lost } => (channel, grace.min(ladder.kill_after), lost),
        };
        let channel = match channel {
            EndingChannel::Flushing(writer) | EndingChannel::Held(writer) => {
                match manner.writes_out() && writer.queued() > 0 {
                    true => EndingChannel::Flushing(writer),
                    false => EndingChannel::Held(writer),
                }
            }
            channel => channel,
        };
        let closes = manner.closes_input() && !matches!(channel, EndingChannel::Flushing(_));
        self.phase = SessionPhase::HangingUp { channel, grace, lost };
        closes.then(|| self.close_input()).flatten()
    }

    /// The pump has written all there was. Returns how much of its input was read, if that is closed now.
    pub(crate) fn flushed(&mut self) -> Option<u64> {
        let flushes =
            matches!(self.phase, SessionPhase::HangingUp { channel: EndingChannel::Flushing(_), .. });
        flushes.then(|| self.close_input()).flatten()
    }

    /// Closes the server's input. Returns how much of it was read, if it was open.
    pub(crate) fn close_input(&mut self) -> Option<u64> {
        let read = self.read()?;
        let SessionPhase::HangingUp { channel, .. } = &mut self.phase else { return None };
        *channel = EndingChannel::Closed;
        Some(read)
    }

    /// How long its helpers get to end.
    pub(crate) fn grace(&self) -> Option<Duration> {
        match self.phase {
            SessionPhase::HangingUp { grace, .. } => Some(grace),
            SessionPhase::Open(_) | SessionPhase::Lost(_) => None,
        }
    }

    /// Leaves a session that is over in its place.
    fn take_phase(&mut self) -> SessionPhase {
        let over =
            SessionPhase::HangingUp { channel: EndingChannel::Closed, grace: Duration::ZERO, lost: false };
        std::mem::replace(&mut self.phase, over)
    }
}

impl From<Channel> for EndingChannel {
    fn from(channel: Channel) -> EndingChannel {
        match channel {
            Channel::Pipe(writer) => EndingChannel::Held(writer),
            Channel::Http(exchanges) => EndingChannel::Http(exchanges),
        }
    }
}

impl Channel {
    /// How many bytes are on their way.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Channel::Pipe(writer) => writer.queued(),
            Channel::Http(exchanges) => exchanges.queued(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for task in self.reader.take().into_iter().chain(self.pump.take()) {
            task.abort();
        }
    }
}
