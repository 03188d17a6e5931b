//! What is stored of an account, for people and machines: without its secrets.

use std::time::{Duration, UNIX_EPOCH};

use regrow_auth::account::Account;
use regrow_auth::token::now;
use reqwest::Url;
use serde::Serialize;

use super::shown;

/// An account, safe to print but for its label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredAccount {
    /// The server's address.
    pub(crate) server: String,
    /// The label; empty for the only account at a server.
    pub(crate) account: String,
    /// Who issues its tokens.
    pub(crate) issuer: String,
    /// What the tokens allow.
    pub(crate) scope: Option<String>,
    /// When the access token expires, if that is known.
    pub(crate) expires_at: Option<String>,
    pub(crate) state: AccountState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccountState {
    SignedIn,
    /// The access token has expired; Regrow gets another one when it is needed.
    RefreshedOnNextUse,
    SignInNeeded,
}

impl AccountState {
    pub(crate) fn name(self) -> &'static str {
        match self {
            AccountState::SignedIn => "signed-in",
            AccountState::RefreshedOnNextUse => "refreshed-on-next-use",
            AccountState::SignInNeeded => "sign-in-needed",
        }
    }
}

impl StoredAccount {
    pub(crate) fn of(account: &Account) -> StoredAccount {
        StoredAccount {
            server: shown(&account.key),
            account: account.key.label.clone(),
            issuer: account.server.issuer.clone(),
            scope: account.tokens.as_ref().and_then(|tokens| tokens.scope.clone()),
            expires_at: expiry(account),
            state: state(account),
        }
    }

    /// In brackets: label, issuer and expiry.
    pub(crate) fn in_words(&self) -> String {
        let mut parts = vec![];
        if !self.account.is_empty() {
            parts.push(format!("account {}", self.account.escape_debug()));
        }
        parts.push(format!("issuer {}", self.issuer_host().escape_debug()));
        parts.extend(self.expires_at.iter().map(|time| format!("expiry {time}")));
        format!("({})", parts.join(", "))
    }

    /// The host of the issuer.
    pub(crate) fn issuer_host(&self) -> String {
        let url = Url::parse(&self.issuer).ok();
        url.and_then(|url| Some(url.host_str()?.to_owned())).unwrap_or_default()
    }
}

fn expiry(account: &Account) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(account.tokens.as_ref()?.expires_at?))?;
    // Dates after the year 9999 cannot be written so.
    (time < UNIX_EPOCH + Duration::from_secs(253_402_300_800))
        .then(|| humantime::format_rfc3339_seconds(time).to_string())
}

fn state(account: &Account) -> AccountState {
    let Some(tokens) = account.tokens.as_ref().filter(|_| account.rejected.is_none()) else {
        return AccountState::SignInNeeded;
    };
    let has_expired = tokens.expires_at.is_some_and(|expires_at| expires_at <= now());
    match (has_expired, tokens.refresh_token.is_some() || account.key.is_of_client()) {
        (true, false) => AccountState::SignInNeeded,
        (true, true) => AccountState::RefreshedOnNextUse,
        (false, _) => AccountState::SignedIn,
    }
}
