//! One stream of bytes, cut into pieces in several ways.

use std::hash::{DefaultHasher, Hash, Hasher};

use fastrand::Rng;

/// A sequence of random numbers that depends on nothing but the input.
pub(crate) fn chance_of(input: &[u8]) -> Rng {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    Rng::with_seed(hasher.finish())
}

/// The input byte by byte, in two halves, and in random pieces.
pub(crate) fn cuts(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut chance = chance_of(input);
    let half = chance.usize(..=input.len());
    let mut all = vec![input.chunks(1).collect(), vec![&input[..half], &input[half..]]];
    for most in [3, 20, 200] {
        let (mut rest, mut pieces) = (input, vec![]);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(chance.usize(1..=most).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        all.push(pieces);
    }
    all
}
