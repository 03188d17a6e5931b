//! Every way to make a server or the network before it fail.

/// A way to make a server or the network before it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// SIGKILL.
    Kill,
    /// SIGKILL, and once more as soon as the next server has begun.
    KillTwice,
    /// SIGSEGV.
    Segv,
    /// The server exits by itself during a call.
    Exit,
    /// SIGSTOP, and SIGCONT later.
    Pause,
    /// SIGSTOP for good.
    Hang,
    /// The server closes its output and lives on.
    CloseOutput,
    /// The server closes its input and lives on.
    CloseInput,
    /// Half a line, then an exit.
    HalfLine,
    /// Answers that are broken, doubled or for nobody.
    Noise,
    /// Megabytes on standard error.
    StderrFlood,
    /// SIGKILL, and the next server exits at its start.
    BadStart,
    /// A planned restart.
    Restart,
    /// Connections are reset.
    Reset,
    /// Nobody listens.
    Refuse,
    /// What is sent is lost, and nobody is told.
    Blackhole,
    /// Nothing moves for a while.
    Stall,
    /// The server's side of each connection is closed.
    HalfClose,
    /// Answers are cut off.
    Truncate,
    /// A gateway says 502.
    BadGateway,
    /// The server says 503 and when to come back.
    Busy,
    /// The server forgets its sessions.
    Forget,
    /// The remote server is killed and started again.
    Outage,
    /// The server runs a call and drops the connection.
    DropAnswer,
    /// Streams end before the answer.
    CutStream,
}

impl Kind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kill => "kill",
            Kind::KillTwice => "kill twice",
            Kind::Segv => "segv",
            Kind::Exit => "exit",
            Kind::Pause => "stop and continue",
            Kind::Hang => "stop for good",
            Kind::CloseOutput => "closed stdout",
            Kind::CloseInput => "closed stdin",
            Kind::HalfLine => "half a line",
            Kind::Noise => "broken answers",
            Kind::StderrFlood => "stderr flood",
            Kind::BadStart => "bad start",
            Kind::Restart => "planned restart",
            Kind::Reset => "reset",
            Kind::Refuse => "refused",
            Kind::Blackhole => "blackhole",
            Kind::Stall => "stall",
            Kind::HalfClose => "half close",
            Kind::Truncate => "cut answers",
            Kind::BadGateway => "502",
            Kind::Busy => "503",
            Kind::Forget => "forgotten session",
            Kind::Outage => "outage",
            Kind::DropAnswer => "dropped answer",
            Kind::CutStream => "cut stream",
        }
    }

    /// Whether another server process must follow, where the program under torture starts it.
    pub(in crate::torture) fn replaces(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Kill | KillTwice | Segv | Exit | Hang | CloseOutput | CloseInput | HalfLine | BadStart | Restart
        )
    }
}
