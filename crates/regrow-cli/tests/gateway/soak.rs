//! Scenario 42: calls and a kill every second. Short here; `REGROW_SOAK=30m` for as long as it is written.

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::client::{PATIENCE, fault, is_failure, text};
use crate::evidence::{children_of, kill, open_files, wait_until, zombies_of};
use crate::guest::{Era, Guest};
use crate::house::{House, Place, chaos};

const SERVERS: [&str; 4] = ["one", "two", "three", "four"];

/// What grows if something leaks.
#[derive(Debug)]
struct Figures {
    resident_kib: u64,
    files: usize,
    threads: usize,
}

impl Figures {
    fn of(house: &House) -> Figures {
        let pid = house.pid();
        // What was just killed may still be said to be ready: so its successor is waited for, too.
        wait_until("all servers run once, beside their guard, and nothing else does", PATIENCE * 2, || {
            SERVERS.iter().all(|name| house.server(name)["state"] == "ready")
                && zombies_of(pid).is_empty()
                && children_of(pid).len() == SERVERS.len() + 1
        });
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
        };
        Figures {
            resident_kib: number("VmRSS:"),
            files: open_files(pid),
            threads: usize::try_from(number("Threads:")).unwrap(),
        }
    }
}

/// Calls until it is over; says how many calls were answered with a result.
fn work(mut guest: Guest, name: &str, is_over: &AtomicBool, keys: &AtomicU64) -> HashMap<String, bool> {
    let mut ends = HashMap::new();
    while !is_over.load(Ordering::Relaxed) {
        let number = keys.fetch_add(1, Ordering::Relaxed);
        let server = SERVERS[usize::try_from(number).unwrap() % SERVERS.len()];
        let key = format!("{name}-{number}");
        let params =
            json!({ "name": format!("{server}__count"), "arguments": { "key": key, "delay_ms": 5 } });
        let answer = guest.request("tools/call", params);
        if is_failure(&answer) {
            assert!(fault(&answer)["delivery"].is_string(), "a typed end: {answer}");
        } else {
            assert_eq!(text(&answer), "1", "it ran once: {answer}");
        }
        ends.insert(format!("{server} {key}"), !is_failure(&answer));
    }
    ends
}

fn length() -> Duration {
    let text = std::env::var("REGROW_SOAK").unwrap_or_else(|_| "20s".into());
    regrow_gateway::units::duration(&text).unwrap()
}

#[test]
fn scenario_42_calls_and_a_kill_every_second_leave_nothing_behind_and_run_nothing_twice() {
    // More deaths than a budget bears: here they are no fault of the servers.
    let server = |plan: &str| chaos(plan).option("budget", "100000/60");
    let place = Place::new([
        ("one", server("refuse-discover")),
        ("two", server("modern-only")),
        ("three", server("refuse-discover helper")),
        ("four", server("refuse-discover")),
    ]);
    let house = place.start();
    SERVERS.iter().for_each(|name| drop(house.wait_for_tools(name)));
    let (is_over, keys) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut before = None;
    let ends = thread::scope(|scope| {
        let workers: Vec<_> = [("a", Era::Legacy), ("b", Era::Modern), ("c", Era::Modern)]
            .map(|(name, era)| {
                let guest = Guest::of(&house, era);
                let (is_over, keys) = (&is_over, &keys);
                scope.spawn(move || work(guest, name, is_over, keys))
            })
            .into();
        let began = Instant::now();
        for (second, name) in (1..).zip(SERVERS.iter().cycle()) {
            if began.elapsed() > length() {
                break;
            }
            kill(place.pid(name), Signal::KILL);
            thread::sleep(Duration::from_secs(1)); // The pace of the kills, not a wait for something.
            if second == 6 {
                before = Some(Figures::of(&house)); // When everything has happened once.
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let ends = workers.into_iter().map(|worker| worker.join().unwrap());
        ends.flatten().collect::<HashMap<String, bool>>()
    });
    let (before, after) = (before.unwrap(), Figures::of(&house));
    let told = format!("{before:?}, then {after:?}; {} calls", ends.len());
    assert!(after.resident_kib < before.resident_kib + (8 << 10), "{told}");
    assert!(after.files <= before.files + 4 && after.threads <= before.threads + 4, "{told}");

    let mut runs: HashMap<String, usize> = HashMap::new();
    for name in SERVERS {
        for line in place.journal(name).lines() {
            if let Some(key) = line.strip_prefix("run count ") {
                *runs.entry(format!("{name} {}", key.split(' ').next().unwrap())).or_default() += 1;
            }
        }
    }
    assert!(runs.values().all(|count| *count == 1), "nothing ran twice");
    for (key, answered) in &ends {
        assert!(!answered || runs.contains_key(key), "{key} was answered and never ran");
    }
    let answered = ends.values().filter(|answered| **answered).count();
    assert!(answered * 10 > ends.len() * 5, "{answered} of {} were answered", ends.len());
    house.end();
}
