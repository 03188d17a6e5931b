//! Servers that are started: what a call costs, what a death costs, what rest costs.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::peer::{Peer, REGROW};
use crate::system::{children, command, processor_ticks, proportional_kib, resident_kib};
use crate::table::{p, row, row3, show};

pub(crate) fn figures(calls: usize, kills: usize) {
    println!("| one call after the other, {calls} calls | p50 | p99 |");
    println!("|---|---|---|");
    let bare = sequential(Peer::bare(), calls);
    let piped = sequential(Peer::piped(), calls);
    let wrapped = sequential(Peer::wrapped(), calls);
    row("the server alone", &bare);
    row("between two bare pipes (`cat`)", &piped);
    row("through `regrow wrap`", &wrapped);
    let added: Vec<Duration> = [(p(&wrapped, 50), p(&bare, 50)), (p(&wrapped, 99), p(&bare, 99))]
        .map(|(with, without)| with.saturating_sub(without))
        .to_vec();
    println!("| added by Regrow | {} | {} |", show(added[0]), show(added[1]));

    println!("\n| 64 calls in flight, {calls} calls | calls per second |");
    println!("|---|---|");
    let bare = pipelined(Peer::bare(), calls, 64);
    let piped = pipelined(Peer::piped(), calls, 64);
    let wrapped = pipelined(Peer::wrapped(), calls, 64);
    println!("| the server alone | {bare:.0} |");
    println!("| between two bare pipes (`cat`) | {piped:.0} ({:.0} %) |", 100.0 * piped / bare);
    println!("| through `regrow wrap` | {wrapped:.0} ({:.0} %) |", 100.0 * wrapped / bare);

    println!("\n| over {kills} kills | p50 | p99 | worst |");
    println!("|---|---|---|---|");
    let starts: Vec<Duration> = (0..kills).map(|_| start_alone()).collect();
    let lives: Vec<Life> = (0..kills).map(|_| life()).collect();
    let of = |pick: fn(&Life) -> Duration| lives.iter().map(pick).collect::<Vec<_>>();
    let recovered = of(|life| life.recovered);
    row3("kill while idle to its log line (noticed)", &of(|life| life.noticed));
    row3("kill during a call to its answer (lost call told)", &of(|life| life.told));
    row3("kill to the next answer (recovered)", &recovered);
    row3("the server's own start to its first answer", &starts);
    let beyond = |percent| show(p(&recovered, percent).saturating_sub(p(&starts, percent)));
    println!("| recovered, beyond the server's own start | {} | {} | |", beyond(50), beyond(99));
    row3("start of `regrow wrap` to the first answer", &of(|life| life.started));

    at_rest();
}

/// What it costs when nothing happens.
fn at_rest() {
    let mut peer = Peer::wrapped();
    peer.shake_hands();
    for _ in 0..1_000 {
        peer.echo();
    }
    let pid = peer.child.id();
    let guard =
        children(pid).into_iter().find(|child| command(*child).contains("guard")).expect("there is a guard");
    let before = processor_ticks(pid) + processor_ticks(guard);
    thread::sleep(Duration::from_secs(5));
    let used = processor_ticks(pid) + processor_ticks(guard) - before;
    let resident = resident_kib(pid) + resident_kib(guard);
    let proportional = proportional_kib(pid) + proportional_kib(guard);
    let size = std::fs::metadata(REGROW).map_or(0, |file| file.len());
    println!("\n| at rest, after 1,000 calls | |");
    println!("|---|---|");
    println!("| memory, with the guard | {:.1} MiB |", proportional as f64 / 1024.0);
    println!("| with what both share counted twice (RSS) | {:.1} MiB |", resident as f64 / 1024.0);
    println!("| processor time in 5 s | {} ms |", used * 10);
    println!("| size of the executable | {:.1} MiB |", size as f64 / (1024.0 * 1024.0));
}

/// One death while idle and one during a call, each of a fresh connection: the first death heals without a pause.
struct Life {
    started: Duration,
    noticed: Duration,
    recovered: Duration,
    told: Duration,
}

fn life() -> Life {
    let began = Instant::now();
    let mut peer = Peer::wrapped();
    peer.shake_hands();
    let started = began.elapsed();
    let pid = peer.server_pid();
    // A session must be older than the floor between attempts, as real ones are.
    thread::sleep(Duration::from_millis(30));
    let killed = kill(pid);
    let noticed = peer.wait_for_log("killed by SIGKILL") - killed;
    peer.echo();
    let recovered = killed.elapsed();
    drop(peer);

    let mut peer = Peer::wrapped();
    peer.shake_hands();
    let pid = peer.server_pid();
    peer.send("tools/call", json!({ "name": "hang", "arguments": {} }));
    thread::sleep(Duration::from_millis(5)); // Let the server read the call.
    let killed = kill(pid);
    let answer = peer.receive();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    Life { started, noticed, recovered, told: killed.elapsed() }
}

fn start_alone() -> Duration {
    let began = Instant::now();
    let mut peer = Peer::bare();
    peer.shake_hands();
    peer.echo();
    began.elapsed()
}

fn sequential(mut peer: Peer, calls: usize) -> Vec<Duration> {
    peer.shake_hands();
    for _ in 0..100 {
        peer.echo();
    }
    (0..calls)
        .map(|_| {
            let began = Instant::now();
            peer.echo();
            began.elapsed()
        })
        .collect()
}

fn pipelined(mut peer: Peer, calls: usize, depth: usize) -> f64 {
    peer.shake_hands();
    let began = Instant::now();
    for _ in 0..depth {
        peer.send_echo();
    }
    for done in 0..calls {
        peer.receive();
        if done + depth < calls {
            peer.send_echo();
        }
    }
    calls as f64 / began.elapsed().as_secs_f64()
}

fn kill(pid: i32) -> Instant {
    let pid = Pid::from_raw(pid).expect("a process id");
    kill_process(pid, Signal::KILL).expect("the server runs");
    Instant::now()
}
