//! Real clients from PyPI and npm against real servers, through `regrow wrap`, with the servers killed between and
//! during calls; in front of commands, and of URLs. And through `regrow serve`, across twenty servers at a time, and with results of several MB.
//! And the same servers through the npm packages and the wheel.
//! Needs `tests/peers/install` once; says so where that has not been done, and fails in CI.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Two at a time would measure each other.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn real_clients_keep_their_sessions_while_real_servers_die() {
    run("stdio");
}

#[test]
fn real_clients_keep_their_sessions_while_remote_servers_restart() {
    run("http");
}

#[test]
fn real_clients_call_across_twenty_servers_while_one_each_second_dies() {
    run("serve");
}

#[test]
fn real_clients_get_long_results_or_what_has_come_and_the_reason() {
    run("long");
}

#[test]
#[cfg(target_os = "linux")]
fn real_servers_give_the_same_answers_through_npx_and_pip_installed_binaries() {
    run("packages");
}

fn run(part: &str) {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if !root.join(".peers/fastmcp/installed").exists() {
        assert!(std::env::var_os("REGROW_CI").is_none(), "in CI nothing may be skipped");
        // Not by `eprintln!`, which is only shown for tests that fail.
        let skipped = "skipped: real clients and servers are not installed; tests/peers/install does that\n";
        std::io::stderr().write_all(skipped.as_bytes()).expect("written");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut run = Command::new(root.join("tests/peers/run"));
    let run = run.arg(env!("CARGO_BIN_EXE_regrow")).arg(part).status().expect("the script starts");
    assert!(run.success(), "see above for the cases that failed");
}
