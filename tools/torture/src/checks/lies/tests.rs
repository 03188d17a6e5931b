//! Every lie is found: made-up readings, each with one.

use super::*;
use crate::call::{Delivery, Tool};

const READY: Standing = Standing {
    state: "ready",
    in_state: Duration::from_millis(1),
    epoch: 1,
    counts: true,
    restarts: 0,
    lives: true,
};

fn down(in_state: u64) -> Standing {
    Standing { state: "backoff", in_state: Duration::from_millis(in_state), lives: false, ..READY }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A true reading of two servers, which took a tenth of a second.
fn reading(at: u64, standings: [Standing; 2]) -> Reading {
    let is_missing = |server: &usize| standings[*server].state != "ready";
    let not_ready: Vec<usize> = (0..2).filter(is_missing).collect();
    Reading {
        at: millis(at),
        until: millis(at + 100),
        is_steady: true,
        readyz: if not_ready.is_empty() { 200 } else { 503 },
        not_ready,
        gauges: standings.iter().map(|standing| standing.state).collect(),
        standings: standings.into(),
        livez: millis(2),
    }
}

fn lies(readings: &[Reading]) -> Vec<String> {
    let names = ["one".to_owned(), "two".to_owned()];
    judge_readings("serve", &names, readings, &[]).into_iter().map(|broken| broken.to_string()).collect()
}

fn assert_one(lies: &[String], part: &str) {
    assert!(lies.len() == 1 && lies[0].contains(part), "{lies:#?}");
}

#[test]
fn the_truth_is_no_lie() {
    assert_eq!(lies(&[reading(0, [READY, READY]), reading(500, [READY, down(100)])]), [""; 0]);
}

#[test]
fn a_dead_server_that_is_said_to_be_ready_is_found_once_and_only_after_a_while() {
    let dead = |epoch| Standing { lives: false, epoch, ..READY };
    let story = |times: &[(u64, u64)]| {
        let readings = times.iter().map(|(at, epoch)| reading(*at, [READY, dead(*epoch)]));
        readings.collect::<Vec<_>>()
    };
    assert_eq!(lies(&story(&[(0, 1), (2000, 1)])), [""; 0], "it was just so");
    assert_one(
        &lies(&story(&[(0, 1), (2200, 1), (2300, 1)])),
        "two: what it says about its state is true: at 2.2",
    );
    assert_eq!(lies(&story(&[(0, 1), (2200, 2)])), [""; 0], "that is another session");
    let mut restarted = story(&[(0, 1), (1500, 1), (3000, 1)]);
    restarted[1].standings[1].lives = true;
    assert_eq!(lies(&restarted), [""; 0]);
}

#[test]
fn a_machine_that_stood_still_excuses_what_is_said_too_long() {
    let dead = Standing { lives: false, ..READY };
    let readings = [reading(0, [dead, READY]), reading(4000, [dead, READY])];
    let names = ["one".to_owned(), "two".to_owned()];
    let judge =
        |to| judge_readings("", &names, &readings, &[Stall { from: millis(1000), to: millis(to) }]).len();
    assert_eq!((judge(3500), judge(1500)), (0, 1));
}

#[test]
fn a_page_of_readiness_that_differs_is_found_where_nothing_changed_meanwhile() {
    let all_well = Reading { readyz: 200, not_ready: vec![], ..reading(0, [READY, down(100)]) };
    assert_one(&lies(std::slice::from_ref(&all_well)), "/readyz says 200");
    assert_eq!(lies(&[Reading { is_steady: false, ..all_well }]), [""; 0]);
    assert_one(&lies(&[Reading { readyz: 503, ..reading(0, [READY, READY]) }]), "/readyz says 503");
    let another = Reading { not_ready: vec![0], ..reading(0, [READY, down(100)]) };
    assert_one(&lies(&[another]), "[\"one\"]");
    let stopped = Standing { counts: false, ..down(100) };
    let alright = Reading { readyz: 200, not_ready: vec![], ..reading(0, [READY, stopped]) };
    assert_eq!(lies(&[alright]), [""; 0], "that was stopped on purpose");
}

#[test]
fn a_gauge_that_differs_is_found() {
    let other = Reading { gauges: vec!["ready", "ready"], ..reading(0, [READY, down(100)]) };
    assert_one(&lies(&[other]), "two: what it says about its state is true: at 0.000s /metrics says ready");
}

#[test]
fn a_late_sign_of_life_is_found() {
    let late = Reading { livez: millis(2001), until: millis(2500), ..reading(0, [READY, READY]) };
    assert_one(&lies(&[late]), "/livez took 2.001s");
}

#[test]
fn a_server_that_answers_while_it_is_said_to_be_down_is_found() {
    let readings = [reading(0, [READY, READY]), reading(10_000, [READY, down(5000)])];
    let judge = |begun: u64, ended: u64, tool, told| {
        let call = Call { tool, begun: millis(begun), ended: Some(millis(ended)), told, answers: 1 };
        judge_down("lane 6", 1, &readings, &[call]).len()
    };
    let count = Tool::Count(0);
    assert_eq!(judge(7200, 9000, count, Told::Right), 1);
    assert_eq!(judge(7000, 9000, count, Told::Right), 0, "within the time of grace");
    assert_eq!(judge(7200, 10_050, count, Told::Right), 0, "it may have come back");
    assert_eq!(judge(7200, 9000, Tool::List, Told::Right), 0, "lists are answered without the server");
    let fault = Told::Fault { kind: "unavailable".into(), delivery: Delivery::NotSent };
    assert_eq!(judge(7200, 9000, count, fault), 0);
}

#[test]
fn restarts_that_are_not_counted_are_found() {
    let told = |counts: &[u64]| -> Vec<Reading> {
        let standing = |restarts: &u64| Standing { restarts: *restarts, ..READY };
        counts.iter().map(|count| reading(0, [standing(count), READY])).collect()
    };
    assert_eq!(judge_restarts("", 0, &told(&[0, 1, 3]), 3), None);
    assert!(judge_restarts("", 0, &told(&[0, 1, 2]), 3).is_some());
    assert!(judge_restarts("", 0, &told(&[0, 4, 3]), 3).is_some(), "it may not fall");
}
