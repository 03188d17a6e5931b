//! An account, a store for it, and an authorization server in memory.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use regrow::transport::http::{Credential, Rejected};
use regrow_auth::account::{Account, AccountKey};
use regrow_auth::credential::{AccountCredential, TokenRequest};
use regrow_auth::records::{Secret, Tokens};
use regrow_auth::settings::Settings;
use regrow_auth::store::Store;
use regrow_auth::token::{Reason, TokenError};
use serde_json::json;
use tempfile::TempDir;
use url::Url;

/// What surely happens happens within this time.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const COMMAND: &str = "regrow login acme";

pub(crate) fn key() -> AccountKey {
    AccountKey::new(Url::parse("https://mcp.example/mcp").unwrap(), "")
}

pub(crate) fn tokens(number: u64) -> Tokens {
    Tokens {
        access_token: Secret::new(format!("access-{number}")),
        refresh_token: Some(Secret::new(format!("refresh-{number}"))),
        expires_at: None,
        scope: None,
    }
}

/// Generation 1, with tokens of the same number that do not expire.
pub(crate) fn account() -> Account {
    let account = json!({
        "key": key(),
        "resource": { "url": "https://mcp.example/mcp", "resource": null },
        "server": {
            "issuer": "https://issuer.example",
            "authorization_endpoint": "https://issuer.example/authorize",
            "token_endpoint": "https://issuer.example/token",
            "registration_endpoint": null,
            "revocation_endpoint": null,
            "device_authorization_endpoint": null,
            "scopes_supported": [],
            "token_auth_methods": ["none"],
            "iss_parameter_supported": true,
            "client_id_metadata_supported": false,
        },
        "registration": {
            "issuer": "https://issuer.example",
            "client_id": "regrow",
            "client_secret": "client-secret",
            "secret_expires_at": null,
            "auth_method": "none",
            "redirect_uri": null,
            "how": "dynamic",
        },
        "generation": 1,
        "tokens": tokens(1),
        "obtained_at": 0,
        "rejected": null,
    });
    serde_json::from_value(account).unwrap()
}

/// The same with tokens that have expired long ago.
pub(crate) fn expired() -> Account {
    Account { tokens: Some(Tokens { expires_at: Some(1), ..tokens(1) }), ..account() }
}

/// A store with this account.
pub(crate) async fn store(account: &Account) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("accounts"));
    write(&store, account).await;
    (folder, store)
}

pub(crate) async fn write(store: &Store, account: &Account) {
    store.lock(&key()).await.unwrap().write(account).unwrap();
}

pub(crate) fn read(store: &Store) -> Account {
    store.read(&key()).unwrap().unwrap()
}

/// An authorization server that gives out tokens with rising numbers, and hears of each refresh token.
#[derive(Clone, Default)]
pub(crate) struct Issuer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    requests: Vec<String>,
    /// What it says instead, oldest first.
    errors: Vec<TokenError>,
}

impl Issuer {
    pub(crate) fn failing(errors: impl IntoIterator<Item = TokenError>) -> Issuer {
        let issuer = Issuer::default();
        issuer.0.lock().unwrap().errors.extend(errors);
        issuer
    }

    /// The refresh tokens that were presented.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    pub(crate) fn answer(&self, account: &Account) -> Result<Tokens, TokenError> {
        let mut state = self.0.lock().unwrap();
        let shown = account.tokens.as_ref().unwrap().refresh_token.as_ref().unwrap();
        state.requests.push(shown.expose().to_owned());
        match state.errors.is_empty() {
            true => Ok(tokens(account.generation + 1)),
            false => Err(state.errors.remove(0)),
        }
    }

    pub(crate) fn request(&self) -> TokenRequest {
        let issuer = self.clone();
        Arc::new(move |account| {
            let issuer = issuer.clone();
            Box::pin(async move { issuer.answer(&account) })
        })
    }

    pub(crate) fn credential(&self, store: &Store) -> AccountCredential {
        credential(store, self.request())
    }
}

pub(crate) fn credential(store: &Store, request: TokenRequest) -> AccountCredential {
    AccountCredential::new(store.clone(), key().url, Settings::default(), request, "acme", None)
}

/// The token that a request would carry.
pub(crate) fn token(credential: &AccountCredential) -> Option<String> {
    let headers = credential.headers();
    let (name, value) = headers.first()?;
    assert_eq!((name, value.is_sensitive()), (&AUTHORIZATION, true));
    Some(value.to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned())
}

/// The server refuses what it was shown.
pub(crate) async fn refuse(credential: &AccountCredential) -> bool {
    let shown = credential.headers();
    credential.refresh(Rejected::new(shown, 401, vec![HeaderValue::from_static("Bearer")])).await
}

pub(crate) fn temporary() -> TokenError {
    TokenError::Temporary { reason: Reason::own("HTTP 503"), retry_after: None }
}

pub(crate) fn rejected() -> TokenError {
    TokenError::Rejected { reason: Reason::own("invalid_grant") }
}
