//! A short torture, for every change; `cargo run -p torture` goes on for as long as one likes. Here, since here is the executable that it tortures.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/evidence.rs"]
mod evidence;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use clap::Parser;
use torture::{Options, Promise, Target};

use evidence::{children_of, wait_until};

/// Far more than it takes, for a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each of these uses all of the machine, so they run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn regrow() -> &'static str {
    env!("CARGO_BIN_EXE_regrow")
}

/// With a seed of its own; one that failed is tried again with REGROW_SEED.
fn options(target: Target) -> Options {
    let mut options = Options::parse_from(["torture", "--regrow", regrow(), "--target", target.name()]);
    if let Ok(seed) = std::env::var("REGROW_SEED") {
        options.seed = seed.parse().unwrap();
    }
    options
}

#[test]
fn sixty_cycles_of_everything_break_no_promise() {
    let _alone = alone();
    // Three failed handshakes, and the pause of a server that is parked for them.
    let options = Options { cycles: Some(60), patience: 180, ..options(Target::All) };
    let outcome = torture::run(&options, &AtomicBool::new(false)).unwrap();
    let report = outcome.report();
    assert!(outcome.broken.is_empty(), "REGROW_SEED={}\n{:#?}", report["seed"], outcome.broken);
    let cycles = report["cycles"].as_array().unwrap();
    let kinds: BTreeSet<&str> = cycles.iter().map(|cycle| cycle["kind"].as_str().unwrap()).collect();
    assert_eq!(cycles.len(), 60);
    assert!(kinds.len() > 12, "it must do many things, not only {kinds:?}");
    assert!(report["calls"]["right"].as_u64() > Some(100), "{}", report["calls"]);
    let programs = report["programs"].as_array().unwrap();
    let serve = programs.iter().find(|program| program["name"] == "serve").unwrap();
    assert!(programs.iter().all(|program| program["cycles"].as_u64() > Some(0)), "{programs:#?}");
    assert!(serve["tasks"][0].as_u64() > Some(0), "{serve}");
    assert!(serve["asked"]["steady"].as_u64() > Some(0), "{serve}");
}

#[test]
fn who_interrupts_it_gets_the_report_so_far() {
    let _alone = alone();
    let (options, stop) = (Options { minutes: Some(10), ..options(Target::All) }, AtomicBool::new(false));
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| torture::run(&options, &stop));
        wait_until("it has begun", PATIENCE, || children_of(std::process::id()).len() >= 6);
        stop.store(true, Ordering::SeqCst);
        running.join().unwrap().unwrap()
    });
    assert!(outcome.stopped && outcome.broken.is_empty(), "{:#?}", outcome.broken);
}

/// What is broken when a script like this stands where `regrow wrap` or `regrow serve` should, with its arguments from the second on.
fn broken_by(target: Target, cycles: u64, script: &str) -> BTreeSet<Promise> {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("regrow");
    let script = format!(
        "#!/bin/sh\nregrow='{}'\n[ \"$1\" = {} ] || exec \"$regrow\" \"$@\"\nshift\n{script}\n",
        regrow(),
        target.name()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let options =
        Options { regrow: Some(program), cycles: Some(cycles), seed: 1, patience: 5, ..options(target) };
    let outcome = torture::run(&options, &AtomicBool::new(false)).unwrap();
    println!("{:#?}", outcome.broken);
    outcome.broken.iter().map(|broken| broken.promise).collect()
}

#[test]
#[ignore = "takes long; .ci/run runs it"]
fn without_regrow_promises_break() {
    let broken = broken_by(
        Target::Wrap,
        12,
        "while [ \"$1\" != -- ]; do [ $# -gt 0 ] || exit 3; shift; done\nshift\nexec \"$@\"",
    );
    assert!(broken.is_superset(&BTreeSet::from([Promise::OneAnswer, Promise::Recovers])), "{broken:?}");
}

#[test]
#[ignore = "takes long; .ci/run runs it"]
fn what_is_sent_again_without_being_safe_is_caught() {
    let broken = broken_by(Target::Wrap, 20, "exec \"$regrow\" wrap --safe-tool '*' \"$@\"");
    assert!(broken.contains(&Promise::NeverTwice), "{broken:?}");
}

#[test]
#[ignore = "takes long; .ci/run runs it"]
fn what_is_left_behind_is_found() {
    let broken =
        broken_by(Target::Wrap, 6, "sleep 60 < /dev/null > /dev/null 2>&1 &\nexec \"$regrow\" wrap \"$@\"");
    assert!(broken.is_superset(&BTreeSet::from([Promise::NoOrphans, Promise::OneServer])), "{broken:?}");
}

/// The configuration is the last argument.
#[test]
#[ignore = "takes long; .ci/run runs it"]
fn a_gateway_that_sends_again_what_is_not_safe_is_caught() {
    let broken = broken_by(
        Target::Serve,
        20,
        "for file; do :; done\nsed -i 's/\"lookup\"/\"*\"/' \"$file\"\nexec \"$regrow\" serve \"$@\"",
    );
    assert!(broken.contains(&Promise::NeverTwice), "{broken:?}");
}

/// Its deadline is shorter than some calls take: to those who call it that is a failure that nobody caused.
#[test]
#[ignore = "takes long; .ci/run runs it"]
fn a_gateway_that_harms_a_server_that_nothing_is_done_to_is_caught() {
    let broken = broken_by(
        Target::Serve,
        4,
        "for file; do :; done\nsed -i 's/\"60s\"/\"30ms\"/' \"$file\"\nexec \"$regrow\" serve \"$@\"",
    );
    assert!(broken.contains(&Promise::Unharmed), "{broken:?}");
}
