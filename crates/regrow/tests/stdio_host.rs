//! What a host sees of us: no server is left when it kills us, and what servers say is on our standard error.
//!
//! This program plays all the parts: it runs the tests, it is the parent that gets killed, and it is the guard.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow::transport::stdio::{Guard, Stderr, Stdio, guard_main};
use regrow::transport::{Pipes, Transport as _};
use regrow_core::{Epoch, Fault, Ladder};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        Some("passer") => runtime().block_on(passer()),
        Some("bare") => bare(),
        // Asked by cargo or an editor which tests there are, or for tests of other names.
        Some(_) => {}
        None => {
            run("a family is gone soon after our kill", a_family_is_gone_soon_after_our_kill);
            run("a guard with nothing to do ends with us", a_guard_with_nothing_to_do_ends_with_us);
            run("a guard that starts early is the guard of its servers", a_guard_that_starts_early_is_used);
            run("a server that is gone is not touched", a_server_that_is_gone_is_not_touched);
            run("a guard that died is replaced", a_guard_that_died_is_replaced_and_told_again);
            run(
                "servers in the middle of starting are gone too",
                servers_in_the_middle_of_starting_are_gone_too,
            );
            run("lines of servers are passed on", lines_of_servers_are_passed_on_with_their_name);
            run(
                "servers have their streams where we have none",
                servers_have_their_streams_where_we_have_none,
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

fn a_family_is_gone_soon_after_our_kill() {
    let (mut parent, pids) = start_parent("family");
    assert_eq!(pids.len(), 5);
    assert!(pids.iter().all(|&pid| runs(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until(|| !pids.iter().any(|&pid| runs(pid)));
}

/// Killed at once, while the guard and then servers are being started: none survives, whatever its start had come to.
fn servers_in_the_middle_of_starting_are_gone_too() {
    for round in 0..10 {
        let (mut parent, _) = start_parent("storm");
        std::thread::sleep(Duration::from_millis(round)); // Not to wait for something: to hit another moment.
        parent.kill().unwrap();
        parent.wait().unwrap();
        let label = format!("LABEL=storm-{}", parent.id());
        until(|| !is_any_labelled(&label));
    }
}

/// And nobody waits for a host that does not read them.
fn lines_of_servers_are_passed_on_with_their_name() {
    let piped = std::process::Stdio::piped;
    let mut command = Command::new(own_program());
    let mut passer = command.arg("passer").stdout(piped()).stderr(piped()).spawn().unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(passer.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert_eq!(first, "the server goes on\n");
    let lines = BufReader::new(passer.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let lines: Vec<_> = lines.take_while(|line| line != "[noisy] the end").collect();
    assert_eq!(lines[0], "[noisy] \\u{1b}[31mhello");
    assert!(
        lines.iter().any(|line| line.contains("lines of servers: stderr was not read in time")),
        "{}",
        lines.len()
    );
    passer.kill().unwrap();
    passer.wait().unwrap();
}

fn a_guard_with_nothing_to_do_ends_with_us() {
    let guard = new_guard();
    assert_eq!(guard.pid(), None, "without a server there is nothing to guard");
    runtime().block_on(async {
        let link = open(&Stdio::new("test", "cat").guard(guard.clone()), 1).await;
        drop(link.input);
        end(&*link.process).await;
    });
    let pid = pid(guard.pid().unwrap());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(pid, signal).unwrap();
    }
    assert!(runs(pid));
    drop(guard);
    until(|| test_kill_process(pid).is_err());
}

fn a_guard_that_starts_early_is_used() {
    let guard = new_guard();
    guard.start_early();
    until(|| guard.pid().is_some());
    let early = guard.pid();
    runtime().block_on(async {
        let link = open(&Stdio::new("test", "cat").guard(guard.clone()), 1).await;
        drop(link.input);
        end(&*link.process).await;
    });
    assert_eq!(guard.pid(), early, "one process guards them");
    drop(guard);
    until(|| test_kill_process(pid(early.unwrap())).is_err());
}

fn a_server_that_is_gone_is_not_touched() {
    // A guard that has nobody to wait for ends at once. One that takes longer each time does wait; once, the machine may be busy.
    let fastest =
        (0..5).map(|_| end_of_a_guard_without_servers()).find(|took| *took < Duration::from_millis(500));
    assert!(fastest.is_some(), "it has nobody to wait for");
}

/// How long a guard lives on after us whose servers are all gone.
fn end_of_a_guard_without_servers() -> Duration {
    let guard = new_guard();
    runtime().block_on(async {
        let server = Stdio::new("test", "cat").guard(guard.clone());
        let missing = Stdio::new("test", "/no/such/program").guard(guard.clone());
        for epoch in 0..20 {
            let link = open(&server, epoch).await;
            drop(link.input);
            assert_eq!(end(&*link.process).await, Some(Fault::Exited { code: 0 }));
            assert!(missing.open(Epoch(epoch)).await.is_err());
        }
    });
    let guard_pid = pid(guard.pid().unwrap());
    let begun = Instant::now();
    drop(guard);
    until(|| test_kill_process(guard_pid).is_err());
    begun.elapsed()
}

fn a_guard_that_died_is_replaced_and_told_again() {
    let guard = new_guard();
    runtime().block_on(async {
        let server = Stdio::new("test", "cat").guard(guard.clone());
        let before = open(&server, 1).await;
        let first = pid(guard.pid().unwrap());
        kill_process(first, Signal::KILL).unwrap();
        until(|| !runs(first));
        let after = open(&server, 2).await;
        let second = pid(guard.pid().unwrap());
        assert!(second != first && runs(second));
        for link in [before, after] {
            drop(link.input);
            assert_eq!(end(&*link.process).await, Some(Fault::Exited { code: 0 }));
        }
    });
}

fn servers_have_their_streams_where_we_have_none() {
    assert!(Command::new(own_program()).arg("bare").status().unwrap().success());
}

/// The part of a program without standard streams: other files have their numbers.
fn bare() {
    let runtime = runtime();
    for number in 0..3 {
        // SAFETY: this program uses none of them from here on.
        #[allow(unsafe_code)]
        unsafe {
            rustix::io::close(number);
        }
    }
    runtime.block_on(async {
        let server = Stdio::new("test", "sh").args(["-c", "read line; echo $line; ls /proc/$$/fd; cat"]);
        let mut link = open(&server.guard(new_guard()), 1).await;
        link.input.write_all(b"hello\n").await.unwrap();
        for expected in ["hello", "0", "1", "2"] {
            assert_eq!(line(&mut link).await, expected);
        }
        drop(link.input);
        assert_eq!(end(&*link.process).await, Some(Fault::Exited { code: 0 }));
    });
}

async fn end(process: &dyn regrow::transport::Process) -> Option<Fault> {
    let ladder = Ladder { term_after: Duration::from_secs(10), kill_after: Duration::from_secs(10) };
    process.end(ladder).await.fault
}

async fn open(server: &Stdio, epoch: u64) -> Pipes {
    server.open(Epoch(epoch)).await.unwrap().into_pipes().unwrap()
}

/// The part of the parent: starts servers, says who they and their guard are, and waits to be killed.
async fn parent() {
    let label = std::env::args().nth(2).unwrap();
    let guard = new_guard();
    let server = Stdio::new("test", "sh").guard(guard.clone());
    if label == "family" {
        let mut link = open(&server.clone().args(["-c", FAMILY]), 1).await;
        println!("{}", guard.pid().unwrap());
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

/// The part of a program whose standard error its host does not read for a while.
async fn passer() {
    let script = r#"printf '\033[31mhello\n' >&2; seq 100000 >&2; echo the server goes on; sleep 0.1; while echo the end >&2; do sleep 0.1; done"#;
    let server = Stdio::new("noisy", "sh").args(["-c", script]).stderr(Stderr::Pass);
    let mut link = open(&server, 1).await;
    println!("{}", line(&mut link).await);
    std::future::pending::<()>().await;
}

/// Starts the parent, and returns who it says there are: the guard, then the family. In a storm it says only that it begins.
fn start_parent(label: &str) -> (Child, Vec<Pid>) {
    let mut command = Command::new(own_program());
    let mut parent = command.args(["parent", label]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    let count = if label == "family" { 5 } else { 1 };
    let pids = lines.take(count).filter_map(|line| line.parse().ok()).map(pid).collect();
    (parent, pids)
}

fn new_guard() -> Arc<Guard> {
    Arc::new(Guard::new(&own_program(), &["guard"]))
}

fn own_program() -> PathBuf {
    std::env::current_exe().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn line(link: &mut Pipes) -> String {
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

/// Far more than it takes, for a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it takes too long");
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
