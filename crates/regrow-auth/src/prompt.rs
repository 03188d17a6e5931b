//! Sign-in that Regrow begins on its own, for a client's request: opens a browser, once for all processes.

use std::future::pending;
use std::time::Duration;

use http::HeaderValue;
use regrow::transport::http::SetupError;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use url::Url;

use crate::account::{Account, AccountKey};
use crate::authorize::CallbackError;
use crate::browser::Browser;
use crate::device::DeviceCode;
use crate::discovery::{Overrides, names_others};
use crate::guarded::{Guarded, Network};
use crate::login::{LoginError, Options, Person, SignedIn, login};
use crate::records::{RegisteredBy, Secret};
use crate::store::{Attempt, Store, StoreError};
use crate::token::{TokenError, now};

/// A client waits at most this long for a person.
pub const MAX_WAIT: Duration = Duration::from_secs(25);
/// The browser is not opened again for this long, in seconds: neither after an attempt that nobody answered, nor for tokens that the
/// server refuses although they are new.
const PAUSE: u64 = 600;
/// Regrow asks for more scopes at most this many times; after that the user must run `regrow login`.
const MAX_STEP_UPS: u32 = 3;
/// How often a client that waits looks whether somebody has signed in.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Opens a browser when only a person can help.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What opens the page.
    pub browser: Browser,
    /// What the sign-in is to be like.
    pub options: Options,
    /// How the authorization server is reached.
    pub network: Network,
    /// How long a client waits for the person.
    pub wait: Duration,
}

/// What the person is needed for.
pub(crate) struct Request {
    pub(crate) store: Store,
    pub(crate) key: AccountKey,
    /// The server's name in messages.
    pub(crate) name: String,
    /// The token that the server refused.
    pub(crate) sent: Option<Secret>,
    /// What the server said to that.
    pub(crate) challenges: Vec<HeaderValue>,
    /// The scopes that the token lacks; none if the server does not accept the token at all.
    pub(crate) scopes: Option<Vec<String>>,
    /// The server names another issuer than the one of the token.
    pub(crate) has_moved: bool,
}

/// Whether a browser is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Open,
    /// One is open already. Wait for it this long.
    Wait(Duration),
    No,
}

impl Prompt {
    /// Whether the server refuses this account's new token because it names another issuer now. Then only a sign-in there helps: a
    /// refresh would bring another token of the old issuer. An issuer that the operator set, or registered a client with, does not change.
    pub(crate) async fn has_moved(&self, account: &Account, challenges: &[HeaderValue]) -> bool {
        let Overrides { issuer, metadata_url, .. } = &self.options.overrides;
        if is_past(account.obtained_at, now())
            || account.registration.how == RegisteredBy::Configured
            || issuer.is_some()
            || metadata_url.is_some()
        {
            return false;
        }
        let Ok(http) = Guarded::new(&account.key.url, &self.network) else { return false };
        let asked = names_others(&http, &account.key.url, challenges, &account.server.issuer);
        timeout(self.wait / 5, asked).await.unwrap_or(false)
    }

    /// Opens the browser if it may be opened now, and waits for a sign-in, whichever process it ends in. The sign-in goes on when
    /// the wait is over.
    pub(crate) async fn ask(&self, request: Request) -> Result<(), StoreError> {
        let before = request.store.stamp(&request.key);
        let (store, key) = (request.store.clone(), request.key.clone());
        let deadline = Instant::now() + self.wait; // Waiting for the lock counts.
        let Some(wait) = self.begin(request).await? else { return Ok(()) };
        let until = deadline.min(Instant::now() + wait);
        while Instant::now() < until {
            sleep(LOOK_EVERY).await;
            let (store, key) = (store.clone(), key.clone());
            let looked = tokio::task::spawn_blocking(move || (store.stamp(&key), store.attempt(&key)));
            match looked.await {
                Ok((stamp, Some(Attempt { is_over: false, .. }))) if stamp == before => {}
                _ => break,
            }
        }
        Ok(())
    }

    /// How long to wait for a person; none if nobody is asked.
    async fn begin(&self, request: Request) -> Result<Option<Duration>, StoreError> {
        let locked = request.store.lock_attempt(&request.key, self.wait).await?;
        let now = now();
        let attempt = locked.read();
        // After the attempt: a sign-in stores the account before it ends one.
        let account = request.store.read(&request.key)?;
        match decide(account.as_ref(), &request, attempt, self.wait, now) {
            Decision::No => Ok(None),
            Decision::Wait(wait) => {
                tracing::info!(server = %request.name, "waiting for the sign-in that is open in a browser");
                Ok(Some(wait))
            }
            Decision::Open => {
                let attempt = Attempt { at: now, is_over: false };
                locked.write(attempt)?;
                tokio::spawn(run(self.clone(), request, account, attempt));
                Ok(Some(self.wait))
            }
        }
    }
}

fn decide(
    account: Option<&Account>,
    request: &Request,
    attempt: Option<Attempt>,
    wait: Duration,
    now: u64,
) -> Decision {
    if account.is_some_and(|account| account.access_token() != request.sent.as_ref()) {
        return Decision::No; // Somebody has signed in meanwhile.
    }
    if let Some(attempt) = attempt.filter(|attempt| !is_past(attempt.at, now)) {
        let age = Duration::from_secs(now.saturating_sub(attempt.at));
        let left = wait.checked_sub(age).filter(|left| !left.is_zero());
        return left.filter(|_| !attempt.is_over).map_or(Decision::No, Decision::Wait);
    }
    let can_help = match (account, &request.scopes) {
        (Some(account), Some(scopes)) => can_step_up(account, scopes),
        // If the server refuses new tokens, too, another sign-in would bring more of them, unless it is at another issuer. That counts
        // once in a while: a server can name another one each time.
        (Some(account), None) => {
            let may_move = account.moved_at.is_none_or(|at| is_past(at, now));
            account.tokens.is_none() || is_past(account.obtained_at, now) || request.has_moved && may_move
        }
        (None, Some(_)) => false,
        (None, None) => true,
    };
    if can_help { Decision::Open } else { Decision::No }
}

/// Whether that was longer ago than the pause. After a clock was set back, what it said before does not count.
fn is_past(at: u64, now: u64) -> bool {
    now.checked_sub(at).is_none_or(|age| age >= PAUSE)
}

/// Whether the person may be asked for these scopes: the account lacks one, nobody has refused one, and it was not asked too often.
fn can_step_up(account: &Account, scopes: &[String]) -> bool {
    let is_refused = |scope: &String| account.refused_scopes.contains(scope) && !account.has_scope(scope);
    account.step_ups < MAX_STEP_UPS
        && scopes.iter().any(|scope| !account.has_scope(scope))
        && !scopes.iter().any(is_refused)
}

/// The sign-in, in a task of its own: the person may take longer than the client waits.
async fn run(prompt: Prompt, request: Request, account: Option<Account>, attempt: Attempt) {
    let Request { store, key, name, .. } = &request;
    tracing::info!(server = %name, "opening a browser to sign in");
    let ended = match sign_in(&prompt, &request, account).await {
        Ok(signed_in) => keep(&request, signed_in).await.map_err(|error| error.to_string()),
        Err(SignInError::Login(error)) => {
            if let Some(scopes) = request.scopes.as_ref().filter(|_| is_refusal(&error))
                && let Err(error) = store.step_up(key, None, scopes).await
            {
                tracing::debug!(%error, "the refusal is not stored");
            }
            Err(error.to_string())
        }
        Err(error) => Err(error.to_string()),
    };
    match ended {
        Ok(true) => tracing::info!(server = %name, "signed in"),
        Ok(false) => {
            tracing::info!(server = %name, "the user has signed out meanwhile; the new tokens are dropped")
        }
        Err(reason) => {
            tracing::warn!(server = %name, reason, "sign-in in the browser failed");
            if let Err(error) = fail(&request, attempt).await {
                tracing::debug!(%error, "the end of the sign-in is not stored");
            }
        }
    }
}

/// Marks this attempt as failed, so that nobody waits for it, unless another one has started since.
async fn fail(request: &Request, attempt: Attempt) -> Result<(), StoreError> {
    let locked = request.store.lock_attempt(&request.key, MAX_WAIT).await?;
    match locked.read() == Some(attempt) {
        true => locked.write(Attempt { is_over: true, ..attempt }),
        false => Ok(()),
    }
}

/// Returns whether they were stored.
async fn keep(request: &Request, signed_in: SignedIn) -> Result<bool, StoreError> {
    let Request { store, key, .. } = request;
    match &request.scopes {
        Some(scopes) => store.step_up(key, Some(signed_in), scopes).await,
        None => store.sign_in(key, signed_in).await.map(|_| true),
    }
}

/// Whether the person or the authorization server refused the scopes. Other errors say nothing about them.
fn is_refusal(error: &LoginError) -> bool {
    let (LoginError::Callback(CallbackError::Denied(reason))
    | LoginError::Token(TokenError::Refused { reason })) = error
    else {
        return false;
    };
    ["access_denied", "invalid_scope"].contains(&&*reason.summary)
}

#[derive(Debug, thiserror::Error)]
enum SignInError {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("the browser cannot be started")]
    NoBrowser,
}

async fn sign_in(
    prompt: &Prompt,
    request: &Request,
    account: Option<Account>,
) -> Result<SignedIn, SignInError> {
    let http = Guarded::new(&request.key.url, &prompt.network)?;
    let granted = account.as_ref().and_then(|account| account.tokens.as_ref()?.scope.clone());
    let options = Options {
        challenges: request.challenges.clone(),
        granted: granted.filter(|_| request.scopes.is_some()),
        // More scopes are those that the server names, whatever the operator asked for at first.
        scope: prompt.options.scope.clone().filter(|_| request.scopes.is_none()),
        ..prompt.options.clone()
    };
    let options = match account.and_then(Account::into_registration) {
        Some(known) => options.known(known),
        None => options,
    };
    let person = Opener { browser: &prompt.browser, failed: Notify::new() };
    tokio::select! {
        signed_in = login(&http, &options, &person) => Ok(signed_in?),
        () = person.failed.notified() => Err(SignInError::NoBrowser),
    }
}

/// The user, whom Regrow can reach only through a browser.
struct Opener<'a> {
    browser: &'a Browser,
    failed: Notify,
}

impl Person for Opener<'_> {
    fn open(&self, url: &Url) {
        if let Err(error) = self.browser.open(url) {
            tracing::warn!(%error, "the browser cannot be started");
            self.failed.notify_one();
        }
    }

    /// A prompt never uses the device flow.
    fn enter(&self, _: &DeviceCode) {}

    async fn pasted(&self, _: Option<&CallbackError>) -> String {
        pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::{account, key};
    use crate::token::Reason;

    const SENT: &str = "access-1";

    fn request(sent: Option<&str>, scopes: Option<&str>) -> Request {
        Request {
            store: Store::at("/nonexistent"),
            key: key(),
            name: "acme".into(),
            sent: sent.map(Secret::new),
            challenges: vec![],
            scopes: scopes.map(|scopes| scopes.split(' ').map(str::to_owned).collect()),
            has_moved: false,
        }
    }

    /// For an account whose tokens were obtained at 1000.
    fn at(now: u64, attempt: Option<(u64, bool)>, sent: &str) -> Decision {
        let attempt = attempt.map(|(at, is_over)| Attempt { at, is_over });
        decide(Some(&account()), &request(Some(sent), None), attempt, MAX_WAIT, now)
    }

    #[test]
    fn the_browser_is_opened_once_in_ten_minutes() {
        assert_eq!(at(5000, None, SENT), Decision::Open);
        assert_eq!(at(5000, Some((5000, false)), SENT), Decision::Wait(MAX_WAIT));
        assert_eq!(at(5024, Some((5000, false)), SENT), Decision::Wait(Duration::from_secs(1)));
        assert_eq!(at(5025, Some((5000, false)), SENT), Decision::No, "the person does not hurry");
        assert_eq!(at(5001, Some((5000, true)), SENT), Decision::No, "nobody waits for the person");
        assert_eq!(at(5599, Some((5000, true)), SENT), Decision::No);
        assert_eq!(at(5600, Some((5000, true)), SENT), Decision::Open);
        assert_eq!(at(5600, Some((5000, false)), SENT), Decision::Open);
        assert_eq!(at(4000, Some((5000, false)), SENT), Decision::Open, "the clock was set back");
        let nobody = decide(None, &request(None, None), None, MAX_WAIT, 5000);
        assert_eq!(nobody, Decision::Open, "nobody has signed in yet");
    }

    #[test]
    fn a_sign_in_that_cannot_help_is_not_begun() {
        assert_eq!(at(5000, None, "access-0"), Decision::No, "there are other tokens");
        assert_eq!(at(5000, Some((5000, false)), "access-0"), Decision::No, "no wait for them either");
        assert_eq!(at(1599, None, SENT), Decision::No, "the server refuses new tokens");
        assert_eq!(at(1600, None, SENT), Decision::Open);
    }

    #[test]
    fn another_issuer_is_a_reason_to_sign_in_again_but_not_again_and_again() {
        let moved = Request { has_moved: true, ..request(Some(SENT), None) };
        let with = |moved_at| Account { moved_at, ..account() };
        let decide = |account: &Account, attempt, now| decide(Some(account), &moved, attempt, MAX_WAIT, now);
        assert_eq!(decide(&with(None), None, 1001), Decision::Open, "although the tokens are new");
        assert_eq!(decide(&with(Some(1000)), None, 1001), Decision::No, "the issuer changes all the time");
        assert_eq!(decide(&with(Some(400)), None, 1001), Decision::Open);
        let attempt = Some(Attempt { at: 1000, is_over: true });
        assert_eq!(decide(&with(None), attempt, 1001), Decision::No, "nobody answered");
    }

    #[test]
    fn only_a_refusal_counts_as_one() {
        let denied = |code| LoginError::Callback(CallbackError::Denied(Reason::reported(code, Some("x"))));
        let refused = |code| LoginError::Token(TokenError::Refused { reason: Reason::reported(code, None) });
        for code in ["access_denied", "invalid_scope"] {
            assert!(is_refusal(&denied(code)) && is_refusal(&refused(code)), "{code}");
        }
        for code in ["server_error", "temporarily_unavailable", "invalid_request", "interaction_required"] {
            assert!(!is_refusal(&denied(code)) && !is_refusal(&refused(code)), "{code}");
        }
        let rejected = TokenError::Rejected { reason: Reason::reported("invalid_grant", None) };
        assert!(!is_refusal(&LoginError::Token(rejected)) && !is_refusal(&LoginError::TimedOut));
    }

    #[test]
    fn more_scopes_are_asked_for_three_times_and_none_that_was_refused() {
        let with = |scope: &str| {
            let mut account = account();
            account.tokens.as_mut().unwrap().scope = Some(scope.into());
            account
        };
        let decide = |account: &Account, scopes: &str| {
            decide(Some(account), &request(Some(SENT), Some(scopes)), None, MAX_WAIT, 1001)
        };
        let first = with("read");
        assert_eq!(decide(&first, "write"), Decision::Open, "although the tokens are new");
        assert_eq!(decide(&first, "read"), Decision::No, "it has that");
        let asked = ["write".to_owned(), "admin".to_owned()];
        let second = with("read write").stepped_up(&first, &asked);
        assert_eq!((second.step_ups, decide(&second, "write")), (1, Decision::No));
        assert_eq!(decide(&second, "write admin"), Decision::No, "refused");
        assert_eq!(decide(&second, "delete"), Decision::Open);
        let fourth =
            second.clone().stepped_up(&second, &[]).stepped_up(&Account { step_ups: 2, ..second }, &[]);
        assert_eq!((fourth.step_ups, decide(&fourth, "delete")), (3, Decision::No));
        assert_eq!(super::decide(None, &request(None, Some("a")), None, MAX_WAIT, 1), Decision::No);
    }
}
