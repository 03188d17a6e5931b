//! A tiny scripted world in simulated time: one server, one owner, and what happens to them.

pub(crate) mod owner;

use owner::{Caller, Fate, Owner, Told};
use regrow_core::{
    CallId, Epoch, Event, Evidence, Fault, Manner, Nature, Notice, Policy, Reach, Requester, State, Step,
    Time,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

pub(crate) fn secs(seconds: f64) -> Duration {
    Duration::from_millis((seconds * 1000.0).round() as u64)
}

pub(crate) fn at(seconds: f64) -> Time {
    Time::ZERO + secs(seconds)
}

pub(crate) fn killed() -> Fault {
    Fault::Killed { signal: 9 }
}

pub(crate) fn exited(code: i32) -> Fault {
    Fault::Exited { code }
}

/// The defaults, with pauses that can be read in a log.
pub(crate) fn exact() -> Policy {
    let mut policy = Policy::default();
    policy.backoff.jitter_percent = 0;
    policy
}

/// What may happen in a script.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    Start,
    Call(Nature, Option<Duration>),
    Cancel(Caller),
    /// The server reports progress on this call.
    Progress(Caller),
    /// The process ends by itself.
    Dies(Fault),
    /// It lives on but reads and says nothing more.
    Hangs,
    /// The exchanges of all calls in flight end so.
    Cuts(Fault),
    /// The server knows its sessions no more.
    Forgets,
    Reconnect(Requester),
    /// Something has changed that may mend what only a person can.
    Mends,
    /// What an operator may order.
    Rest,
    Park,
    Wake,
    ResetBudget,
    /// The connection must end when its calls have.
    Drain,
    Close(Manner),
    /// A person is asked, and has answered.
    Asks,
    Replies,
    // What follows from the above.
    Steps(Epoch, Step),
    Connects(Epoch),
    Fails(Epoch, Fault),
    Answers(Epoch, CallId),
    Misses(Epoch, CallId, Fault),
    /// Answers the probe of that time.
    Pongs(Epoch, Time),
    FailsProbe(Epoch, Fault),
    Vanishes(Epoch),
}

/// How a server takes a ping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ping {
    Answers,
    Refuses,
}

/// The script of a life, and the manners of its server.
#[derive(Clone)]
pub(crate) struct World {
    seed: u64,
    until: Time,
    start: Duration,
    answer: Duration,
    pub(crate) ping: Ping,
    /// It works on one message at a time.
    serial: bool,
    /// It can be told what a dead server never read.
    pipes: bool,
    /// From the hangup to the end; none: it never ends.
    gone: Option<Duration>,
    /// Attempts that start between these times end with that fault, after so long.
    broken: Option<(Time, Time, Fault, Duration)>,
    /// Every session ends so after it became ready.
    fragile: Option<(Duration, Fault)>,
    /// Exits with code 0 after so many answers.
    retires: Option<u32>,
    /// Whatever is sent between these times ends so, at once: attempts, calls, probes.
    outage: Option<(Time, Time, Fault)>,
    /// Knows a session no more after so many answers.
    forgets: Option<u32>,
    /// Sessions take this step in their handshake first.
    pub(crate) first_step: Option<Step>,
    sleep: Option<(Time, Time)>,
    script: Vec<(Time, Happening)>,
}

impl World {
    /// A server that starts in a second, answers in 0.1 s, and ends when told.
    pub(crate) fn new(until: f64) -> World {
        World {
            seed: 7,
            until: at(until),
            start: secs(1.0),
            answer: secs(0.1),
            ping: Ping::Answers,
            serial: false,
            pipes: true,
            gone: Some(Duration::ZERO),
            broken: None,
            fragile: None,
            retires: None,
            outage: None,
            forgets: None,
            first_step: None,
            sleep: None,
            script: vec![],
        }
    }

    pub(crate) fn until(mut self, seconds: f64) -> World {
        self.until = at(seconds);
        self
    }

    pub(crate) fn seed(mut self, seed: u64) -> World {
        self.seed = seed;
        self
    }

    pub(crate) fn starts_in(mut self, seconds: f64) -> World {
        self.start = secs(seconds);
        self
    }

    pub(crate) fn answers_in(mut self, seconds: f64) -> World {
        self.answer = secs(seconds);
        self
    }

    pub(crate) fn pings(mut self, ping: Ping) -> World {
        self.ping = ping;
        self
    }

    pub(crate) fn one_at_a_time(mut self) -> World {
        self.serial = true;
        self
    }

    pub(crate) fn gone_in(mut self, seconds: f64) -> World {
        self.gone = Some(secs(seconds));
        self
    }

    pub(crate) fn never_gone(mut self) -> World {
        self.gone = None;
        self
    }

    pub(crate) fn broken_until(self, seconds: f64, fault: Fault, after: f64) -> World {
        self.broken_from(0.0, seconds, fault, after)
    }

    pub(crate) fn broken_from(mut self, from: f64, until: f64, fault: Fault, after: f64) -> World {
        self.broken = Some((at(from), at(until), fault, secs(after)));
        self
    }

    pub(crate) fn dies_after(mut self, seconds: f64, fault: Fault) -> World {
        self.fragile = Some((secs(seconds), fault));
        self
    }

    pub(crate) fn retires_after(mut self, answers: u32) -> World {
        self.retires = Some(answers);
        self
    }

    /// Each call has an exchange of its own.
    pub(crate) fn over_http(mut self) -> World {
        self.pipes = false;
        self
    }

    pub(crate) fn down(mut self, from: f64, until: f64, fault: Fault) -> World {
        self.outage = Some((at(from), at(until), fault));
        self
    }

    pub(crate) fn forgets_after(mut self, answers: u32) -> World {
        self.forgets = Some(answers);
        self
    }

    pub(crate) fn steps_first(mut self, step: Step) -> World {
        self.first_step = Some(step);
        self
    }

    pub(crate) fn sleeps(mut self, from: f64, until: f64) -> World {
        self.sleep = Some((at(from), at(until)));
        self
    }

    pub(crate) fn then(mut self, seconds: f64, happening: Happening) -> World {
        self.script.push((at(seconds), happening));
        self
    }

    /// A call to a tool that may change the world.
    pub(crate) fn call(self, seconds: f64) -> World {
        self.then(seconds, Happening::Call(Nature::Effect, Policy::default().call_timeout))
    }

    pub(crate) fn call_within(self, seconds: f64, timeout: f64) -> World {
        self.then(seconds, Happening::Call(Nature::Effect, Some(secs(timeout))))
    }

    pub(crate) fn start(self, seconds: f64) -> World {
        self.then(seconds, Happening::Start)
    }

    pub(crate) fn kill(self, seconds: f64) -> World {
        self.then(seconds, Happening::Dies(killed()))
    }

    /// Lives it.
    pub(crate) fn live(&self, policy: &Policy) -> Life {
        let mut run = Run {
            world: self,
            policy,
            owner: Owner::new(policy, self.seed),
            now: Time::ZERO,
            queue: BTreeMap::new(),
            turn: 0,
            session: None,
            life: Life::default(),
        };
        for (time, happening) in &self.script {
            run.later(*time, happening.clone());
        }
        run.run();
        run.life.state = run.owner.lifecycle().state().clone().name();
        run.life.attempts = std::mem::take(&mut run.owner.attempts);
        run.life.budget_left = run.owner.lifecycle().budget_left(run.now);
        run.life
    }
}

/// What can be told of a life.
#[derive(Clone, Default, Debug)]
pub(crate) struct Life {
    pub(crate) log: String,
    pub(crate) starts: Vec<Time>,
    pub(crate) readies: Vec<Time>,
    pub(crate) notices: Vec<(Time, Notice)>,
    pub(crate) fates: BTreeMap<Caller, (Time, Fate)>,
    pub(crate) sends: BTreeMap<Caller, u32>,
    /// How many attempts failed while a call that failed waited.
    pub(crate) attempts: BTreeMap<Caller, u32>,
    pub(crate) probes: Vec<Time>,
    pub(crate) state: &'static str,
    pub(crate) budget_left: u32,
}

impl Life {
    pub(crate) fn charges(&self) -> usize {
        let charged = |(_, n): &&(Time, Notice)| matches!(n, Notice::Fault(..) | Notice::Late(..));
        self.notices.iter().filter(charged).count()
    }

    /// How many faults there were between these times.
    pub(crate) fn failed_between(&self, from: f64, until: f64) -> u32 {
        let failed = |(time, n): &&(Time, Notice)| {
            matches!(n, Notice::Fault(..)) && (at(from)..=at(until)).contains(time)
        };
        self.notices.iter().filter(failed).count() as u32
    }

    pub(crate) fn parked(&self) -> Vec<Time> {
        self.notices.iter().filter(|(_, n)| matches!(n, Notice::Parked(_))).map(|&(t, _)| t).collect()
    }

    pub(crate) fn answered(&self) -> usize {
        self.fates.values().filter(|(_, fate)| *fate == Fate::Answered).count()
    }

    /// When a call ended, and how.
    pub(crate) fn fate(&self, caller: Caller) -> (f64, &Fate) {
        let (time, fate) =
            self.fates.get(&caller).unwrap_or_else(|| panic!("call {caller} is pending:\n{}", self.log));
        (time.as_millis() as f64 / 1000.0, fate)
    }
}

struct Session {
    epoch: Epoch,
    alive: bool,
    hung: bool,
    told_to_end: bool,
    answers: u32,
    sent: u64,
    /// Where in its input it stopped reading.
    read: Option<u64>,
    /// How it ended while it was being ended.
    crash: Option<Fault>,
    forgotten: bool,
}

struct Run<'a> {
    world: &'a World,
    policy: &'a Policy,
    owner: Owner,
    now: Time,
    queue: BTreeMap<(Time, u64), Happening>,
    turn: u64,
    session: Option<Session>,
    life: Life,
}

impl Run<'_> {
    fn run(&mut self) {
        let mut idle_turns = 0;
        loop {
            let queued = self.queue.first_key_value().map(|(&(time, _), _)| time);
            let due = self.owner.deadline();
            let Some(next) = [queued, due].into_iter().flatten().min() else { break };
            let next = self.awake(next.max(self.now));
            if next > self.world.until {
                break;
            }
            idle_turns = if next == self.now { idle_turns + 1 } else { 0 };
            assert!(idle_turns < 10_000, "time stands still at {next}:\n{}", self.life.log);
            self.now = next;
            match self.queue.first_entry() {
                Some(first) if first.key().0 <= next => {
                    let happening = first.remove();
                    self.happen(happening);
                }
                _ => self.owner.tick(self.now),
            }
            self.carry_out();
        }
        self.now = self.world.until;
    }

    fn awake(&self, time: Time) -> Time {
        match self.world.sleep {
            Some((from, until)) if time > from && time < until => until,
            _ => time,
        }
    }

    fn later(&mut self, time: Time, happening: Happening) {
        self.turn += 1;
        self.queue.insert((time, self.turn), happening);
    }

    fn happen(&mut self, happening: Happening) {
        let now = self.now;
        let owner = &mut self.owner;
        let live = |session: &&mut Session| session.alive && !session.hung;
        match happening {
            Happening::Start => owner.event(now, Event::Start),
            Happening::Call(nature, timeout) => {
                owner.call(now, Duration::ZERO, nature, timeout, 1);
                self.greet();
            }
            Happening::Cancel(caller) => {
                owner.cancel(now, caller);
            }
            Happening::Progress(caller) => {
                owner.heard = now;
                if let Some(id) = owner.supervisor.ledger.find(|&c| c == caller) {
                    owner.supervisor.ledger.extend(now, id);
                }
            }
            Happening::Dies(fault) => self.dies(fault),
            Happening::Hangs => {
                if let Some(session) = &mut self.session {
                    session.hung = true;
                    session.read = Some(session.sent);
                }
            }
            Happening::Cuts(fault) => {
                let in_flight = self.queue.values().filter_map(|happening| match happening {
                    Happening::Answers(epoch, id) => Some((*epoch, *id)),
                    _ => None,
                });
                for (epoch, id) in in_flight.collect::<Vec<_>>() {
                    self.later(now, Happening::Misses(epoch, id, fault.clone()));
                }
            }
            Happening::Forgets => self.session.iter_mut().for_each(|session| session.forgotten = true),
            Happening::Mends => owner.event(now, Event::Mended),
            Happening::Reconnect(requester) => owner.reconnect(now, requester),
            Happening::Rest => owner.event(now, Event::Rest),
            Happening::Park => owner.event(now, Event::Park),
            Happening::Wake => owner.event(now, Event::Wake),
            Happening::ResetBudget => owner.event(now, Event::ResetBudget),
            Happening::Drain => owner.event(now, Event::Drain),
            Happening::Close(manner) => owner.event(now, Event::Close(manner)),
            Happening::Asks => owner.supervisor.ledger.stop_clock(now),
            Happening::Replies => owner.supervisor.ledger.start_clock(now),
            Happening::Steps(epoch, step) => {
                if self.session.as_ref().is_some_and(|s| s.epoch == epoch && s.alive) {
                    match step {
                        Step::ClientsTurn => owner.event(now, Event::Opened(epoch)),
                        _ => owner.event(now, Event::Begun(epoch, step)),
                    }
                    self.greet();
                }
            }
            Happening::Connects(epoch) => {
                if self.session.as_mut().filter(live).is_some_and(|s| s.epoch == epoch && !s.told_to_end) {
                    owner.event(now, Event::Connected(epoch));
                    if let Some((after, fault)) = self.world.fragile.clone() {
                        self.later(now + after, Happening::Fails(epoch, fault));
                    }
                }
            }
            Happening::Fails(epoch, fault) => {
                if self.session.as_ref().is_some_and(|s| s.epoch == epoch) {
                    self.dies(fault);
                }
            }
            Happening::Answers(epoch, id) => {
                let Some(session) = self.session.as_mut().filter(|s| s.epoch == epoch) else {
                    if !self.world.pipes {
                        owner.answer(now, epoch, id, true); // On an exchange that goes on.
                    }
                    return;
                };
                if !live(&session) {
                    return;
                }
                session.answers += 1;
                session.forgotten |= self.world.forgets == Some(session.answers);
                let retires = self.world.retires == Some(session.answers);
                owner.answer(now, epoch, id, true);
                if matches!(owner.lifecycle().state(), State::Connecting { .. }) {
                    owner.event(now, Event::Connected(epoch));
                }
                if retires {
                    self.dies(exited(0));
                }
            }
            Happening::Pongs(epoch, asked) => {
                if self.session.as_mut().filter(live).is_some_and(|s| s.epoch == epoch) {
                    owner.heard = now;
                    owner.messages += 1;
                    match self.world.ping {
                        Ping::Answers => owner.event(now, Event::ProbeAnswered(epoch, asked)),
                        Ping::Refuses => owner.event(now, Event::ProbeRefused(epoch)),
                    }
                }
            }
            Happening::Misses(epoch, id, fault) => {
                // It tells us something, whatever it is.
                if fault.http_status().is_some() {
                    owner.heard = now;
                }
                let forgotten = self.session.as_ref().is_some_and(|session| session.forgotten);
                let fault = owner.judge(epoch, id, fault, forgotten);
                if owner.miss(now, epoch, id, &fault) {
                    owner.concern(now, epoch, &fault);
                }
            }
            Happening::FailsProbe(epoch, fault) => match fault.reach() {
                Reach::Call => owner.heard = now,
                Reach::Doubt => {
                    owner.event(now, Event::ProbeFailed(epoch, fault));
                }
                Reach::Session => owner.concern(now, epoch, &fault),
            },
            Happening::Vanishes(epoch) => {
                let session = self.session.take_if(|session| session.epoch == epoch);
                // Only now it is known what it never read.
                let read = session.as_ref().and_then(|session| session.read).filter(|_| self.world.pipes);
                owner.read.extend(read.map(|read| (epoch, read)));
                let crash = session.and_then(|session| session.crash);
                owner.event(now, Event::Gone(epoch, crash));
            }
        }
    }

    /// The client's own handshake goes to a server that waits for it.
    fn greet(&mut self) {
        let owner = &mut self.owner;
        let turn = State::Connecting { step: Step::ClientsTurn, deadline: None };
        if *owner.lifecycle().state() == turn && owner.dispatch(owner.epoch()) {
            owner.event(self.now, Event::Begun(owner.epoch(), Step::Greeting));
        }
    }

    /// The process is dead. Its owner hears of it, unless it meant that.
    fn dies(&mut self, fault: Fault) {
        let Some(session) = &mut self.session else { return };
        if !session.alive {
            return;
        }
        session.alive = false;
        let (epoch, meant) = (session.epoch, session.told_to_end);
        if meant {
            session.crash = Some(fault);
            self.later(self.now, Happening::Vanishes(epoch));
        } else {
            self.owner.event(self.now, Event::Lost(epoch, fault));
        }
    }

    /// Does what the owner wants, and writes it down.
    fn carry_out(&mut self) {
        let now = self.now;
        let told = std::mem::take(&mut self.owner.told);
        for told in &told {
            if let Told::Notice(notice) = told {
                self.life.notices.push((now, notice.clone())); // They tell why the state moved.
            }
        }
        for told in told {
            match told {
                Told::Step(..) | Told::Settled(_) | Told::Retired(_) | Told::Kept(_) => {}
                Told::Connect(epoch) => self.connect(epoch),
                Told::Probe(epoch, asked) => {
                    self.life.probes.push(now);
                    // In the same instant: nothing is faster than a local server.
                    let free_at = if self.world.serial { self.free_at() } else { now };
                    self.later(
                        free_at,
                        match self.refusal() {
                            None => Happening::Pongs(epoch, asked),
                            Some(fault) => Happening::FailsProbe(epoch, fault),
                        },
                    );
                }
                Told::Hangup(epoch, manner) => self.hangup(epoch, manner),
                Told::Abandon(_) => self.session = None,
                Told::Send(epoch, id, caller) => {
                    *self.life.sends.entry(caller).or_default() += 1;
                    if let Some(fault) = self.refusal() {
                        if fault.http_status().is_some() {
                            self.owner.supervisor.ledger.sent(id, 0); // Who answers has read it.
                        }
                        self.later(now, Happening::Misses(epoch, id, fault));
                    } else if let Some(session) = &mut self.session
                        && session.epoch == epoch
                        && session.alive
                    {
                        self.owner.supervisor.ledger.sent(id, session.sent);
                        session.sent += 1;
                        self.later(now + self.world.answer, Happening::Answers(epoch, id));
                    }
                }
                Told::Notice(notice) => {
                    if let Notice::Ready(_) = notice {
                        self.life.readies.push(now);
                    }
                }
                Told::Moved(was, is) => {
                    let why = self.why(is);
                    writeln!(self.life.log, "{} {was} -> {is}{why}", clock(now)).expect("a string takes all");
                }
                Told::Ended(caller, fate) => {
                    writeln!(self.life.log, "{} call {caller}: {}", clock(now), fate_text(&fate))
                        .expect("a string takes all");
                    let before = self.life.fates.insert(caller, (now, fate));
                    assert_eq!(before, None, "P2: call {caller} ended twice:\n{}", self.life.log);
                }
            }
        }
    }

    /// When it has answered all that it was sent.
    fn free_at(&self) -> Time {
        let answers = self.queue.iter().filter(|(_, it)| matches!(it, Happening::Answers(..)));
        answers.map(|(&(time, _), _)| time).max().unwrap_or(self.now).max(self.now)
    }

    /// How whatever is sent now ends, if not well.
    fn refusal(&self) -> Option<Fault> {
        let down = self.world.outage.as_ref().filter(|(from, until, _)| (*from..*until).contains(&self.now));
        let forgotten = self.session.as_ref().is_some_and(|session| session.forgotten);
        match down {
            Some((_, _, fault)) => Some(fault.clone()),
            None => forgotten.then(|| no_session(Evidence::Words)),
        }
    }

    /// What is to be said of the newest move.
    fn why(&self, is: &str) -> String {
        let now = self.now;
        let here =
            self.life.notices.iter().rev().take_while(|&&(time, _)| time == now).map(|(_, notice)| notice);
        for notice in here {
            match (is, notice) {
                ("closing", Notice::Fault(_, fault, _)) => return format!(": {}", short(fault)),
                ("closing", Notice::Retired(_, fault)) => return format!(": {}, free", short(fault)),
                ("closing", Notice::Planned(..)) => return ": planned".to_owned(),
                ("backoff", Notice::Backoff(pause)) => return format!(": {}s", pause.as_secs_f64()),
                ("parked", Notice::Parked(fault)) => return format!(": {}", short(fault)),
                ("idle", Notice::Resting) => return ": resting".to_owned(),
                ("connecting" | "backoff" | "closed", Notice::Abandoned(_)) => {
                    return ": abandoned".to_owned();
                }
                _ => {}
            }
        }
        String::new()
    }

    fn connect(&mut self, epoch: Epoch) {
        let now = self.now;
        assert!(self.session.is_none(), "P1: an attempt starts while a session lives:\n{}", self.life.log);
        self.life.starts.push(now);
        self.session = Some(Session {
            epoch,
            alive: true,
            hung: false,
            told_to_end: false,
            answers: 0,
            sent: 0,
            read: None,
            crash: None,
            forgotten: self.world.forgets == Some(0),
        });
        if let Some(step) = self.world.first_step {
            self.later(now, Happening::Steps(epoch, step));
        }
        let down = self.world.outage.clone().filter(|(from, until, _)| (*from..*until).contains(&now));
        if let Some((.., fault)) = down {
            return self.later(now, Happening::Fails(epoch, fault));
        }
        match &self.world.broken {
            Some((from, until, fault, after)) if (*from..*until).contains(&now) => {
                self.later(now + *after, Happening::Fails(epoch, fault.clone()));
            }
            // Then the answer to the client's handshake makes it a session.
            _ if self.world.first_step == Some(Step::ClientsTurn) => {}
            _ => self.later(now + self.world.start, Happening::Connects(epoch)),
        }
    }

    fn hangup(&mut self, epoch: Epoch, manner: Manner) {
        let Some(session) = self.session.as_mut().filter(|s| s.epoch == epoch) else { return };
        session.told_to_end = true;
        let dead = !session.alive;
        let ladder = self.policy.ladders.ladder(manner).length();
        match self.world.gone {
            _ if dead => self.later(self.now, Happening::Vanishes(epoch)),
            Some(gone) => self.later(self.now + gone.min(ladder), Happening::Vanishes(epoch)),
            None => {}
        }
    }
}

/// The server answers as one that does not know the session.
pub(crate) fn no_session(evidence: Evidence) -> Fault {
    Fault::NoSession { code: 404, said: String::new(), evidence }
}

/// Whether this life in this world reads like that log.
#[track_caller]
pub(crate) fn check(policy: &Policy, world: World, expected: &str) -> Life {
    let life = world.live(policy);
    let lines =
        |text: &str| text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n");
    let (is, wanted) = (lines(&life.log), lines(expected));
    assert!(is == wanted, "the life was\n{is}\nbut should have been\n{wanted}");
    life
}

fn clock(time: Time) -> String {
    let millis = time.as_millis();
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    let cut = text.trim_end_matches('0');
    format!("{cut}{}s", if cut.ends_with('.') { "0" } else { "" })
}

fn fate_text(fate: &Fate) -> String {
    match fate {
        Fate::Answered => "answered".to_owned(),
        Fate::Failed(delivery, fault) => format!("failed, {}: {}", delivery.name(), short(fault)),
        Fate::NotKnown => "method not found".to_owned(),
        Fate::TimedOut(delivery) => format!("timed out, {}", delivery.name()),
        Fate::Cancelled(delivery) => format!("cancelled, {}", delivery.name()),
        Fate::Refused(why) => format!("refused: {why:?}"),
    }
}

fn short(fault: &Fault) -> String {
    let text = fault.to_string();
    let cut = text.strip_prefix("the server process ").unwrap_or(&text);
    cut.strip_prefix("was ").unwrap_or(cut).to_owned()
}
