//! `regrow logout`: ends the tokens of accounts and removes them.

use std::path::PathBuf;
use std::time::Duration;

use regrow_auth::account::{Account, AccountKey};
use regrow_auth::guarded::{Guarded, Network};
use regrow_auth::revoke::{Revoked, revoke};
use regrow_auth::settings::Settings;
use regrow_auth::store::{HELD_AT_MOST, Store, StoreError};
use tokio::time::timeout;

use super::login::say;
use super::{find, shown, store};
use crate::arguments::sign_in::Logout;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

/// The rest of the time that the lock may be held is for the disk.
const REVOKED_WITHIN: Duration = HELD_AT_MOST.saturating_sub(Duration::from_secs(5));

pub(crate) fn run(options: Logout) -> u8 {
    let store = match store() {
        Ok(store) => store,
        Err(message) => return say(WE_FAILED, &message),
    };
    let mut code = DONE;
    let keys = match &options.server {
        Some(server) => {
            let label = options.account.as_deref();
            let said = Settings { account: label.unwrap_or_default().to_owned(), ..Settings::default() };
            match find(&store, server, label, &said) {
                Ok((url, settings)) if server.contains("://") => all_at(&store, settings.key(url)),
                Ok((url, settings)) => vec![settings.key(url)],
                Err(message) => return say(USAGE, &message),
            }
        }
        None => match store.list() {
            Ok(accounts) => {
                let mut keys = vec![];
                for account in accounts {
                    match account {
                        Ok(account) => keys.push(account.key),
                        Err(error) => code = say(WE_FAILED, &error.to_string()),
                    }
                }
                keys
            }
            Err(error) => return say(WE_FAILED, &error.to_string()),
        },
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return say(WE_FAILED, &format!("cannot start: {error}")),
    };
    for key in keys {
        match runtime.block_on(sign_out(&store, &key, options.ca_file.clone())) {
            Ok(ended) => code = code.max(ended),
            Err(error) => code = say(WE_FAILED, &error.to_string()),
        }
    }
    code
}

/// The accounts with this label at this server, whatever the parameters are that they have in addition.
fn all_at(store: &Store, key: AccountKey) -> Vec<AccountKey> {
    let listed = store.list().unwrap_or_default(); // What cannot be read is reported when this account is.
    let keys = listed.into_iter().flatten().map(|account| account.key);
    let found: Vec<AccountKey> =
        keys.filter(|other| other.url == key.url && other.label == key.label).collect();
    if found.is_empty() { vec![key] } else { found }
}

async fn sign_out(store: &Store, key: &AccountKey, ca_file: Option<PathBuf>) -> Result<u8, StoreError> {
    let locked = store.lock(key).await?;
    let account = match locked.read() {
        Ok(Some(account)) => account,
        Ok(None) => return Ok(say(SERVER_FAILED, &format!("there is no account at {}", shown(key)))),
        Err(StoreError::Damaged { .. }) => {
            locked.remove()?;
            return Ok(say(
                DONE,
                &format!(
                    "removed the account at {}; its tokens are valid until they expire, since its file was damaged",
                    shown(key)
                ),
            ));
        }
        Err(error) => return Err(error),
    };
    // The tokens first: once the account is gone, nobody can end them.
    let revoked = end_tokens(&account, ca_file).await;
    locked.remove()?;
    let server = shown(key);
    Ok(match revoked {
        Ok(Revoked::Done) => say(DONE, &format!("signed out of {server}")),
        Ok(Revoked::NotSupported) => say(
            DONE,
            &format!(
                "removed the account at {server}; its authorization server cannot end tokens, so they are valid until they expire"
            ),
        ),
        Err(reason) => say(
            SERVER_FAILED,
            &format!("removed the account at {server}, but its tokens are valid until they expire: {reason}"),
        ),
    })
}

async fn end_tokens(account: &Account, ca_file: Option<PathBuf>) -> Result<Revoked, String> {
    let Some(tokens) = &account.tokens else { return Ok(Revoked::Done) };
    let network = Network { ca_file, ..Network::default() };
    let http = Guarded::new(&account.key.url, &network).map_err(|error| error.to_string())?;
    let revoked = revoke(&http, &account.server, &account.registration, tokens);
    match timeout(REVOKED_WITHIN, revoked).await {
        Ok(revoked) => revoked.map_err(|error| error.to_string()),
        Err(_) => Err("the authorization server timed out".into()),
    }
}
