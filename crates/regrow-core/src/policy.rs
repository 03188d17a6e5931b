//! The numbers, with defaults.

use std::hash::{Hash, Hasher};
use std::time::Duration;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Every number that a decision of the core depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a server may take from its start to the end of the handshake.
    pub connect_timeout: Duration,
    /// How long it may take of that to say which era it speaks, where we ask. After a quarter of it we ask again; a server that
    /// is silent all the time is greeted as a legacy one, until it says otherwise.
    pub discover_timeout: Duration,
    /// How long a server that has never been ready is tried before its client is told why it does not start.
    pub first_start: FirstStartPolicy,
    /// How long a call may take; progress resets the timer. `None`: no limit.
    pub call_timeout: Option<Duration>,
    /// How long a call may take in all, whatever progress it reports or a person is asked.
    pub call_limit: Duration,
    /// How long calls may go on when a session is to be replaced.
    pub drain_timeout: Duration,
    /// Probe the server after this long without a message. `None`: never.
    pub idle_probe: Option<Duration>,
    /// How long a server may take to answer a probe.
    pub probe_timeout: Duration,
    /// The same when there is reason to doubt that it lives.
    pub doubt_timeout: Duration,
    /// A call that its client cancels raises a doubt if nothing was read for so long.
    pub doubt_silence: Duration,
    /// How long a silent server is spared for calls that are inside their deadlines.
    pub doubt_patience: Duration,
    /// Whether to probe while calls are in flight. Not on stdio: busy is not dead.
    pub probe_while_busy: bool,
    /// During a call, probe the server after this long without a message; a server that has answered such a probe
    /// before and now stays silent for as long again is replaced. `None`: never.
    pub hang_timeout: Option<Duration>,
    /// How long a call that has not run yet waits while attempts to connect fail, if the server was healthy shortly before.
    /// `None`: it fails with the first of them.
    pub patience: Option<Duration>,
    /// A server whose last session ended no longer ago than this was healthy shortly before.
    pub healthy_within: Duration,
    /// More than `charges` faults within `window` park the connection.
    pub budget: BudgetPolicy,
    /// The pauses between attempts.
    pub backoff: BackoffPolicy,
    /// The least time between the starts of two attempts.
    pub attempt_floor: Duration,
    /// The same for attempts that calls ask for while we pause or are parked.
    pub demand_floor: Duration,
    /// The same after a fault that trying again cannot mend.
    pub permanent_demand_floor: Duration,
    /// Parked: the first slow probe comes after so long, the n-th after n times that ...
    pub park_probe: Duration,
    /// ... but never after more than this.
    pub park_probe_cap: Duration,
    /// A planned reconnect that a program asks for counts as a fault after so many in a row without a good answer.
    pub free_reconnects: u32,
    /// A timer that fires so late means that the machine slept.
    pub clock_jump: Duration,
    /// Reconnects after such a sleep are spread over this long.
    pub wake_spread: Duration,
    /// How gently a process is ended, by reason.
    pub ladders: Ladders,
    /// How long after SIGKILL we wait for a process to be gone before we go on without it.
    pub abandon_after: Duration,
    /// How long after SIGKILL the calls on a failed session wait to learn that the server never read them.
    pub settle_after: Duration,
    /// Which calls of unknown delivery may be sent again.
    pub replay: Replay,
    /// How often a call is sent at most.
    pub max_sends: u8,
    /// How long a call whose exchange failed waits before it is sent again on the same session.
    pub resend_pause: Duration,
    /// How long a call waits at most because the server asks it to come back later.
    pub defer_limit: Duration,
    /// How many calls may be pending at once.
    pub max_calls: usize,
    /// How many bytes the pending calls may hold together.
    pub max_pending_bytes: usize,
}

/// A policy never changes, so it tells no two states of a connection apart. A model checker hashes millions of them.
impl Hash for Policy {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            connect_timeout: secs(60),
            discover_timeout: secs(30),
            first_start: FirstStartPolicy { starts: 3, within: secs(5), unreachable_for: secs(10) },
            call_timeout: Some(secs(300)),
            call_limit: secs(3600),
            drain_timeout: secs(30),
            idle_probe: Some(secs(60)),
            probe_timeout: secs(10),
            doubt_timeout: secs(5),
            doubt_silence: secs(10),
            doubt_patience: secs(60),
            probe_while_busy: false,
            hang_timeout: None,
            patience: Some(secs(10)),
            healthy_within: secs(60),
            budget: BudgetPolicy { charges: 5, window: secs(180) },
            backoff: BackoffPolicy {
                first: millis(250),
                cap: secs(30),
                jitter_percent: 20,
                proven: secs(30),
            },
            attempt_floor: millis(20),
            demand_floor: secs(1),
            permanent_demand_floor: secs(10),
            park_probe: secs(30),
            park_probe_cap: secs(300),
            free_reconnects: 3,
            clock_jump: secs(5),
            wake_spread: secs(1),
            ladders: Ladders::default(),
            abandon_after: secs(2),
            settle_after: millis(100),
            replay: Replay::Safe,
            max_sends: 3,
            resend_pause: millis(250),
            defer_limit: secs(60),
            max_calls: 4096,
            max_pending_bytes: 128 << 20,
        }
    }
}

/// The limits of a first start: until a session has been ready once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirstStartPolicy {
    /// A server that fails during the handshake is started at most this often ...
    pub starts: u8,
    /// ... within this time.
    pub within: Duration,
    /// An address that cannot be reached is retried for this long.
    pub unreachable_for: Duration,
}

/// How many faults are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BudgetPolicy {
    /// This many within the window are allowed; one more parks.
    pub charges: u32,
    /// The sliding window.
    pub window: Duration,
}

/// The pauses: 0, `first`, twice that, and so on up to `cap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackoffPolicy {
    /// The second pause; the first is none.
    pub first: Duration,
    /// The longest pause.
    pub cap: Duration,
    /// Each pause is made longer or shorter by up to this share.
    pub jitter_percent: u32,
    /// The pauses start over after a session that was ready for at least this long, and twice the last pause.
    pub proven: Duration,
}

/// Which calls of unknown delivery may be sent again on the next session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replay {
    /// None.
    Never,
    /// Protocol reads, and tools that the operator declared safe.
    Safe,
    /// Also tools whose own annotations say that they only read or are idempotent.
    Hints,
}

/// Why a session is hung up; it decides how gently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Manner {
    /// We meant it: a reconnect, or a close by the program that holds the connection.
    Planned,
    /// Our client has left: it writes no more and waits for nothing, or does not read.
    ClientLeft,
    /// Regrow is shutting down.
    Told,
    /// The session has failed and calls are waiting.
    Failed,
}

impl Manner {
    /// Whether the server's input is closed at once, which asks it to end. That of a failed session stays open until
    /// its process is gone: only so can be told what it never read.
    pub fn closes_input(self) -> bool {
        self != Manner::Failed
    }

    /// Whether what is already on its way to the server is written before its input is closed: what a client wrote before it left
    /// must arrive complete. The ladder is no slower for that.
    pub fn writes_out(self) -> bool {
        self == Manner::ClientLeft
    }
}

/// The ladder for each manner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ladders {
    /// See [`Manner::Planned`].
    pub planned: Ladder,
    /// See [`Manner::ClientLeft`].
    pub client_left: Ladder,
    /// See [`Manner::Told`].
    pub told: Ladder,
    /// See [`Manner::Failed`].
    pub failed: Ladder,
}

impl Ladders {
    /// The ladder for this manner.
    pub fn ladder(&self, manner: Manner) -> Ladder {
        match manner {
            Manner::Planned => self.planned,
            Manner::ClientLeft => self.client_left,
            Manner::Told => self.told,
            Manner::Failed => self.failed,
        }
    }
}

impl Default for Ladders {
    fn default() -> Ladders {
        Ladders {
            planned: Ladder { term_after: secs(5), kill_after: secs(2) },
            client_left: Ladder { term_after: secs(1), kill_after: millis(500) },
            told: Ladder { term_after: Duration::ZERO, kill_after: millis(500) },
            failed: Ladder { term_after: Duration::ZERO, kill_after: millis(100) },
        }
    }
}

/// Ending a process: these steps, until it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ladder {
    /// SIGTERM so long after the decision, with which its input is closed in most manners.
    pub term_after: Duration,
    /// SIGKILL so long after SIGTERM.
    pub kill_after: Duration,
}

impl Ladder {
    /// From the start to SIGKILL.
    pub fn length(&self) -> Duration {
        self.term_after + self.kill_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_session_keeps_its_input_so_that_it_can_be_told_what_was_never_read() {
        let manners = [Manner::Planned, Manner::ClientLeft, Manner::Told, Manner::Failed];
        assert_eq!(manners.map(Manner::closes_input), [true, true, true, false]);
    }

    #[test]
    fn only_what_a_client_wrote_before_it_left_is_written_to_a_session_that_ends() {
        let manners = [Manner::Planned, Manner::ClientLeft, Manner::Told, Manner::Failed];
        assert_eq!(manners.map(Manner::writes_out), [false, true, false, false]);
    }
}
