//! `regrow login`: signs in at a remote server and stores the account.

use regrow_auth::account::{Account, AccountKey};
use regrow_auth::discovery::Overrides;
use regrow_auth::guarded::{Guarded, Network};
use regrow_auth::listener::CallbackHost;
use regrow_auth::login::{Flow, Options, login};
use regrow_auth::records::Secret;
use regrow_auth::registration::ClientSettings;

use super::person::Terminal;
use super::{find, shown, store};
use crate::arguments::sign_in::{self, Login};
use crate::table::print;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

pub(crate) fn run(options: Login) -> u8 {
    let store = match store() {
        Ok(store) => store,
        Err(message) => return say(WE_FAILED, &message),
    };
    let key = match find(&store, &options.server, options.account.as_deref()) {
        Ok(key) => key,
        Err(message) => return say(USAGE, &message),
    };
    // An account that cannot be read would not be replaced either: better to hear that before signing in.
    let before = match store.read(&key) {
        Ok(before) => before,
        Err(error) => return say(WE_FAILED, &error.to_string()),
    };
    let network = Network { ca_file: options.ca_file.clone(), ..Network::default() };
    let prepared = settings(&key, before, &options).and_then(|settings| {
        let http = Guarded::new(&key.url, &network).map_err(|error| error.to_string())?;
        Ok((settings, http))
    });
    let (settings, http) = match prepared {
        Ok(prepared) => prepared,
        Err(message) => return say(USAGE, &message),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return say(WE_FAILED, &format!("cannot start: {error}")),
    };
    let code = runtime.block_on(async {
        let person = Terminal::new(!options.no_browser);
        match login(&http, &settings, &person).await {
            Ok(signed_in) => match store.sign_in(&key, signed_in).await {
                Ok(account) => report(&account),
                Err(error) => {
                    say(WE_FAILED, &format!("signed in, but the account cannot be stored: {error}"))
                }
            },
            Err(error) => say(SERVER_FAILED, &error.to_string()),
        }
    });
    // A thread may still wait for the terminal.
    runtime.shutdown_background();
    code
}

fn settings(key: &AccountKey, before: Option<Account>, options: &Login) -> Result<Options, String> {
    let client_secret = match &options.client_secret_env {
        Some(name) => {
            Some(std::env::var(name).map_err(|_| format!("--client-secret-env: {name} is not set"))?)
        }
        None => None,
    };
    let settings = Options {
        overrides: Overrides { issuer: options.issuer.clone(), ..Overrides::default() },
        client: ClientSettings {
            client_id: options.client_id.clone(),
            client_secret: client_secret.map(Secret::new),
            metadata_document: None,
        },
        scope: options.scope.clone(),
        callback_host: options.callback_host.map(|host| match host {
            sign_in::CallbackHost::Ip => CallbackHost::Loopback,
            sign_in::CallbackHost::Localhost => CallbackHost::Localhost,
        }),
        callback_port: options.callback_port,
        flow: if options.device { Flow::Device } else { Flow::Browser },
        ..Options::new(key.url.clone())
    };
    let known = before.and_then(Account::into_registration).filter(|_| !options.fresh);
    Ok(match known {
        Some(known) => settings.known(known),
        None => settings,
    })
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
