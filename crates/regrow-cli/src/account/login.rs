//! `regrow login`: signs in at a remote server and stores the account.

use regrow_auth::account::{Account, AccountKey};
use regrow_auth::guarded::Guarded;
use regrow_auth::listener::CallbackHost;
use regrow_auth::login::{Flow, Options, login};
use regrow_auth::settings::Settings;
use reqwest::Url;

use super::person::Terminal;
use super::{configured, find, shown, store};
use crate::arguments::sign_in::{self as arguments, Login};
use crate::files::Files;
use crate::table::print;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED};

pub(crate) fn run(options: Login) -> u8 {
    let store = match store() {
        Ok(store) => store,
        Err(message) => return say(WE_FAILED, &message),
    };
    let said = options.client.settings(options.account.clone().unwrap_or_default(), options.ca_file.clone());
    let found = find(&store, &options.server, options.account.as_deref(), &said);
    let found = found.or_else(|message| find_configured(&options)?.ok_or(message));
    let (url, settings) = match found {
        Ok((url, known)) => (url, merged(known, said)),
        Err(message) => return say(USAGE, &message),
    };
    let key = settings.key(url);
    // An account that cannot be read would not be replaced either: better to hear that before signing in.
    let before = match store.read(&key) {
        Ok(before) => before,
        Err(error) => return say(WE_FAILED, &error.to_string()),
    };
    let prepared = sign_in(&key, &settings, before, &options).and_then(|sign_in| {
        let http = Guarded::new(&key.url, &settings.network()).map_err(|error| error.to_string())?;
        Ok((sign_in, http))
    });
    let (sign_in, http) = match prepared {
        Ok(prepared) => prepared,
        Err(message) => return say(USAGE, &message),
    };
    let runtime = match super::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return say(WE_FAILED, &format!("cannot start: {error}")),
    };
    let code = runtime.block_on(async {
        let person = Terminal::new(!options.no_browser);
        match login(&http, &sign_in, &person).await {
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

/// The server of this name in the configuration that `regrow check` would read: nobody has to wait until it asks for sign-in. One that came
/// with a folder is used only if it is trusted, because it decides where secrets go.
fn find_configured(options: &Login) -> Result<Option<(Url, Settings)>, String> {
    if options.server.contains("://") {
        return Ok(None);
    }
    let Some(files) = Files::find([]) else { return Ok(None) };
    let config = files.read_or_ask(true).map_err(|unusable| unusable.problems().brief())?;
    let server = config.servers.iter().find(|server| server.name == options.server);
    let Some((url, mut settings)) = server.and_then(configured) else { return Ok(None) };
    settings.account = options.account.clone().unwrap_or(settings.account);
    Ok(Some((url, settings)))
}

/// What is known of the server, and over it what this command says.
fn merged(known: Settings, said: Settings) -> Settings {
    // Another client has another secret.
    let secret = known.client_secret_env.filter(|_| said.client_id.is_none());
    let mut authorize_params = known.authorize_params;
    authorize_params.extend(said.authorize_params);
    Settings {
        account: known.account,
        issuer: said.issuer.or(known.issuer),
        auth_server_metadata_url: said.auth_server_metadata_url.or(known.auth_server_metadata_url),
        authorize_params,
        no_resource: said.no_resource || known.no_resource,
        private_hosts: [known.private_hosts, said.private_hosts].concat(),
        client_id: said.client_id.or(known.client_id),
        client_secret_env: said.client_secret_env.or(secret),
        client_metadata_url: said.client_metadata_url.or(known.client_metadata_url),
        scope: said.scope.or(known.scope),
        callback_port: said.callback_port.or(known.callback_port),
        client_credentials: said.client_credentials || known.client_credentials,
        ca_file: said.ca_file.or(known.ca_file),
    }
}

fn sign_in(
    key: &AccountKey,
    settings: &Settings,
    before: Option<Account>,
    options: &Login,
) -> Result<Options, String> {
    let sign_in = settings.options(key.url.clone()).map_err(|error| error.to_string())?;
    let sign_in = Options {
        callback_host: options.callback_host.map(|host| match host {
            arguments::CallbackHost::Ip => CallbackHost::Loopback,
            arguments::CallbackHost::Localhost => CallbackHost::Localhost,
        }),
        flow: if options.device { Flow::Device } else { sign_in.flow },
        ..sign_in
    };
    let known = before.and_then(Account::into_registration).filter(|_| !options.fresh);
    Ok(match known {
        Some(known) => sign_in.known(known),
        None => sign_in,
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
