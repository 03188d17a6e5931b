//! `regrow login`: signs in at a remote server and stores the account.

use regrow_auth::account::{Account, AccountKey, Rejection};
use regrow_auth::discovery::Overrides;
use regrow_auth::guarded::{Guarded, Network};
use regrow_auth::listener::CallbackHost;
use regrow_auth::login::{Flow, Options, login};
use regrow_auth::records::Secret;
use regrow_auth::registration::ClientSettings;
use regrow_auth::store::Store;
use regrow_auth::token::now;

use super::person::Terminal;
use super::{find, shown, store};
use crate::arguments::sign_in::{self, Login};
use crate::table::print;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

pub(crate) fn run(options: Login) -> u8 {
    let (store, key) = match store().and_then(|store| {
        let key = find(&store, &options.server, options.account.as_deref())?;
        Ok((store, key))
    }) {
        Ok(found) => found,
        Err(message) => return say(USAGE, &message),
    };
    let settings = match settings(&store, &key, &options) {
        Ok(settings) => settings,
        Err(message) => return say(USAGE, &message),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return say(WE_FAILED, &format!("cannot start: {error}")),
    };
    let code = match runtime.block_on(sign_in(&store, &key, settings, &options)) {
        Ok(account) => report(&account),
        Err(message) => say(SERVER_FAILED, &message),
    };
    // A thread may still wait for the terminal.
    runtime.shutdown_background();
    code
}

fn settings(store: &Store, key: &AccountKey, options: &Login) -> Result<Options, String> {
    // An account that cannot be read would not be replaced either: better to hear that before signing in.
    let before = store.read(key).map_err(|error| error.to_string())?;
    let known =
        before.as_ref().filter(|account| account.rejected != Some(Rejection::Client) && !options.fresh);
    let client_secret = match &options.client_secret_env {
        Some(name) => {
            Some(std::env::var(name).map_err(|_| format!("--client-secret-env: {name} is not set"))?)
        }
        None => None,
    };
    Ok(Options {
        overrides: Overrides { issuer: options.issuer.clone(), ..Overrides::default() },
        client: ClientSettings {
            client_id: options.client_id.clone(),
            client_secret: client_secret.map(Secret::new),
            metadata_document: None,
        },
        known: known.map(|account| account.registration.clone()),
        scope: options.scope.clone(),
        callback_host: match options.callback_host {
            sign_in::CallbackHost::Ip => CallbackHost::Loopback,
            sign_in::CallbackHost::Localhost => CallbackHost::Localhost,
        },
        callback_port: options.callback_port,
        flow: if options.device { Flow::Device } else { Flow::Browser },
        ..Options::new(key.url.clone())
    })
}

async fn sign_in(
    store: &Store,
    key: &AccountKey,
    settings: Options,
    options: &Login,
) -> Result<Account, String> {
    let network = Network { ca_file: options.ca_file.clone(), ..Network::default() };
    let http = Guarded::new(&key.url, &network).map_err(|error| error.to_string())?;
    let person = Terminal::new(!options.no_browser);
    let signed_in = login(&http, &settings, &person).await.map_err(|error| error.to_string())?;
    let stored = async {
        let locked = store.lock(key).await?;
        let before = locked.read()?;
        let account = Account::signed_in(key.clone(), signed_in, before.as_ref(), now());
        locked.write(&account)?;
        Ok::<_, regrow_auth::store::StoreError>(account)
    };
    stored.await.map_err(|error| format!("signed in, but the account cannot be stored: {error}"))
}

fn report(account: &Account) -> u8 {
    let text =
        format!("Signed in to {} through {}.\n", shown(&account.key), account.server.issuer.escape_debug());
    match print(&text) {
        Ok(()) => DONE,
        Err(error) => say(WE_FAILED, &format!("cannot write to standard output: {error}")),
    }
}

pub(super) fn say(code: u8, message: &str) -> u8 {
    eprintln!("regrow: {message}");
    code
}
