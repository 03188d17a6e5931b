//! Turn-taking: a task that handles a lot of input lets other tasks run in between.

/// At first a task handles about this many bytes, then other tasks run, and what it handled goes on its way: so its peers work meanwhile.
const FIRST: u64 = 4 << 10;
/// While there is more and more to handle, turns become longer, up to this: fewer of them cost less.
const LONGEST: u64 = 16 << 10;
/// A shorter message counts as one of this length, because it takes as much work.
const LEAST: u64 = 512;

/// Counts what a task has handled since other tasks last ran.
pub(crate) struct Turn {
    handled: u64,
    length: u64,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { handled: 0, length: FIRST }
    }
}

impl Turn {
    /// Counts a message of this length. Says whether the task should yield now.
    pub(crate) fn is_over(&mut self, bytes: u64) -> bool {
        self.handled = self.handled.saturating_add(bytes.max(LEAST));
        let is_over = self.handled >= self.length;
        if is_over {
            *self = Turn { handled: 0, length: LONGEST.min(self.length * 2) };
        }
        is_over
    }

    /// There is nothing more to handle for now. More may come at once, so what was handled still counts.
    pub(crate) fn rest(&mut self) {
        *self = Turn { handled: self.handled % FIRST, length: FIRST };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many short messages each of the next turns has.
    fn turns<const N: usize>(turn: &mut Turn) -> [usize; N] {
        [(); N].map(|()| 1 + (0..).take_while(|_| !turn.is_over(0)).count())
    }

    #[test]
    fn a_turn_is_eight_short_messages_or_one_long_one_and_up_to_four_times_that_without_a_rest() {
        let mut turn = Turn::default();
        assert_eq!(turns(&mut turn), [8, 16, 32, 32]);
        turn.rest();
        assert_eq!(turns(&mut turn), [8, 16]);
        turn.rest();
        let ones = [(); 17].map(|()| {
            turn.rest();
            turn.is_over(0)
        });
        assert_eq!(ones.iter().filter(|over| **over).count(), 2, "also if they come one by one");
        turn = Turn::default();
        assert_eq!([FIRST - 1, 1, u64::MAX].map(|bytes| turn.is_over(bytes)), [false, true, true]);
    }
}
