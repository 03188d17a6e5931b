//! Whether a ready server still lives: when to ask it, and what its silence means.

use crate::state::Watch;
use crate::{Policy, Pulse, Time};
use std::time::Duration;

/// What a look at a server comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing to do until the next look.
    Wait(Watch),
    /// Probe it.
    Ask(Watch),
    /// It gave none, and no call is a reason to wait for one.
    Silent,
}

/// Whether silence to a probe tells anything about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Trust {
    /// It refused the probe as unknown; silence proves nothing.
    pub(crate) refused: bool,
    /// It has answered a probe during a call, in this session or an earlier one: being busy does not keep it from answering.
    pub(crate) answers_when_busy: bool,
}

impl Watch {
    /// Nothing to worry about since `heard`.
    pub(crate) fn calm(heard: Time, now: Time, pulse: Pulse, policy: &Policy) -> Watch {
        let idle = policy.idle_probe.map(|idle| heard + idle);
        // Nobody tells when a call starts; who looks this often sees each in time.
        let hang = policy.hang_timeout.map(|hang| pulse.silent_since(now) + hang);
        Watch::Calm { look_at: [idle, hang].into_iter().flatten().min() }
    }

    fn asked(now: Time, doubt: bool, policy: &Policy) -> Watch {
        let wait = if doubt { policy.doubt_timeout } else { policy.probe_timeout };
        Watch::Probed { since: now, deadline: now + wait, doubt }
    }

    fn beside(now: Time, pulse: Pulse, hang: Duration) -> Watch {
        Watch::Beside { since: now, deadline: now + hang, read: pulse.read }
    }

    fn spared(since: Time, now: Time, until: Time) -> Watch {
        Watch::Spared { since, look_at: now + SPARED_LOOK, until }
    }

    /// A call got no answer: is the server still there? None if that is being found out already.
    pub(crate) fn doubt(self, now: Time, pulse: Pulse, policy: &Policy) -> Option<Sign> {
        match self {
            // It has answered since; that was before what makes us doubt now.
            Watch::Probed { since, .. } | Watch::Beside { since, .. } | Watch::Spared { since, .. }
                if pulse.heard >= since && now > since =>
            {
                Some(Sign::Ask(Watch::asked(now, true, policy)))
            }
            Watch::Calm { .. } | Watch::LeftAlone { .. } => Some(Sign::Ask(Watch::asked(now, true, policy))),
            // Asked already, but then out of habit: a call in flight would have excused the silence.
            Watch::Probed { since, deadline, doubt: false } | Watch::Beside { since, deadline, .. } => {
                let deadline = deadline.min(now + policy.doubt_timeout);
                Some(Sign::Wait(Watch::Probed { since, deadline, doubt: true }))
            }
            Watch::Probed { doubt: true, .. } | Watch::Spared { .. } => None,
        }
    }

    /// The question got no further than this. None if nothing was asked.
    pub(crate) fn failed(self, now: Time, pulse: Pulse, policy: &Policy) -> Option<Sign> {
        match self {
            Watch::Calm { .. } | Watch::LeftAlone { .. } => None,
            // Calls that it had before may still be answered, and their own exchanges tell if not.
            Watch::Probed { since, .. } if pulse.has_call_from_before(since) => {
                Some(Sign::Wait(Watch::spared(since, now, now + policy.doubt_patience)))
            }
            Watch::Spared { since, .. } | Watch::Beside { since, .. }
                if pulse.has_call_from_before(since) =>
            {
                Some(Sign::Wait(self))
            }
            Watch::Probed { .. } | Watch::Spared { .. } | Watch::Beside { .. } => Some(Sign::Silent),
        }
    }

    /// The probe sent at `asked` was answered. Returns whether that proves that the server answers while it is busy: the answer must be
    /// the first thing that was read since. After the answer to a call, a server that works on one thing at a time answers, too.
    pub(crate) fn proves_answers_when_busy(self, asked: Time, pulse: Pulse) -> bool {
        match self {
            Watch::Beside { since, read, .. } => {
                since == asked && pulse.has_call_from_before(since) && pulse.read <= read.saturating_add(1)
            }
            _ => false,
        }
    }

    /// A tick: has the server shown life? `slept`: the tick comes so late that the machine must have slept.
    pub(crate) fn look(self, now: Time, pulse: Pulse, slept: bool, trust: Trust, policy: &Policy) -> Sign {
        let busy = pulse.calls > 0 && !policy.probe_while_busy;
        let calm = |heard| Sign::Wait(Watch::calm(heard, now, pulse, policy));
        if let (Watch::Calm { look_at: Some(at) }, Some(hang)) = (self, hung_for(now, pulse, policy))
            && now >= at
        {
            return Sign::Ask(Watch::beside(now, pulse, hang));
        }
        match self {
            Watch::Calm { look_at } if look_at.is_none_or(|at| now < at) => Sign::Wait(self),
            Watch::Calm { .. } if busy => calm(now),
            // In the same millisecond, too: a local server answers faster than that.
            Watch::Probed { since, .. }
            | Watch::Beside { since, .. }
            | Watch::LeftAlone { since, .. }
            | Watch::Spared { since, .. }
                if pulse.heard >= since =>
            {
                calm(pulse.heard)
            }
            Watch::Beside { since, deadline, .. } => match policy.hang_timeout {
                Some(hang) if slept => Sign::Ask(Watch::beside(now, pulse, hang)),
                _ if now < deadline => Sign::Wait(self),
                // Its calls were given up: a probe like any other.
                _ if !pulse.has_call_from_before(since) => {
                    let deadline = deadline.max(since + policy.probe_timeout);
                    Watch::Probed { since, deadline, doubt: false }.look(now, pulse, slept, trust, policy)
                }
                _ if trust.answers_when_busy && !trust.refused => Sign::Silent,
                hang => Sign::Wait(Watch::LeftAlone { since, look_at: now + hang.unwrap_or_default() }),
            },
            Watch::LeftAlone { look_at, .. } if now < look_at => Sign::Wait(self),
            Watch::LeftAlone { since, .. } if pulse.has_call_from_before(since) => match policy.idle_probe {
                Some(idle) if !busy && now - pulse.heard >= idle => {
                    Sign::Ask(Watch::asked(now, false, policy))
                }
                _ => {
                    let look_at = now + policy.hang_timeout.unwrap_or_default().max(SPARED_LOOK);
                    Sign::Wait(Watch::LeftAlone { since, look_at })
                }
            },
            Watch::LeftAlone { .. } => calm(now),
            // Nobody could answer while the machine slept: ask before anything is charged.
            _ if slept => Sign::Ask(Watch::asked(now, self.is_doubt(), policy)),
            Watch::Calm { .. } => match policy.idle_probe {
                Some(idle) if now - pulse.heard >= idle => Sign::Ask(Watch::asked(now, false, policy)),
                _ => calm(pulse.heard),
            },
            Watch::Probed { deadline, .. } if now < deadline => Sign::Wait(self),
            Watch::Probed { .. } | Watch::Spared { .. } if trust.refused => calm(now),
            Watch::Probed { doubt: false, .. } if busy => calm(now),
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

/// The hang timeout, if the server has been silent for so long with a call in flight.
fn hung_for(now: Time, pulse: Pulse, policy: &Policy) -> Option<Duration> {
    policy.hang_timeout.filter(|hang| pulse.eldest.is_some() && now - pulse.silent_since(now) >= *hang)
}

/// How often we look whether a silent server's last calls have ended.
const SPARED_LOOK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::Sign::{Ask, Silent, Wait};
    use super::*;

    /// It has answered the handshake, and no probe during a call yet.
    const ANSWERS: Trust = Trust { refused: false, answers_when_busy: false };

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
        watch.look(at(now), pulse, false, ANSWERS, &Policy::default())
    }

    fn look_if_busy_too(watch: Watch, now: f64, pulse: Pulse) -> Sign {
        let policy = Policy { probe_while_busy: true, ..Policy::default() };
        watch.look(at(now), pulse, false, ANSWERS, &policy)
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
            let sign = watch.look(
                at(70.0),
                idle(0.0),
                false,
                Trust { refused: true, ..ANSWERS },
                &Policy::default(),
            );
            assert_eq!(sign, Wait(calm(130.0)));
        }
    }

    #[test]
    fn a_machine_that_slept_asks_and_keeps_its_doubts() {
        let woken = |watch: Watch| watch.look(at(900.0), idle(0.0), true, ANSWERS, &Policy::default());
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

    const HANG: Duration = Duration::from_secs(5);

    fn beside(since: f64) -> Watch {
        Watch::Beside { since: at(since), deadline: at(since + 5.0), read: 3 }
    }

    fn left_alone(since: f64, look_at: f64) -> Watch {
        Watch::LeftAlone { since: at(since), look_at: at(look_at) }
    }

    /// A call is in flight since then, and three messages were read, the last of them then.
    fn silent(eldest: f64, heard: f64) -> Pulse {
        Pulse { heard: at(heard), read: 3, ..busy(eldest) }
    }

    fn look_for_hangs(watch: Watch, now: f64, pulse: Pulse, answers_when_busy: bool) -> Sign {
        let policy = Policy { hang_timeout: Some(HANG), ..Policy::default() };
        watch.look(at(now), pulse, false, Trust { answers_when_busy, ..ANSWERS }, &policy)
    }

    #[test]
    fn with_a_hang_timeout_a_server_is_asked_beside_a_call_after_that_much_silence() {
        let look = |now, pulse| look_for_hangs(calm(now), now, pulse, false);
        assert_eq!(look(20.0, idle(1.0)), Wait(calm(25.0)), "no call is in flight");
        assert_eq!(look(20.0, silent(18.0, 1.0)), Wait(calm(23.0)), "silence before the call does not count");
        assert_eq!(look(20.0, silent(1.0, 16.0)), Wait(calm(21.0)));
        assert_eq!(look(20.0, silent(1.0, 15.0)), Ask(beside(20.0)));
        assert_eq!(look(20.0, silent(15.0, 1.0)), Ask(beside(20.0)));
    }

    #[test]
    fn a_server_that_has_answered_when_busy_and_is_silent_for_as_long_again_is_hung() {
        let asked = beside(20.0);
        assert_eq!(look_for_hangs(asked, 24.999, silent(15.0, 1.0), true), Wait(asked));
        assert_eq!(look_for_hangs(asked, 25.0, silent(15.0, 1.0), true), Silent);
        assert_eq!(look_for_hangs(asked, 25.0, silent(15.0, 20.0), true), Wait(calm(25.0)), "it was heard");
        let refused = Trust { refused: true, answers_when_busy: true };
        let policy = Policy { hang_timeout: Some(HANG), ..Policy::default() };
        assert_eq!(
            asked.look(at(25.0), silent(15.0, 1.0), false, refused, &policy),
            Wait(left_alone(20.0, 30.0))
        );
    }

    #[test]
    fn a_server_that_never_answered_when_busy_is_left_alone() {
        let look = |watch, now, pulse| look_for_hangs(watch, now, pulse, false);
        let alone = left_alone(20.0, 25.0);
        assert_eq!(look(beside(20.0), 25.0, silent(15.0, 1.0)), Wait(left_alone(20.0, 30.0)));
        assert_eq!(look(alone, 25.0, silent(15.0, 1.0)), Wait(left_alone(20.0, 30.0)), "nor asked again");
        assert_eq!(look(alone, 25.0, silent(15.0, 21.0)), Wait(calm(26.0)), "until it is heard");
        assert_eq!(look(alone, 25.0, silent(22.0, 1.0)), Wait(calm(27.0)), "or its calls are given up");
    }

    #[test]
    fn a_probe_beside_calls_that_were_given_up_is_one_like_any_other() {
        let probed = Watch::Probed { since: at(20.0), deadline: at(30.0), doubt: false };
        assert_eq!(look_for_hangs(beside(20.0), 25.0, idle(1.0), true), Wait(probed));
        assert_eq!(look_for_hangs(probed, 30.0, idle(1.0), true), Silent);
    }

    #[test]
    fn only_an_answer_that_comes_first_and_during_the_call_proves_that_a_server_answers_when_busy() {
        let proves = |asked, eldest, read| {
            let pulse = Pulse { read, ..silent(eldest, 21.0) };
            beside(20.0).proves_answers_when_busy(at(asked), pulse)
        };
        assert!(proves(20.0, 15.0, 4));
        assert!(!proves(20.0, 15.0, 5), "the answer to a call came first");
        assert!(!proves(20.0, 20.0, 4), "the call came after the probe");
        assert!(!proves(14.0, 15.0, 4), "it is the answer to an earlier probe");
        assert!(!calm(30.0).proves_answers_when_busy(at(20.0), silent(15.0, 21.0)));
    }

    #[test]
    fn a_machine_that_slept_asks_again_before_it_takes_a_server_for_hung() {
        let policy = Policy { hang_timeout: Some(HANG), ..Policy::default() };
        let trust = Trust { answers_when_busy: true, ..ANSWERS };
        let sign = beside(20.0).look(at(900.0), silent(15.0, 1.0), true, trust, &policy);
        assert_eq!(sign, Ask(beside(900.0)));
    }
}
