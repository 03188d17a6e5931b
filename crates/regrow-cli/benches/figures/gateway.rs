//! Many servers behind `regrow serve`: how soon lists are answered, what rest costs, and what a bad neighbour changes.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::peer::{Peer, REGROW};
use crate::system::{children, command, processor_ticks, proportional_kib, resident_kib};
use crate::table::{row, row3};

/// The other server.
struct Neighbour {
    name: &'static str,
    /// What makes it do so.
    plan: &'static str,
    /// This tool of it floods, told by this argument how much; it is called when the first call is made.
    floods: Option<(&'static str, &'static str)>,
    /// What its start costs is over then, and so is the first rush of a flood.
    settled: Duration,
}

impl Neighbour {
    const fn new(name: &'static str, plan: &'static str) -> Neighbour {
        Neighbour { name, plan, floods: None, settled: Duration::from_secs(1) }
    }
}

const NEIGHBOURS: [Neighbour; 7] = [
    Neighbour::new("in good order", ""),
    Neighbour::new("in good order, once more", ""),
    Neighbour::new("that never answers", "never-answer"),
    Neighbour::new("in a crash loop", "crash-after-handshake"),
    Neighbour {
        floods: Some(("burst", "n")),
        ..Neighbour::new("that begins to say without end that its tools have changed", "")
    },
    Neighbour { floods: Some(("stderr", "bytes")), ..Neighbour::new("that begins to flood its stderr", "") },
    Neighbour {
        settled: Duration::from_secs(4),
        ..Neighbour::new("that floods its stderr on and on", "flood-stderr=1000000000")
    },
];

/// Calls in each of the turns.
const CALLS: usize = 4_000;
const FLOOD: u64 = 1_000_000_000;

pub(crate) fn figures(rounds: usize, starts: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    println!(
        "\n| `regrow serve` with 20 servers, {starts} starts: start to `tools/list` | p50 | p99 | worst |"
    );
    println!("|---|---|---|---|");
    let twenty = config(folder, "twenty", &["slow-start=300ms"; 20]);
    let lists =
        |cache: &str| (0..starts).map(|_| first_list(&twenty, &folder.join(cache), 20)).collect::<Vec<_>>();
    row3("cold: every server takes 0.3 s to start", &lists_cold(&twenty, folder, starts));
    first_list(&twenty, &folder.join("warm"), 20);
    row3("warm: answered from what they said last time", &lists("warm"));

    println!(
        "\n| calls to one server behind `regrow serve`, {} calls, beside another | p50 | p99 |",
        rounds * CALLS
    );
    println!("|---|---|---|");
    let mut alone = vec![];
    let mut beside = NEIGHBOURS.map(|_| vec![]);
    // In turns, and each time another is the first: what else happens on the machine is then shared among them.
    for round in 0..rounds {
        let mut peer = Peer::wrapped();
        peer.shake_hands();
        warm_up(&mut peer, "echo");
        alone.extend(sequential(&mut peer, "echo"));
        peer.leave();
        for turn in 0..NEIGHBOURS.len() {
            let turn = (turn + round) % NEIGHBOURS.len();
            beside[turn].extend(calls_beside(folder, &NEIGHBOURS[turn]));
        }
    }
    row("(`regrow wrap` with that server alone)", &alone);
    for (neighbour, times) in NEIGHBOURS.iter().zip(&beside) {
        row(neighbour.name, times);
    }
    at_rest(folder);
}

fn calls_beside(folder: &Path, neighbour: &Neighbour) -> Vec<Duration> {
    let config = config(folder, "neighbours", &["", neighbour.plan]);
    let mut peer = Peer::served(&config, &folder.join("neighbours-cache"));
    peer.shake_hands();
    list(&mut peer, if neighbour.plan.is_empty() { 2 } else { 1 });
    thread::sleep(neighbour.settled);
    warm_up(&mut peer, "s0__echo");
    if let Some((tool, much)) = neighbour.floods {
        peer.send("tools/call", json!({ "name": format!("s1__{tool}"), "arguments": { much: FLOOD } }));
    }
    let times = sequential(&mut peer, "s0__echo");
    peer.leave();
    times
}

/// Each start with a cache folder of its own.
fn lists_cold(config: &Path, folder: &Path, starts: usize) -> Vec<Duration> {
    (0..starts).map(|start| first_list(config, &folder.join(format!("cold-{start}")), 20)).collect()
}

fn first_list(config: &Path, cache: &Path, servers: usize) -> Duration {
    let began = Instant::now();
    let mut peer = Peer::served(config, cache);
    peer.shake_hands();
    list(&mut peer, servers);
    let took = began.elapsed();
    thread::sleep(Duration::from_millis(600)); // Until what they offer is kept.
    peer.leave(); // The next start is not to meet what this one leaves behind.
    took
}

/// Asks for the tools until those of so many servers are there.
fn list(peer: &mut Peer, servers: usize) {
    loop {
        let (mut count, mut cursor) = (0, json!({}));
        loop {
            peer.send("tools/list", cursor);
            let page = answer(peer)["result"].clone();
            let tools = page["tools"].as_array().cloned().unwrap_or_default();
            let is_echo = |tool: &&Value| tool["name"].as_str().is_some_and(|name| name.ends_with("__echo"));
            count += tools.iter().filter(is_echo).count();
            match page["nextCursor"].as_str() {
                Some(next) => cursor = json!({ "cursor": next }),
                None => break,
            }
        }
        if count >= servers {
            return;
        }
    }
}

/// The next answer; what servers tell by themselves is passed over.
fn answer(peer: &mut Peer) -> Value {
    loop {
        let message = peer.receive();
        if message.get("id").is_some() && message.get("method").is_none() {
            return message;
        }
    }
}

fn warm_up(peer: &mut Peer, tool: &str) {
    for _ in 0..200 {
        call(peer, tool);
    }
}

fn sequential(peer: &mut Peer, tool: &str) -> Vec<Duration> {
    (0..CALLS).map(|_| call(peer, tool)).collect()
}

fn call(peer: &mut Peer, tool: &str) -> Duration {
    let began = Instant::now();
    peer.send("tools/call", json!({ "name": tool, "arguments": { "text": "hello" } }));
    let answer = answer(peer);
    assert_eq!(answer["result"]["content"][0]["text"], "hello", "{answer}");
    began.elapsed()
}

fn at_rest(folder: &Path) {
    let fifty = config(folder, "fifty", &[""; 50]);
    let mut peer = Peer::served(&fifty, &folder.join("fifty-cache"));
    peer.shake_hands();
    list(&mut peer, 50);
    thread::sleep(Duration::from_secs(2));
    let pid = peer.child.id();
    let guard = children(pid).into_iter().find(|child| command(*child).contains("guard"));
    let ours: Vec<u32> = [pid].into_iter().chain(guard).collect();
    let sum = |of: fn(u32) -> u64| ours.iter().map(|pid| of(*pid)).sum::<u64>() as f64 / 1024.0;
    let before = processor_ticks(pid);
    thread::sleep(Duration::from_secs(5));
    println!(
        "\n50 servers at rest: {:.1} MiB resident with the guard, {:.1} MiB proportional; {} hundredths of a second of processor time in 5 s",
        sum(resident_kib),
        sum(proportional_kib),
        processor_ticks(pid) - before,
    );
}

/// Writes a configuration of servers with these plans.
fn config(folder: &Path, name: &str, plans: &[&str]) -> std::path::PathBuf {
    let mut servers = String::new();
    for (number, plan) in plans.iter().enumerate() {
        let entry = json!({ "command": REGROW, "args": ["chaos-server"], "env": { "CHAOS": plan } });
        let comma = if number == 0 { "" } else { "," };
        write!(servers, "{comma}\"s{number}\":{entry}").expect("written");
    }
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, format!("{{\"mcpServers\":{{{servers}}}}}")).expect("written");
    path
}
