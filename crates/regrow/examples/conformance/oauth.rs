//! A credential that gets its token by OAuth, when a server asks for one and as it asks for it.
//!
//! Who gives tokens, which scopes they need, how we become known there: all of that is read from the refusal and from what it
//! points to, each time anew, so a server may move to another authorization server. The steps themselves (discovery, PKCE, the
//! checks of `resource` and `iss`) are those of `rmcp`; here stands when they are taken, and what is kept in between.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use regrow::transport::BoxFuture;
use regrow::transport::http::{Credential, Rejected};
use rmcp::transport::auth::{
    AuthorizationCallback, AuthorizationManager, AuthorizationMetadata, InMemoryCredentialStore,
    OAuthClientConfig, WWWAuthenticateParams,
};
use serde_json::Value;
use url::Url;

use crate::consent::{self, Reason};

/// Where the authorization server sends the user back to. Nobody listens: the answer is read on the way.
const COME_BACK: &str = "http://127.0.0.1:8976/callback";
/// The document that describes us, where the suite expects it; an authorization server may take its address for our name.
const OUR_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The credential. All its clones hold the same token.
#[derive(Clone)]
pub(crate) struct OAuth {
    server: Url,
    registered: Option<Registered>,
    held: Arc<Mutex<Held>>,
}

/// Who we are at an authorization server that knows us already.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<String>,
}

#[derive(Default)]
struct Held {
    token: Option<HeaderValue>,
    grant: Option<Grant>,
}

/// What an authorization server has given to us. It is worth nothing at another.
#[derive(Clone)]
struct Grant {
    issuer: String,
    client: OAuthClientConfig,
    /// All that we have asked for.
    scopes: Vec<String>,
    tokens: InMemoryCredentialStore,
}

impl OAuth {
    /// For the server at this address.
    pub(crate) fn new(server: Url, registered: Option<Registered>) -> OAuth {
        OAuth { server, registered, held: Arc::default() }
    }

    async fn renew(&self, rejected: &Rejected) -> Result<(), Reason> {
        let challenge = bearer(&rejected.challenges);
        let asked = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, &self.server));
        if rejected.code == 403 && !asked.is_some_and(|asked| asked.is_insufficient_scope()) {
            return Err("it is forbidden, and no scope would help".into());
        }
        let mut manager = AuthorizationManager::new(self.server.clone()).await?;
        let found = manager.resolve_metadata_from_challenge(challenge).await?;
        if !found.source.is_discovered() {
            return Err("the server does not tell who gives tokens for it".into());
        }
        manager.set_metadata(found.metadata.clone());
        let grant = self.grant(&mut manager, found.metadata, rejected.code).await?;
        let mut token = HeaderValue::try_from(format!("Bearer {}", manager.get_access_token().await?))?;
        token.set_sensitive(true);
        *self.held() = Held { token: Some(token), grant: Some(grant) };
        Ok(())
    }

    /// Gets a token, by the old grant or a new one.
    async fn grant(
        &self,
        manager: &mut AuthorizationManager,
        metadata: AuthorizationMetadata,
        code: u16,
    ) -> Result<Grant, Reason> {
        let issuer = metadata.issuer.clone().ok_or("the authorization server does not tell its name")?;
        let before = self.held().grant.clone().filter(|grant| grant.issuer == issuer);
        let wanted = manager.select_initial_scopes(&[]).await;
        let mut grant = match before {
            Some(grant) => {
                manager.set_credential_store(grant.tokens.clone());
                manager.configure_client(grant.client.clone())?;
                // Where that does not work, for whatever reason, the user is asked again.
                if code == 401 && manager.refresh_token().await.is_ok() {
                    return Ok(grant);
                }
                if code == 403 && wanted.iter().all(|scope| grant.scopes.contains(scope)) {
                    return Err("it refuses even with the scopes that it wants".into());
                }
                grant
            }
            None => {
                let client = self.client(manager, &metadata, &issuer, &wanted).await?;
                let grant = Grant { issuer, client, scopes: vec![], tokens: InMemoryCredentialStore::new() };
                manager.set_credential_store(grant.tokens.clone());
                manager.configure_client(grant.client.clone())?;
                grant
            }
        };
        // What was granted for other requests is still needed for them.
        grant.scopes.extend(wanted);
        grant.scopes.sort();
        grant.scopes.dedup();
        let page = manager.get_authorization_url(&borrowed(&grant.scopes)).await?;
        let answer = consent::give(&page, COME_BACK).await?;
        let answer = AuthorizationCallback::from_redirect_url(answer.as_str())?;
        let issuer = answer.issuer.as_deref();
        manager.exchange_code_for_token_with_issuer(&answer.code, &answer.csrf_token, issuer).await?;
        Ok(grant)
    }

    /// Who we are there: as we are known, by our document if it takes that, else as it registers us now.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        issuer: &str,
        scopes: &[String],
    ) -> Result<OAuthClientConfig, Reason> {
        if let Some(known) = self.registered.as_ref().filter(|known| known.issuer == issuer) {
            let mut client = OAuthClientConfig::new(&known.client_id, COME_BACK);
            client.client_secret = known.client_secret.clone();
            return Ok(client);
        }
        let reads_documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        if reads_documents == Some(&Value::Bool(true)) {
            return Ok(OAuthClientConfig::new(OUR_DOCUMENT, COME_BACK));
        }
        Ok(manager.register_client("regrow-conformance", COME_BACK, &borrowed(scopes)).await?)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Credential for OAuth {
    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        self.held().token.iter().map(|token| (AUTHORIZATION, token.clone())).collect()
    }

    fn refresh(&self, rejected: Rejected) -> BoxFuture<bool> {
        let oauth = self.clone();
        Box::pin(async move {
            let renewed = oauth.renew(&rejected).await;
            if let Err(reason) = &renewed {
                eprintln!("no token after HTTP {}: {reason}", rejected.code);
            }
            renewed.is_ok()
        })
    }
}

/// The challenge that a bearer token answers.
fn bearer(challenges: &[HeaderValue]) -> Option<&str> {
    let mut challenges = challenges.iter().filter_map(|challenge| challenge.to_str().ok());
    challenges.find(|challenge| challenge.to_ascii_lowercase().contains("bearer"))
}

fn borrowed(scopes: &[String]) -> Vec<&str> {
    scopes.iter().map(String::as_str).collect()
}
