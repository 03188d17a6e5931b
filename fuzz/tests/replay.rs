//! The kept corpus, replayed; and a few seconds of new inputs that a seeded mutator makes of it.
//!
//! `REGROW_FUZZ_SECONDS=600 REGROW_FUZZ_SEED=9 cargo test -p regrow-fuzz --test replay` goes further and elsewhere.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use fastrand::Rng;
use regrow_fuzz::mutator::mutate;
use regrow_fuzz::{TARGETS, corpus};

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")))
}

#[test]
fn every_kept_input_is_withstood() {
    for target in TARGETS {
        let inputs = corpus(target.name);
        assert!(inputs.len() >= 3, "{} has no corpus", target.name);
        for (name, input) in inputs {
            assert!(catch_unwind(|| (target.run)(&input)).is_ok(), "corpus/{}/{name}", target.name);
        }
    }
}

#[test]
fn new_inputs_are_withstood() {
    let length = Duration::from_secs(number("REGROW_FUZZ_SECONDS").unwrap_or(3));
    let seed = number("REGROW_FUZZ_SEED").unwrap_or(1);
    std::thread::scope(|scope| {
        for target in &TARGETS {
            scope.spawn(move || {
                let kept: Vec<Vec<u8>> = corpus(target.name).into_iter().map(|(_, input)| input).collect();
                let mut chance = Rng::with_seed(seed);
                let (began, mut count) = (Instant::now(), 0_u64);
                while began.elapsed() < length {
                    let input = mutate(&mut chance, &kept, target.words);
                    let name = target.name;
                    assert!(
                        catch_unwind(|| (target.run)(&input)).is_ok(),
                        "{name}, seed {seed}, input {count}; keep it in corpus/{name}/: b\"{}\"",
                        input.escape_ascii()
                    );
                    count += 1;
                }
                println!("{}: {count} inputs from seed {seed}", target.name);
            });
        }
    });
}
