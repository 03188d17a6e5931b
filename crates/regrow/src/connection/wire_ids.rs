//! The ids that calls have towards a server.

use std::hash::{DefaultHasher, Hasher};

use regrow_core::CallId;
use regrow_protocol::frame::RawId;

/// Each half of an id has this many bits. Both together are a whole number in a double: many servers read ids as one.
const HALF: u32 = 26;
const MASK: u64 = (1 << HALF) - 1;
const ROUNDS: u64 = 4;

/// How the ids that calls have towards a server follow from their numbers here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireIds {
    /// They are the same.
    Counted,
    /// They are mixed up with this key. Where several clients share a session, none can guess the id of another's call.
    Keyed(u64),
}

impl WireIds {
    pub(crate) fn of(self, call: CallId) -> RawId {
        match self {
            WireIds::Counted => RawId::from(call.0),
            WireIds::Keyed(key) => RawId::from(mix(key, call.0, 0..ROUNDS)),
        }
    }

    /// The call that a server means. Some servers write ids back as text or as floats, and every client accepts that.
    pub(crate) fn call(self, id: &RawId) -> Option<CallId> {
        let number = id.as_number()?;
        match self {
            WireIds::Counted => Some(CallId(number)),
            WireIds::Keyed(_) if number >> (2 * HALF) != 0 => None,
            WireIds::Keyed(key) => {
                let swapped = number >> HALF | (number & MASK) << HALF;
                let mixed = mix(key, swapped, (0..ROUNDS).rev());
                Some(CallId(mixed >> HALF | (mixed & MASK) << HALF))
            }
        }
    }
}

/// Whether a server wrote the id of a call back as it got it, and not as text or as a float.
pub(crate) fn is_unchanged(id: &RawId) -> bool {
    id.as_bytes().iter().all(u8::is_ascii_digit)
}

/// A Feistel network: each round can be undone, whatever its function. So no two numbers become the same.
fn mix(key: u64, number: u64, rounds: impl Iterator<Item = u64>) -> u64 {
    let (mut left, mut right) = (number >> HALF & MASK, number & MASK);
    for round in rounds {
        let mut hasher = DefaultHasher::new();
        hasher.write_u128(u128::from(key) << 64 | u128::from(round << HALF | right));
        (left, right) = (right, left ^ hasher.finish() & MASK);
    }
    left << HALF | right
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_id_leads_back_to_its_call_and_to_no_other() {
        for ids in [WireIds::Counted, WireIds::Keyed(7), WireIds::Keyed(u64::MAX)] {
            let calls = (1..10_000).chain([MASK, MASK + 1, (1 << (2 * HALF)) - 1]).map(CallId);
            let mut seen = HashSet::new();
            for call in calls {
                let id = ids.of(call);
                assert_eq!(ids.call(&id), Some(call), "{ids:?}");
                assert!(is_unchanged(&id));
                assert!(id.as_number().is_some_and(|number| number < 1 << 53), "a double holds it");
                assert!(seen.insert(id.as_bytes().to_vec()), "{call:?} has another's id");
            }
        }
    }

    #[test]
    fn ids_with_a_key_are_not_near_each_other() {
        let number = |key, call| WireIds::Keyed(key).of(CallId(call)).as_number().unwrap();
        for call in 1..1000 {
            assert!(number(7, call).abs_diff(number(7, call + 1)) > 1);
            assert_ne!(number(7, call), number(8, call), "another key gives other ids");
        }
    }

    #[test]
    fn what_is_no_id_of_ours_leads_to_no_call() {
        let id = |text: &str| RawId::parse(text.as_bytes()).unwrap();
        assert_eq!(WireIds::Keyed(7).call(&id("\"x\"")), None);
        assert_eq!(WireIds::Keyed(7).call(&id("4503599627370496")), None, "too large");
    }

    #[test]
    fn an_id_in_another_form_leads_to_its_call_and_is_noticed() {
        for form in ["2.0", "\"2\""] {
            let id = RawId::parse(form.as_bytes()).unwrap();
            assert_eq!(WireIds::Counted.call(&id), Some(CallId(2)));
            assert!(!is_unchanged(&id), "{form}");
        }
    }
}
