//! Accounts at remote servers: the credential that connections use, and the commands about accounts.

mod list;
mod login;
mod logout;
pub(crate) mod no_account;
mod person;
pub(crate) mod stored;

pub(crate) use list::run as list;
pub(crate) use login::run as login;
pub(crate) use logout::run as logout;

use std::sync::Arc;
use std::time::Duration;

use regrow::core::Fault;
use regrow::transport::http::{Credential, Http};
use regrow_auth::account::{Account, AccountKey};
use regrow_auth::credential::{AccountCredential, login_command, refreshes_finished, request_through};
use regrow_auth::prompt::Prompt;
use regrow_auth::settings::Settings;
use regrow_auth::store::Store;
use regrow_gateway::config::{Reach, ServerConfig, same_account};
use reqwest::Url;
use tokio::time::timeout;

use crate::table::printable;
use stored::StoredAccount;

/// How long Regrow goes on for a refresh when it ends. Hosts wait a few seconds before they kill it.
const LAST_REFRESH: Duration = Duration::from_secs(5);

/// The account at this server, for the server of this name in messages. None where accounts cannot be stored, or for a URL that contains
/// a user.
pub(crate) fn credential(
    url: Url,
    name: &str,
    settings: Settings,
    prompt: Option<Prompt>,
) -> Option<Arc<dyn Credential>> {
    if has_user(&url) {
        return None;
    }
    let request = request_through(url.clone(), settings.network());
    Some(Arc::new(AccountCredential::new(Store::of_user()?, url, settings, request, name, prompt)))
}

/// The same for a server of a configuration, unless that names another credential. It never opens a browser: several clients may use it.
pub(crate) fn of_server(server: &ServerConfig) -> Option<Arc<dyn Credential>> {
    let (url, settings) = configured(server)?;
    if server.has_credential() {
        return None;
    }
    match &server.account_is_of {
        Some(other) => Some(no_account::new(Fault::Misconfigured { reason: sign_in_conflict(other) })),
        None => credential(url, &server.name, settings, None),
    }
}

/// What to do about a server that requires sign-in, and whose account this other one uses.
pub(crate) fn sign_in_conflict(other: &str) -> String {
    format!("the server requires sign-in; {}", same_account(other))
}

/// How to sign in to a server of a configuration, if it is remote.
pub(crate) fn configured(server: &ServerConfig) -> Option<(Url, Settings)> {
    let Reach::Remote(remote) = &server.reach else { return None };
    let sign_in = server.options.sign_in.clone();
    let settings = Settings {
        account: sign_in.account,
        issuer: sign_in.issuer,
        auth_server_metadata_url: sign_in.auth_server_metadata_url.and_then(|url| Url::parse(&url).ok()),
        authorize_params: sign_in.authorize_params,
        no_resource: sign_in.no_resource,
        private_hosts: sign_in.private_hosts,
        client_id: sign_in.client_id,
        client_secret_env: sign_in.client_secret_env,
        client_metadata_url: sign_in.client_metadata_url.and_then(|url| Url::parse(&url).ok()),
        scope: sign_in.scopes,
        callback_port: sign_in.callback_port,
        client_credentials: sign_in.client_credentials,
        ca_file: server.options.ca_file.clone(),
    };
    Some((Url::parse(remote.url.reveal()).ok()?, settings))
}

/// What is stored of the account at this server. One that cannot be read is none.
pub(crate) fn stored(key: &AccountKey) -> Option<Account> {
    Store::of_user()?.read(key).ok()?
}

/// The same for people, for a server of a configuration.
pub(crate) fn stored_of(server: &ServerConfig) -> Option<StoredAccount> {
    let (url, settings) = configured(server)?;
    stored(&settings.key(url)).as_ref().map(StoredAccount::of)
}

/// How to sign in at the server of this name that waits for it: its account, and the command. None if no such server is known here.
pub(crate) fn sign_in_of(name: &str) -> Option<String> {
    let (url, settings) = find(&store().ok()?, name, None, &Settings::default()).ok()?;
    let account =
        stored(&settings.key(url)).map(|account| format!(" {}", StoredAccount::of(&account).in_words()));
    Some(format!("{}; sign in: {}", account.unwrap_or_default(), login_command(name)))
}

/// Before Regrow ends: a refresh in flight is stored, because the authorization server may have given up the old tokens for it.
pub(crate) async fn finish_refreshes() {
    if timeout(LAST_REFRESH, refreshes_finished()).await.is_err() {
        tracing::warn!("ended during a refresh; the next one may need a sign-in");
    }
}

/// Whether a header of this name is a credential.
pub(crate) fn authorizes(header: &str) -> bool {
    header.trim().eq_ignore_ascii_case("authorization")
}

/// That is sent as Basic authorization.
pub(crate) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The server that `regrow login NAME|URL --account LABEL` is about, and how to sign in there as far as that is known. What the command says
/// tells which account it is at a URL. The error says what to do.
fn find(
    store: &Store,
    server: &str,
    label: Option<&str>,
    said: &Settings,
) -> Result<(Url, Settings), String> {
    if server.contains("://") {
        Http::new(server).map_err(|error| error.to_string())?;
        let url = Url::parse(server).map_err(|error| error.to_string())?;
        if has_user(&url) {
            return Err("the URL contains a user: Regrow sends that instead of an account".into());
        }
        let key = said.key(url.clone());
        // It may have asked for sign-in with settings of its own.
        let asked = store.pending().into_iter().find(|pending| pending.key == key);
        let plain = Settings { account: said.account.clone(), ..Settings::default() };
        return Ok((url, asked.map_or(plain, |pending| pending.settings)));
    }
    let has_label = |key: &AccountKey| label.is_none_or(|label| key.label == label);
    let mut pending = store.pending();
    pending.retain(|pending| pending.name == server && has_label(&pending.key));
    match &pending[..] {
        [pending] => Ok((pending.key.url.clone(), pending.settings.clone())),
        [] => Err(format!("no server named {server:?} has asked for sign-in; pass its URL")),
        several => {
            let choices: Vec<String> = several.iter().map(|pending| choice(&pending.key)).collect();
            Err(format!("{server:?} is not unique; pass one of: {}", choices.join(", ")))
        }
    }
}

/// What names this account on a command line.
fn choice(key: &AccountKey) -> String {
    match key.label.is_empty() {
        true => shown(key),
        false => format!("--account {} {}", printable(&key.label), shown(key)),
    }
}

/// The server's address without what may be secret in it.
pub(crate) fn shown(key: &AccountKey) -> String {
    Http::at(key.url.clone()).map_or_else(|error| error.to_string(), |http| http.address())
}

fn store() -> Result<Store, String> {
    Store::of_user().ok_or_else(|| "there is no folder for accounts: set HOME".into())
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
