//! A seeded random walk over thousands of lives: arbitrary events in arbitrary order, late, twice, of the wrong epoch.
//! After every step the invariants P1 to P10 are checked against what the walk itself knows of the world.
//!
//! A failure prints its seed. `REGROW_SEED=7 cargo test -p regrow-core --test walk` lives that one again and tells it;
//! `REGROW_LIVES=100000` walks further than usual.

#[path = "world/first.rs"]
mod first;
#[path = "walk/invariants.rs"]
mod invariants;
#[path = "world/owner.rs"]
mod owner;

use fastrand::Rng;
use first::FirstStart;
use invariants::*;
use owner::{Caller, Fate, Owner, Told};
use regrow_core::{
    CallId, Delivery, Epoch, Event, Evidence, Fault, Intent, Manner, Nature, Notice, Policy, Pulse, Reach,
    Refusal, Requester, State, Step, Time, Transition, Watch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

const LIVES: u64 = 2000;
const TURNS: usize = 250;

#[test]
fn no_order_of_events_breaks_an_invariant() {
    if let Some(seed) = number("REGROW_SEED") {
        return Walk::new(seed, true).live();
    }
    let mut seen = BTreeSet::new();
    for seed in 0..number("REGROW_LIVES").unwrap_or(LIVES) {
        let mut walk = Walk::new(seed, false);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| walk.live())) {
            eprintln!("to live it again: REGROW_SEED={seed} cargo test -p regrow-core --test walk");
            resume_unwind(panic);
        }
        seen.append(&mut walk.seen);
    }
    for wanted in WANTED {
        assert!(seen.contains(wanted), "no life reached {wanted:?}: the walk proves nothing about it");
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

#[test]
fn equal_seeds_live_equal_lives() {
    let lived = |seed| {
        let mut walk = Walk::new(seed, false);
        walk.keep = true;
        walk.live();
        walk.trace
    };
    for seed in 0..20 {
        assert_eq!(lived(seed), lived(seed));
    }
    assert_ne!(lived(1), lived(2));
}

/// What all lives together must have reached.
const WANTED: [&str; 78] = [
    "idle",
    "connecting",
    "ready",
    "draining",
    "closing",
    "backoff",
    "parked",
    "closed",
    "clients turn",
    "discovering",
    "probed",
    "doubted",
    "spared",
    "parked for good",
    "abandoned while replaced",
    "notice connecting",
    "notice ready",
    "notice fault",
    "notice retired",
    "notice planned",
    "notice untidy",
    "notice late",
    "notice doubted",
    "notice backoff",
    "notice parked",
    "notice abandoned",
    "notice woke",
    "notice closed",
    "call answered",
    "call moved",
    "call replayed",
    "call failed unknown",
    "call failed not sent",
    "call of a method not known",
    "call timed out",
    "call cancelled",
    "call overloaded",
    "call that came too late",
    "call refused when closed",
    "free end",
    "free ends over",
    "reconnect charged",
    "handshake waits for the next start",
    "first start failed",
    "drained to close",
    "wrong answer",
    "stopped clock",
    "call missed and kept",
    "call missed and over",
    "call sent again on its session",
    "call paused through a close",
    "probe failed",
    "probe failed and spared",
    "forgotten and free",
    "forgotten and charged",
    "forgotten too often",
    "forgotten while drained",
    "answered on a forgotten session",
    "refused again",
    "deferred",
    "deferred with calls waiting",
    "mended while parked",
    "mended in time",
    "notice resting",
    "notice budget reset",
    "rest refused",
    "parked by order",
    "call refused by order",
    "woken from rest",
    "woken by an operator",
    "woken by a reset budget",
    "call patient through a failed attempt",
    "call patient while parked",
    "call whose patience is over",
    "asked beside a call",
    "left alone",
    "answers when busy",
    "hung",
];

/// What the walk knows of a call.
struct Truth {
    nature: Nature,
    own: bool,
    /// When it must have ended, if ever.
    ends_by: Option<Time>,
    /// How often the server has run it.
    runs: u32,
    sends: u32,
    /// How often it was written to a server.
    written: u32,
    /// A session was left because it was refused there, and it may have run.
    refused: bool,
    /// Where that was.
    refused_on: Option<Epoch>,
    /// Its exchange ended once without an answer, but it did not.
    missed: bool,
    taken: Time,
    /// Since when no session has it.
    waits_since: Time,
    ended: Option<Fate>,
}

/// What the walk knows of a process.
struct Process {
    dead: bool,
    told_to_end: bool,
    /// Until when it must be waited for.
    patience: Option<Time>,
    /// When its calls have ended, if it has failed.
    settled_by: Option<Time>,
    written: u64,
    /// Calls in its input that it has not read yet: where each starts.
    pipe: BTreeMap<u64, (CallId, Caller)>,
}

/// What is known of the newest epoch's end, to judge its charge.
#[derive(Default)]
struct Account {
    was_ready: bool,
    discovering: bool,
    charged: bool,
    hurried: bool,
    mended: bool,
}

struct Walk {
    rng: Rng,
    policy: Policy,
    owner: Owner,
    now: Time,
    /// Whether this life sees many sessions, each a short one.
    hasty: bool,
    /// Whether each call has an exchange of its own.
    exchanges: bool,
    tell: bool,
    keep: bool,
    trace: Vec<String>,
    seen: BTreeSet<&'static str>,
    calls: BTreeMap<Caller, Truth>,
    own_calls: Caller,
    outstanding: BTreeMap<(Epoch, CallId), Caller>,
    used_ids: BTreeSet<CallId>,
    answerable: Vec<(Epoch, CallId)>,
    processes: BTreeMap<Epoch, Process>,
    abandoned: BTreeSet<Epoch>,
    past: Vec<Event>,
    attempts: Vec<Time>,
    last_sent: BTreeMap<Epoch, Caller>,
    account: Account,
    charges: Vec<Time>,
    free_in_a_row: u32,
    slow: bool,
    first: FirstStart,
    /// When the last session that was ready ended.
    healthy: Option<Time>,
    /// When it parked because of its faults, if there was no session since.
    parked: Option<Time>,
    /// When the server wants to be asked again.
    deferred_until: Option<Time>,
    closing_since: Option<Time>,
    jumped: bool,
    /// When it was last asked for a sign of life, and how many messages had been read then.
    asked: Option<(Time, u64)>,
    /// It has answered a probe during a call.
    answers_when_busy: bool,
    /// It refused a probe in this session.
    refused: bool,
    /// Since when the clock of the calls stands still.
    stopped: Option<Time>,
    /// The step that is being looked at: the state before it, and its event.
    step: Option<(State, Event)>,
    expected_charge: bool,
}

impl Walk {
    fn new(seed: u64, tell: bool) -> Walk {
        let mut rng = Rng::with_seed(seed);
        let policy = some_policy(&mut rng);
        Walk {
            owner: Owner::new(&policy, seed),
            policy,
            hasty: rng.u32(0..4) == 0,
            exchanges: rng.bool(),
            rng,
            now: Time::ZERO,
            tell,
            keep: false,
            trace: vec![],
            seen: BTreeSet::from(["idle"]),
            calls: BTreeMap::new(),
            own_calls: 1_000_000,
            outstanding: BTreeMap::new(),
            used_ids: BTreeSet::new(),
            answerable: vec![],
            processes: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            past: vec![],
            attempts: vec![],
            last_sent: BTreeMap::new(),
            account: Account::default(),
            charges: vec![],
            free_in_a_row: 0,
            slow: false,
            first: FirstStart::default(),
            healthy: None,
            parked: None,
            deferred_until: None,
            closing_since: None,
            jumped: false,
            asked: None,
            answers_when_busy: false,
            refused: false,
            stopped: None,
            step: None,
            expected_charge: false,
        }
    }

    /// One life: many random turns, then a close that must come to its end.
    fn live(&mut self) {
        for _ in 0..TURNS {
            self.pass_time();
            self.turn();
            self.look();
        }
        if self.closing_since.is_none() {
            self.jumped = false;
            let manner = self.some_manner();
            let last = if self.rng.bool() { Event::Close(manner) } else { Event::Drain };
            self.event(last);
            self.look();
        }
        let ladder = self.policy.ladders.planned.length() + 2 * self.policy.abandon_after;
        let closed_by = self.now + self.policy.drain_timeout + ladder;
        while !self.owner.lifecycle().is_closed() {
            let due = self.owner.lifecycle().deadline().expect("P6: a close that nothing ends");
            self.now = self.now.max(due);
            assert!(self.now <= closed_by, "P6: closed in bounded time, even if no process ever ends");
            self.tick();
            self.look();
        }
    }

    // What happens.

    fn pass_time(&mut self) {
        let due = self.owner.deadline().unwrap_or(self.now + Duration::from_secs(30)).max(self.now);
        let until = due - self.now;
        let some = |rng: &mut Rng, millis: u64| Duration::from_millis(rng.u64(0..=millis));
        match self.rng.u32(0..100) {
            0..15 => {}
            15..45 => self.now = self.now + some(&mut self.rng, 40).min(until),
            45..65 => self.now = self.now + some(&mut self.rng, 5000).min(until),
            65..96 => self.now = due,
            _ => {
                self.now = due + some(&mut self.rng, 100_000);
                self.jumped = true;
                self.say(|_| "time jumps".to_owned());
            }
        }
        // Sometimes other news overtakes the timer.
        if self.owner.deadline().is_some_and(|due| due <= self.now) && self.rng.u32(0..8) > 0 {
            self.tick();
            self.look();
        }
    }

    fn turn(&mut self) {
        let epoch = self.owner.epoch();
        let connecting = matches!(self.owner.lifecycle().state(), State::Connecting { .. });
        if self.hasty && self.rng.bool() {
            return if connecting { self.connect_further() } else { self.crash() };
        }
        if self.exchanges && self.rng.u32(0..5) == 0 {
            return self.fail_exchange();
        }
        match self.rng.u32(0..1000) {
            0..170 => self.call(),
            170..300 => self.write(),
            300..430 => self.read(),
            430..560 => self.answer(),
            560..590 => self.answer_wrongly(),
            590..610 => self.cancel(),
            610..625 => self.progress(),
            625..640 => self.turn_clock(),
            640..760 if connecting => self.connect_further(),
            640..700 => self.hear(),
            700..745 => self.die(),
            745..840 => self.vanish(),
            840..850 => self.lose_by_chance(),
            850..858 => self.reconnect(Requester::Person),
            858..885 => self.reconnect(Requester::Program),
            885..893 => self.event(Event::Start),
            893..905 => self.order(),
            905..915 => {
                self.refused = true;
                self.event(Event::ProbeRefused(epoch));
            }
            915..918 => {
                let manner = self.some_manner();
                self.event(Event::Close(manner));
            }
            918..921 => self.event(Event::Drain),
            921..930 => self.own_call(),
            930..990 => self.say_old_news(),
            _ => {
                let event = if self.rng.bool() { Event::Gone(epoch, None) } else { Event::Connected(epoch) };
                // Nobody reports the end of what has not ended.
                if !matches!(event, Event::Gone(..)) {
                    self.event(event);
                }
            }
        }
    }

    fn tick(&mut self) {
        for _ in 0..4 {
            self.owner.tick(self.now);
            self.judge();
            if self.stopped.is_some_and(|stopped| self.now >= stopped + self.policy.call_limit) {
                self.stopped = None; // By itself.
            }
            if self.owner.deadline().is_none_or(|due| due > self.now) {
                return;
            }
        }
        panic!("P9: a timer that fires and fires: {:?}", self.owner.lifecycle().state());
    }

    fn event(&mut self, event: Event) {
        self.past.push(event.clone());
        self.owner.event(self.now, event);
        self.judge();
    }

    fn call(&mut self) {
        let nature = match self.rng.u32(0..20) {
            0..9 => Nature::Effect,
            9..14 => Nature::Read,
            14 => Nature::Stream,
            15 => Nature::Greeting,
            _ => Nature::Discovery,
        };
        let timeout = match self.rng.u32(0..10) {
            0 => None,
            1..4 => Some(Duration::from_millis(self.rng.u64(0..3000))),
            _ => Some(Duration::from_secs(self.rng.u64(5..300))),
        };
        let waited = match self.rng.u32(0..8) {
            0 => Duration::from_millis(self.rng.u64(0..10_000)),
            _ => Duration::ZERO,
        };
        let bytes = self.rng.usize(0..50);
        let ends_by = match nature {
            Nature::Stream => None,
            _ => timeout.map(|timeout| self.now + timeout.saturating_sub(waited)),
        };
        let truth = Truth {
            nature,
            own: false,
            ends_by,
            runs: 0,
            sends: 0,
            written: 0,
            refused: false,
            refused_on: None,
            missed: false,
            taken: self.now,
            waits_since: self.now,
            ended: None,
        };
        let caller = self.calls.keys().rfind(|&&c| c < 1_000_000).map_or(1, |last| last + 1);
        self.calls.insert(caller, truth);
        self.say(|_| format!("call {caller} {nature:?} {timeout:?}, of which {waited:?} are over"));
        let ready = matches!(self.owner.lifecycle().state(), State::Ready { .. });
        assert_eq!(self.owner.call(self.now, waited, nature, timeout, bytes), caller);
        let sent = self.owner.told.iter().any(|told| matches!(told, Told::Send(.., of) if *of == caller));
        assert!(ready || !sent, "a call goes to a session that is not ready");
        if nature != Nature::Stream && timeout.is_some_and(|timeout| timeout <= waited) {
            assert!(!sent, "a call is sent whose time was over when it came");
            self.seen.insert("call that came too late");
        }
        if self.owner.supervisor.ledger.find(|&c| c == caller).is_some() && self.stopped.is_some() {
            self.forgive(caller, timeout);
        }
        self.judge();
    }

    fn own_call(&mut self) {
        let epoch = self.owner.epoch();
        if self.processes.get(&epoch).is_none_or(|process| process.told_to_end) {
            return;
        }
        self.own_calls += 1;
        let (caller, timeout) = (self.own_calls, Duration::from_secs(10));
        let ends_by = Some(self.now + timeout);
        self.calls.insert(
            caller,
            Truth {
                nature: Nature::Effect,
                own: true,
                ends_by,
                runs: 0,
                sends: 0,
                written: 0,
                refused: false,
                refused_on: None,
                missed: false,
                taken: self.now,
                waits_since: self.now,
                ended: None,
            },
        );
        let id = self.owner.supervisor.ledger.admit_own(self.now, epoch, timeout, caller);
        self.owner.told.push(Told::Send(epoch, id, caller));
        self.owner.tick(self.now);
        if self.stopped.is_some() {
            self.forgive(caller, Some(timeout));
        }
        self.judge();
    }

    /// The OS accepts the first byte of a call.
    fn write(&mut self) {
        let ready: Vec<_> = self.outstanding.iter().map(|(&key, &caller)| (key, caller)).collect();
        for ((epoch, id), caller) in ready {
            let Some(process) = self.processes.get_mut(&epoch) else { continue };
            let written = self.answerable.contains(&(epoch, id));
            if !process.dead && !written && self.rng.bool() {
                let position = process.written;
                process.written += 10;
                process.pipe.insert(position, (id, caller));
                self.owner.supervisor.ledger.sent(id, if self.exchanges { 0 } else { position });
                self.answerable.push((epoch, id));
                let truth = self.calls.get_mut(&caller).expect("only known calls are written");
                truth.written += 1;
                p3_a_call_is_sent_at_most_three_times(caller, truth, &self.policy);
                self.say(|_| format!("call {caller} is written to {epoch} at {position}"));
            }
        }
    }

    /// The server reads and runs what lies in its input, or some of it.
    fn read(&mut self) {
        for process in self.processes.values_mut().filter(|process| !process.dead) {
            let upto = self.rng.u64(0..=process.written);
            let unread = process.pipe.split_off(&upto);
            for (_, caller) in std::mem::replace(&mut process.pipe, unread).into_values() {
                let truth = self.calls.get_mut(&caller).expect("only known calls are written");
                truth.runs += 1;
                p3_a_call_runs_at_most_once_unless_safe(caller, truth, &self.policy);
                a_call_said_to_be_not_sent_never_runs(caller, truth);
            }
        }
    }

    /// The server answers a call that it has run.
    fn answer(&mut self) {
        let Some(&(epoch, id)) = pick(&mut self.rng, &self.answerable) else { return };
        let owed = self.outstanding.get(&(epoch, id)).copied();
        let Some(process) = self.processes.get(&epoch) else {
            if owed.is_some() {
                self.seen.insert("answered on a forgotten session");
                self.deliver(epoch, id);
            }
            return;
        };
        if process.dead || (owed.is_some() && process.pipe.values().any(|&(unread, _)| unread == id)) {
            return;
        }
        self.deliver(epoch, id);
    }

    /// An answer comes twice, from another session, or to a question that nobody asked.
    fn answer_wrongly(&mut self) {
        let Some(&(epoch, id)) = pick(&mut self.rng, &self.answerable) else { return };
        let (epoch, id) = match self.rng.u32(0..3) {
            0 => (epoch, CallId(self.rng.u64(0..200))),
            1 => (Epoch(self.rng.u64(0..=self.owner.epoch().0)), id),
            _ => (epoch, id),
        };
        if !self.outstanding.contains_key(&(epoch, id)) {
            self.seen.insert("wrong answer");
            self.deliver(epoch, id);
        }
    }

    fn deliver(&mut self, epoch: Epoch, id: CallId) {
        let good = self.rng.u32(0..4) > 0;
        self.say(|_| format!("{epoch} answers {id:?}"));
        let owed = self.outstanding.get(&(epoch, id)).copied();
        let got = self.owner.answer(self.now, epoch, id, good);
        p7_an_answer_reaches_only_its_own_call(got, owed);
        self.judge();
        if got.is_none() && owed.is_none() && epoch == self.owner.epoch() {
            return;
        }
        let stream = owed.is_some_and(|caller| self.calls[&caller].nature == Nature::Stream);
        assert!(got.is_some() || owed.is_none() || stream, "P2: an answer that was owed is lost");
    }

    /// What happens to sessions of exchanges alone.
    fn fail_exchange(&mut self) {
        let epoch = self.owner.epoch();
        match self.rng.u32(0..20) {
            0..14 => self.miss(),
            14..16 => {
                self.event(Event::Doubted(epoch));
            }
            16..19 => {
                let fault = self.some_fault();
                if fault.reach() == Reach::Doubt {
                    self.event(Event::ProbeFailed(epoch, fault));
                }
            }
            _ => self.event(Event::Mended),
        }
    }

    /// The exchange of some call ends without an answer.
    fn miss(&mut self) {
        let outstanding: Vec<_> = self.outstanding.keys().copied().collect();
        let Some(&(epoch, id)) = pick(&mut self.rng, &outstanding) else { return };
        let fault = self.some_fault();
        let process = self.processes.get_mut(&epoch);
        let pipe = process.as_ref().map(|process| &process.pipe).into_iter().flatten();
        let unread = pipe.into_iter().find(|(_, (of, _))| *of == id).map(|(&at, _)| at);
        let ran = unread.is_none() && self.answerable.contains(&(epoch, id));
        if ran && !may_have_run(&fault) {
            return; // Nobody tells lies about that.
        }
        let ends = process.as_ref().is_none_or(|process| process.told_to_end);
        // What may have run may also run later; what cannot have run never does.
        if let (Some(unread), Some(process)) =
            (unread.filter(|_| !may_have_run(&fault) || self.rng.bool()), process)
        {
            process.pipe.remove(&unread);
        }
        let fault = self.rule(epoch, id, fault);
        self.say(|_| format!("{id:?} is missed: {fault}"));
        assert!(self.owner.miss(self.now, epoch, id, &fault), "P2: a miss of an outstanding call is news");
        self.judge();
        if !ends && !self.processes.get(&epoch).is_none_or(|process| process.told_to_end) {
            self.owner.concern(self.now, epoch, &fault);
            self.judge();
        }
    }

    /// What a refusal means that may tell of a forgotten session.
    fn rule(&mut self, epoch: Epoch, id: CallId, fault: Fault) -> Fault {
        let forgotten = self.rng.bool();
        let Fault::NoSession { evidence, .. } = fault else { return fault };
        let caller = self.outstanding[&(epoch, id)];
        let truth = self.calls.get_mut(&caller).expect("it is outstanding");
        let before = truth.refused_on.replace(epoch);
        let ruled = self.owner.judge(epoch, id, fault, forgotten);
        let expired = ruled.reach() == Reach::Session;
        if before.is_some_and(|before| before != epoch) {
            assert!(!expired, "P3: a call that is refused again is no reason to leave a session");
            self.seen.insert("refused again");
        }
        if !expired {
            truth.refused_on = before;
        } else {
            truth.refused |= evidence == Evidence::Status;
        }
        ruled
    }

    fn cancel(&mut self) {
        let pending: Vec<Caller> = self.calls.keys().copied().collect();
        let Some(&caller) = pick(&mut self.rng, &pending) else { return };
        if self.calls[&caller].own {
            return;
        }
        let was_pending = self.calls[&caller].ended.is_none();
        self.say(|_| format!("call {caller} is cancelled"));
        assert_eq!(self.owner.cancel(self.now, caller), was_pending);
        self.judge();
    }

    fn progress(&mut self) {
        let Some((&(_, id), &caller)) = self.outstanding.iter().next() else { return };
        self.owner.supervisor.ledger.extend(self.now, id);
        let limit = self.policy.call_limit.max(Duration::from_secs(300));
        if let Some(ends_by) = &mut self.calls.get_mut(&caller).expect("it is outstanding").ends_by {
            *ends_by = (*ends_by).max(self.now + limit);
        }
        self.say(|_| format!("call {caller} makes progress"));
    }

    fn turn_clock(&mut self) {
        if self.stopped.is_some() {
            self.owner.supervisor.ledger.start_clock(self.now);
            self.stopped = None;
            self.say(|_| "the clock goes on".to_owned());
        } else if self.rng.bool() {
            self.owner.supervisor.ledger.stop_clock(self.now);
            self.stopped = Some(self.now);
            self.seen.insert("stopped clock");
            let pending: Vec<Caller> = self.calls.keys().copied().collect();
            for caller in pending {
                self.forgive(caller, None);
            }
            self.say(|_| "the clock stops".to_owned());
        }
    }

    /// A call for which the clock stood may take as long as the limit allows.
    fn forgive(&mut self, caller: Caller, timeout: Option<Duration>) {
        let limit = self.policy.call_limit.max(timeout.unwrap_or(Duration::from_secs(300)));
        let now = self.now;
        if let Some(ends_by) = self.calls.get_mut(&caller).and_then(|truth| truth.ends_by.as_mut()) {
            *ends_by = (*ends_by).max(now + limit);
        }
    }

    fn connect_further(&mut self) {
        let epoch = self.owner.epoch();
        if self.processes.get(&epoch).is_none_or(|process| process.dead) {
            return;
        }
        let first = self.first_waiting();
        let State::Connecting { step, .. } = *self.owner.lifecycle().state() else { return };
        let fresh =
            !self.past.iter().any(|e| matches!(e, Event::Begun(on, _) | Event::Opened(on) if *on == epoch));
        let handshake =
            |walk: &Walk, caller| matches!(walk.calls[&caller].nature, Nature::Greeting | Nature::Discovery);
        match self.rng.u32(0..10) {
            0..2 if fresh => self.event(Event::Opened(epoch)),
            2 => self.event(Event::Begun(epoch, Step::Discovering)),
            3 if step == Step::Discovering => self.event(Event::Begun(epoch, Step::Greeting)),
            4..7 if step == Step::ClientsTurn && first.is_some_and(|caller| handshake(self, caller)) => {
                assert!(self.owner.dispatch(epoch), "the handshake was waiting");
                self.event(Event::Begun(epoch, Step::Greeting));
                if self.rng.u32(0..8) == 0 {
                    self.crash(); // Some die of it.
                }
            }
            7.. => self.event(Event::Connected(epoch)),
            _ => {}
        }
    }

    fn first_waiting(&self) -> Option<Caller> {
        let mut ledger = self.owner.supervisor.ledger.clone();
        let id = ledger.dispatch(self.owner.epoch())?;
        ledger.reply(id).copied()
    }

    /// Something is read from the server.
    fn hear(&mut self) {
        let epoch = self.owner.epoch();
        if self.processes.get(&epoch).is_none_or(|process| process.dead) {
            return;
        }
        self.owner.heard = self.now;
        self.owner.messages += 1;
        let Some((at, read)) = self.asked.filter(|_| self.rng.bool()) else { return };
        // It is the answer to a probe.
        let from_before = |(&(on, _), caller): (&(Epoch, CallId), &Caller)| {
            let truth = &self.calls[caller];
            on == epoch && !truth.own && truth.nature != Nature::Stream && truth.taken < at
        };
        if self.owner.messages == read + 1 && self.outstanding.iter().any(from_before) {
            self.answers_when_busy = true;
            self.seen.insert("answers when busy");
        }
        self.asked = None;
        self.event(Event::ProbeAnswered(epoch, at));
    }

    /// The process ends by itself, and its owner hears of that.
    fn die(&mut self) {
        let epoch = self.owner.epoch();
        let Some(process) = self.processes.get_mut(&epoch).filter(|process| !process.dead) else { return };
        process.dead = true;
        let told_to_end = process.told_to_end;
        self.learn_what_was_read(epoch);
        if !told_to_end || self.rng.u32(0..3) == 0 {
            let fault = self.some_fault().as_expiry();
            self.event(Event::Lost(epoch, fault));
        }
    }

    /// On a dead process it may be known what it never read.
    fn learn_what_was_read(&mut self, epoch: Epoch) {
        if !self.exchanges && self.rng.bool() {
            let process = &self.processes[&epoch];
            let read = process.pipe.keys().next().copied().unwrap_or(process.written);
            self.owner.read.insert(epoch, read);
        }
    }

    /// The server reads, runs, and is gone, all in one instant.
    fn crash(&mut self) {
        self.write();
        self.read();
        self.die();
        self.vanish();
    }

    /// More causes of an end that was told already, or of none.
    fn lose_by_chance(&mut self) {
        let fault = self.some_fault().as_expiry();
        self.event(Event::Lost(self.owner.epoch(), fault));
    }

    /// The last of a process disappears.
    fn vanish(&mut self) {
        let ended = |(_, process): &(&Epoch, &Process)| process.dead || process.told_to_end;
        let Some((&epoch, _)) = self.processes.iter().find(ended) else { return };
        // Its owner learns of the death before the disappearance.
        if !self.processes[&epoch].told_to_end {
            return;
        }
        self.learn_what_was_read(epoch);
        if let Some(process) = self.processes.remove(&epoch) {
            let unread: Vec<CallId> = process.pipe.values().map(|&(id, _)| id).collect();
            self.answerable.retain(|(_, id)| !unread.contains(id));
        }
        let crash = Fault::Killed { signal: 11 };
        let crash = (self.rng.u32(0..3) == 0).then_some(crash);
        self.event(Event::Gone(epoch, crash));
    }

    /// An operator wants something.
    fn order(&mut self) {
        match self.rng.u32(0..10) {
            0..3 => self.owner.event(self.now, Event::Rest),
            3..5 => self.owner.event(self.now, Event::Park),
            5..8 => self.owner.event(self.now, Event::Wake),
            _ => self.owner.event(self.now, Event::ResetBudget),
        }
        self.judge();
    }

    fn reconnect(&mut self, requester: Requester) {
        self.say(|_| format!("{requester:?} wants a reconnect"));
        self.owner.reconnect(self.now, requester);
        self.judge();
    }

    /// News of an epoch that was left changes nothing.
    fn say_old_news(&mut self) {
        let Some(event) = pick(&mut self.rng, &self.past).cloned() else { return };
        let old = match event {
            Event::Opened(e)
            | Event::Begun(e, _)
            | Event::Connected(e)
            | Event::Lost(e, ..)
            | Event::Gone(e, _) => e,
            _ => return,
        };
        if old == self.owner.epoch() {
            return;
        }
        let mut lifecycle = self.owner.lifecycle().clone();
        let pulse = self.owner.supervisor.pulse(&self.owner.facts());
        let effects = lifecycle.step(self.now, event.clone(), pulse);
        let nothing = effects.is_empty() && lifecycle == *self.owner.lifecycle();
        assert!(nothing, "late news of {old} did something: {event:?}");
    }

    fn some_manner(&mut self) -> Manner {
        [Manner::Planned, Manner::ClientLeft, Manner::Told][self.rng.usize(0..3)]
    }

    fn some_fault(&mut self) -> Fault {
        if self.exchanges && self.rng.u32(0..4) > 0 {
            return self.some_fault_of_an_exchange();
        }
        let reason = String::new();
        let faults = [
            Fault::Exited { code: 0 },
            Fault::Exited { code: 1 },
            Fault::Killed { signal: 9 },
            Fault::WrongEra,
            Fault::Broken { reason: reason.clone() },
            Fault::OutputClosed,
            Fault::InputClosed,
            Fault::HandshakeRefused { code: -32600, message: reason.clone() },
            Fault::SpawnFailed { program: reason.clone(), reason: reason.clone() },
            Fault::NotFound { program: reason.clone() },
            Fault::NotExecutable { program: reason.clone(), reason: reason.clone() },
            Fault::BadDirectory { path: reason.clone(), reason: reason.clone() },
            Fault::Unsandboxed { reason: reason.clone() },
            Fault::VersionChanged { was: reason.clone(), is: reason.clone() },
            Fault::CapabilityLost { name: reason },
        ];
        // Mostly what happens mostly.
        let most = if self.rng.u32(0..5) > 0 { 5 } else { faults.len() };
        faults[self.rng.usize(0..most)].clone()
    }

    fn some_fault_of_an_exchange(&mut self) -> Fault {
        let (reason, after) = (String::new(), Duration::from_millis(self.rng.u64(0..20_000)));
        let evidence = [Evidence::Words, Evidence::Status, Evidence::Response][self.rng.usize(0..3)];
        let faults = [
            Fault::Unreachable { address: reason.clone(), reason: reason.clone() },
            Fault::NoSession { code: 404, said: reason.clone(), evidence },
            Fault::Deferred { code: 429, after: if self.rng.bool() { after } else { after * 10 } },
            Fault::Status { code: self.rng.u16(400..600), said: reason.clone() },
            Fault::AnswerCut,
            Fault::Stalled { after },
            Fault::UnknownHost { host: reason.clone(), reason: reason.clone() },
            Fault::Unauthorized { code: 401 },
            Fault::SignInNeeded { command: reason.clone(), may_ask: after.subsec_millis() % 2 == 0 },
            Fault::RefreshFailed { reason: reason.clone() },
            Fault::Untrusted { host: reason.clone(), reason: reason.clone() },
            Fault::Redirected { to: reason.clone() },
            Fault::NotMcp { found: reason },
        ];
        let most = if self.rng.u32(0..5) > 0 { 6 } else { faults.len() };
        faults[self.rng.usize(0..most)].clone()
    }

    // What is found.

    /// Takes in all that the owner told, in order, and holds it against what is known.
    fn judge(&mut self) {
        for told in std::mem::take(&mut self.owner.told) {
            self.say(|_| format!("    {told:?}"));
            match told {
                Told::Step(step) => self.judge_step(*step),
                Told::Connect(epoch) => self.judge_attempt(epoch),
                Told::Hangup(epoch, manner) => {
                    let process = self.processes.get_mut(&epoch).expect("only what lives is hung up");
                    let first = !std::mem::replace(&mut process.told_to_end, true);
                    if first && self.account.was_ready {
                        self.healthy = Some(self.now);
                    }
                    let patience = self.policy.ladders.ladder(manner).length() + self.policy.abandon_after;
                    let until = self.now + patience;
                    if manner == Manner::Failed {
                        let expired = matches!(
                            self.owner.lifecycle().state(),
                            State::Closing { fault: Some(Fault::SessionExpired { .. }), .. }
                        );
                        let settled_by =
                            self.now + self.policy.ladders.failed.length() + self.policy.settle_after;
                        process.settled_by = (!expired).then_some(settled_by);
                    }
                    process.patience = Some(process.patience.map_or(until, |sooner| until.min(sooner)));
                }
                Told::Abandon(epoch) => {
                    let patience = self.processes.get(&epoch).and_then(|process| process.patience);
                    assert!(
                        patience.is_some_and(|until| until <= self.now),
                        "P1: {epoch} is abandoned too soon"
                    );
                    self.abandoned.insert(epoch);
                }
                Told::Settled(epoch) => {
                    for (_, caller) in self.outstanding.iter().filter(|((on, _), _)| *on == epoch) {
                        self.calls.get_mut(caller).expect("only known calls are sent").waits_since = self.now;
                    }
                    self.outstanding.retain(|&(on, _), _| on != epoch);
                }
                Told::Retired(epoch) => {
                    let ledger = &self.owner.supervisor.ledger;
                    let left = self
                        .outstanding
                        .iter()
                        .filter(|((on, id), _)| *on == epoch && !ledger.is_on(*on, *id));
                    for (_, caller) in left {
                        self.calls.get_mut(caller).expect("only known calls are sent").waits_since = self.now;
                    }
                    self.outstanding.retain(|&(on, id), _| on != epoch || ledger.is_on(on, id));
                }
                Told::Send(epoch, id, caller) => self.judge_send(epoch, id, caller),
                Told::Kept(caller) => {
                    self.outstanding.retain(|_, c| *c != caller);
                    let truth = self.calls.get_mut(&caller).expect("only known calls are kept");
                    (truth.missed, truth.waits_since) = (true, self.now);
                    self.seen.insert("call missed and kept");
                }
                Told::Ended(caller, fate) => self.judge_end(caller, fate),
                Told::Notice(notice) => self.judge_notice(notice),
                Told::Moved(was, is) => self.judge_move(was, is),
                Told::Probe(epoch, at) => {
                    assert_eq!(epoch, self.owner.epoch());
                    self.asked = Some((at, self.owner.messages));
                }
            }
        }
        self.finish_step();
    }

    fn judge_step(&mut self, Transition { event, pulse, before: state, after }: Transition) {
        self.finish_step();
        if event == Event::Demand {
            p5_only_calls_are_demand(self);
        }
        self.first.told(&event);
        self.expected_charge = self.ends_in_a_fault(&state, &event, &pulse);
        if self.expected_charge {
            self.account.charged = true;
            self.charges.push(self.now);
        }
        match &event {
            Event::Begun(epoch, step) if *epoch == self.owner.epoch() && is_connecting(&state) => {
                self.account.discovering = *step == Step::Discovering;
                self.first.handshake(self.now);
            }
            Event::Opened(epoch) if *epoch == self.owner.epoch() && is_connecting(&state) => {
                self.account.discovering = false;
            }
            Event::Rest => self.judge_rest(&state, &after),
            Event::Reconnect(Requester::Person) | Event::Wake => {
                let ends = matches!(state, State::Closing { .. }) || state.is_parked_by_command();
                self.account.hurried |= ends;
                self.deferred_until = None; // Whatever was asked for, a person need not wait.
            }
            Event::Mended => {
                self.account.mended = true;
                if matches!(&state, State::Parked { fault, .. } if fault.is_permanent()) {
                    self.seen.insert("mended while parked");
                }
            }
            Event::Demand if state.is_parked_by_command() => _ = self.seen.insert("call refused by order"),
            Event::Demand if self.deferred_until.is_some() => {
                self.seen.insert("deferred with calls waiting");
            }
            Event::Close(_) | Event::Drain => _ = self.closing_since.get_or_insert(self.now),
            _ => {}
        }
        self.step = Some((state, event));
    }

    /// Nobody may lose anything by a rest.
    fn judge_rest(&mut self, before: &State, after: &State) {
        let rests = |state: &State| matches!(state, State::Closing { then: Intent::Rest, .. });
        let pending = self.calls.values().any(|truth| truth.ended.is_none() && !truth.own);
        if !rests(before) && rests(after) {
            assert!(!pending, "P2: a session rests under its calls and streams");
        } else {
            self.seen.insert("rest refused");
        }
    }

    /// The step is over: was each fault charged, and told, as it should have been?
    fn finish_step(&mut self) {
        let Some((state, event)) = self.step.take() else { return };
        assert!(!self.expected_charge, "P4: a fault was not told: {event:?} in {state:?}");
        if is_connecting(&state) && self.account.charged && matches!(event, Event::Lost(..) | Event::Tick) {
            let fault = match &event {
                Event::Lost(_, fault) => fault.clone(),
                _ => Fault::HandshakeTimeout { after: self.policy.connect_timeout },
            };
            p8_calls_fail_with_the_attempt_they_waited_for(self, &fault);
            self.note_patience();
        }
        if event == Event::Demand {
            p5_demand_makes_nothing_come_sooner_than_its_floor(&state, self);
        }
    }

    /// An attempt has failed. Who waits on?
    fn note_patience(&mut self) {
        let waits = |truth: &&Truth| truth.ended.is_none() && !truth.own && is_impatient(truth.nature);
        if self.calls.values().any(|truth| waits(&truth)) {
            self.seen.insert("call patient through a failed attempt");
            if self.parked.is_some() {
                self.seen.insert("call patient while parked");
            }
        }
    }

    /// Whether a call that did not run may wait for the next attempt after one has failed so.
    fn has_patience(&self, truth: &Truth, fault: &Fault) -> bool {
        let healthy = self.healthy.is_some_and(|ended| self.now - ended <= self.policy.healthy_within);
        let soon = !fault.is_permanent() && !matches!(fault, Fault::Deferred { .. });
        let before_it_parked = self.parked.is_none_or(|parked| truth.taken < parked);
        let left = self.policy.patience.is_some_and(|patience| self.now < truth.waits_since + patience);
        healthy && soon && before_it_parked && left
    }

    /// P4, as DESIGN.md puts it: planned and retired ends cost nothing, all others are charged once.
    fn ends_in_a_fault(&mut self, state: &State, event: &Event, pulse: &Pulse) -> bool {
        match (state, event) {
            // It is being left, and that is all.
            (State::Draining { .. }, Event::Lost(_, Fault::SessionExpired { .. })) => {
                self.seen.insert("forgotten while drained");
                false
            }
            (
                State::Connecting { .. } | State::Ready { .. } | State::Draining { .. },
                Event::Lost(epoch, fault),
            ) if *epoch == self.owner.epoch() => {
                let exits_again = self.first.lost(state, fault, &self.policy);
                self.a_loss_is_a_fault(fault, pulse, exits_again)
            }
            (
                State::Ready { watch: Watch::Probed { since, .. } | Watch::Spared { since, .. }, .. },
                Event::ProbeFailed(epoch, fault),
            ) if *epoch == self.owner.epoch() => {
                let asks = matches!(fault, Fault::SignInNeeded { may_ask: true, .. }) && pulse.calls > 0;
                let spared = asks || pulse.eldest.is_some_and(|eldest| eldest < *since);
                self.seen.insert(if spared { "probe failed and spared" } else { "probe failed" });
                !spared && self.a_loss_is_a_fault(fault, pulse, false)
            }
            (State::Closing { .. }, Event::Lost(epoch, fault)) if *epoch == self.owner.epoch() => {
                let charged = self.is_a_fault(fault, pulse) && !self.account.charged;
                if charged {
                    self.free_in_a_row = 0;
                }
                charged
            }
            (State::Ready { .. }, Event::Reconnect(Requester::Program)) => {
                let charged = !pulse.answered && self.free_in_a_row >= self.policy.free_reconnects;
                if charged {
                    self.seen.insert("reconnect charged");
                }
                self.count_free_end(charged, pulse.answered);
                charged
            }
            // What our own timer finds is judged when it is told.
            _ => false,
        }
    }

    fn a_loss_is_a_fault(&mut self, fault: &Fault, pulse: &Pulse, exits_again: bool) -> bool {
        if let Fault::Deferred { after, .. } = fault {
            let bounded = (*after).clamp(Duration::from_secs(1), Duration::from_secs(300));
            self.deferred_until = Some(self.now + bounded);
            self.seen.insert("deferred");
            return false; // It costs nothing, and the pause that it asks for bounds it.
        }
        let is_fault = self.is_a_fault(fault, pulse);
        let leads_nowhere = !pulse.answered && self.free_in_a_row >= self.policy.free_reconnects;
        let spent = !is_fault && (leads_nowhere || exits_again);
        let expired = matches!(fault, Fault::SessionExpired { .. });
        match (is_fault, spent) {
            (true, _) if expired => _ = self.seen.insert("forgotten and charged"),
            (_, true) if expired => _ = self.seen.insert("forgotten too often"),
            (_, true) => _ = self.seen.insert("free ends over"),
            _ if expired => _ = self.seen.insert("forgotten and free"),
            _ => {}
        }
        self.count_free_end(is_fault || spent, pulse.answered);
        (is_fault || spent) && !self.account.charged
    }

    fn is_a_fault(&self, fault: &Fault, pulse: &Pulse) -> bool {
        let was_proven = self.account.was_ready && (pulse.calls > 0 || pulse.answered);
        match fault {
            Fault::Deferred { .. } => return false,
            Fault::SessionExpired { .. } => return !was_proven,
            _ => {}
        }
        let ended = matches!(fault, Fault::Exited { .. } | Fault::Killed { .. });
        let in_good_order = *fault == Fault::Exited { code: 0 };
        let retired = self.account.was_ready && in_good_order && pulse.calls == 0 && pulse.answered;
        let told_its_era = !self.account.was_ready && self.account.discovering && ended;
        !(retired || told_its_era || *fault == Fault::WrongEra)
    }

    fn count_free_end(&mut self, charged: bool, answered: bool) {
        self.free_in_a_row = if charged || answered { 0 } else { self.free_in_a_row + 1 };
    }

    fn judge_attempt(&mut self, epoch: Epoch) {
        p1_at_most_one_process_lives(epoch, self);
        p5_an_attempt_has_a_reason(self);
        self.seen.extend(match &self.step {
            Some((State::Idle, _)) if !self.attempts.is_empty() => Some("woken from rest"),
            Some((state, Event::Wake)) if state.is_parked_by_command() => Some("woken by an operator"),
            Some((_, Event::ResetBudget)) => Some("woken by a reset budget"),
            _ => None,
        });
        if let Some((State::Closing { .. }, event)) = &self.step {
            if matches!(event, Event::Tick) {
                self.seen.insert("abandoned while replaced");
            }
            p5_over_budget_it_parks(self);
        }
        p5_who_asks_for_a_pause_is_not_asked_sooner(self);
        p10_epochs_rise_and_attempts_have_a_floor(epoch, self);
        self.deferred_until = None;
        p5_a_first_start_fails_only_so_often(self);
        self.attempts.push(self.now);
        self.first.attempt(self.now);
        self.account = Account::default();
        let process = Process {
            dead: false,
            told_to_end: false,
            patience: None,
            settled_by: None,
            written: 0,
            pipe: BTreeMap::new(),
        };
        self.processes.insert(epoch, process);
    }

    fn judge_send(&mut self, epoch: Epoch, id: CallId, caller: Caller) {
        assert!(self.used_ids.insert(id), "P7: {id:?} is used twice");
        let truth = self.calls.get_mut(&caller).expect("only known calls are sent");
        assert_eq!(truth.ended, None, "P2: call {caller} is sent after its end");
        truth.sends += 1;
        assert!(!truth.own || truth.sends == 1, "P3: our own calls never move");
        if truth.missed && self.last_sent.get(&epoch) > Some(&caller) {
            self.seen.insert("call sent again on its session");
        } else if truth.sends > 1 && !truth.own && truth.nature != Nature::Stream {
            self.seen.insert(if truth.runs == 0 { "call moved" } else { "call replayed" });
        }
        assert!(!self.processes[&epoch].told_to_end, "a call goes to a session that was told to end");
        // A pause costs a call its place.
        if !truth.own && !truth.missed {
            let last = self.last_sent.insert(epoch, caller);
            assert!(last < Some(caller), "older calls leave before newer ones");
        }
        self.outstanding.insert((epoch, id), caller);
    }

    fn judge_end(&mut self, caller: Caller, fate: Fate) {
        self.outstanding.retain(|_, c| *c != caller);
        if let Fate::Failed(Delivery::NotSent, fault) = &fate
            && !matches!(fault, Fault::Closed | Fault::Parked | Fault::Deferred { .. })
        {
            let truth = &self.calls[&caller];
            let patient = !truth.own && truth.sends == 0 && self.has_patience(truth, fault);
            assert!(!patient, "P2: call {caller} fails though it has patience left");
            if !fault.is_permanent() && self.policy.patience.is_some() {
                self.seen.insert("call whose patience is over");
            }
        }
        let truth = self.calls.get_mut(&caller).expect("only known calls end");
        assert_eq!(truth.ended, None, "P2: call {caller} ended twice");
        truth.ended = Some(fate.clone());
        self.seen.insert(match &fate {
            Fate::Answered => "call answered",
            Fate::Failed(_, fault) if fault.http_status().is_some() => "call missed and over",
            Fate::Failed(Delivery::NotSent, _) => "call failed not sent",
            Fate::Failed(..) => "call failed unknown",
            Fate::NotKnown => "call of a method not known",
            Fate::TimedOut(_) => "call timed out",
            Fate::Cancelled(_) => "call cancelled",
            Fate::Refused(Refusal::Overloaded) => "call overloaded",
            Fate::Refused(Refusal::Closed) => "call refused when closed",
        });
        a_call_said_to_be_not_sent_never_runs(caller, truth);
    }

    fn judge_notice(&mut self, notice: Notice) {
        self.seen.insert(match &notice {
            Notice::Connecting(_) => "notice connecting",
            Notice::Ready(_) => "notice ready",
            Notice::Fault(..) => "notice fault",
            Notice::Retired(..) => "notice retired",
            Notice::Planned(..) => "notice planned",
            Notice::Untidy(..) => "notice untidy",
            Notice::Late(..) => "notice late",
            Notice::Doubted(_) => "notice doubted",
            Notice::Backoff(_) => "notice backoff",
            Notice::Parked(_) => "notice parked",
            Notice::Resting => "notice resting",
            Notice::BudgetReset => "notice budget reset",
            Notice::Abandoned(_) => "notice abandoned",
            Notice::Woke => "notice woke",
            Notice::Closed => "notice closed",
        });
        match notice {
            Notice::Ready(_) => {
                self.account.was_ready = true;
                self.first.ready();
                self.slow = false;
                self.parked = None;
                self.refused = false;
            }
            Notice::Fault(epoch, fault, _) => {
                assert_eq!(epoch, self.owner.epoch());
                p4_a_charge_is_a_fault(&fault, self);
            }
            Notice::Late(epoch, fault) => {
                assert_eq!(epoch, self.owner.epoch());
                self.deferred_until = None; // There was another cause, and a worse one.
                p4_a_charge_is_a_fault(&fault, self);
            }
            Notice::Parked(Fault::Parked) => _ = self.seen.insert("parked by order"),
            Notice::Parked(fault) => {
                self.slow |= !fault.is_permanent();
                self.parked.get_or_insert(self.now);
            }
            Notice::BudgetReset => {
                self.charges.clear();
                self.free_in_a_row = 0;
                self.slow = false;
                self.parked = None;
            }
            Notice::Retired(epoch, _) => {
                assert_eq!(epoch, self.owner.epoch());
                assert!(!self.expected_charge, "P4: a fault was let go free");
                self.seen.insert("free end");
            }
            _ => {}
        }
    }

    fn judge_move(&mut self, was: &'static str, is: &'static str) {
        self.seen.insert(is);
        match (was, is) {
            ("closing", "backoff") => p5_over_budget_it_parks(self),
            (_, "closed") => p6_closed_leaves_nothing(self),
            _ => {}
        }
        if let State::Parked { probe_at: None, .. } = self.owner.lifecycle().state() {
            self.seen.insert("parked for good");
        }
    }

    /// After every turn.
    fn look(&mut self) {
        self.seen.insert(match self.owner.lifecycle().state() {
            State::Draining { then: Intent::Close, .. } => "drained to close",
            State::Ready { watch: Watch::Probed { doubt: true, .. }, .. } => "doubted",
            State::Ready { watch: Watch::Probed { .. }, .. } => "probed",
            State::Ready { watch: Watch::Spared { .. }, .. } => "spared",
            State::Ready { watch: Watch::Beside { .. }, .. } => "asked beside a call",
            State::Ready { watch: Watch::LeftAlone { .. }, .. } => "left alone",
            State::Connecting { step: Step::ClientsTurn, .. } => "clients turn",
            State::Connecting { step: Step::Discovering, .. } => "discovering",
            state => state.name(),
        });
        if !self.owner.lifecycle().is_closed() && self.owner.supervisor.ledger.pause_ends().is_some() {
            let ended = !matches!(self.owner.lifecycle().state(), State::Ready { .. });
            self.seen.extend(ended.then_some("call paused through a close"));
        }
        p2_every_call_ends_by_its_deadline(self);
        p2_the_calls_of_a_failed_session_end_soon(self);
        p4_the_budget_is_what_was_charged(self);
        p8_parked_and_closed_hold_no_waiting_call(self);
        p9_whatever_is_pending_has_a_timer(self);
        p9_a_tick_before_its_time_changes_nothing(self);
    }

    fn is_over_budget(&self) -> bool {
        self.charged_within_window() > self.policy.budget.charges
    }

    fn charged_within_window(&self) -> u32 {
        let recent = |&&charged: &&Time| self.now - charged < self.policy.budget.window;
        u32::try_from(self.charges.iter().filter(recent).count()).expect("few")
    }

    fn since_attempt(&self) -> Option<Duration> {
        self.attempts.last().map(|&last| self.now - last)
    }

    fn say(&mut self, line: impl FnOnce(&Walk) -> String) {
        if self.tell || self.keep {
            let line = format!("{} {}", self.now, line(self));
            if self.tell {
                eprintln!("{line}");
            }
            self.trace.push(line);
        }
    }
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> Option<&'a T> {
    if from.is_empty() { None } else { from.get(rng.usize(0..from.len())) }
}

/// Whether a server that has a call may run it, or may have, although its exchange ended so. The walk knows that by itself.
fn may_have_run(fault: &Fault) -> bool {
    match fault {
        Fault::NoSession { evidence, .. } => *evidence != Evidence::Words,
        Fault::Status { code, .. } => matches!(code, 400 | 404 | 408..=410 | 422 | 500..),
        Fault::Unreachable { .. } | Fault::UnknownHost { .. } | Fault::Untrusted { .. } => false,
        Fault::Unauthorized { .. } | Fault::SignInNeeded { .. } | Fault::RefreshFailed { .. } => false,
        Fault::Redirected { .. } | Fault::Deferred { .. } => false,
        _ => true,
    }
}

/// Whether such calls fail with an attempt that fails, unless they have patience. Handshakes and streams wait on.
fn is_impatient(nature: Nature) -> bool {
    !matches!(nature, Nature::Greeting | Nature::Stream)
}

fn is_connecting(state: &State) -> bool {
    matches!(state, State::Connecting { .. })
}

/// Numbers near enough to each other that a short life reaches all of them.
fn some_policy(rng: &mut Rng) -> Policy {
    let mut policy = Policy::default();
    if rng.u32(0..4) > 0 {
        policy.connect_timeout = Duration::from_secs(10);
        policy.call_limit = Duration::from_secs(200);
        policy.drain_timeout = Duration::from_secs(rng.u64(1..10));
        policy.idle_probe = Some(Duration::from_secs(rng.u64(2..20)));
        policy.probe_timeout = Duration::from_secs(2);
        policy.doubt_timeout = Duration::from_secs(1);
        policy.doubt_silence = Duration::from_secs(1);
        policy.doubt_patience = Duration::from_secs(rng.u64(1..20));
        policy.budget.charges = rng.u32(0..5);
        policy.budget.window = Duration::from_secs(rng.u64(5..200));
        policy.free_reconnects = rng.u32(0..3);
        policy.park_probe = Duration::from_secs(rng.u64(2..30));
        policy.max_calls = rng.usize(3..20);
        policy.max_pending_bytes = 200;
        policy.patience = (rng.u32(0..3) > 0).then(|| Duration::from_secs(rng.u64(0..20)));
        policy.healthy_within = Duration::from_secs(rng.u64(1..60));
    }
    policy.hang_timeout = (rng.u32(0..3) == 0).then(|| Duration::from_secs(rng.u64(1..10)));
    if rng.u32(0..5) == 0 {
        policy.idle_probe = None;
    }
    policy.probe_while_busy = rng.u32(0..5) == 0;
    policy
}
