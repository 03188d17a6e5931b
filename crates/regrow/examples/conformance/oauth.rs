//! A credential that gets its token by OAuth, when a server asks for one and as it asks for it. It keeps the account in memory.
//!
//! Who gives tokens, which scopes they need, how we become known there: all of that is read from the refusal and from what it
//! points to, each time again, so a server may move to another authorization server.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use regrow::transport::BoxFuture;
use regrow::transport::http::{Credential, Rejected};
use regrow_auth::challenge::bearer;
use regrow_auth::discovery::{Overrides, discover};
use regrow_auth::guarded::{Guarded, Network};
use regrow_auth::login::{Options, SignedIn, login};
use regrow_auth::records::Secret;
use regrow_auth::registration::ClientSettings;
use regrow_auth::token::refresh;
use url::Url;

use crate::consent::Consent;

/// The document that describes us, where the suite expects it; an authorization server may take its address for our name.
pub(crate) const OUR_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// Nobody has to think about it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The credential. All its clones hold the same account.
#[derive(Clone)]
pub(crate) struct OAuth {
    server: Url,
    registered: Option<Registered>,
    account: Arc<Mutex<Option<SignedIn>>>,
    /// One renewal at a time: a refresh token may work only once.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Who we are at an authorization server that knows us already.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
}

impl OAuth {
    /// For the server at this address.
    pub(crate) fn new(server: Url, registered: Option<Registered>) -> OAuth {
        OAuth { server, registered, account: Arc::default(), turn: Arc::default() }
    }

    async fn renew(&self, rejected: Rejected) -> Result<(), Box<dyn Error + Send + Sync>> {
        let challenge = bearer(&rejected.challenges);
        let http = Guarded::new(&self.server, &Network::default())?;
        let before = self.account().clone();
        if rejected.code == 403 {
            let granted = before.as_ref().and_then(|account| account.tokens.scope.as_deref());
            let is_granted =
                |scope: &str| granted.is_some_and(|granted| granted.split(' ').any(|one| one == scope));
            if challenge.error.as_deref() != Some("insufficient_scope") {
                return Err("it is forbidden, and no scope would help".into());
            }
            if challenge.scope.as_deref().is_some_and(|scope| scope.split(' ').all(is_granted)) {
                return Err("it refuses even with the scopes that it wants".into());
            }
        }
        let options = self.options(&rejected, before.as_ref())?;
        if rejected.code == 401
            && let Some(before) = before.filter(|account| account.tokens.refresh_token.is_some())
        {
            let found = discover(&http, &self.server, &rejected.challenges, &options.overrides).await?;
            let resource = found.resource.resource.as_deref();
            let renewed = refresh(&http, &found.server, &before.registration, &before.tokens, resource).await;
            // Where that does not work, for whatever reason, the user is asked again.
            if let Ok(tokens) = renewed {
                *self.account() = Some(SignedIn { tokens, ..before });
                return Ok(());
            }
        }
        let account = login(&http, &options, &Consent).await?;
        *self.account() = Some(account);
        Ok(())
    }

    fn options(&self, rejected: &Rejected, before: Option<&SignedIn>) -> Result<Options, url::ParseError> {
        let (issuer, client_id, client_secret) = match &self.registered {
            Some(known) => {
                let secret = known.client_secret.as_ref().map(Secret::new);
                (Some(known.issuer.clone()), Some(known.client_id.clone()), secret)
            }
            None => (None, None, None),
        };
        let metadata_document = Some(Url::parse(OUR_DOCUMENT)?);
        Ok(Options {
            challenges: rejected.challenges.clone(),
            overrides: Overrides { issuer, ..Overrides::default() },
            client: ClientSettings { client_id, client_secret, metadata_document },
            known: before.map(|account| account.registration.clone()),
            granted: before.and_then(|account| account.tokens.scope.clone()),
            patience: PATIENCE,
            ..Options::new(self.server.clone())
        })
    }

    fn account(&self) -> MutexGuard<'_, Option<SignedIn>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credential for OAuth {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let token = self.account().as_ref().map(|account| account.tokens.access_token.clone());
        let value = token.and_then(|token| HeaderValue::try_from(format!("Bearer {}", token.expose())).ok());
        value
            .into_iter()
            .map(|mut value| {
                value.set_sensitive(true);
                (AUTHORIZATION, value)
            })
            .collect()
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let oauth = self.clone();
        Box::pin(async move {
            let _turn = oauth.turn.lock().await;
            if oauth.headers() != rejected.headers {
                return true; // The one before has brought another token.
            }
            let code = rejected.code;
            let renewed = oauth.renew(rejected).await;
            if let Err(reason) = &renewed {
                eprintln!("no token after HTTP {code}: {reason}");
            }
            renewed.is_ok()
        })
    }
}
