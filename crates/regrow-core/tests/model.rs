//! All orders of events, not some: a model checker drives the real `Supervisor` through every state that a small world can reach, and
//! holds P1 to P10 of the design against each.
//!
//! **What is real.** Every decision: `model/world.rs` holds the `Supervisor` that the owner in `regrow` drives, and
//! `model/owner.rs` hands on events and notes what must be done. What is made up is the world (`model/moves.rs`): a server that starts, reads, runs, answers, fails and ends; callers; people; the clock; and news,
//! which comes late, twice, or out of turn. What the world knows to be true is kept apart and never asked of the core.
//!
//! **Time** passes in units, and every length of the policy is a few of them. Timers that are due fire before time goes on,
//! but other news may come before they do. Two states are the same if they differ only in when they are.
//!
//! **Scopes** bound what may happen, each on another side; within its bounds each is looked at whole (but for `everything`,
//! whose first moves alone are). The attempt after
//! the last epoch of a scope is still judged, and then left.
//!
//! ```text
//! cargo test -p regrow-core --test model                          the first moves of the usual scopes
//! REGROW_LONG=1 cargo test -p regrow-core --test model            all of the usual scopes
//! REGROW_MODEL=first cargo test -p regrow-core --test model       the first moves, whatever REGROW_LONG says
//! REGROW_MODEL=full cargo test -p regrow-core --test model        the same, larger: three epochs with two calls
//! REGROW_MODEL=calls cargo test -p regrow-core --test model       one scope
//! cargo test -p regrow-core --test model -- --ignored             the seeded bugs of `model/mutants.rs`
//! REGROW_BUG=pause cargo test ... -- --ignored                    those whose name has this in it
//! ```
//!
//! **A counterexample** is told as a life, one line a move: the time since the start, the state before the move, the move.
//! The last line is what broke. It is (nearly) the shortest there is. To make a test of it, tell the same
//! life in `lives.rs`.

#[path = "world/first.rs"]
mod first;
#[path = "model/moves.rs"]
mod moves;
#[path = "model/mutants.rs"]
mod mutants;
#[path = "model/owner.rs"]
mod owner;
#[path = "model/properties.rs"]
mod properties;
#[path = "model/scope.rs"]
mod scope;
#[path = "model/world.rs"]
mod world;

use moves::Move;
use properties::{Goal, Property};
use scope::{BIRTH, Scope};
use stateright::{Checker, HasDiscoveries, Model, Path, Property as Claim};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use world::World;

/// How far each scope is looked at without `REGROW_LONG`: far enough to reach every goal.
const FIRST_MOVES: usize = 250_000;

#[test]
fn no_order_of_events_breaks_an_invariant() {
    let wanted = std::env::var("REGROW_MODEL").unwrap_or_default();
    let (full, first) = (wanted == "full", wanted == "first");
    let mut scopes = if full { scope::full() } else { scope::usual() };
    if first || wanted.is_empty() && std::env::var_os("REGROW_LONG").is_none() {
        scopes.iter_mut().for_each(|scope| scope.most = Some(FIRST_MOVES));
    }
    let all = wanted.is_empty() || full || first;
    let chosen: Vec<Scope> = scopes.into_iter().filter(|scope| all || scope.name == wanted).collect();
    assert!(!chosen.is_empty(), "REGROW_MODEL names no scope: {wanted}");
    let reached = Arc::new(Reached::default());
    for scope in chosen {
        check(scope, &reached);
    }
    let reached = reached.all();
    let missing: Vec<&Goal> = Goal::ALL.iter().filter(|goal| reached & goal.bit() == 0).collect();
    assert!(!all || missing.is_empty(), "no life reached {missing:?}: the check proves nothing about it");
}

fn check(scope: Scope, reached: &Arc<Reached>) {
    let (name, most) = (scope.name, scope.most);
    let checker = Lives { scope, reached: reached.clone() }
        .checker()
        .threads(threads())
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(most.unwrap_or(usize::MAX))
        .spawn_bfs()
        .join();
    let (unique, generated) = (checker.unique_state_count(), checker.state_count());
    let depth = checker.max_depth();
    println!("{name}: {unique} states, {generated} moves, at most {depth} in a row");
    let broken: BTreeMap<_, _> = checker.discoveries().into_iter().collect();
    let names: Vec<_> = broken.keys().copied().collect();
    broken.into_values().for_each(tell);
    assert!(names.is_empty(), "{name}: these do not hold: {names:?}");
}

/// As many as there are processors. One alone finds the same bad life every time.
fn threads() -> usize {
    let wanted = std::env::var("REGROW_THREADS").ok().and_then(|threads| threads.parse().ok());
    wanted.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
}

/// A life that ends badly.
fn tell(path: Path<World, Move>) {
    for (world, happening) in path.into_vec() {
        match (happening, &world.truth.broken) {
            (_, Some(broken)) => println!("broken: {:?}: {}", broken.property, broken.how),
            (Some(happening), None) => {
                let (since, state) = ((world.now - BIRTH).as_secs_f64(), world.lifecycle().state().name());
                println!("{since:6.2}s {state:<10} {happening:?}");
            }
            (None, None) => {}
        }
    }
}

/// Goals that some life has reached: a bit each, in two halves.
#[derive(Default)]
struct Reached([AtomicU64; 2]);

impl Reached {
    fn all(&self) -> u128 {
        let half = |at: usize| u128::from(self.0[at].load(Ordering::Relaxed));
        half(0) | half(1) << 64
    }

    fn add(&self, goals: u128) {
        if goals & !self.all() != 0 {
            self.0[0].fetch_or(goals as u64, Ordering::Relaxed);
            self.0[1].fetch_or((goals >> 64) as u64, Ordering::Relaxed);
        }
    }
}

struct Lives {
    scope: Scope,
    /// Which goals some life has reached.
    reached: Arc<Reached>,
}

impl Model for Lives {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scope)]
    }

    fn actions(&self, world: &World, moves: &mut Vec<Move>) {
        moves::moves(world, &self.scope, moves);
    }

    fn next_state(&self, last: &World, happening: Move) -> Option<World> {
        let mut world = last.clone();
        world.reached = 0;
        world.make(&self.scope, happening);
        self.reached.add(world.reached);
        Some(world)
    }

    fn properties(&self) -> Vec<Claim<Lives>> {
        macro_rules! holds {
            ($property:ident, $name:literal) => {
                Claim::always($name, |_, world: &World| {
                    world.truth.broken.as_ref().is_none_or(|broken| broken.property != Property::$property)
                })
            };
        }
        vec![
            holds!(P1, "P1 at most one process lives"),
            holds!(P2, "P2 every call ends exactly once, by its deadline"),
            holds!(P3, "P3 a call runs at most once unless safe"),
            holds!(P4, "P4 an epoch is charged if and only if it ended in a fault, once"),
            holds!(P5, "P5 over budget, an attempt has a reason and a pace"),
            holds!(P6, "P6 closed leaves nothing, in bounded time"),
            holds!(P7, "P7 an answer reaches only the call that it is owed to"),
            holds!(P8, "P8 parked and closed hold no waiting call"),
            holds!(P9, "P9 whatever is pending has a timer"),
            holds!(P10, "P10 epochs rise, attempts have a floor, late news does nothing"),
        ]
    }
}
