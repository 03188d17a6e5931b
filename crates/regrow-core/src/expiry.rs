//! Whether a refused request means that the server has forgotten the session, or is the server's answer to that request.
//!
//! In the protocol, 404 to a request in a session means that the session is gone. Servers also answer so for a single tool. The
//! first refusal is therefore believed once: one new handshake, and the request is sent again. If it is refused again, that is its
//! answer, and from then on a refusal alone proves nothing: the server is asked (`ping`) whether it knows the session.

/// What a refusal is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// The session has expired.
    Expired,
    /// It is the server's answer to this request. The session lives.
    Answer,
    /// Ask the server on the same session: a ping that is refused as well means that it has expired.
    Ask,
}

/// A server that answers so many pings without a single good answer to a call may answer them without a session.
const MOST_IN_A_ROW: u32 = 16;

/// A ping that is refused beside a call says more than one that is answered: it counts as so many.
const REFUSED_PING: u32 = 4;

/// What refusals have meant on this connection so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Refusals {
    /// One was not about the session, or may not have been.
    misled: bool,
    /// How often a server that refused calls answered a ping, or seemed to refuse every ping, since the last good answer.
    in_a_row: u32,
    /// A session was given up because a ping was refused, and no ping was answered since.
    ping_refused: bool,
}

impl Refusals {
    /// A request was refused. `again`: also on the session before, which was given up for that.
    pub(crate) fn request(&mut self, again: bool) -> Ruling {
        if again {
            self.misled = true;
            return Ruling::Answer;
        }
        if self.misled && self.in_a_row < MOST_IN_A_ROW {
            return Ruling::Ask;
        }
        self.in_a_row = 0;
        Ruling::Expired
    }

    /// A ping of ours was refused. Where the next session refuses it as well, the server seems to refuse every ping; but not for
    /// long if it refuses every call, too.
    pub(crate) fn ping(&mut self) -> Ruling {
        if std::mem::replace(&mut self.ping_refused, true) {
            self.in_a_row = self.in_a_row.saturating_add(REFUSED_PING);
            return Ruling::Answer;
        }
        Ruling::Expired
    }

    /// A ping of ours was answered.
    pub(crate) fn ping_answered(&mut self) {
        self.ping_refused = false;
    }

    /// The same, of one that was to find out what a refusal means.
    pub(crate) fn session_is_known(&mut self) {
        self.ping_answered();
        self.in_a_row = self.in_a_row.saturating_add(1);
    }

    /// Whether it is not known if the server answers pings at all.
    pub(crate) fn doubts_pings(&self) -> bool {
        self.ping_refused
    }

    /// A client's call got a good answer.
    pub(crate) fn answered(&mut self) {
        self.in_a_row = 0;
    }

    /// A session was given up for what an ordinary response says. No request that may have run is sent again to find out more.
    pub(crate) fn believed_a_response(&mut self) {
        self.misled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::Ruling::{Answer, Ask, Expired};
    use super::*;

    #[test]
    fn a_refusal_is_believed_until_one_was_an_answer() {
        let mut refusals = Refusals::default();
        assert_eq!([refusals.request(false), refusals.request(false)], [Expired, Expired]);
        assert_eq!(refusals.request(true), Answer);
        assert_eq!(refusals.request(false), Ask);
        assert_eq!(refusals.request(true), Answer);
    }

    #[test]
    fn a_session_that_refuses_everything_but_pings_is_given_up_in_the_end() {
        let mut refusals = Refusals::default();
        refusals.believed_a_response();
        for _ in 0..MOST_IN_A_ROW {
            assert_eq!([refusals.request(false), refusals.request(false)], [Ask, Ask], "one ping for both");
            refusals.session_is_known();
        }
        assert_eq!([refusals.request(false), refusals.request(false)], [Expired, Ask]);
        for _ in 0..100 {
            assert_eq!(refusals.request(false), Ask);
            refusals.session_is_known();
            refusals.answered();
        }
    }

    #[test]
    fn a_server_that_refuses_every_ping_is_believed_once() {
        let mut refusals = Refusals::default();
        assert_eq!([refusals.ping(), refusals.ping(), refusals.ping()], [Expired, Answer, Answer]);
        assert!(refusals.doubts_pings());
        refusals.ping_answered();
        assert!(!refusals.doubts_pings());
        assert_eq!([refusals.ping(), refusals.ping()], [Expired, Answer]);
    }

    #[test]
    fn a_session_that_refuses_calls_and_pings_is_given_up_in_the_end() {
        let mut refusals = Refusals::default();
        refusals.believed_a_response();
        refusals.ping();
        for _ in 0..MOST_IN_A_ROW / REFUSED_PING {
            assert_eq!([refusals.request(false), refusals.ping()], [Ask, Answer]);
        }
        assert_eq!(refusals.request(false), Expired);
    }
}
