//! Whole lives of connections in simulated time, thousands of them, each from a seed: a real engine, servers and networks
//! that misbehave, clients that call, cancel, answer and leave; and a checker that holds what was seen against the promises.
//!
//! `REGROW_SEED=17 cargo test -p regrow --test simulation every_promise -- --nocapture` lives one again and tells it;
//! `REGROW_LONG=1` lives ten times as many, `REGROW_SEEDS=1000000` as many as it says.

#![allow(clippy::unwrap_used, missing_docs, unreachable_pub)]

#[allow(dead_code)] // Other tests use the rest of these.
#[path = "../remote/link.rs"]
mod link;
#[allow(dead_code)]
#[path = "../connection/process.rs"]
mod process;
#[allow(dead_code)]
#[path = "../remote/remote.rs"]
mod remote;
#[allow(dead_code)]
#[path = "../connection/server.rs"]
mod server;
#[allow(dead_code)]
#[path = "../connection/signal.rs"]
mod signal;
#[allow(dead_code)]
#[path = "../connection/world.rs"]
mod world;

mod bug;
mod chance;
mod checker;
mod face;
mod far;
mod far_process;
mod far_remote;
mod history;
mod key;
mod life;
mod panics;
mod program;
mod reached;
mod relayed;
mod seeds;
mod shim;

use std::collections::BTreeSet;

use bug::Bug;
use checker::check;
use life::live;
use reached::{WANTED, reached};
use seeds::{again, each, number, seeds};

const SEEDS: u64 = 2_000;
/// Of so many the lives are lived twice.
const SAMPLE: u64 = 500;

#[test]
fn every_promise_holds_in_every_life() {
    if let Some(seed) = number("REGROW_SEED") {
        let history = live(seed, None);
        println!("{}", history.log());
        let broken = check(&history);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        return;
    }
    let lived = each(0..seeds(SEEDS), |seed| {
        let history = live(seed, None);
        (history.hash(), check(&history), reached(&history))
    });
    let all = lived.iter().fold(0_u64, |all, (hash, ..)| all.rotate_left(5) ^ hash);
    println!("{} lives, hash {all:016x}", lived.len());
    let broken: Vec<_> = lived.iter().enumerate().filter(|(_, (_, broken, _))| !broken.is_empty()).collect();
    for (seed, (_, broken, _)) in broken.iter().take(20) {
        println!("seed {seed}: {broken:#?}\nagain: {}", again(*seed as u64));
    }
    assert!(broken.is_empty(), "{} of {} lives broke a promise", broken.len(), lived.len());
    let seen: BTreeSet<_> = lived.into_iter().flat_map(|(_, _, reached)| reached).collect();
    for wanted in WANTED {
        assert!(seen.contains(wanted), "no life reached {wanted:?}: they prove nothing about it");
    }
}

#[test]
fn equal_seeds_live_equal_lives() {
    let differ = |seed: &u64| live(*seed, None).hash() != live(*seed, None).hash();
    let different: Vec<u64> =
        each(0..seeds(SAMPLE), |seed| differ(&seed).then_some(seed)).into_iter().flatten().collect();
    assert!(different.is_empty(), "lived otherwise the second time: {different:?}");
}

#[test]
fn lives_that_once_differed_are_equal_every_time() {
    let hash = |seed| live(seed, None).hash();
    for seed in [813, 1002, 1307] {
        let first = hash(seed);
        assert!((0..20).all(|_| hash(seed) == first), "seed {seed} was lived otherwise");
    }
}

#[test]
fn the_checker_finds_every_seeded_bug() {
    for bug in Bug::ALL {
        let found = (0..2000).find(|seed| {
            let broken = check(&live(*seed, Some(bug)));
            broken.iter().any(|sentence| sentence.starts_with(bug.breaks()))
        });
        println!("{bug:?} is found in life {found:?}");
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

#[test]
fn what_plants_the_bugs_breaks_nothing_by_itself() {
    for seed in 0..300 {
        let broken = check(&live(seed, Some(Bug::Harmless)));
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    }
}

#[test]
fn a_life_with_real_dice_is_not_lived_twice() {
    let bug = Some(Bug::ThrowsDice);
    assert!((0..5).any(|seed| live(seed, bug).hash() != live(seed, bug).hash()));
}
