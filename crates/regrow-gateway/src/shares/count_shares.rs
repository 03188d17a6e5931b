//! Who may have how many of something that is counted: connections, sessions, calls.
//!
//! One of several holders may have as many as are left after it: at most half of what the others leave free. So there is always room for
//! one more holder. The only holder may have all of them.

use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct CountShares<H> {
    total: usize,
    is_one_holder: bool,
    count: usize,
    holders: BTreeMap<H, usize>,
}

impl<H: Ord> CountShares<H> {
    pub(crate) fn new(total: usize, is_one_holder: bool) -> CountShares<H> {
        CountShares { total, is_one_holder, count: 0, holders: BTreeMap::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether one more may be taken; it is counted then.
    pub(crate) fn take(&mut self, holder: H) -> bool {
        let own = self.holders.get(&holder).copied().unwrap_or(0);
        if !is_left(self.total, self.count, own, self.is_one_holder) {
            return false;
        }
        self.count += 1;
        *self.holders.entry(holder).or_default() += 1;
        true
    }

    pub(crate) fn release(&mut self, holder: &H) {
        if let Some(own) = self.holders.get_mut(holder) {
            self.count -= 1;
            *own -= 1;
            if *own == 0 {
                self.holders.remove(holder);
            }
        }
    }
}

/// Whether a holder that has `own` of the `count` may have one more.
pub(crate) fn is_left(total: usize, count: usize, own: usize, is_one_holder: bool) -> bool {
    let free = total.saturating_sub(count);
    free > 0 && (is_one_holder || own < free)
}
