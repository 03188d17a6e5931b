//! One life of a gateway, from one seed: its servers, what befalls them, its clients, its operator, and the end.

use std::time::Duration;

use fastrand::Rng;
use regrow::Era;
use regrow::core::Manner;
use regrow_gateway::Clients::{self, Many, One};
use regrow_gateway::admit::Principal;
use regrow_gateway::config::{Options, Sessions};
use regrow_gateway::operate::{Operate, ServerCommand};
use regrow_testkit::storm;
use serde_json::json;
use tokio::time::{advance, sleep, timeout};

use super::bug::{Bug, Planted};
use super::history::{End, Event, History, Key, Left, Recorder};
use super::visitor::{Manners, Visitor};
use super::{CALL_TIMEOUT, CONNECT_TIMEOUT, NAMES, TOOLS, WAITS, weather};
use crate::fake::Fake;
use crate::house::{House, described};

const STEPS: usize = 50;
/// So many servers are in every configuration: what is written to a single one is its own, whatever it is called.
const STAYING: usize = 2;

/// Lives it in simulated time.
pub fn live(seed: u64, bug: Option<Bug>) -> History {
    let (history, panics) = storm::run(async { Life::begin(seed, bug).pass().await });
    let mut history = history.unwrap_or_default();
    history.left.panics = panics;
    history
}

struct Life {
    random: Rng,
    recorder: Recorder,
    planted: Planted,
    clients: Clients,
    house: House,
    fakes: [Fake; 4],
    visitors: Vec<Visitor>,
    came: u32,
}

impl Life {
    fn begin(seed: u64, bug: Option<Bug>) -> Life {
        let mut random = Rng::with_seed(seed);
        let clients = if random.u8(..4) == 0 { One } else { Many };
        let fakes = NAMES.map(|name| {
            let fake = Fake::new(name, random.bool());
            if random.bool() { fake.far() } else { fake }
        });
        for fake in &fakes {
            let mut world = fake.world();
            world.capabilities = json!({
                "tools": { "listChanged": true }, "logging": {}, "resources": { "subscribe": true },
            });
            world.lists.insert("tools/list", TOOLS.map(str::to_owned).into());
            world.network.mishaps = Some(random.fork());
            world.hears_twice = bug == Some(Bug::CallsTwice);
        }
        let mood = random.u8(..6);
        let house = House::with(clients, &fakes.iter().collect::<Vec<_>>(), |options| set(options, mood));
        let (recorder, planted) = (Recorder::new(), Planted::new(bug));
        Life { random, recorder, planted, clients, house, fakes, visitors: vec![], came: 0 }
    }

    async fn pass(mut self) -> History {
        self.comes().await;
        for _ in 0..STEPS {
            self.step().await;
            self.visitors.iter().for_each(Visitor::answers);
        }
        let mut left = Left::default();
        match self.random.u8(..3) {
            0 => self.recovers().await,
            1 => left = self.settles().await,
            _ => {}
        }
        self.ends(left).await
    }

    async fn step(&mut self) {
        if self.planted.is(Bug::ThrowsDice) {
            self.random = Rng::new();
        }
        let at = self.random.usize(..self.visitors.len().max(1));
        match (self.random.u8(..100), self.visitors.get_mut(at)) {
            (0..5, _) | (_, None) => self.comes().await,
            (5..8, Some(_)) => self.leaves(at),
            (8..26, _) => self.misbehaves(),
            (26..29, _) => self.reloads(),
            (29..33, _) => self.commands(),
            (33, _) => {
                let length = Duration::from_secs([6, 60, 3600][self.random.usize(..3)]);
                self.recorder.note(Event::Jumps(length));
                advance(length).await;
            }
            (34..44, Some(visitor)) => visitor.cancels(&mut self.random),
            (44..50, Some(visitor)) => visitor.listens(&mut self.random),
            (50..53, Some(visitor)) => drop(visitor.guest.send(&json!("list"), "tools/list", json!({}))),
            (_, Some(visitor)) => visitor.calls(&mut self.random),
        }
        if self.random.bool() {
            sleep(Duration::from_millis(self.random.u64(..2000))).await;
        }
    }

    async fn comes(&mut self) {
        if self.visitors.len() >= if self.clients == One { 1 } else { 4 } {
            return;
        }
        let random = &mut self.random;
        let scope = (random.u8(..5) == 0).then(|| NAMES[random.usize(..STAYING)]);
        let principal = Principal::Client(u32::from(random.u8(..4) == 0));
        let modern = random.bool();
        self.enters(Manners { scope, principal, modern }).await;
    }

    async fn enters(&mut self, manners: Manners) {
        self.came += 1;
        let (gateway, recorder) = (&self.house.gateway, &self.recorder);
        let visitor = Visitor::enter(gateway, self.came, manners, recorder, &self.planted);
        if !visitor.guest.is_modern() {
            visitor.guest.greet().await;
        }
        self.visitors.push(visitor);
    }

    fn leaves(&mut self, at: usize) {
        let visitor = self.visitors.swap_remove(at);
        if self.planted.is(Bug::KeepsClient) {
            std::mem::forget(visitor.guest.admitted.clone());
        }
    }

    fn all_leave(&mut self) {
        while !self.visitors.is_empty() {
            self.leaves(0);
        }
    }

    fn reloads(&mut self) {
        self.weather("another configuration");
        let mood = self.random.u8(..6);
        let mut kept: Vec<_> = self.fakes[..STAYING].iter().collect();
        kept.extend(self.fakes[STAYING..].iter().filter(|_| self.random.u8(..3) > 0));
        self.random.shuffle(&mut kept);
        let servers = kept.into_iter().map(|fake| (fake, described(fake, |options| set(options, mood))));
        self.house.reload(servers.collect());
    }

    fn commands(&mut self) {
        let (name, command) = (
            NAMES[self.random.usize(..4)],
            ServerCommand::ALL[self.random.usize(..ServerCommand::ALL.len())],
        );
        self.weather(&format!("{}: {name}", command.name()));
        // Not every command is possible in every state, and the server may not be configured.
        let _ = self.house.gateway.command(name, command);
    }

    /// Something happens to a server, or to the way to it.
    fn misbehaves(&mut self) {
        let fake = &self.fakes[self.random.usize(..4)];
        let what = weather::gust(fake, &mut self.random, self.came);
        self.weather(&format!("{} {what}", fake.name));
    }

    fn weather(&self, what: &str) {
        self.recorder.note(Event::Weather(what.to_owned()));
    }

    /// The storm is over: every server can be called again, however long that takes.
    async fn recovers(&mut self) {
        self.recorder.note(Event::Calm);
        self.fakes.iter().for_each(|fake| fake.world().network.mishaps = None);
        let all = self.fakes.iter().map(|fake| (fake, described(fake, |options| set(options, 1))));
        self.house.reload(all.collect());
        self.visitors.clear();
        let modern = self.random.bool();
        self.enters(Manners { scope: None, principal: Principal::default(), modern }).await;
        for (name, fake) in NAMES.into_iter().zip(self.fakes.clone()) {
            if !self.grows_back(name, &fake).await {
                let report = self.house.report(name);
                let fault = report.last_fault.map(|fault| fault.text).unwrap_or_default();
                self.recorder.note(Event::StaysDown(name, format!("{:?} {fault}", report.state)));
            }
        }
    }

    /// Whether two calls in a row are answered in the end.
    async fn grows_back(&mut self, name: &'static str, fake: &Fake) -> bool {
        let mut in_a_row = 0;
        for _ in 0..60 {
            if !self.planted.is(Bug::StaysDown) {
                weather::calm(fake);
            }
            let _ = self.house.gateway.command(name, ServerCommand::Wake); // Only if it was told to stop.
            let key = self.visitors[0].call(name, "echo", 0);
            sleep(Duration::from_secs(1)).await;
            let answered = self.recorder.events().iter().any(|(_, event)| is_answer(event, key));
            in_a_row = if answered { in_a_row + 1 } else { 0 };
            if in_a_row == 2 {
                return true;
            }
            sleep(Duration::from_secs(20)).await;
        }
        false
    }

    /// Calls end, clients leave, and what was theirs goes with them.
    async fn settles(&mut self) -> Left {
        sleep(CALL_TIMEOUT + WAITS).await;
        self.all_leave();
        sleep(Duration::from_secs(60)).await;
        let reports = self.house.gateway.servers();
        Left {
            calls: reports.iter().map(|report| report.in_flight + report.queue).sum(),
            sessions: reports.iter().map(|report| report.private_sessions).sum(),
            ..Left::default()
        }
    }

    /// The gateway ends, with clients and calls or without, in one manner or another.
    async fn ends(mut self, left: Left) -> History {
        let mut history = History { left, ..History::default() };
        let manner = [Manner::Planned, Manner::ClientLeft, Manner::Told][self.random.usize(..3)];
        // Where it takes too long, something is left.
        let _ = timeout(Duration::from_secs(600), self.house.gateway.shutdown(manner, |_, _| {})).await;
        // Whoever has left is told nothing any more; all others are.
        if manner != Manner::ClientLeft {
            sleep(Duration::from_secs(1)).await;
            self.recorder.note(Event::Closed);
        }
        self.all_leave();
        sleep(Duration::from_secs(120)).await; // Until those who answer late have.
        history.left.clients = self.house.gateway.gateway().clients;
        let Life { house, fakes, recorder, .. } = self;
        drop(house);
        sleep(Duration::from_secs(60)).await;
        history.left.tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        for fake in fakes {
            testify(&fake, &mut history);
        }
        history.events = recorder.take();
        history
    }
}

fn is_answer(event: &Event, key: Key) -> bool {
    matches!(event, Event::Ends(of, End::Answered(_)) if *of == key)
}

/// A server's own account of the life.
fn testify(fake: &Fake, history: &mut History) {
    for call in fake.heard_of("tools/call") {
        let text = call["params"]["arguments"]["text"].as_str().unwrap_or_default().to_owned();
        *history.runs.entry((fake.name.to_string(), text)).or_default() += 1;
    }
    history.left.processes += fake.live();
    for wire in fake.wires() {
        let world = wire.world();
        history
            .left
            .on_wires
            .extend(world.after_end.iter().map(|what| format!("{what}, after that was ended")));
        if world.most_live > 1 {
            history.left.on_wires.push(format!("{} links to {} at once", world.most_live, fake.name));
        }
    }
    fake.world().sessions.clear(); // They know each other.
}

fn set(options: &mut Options, mood: u8) {
    options.sessions = [Sessions::Private, Sessions::Shared, Sessions::Auto][usize::from(mood % 3)];
    if mood < 3 {
        options.era = Era::Auto;
    }
    options.call_timeout = Some(CALL_TIMEOUT);
    (options.concurrency, options.queue) = (Some(2), 2);
    options.connect_timeout = CONNECT_TIMEOUT;
}
