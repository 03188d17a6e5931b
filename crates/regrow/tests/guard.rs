//! The guard ends our servers when we are killed. This program plays all the parts: it runs the tests, it is the
//! parent that gets killed, and it is the guard.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow::transport::stdio::{Guard, Stdio, guard_main};
use regrow::transport::{Link, Transport as _};
use regrow_core::{Epoch, Fault, Ladder};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::AsyncReadExt as _;

/// A wrapper that ignores SIGTERM, a child that does so too, one that has no mark, and a helper in a session of its
/// own. They say who they are.
const FAMILY: &str = r#"
    trap '' TERM HUP INT
    sleep 1000 & child=$!
    env -i sleep 1000 & bare=$!
    setsid sh -c 'trap "" TERM; echo $$; exec sleep 1000' &
    echo $$; echo $child; echo $bare
    wait
"#;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("guard") => return guard_main(),
        Some("parent") => runtime().block_on(parent()),
        // Asked by cargo or an editor which tests there are, or for tests of other names.
        Some(_) => {}
        None => {
            run("a_family_is_gone_within_5_s_of_our_kill", a_family_is_gone_within_5_s_of_our_kill);
            run("a_guard_with_nothing_to_do_ends_with_us", a_guard_with_nothing_to_do_ends_with_us);
            run("a_server_that_is_gone_is_not_touched", a_server_that_is_gone_is_not_touched);
            run("a_guard_that_died_is_replaced_and_told_again", a_guard_that_died_is_replaced_and_told_again);
            run(
                "servers_killed_in_the_middle_of_starting_are_gone_too",
                servers_killed_in_the_middle_of_starting_are_gone_too,
            );
        }
    }
    ExitCode::SUCCESS
}

fn run(name: &str, test: fn()) {
    let begun = Instant::now();
    test();
    println!("test {name} ... ok ({:.1?})", begun.elapsed());
}

fn a_family_is_gone_within_5_s_of_our_kill() {
    let (mut parent, pids) = start_parent("family");
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|&pid| runs(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(|| !pids.iter().any(|&pid| runs(pid)));
}

/// Killed at once, while servers are being started: none survives, whatever its start had come to.
fn servers_killed_in_the_middle_of_starting_are_gone_too() {
    for round in 0..10 {
        let (mut parent, pids) = start_parent("storm");
        std::thread::sleep(Duration::from_millis(round)); // Not to wait for something: to hit another moment.
        parent.kill().unwrap();
        parent.wait().unwrap();
        let label = format!("LABEL=storm-{}", parent.id());
        until(|| !runs(pids[0]) && !is_any_labelled(&label));
    }
}

fn a_guard_with_nothing_to_do_ends_with_us() {
    let guard = start_guard();
    let pid = pid(guard.pid().unwrap());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(pid, signal).unwrap();
    }
    assert!(runs(pid));
    drop(guard);
    until(|| test_kill_process(pid).is_err());
}

fn a_server_that_is_gone_is_not_touched() {
    let guard = start_guard();
    let guard_pid = pid(guard.pid().unwrap());
    runtime().block_on(async {
        let server = Stdio::new("test", "cat").guard(guard.clone());
        let missing = Stdio::new("test", "/no/such/program").guard(guard.clone());
        for epoch in 0..20 {
            let link = server.open(Epoch(epoch)).await.unwrap();
            drop(link.input);
            assert_eq!(end(&*link.process).await, Some(Fault::Exited { code: 0 }));
            assert!(missing.open(Epoch(epoch)).await.is_err());
        }
    });
    let begun = Instant::now();
    drop(guard);
    until(|| test_kill_process(guard_pid).is_err());
    assert!(begun.elapsed() < Duration::from_millis(500), "it has nobody to wait for");
}

fn a_guard_that_died_is_replaced_and_told_again() {
    let guard = start_guard();
    let first = pid(guard.pid().unwrap());
    runtime().block_on(async {
        let server = Stdio::new("test", "cat").guard(guard.clone());
        let before = server.open(Epoch(1)).await.unwrap();
        kill_process(first, Signal::KILL).unwrap();
        until(|| !runs(first));
        let after = server.open(Epoch(2)).await.unwrap();
        let second = pid(guard.pid().unwrap());
        assert!(second != first && runs(second));
        for link in [before, after] {
            drop(link.input);
            assert_eq!(end(&*link.process).await, Some(Fault::Exited { code: 0 }));
        }
    });
}

async fn end(process: &dyn regrow::transport::Process) -> Option<Fault> {
    let ladder = Ladder { term_after: Duration::from_secs(10), kill_after: Duration::from_secs(10) };
    process.end(ladder).await.fault
}

/// The part of the parent: starts a guard and servers, says who they are, and waits to be killed.
async fn parent() {
    let label = std::env::args().nth(2).unwrap();
    let guard = start_guard();
    println!("{}", guard.pid().unwrap());
    let server = Stdio::new("test", "sh").guard(guard);
    if label == "family" {
        let mut link = server.clone().args(["-c", FAMILY]).open(Epoch(1)).await.unwrap();
        for _ in 0..4 {
            println!("{}", line(&mut link).await);
        }
        std::future::pending::<()>().await;
    }
    let label = format!("{label}-{}", std::process::id());
    let server = server.args(["-c", "trap '' TERM; sleep 1000 & wait"]).variable("LABEL", label);
    println!("begun");
    let mut links = vec![];
    for epoch in 0.. {
        links.push(server.open(Epoch(epoch)).await);
    }
}

/// Starts the parent, and returns who it says there are: the guard, then the family.
fn start_parent(label: &str) -> (Child, Vec<Pid>) {
    let mut command = Command::new(own_program());
    let mut parent = command.args(["parent", label]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let count = if label == "family" { 5 } else { 2 };
    let pids = lines.take(count).filter_map(|line| line.parse().ok()).map(pid).collect();
    (parent, pids)
}

fn start_guard() -> Arc<Guard> {
    Arc::new(Guard::start(&own_program(), &["guard"]).unwrap())
}

fn own_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn line(link: &mut Link) -> String {
    let mut line = String::new();
    loop {
        match link.output.read_u8().await.unwrap() {
            b'\n' => return line,
            byte => line.push(byte.into()),
        }
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number as i32).unwrap()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(5), "it takes too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A zombie does not run.
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

fn is_any_labelled(entry: &str) -> bool {
    let environments = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    environments.into_iter().any(|all| all.split(|&byte| byte == 0).any(|one| one == entry.as_bytes()))
}
