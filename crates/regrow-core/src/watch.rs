//! Whether a ready server still lives: when to ask it, and what its silence means.

use crate::state::Watch;
use crate::{Policy, Pulse, Time};
use std::time::Duration;

/// What a look at a server comes to.
pub(crate) enum Sign {
    /// Nothing to do until the next look.
    Wait(Watch),
    /// Ask it for a sign of life.
    Ask(Watch),
    /// It gave none, and no call is a reason to wait for one.
    Silent,
}

/// Whether silence to a probe tells anything about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trust {
    /// It has answered: the handshake, or a probe.
    Answers,
    /// It refused the probe as unknown; silence proves nothing.
    Refused,
}

impl Watch {
    /// Nothing to worry about since `heard`.
    pub(crate) fn calm(heard: Time, policy: &Policy) -> Watch {
        Watch::Calm { look_at: policy.idle_probe.map(|idle| heard + idle) }
    }

    fn asked(now: Time, doubt: bool, policy: &Policy) -> Watch {
        let wait = if doubt { policy.doubt_timeout } else { policy.probe_timeout };
        Watch::Probed { since: now, deadline: now + wait, doubt }
    }

    fn spared(since: Time, now: Time, until: Time) -> Watch {
        Watch::Spared { since, look_at: now + SPARED_LOOK, until }
    }

    /// A call got no answer: is the server still there? None if that is being found out already.
    pub(crate) fn doubt(self, now: Time, pulse: Pulse, policy: &Policy) -> Option<Sign> {
        match self {
            // It has answered since; that was before what makes us doubt now.
            Watch::Probed { since, .. } | Watch::Spared { since, .. }
                if pulse.heard >= since && now > since =>
            {
                Some(Sign::Ask(Watch::asked(now, true, policy)))
            }
            Watch::Calm { .. } => Some(Sign::Ask(Watch::asked(now, true, policy))),
            // Asked already, but then out of habit: a call in flight would have excused the silence.
            Watch::Probed { since, deadline, doubt: false } => {
                let deadline = deadline.min(now + policy.doubt_timeout);
                Some(Sign::Wait(Watch::Probed { since, deadline, doubt: true }))
            }
            Watch::Probed { doubt: true, .. } | Watch::Spared { .. } => None,
        }
    }

    /// The question got no further than this. None if nothing was asked.
    pub(crate) fn failed(self, now: Time, pulse: Pulse, policy: &Policy) -> Option<Sign> {
        match self {
            Watch::Calm { .. } => None,
            // Calls that it had before may still be answered, and their own exchanges tell if not.
            Watch::Probed { since, .. } if pulse.has_call_from_before(since) => {
                Some(Sign::Wait(Watch::spared(since, now, now + policy.doubt_patience)))
            }
            Watch::Spared { since, .. } if pulse.has_call_from_before(since) => Some(Sign::Wait(self)),
            Watch::Probed { .. } | Watch::Spared { .. } => Some(Sign::Silent),
        }
    }

    /// A tick: has the server shown life? `slept`: the tick comes so late that the machine must have slept.
    pub(crate) fn look(self, now: Time, pulse: Pulse, slept: bool, trust: Trust, policy: &Policy) -> Sign {
        let busy = pulse.calls > 0 && !policy.probe_while_busy;
        match self {
            Watch::Calm { look_at } if look_at.is_none_or(|at| now < at) => Sign::Wait(self),
            Watch::Calm { .. } if busy => Sign::Wait(Watch::calm(now, policy)),
            // In the same millisecond, too: a local server answers faster than that.
            Watch::Probed { since, .. } | Watch::Spared { since, .. } if pulse.heard >= since => {
                Sign::Wait(Watch::calm(pulse.heard, policy))
            }
            // Nobody could answer while the machine slept: ask before anything is charged.
            _ if slept => Sign::Ask(Watch::asked(now, self.is_doubt(), policy)),
            Watch::Calm { .. } => match policy.idle_probe {
                Some(idle) if now - pulse.heard >= idle => Sign::Ask(Watch::asked(now, false, policy)),
                _ => Sign::Wait(Watch::calm(pulse.heard, policy)),
            },
            Watch::Probed { deadline, .. } if now < deadline => Sign::Wait(self),
            Watch::Probed { .. } | Watch::Spared { .. } if trust == Trust::Refused => {
                Sign::Wait(Watch::calm(now, policy))
            }
            Watch::Probed { doubt: false, .. } if busy => Sign::Wait(Watch::calm(now, policy)),
            // It may be busy with what came before the question. What came after is no excuse for silence, or a client
            // that calls on and on would keep it.
            Watch::Probed { since, .. } if pulse.has_call_from_before(since) => {
                Sign::Wait(Watch::spared(since, now, now + policy.doubt_patience))
            }
            Watch::Spared { since, until, .. } if pulse.has_call_from_before(since) && now < until => {
                Sign::Wait(Watch::spared(since, now, until))
            }
            Watch::Probed { .. } | Watch::Spared { .. } => Sign::Silent,
        }
    }

    fn is_doubt(self) -> bool {
        matches!(self, Watch::Probed { doubt: true, .. } | Watch::Spared { .. })
    }
}

/// How often we look whether a silent server's last calls have ended.
const SPARED_LOOK: Duration = Duration::from_millis(250);
