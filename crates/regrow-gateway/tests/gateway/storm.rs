//! Seeded storms over the whole gateway: whatever servers and clients do, every call ends once and in time, runs at most once, and
//! nobody hears what was meant for another.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use regrow::core::Manner;
use regrow_gateway::Clients::{self, Many, One};
use regrow_gateway::admit::{Principal, Scope};
use regrow_gateway::config::{Options, Sessions};
use regrow_gateway::operate::Operate;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::fake::Fake;
use crate::guest::*;
use crate::house::{House, described};

const SEEDS: u64 = 300;
const STEPS: usize = 60;
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// It waits for its turn, for the server's greeting, and for its answer.
const ENDS_WITHIN: Duration = Duration::from_secs(20 + 10 + 20 + 1);
const TOOLS: [&str; 8] = ["echo", "echo", "wait", "lie", "log", "progress", "hang", "die"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A call that somebody made.
struct Call {
    id: u64,
    server: &'static str,
    text: String,
    begun: Instant,
    cancelled: bool,
    waiting: Waiting,
}

/// A client, and all that it has asked.
struct Visitor {
    name: String,
    guest: Guest,
    calls: Vec<Call>,
    last: u64,
}

impl Visitor {
    fn calls(&mut self, random: &mut Rng) {
        let (server, tool) = (NAMES[random.usize(..NAMES.len())], TOOLS[random.usize(..TOOLS.len())]);
        // Small numbers, so that those of different clients are equal.
        self.last += 1;
        let text = format!("{} {server} {}. {tool}", self.name, self.last);
        if std::env::var_os("DEBUG").is_some() { println!("{:?} {text}", Instant::now()); }
        let params = json!({
            "name": format!("{server}__{tool}"),
            "arguments": { "text": text, "ms": random.u64(..8000) },
            "_meta": { "progressToken": self.last },
        });
        let waiting = self.guest.send(&json!(self.last), "tools/call", params);
        let begun = Instant::now();
        self.calls.push(Call { id: self.last, server, text, begun, cancelled: false, waiting });
    }

    fn cancels(&mut self, random: &mut Rng) {
        if !self.calls.is_empty() {
            let at = random.usize(..self.calls.len());
            let id = self.calls[at].id;
            self.calls[at].cancelled |= self.guest.cancel(id);
        }
    }

    /// What has come by now is its own; what should have come is there.
    fn check(&mut self, context: &str) {
        let name = &self.name;
        for heard in self.guest.heard() {
            let text = heard.to_string();
            let is_own = text.contains(&format!("{name} ")) || heard["method"].as_str().is_some_and(is_nobody_s);
            assert!(is_own, "{context}: {name} heard {text}");
        }
        self.calls.retain_mut(|call| match call.waiting.now() {
            None => {
                let took = call.begun.elapsed();
                assert!(took <= ENDS_WITHIN, "{context}: {} has not ended after {took:?}", call.text);
                true
            }
            Some(Value::Null) => {
                assert!(call.cancelled, "{context}: {} was dropped", call.text);
                false
            }
            Some(end) => {
                let said = end["result"]["content"][0]["text"].as_str();
                let is_truth = said.is_some_and(|said| said == format!("{}: {}", call.server, call.text));
                let is_failure = end["failed"].is_string() || end["error"].is_object();
                assert!(is_truth || is_failure, "{context}: {} was answered {end}", call.text);
                false
            }
        });
    }
}

fn is_nobody_s(method: &str) -> bool {
    method.ends_with("/list_changed") || method == "notifications/cancelled"
}

struct Storm {
    clients: Clients,
    house: House,
    fakes: [Fake; 4],
    visitors: Vec<Visitor>,
    came: usize,
}

impl Storm {
    fn new(random: &mut Rng, clients: Clients) -> Storm {
        let fakes = NAMES.map(|name| Fake::new(name, random.bool()));
        let private = random.bool();
        let house = House::with(clients, &fakes.iter().collect::<Vec<_>>(), |options| set(options, private));
        Storm { clients, house, fakes, visitors: vec![], came: 0 }
    }

    async fn comes(&mut self, random: &mut Rng) {
        if self.visitors.len() >= if self.clients == One { 1 } else { 4 } {
            return;
        }
        self.came += 1;
        let modern = random.bool();
        let principal = Principal(u32::from(random.u8(..4) == 0));
        let guest = Guest::enter(&self.house.gateway, &Scope::All, principal, modern);
        if !modern {
            guest.greet().await;
        }
        self.visitors.push(Visitor { name: format!("client{}", self.came), guest, calls: vec![], last: 0 });
    }

    fn reloads(&self, random: &mut Rng) {
        let private = random.bool();
        if std::env::var_os("DEBUG").is_some() { println!("{:?} reload", Instant::now()); }
        // Two stay: what is written to a single server is its own, whatever it is called.
        let mut kept: Vec<_> = self.fakes[..2].iter().collect();
        kept.extend(self.fakes[2..].iter().filter(|_| random.u8(..3) > 0));
        random.shuffle(&mut kept);
        let servers = kept.into_iter().map(|fake| (fake, described(fake, |options| set(options, private))));
        self.house.reload(servers.collect());
    }

    fn misbehaves(&self, random: &mut Rng) {
        let fake = &self.fakes[random.usize(..self.fakes.len())];
        if std::env::var_os("DEBUG").is_some() { println!("misbehaves {}", fake.name); }
        match random.u8(..6) {
            0 | 1 => fake.die(),
            2 => fake.world().is_broken ^= true,
            3 => fake.world().is_mute ^= true,
            4 => fake.world().start_takes = Duration::from_millis(random.u64(..3000)),
            _ => fake.changes_tools(if random.bool() { &TOOLS } else { &TOOLS[1..] }),
        }
    }

    async fn step(&mut self, random: &mut Rng) {
        match random.u8(..100) {
            0..5 => self.comes(random).await,
            5..8 if !self.visitors.is_empty() => {
                drop(self.visitors.swap_remove(random.usize(..self.visitors.len())));
            }
            8..20 => self.misbehaves(random),
            20..23 => self.reloads(random),
            choice if !self.visitors.is_empty() => {
                let at = random.usize(..self.visitors.len());
                let visitor = &mut self.visitors[at];
                match choice {
                    23..35 => visitor.cancels(random),
                    35..40 => drop(visitor.guest.send(&json!("list"), "tools/list", json!({}))),
                    _ => visitor.calls(random),
                }
            }
            _ => self.comes(random).await,
        }
        if random.bool() {
            sleep(Duration::from_millis(random.u64(..2000))).await;
        }
    }

    /// No call came to a server twice, nor to another's.
    fn check_ledgers(&self, context: &str) {
        for fake in &self.fakes {
            let mut runs: BTreeMap<String, usize> = BTreeMap::new();
            for call in fake.heard_of("tools/call") {
                let text = call["params"]["arguments"]["text"].as_str().unwrap_or_default().to_owned();
                assert!(text.contains(&format!(" {} ", fake.name)), "{context}: {text} came to {}", fake.name);
                *runs.entry(text).or_default() += 1;
            }
            let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
            assert!(twice.is_empty(), "{context}: {twice:?}");
        }
    }

    /// Nothing is left when all is over.
    async fn ends(mut self, context: &str) {
        sleep(ENDS_WITHIN + Duration::from_secs(1)).await;
        self.visitors.iter_mut().for_each(|visitor| visitor.check(context));
        self.visitors.clear();
        sleep(Duration::from_secs(40)).await;
        for report in self.house.gateway.servers() {
            assert_eq!((report.in_flight, report.queue, report.private_sessions), (0, 0, 0), "{context}");
        }
        assert_eq!(self.house.gateway.gateway().clients, 0, "{context}");
        self.house.gateway.shutdown(Manner::Planned, |_, _| {}).await;
        self.check_ledgers(context);
        let live: Vec<_> = self.fakes.iter().map(Fake::live).collect();
        assert_eq!(live, [0; 4], "{context}");
    }
}

fn set(options: &mut Options, private: bool) {
    options.sessions = if private { Sessions::Private } else { Sessions::Shared };
    options.call_timeout = Some(CALL_TIMEOUT);
    (options.concurrency, options.queue) = (Some(4), 8);
    options.connect_timeout = CONNECT_TIMEOUT;
}

async fn storm(seed: u64) {
    let context = format!("seed {seed} (REGROW_SEED={seed} cargo test -p regrow-gateway --test gateway storm)");
    let random = &mut Rng::with_seed(seed);
    let clients = if random.u8(..4) == 0 { One } else { Many };
    let mut storm = Storm::new(random, clients);
    storm.comes(random).await;
    for _ in 0..STEPS {
        storm.step(random).await;
        storm.visitors.iter_mut().for_each(|visitor| visitor.check(&context));
    }
    storm.check_ledgers(&context);
    storm.ends(&context).await;
}

#[test]
fn in_a_storm_every_call_ends_once_and_in_time_runs_at_most_once_and_is_heard_by_nobody_else() {
    let replayed = std::env::var("REGROW_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = replayed.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        // One runtime for each: what a storm leaves behind would be another's.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        println!("seed {seed}");
        runtime.block_on(storm(seed));
    }
}
