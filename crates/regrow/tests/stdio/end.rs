//! Ending: exits are seen, and nobody of a group is left.

use std::time::{Duration, Instant};

use regrow::transport::Ended;
use regrow::transport::stdio::Stdio;
use regrow_core::Fault;
use rustix::process::{Signal, WaitOptions, test_kill_process, waitpid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{PATIENCE, ladder, leader, line, open, pid, runs, send, shell, soon, until};

#[tokio::test]
async fn the_exit_code_is_seen_by_everybody_who_asks() {
    let link = open(shell("exit 3")).await;
    let fault = Fault::Exited { code: 3 };
    assert_eq!(soon(link.process.exited()).await, fault);
    assert_eq!(soon(link.process.exited()).await, fault);
    let ended = soon(link.process.end(ladder(60_000, 60_000))).await;
    assert_eq!(ended, Ended { fault: Some(fault.clone()), ..Ended::default() });
    assert_eq!(soon(link.process.exited()).await, fault);
    assert!(test_kill_process(leader(&link)).is_err(), "it is reaped");
}

#[tokio::test]
async fn the_signal_is_seen_and_nothing_is_reaped_before_the_end() {
    let link = open(Stdio::new("test", "cat")).await;
    send(leader(&link), Signal::KILL);
    assert_eq!(soon(link.process.exited()).await, Fault::Killed { signal: 9 });
    assert!(test_kill_process(leader(&link)).is_ok(), "a zombie keeps its id");
    soon(link.process.end(ladder(0, 0))).await;
    assert!(test_kill_process(leader(&link)).is_err());
}

#[tokio::test]
async fn a_server_that_ends_at_the_end_of_its_input_is_not_signalled() {
    let link = open(Stdio::new("test", "cat")).await;
    drop(link.input);
    let ended = soon(link.process.end(ladder(60_000, 60_000))).await;
    assert_eq!(ended, Ended { fault: Some(Fault::Exited { code: 0 }), ..Ended::default() });
}

#[tokio::test]
async fn a_server_may_act_on_sigterm() {
    let mut link = open(shell("trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done")).await;
    assert_eq!(line(&mut link).await, "ready");
    let ended = soon(link.process.end(ladder(0, 60_000))).await;
    assert_eq!(ended, Ended { fault: Some(Fault::Exited { code: 7 }), termed: true, ..Ended::default() });
}

#[tokio::test]
async fn a_stopped_server_may_act_on_sigterm_too() {
    let link = open(Stdio::new("test", "cat")).await;
    send(leader(&link), Signal::STOP);
    let ended = soon(link.process.end(ladder(0, 60_000))).await;
    assert_eq!(ended, Ended { fault: Some(Fault::Killed { signal: 15 }), termed: true, ..Ended::default() });
}

#[tokio::test]
async fn a_server_that_ignores_everything_is_killed_in_time() {
    let mut link = open(shell("trap '' TERM; echo ready; while :; do sleep 1; done")).await;
    assert_eq!(line(&mut link).await, "ready");
    let begun = Instant::now();
    let ended = soon(link.process.end(ladder(50, 100))).await;
    assert!(begun.elapsed() >= Duration::from_millis(150), "not before its time");
    assert_eq!(ended.fault, Some(Fault::Killed { signal: 9 }));
    assert!(ended.termed && ended.killed);
}

#[tokio::test]
async fn the_exit_is_seen_though_a_grandchild_holds_the_output_and_it_is_ended_too() {
    let mut link = open(shell("sleep 100 & echo $!")).await;
    let grandchild = pid(&line(&mut link).await);
    assert_eq!(soon(link.process.exited()).await, Fault::Exited { code: 0 });
    assert!(runs(grandchild));
    let ended = soon(link.process.end(ladder(60_000, 60_000))).await;
    assert_eq!((ended.termed, ended.killed, ended.helpers), (true, false, 1));
    assert!(!runs(grandchild));
    assert_eq!(soon(link.output.read_u8()).await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn who_outlives_its_leader_and_ignores_sigterm_does_not_wait_for_the_whole_ladder() {
    let mut link = open(shell("(trap '' TERM; echo ready; while :; do sleep 1; done) & read line")).await;
    assert_eq!(line(&mut link).await, "ready");
    drop(link.input);
    let begun = Instant::now();
    let ended = soon(link.process.end(ladder(60_000, 50))).await;
    assert!(begun.elapsed() < PATIENCE && ended.killed && ended.helpers > 0, "{ended:?}");
}

#[tokio::test]
async fn a_faster_ladder_wins_and_both_callers_are_told_the_same() {
    let mut link = open(shell("trap '' TERM; echo ready; while :; do sleep 1; done")).await;
    assert_eq!(line(&mut link).await, "ready");
    let slow = link.process.end(ladder(60_000, 60_000));
    let fast = link.process.end(ladder(0, 20));
    assert_eq!(soon(slow).await, soon(fast).await);
    let again = soon(link.process.end(ladder(0, 0))).await;
    assert_eq!((again.fault, again.termed), (Some(Fault::Killed { signal: 9 }), true));
}

#[tokio::test]
async fn the_end_goes_on_when_nobody_waits_for_it() {
    let link = open(shell("trap '' TERM; while :; do sleep 1; done")).await;
    let leader = leader(&link);
    drop(link.process.end(ladder(0, 20)));
    drop(link);
    until(|| test_kill_process(leader).is_err()).await;
}

#[tokio::test]
async fn a_link_that_is_dropped_takes_its_whole_group_along() {
    let mut link = open(shell("trap '' TERM; sleep 100 & echo $!; wait")).await;
    let (leader, grandchild) = (leader(&link), pid(&line(&mut link).await));
    drop(link);
    until(|| test_kill_process(leader).is_err() && !runs(grandchild)).await;
}

#[test]
fn a_runtime_that_ends_takes_its_servers_along() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (link, ending) = runtime.block_on(async {
        let mut link = open(shell("trap '' TERM; sleep 100 & echo $!; wait")).await;
        let ending = open(shell("trap '' TERM; sleep 100 & wait")).await;
        drop(ending.process.end(ladder(60_000, 60_000)));
        line(&mut link).await;
        (leader(&link), leader(&ending))
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    other.block_on(until(|| test_kill_process(link).is_err() && test_kill_process(ending).is_err()));
}

#[tokio::test]
async fn nobody_is_signalled_when_another_part_of_the_program_has_reaped_the_leader() {
    let link = open(Stdio::new("test", "cat")).await;
    send(leader(&link), Signal::KILL);
    waitpid(Some(leader(&link)), WaitOptions::empty()).unwrap();
    soon(link.process.exited()).await;
    assert_eq!(soon(link.process.end(ladder(0, 0))).await, Ended::default());
}

#[tokio::test]
async fn a_helper_that_left_the_group_is_found_by_its_mark() {
    let mut link = open(shell("setsid sleep 100 2>/dev/null & echo $!; read line")).await;
    let helper = pid(&line(&mut link).await);
    until(|| rustix::process::getpgid(Some(helper)) == Ok(helper)).await;
    drop(link.input);
    let ended = soon(link.process.end(ladder(60_000, 60_000))).await;
    assert_eq!((ended.helpers, runs(helper)), (0, true));
    assert_eq!(soon(link.process.sweep(PATIENCE)).await, 1);
    assert!(!runs(helper));
    assert_eq!(soon(link.process.sweep(PATIENCE)).await, 0);
}

#[tokio::test]
async fn a_helper_that_ignores_sigterm_is_killed_after_the_grace() {
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let mut link = open(shell(script)).await;
    let helper = pid(&line(&mut link).await);
    soon(link.process.end(ladder(0, 1000))).await;
    assert!(runs(helper));
    assert!(soon(link.process.sweep(Duration::from_millis(50))).await >= 1);
    assert!(!runs(helper));
}

#[tokio::test]
async fn the_last_words_are_in_the_tail_when_the_exit_is_seen() {
    for _ in 0..30 {
        let link = open(shell("echo first >&2; printf 'last words' >&2; exit 1")).await;
        soon(link.process.exited()).await;
        assert_eq!(link.process.stderr().lines(), ["first", "last words"]);
    }
}

#[tokio::test]
async fn a_flood_of_stderr_stops_nobody() {
    let mut link = open(shell("yes | head -c 100000000 >&2; echo the end >&2; cat")).await;
    link.input.write_all(b"still here\n").await.unwrap();
    assert_eq!(line(&mut link).await, "still here");
    until(|| link.process.stderr().lines().last().is_some_and(|line| line == "the end")).await;
    assert_eq!(
        link.process.stderr().lines().len(),
        121,
        "the first 20, how many were left out, and the last 100"
    );
}

#[tokio::test]
async fn a_helper_that_holds_stderr_keeps_nobody_waiting() {
    let mut link = open(shell("setsid sh -c 'echo up; exec sleep 100' & read line; echo done >&2")).await;
    assert_eq!(line(&mut link).await, "up");
    drop(link.input);
    soon(link.process.exited()).await;
    soon(link.process.end(ladder(0, 1000))).await;
    assert_eq!(link.process.stderr().lines(), ["done"]);
    assert_eq!(soon(link.process.sweep(PATIENCE)).await, 1);
}
