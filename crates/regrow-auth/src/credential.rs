//! An account as the credential of a server: it keeps itself fresh, and notices what other processes do to it.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use regrow::Mask;
use regrow::core::Fault;
use regrow::transport::BoxFuture;
use regrow::transport::http::{Credential, Rejected};
use regrow_protocol::text::escape;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::account::Account;
use crate::challenge;
use crate::prompt::{Prompt, Request};
use crate::records::Secret;
use crate::refresh::Need;
use crate::renewal::{NoToken, Renewal, sign_in_through};
use crate::settings::Settings;
use crate::store::{Pending, Stamp, Store, StoreError};

pub use crate::renewal::{TokenRequest, refreshes_finished, request_through};

/// How often the disk is looked at, while there are requests or a user must sign in. Otherwise never.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Who waits longer than this for a refresh wonders why.
const LONG: Duration = Duration::from_secs(5);

/// The credential of one connection. Without an account it sends nothing, until somebody has signed in.
#[derive(Clone)]
pub struct AccountCredential(Arc<Shared>);

struct Shared {
    renewal: Arc<Renewal>,
    /// The server's name in messages.
    name: String,
    /// How to sign in there, for `regrow login`.
    settings: Settings,
    /// None where no browser may be opened.
    prompt: Option<Prompt>,
    held: Mutex<Held>,
    /// The token that the server refused, or that there was none, until there is another.
    refused: watch::Sender<Option<Option<Secret>>>,
}

struct Held {
    account: Option<Account>,
    stamp: Option<Stamp>,
    looked: Instant,
    is_busy: bool,
    /// Why there was no other token when the server refused this one.
    problem: NoToken,
    /// Nobody has ever signed in there, and the server does not offer it: it wants another credential.
    offers_no_sign_in: bool,
    mask: Mask,
}

impl AccountCredential {
    /// The credential of the account at this server that the settings are about; it need not exist yet. To sign in, the user runs
    /// `regrow login NAME`. With a prompt, a browser opens for that while a client waits.
    ///
    /// An account that cannot be read is reported when a token is needed.
    pub fn new(
        store: Store,
        server: Url,
        settings: Settings,
        request: TokenRequest,
        name: &str,
        prompt: Option<Prompt>,
    ) -> AccountCredential {
        let key = settings.key(server.clone());
        let sign_in = settings.client_credentials.then(|| sign_in_through(server, settings.clone()));
        let stamp = store.stamp(&key);
        let account = store.read(&key).unwrap_or_else(|error| {
            tracing::warn!(%error, "the account cannot be used");
            None
        });
        let held = Held {
            account,
            stamp,
            looked: Instant::now(),
            is_busy: false,
            problem: NoToken::SignIn,
            offers_no_sign_in: false,
            mask: Mask::default(),
        };
        let renewal = Arc::new(Renewal::new(store, key, request, sign_in));
        let (held, refused) = (Mutex::new(held), watch::Sender::new(None));
        let name = name.to_owned();
        AccountCredential(Arc::new(Shared { renewal, name, settings, prompt, held, refused }))
    }
}

impl Credential for AccountCredential {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.0.look_if_due();
        self.0.refresh_early();
        let held = self.0.held();
        held.account.as_ref().and_then(Account::access_token).and_then(bearer).into_iter().collect()
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let shared = self.0.clone();
        Box::pin(async move {
            let sent = token_of(&rejected.headers);
            if rejected.code != 401 {
                // A refresh brings no more rights. A sign-in may have, or may now.
                shared.look_elsewhere().await;
                return shared.token() != sent || shared.step_up(&sent, rejected).await;
            }
            let has_moved = shared.has_moved(&sent, &rejected.challenges).await;
            let renewed = match has_moved {
                true => Err(NoToken::SignIn),
                false => shared.renew(Need::Refused(sent.clone())).await,
            };
            match renewed {
                Ok(account) => {
                    shared.hold(Some(account));
                    // If the server refuses this one, too, only a person can help.
                    let mut held = shared.held();
                    held.problem = NoToken::SignIn;
                    held.offers_no_sign_in = false;
                }
                Err(problem) => {
                    tracing::debug!(%problem, "there is no other token");
                    let offers_no_sign_in = sent.is_none() && !offers_sign_in(&rejected.challenges);
                    if matches!(problem, NoToken::SignIn) && !offers_no_sign_in {
                        shared.set_pending().await;
                        let Rejected { challenges, is_awaited, .. } = rejected;
                        if is_awaited && shared.ask_person(&sent, challenges, None, has_moved).await {
                            return true;
                        }
                    }
                    let mut held = shared.held();
                    held.offers_no_sign_in = offers_no_sign_in;
                    held.problem = problem;
                    drop(held);
                    shared.refused.send_replace(Some(sent.clone()));
                }
            }
            shared.token() != sent
        })
    }

    fn fault(&self, code: u16) -> Fault {
        let token = self.0.token();
        self.0.refused.send_if_modified(|refused| refused.is_none() && refused.replace(token).is_none());
        if code != 401 {
            return Fault::Unauthorized { code };
        }
        let held = self.0.held();
        match &held.problem {
            NoToken::SignIn if held.offers_no_sign_in => Fault::Unauthorized { code },
            NoToken::SignIn => {
                let command = login_command(&self.0.name);
                Fault::SignInNeeded { command, may_ask: self.0.prompt.is_some() }
            }
            NoToken::Failed(reason) => Fault::RefreshFailed { reason: reason.clone() },
            NoToken::Store(error) => match **error {
                StoreError::Damaged { .. } | StoreError::Newer { .. } => {
                    Fault::Misconfigured { reason: error.to_string() }
                }
                _ => Fault::RefreshFailed { reason: error.to_string() },
            },
        }
    }

    fn changed(&self) -> BoxFuture<()> {
        let shared = self.0.clone();
        let mut refused = shared.refused.subscribe();
        Box::pin(async move {
            loop {
                // The sender is ours, so it is there.
                let sent = refused.wait_for(Option::is_some).await.ok().and_then(|sent| sent.clone());
                tokio::time::sleep(LOOK_EVERY).await;
                shared.look_elsewhere().await;
                let need = Need::Refused(sent.clone().flatten());
                let account = shared.held().account.clone();
                // Only after a failure: a new token that the server refuses, too, would be replaced on and on.
                if shared.renewal.has_failed()
                    && shared.renewal.is_due(account.as_ref(), &need)
                    && let Ok(account) = shared.renewal.renew(need).await
                {
                    shared.hold(Some(account));
                }
                if Some(shared.token()) != sent {
                    shared.refused.send_if_modified(|now| *now == sent && now.take().is_some());
                    return;
                }
            }
        })
    }

    fn secrets(&self) -> Vec<String> {
        self.0.held().account.iter().flat_map(Account::secrets).map(str::to_owned).collect()
    }

    fn mask_later(&self, mask: Mask) {
        self.0.held().mask = mask;
    }
}

impl Shared {
    /// Looks at the disk if that was not done for a while.
    fn look_if_due(self: &Arc<Shared>) {
        let mut held = self.held();
        if held.looked.elapsed() < LOOK_EVERY {
            return;
        }
        held.looked = Instant::now();
        drop(held);
        self.look();
        if self.renewal.is_unsaved() {
            self.start(|shared| async move { shared.renewal.clone().save().await });
        }
    }

    /// Reads the account if its file has changed. One that cannot be read leaves things as they are.
    fn look(&self) {
        let stamp = self.renewal.store.stamp(&self.renewal.key);
        if stamp == self.held().stamp {
            return;
        }
        match self.renewal.current() {
            Ok(account) => self.hold(account),
            Err(error) => tracing::warn!(%error, "keeping the previous tokens"),
        }
        self.held().stamp = stamp;
    }

    /// Looks at the disk on a thread for blocking work.
    async fn look_elsewhere(self: &Arc<Shared>) {
        let shared = self.clone();
        // An error would be a panic in `look`; the account that is held then stays.
        let _ = tokio::task::spawn_blocking(move || shared.look()).await;
    }

    /// Stores which account the server's name stands for, so that `regrow login NAME` finds it. If that fails, the URL still works there.
    async fn set_pending(self: &Arc<Shared>) {
        let shared = self.clone();
        let write = move || {
            let (name, key) = (shared.name.clone(), shared.renewal.key.clone());
            let pending = Pending { name, key, settings: shared.settings.clone() };
            shared.renewal.store.set_pending(&pending)
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(write).await {
            tracing::debug!(%error, "the name of the server is not stored");
        }
    }

    /// Gets another token for requests that wait for it. If that takes long, the log says so.
    async fn renew(&self, need: Need) -> Result<Account, NoToken> {
        let mut renewed = pin!(self.renewal.renew(need));
        if let Ok(renewed) = timeout(LONG, &mut renewed).await {
            return renewed;
        }
        tracing::info!(server = %self.name, "requests wait for a refresh of the access token");
        renewed.await
    }

    /// Opens a browser for the user if the prompt allows it now, and waits. Returns whether there is another token afterwards.
    async fn ask_person(
        self: &Arc<Shared>,
        sent: &Option<Secret>,
        challenges: Vec<HeaderValue>,
        scopes: Option<Vec<String>>,
        has_moved: bool,
    ) -> bool {
        let Some(prompt) = &self.prompt else { return false };
        let request = Request {
            store: self.renewal.store.clone(),
            key: self.renewal.key.clone(),
            name: self.name.clone(),
            sent: sent.clone(),
            challenges,
            scopes,
            has_moved,
        };
        if let Err(error) = prompt.ask(request).await {
            tracing::warn!(%error, "no browser is opened to sign in");
        }
        self.look_elsewhere().await;
        self.token() != *sent
    }

    /// Whether the server refuses this token because it names another issuer now.
    async fn has_moved(&self, sent: &Option<Secret>, challenges: &[HeaderValue]) -> bool {
        let Some(prompt) = &self.prompt else { return false };
        let account = self.held().account.clone();
        match account.filter(|account| sent.is_some() && account.access_token() == sent.as_ref()) {
            Some(account) => prompt.has_moved(&account, challenges).await,
            None => false,
        }
    }

    /// The token lacks scopes that the server names: asks the user to grant them.
    async fn step_up(self: &Arc<Shared>, sent: &Option<Secret>, rejected: Rejected) -> bool {
        let challenge = challenge::bearer(&rejected.challenges);
        let Some(scope) =
            challenge.scope.filter(|_| challenge.error.as_deref() == Some("insufficient_scope"))
        else {
            return false;
        };
        let scopes = scope.split_ascii_whitespace().map(str::to_owned).collect();
        if rejected.is_awaited && self.ask_person(sent, rejected.challenges, Some(scopes), false).await {
            return true;
        }
        let scope = escape(&scope);
        tracing::warn!(server = %self.name, scope, "the server wants scopes that are not granted");
        false
    }

    fn refresh_early(self: &Arc<Shared>) {
        if self.renewal.is_due(self.held().account.as_ref(), &Need::Expiry) {
            self.start(|shared| async move {
                if let Ok(account) = shared.renewal.renew(Need::Expiry).await {
                    shared.hold(Some(account));
                }
            });
        }
    }

    /// Starts this in the background, unless something else runs there.
    fn start<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Shared>,
        work: impl FnOnce(Arc<Shared>) -> F,
    ) {
        if std::mem::replace(&mut self.held().is_busy, true) {
            return;
        }
        let (shared, work) = (self.clone(), work(self.clone()));
        tokio::spawn(async move {
            work.await;
            shared.held().is_busy = false;
        });
    }

    /// Uses this account from now on.
    fn hold(&self, account: Option<Account>) {
        let mut held = self.held();
        account.iter().flat_map(Account::secrets).for_each(|secret| held.mask.add(secret));
        held.account = account;
    }

    fn token(&self) -> Option<Secret> {
        self.held().account.as_ref().and_then(Account::access_token).cloned()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a user runs to sign in at the server of this name.
pub fn login_command(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/@".contains(letter);
    match !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain) {
        true => format!("regrow login {name}"),
        false => format!("regrow login -- '{}'", name.replace('\'', "'\\''")),
    }
}

fn offers_sign_in(challenges: &[HeaderValue]) -> bool {
    challenge::challenges(challenges).iter().any(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"))
}

fn bearer(token: &Secret) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some((AUTHORIZATION, value))
}

fn token_of(headers: &[(HeaderName, HeaderValue)]) -> Option<Secret> {
    let (_, value) = headers.iter().find(|(name, _)| name == AUTHORIZATION)?;
    value.to_str().ok()?.strip_prefix("Bearer ").map(Secret::new)
}

/// Without tokens.
impl fmt::Debug for AccountCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountCredential").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_the_command_is_one_word_for_a_shell() {
        let commands =
            ["acme", "mcp.example:8080", "my server", "it's", "-x", "$(id)", ""].map(login_command);
        assert_eq!(
            commands,
            [
                "regrow login acme",
                "regrow login mcp.example:8080",
                "regrow login -- 'my server'",
                "regrow login -- 'it'\\''s'",
                "regrow login -- '-x'",
                "regrow login -- '$(id)'",
                "regrow login -- ''",
            ]
        );
    }

    #[test]
    fn a_server_offers_sign_in_with_a_bearer_challenge() {
        let offers = |challenges: &[&'static str]| {
            let challenges: Vec<_> = challenges.iter().map(|text| HeaderValue::from_static(text)).collect();
            offers_sign_in(&challenges)
        };
        assert!(offers(&["Basic", "Bearer"]) && offers(&["Basic realm=x, bearer resource_metadata=\"y\""]));
        assert!(!offers(&[]) && !offers(&["Basic realm=x"]) && !offers(&["Bearers", "Basic realm=bearer"]));
    }
}
