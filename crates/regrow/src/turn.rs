//! Turn-taking: a task that handles a lot of input lets other tasks run in between.

/// A task handles about this many bytes, then other tasks run.
const TURN: u64 = 16 << 10;
/// A shorter message counts as one of this length, because it takes as much work.
const LEAST: u64 = 512;

/// Counts what a task has handled since other tasks last ran.
#[derive(Default)]
pub(crate) struct Turn {
    handled: u64,
}

impl Turn {
    /// Counts a message of this length. Says whether the task should yield now.
    pub(crate) fn is_over(&mut self, bytes: u64) -> bool {
        self.handled = self.handled.saturating_add(bytes.max(LEAST));
        let is_over = self.handled >= TURN;
        if is_over {
            self.handled = 0;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_32_short_messages_or_one_long_one() {
        let mut turn = Turn::default();
        for _ in 0..3 {
            let over = [0; 32].map(|bytes| turn.is_over(bytes));
            assert_eq!(over.iter().position(|over| *over), Some(31));
        }
        let lengths = [TURN - 1, 1, u64::MAX, 1];
        assert_eq!(lengths.map(|bytes| turn.is_over(bytes)), [false, true, true, false]);
    }
}
