//! Seeded storms: many lives in simulated time, each from one seed, each checked against what must always hold.
//!
//! `REGROW_SEED=17` runs one life and prints its log; `REGROW_LONG=1` runs ten times as many, `REGROW_SEEDS=1000000` as many
//! as it says.

mod panics;
mod seeds;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use seeds::{each, number, seeds};

/// A kind of life, and what is expected of it.
pub struct Storm<H, B> {
    /// The arguments of `cargo test` that run it.
    pub test: &'static str,
    /// Lives the life of a seed, with a bug planted in it or without.
    pub live: fn(u64, Option<B>) -> H,
    /// What is broken, each as a sentence that begins with the promise.
    pub check: fn(&H) -> Vec<String>,
    /// What a life has reached.
    pub reached: fn(&H) -> BTreeSet<&'static str>,
    /// What all lives together must reach, or they prove nothing about it.
    pub goals: &'static [&'static str],
}

/// What was seen of a life.
pub trait History {
    /// Equal lives have equal hashes.
    fn hash(&self) -> u64;
    /// The life as a log for people.
    fn log(&self) -> String;
}

impl<H: History, B: Copy + Debug + Sync> Storm<H, B> {
    /// Every promise holds in every life, and together the lives reach all goals.
    pub fn keeps_every_promise(&self, usual: u64) {
        if let Some(seed) = number("REGROW_SEED") {
            let history = (self.live)(seed, None);
            println!("{}", history.log());
            return self.assert_unbroken(seed, &history);
        }
        let lived = each(0..seeds(usual), |seed| {
            let history = (self.live)(seed, None);
            (history.hash(), (self.check)(&history), (self.reached)(&history))
        });
        let all = lived.iter().fold(0_u64, |all, (hash, ..)| all.rotate_left(5) ^ hash);
        println!("{} lives, hash {all:016x}", lived.len());
        let broken: Vec<_> =
            lived.iter().enumerate().filter(|(_, (_, broken, _))| !broken.is_empty()).collect();
        for (seed, (_, broken, _)) in broken.iter().take(20) {
            println!("seed {seed}: {broken:#?}");
            println!("again: REGROW_SEED={seed} cargo test {} -- --nocapture", self.test);
        }
        assert!(broken.is_empty(), "{} of {} lives broke a promise", broken.len(), lived.len());
        let seen: BTreeSet<_> = lived.into_iter().flat_map(|(_, _, reached)| reached).collect();
        for goal in self.goals {
            assert!(seen.contains(goal), "no life reached {goal:?}: they prove nothing about it");
        }
    }

    /// A seed gives the same life twice.
    pub fn repeats(&self, usual: u64) {
        let differ = |seed: u64| self.hash(seed, None) != self.hash(seed, None);
        let different: Vec<u64> =
            each(0..seeds(usual), |seed| differ(seed).then_some(seed)).into_iter().flatten().collect();
        assert!(different.is_empty(), "lived otherwise the second time: {different:?}");
    }

    /// These seeds give the same life this many times.
    pub fn repeats_often(&self, seeds: &[u64], times: usize) {
        for &seed in seeds {
            let first = self.hash(seed, None);
            assert!((0..times).all(|_| self.hash(seed, None) == first), "seed {seed} was lived otherwise");
        }
    }

    /// Each bug breaks its promise in one of the first lives.
    pub fn finds(&self, bugs: impl IntoIterator<Item = (B, &'static str)>, within: u64) {
        for (bug, promise) in bugs {
            let found = (0..within).find(|seed| {
                let broken = (self.check)(&(self.live)(*seed, Some(bug)));
                broken.iter().any(|sentence| sentence.starts_with(promise))
            });
            println!("{bug:?} is found in life {found:?}");
            assert!(found.is_some(), "{bug:?} is not found");
        }
    }

    /// A bug that changes nothing breaks nothing.
    pub fn is_unbroken_with(&self, bug: B, lives: u64) {
        (0..lives).for_each(|seed| self.assert_unbroken(seed, &(self.live)(seed, Some(bug))));
    }

    /// With this bug a seed does not always give the same life.
    pub fn differs_with(&self, bug: B, lives: u64) {
        assert!((0..lives).any(|seed| self.hash(seed, Some(bug)) != self.hash(seed, Some(bug))));
    }

    fn hash(&self, seed: u64, bug: Option<B>) -> u64 {
        (self.live)(seed, bug).hash()
    }

    fn assert_unbroken(&self, seed: u64, history: &H) {
        let broken = (self.check)(history);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    }
}

/// Runs a life in simulated time, on a runtime of its own: what came of it, unless it panicked, and what panicked in any of
/// its tasks.
pub fn run<T>(life: impl Future<Output = T>) -> (Option<T>, Vec<String>) {
    panics::watched(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime without I/O can always be made").block_on(life)
    })
}

pub fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Where the parts of a life write down what happens, while it does. Clones share it.
pub struct Recorder<E> {
    began: Instant,
    events: Arc<Mutex<Vec<(Duration, E)>>>,
}

impl<E> Clone for Recorder<E> {
    fn clone(&self) -> Recorder<E> {
        Recorder { began: self.began, events: self.events.clone() }
    }
}

impl<E: Send + 'static> Recorder<E> {
    #[allow(clippy::new_without_default)] // It begins now.
    pub fn new() -> Recorder<E> {
        Recorder { began: Instant::now(), events: Arc::default() }
    }

    pub fn note(&self, event: E) {
        let at = self.began.elapsed();
        self.events().push((at, event));
    }

    /// Notes it this much later, for an observer that is slow.
    pub fn note_after(&self, after: Duration, event: E) {
        if after.is_zero() {
            return self.note(event);
        }
        let recorder = self.clone();
        tokio::spawn(async move {
            sleep(after).await;
            recorder.note(event);
        });
    }

    pub fn events(&self) -> MutexGuard<'_, Vec<(Duration, E)>> {
        self.events.lock().expect("nobody panics while writing")
    }

    /// All events, in order.
    pub fn take(&self) -> Vec<(Duration, E)> {
        std::mem::take(&mut *self.events())
    }
}
