//! `Lifecycle::step` over any sequence of events, also of those that no owner would report: of the wrong epoch, late, twice,
//! out of every order. What must hold even then: epochs rise, each starts after the one before is gone or abandoned and after
//! the floor (but for one after a wrong guess of the era), every wait has a timer, effects are few, and closed is closed.

use std::sync::Arc;
use std::time::Duration;

use regrow::core::{
    Effect, Epoch, Event, Fault, Lifecycle, Manner, Policy, Pulse, Requester, State, Step, Time,
};

pub(super) fn run(input: &[u8]) {
    let policy = Arc::new(Policy::default());
    let mut world = World {
        lifecycle: Lifecycle::new(policy.clone(), 7),
        policy,
        now: Time::ZERO,
        running: None,
        attempts: vec![],
        guessed_wrong: false,
        skipped_floor: false,
    };
    for order in input.chunks_exact(4) {
        let (event, pulse) = world.event([order[0], order[1], order[2], order[3]]);
        world.step(event, pulse);
    }
}

struct World {
    lifecycle: Lifecycle,
    policy: Arc<Policy>,
    now: Time,
    /// The epoch that is not known to be gone.
    running: Option<Epoch>,
    attempts: Vec<Time>,
    /// A server was reported to speak the other era.
    guessed_wrong: bool,
    /// An attempt went without the floor because of that. There is one at most.
    skipped_floor: bool,
}

impl World {
    /// What the four bytes stand for: what, of which epoch, how much later, and the rest.
    fn event(&mut self, [what, epoch, later, rest]: [u8; 4]) -> (Event, Pulse) {
        self.now = self.now + Duration::from_millis((1_u64 << (later % 24)) - 1);
        if later >= 192
            && let Some(deadline) = self.lifecycle.deadline()
        {
            self.now = self.now.max(deadline);
        }
        let back = u64::from(epoch % 4) / 2;
        let epoch = Epoch(self.lifecycle.epoch().0.saturating_sub(back));
        let heard = if rest & 1 == 0 { self.now } else { Time::ZERO };
        let pulse = Pulse {
            heard,
            calls: usize::from(rest >> 6),
            eldest: (rest & 2 == 0).then_some(heard),
            answered: rest & 4 == 0,
            read: u64::from(rest >> 3),
            pending: usize::from(rest >> 6),
            listening: rest & 16 == 0,
        };
        let manner = [Manner::Planned, Manner::ClientLeft, Manner::Told][usize::from(rest) % 3];
        let event = match what % 19 {
            0 => Event::Start,
            1 => Event::Demand,
            2 => Event::Opened(epoch),
            3 => Event::Begun(epoch, [Step::Discovering, Step::Greeting][usize::from(rest % 2)]),
            4 | 5 => Event::Connected(epoch),
            6 => Event::Lost(epoch, fault(rest)),
            7 | 8 => Event::Gone(epoch, (rest & 8 == 0).then(|| fault(rest))),
            9 => Event::Drained(epoch),
            10 => Event::TimedOut(epoch),
            11 => Event::Cancelled(epoch, heard),
            12 => Event::Doubted(epoch),
            13 => Event::ProbeFailed(epoch, fault(rest)),
            14 => Event::ProbeRefused(epoch),
            15 => Event::Reconnect([Requester::Person, Requester::Program][usize::from(rest % 2)]),
            16 => Event::Mended,
            17 if rest > 250 => Event::Close(manner),
            17 if rest > 240 => Event::Drain,
            _ => Event::Tick,
        };
        (event, pulse)
    }

    fn step(&mut self, event: Event, pulse: Pulse) {
        if let Event::Gone(epoch, _) = &event
            && self.running == Some(*epoch)
        {
            self.running = None;
        }
        self.guessed_wrong |= matches!(event, Event::Lost(_, Fault::WrongEra));
        let was_closed = self.lifecycle.is_closed();
        let effects = self.lifecycle.step(self.now, event, pulse);
        assert!(!was_closed || effects.is_empty(), "closed is closed: {effects:?}");
        assert!(effects.len() <= 12, "{} effects at once", effects.len());
        for effect in effects {
            match effect {
                Effect::Connect(epoch) => self.connect(epoch),
                Effect::Abandon(epoch) if self.running == Some(epoch) => self.running = None,
                _ => {}
            }
        }
        self.has_a_timer();
        assert!(self.lifecycle.budget_left(self.now) <= self.policy.budget.charges);
    }

    fn connect(&mut self, epoch: Epoch) {
        assert_eq!(self.running, None, "P1: {epoch} starts beside it");
        assert_eq!(epoch.0, self.attempts.len() as u64 + 1, "P10: epochs rise");
        let since = self.attempts.last().map(|last| self.now - *last);
        if since.is_some_and(|since| since < self.policy.attempt_floor) {
            assert!(self.guessed_wrong && !self.skipped_floor, "P10: {since:?} apart");
            self.skipped_floor = true;
        }
        self.attempts.push(self.now);
        self.running = Some(epoch);
    }

    /// P9: whatever is pending has a timer armed.
    fn has_a_timer(&self) {
        let state = self.lifecycle.state();
        let timed = match state {
            State::Idle | State::Closed => true,
            State::Connecting { step, deadline } => deadline.is_some() || *step == Step::ClientsTurn,
            State::Parked { probe_at, fault, .. } => probe_at.is_some() || fault.is_permanent(),
            _ => state.deadline().is_some(),
        };
        assert!(timed, "P9: {state:?} waits without a timer");
    }
}

fn fault(which: u8) -> Fault {
    match which % 12 {
        0 => Fault::Exited { code: 0 },
        1 => Fault::Exited { code: 1 },
        2 => Fault::Killed { signal: 9 },
        3 => Fault::OutputClosed,
        4 => Fault::WrongEra,
        5 => Fault::SessionExpired { ran: which > 127 },
        6 => Fault::Deferred { code: 429, after: Duration::from_secs(u64::from(which)) },
        7 => Fault::Unauthorized { code: 401 },
        8 => Fault::NotFound { program: "x".into() },
        9 => Fault::Broken { reason: "reset".into() },
        10 => Fault::Silent { after: Duration::from_secs(15) },
        _ => Fault::HandshakeTimeout { after: Duration::from_secs(60) },
    }
}
