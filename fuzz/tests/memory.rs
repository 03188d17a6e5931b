//! What a target holds at once is bounded by its input: alone in its process, since others would be counted, too.

use fastrand::Rng;
use peak_alloc::PeakAlloc;
use regrow_fuzz::mutator::mutate;
use regrow_fuzz::{TARGETS, corpus};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Buffers start with this much, however short the input is.
const FIXED: usize = 256 << 10;

#[test]
fn memory_is_bounded_by_the_input() {
    for target in TARGETS {
        let kept: Vec<Vec<u8>> = corpus(target.name).into_iter().map(|(_, input)| input).collect();
        let mut chance = Rng::with_seed(1);
        let made: Vec<_> = (0..500).map(|_| mutate(&mut chance, &kept, target.words)).collect();
        for input in kept.iter().chain(&made) {
            let before = MEMORY.current_usage();
            MEMORY.reset_peak_usage();
            (target.run)(input);
            let held = MEMORY.peak_usage().saturating_sub(before);
            let bound = FIXED + target.memory * input.len();
            assert!(held <= bound, "{}: {held} bytes for an input of {}", target.name, input.len());
        }
    }
}
