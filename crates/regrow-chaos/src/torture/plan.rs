//! What is done to whom, and when: decided by a seed, so that a run can be repeated.

use std::time::Duration;

use fastrand::Rng;

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

    /// Whether another server process must follow.
    pub(super) fn replaces(self) -> bool {
        use Kind::*;
        matches!(
            self,
            Kill | KillTwice
                | Segv
                | Exit
                | Hang
                | CloseOutput
                | CloseInput
                | HalfLine
                | BadStart
                | Restart
                | Outage
        )
    }
}

/// How the next server lives, whatever ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// As it should.
    Plain,
    /// With a helper that holds its pipes.
    Helper,
    /// With a helper that holds nothing.
    FreeHelper,
    /// With a helper in a session of its own that holds its pipes.
    Setsid,
    /// With a helper in a session of its own that holds nothing.
    FreeSetsid,
    /// Deaf to SIGTERM and to the end of its input.
    Stubborn,
    /// Says much on standard error before it reads.
    Floods,
    /// Says what is no message before it reads.
    Babbles,
    /// Breaks when it is asked to end.
    Noisy,
}

const HABITS: [Habit; 9] = [
    Habit::Plain,
    Habit::Helper,
    Habit::FreeHelper,
    Habit::Setsid,
    Habit::FreeSetsid,
    Habit::Stubborn,
    Habit::Floods,
    Habit::Babbles,
    Habit::Noisy,
];

impl Habit {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Habit::Plain => "plain",
            Habit::Helper => "helper",
            Habit::FreeHelper => "free helper",
            Habit::Setsid => "setsid helper",
            Habit::FreeSetsid => "free setsid helper",
            Habit::Stubborn => "stubborn",
            Habit::Floods => "floods stderr",
            Habit::Babbles => "babbles",
            Habit::Noisy => "noisy end",
        }
    }

    /// As items of a server's plan.
    pub(super) fn items(self) -> &'static str {
        match self {
            Habit::Plain => "",
            Habit::Helper => "helper",
            Habit::FreeHelper => "helper=free",
            Habit::Setsid => "helper-setsid",
            Habit::FreeSetsid => "helper-setsid=free",
            Habit::Stubborn => "ignore-term ignore-eof",
            Habit::Floods => "flood-stderr=2MB",
            Habit::Babbles => "garbage-on-start",
            Habit::Noisy => "noisy-teardown",
        }
    }
}

/// One cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub kind: Kind,
    /// How the server after it lives.
    pub habit: Habit,
    /// How long it lasts, where it is mended by hand.
    pub hold: Duration,
    /// A quiet time before it.
    pub pause: Duration,
    /// So many calls at once just before it.
    pub burst: u64,
    /// What else has to be chosen.
    pub chance: u64,
}

/// Where a server runs, which decides what can be done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Started by the program under torture.
    Process,
    /// Behind HTTP, with sessions.
    Sessions,
    /// Behind HTTP, in the modern era.
    Stateless,
}

/// The steps of one lane, without end. Every kind comes once in a while: they are dealt like cards.
pub struct Plan {
    random: Rng,
    place: Place,
    cards: Vec<Kind>,
}

impl Plan {
    /// The plan that this seed gives to this lane.
    pub fn new(seed: u64, lane: usize, place: Place) -> Plan {
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
            habit: random.choice(HABITS).unwrap_or(Habit::Plain),
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
            Kill,
            Kill,
            Kill,
            KillTwice,
            Segv,
            Segv,
            Exit,
            Exit,
            Pause,
            Pause,
            Hang,
            CloseOutput,
            CloseInput,
            HalfLine,
            Noise,
            StderrFlood,
            BadStart,
            Restart,
            Restart,
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
        for place in [Place::Process, Place::Sessions, Place::Stateless] {
            let size = deck(place).len();
            let seen: Vec<Kind> = Plan::new(3, 0, place).take(size).map(|step| step.kind).collect();
            assert!(deck(place).iter().all(|kind| seen.contains(kind)), "{place:?}: {seen:?}");
        }
    }
}
