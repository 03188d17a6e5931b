//! Whole lives of connections in simulated time, thousands of them, each from a seed: a real engine, servers and networks
//! that misbehave, clients that call, cancel, answer and leave; and a checker that holds what was seen against the promises.
//!
//! `regrow_testkit::storm` has the variables that choose the seeds.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

mod bug;
mod checker;
mod face;
mod far;
mod far_process;
mod far_remote;
mod history;
mod key;
mod life;
mod program;
mod reached;
mod relayed;
mod shim;

use regrow_testkit::storm::Storm;

use bug::Bug;
use history::History;

const STORM: Storm<History, Bug> = Storm {
    test: "-p regrow --test simulation every_promise",
    live: life::live,
    check: checker::check,
    reached: reached::reached,
    goals: &reached::WANTED,
};

#[test]
fn every_promise_holds_in_every_life() {
    STORM.keeps_every_promise(2_000);
}

#[test]
fn equal_seeds_live_equal_lives() {
    STORM.repeats(500);
}

#[test]
fn lives_that_once_differed_are_equal_every_time() {
    STORM.repeats_often(&[813, 1002, 1307], 20);
}

#[test]
fn the_checker_finds_every_seeded_bug() {
    STORM.finds(Bug::ALL.map(|bug| (bug, bug.breaks())), 2000);
}

#[test]
fn what_plants_the_bugs_breaks_nothing_by_itself() {
    STORM.is_unbroken_with(Bug::Harmless, 300);
}

#[test]
fn a_life_with_real_dice_is_not_lived_twice() {
    STORM.differs_with(Bug::ThrowsDice, 5);
}
