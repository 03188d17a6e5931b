//! Whether a ready server still lives: when to ask it, and what its silence means.

use crate::state::Watch;
use crate::{Policy, Pulse, Time};
use std::time::Duration;

/// What a look at a server comes to.
#[derive(Debug, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::Sign::{Ask, Silent, Wait};
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_millis((seconds * 1000.0).round() as u64)
    }

    fn calm(look_at: f64) -> Watch {
        Watch::Calm { look_at: Some(at(look_at)) }
    }

    /// Asked at 60 s, out of habit.
    const PROBED: Watch =
        Watch::Probed { since: Time::from_millis(60_000), deadline: Time::from_millis(70_000), doubt: false };

    fn doubted(since: f64, deadline: f64) -> Watch {
        Watch::Probed { since: at(since), deadline: at(deadline), doubt: true }
    }

    /// Asked at 60 s, and spared until 125 s.
    fn spared(look_at: f64) -> Watch {
        Watch::Spared { since: at(60.0), look_at: at(look_at), until: at(125.0) }
    }

    /// Nothing was read since then, and nothing is in flight.
    fn idle(heard: f64) -> Pulse {
        Pulse { heard: at(heard), ..Pulse::default() }
    }

    /// Nothing was ever read, and a call is in flight since then.
    fn busy(eldest: f64) -> Pulse {
        Pulse { calls: 1, eldest: Some(at(eldest)), ..Pulse::default() }
    }

    fn look(watch: Watch, now: f64, pulse: Pulse) -> Sign {
        watch.look(at(now), pulse, false, Trust::Answers, &Policy::default())
    }

    fn look_if_busy_too(watch: Watch, now: f64, pulse: Pulse) -> Sign {
        let policy = Policy { probe_while_busy: true, ..Policy::default() };
        watch.look(at(now), pulse, false, Trust::Answers, &policy)
    }

    #[test]
    fn a_server_is_asked_when_nothing_was_read_for_a_minute() {
        assert_eq!(look(calm(60.0), 59.999, idle(0.0)), Wait(calm(60.0)));
        assert_eq!(look(calm(60.0), 60.0, idle(0.0)), Ask(PROBED));
        assert_eq!(look(calm(60.0), 60.0, idle(0.001)), Wait(calm(60.001)));
        let never = Watch::Calm { look_at: None };
        assert_eq!(look(never, 9999.0, idle(0.0)), Wait(never));
    }

    #[test]
    fn a_busy_server_is_asked_only_where_that_is_wanted() {
        assert_eq!(look(calm(60.0), 60.0, busy(1.0)), Wait(calm(120.0)));
        assert_eq!(look_if_busy_too(calm(60.0), 60.0, busy(1.0)), Ask(PROBED));
        assert_eq!(look(PROBED, 70.0, busy(1.0)), Wait(calm(130.0)), "busy is not dead");
    }

    #[test]
    fn a_server_that_was_asked_has_until_the_deadline_to_be_heard() {
        assert_eq!(look(PROBED, 65.0, idle(60.0)), Wait(calm(120.0)), "in the same millisecond");
        assert_eq!(look(PROBED, 69.999, idle(59.999)), Wait(PROBED));
        assert_eq!(look(PROBED, 70.0, idle(59.999)), Silent);
        assert_eq!(look(spared(65.25), 65.25, idle(60.0)), Wait(calm(120.0)));
    }

    #[test]
    fn a_silent_server_is_spared_for_a_minute_for_calls_from_before_it_was_asked() {
        assert_eq!(look(doubted(60.0, 65.0), 65.0, busy(59.999)), Wait(spared(65.25)));
        assert_eq!(look(doubted(60.0, 65.0), 65.0, busy(60.0)), Silent);
        assert_eq!(look(spared(65.25), 65.25, busy(59.999)), Wait(spared(65.5)));
        assert_eq!(look(spared(65.25), 65.25, busy(60.0)), Silent);
        assert_eq!(look(spared(124.999), 124.999, busy(59.999)), Wait(spared(125.249)));
        assert_eq!(look(spared(125.0), 125.0, busy(59.999)), Silent);
    }

    #[test]
    fn the_silence_of_a_server_that_refused_the_probe_proves_nothing() {
        for watch in [PROBED, doubted(60.0, 65.0), spared(65.25)] {
            let sign = watch.look(at(70.0), idle(0.0), false, Trust::Refused, &Policy::default());
            assert_eq!(sign, Wait(calm(130.0)));
        }
    }

    #[test]
    fn a_machine_that_slept_asks_and_keeps_its_doubts() {
        let woken = |watch: Watch| watch.look(at(900.0), idle(0.0), true, Trust::Answers, &Policy::default());
        let habit = Watch::Probed { since: at(900.0), deadline: at(910.0), doubt: false };
        assert_eq!([calm(60.0), PROBED].map(woken), [Ask(habit), Ask(habit)]);
        let doubt = || Ask(doubted(900.0, 905.0));
        assert_eq!([doubted(60.0, 65.0), spared(65.25)].map(woken), [doubt(), doubt()]);
    }

    #[test]
    fn a_doubt_asks_once() {
        let doubt = |watch: Watch, now, heard| watch.doubt(at(now), idle(heard), &Policy::default());
        assert_eq!(doubt(calm(60.0), 20.0, 0.0), Some(Ask(doubted(20.0, 25.0))));
        assert_eq!(doubt(PROBED, 61.0, 0.0), Some(Wait(doubted(60.0, 66.0))), "it has less time now");
        assert_eq!(doubt(PROBED, 69.0, 0.0), Some(Wait(doubted(60.0, 70.0))), "but no more");
        for watch in [doubted(60.0, 65.0), spared(65.25)] {
            assert_eq!(doubt(watch, 61.0, 59.999), None);
            assert_eq!(doubt(watch, 60.0, 60.0), None, "all in one instant");
            assert_eq!(doubt(watch, 61.0, 60.0), Some(Ask(doubted(61.0, 66.0))), "it has answered since");
        }
    }

    #[test]
    fn a_question_that_fails_is_silence_unless_there_are_calls_from_before_it() {
        let failed = |watch: Watch, pulse| watch.failed(at(61.0), pulse, &Policy::default());
        assert_eq!(failed(calm(60.0), busy(1.0)), None);
        let spared_from_now = Watch::Spared { since: at(60.0), look_at: at(61.25), until: at(121.0) };
        assert_eq!(failed(PROBED, busy(59.999)), Some(Wait(spared_from_now)));
        assert_eq!(failed(spared(65.25), busy(59.999)), Some(Wait(spared(65.25))));
        for watch in [PROBED, spared(65.25)] {
            assert_eq!(failed(watch, busy(60.0)), Some(Silent));
        }
    }
}
