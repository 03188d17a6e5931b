//! When a relay has nothing left to do for its client.

use std::time::Duration;

/// A client that takes nothing of what waits for it for this long after it closed its input is not waited for.
const UNREAD_LIMIT: Duration = Duration::from_secs(300);

/// What a relay knows about a client that writes to one stream and reads another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientStreams {
    /// The client may still write.
    pub input_open: bool,
    /// Somebody can still read what we write.
    pub output_open: bool,
    /// Requests without a complete response in the output. Subscription streams do not count: they have no end.
    pub unanswered: usize,
    /// How long the client has taken nothing, if something waits for it.
    pub unread_for: Option<Duration>,
}

/// What a relay does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relaying {
    /// Goes on. Look again when something changes, or after this time.
    Continues(Option<Duration>),
    /// Is over: the session ends as for a client that has left.
    Ends,
}

impl ClientStreams {
    /// A client that only closed its input still reads, so its requests are answered first. Nobody answers a client that does not
    /// read.
    pub fn next(&self) -> Relaying {
        let unread_for = self.unread_for.unwrap_or(Duration::ZERO);
        match self {
            ClientStreams { output_open: false, .. } => Relaying::Ends,
            ClientStreams { input_open: true, .. } => Relaying::Continues(None),
            ClientStreams { unanswered: 0, .. } => Relaying::Ends,
            _ if unread_for >= UNREAD_LIMIT => Relaying::Ends,
            _ => Relaying::Continues(self.unread_for.map(|unread_for| UNREAD_LIMIT - unread_for)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVED: ClientStreams =
        ClientStreams { input_open: true, output_open: true, unanswered: 0, unread_for: None };

    #[test]
    fn a_client_that_may_still_write_is_served() {
        for unanswered in [0, 1] {
            assert_eq!(ClientStreams { unanswered, ..SERVED }.next(), Relaying::Continues(None));
        }
    }

    #[test]
    fn after_the_end_of_its_input_a_client_is_served_until_its_requests_are_answered() {
        let closed = ClientStreams { input_open: false, ..SERVED };
        assert_eq!(ClientStreams { unanswered: 1, ..closed }.next(), Relaying::Continues(None));
        assert_eq!(closed.next(), Relaying::Ends);
    }

    #[test]
    fn nobody_is_served_who_cannot_read() {
        for input_open in [true, false] {
            let gone = ClientStreams { input_open, output_open: false, unanswered: 1, unread_for: None };
            assert_eq!(gone.next(), Relaying::Ends);
        }
    }

    #[test]
    fn a_client_that_closed_its_input_and_reads_nothing_is_waited_for_five_minutes() {
        let unread = |unread_for| {
            let unread_for = Some(Duration::from_secs(unread_for));
            ClientStreams { input_open: false, unanswered: 1, unread_for, ..SERVED }.next()
        };
        assert_eq!(unread(100), Relaying::Continues(Some(Duration::from_secs(200))));
        assert_eq!(unread(300), Relaying::Ends);
    }

    #[test]
    fn a_client_that_reads_nothing_may_write_for_as_long_as_it_likes() {
        let unread_for = Some(Duration::from_secs(3600));
        assert_eq!(ClientStreams { unread_for, ..SERVED }.next(), Relaying::Continues(None));
    }
}
