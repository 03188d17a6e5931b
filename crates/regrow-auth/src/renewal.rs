//! Gets other tokens for an account: one process at a time, and stored before they are used.

use std::future::pending;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regrow::transport::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Duration, timeout};
use url::Url;

use crate::account::{Account, AccountKey};
use crate::authorize::CallbackError;
use crate::device::DeviceCode;
use crate::guarded::{Guarded, Network};
use crate::login::{LoginError, Person, SignedIn, login};
use crate::records::Tokens;
use crate::refresh::{Failures, Need, Outcome, Signer, Step, decide, settle};
use crate::settings::Settings;
use crate::store::{HELD_AT_MOST, Locked, Store, StoreError};
use crate::token::{self, Reason, TokenError, now};

/// Requests new tokens from the authorization server of an account.
pub type TokenRequest = Arc<dyn Fn(Account) -> BoxFuture<Result<Tokens, TokenError>> + Send + Sync>;

/// The usual request: to the token endpoint, as the sign-in at this MCP server. The client for it is made when it is needed.
pub fn request_through(server: Url, network: Network) -> TokenRequest {
    Arc::new(move |account| {
        let http = Guarded::new(&server, &network);
        Box::pin(async move {
            let http =
                http.map_err(|error| TokenError::Refused { reason: Reason::own(error.to_string()) })?;
            let Account { resource, server, registration, tokens, .. } = &account;
            let Some(tokens) = tokens else {
                return Err(TokenError::Rejected { reason: Reason::own("there is no refresh token") });
            };
            token::refresh(&http, server, registration, tokens, resource.resource.as_deref()).await
        })
    })
}

/// Signs in without a person, with the secret of a client.
pub(crate) type ClientSignIn = Arc<dyn Fn() -> BoxFuture<Result<SignedIn, TokenError>> + Send + Sync>;

/// The usual one, as the settings say.
pub(crate) fn sign_in_through(server: Url, settings: Settings) -> ClientSignIn {
    Arc::new(move || {
        let (server, settings) = (server.clone(), settings.clone());
        Box::pin(async move {
            let failed = |details: String| TokenError::Refused {
                reason: Reason { summary: "no token for the client".into(), details: Some(details) },
            };
            let options = settings.options(server.clone()).map_err(|error| failed(error.to_string()))?;
            let http =
                Guarded::new(&server, &settings.network()).map_err(|error| failed(error.to_string()))?;
            match login(&http, &options, &Nobody).await {
                Ok(signed_in) => Ok(signed_in),
                Err(LoginError::Token(error)) => Err(error),
                Err(error) => Err(failed(error.to_string())),
            }
        })
    })
}

/// A client signs in without a person.
struct Nobody;

impl Person for Nobody {
    fn open(&self, _: &Url) {}

    fn enter(&self, _: &DeviceCode) {}

    async fn pasted(&self, _: Option<&CallbackError>) -> String {
        pending().await
    }
}

/// How many requests for tokens this process has in flight. Their responses are lost if it ends.
static IN_FLIGHT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Resolves when no refresh of this process is in flight. A process waits for this before it ends, for a bounded time.
pub async fn refreshes_finished() {
    // The sender is never dropped, so this does not fail.
    let _ = IN_FLIGHT.subscribe().wait_for(|count| *count == 0).await;
}

/// One refresh, until it is stored or given up.
struct InFlight;

impl InFlight {
    fn begin() -> InFlight {
        IN_FLIGHT.send_modify(|count| *count += 1);
        InFlight
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        IN_FLIGHT.send_modify(|count| *count -= 1);
    }
}

/// The rest of the time that the lock may be held is for the disk.
const REQUEST_TIMEOUT: Duration = HELD_AT_MOST.saturating_sub(Duration::from_secs(5));

/// One account, and how it gets its tokens.
pub(crate) struct Renewal {
    pub(crate) store: Store,
    pub(crate) key: AccountKey,
    request: TokenRequest,
    /// Where a client signs in, and no person.
    sign_in: Option<ClientSignIn>,
    failures: Mutex<Failures>,
    /// Tokens that could not be stored. They exist nowhere else.
    unsaved: Mutex<Option<Account>>,
}

/// Why there is no other token.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoToken {
    /// Only a person can help.
    #[error("sign-in is needed")]
    SignIn,
    /// The authorization server failed.
    #[error("{0}")]
    Failed(String),
    /// The store failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for NoToken {
    fn from(error: StoreError) -> NoToken {
        NoToken::Store(Arc::new(error))
    }
}

impl Renewal {
    pub(crate) fn new(
        store: Store,
        key: AccountKey,
        request: TokenRequest,
        sign_in: Option<ClientSignIn>,
    ) -> Renewal {
        Renewal { store, key, request, sign_in, failures: Mutex::default(), unsaved: Mutex::default() }
    }

    /// The account with tokens to use instead. Goes on if the caller leaves: what the authorization server sends must be stored.
    pub(crate) async fn renew(self: &Arc<Renewal>, need: Need) -> Result<Account, NoToken> {
        let renewal = self.clone();
        let renewed = tokio::spawn(async move { renewal.run(need).await });
        renewed.await.unwrap_or_else(|error| Err(NoToken::Failed(error.to_string())))
    }

    /// Whether a request would be made now.
    pub(crate) fn is_due(&self, account: Option<&Account>, need: &Need) -> bool {
        self.step(account, need) == Step::Request
    }

    fn step(&self, account: Option<&Account>, need: &Need) -> Step {
        let signer = if self.sign_in.is_some() { Signer::Client } else { Signer::Person };
        decide(account, need, signer, &lock(&self.failures), now())
    }

    /// Whether the authorization server failed when it was last asked.
    pub(crate) fn has_failed(&self) -> bool {
        *lock(&self.failures) != Failures::default()
    }

    /// Whether there are tokens that must still be stored.
    pub(crate) fn is_unsaved(&self) -> bool {
        lock(&self.unsaved).is_some()
    }

    /// What is stored, or what should be. Reads a file.
    pub(crate) fn current(&self) -> Result<Option<Account>, StoreError> {
        self.newest(self.store.read(&self.key)?)
    }

    fn newest(&self, stored: Option<Account>) -> Result<Option<Account>, StoreError> {
        let mut unsaved = lock(&self.unsaved);
        let generation = |account: &Option<Account>| account.as_ref().map_or(0, |account| account.generation);
        if generation(&unsaved) <= generation(&stored) {
            *unsaved = None; // Somebody has signed in since.
        }
        Ok(unsaved.clone().or(stored))
    }

    async fn run(self: Arc<Renewal>, need: Need) -> Result<Account, NoToken> {
        let this = self.clone();
        let current = blocking(move || this.current()).await?;
        // Nothing is locked for tokens that are there already: the store may be read-only.
        if let Some(found) = self.found(current, &need)? {
            return Ok(found);
        }
        let locked = self.store.lock(&self.key).await?;
        let this = self.clone();
        let (locked, current) = blocking(move || {
            let current = this.newest(locked.read()?)?;
            Ok((locked, current))
        })
        .await?;
        match (self.found(current.clone(), &need)?, &self.sign_in) {
            (Some(found), _) => Ok(found),
            (None, Some(sign_in)) => self.sign_in(sign_in, locked, current).await,
            (None, None) => self.request(locked, current.ok_or(NoToken::SignIn)?).await,
        }
    }

    /// Tokens that can be used without a request; none if there must be one.
    fn found(&self, account: Option<Account>, need: &Need) -> Result<Option<Account>, NoToken> {
        match self.step(account.as_ref(), need) {
            Step::Use => {
                *lock(&self.failures) = Failures::default();
                Ok(account)
            }
            Step::Request => Ok(None),
            Step::Wait => Err(self.failed()),
            Step::SignIn => Err(NoToken::SignIn),
        }
    }

    fn failed(&self) -> NoToken {
        match lock(&self.failures).passing() {
            Some(reason) => NoToken::Failed(reason.to_owned()),
            None => NoToken::SignIn,
        }
    }

    async fn request(self: &Arc<Renewal>, locked: Locked, used: Account) -> Result<Account, NoToken> {
        let _in_flight = InFlight::begin();
        let draft = blocking(move || locked.reserve()).await?;
        tracing::debug!(
            issuer = used.server.issuer,
            generation = used.generation,
            "refreshing the access token"
        );
        let response = timeout(REQUEST_TIMEOUT, (self.request)(used.clone())).await;
        let late = || TokenError::Temporary { reason: Reason::own("timed out"), retry_after: None };
        let response = response.unwrap_or_else(|_| Err(late()));
        let stored = match &response {
            Ok(_) => None,
            Err(_) => draft.read()?,
        };
        let outcome = settle(&used, stored, response, now());
        if !matches!(outcome, Outcome::Failed { .. }) {
            *lock(&self.failures) = Failures::default();
        }
        match outcome {
            Outcome::Renewed(account) => {
                let renewed = account.clone();
                if let Err(error) = blocking(move || draft.commit(&account)).await {
                    tracing::error!(%error, "new tokens cannot be stored; Regrow keeps them in memory and tries again");
                    *lock(&self.unsaved) = Some(renewed.clone());
                }
                Ok(renewed)
            }
            Outcome::Replaced(account) => Ok(account),
            Outcome::Rejected(account) => {
                blocking(move || draft.commit(&account)).await?;
                Err(NoToken::SignIn)
            }
            Outcome::Removed => Err(NoToken::SignIn),
            Outcome::Failed { reason, retry_after } => {
                tracing::warn!(issuer = used.server.issuer, %reason, "the access token was not refreshed");
                // The details must not reach a model.
                lock(&self.failures).add(reason.summary, retry_after, now());
                Err(self.failed())
            }
        }
    }

    /// Asks for tokens again: a client needs no refresh token.
    async fn sign_in(
        &self,
        sign_in: &ClientSignIn,
        locked: Locked,
        before: Option<Account>,
    ) -> Result<Account, NoToken> {
        let _in_flight = InFlight::begin();
        let draft = blocking(move || locked.reserve()).await?;
        let late = || TokenError::Temporary { reason: Reason::own("timed out"), retry_after: None };
        let (reason, retry_after) =
            match timeout(REQUEST_TIMEOUT, sign_in()).await.unwrap_or_else(|_| Err(late())) {
                Ok(signed_in) => {
                    *lock(&self.failures) = Failures::default();
                    let account = Account::signed_in(self.key.clone(), signed_in, before.as_ref(), now());
                    let stored = account.clone();
                    blocking(move || draft.commit(&stored)).await?;
                    return Ok(account);
                }
                Err(TokenError::Temporary { reason, retry_after }) => (reason, retry_after),
                Err(
                    TokenError::Rejected { reason }
                    | TokenError::ClientRejected { reason }
                    | TokenError::Refused { reason },
                ) => (reason, None),
            };
        tracing::warn!(%reason, "the client got no token");
        lock(&self.failures).add(reason.summary, retry_after, now());
        Err(self.failed())
    }

    /// Stores tokens that could not be stored before.
    pub(crate) async fn save(self: Arc<Renewal>) {
        let saved = async {
            let locked = self.store.lock(&self.key).await?;
            let this = self.clone();
            blocking(move || {
                this.newest(locked.read()?)?;
                let unsaved = lock(&this.unsaved).clone();
                unsaved.map_or(Ok(()), |account| locked.write(&account))?;
                *lock(&this.unsaved) = None;
                Ok(())
            })
            .await
        };
        if let Err(error) = saved.await {
            tracing::debug!(%error, "new tokens still cannot be stored");
        }
    }
}

/// Off the threads that others wait for: disks can be slow.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(StoreError::Io { path: "accounts".into(), error: std::io::Error::other(error) }),
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
