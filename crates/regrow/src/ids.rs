//! The ids that Regrow gives out and later accepts back: of a client's session, of a call that waits for its client's input, and of
//! an event that a stream can be resumed after. Nobody can guess one. Each starts with the version of its format.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The formats: random numbers, and numbers that only the holder of a key can read.
const RANDOM: &str = "r1-";
const SEALED: &str = "s1-";
/// Each id is three numbers in hex.
const DIGITS: usize = 16;

/// A new id that is valid in a header and in JSON. None if the system has no random numbers.
pub fn random_id() -> Option<String> {
    let mut bytes = [[0; 8]; 3];
    getrandom::fill(bytes.as_flattened_mut()).ok()?;
    Some(text(RANDOM, bytes.map(u64::from_ne_bytes)))
}

/// Makes ids that carry two numbers, and reads them back. Ids of another key are not readable.
#[derive(Clone, Copy)]
pub struct SealingKey([u64; 2]);

impl SealingKey {
    /// The key that belongs to a secret, such as a random id.
    pub fn of(secret: &str) -> SealingKey {
        SealingKey([0, 1].map(|half: u64| hash((half, secret))))
    }

    /// The id that carries these numbers: always the same one.
    pub fn seal(self, numbers: [u64; 2]) -> String {
        let tag = hash((self.0, 0u64, numbers));
        let [first, second] = self.masked(tag, numbers);
        text(SEALED, [tag, first, second])
    }

    /// The numbers in an id that this key has made.
    pub fn open(self, id: &str) -> Option<[u64; 2]> {
        let digits = id.strip_prefix(SEALED)?;
        let number = |n: usize| u64::from_str_radix(digits.get(n * DIGITS..(n + 1) * DIGITS)?, 16).ok();
        let numbers = self.masked(number(0)?, [number(1)?, number(2)?]);
        (self.seal(numbers) == id).then_some(numbers)
    }

    /// Hides numbers, or shows them again.
    fn masked(self, tag: u64, [first, second]: [u64; 2]) -> [u64; 2] {
        [first ^ hash((self.0, 1u64, tag)), second ^ hash((self.0, 2u64, tag))]
    }
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn text(version: &str, numbers: [u64; 3]) -> String {
    let mut id = String::with_capacity(version.len() + 3 * DIGITS);
    id.push_str(version);
    for number in numbers {
        write!(id, "{number:016x}").expect("a string takes every text");
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_is_new_and_fits_a_header() {
        let (one, other) = (random_id().unwrap(), random_id().unwrap());
        assert_ne!(one, other);
        for id in [one, SealingKey::of("a").seal([1, u64::MAX])] {
            assert_eq!(id.len(), RANDOM.len() + 3 * DIGITS);
            assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{id}");
        }
    }

    #[test]
    fn only_the_key_that_sealed_numbers_opens_them() {
        let (key, other) = (SealingKey::of("a"), SealingKey::of("b"));
        let mut seen = HashSet::new();
        for numbers in [[0, 0], [0, 1], [1, 0], [7, 1 << 40], [u64::MAX, u64::MAX]] {
            let id = key.seal(numbers);
            assert_eq!((key.open(&id), other.open(&id)), (Some(numbers), None), "{id}");
            for at in [3, 19, 35] {
                assert!(seen.insert(id[at..at + DIGITS].to_owned()), "no part shows what is equal: {id}");
            }
        }
    }

    #[test]
    fn what_was_changed_or_never_sealed_is_not_opened() {
        let key = SealingKey::of("a");
        let id = key.seal([3, 4]);
        for at in 0..id.len() {
            let changed = if &id[at..=at] == "1" { "2" } else { "1" };
            let changed = [&id[..at], changed, &id[at + 1..]].concat();
            assert_eq!(key.open(&changed), None, "{changed}");
        }
        let plus = id.replacen("-", "-+", 1);
        let long = format!("{id}0");
        for foreign in ["", "s1-", "0-1", "ü", &id[..id.len() - 1], &plus, &long, &random_id().unwrap()] {
            assert_eq!(key.open(foreign), None, "{foreign}");
        }
    }
}
