//! Seeded storms over the whole gateway: whatever servers, networks, clients and the operator do, every call ends once and in time,
//! runs at most once, and nobody hears what was meant for another. Afterwards it is as if nothing had happened.
//!
//! `regrow_testkit::storm` has the variables that choose the seeds.

mod bug;
mod checker;
mod history;
mod life;
mod reached;
mod visitor;
mod weather;

use std::time::Duration;

use regrow_testkit::storm::Storm;

use bug::Bug;
use history::History;

const STORM: Storm<History, Bug> = Storm {
    test: "-p regrow-gateway --test gateway every_promise",
    live: life::live,
    check: checker::check,
    reached: reached::reached,
    goals: &reached::WANTED,
};
const CALL_TIMEOUT: Duration = Duration::from_secs(20);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer a call may take than its own time: as long as the ends of others take.
const WAITS: Duration = Duration::from_secs(1);
const TOOLS: [&str; 10] = ["ask", "die", "echo", "echo", "hang", "lie", "log", "progress", "safe", "wait"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

#[test]
fn every_promise_holds_in_every_storm() {
    STORM.keeps_every_promise(70);
}

#[test]
fn equal_seeds_live_through_equal_storms() {
    STORM.repeats(10);
}

#[test]
fn storms_that_once_differed_are_equal_every_time() {
    STORM.repeats_often(&[660, 1153, 2111, 2404, 2683], 5);
}

#[test]
fn the_checker_finds_every_seeded_bug() {
    STORM.finds(Bug::ALL, 200);
}

#[test]
fn what_plants_the_bugs_breaks_nothing_by_itself() {
    STORM.is_unbroken_with(Bug::Harmless, 10);
}

#[test]
fn a_storm_with_real_dice_is_not_lived_twice() {
    STORM.differs_with(Bug::ThrowsDice, 3);
}
