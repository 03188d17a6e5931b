//! The responses that a client still waits for.

/// Counts them, from the request to the last byte of its response. Positions are those of the output: bytes since its start.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// Requests that nobody has answered yet.
    open: usize,
    /// Requests that ended without a response, although their client did not cancel them.
    missed: usize,
    /// Where in the output the newest response ends.
    end: u64,
}

impl Owed {
    /// A request that will be answered.
    pub(super) fn begin(&mut self) {
        self.open += 1;
    }

    /// It has ended: its response is in the output, or its client cancelled it.
    pub(super) fn finish(&mut self) {
        self.open -= 1;
    }

    /// The output has a response that ends here.
    pub(super) fn responded(&mut self, end: u64) {
        self.end = end;
    }

    /// There was no way to respond.
    pub(super) fn miss(&mut self) {
        self.missed += 1;
    }

    /// How many responses will still come, where the output has left up to here.
    pub(super) fn left(&self, flushed: u64) -> usize {
        self.open + usize::from(flushed < self.end)
    }

    /// Whether every request was answered.
    pub(super) fn is_paid(&self, flushed: u64) -> bool {
        self.missed == 0 && self.left(flushed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_when_the_last_byte_of_its_response_has_left() {
        let mut owed = Owed::default();
        owed.begin();
        assert_eq!(owed.left(0), 1);
        owed.responded(10);
        owed.finish();
        assert_eq!((owed.left(9), owed.is_paid(9)), (1, false));
        assert_eq!((owed.left(10), owed.is_paid(10)), (0, true));
    }

    #[test]
    fn a_missed_response_is_not_waited_for_and_not_forgotten() {
        let mut owed = Owed::default();
        owed.begin();
        owed.miss();
        owed.finish();
        assert_eq!((owed.left(0), owed.is_paid(0)), (0, false));
    }
}
