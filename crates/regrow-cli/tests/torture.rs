//! A short torture, for every change; `regrow torture` itself goes on for as long as one likes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/evidence.rs"]
mod evidence;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regrow_chaos::torture::{self, Options, Promise, Target};
use rustix::process::Signal;
use serde_json::Value;

use evidence::{children_of, kill, wait_until};

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

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn sixty_cycles_of_everything_break_no_promise() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(regrow());
    command.args(["torture", "--cycles", "60", "--json", "--report"]).arg(folder.path());
    // A seed that failed is tried again with REGROW_SEED.
    if let Ok(seed) = std::env::var("REGROW_SEED") {
        command.args(["--seed", &seed]);
    }
    let output = command.output().unwrap();
    let report = json(&output);
    let failed = format!("REGROW_SEED={}\n{:#}", report["seed"], report["broken"]);
    assert_eq!((output.status.code(), &report["kept"]), (Some(0), &Value::Bool(true)), "{failed}");
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
    for file in ["torture.md", "torture.json", "torture.html"] {
        assert!(fs::metadata(folder.path().join(file)).unwrap().len() > 1000, "{file}");
    }
}

#[test]
fn who_interrupts_it_gets_the_report_so_far() {
    let _alone = alone();
    let mut command = Command::new(regrow());
    command.args(["torture", "--time", "10m", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("it has begun", PATIENCE, || children_of(child.id()).len() >= 6);
    kill(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    let report = json(&output);
    assert_eq!((output.status.code(), &report["stopped"]), (Some(0), &Value::Bool(true)), "{report:#}");
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
    let patience = Duration::from_secs(5);
    let options = Options { program, target, cycles: Some(cycles), time: None, seed: 1, patience };
    let outcome = torture::run(&options, &AtomicBool::new(false), &|_| {}).unwrap();
    println!("{:#?}", outcome.broken);
    outcome.broken.iter().map(|broken| broken.promise).collect()
}

#[test]
fn without_regrow_promises_break() {
    let broken = broken_by(
        Target::Wrap,
        12,
        "while [ \"$1\" != -- ]; do [ $# -gt 0 ] || exit 3; shift; done\nshift\nexec \"$@\"",
    );
    assert!(broken.is_superset(&BTreeSet::from([Promise::OneAnswer, Promise::Recovers])), "{broken:?}");
}

#[test]
fn what_is_sent_again_without_being_safe_is_caught() {
    let broken = broken_by(Target::Wrap, 20, "exec \"$regrow\" wrap --safe-tool '*' \"$@\"");
    assert!(broken.contains(&Promise::NeverTwice), "{broken:?}");
}

#[test]
fn what_is_left_behind_is_found() {
    let broken =
        broken_by(Target::Wrap, 6, "sleep 60 < /dev/null > /dev/null 2>&1 &\nexec \"$regrow\" wrap \"$@\"");
    assert!(broken.is_superset(&BTreeSet::from([Promise::NoOrphans, Promise::OneServer])), "{broken:?}");
}

/// The configuration is the last argument.
#[test]
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
fn a_gateway_that_harms_a_server_that_nothing_is_done_to_is_caught() {
    let broken = broken_by(
        Target::Serve,
        4,
        "for file; do :; done\nsed -i 's/\"60s\"/\"30ms\"/' \"$file\"\nexec \"$regrow\" serve \"$@\"",
    );
    assert!(broken.contains(&Promise::Unharmed), "{broken:?}");
}
