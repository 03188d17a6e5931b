//! Makes new inputs of old ones, by a seed.

use fastrand::Rng;

/// Longer inputs find nothing that shorter ones do not.
const MAX: usize = 4096;

/// Makes an input of one of the corpus, with words that mean something to the target.
pub fn mutate(chance: &mut Rng, corpus: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut input = chance.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..chance.usize(1..6) {
        change(chance, &mut input, corpus, words);
    }
    input.truncate(MAX);
    input
}

fn change(chance: &mut Rng, input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str]) {
    let at = chance.usize(..=input.len());
    let end = chance.usize(at..=input.len()).min(at + 64);
    match chance.u8(..8) {
        0 => drop(input.drain(at..end)),
        1 => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        2 => input.insert(at, chance.u8(..)),
        3 if at < input.len() => input[at] ^= 1 << chance.u8(..8),
        4 if at < input.len() => input[at] = *chance.choice(b"\0\n\r\"\\{}[]:, \xff\xc3\x80").unwrap_or(&0),
        5 => {
            let other = chance.choice(corpus).cloned().unwrap_or_default();
            let from = chance.usize(..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        6 => {
            let digits = chance.u64(..) >> chance.u32(..64);
            input.splice(at..end, digits.to_string().bytes());
        }
        _ => {
            let word = chance.choice(words).copied().unwrap_or_default();
            input.splice(at..at, word.bytes());
        }
    }
}
