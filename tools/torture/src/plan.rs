//! What is done to whom, and when: decided by a seed, so that a run can be repeated.

use std::time::Duration;

use fastrand::Rng;

/// How the next server lives, whatever ends it: items of a chaos server's plan. With or without a helper that holds its pipes or nothing, in
/// its group or in a session of its own; deaf to SIGTERM and the end of input; noisy at its start or its end.
pub(crate) type Habit = &'static str;

const HABITS: [Habit; 9] = [
    "",
    "helper",
    "helper=free",
    "helper-setsid",
    "helper-setsid=free",
    "ignore-term ignore-eof",
    "flood-stderr=2MB",
    "garbage-on-start",
    "noisy-teardown",
];

/// A way to make a server or the network before it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    /// SIGKILL, and once more as soon as the next server has begun.
    KillTwice,
    Segv,
    /// The server exits on its own during a call.
    Exit,
    /// SIGSTOP, and SIGCONT later.
    Pause,
    /// SIGSTOP for good.
    Hang,
    /// The server closes its output and lives on.
    CloseOut,
    /// The server closes its input and lives on.
    CloseIn,
    /// Half a line, then an exit.
    HalfLine,
    /// Answers that are broken, doubled or for nobody.
    Noise,
    Flood,
    /// SIGKILL, and the next server exits at its start.
    BadStart,
    /// A planned restart.
    Restart,
    Reset,
    Refuse,
    Blackhole,
    Stall,
    HalfClose,
    Truncate,
    /// 502.
    BadGateway,
    /// 503 with Retry-After.
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
    /// Whether another server process must follow, where the program under torture starts it.
    pub(crate) fn replaces(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Kill | KillTwice | Segv | Exit | Hang | CloseOut | CloseIn | HalfLine | BadStart | Restart
        )
    }
}

/// One cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What is done.
    pub(crate) kind: Kind,
    /// How the server after it lives.
    pub(crate) habit: Habit,
    /// How long it lasts, where it is undone by hand.
    pub(crate) hold: Duration,
    /// A quiet time before it.
    pub(crate) pause: Duration,
    /// This many calls at once just before it.
    pub(crate) burst: u64,
    /// What else has to be chosen.
    pub(crate) chance: u64,
}

/// Where a server runs, which decides what can be done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Started by the program under torture.
    Process,
    /// The same, for one client alone.
    Private,
    /// Behind HTTP, with sessions.
    Sessions,
    /// Behind HTTP, in the modern era.
    Stateless,
}

/// The steps of one lane, without end. Every kind comes once in a while: they are dealt like cards.
pub(crate) struct Plan {
    random: Rng,
    place: Place,
    cards: Vec<Kind>,
}

impl Plan {
    /// The plan that this seed gives to this lane.
    pub(crate) fn new(seed: u64, lane: usize, place: Place) -> Plan {
        let mixed = seed ^ (lane as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Plan { random: Rng::with_seed(mixed), place, cards: vec![] }
    }

    fn deal(&mut self) -> Kind {
        if self.cards.is_empty() {
            self.cards = deck(self.place).to_vec();
            self.random.shuffle(&mut self.cards);
        }
        self.cards.pop().unwrap_or(Kind::Kill)
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let kind = self.deal();
        let random = &mut self.random;
        let longest = match kind {
            Kind::Pause | Kind::Blackhole | Kind::Stall => 1500,
            _ => 300,
        };
        Some(Step {
            kind,
            habit: random.choice(HABITS).unwrap_or_default(),
            hold: Duration::from_millis(random.u64(20..longest)),
            pause: Duration::from_millis(random.u64(0..150)),
            burst: if random.u8(0..4) == 0 { random.u64(5..25) } else { 0 },
            chance: random.u64(..),
        })
    }
}

fn deck(place: Place) -> &'static [Kind] {
    use Kind::*;
    match place {
        Place::Process => &[
            Kill, Kill, Kill, KillTwice, Segv, Segv, Exit, Exit, Pause, Pause, Hang, CloseOut, CloseIn,
            HalfLine, Noise, Flood, BadStart, Restart, Restart,
        ],
        // An order to restart would replace the session that keeps the lists, too, which is to stay here.
        Place::Private => &[
            Kill, Kill, KillTwice, Segv, Exit, Exit, Pause, Hang, CloseOut, CloseIn, HalfLine, Noise, Flood,
            BadStart,
        ],
        Place::Sessions => &[
            Reset, Reset, Refuse, Blackhole, Stall, HalfClose, Truncate, BadGateway, Busy, Forget, Forget,
            Forget, Outage, Outage, Pause, DropAnswer, CutStream, Restart,
        ],
        Place::Stateless => &[
            Reset, Reset, Refuse, Blackhole, Stall, HalfClose, Truncate, BadGateway, Busy, Outage, Outage,
            Pause, DropAnswer, CutStream, Restart,
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything_and_lanes_differ() {
        let steps = |seed, lane| Plan::new(seed, lane, Place::Process).take(100).collect::<Vec<_>>();
        assert_eq!(steps(7, 0), steps(7, 0));
        assert_ne!(steps(7, 0), steps(8, 0));
        assert_ne!(steps(7, 0), steps(7, 1));
    }

    #[test]
    fn every_kind_comes_in_every_round_of_the_cards() {
        for place in [Place::Process, Place::Private, Place::Sessions, Place::Stateless] {
            let size = deck(place).len();
            let seen: Vec<Kind> = Plan::new(3, 0, place).take(size).map(|step| step.kind).collect();
            assert!(deck(place).iter().all(|kind| seen.contains(kind)), "{place:?}: {seen:?}");
        }
    }
}
