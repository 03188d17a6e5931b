//! A server that we reach by its URL.

use std::sync::Arc;

use regrow::transport::http::{BearerEnv, Credential, HeaderFile, Headers, Http, HttpClient, Limits};
use regrow::{Bridge, EraFile, Port};

use regrow_auth::browser::Browser;
use regrow_auth::guarded::Network;
use regrow_auth::login::{Flow, Options};
use regrow_auth::prompt::{MAX_WAIT, Prompt};
use reqwest::Url;

use super::Connected;
use crate::account;
use crate::arguments::sign_in::SignIn;
use crate::arguments::{self, RemoteArguments, Wrap};

/// A server's address, and how we reach it.
pub(super) struct Remote {
    http: Http,
    name: String,
    /// What its era is remembered by.
    address: String,
}

/// What opens a browser to sign in. The standard input is the host's in any case, so only the display tells whether a person is there.
fn prompt(wrap: &Wrap, network: Network, options: Options) -> Option<Prompt> {
    if wrap.remote.sign_in == SignIn::Never || options.flow == Flow::ClientCredentials {
        return None;
    }
    let browser = Browser::find(|name| std::env::var(name).ok())?;
    // The attempt to connect that waits for the person must not time out before.
    let wait = MAX_WAIT.min(wrap.connect_timeout / 2);
    Some(Prompt { browser, options, network, wait })
}

impl Remote {
    /// The error says what is wrong with the command line, without quoting what may be secret.
    pub(super) fn read(options: &Wrap, url: &str) -> Result<Remote, String> {
        let remote = &options.remote;
        let url = &*address_of(url, |name| std::env::var(name).ok())?;
        let mut http = Http::new(url)
            .map_err(|error| format!("{error}; if this is a server's command, write -- before it"))?;
        let headers = Headers::new(headers_of(remote)?).map_err(|error| format!("-H: {error}"))?;
        http = http.headers(headers.headers());
        if let Some(path) = &remote.header_file {
            let file = HeaderFile::new(path).map_err(|error| format!("--header-file: {error}"))?;
            http = http.credential(Arc::new(file));
        }
        if let Some(variable) = &remote.bearer_env {
            let bearer = BearerEnv::new(variable).map_err(|error| format!("--bearer-env: {error}"))?;
            http = http.credential(Arc::new(bearer));
        }
        let has_credential = remote.header_file.is_some()
            || remote.bearer_env.is_some()
            || headers.headers().iter().any(|(name, _)| account::authorizes(name.as_str()));
        let host = http.host();
        let named = options.name.as_deref().unwrap_or(&host);
        let settings = remote.sign_in_settings();
        if !has_credential && let Ok(url) = Url::parse(url) {
            let sign_in = settings.options(url.clone()).map_err(|error| error.to_string())?;
            let prompt = prompt(options, settings.network(), sign_in);
            let account = account::credential(url, named, settings, prompt);
            http = account.into_iter().fold(http, Http::credential);
        }
        let mut limits = Limits::default();
        limits.connect = remote.reach_timeout;
        limits.header = remote.header_timeout.0;
        limits.idle = remote.stream_timeout.0;
        limits.max_message = options.max_line;
        http = http.limits(limits);
        if remote.ca_file.is_some() || remote.client_cert.is_some() {
            let mut client = HttpClient::builder().connect(remote.reach_timeout);
            if let Some(path) = &remote.ca_file {
                client = client.ca_file(path);
            }
            if let (Some(certificate), Some(key)) = (&remote.client_cert, &remote.client_key) {
                client = client.certificate(certificate, key);
            }
            http = http.client(client.build().map_err(|error| error.to_string())?);
        }
        Ok(Remote { name: http.host(), address: http.address(), http })
    }

    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// The server is greeted with the client's first request, and in its name.
    pub(super) fn connect(self, options: &Wrap, name: Arc<str>, port: Arc<Port>) -> Connected {
        let mask = self.http.mask();
        let mut builder = super::builder(options, name, self.http, mask).era(era_of(options.remote.era));
        if let Some(file) = EraFile::of_user().filter(|_| !options.remote.no_cache) {
            builder = builder.era_file(file, self.address);
        }
        let (bridge, connection) = Bridge::build(builder, port);
        Connected { upstream: bridge, connection }
    }
}

/// The URL that is meant: itself, or the value of the variable that it names.
pub(crate) fn address_of(url: &str, value_of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    match url.strip_prefix("env:") {
        Some(name) => value_of(name).ok_or_else(|| format!("{url}: the variable is not set")),
        None => Ok(url.to_owned()),
    }
}

/// The names and values of the headers that `-H` says.
pub(crate) fn headers_of(remote: &RemoteArguments) -> Result<Vec<(&str, &str)>, String> {
    let pairs: Option<Vec<_>> = remote.headers.iter().map(|header| header.split_once(':')).collect();
    let pairs = pairs.ok_or("-H: write a header as 'Name: value'")?;
    Ok(pairs.into_iter().map(|(name, value)| (name.trim(), value.trim())).collect())
}

pub(crate) fn era_of(era: arguments::Era) -> regrow::Era {
    match era {
        arguments::Era::Auto => regrow::Era::Auto,
        arguments::Era::Legacy => regrow::Era::Legacy,
        arguments::Era::Modern => regrow::Era::Modern,
    }
}
