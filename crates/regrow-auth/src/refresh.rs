//! What to do about tokens that expire or are refused. Pure: no clock, no I/O; times are seconds since 1970.

use std::time::Duration;

use crate::account::{Account, Rejection};
use crate::records::{Secret, Tokens};
use crate::token::{Reason, TokenError};

/// Tokens are refreshed this long before they expire, or when half of a shorter life is over.
const EARLY: u64 = 60;
/// After this many failures in a row, the user is offered to sign in.
const SIGN_IN_AFTER: u32 = 3;
/// The longest pause between two requests to an authorization server that fails, unless it asks for a longer one.
const LONGEST_PAUSE: u64 = 300;
/// An authorization server that asks for more than this is asked again all the same.
const MAX_RETRY_AFTER: u64 = 3600;

/// Why a token is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The one that is stored may expire soon.
    Expiry,
    /// The MCP server refused this one, or a request without any.
    Refused(Option<Secret>),
}

/// What to do for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Use the one that is stored.
    Use,
    /// Request another one.
    Request,
    /// The authorization server failed a moment ago: wait.
    Wait,
    /// Only a person can help.
    SignIn,
}

/// Who signs in where a refresh cannot help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signer {
    /// A person, when asked to.
    Person,
    /// Regrow itself, with the secret of a client.
    Client,
}

/// Decides what to do, of what is stored.
pub(crate) fn decide(
    stored: Option<&Account>,
    need: &Need,
    signer: Signer,
    failures: &Failures,
    now: u64,
) -> Step {
    let request = if failures.hold_at(now) { Step::Wait } else { Step::Request };
    let sign_in = match signer {
        Signer::Person => Step::SignIn,
        Signer::Client => request,
    };
    let Some((account, tokens)) = stored.and_then(|account| Some((account, account.tokens.as_ref()?))) else {
        return sign_in;
    };
    match need {
        // Another process was faster, or somebody has signed in.
        Need::Refused(sent) if sent.as_ref() != Some(&tokens.access_token) => return Step::Use,
        Need::Expiry if !expires_soon(account, tokens, now) => return Step::Use,
        _ => {}
    }
    if account.rejected.is_some() || tokens.refresh_token.is_none() { sign_in } else { request }
}

/// Without a known end, or if the clock was set back since, only the MCP server can tell.
fn expires_soon(account: &Account, tokens: &Tokens, now: u64) -> bool {
    let Some(expires_at) = tokens.expires_at.filter(|_| now >= account.obtained_at) else { return false };
    let life = expires_at.saturating_sub(account.obtained_at);
    now.saturating_add(EARLY.min(life / 2)) >= expires_at
}

/// What became of a request for new tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// There are new ones: to be stored before they are used.
    Renewed(Account),
    /// Others are stored already.
    Replaced(Account),
    /// They are not accepted any more: to be stored, so that nobody tries again.
    Rejected(Account),
    /// The account is gone.
    Removed,
    /// Nothing was said about the tokens: they are kept.
    Failed { reason: Reason, retry_after: Option<Duration> },
}

/// Decides what a response means. `used` is the account that the request was made for, and `stored` what is stored now.
pub(crate) fn settle(
    used: &Account,
    stored: Option<Account>,
    response: Result<Tokens, TokenError>,
    now: u64,
) -> Outcome {
    let rejection = match response {
        Ok(tokens) => return Outcome::Renewed(used.with_tokens(tokens, now)),
        Err(TokenError::Temporary { reason, retry_after }) => return Outcome::Failed { reason, retry_after },
        Err(TokenError::Refused { reason }) => return Outcome::Failed { reason, retry_after: None },
        Err(TokenError::Rejected { .. }) => Rejection::RefreshToken,
        Err(TokenError::ClientRejected { .. }) => Rejection::Client,
    };
    match stored {
        None => Outcome::Removed,
        Some(stored) if stored.generation > used.generation => Outcome::Replaced(stored),
        Some(stored) => Outcome::Rejected(Account { rejected: Some(rejection), ..stored }),
    }
}

/// The failures of an authorization server since it last said anything about the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    count: u32,
    retry_at: u64,
    reason: String,
}

impl Failures {
    /// One more. The pause doubles each time.
    pub(crate) fn add(&mut self, reason: String, retry_after: Option<Duration>, now: u64) {
        let usual = 1_u64.checked_shl(self.count).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE);
        let asked = retry_after.map_or(0, |after| after.as_secs()).min(MAX_RETRY_AFTER);
        self.count = self.count.saturating_add(1);
        self.retry_at = now.saturating_add(usual.max(asked));
        self.reason = reason;
    }

    /// Whether no request may be made now. A clock that was set back does not prolong that.
    fn hold_at(&self, now: u64) -> bool {
        (1..=MAX_RETRY_AFTER).contains(&self.retry_at.saturating_sub(now))
    }

    /// Why there is no other token, as long as there is hope that a retry brings one.
    pub(crate) fn passing(&self) -> Option<&str> {
        (1..SIGN_IN_AFTER).contains(&self.count).then_some(&*self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::{account, tokens};

    fn refused(token: &str) -> Need {
        Need::Refused(Some(Secret::new(token)))
    }

    fn step(account: &Account, need: &Need, now: u64) -> Step {
        decide(Some(account), need, Signer::Person, &Failures::default(), now)
    }

    /// Of an account that was signed in at 1000, for an hour.
    #[test]
    fn tokens_are_refreshed_a_minute_before_they_expire() {
        let steps = [1000, 4539, 4540, 4600, 9999].map(|now| step(&account(), &Need::Expiry, now));
        assert_eq!(steps, [Step::Use, Step::Use, Step::Request, Step::Request, Step::Request]);
    }

    #[test]
    fn tokens_with_a_short_life_are_not_refreshed_all_the_time() {
        let short = Account { tokens: Some(tokens(1, Some(1030))), ..account() };
        let steps = [1000, 1014, 1015].map(|now| step(&short, &Need::Expiry, now));
        assert_eq!(steps, [Step::Use, Step::Use, Step::Request]);
        let endless = Account { tokens: Some(tokens(1, None)), ..account() };
        assert_eq!(step(&endless, &Need::Expiry, u64::MAX), Step::Use);
    }

    #[test]
    fn with_a_clock_that_is_wrong_the_server_decides() {
        // Set back by a quarter of an hour, and by decades: the end is not known, and a refusal counts all the same.
        for now in [100, 0] {
            assert_eq!(step(&account(), &Need::Expiry, now), Step::Use);
            assert_eq!(step(&account(), &refused("access-1"), now), Step::Request);
        }
        // Set forward: one request too many, and the next tokens are judged by the new time.
        assert_eq!(step(&account(), &Need::Expiry, 1 << 40), Step::Request);
        let next = account().with_tokens(tokens(2, Some((1 << 40) + 3600)), 1 << 40);
        assert_eq!(step(&next, &Need::Expiry, 1 << 40), Step::Use);
        // Set back after a failure: the pause does not last until the old time.
        let mut failures = Failures::default();
        failures.add("x".into(), None, 1 << 40);
        assert_eq!(
            decide(Some(&account()), &refused("access-1"), Signer::Person, &failures, 2000),
            Step::Request
        );
    }

    #[test]
    fn a_token_that_others_have_replaced_costs_no_request() {
        assert_eq!(step(&account(), &refused("access-0"), 2000), Step::Use);
        assert_eq!(step(&account(), &Need::Refused(None), 2000), Step::Use);
        assert_eq!(step(&account(), &refused("access-1"), 2000), Step::Request);
    }

    #[test]
    fn without_a_refresh_token_that_is_accepted_a_person_must_sign_in() {
        let rejected = Account { rejected: Some(Rejection::RefreshToken), ..account() };
        let mut without = account();
        without.tokens.as_mut().unwrap().refresh_token = None;
        let never = Account { tokens: None, ..account() };
        for account in [&rejected, &without, &never] {
            assert_eq!(step(account, &refused("access-1"), 2000), Step::SignIn);
        }
        let nothing =
            |signer, failures: &Failures| decide(None, &Need::Refused(None), signer, failures, 2000);
        assert_eq!(nothing(Signer::Person, &Failures::default()), Step::SignIn);
        assert_eq!(nothing(Signer::Client, &Failures::default()), Step::Request);
        let mut failures = Failures::default();
        failures.add("it failed".into(), None, 2000);
        assert_eq!(nothing(Signer::Client, &failures), Step::Wait, "a client waits after a failure as well");
        assert_eq!(nothing(Signer::Person, &failures), Step::SignIn);
        assert_eq!(step(&rejected, &Need::Expiry, 2000), Step::Use, "the access token may still be accepted");
    }

    fn rejected() -> Result<Tokens, TokenError> {
        Err(TokenError::Rejected { reason: Reason::own("invalid_grant") })
    }

    #[test]
    fn what_is_rejected_is_marked_and_the_registration_is_kept() {
        let marked = Account { rejected: Some(Rejection::RefreshToken), ..account() };
        let outcome = settle(&account(), Some(account()), rejected(), 2000);
        assert_eq!(outcome, Outcome::Rejected(marked));
        let client = Err(TokenError::ClientRejected { reason: Reason::own("invalid_client") });
        let marked = Account { rejected: Some(Rejection::Client), ..account() };
        assert_eq!(settle(&account(), Some(account()), client, 2000), Outcome::Rejected(marked));
    }

    #[test]
    fn a_newer_generation_is_adopted_when_the_old_one_is_rejected() {
        let newer = account().with_tokens(tokens(2, None), 1500);
        let outcome = settle(&account(), Some(newer.clone()), rejected(), 2000);
        assert_eq!(outcome, Outcome::Replaced(newer));
        assert_eq!(settle(&account(), None, rejected(), 2000), Outcome::Removed);
    }

    #[test]
    fn a_failure_keeps_the_tokens_and_the_third_offers_sign_in() {
        let after = Some(Duration::from_secs(7));
        let failed = Err(TokenError::Temporary { reason: Reason::own("HTTP 503"), retry_after: after });
        let outcome = settle(&account(), Some(account()), failed, 2000);
        assert_eq!(outcome, Outcome::Failed { reason: Reason::own("HTTP 503"), retry_after: after });

        let mut failures = Failures::default();
        assert_eq!(failures.passing(), None);
        let need = refused("access-1");
        let step = |failures: &Failures, now| decide(Some(&account()), &need, Signer::Person, failures, now);
        failures.add("HTTP 503".into(), after, 2000);
        assert_eq!(failures.passing(), Some("HTTP 503"));
        assert_eq!((step(&failures, 2006), step(&failures, 2007)), (Step::Wait, Step::Request));
        failures.add("HTTP 503".into(), None, 2007);
        assert_eq!((step(&failures, 2008), step(&failures, 2009)), (Step::Wait, Step::Request));
        assert!(failures.passing().is_some());
        failures.add("HTTP 503".into(), None, 2009);
        assert_eq!(failures.passing(), None, "now a person is asked");
        assert_eq!(
            (step(&failures, 2012), step(&failures, 2013)),
            (Step::Wait, Step::Request),
            "and it is retried"
        );
        (0..100).for_each(|_| failures.add("x".into(), None, 3000));
        assert_eq!((step(&failures, 3299), step(&failures, 3300)), (Step::Wait, Step::Request));
    }
}
