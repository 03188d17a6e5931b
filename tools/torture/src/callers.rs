//! Those who call on and on while everything fails.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use super::call::Tool;
use super::face::Hand;

/// How many call at the same time.
pub(crate) const CALLERS: u64 = 3;

/// One caller: calls, waits for the answer, rests for a moment, and calls again.
pub(crate) fn call_on(hand: &Hand, mut random: Rng, patience: Duration, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        let Some(begun) = hand.call(tool(&mut random)) else { return };
        // Whether it was answered is in the history, where it is judged.
        let _ = begun.answer.recv_timeout(patience);
        thread::sleep(Duration::from_millis(random.u64(1..80)));
    }
}

fn tool(random: &mut Rng) -> Tool {
    match random.u8(0..10) {
        0 => Tool::List,
        1 => Tool::Echo,
        2 => Tool::Lookup,
        3..6 => Tool::Count(random.u64(5..400)),
        _ => Tool::Count(0),
    }
}
