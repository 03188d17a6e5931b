//! The calls of a ledger by their numbers, which only rise.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use super::CallId;

/// Most calls end soon after those before them, so that a call is found by how far its number lies behind the first.
#[derive(Clone, Debug)]
pub(super) struct Calls<C> {
    /// Calls that have outlived most of those after them.
    old: BTreeMap<CallId, C>,
    /// The number of the first place of `recent`.
    first: u64,
    /// A place for each number since then, empty if that call has ended.
    recent: VecDeque<Option<C>>,
    /// How many of them are not empty.
    count: usize,
}

/// Places that may be empty, beyond as many as there are calls.
const EMPTY: usize = 32;
/// Memory for more places than this is given back once they are empty.
const MANY: usize = 1024;

impl<C> Calls<C> {
    pub(super) fn new() -> Calls<C> {
        Calls { old: BTreeMap::new(), first: 0, recent: VecDeque::new(), count: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.old.len() + self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn get(&self, id: CallId) -> Option<&C> {
        match self.place(id) {
            Some(place) => self.recent.get(place)?.as_ref(),
            None => self.old.get(&id),
        }
    }

    pub(super) fn get_mut(&mut self, id: CallId) -> Option<&mut C> {
        match self.place(id) {
            Some(place) => self.recent.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&id),
        }
    }

    /// The number is the next one, or that of a call that was removed.
    pub(super) fn insert(&mut self, id: CallId, call: C) {
        let Some(place) = self.place(id) else {
            self.old.insert(id, call);
            return;
        };
        while self.recent.len() < place {
            self.recent.push_back(None);
        }
        match self.recent.get_mut(place) {
            Some(free) => *free = Some(call),
            None => self.recent.push_back(Some(call)),
        }
        self.count += 1;
    }

    pub(super) fn remove(&mut self, id: CallId) -> Option<C> {
        let Some(place) = self.place(id) else {
            return self.old.remove(&id);
        };
        let call = self.recent.get_mut(place)?.take()?;
        self.count -= 1;
        self.forget_empty();
        Some(call)
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (CallId, &C)> {
        let old = self.old.iter().map(|(&id, call)| (id, call));
        let recent = self.recent.iter().enumerate();
        let at = |place: usize| CallId(self.first + place as u64);
        old.chain(recent.filter_map(move |(place, call)| Some((at(place), call.as_ref()?))))
    }

    /// Oldest first.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (CallId, &mut C)> {
        let old = self.old.iter_mut().map(|(&id, call)| (id, call));
        let recent = (self.first..).map(CallId).zip(&mut self.recent);
        old.chain(recent.filter_map(|(id, call)| Some((id, call.as_mut()?))))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &C> {
        self.iter().map(|(_, call)| call)
    }

    fn place(&self, id: CallId) -> Option<usize> {
        id.0.checked_sub(self.first).map(|place| place as usize)
    }

    /// Gives up places at the start that are empty; also others, if too many behind them are.
    fn forget_empty(&mut self) {
        while let Some(first) = self.recent.front()
            && (first.is_none() || self.recent.len() > 2 * self.count + EMPTY)
        {
            if let Some(call) = self.recent.pop_front().flatten() {
                self.old.insert(CallId(self.first), call);
                self.count -= 1;
            }
            self.first += 1;
        }
        if self.recent.is_empty() && self.recent.capacity() > MANY {
            self.recent.shrink_to(MANY);
        }
    }
}

/// Where a call is kept makes no difference.
impl<C: PartialEq> PartialEq for Calls<C> {
    fn eq(&self, other: &Calls<C>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<C: Eq> Eq for Calls<C> {}

impl<C: Hash> Hash for Calls<C> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len().hash(state);
        self.iter().for_each(|call| call.hash(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_whatever_order_they_end_in() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut calls, mut expected) = (Calls::new(), BTreeMap::new());
            let (mut last, mut removed) = (0, CallId(0));
            // Some lives have many calls at once, and some few.
            let many = random.usize(1..200);
            for step in 0..1_000 {
                if expected.len() < random.usize(0..many) {
                    last += 1;
                    calls.insert(CallId(last), step);
                    expected.insert(CallId(last), step);
                } else if random.u8(0..20) == 0 && !expected.contains_key(&removed) && removed.0 > 0 {
                    calls.insert(removed, step);
                    expected.insert(removed, step);
                } else {
                    // Mostly an old one; some stay for long.
                    let skipped = if random.bool() { random.usize(0..4) } else { random.usize(0..many) };
                    removed = expected.keys().nth(skipped).copied().unwrap_or(CallId(0));
                    assert_eq!(calls.remove(removed), expected.remove(&removed), "seed {seed}");
                    assert_eq!(calls.remove(removed), None, "seed {seed}");
                    assert_eq!(calls.remove(CallId(last + 1)), None, "seed {seed}");
                }
                let asked = CallId(random.u64(0..last + 3));
                assert_eq!(calls.get(asked), expected.get(&asked), "seed {seed}");
                assert_eq!(calls.get_mut(asked), expected.get_mut(&asked), "seed {seed}");
                assert_eq!(calls.len(), expected.len(), "seed {seed}");
                assert!(calls.recent.len() <= 2 * expected.len() + EMPTY + 1, "seed {seed}");
            }
            assert!(calls.iter().eq(expected.iter().map(|(&id, call)| (id, call))), "seed {seed}");
            assert!(calls.iter().rev().eq(expected.iter().rev().map(|(&id, call)| (id, call))));
            assert!(calls.iter_mut().eq(expected.iter_mut().map(|(&id, call)| (id, call))));
        }
    }

    #[test]
    fn one_call_that_stays_does_not_keep_the_places_of_those_that_end() {
        let mut calls = Calls::new();
        calls.insert(CallId(1), ());
        for number in 2..100_000 {
            calls.insert(CallId(number), ());
            assert_eq!(calls.remove(CallId(number)), Some(()));
            assert!(calls.recent.len() <= EMPTY + 2);
        }
        assert_eq!(calls.get(CallId(1)), Some(&()));
        let mut alone = Calls::new();
        alone.insert(CallId(1), ());
        assert_eq!(calls, alone);
    }
}
