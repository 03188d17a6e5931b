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
/// With what the ends of others take.
const ENDS_WITHIN: Duration = Duration::from_secs(20 + 1);
const TOOLS: [&str; 9] = ["ask", "die", "echo", "echo", "hang", "lie", "log", "progress", "wait"];
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
        let text = format!("{} {server} {} {tool}", self.name, self.last);
        let params = json!({
            "name": format!("{server}__{tool}"),
            "arguments": { "text": text, "ms": random.u64(..8000) },
            "_meta": { "progressToken": self.last },
        });
        let waiting = self.guest.send(&json!(self.last), "tools/call", params);
        let begun = Instant::now();
        self.calls.push(Call { id: self.last, server, text, begun, cancelled: false, waiting });
    }

    /// Wants to hear of a resource that is called like itself.
    fn listens(&mut self, random: &mut Rng) {
        let uri = format!("{}://file/{}", NAMES[random.usize(..NAMES.len())], self.name);
        self.last += 1;
        let (method, params) = match self.guest.is_modern() {
            true => ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [uri] } })),
            false => ("resources/subscribe", json!({ "uri": uri })),
        };
        // Its end does not matter, only that nobody else hears of it.
        drop(self.guest.send(&json!(self.last), method, params));
    }

    fn cancels(&mut self, random: &mut Rng) {
        if !self.calls.is_empty() {
            let at = random.usize(..self.calls.len());
            let id = self.calls[at].id;
            self.calls[at].cancelled |= self.guest.cancel(id);
        }
    }

    /// What has come by now is its own; what should have come is there.
    fn check(&mut self, context: &str, seen: &mut BTreeMap<String, usize>) {
        let name = &self.name;
        for incoming in self.guest.incoming() {
            let heard = read(incoming.frame.bytes());
            let method = heard["method"].as_str().unwrap_or_default();
            let is_empty = heard["params"]["notifications"] == json!({}); // No server honours it.
            let is_own = heard.to_string().contains(name) || is_nobody_s(method) || is_empty;
            assert!(is_own, "{context}: {name} heard {heard}");
            *seen.entry(method.to_owned()).or_default() += 1;
            if method == "sampling/createMessage" {
                self.guest.answer(&incoming, &json!({ "text": heard["params"]["question"] }));
            }
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
                let is_unheard =
                    said.is_some_and(|said| said.starts_with(&format!("{}: no answer", call.server)));
                let is_right =
                    is_truth || is_failure || is_unheard || end["result"]["resultType"] == "input_required";
                assert!(is_right, "{context}: {} was answered {end}", call.text);
                let kind = end["failed"].as_str().unwrap_or(if is_truth { "answered" } else { "refused" });
                *seen.entry(kind.to_owned()).or_default() += 1;
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
    /// How often each end of a call and each message was seen.
    seen: BTreeMap<String, usize>,
}

impl Storm {
    fn new(random: &mut Rng, clients: Clients) -> Storm {
        let fakes = NAMES.map(|name| Fake::new(name, random.bool()));
        let tools = || TOOLS.map(str::to_owned).into();
        for fake in &fakes {
            let mut world = fake.world();
            world.capabilities = json!({
                "tools": { "listChanged": true }, "logging": {}, "resources": { "subscribe": true },
            });
            world.lists.insert("tools/list", tools());
        }
        let private = random.bool();
        let house = House::with(clients, &fakes.iter().collect::<Vec<_>>(), |options| set(options, private));
        Storm { clients, house, fakes, visitors: vec![], came: 0, seen: BTreeMap::new() }
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
        self.visitors.push(Visitor { name: format!("client{}.", self.came), guest, calls: vec![], last: 0 });
    }

    fn reloads(&self, random: &mut Rng) {
        let private = random.bool();
        // Two stay: what is written to a single server is its own, whatever it is called.
        let mut kept: Vec<_> = self.fakes[..2].iter().collect();
        kept.extend(self.fakes[2..].iter().filter(|_| random.u8(..3) > 0));
        random.shuffle(&mut kept);
        let servers = kept.into_iter().map(|fake| (fake, described(fake, |options| set(options, private))));
        self.house.reload(servers.collect());
    }

    fn misbehaves(&self, random: &mut Rng) {
        let fake = &self.fakes[random.usize(..self.fakes.len())];
        match random.u8(..8) {
            0 | 1 => fake.die(),
            2 => fake.world().is_broken ^= true,
            3 => fake.world().is_mute ^= true,
            4 => (1..=self.came).for_each(|n| fake.updates(&format!("{}://file/client{n}.", fake.name))),
            5 => fake.world().start_takes = Duration::from_millis(random.u64(..3000)),
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
                    35..42 => visitor.listens(random),
                    42..45 => drop(visitor.guest.send(&json!("list"), "tools/list", json!({}))),
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
                assert!(
                    text.contains(&format!(" {} ", fake.name)),
                    "{context}: {text} came to {}",
                    fake.name
                );
                *runs.entry(text).or_default() += 1;
            }
            let twice: Vec<_> = runs.iter().filter(|(_, count)| **count > 1).collect();
            assert!(twice.is_empty(), "{context}: {twice:?}");
        }
    }

    /// Nothing is left when all is over.
    async fn ends(mut self, context: &str) -> BTreeMap<String, usize> {
        sleep(ENDS_WITHIN + Duration::from_secs(1)).await;
        self.check(context);
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
        self.seen
    }

    fn check(&mut self, context: &str) {
        self.visitors.iter_mut().for_each(|visitor| visitor.check(context, &mut self.seen));
    }
}

fn set(options: &mut Options, private: bool) {
    options.sessions = if private { Sessions::Private } else { Sessions::Shared };
    options.call_timeout = Some(CALL_TIMEOUT);
    (options.concurrency, options.queue) = (Some(2), 2);
    options.connect_timeout = CONNECT_TIMEOUT;
}

async fn storm(seed: u64) -> BTreeMap<String, usize> {
    let context =
        format!("seed {seed} (REGROW_SEED={seed} cargo test -p regrow-gateway --test gateway storm)");
    let random = &mut Rng::with_seed(seed);
    let clients = if random.u8(..4) == 0 { One } else { Many };
    let mut storm = Storm::new(random, clients);
    storm.comes(random).await;
    for _ in 0..STEPS {
        storm.step(random).await;
        storm.check(&context);
    }
    storm.check_ledgers(&context);
    storm.ends(&context).await
}

#[test]
fn in_a_storm_every_call_ends_once_and_in_time_runs_at_most_once_and_is_heard_by_nobody_else() {
    let replayed = std::env::var("REGROW_SEED").ok().and_then(|seed| seed.parse().ok());
    if let Some(seed) = replayed {
        println!("{:#?}", alone(seed));
        return;
    }
    let half = |first: u64| (first..SEEDS).step_by(2).map(alone).collect::<Vec<_>>();
    let seen = std::thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        let mut seen = half(0);
        seen.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        seen
    });
    // It must not pass by doing nothing.
    for wanted in [
        "answered",
        "Interrupted",
        "Timeout",
        "Unavailable",
        "Overloaded",
        "sampling/createMessage",
        "notifications/progress",
        "notifications/resources/updated",
    ] {
        let count: usize = seen.iter().filter_map(|seen| seen.get(wanted)).sum();
        assert!(count >= 30, "only {count} of {wanted}");
    }
}

/// One storm in a runtime of its own: what it leaves behind would be another's.
fn alone(seed: u64) -> BTreeMap<String, usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(storm(seed))
}
