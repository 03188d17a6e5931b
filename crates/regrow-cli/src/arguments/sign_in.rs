//! The options of sign-in and accounts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use regrow_auth::settings::Settings;
use regrow_protocol::oauth::{OWN_PARAMETERS, is_metadata_document};
use reqwest::Url;

#[derive(Args, Debug)]
pub(crate) struct Login {
    /// The server: its URL, or its name in the message that asked for sign-in
    #[arg(value_name = "NAME|URL")]
    pub(crate) server: String,

    /// Sign in with another account beside the usual one; name the same for `wrap`
    #[arg(long, value_name = "LABEL", env = "REGROW_ACCOUNT")]
    pub(crate) account: Option<String>,

    /// Only print the address to open
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Sign in on another device, with a code
    #[arg(long)]
    pub(crate) device: bool,

    #[command(flatten)]
    pub(crate) client: OAuthClient,

    /// How the browser's return names this computer [default: as before, or 127.0.0.1]
    #[arg(long, value_enum, value_name = "HOST")]
    pub(crate) callback_host: Option<CallbackHost>,

    /// Register with the authorization server again
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Trust the certificates in this file (PEM), in addition to the system's
    #[arg(long, value_name = "FILE", env = "REGROW_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

// Who Regrow is to the authorization server, and what it asks for.
#[derive(Args, Debug)]
pub(crate) struct OAuthClient {
    /// Sign in for these scopes, separated by spaces [default: those that the server names]
    #[arg(long, value_name = "SCOPES", env = "REGROW_SCOPE")]
    pub(crate) scope: Option<String>,

    /// The id of a client that you registered with the authorization server
    #[arg(long, value_name = "ID", env = "REGROW_CLIENT_ID")]
    pub(crate) client_id: Option<String>,

    /// The variable that contains the client's secret; requires --issuer, so that the secret goes nowhere else
    #[arg(
        long,
        value_name = "NAME",
        requires = "client_id",
        requires = "issuer",
        env = "REGROW_CLIENT_SECRET_ENV"
    )]
    pub(crate) client_secret_env: Option<String>,

    /// Sign in with the client's own secret, without a person and a browser
    #[arg(long, value_enum, value_name = "GRANT", requires = "client_secret_env", env = "REGROW_GRANT")]
    pub(crate) grant: Option<Grant>,

    /// The address of a client ID metadata document that you published, for authorization servers that accept those
    #[arg(long, value_name = "URL", value_parser = document, env = "REGROW_CLIENT_METADATA_URL")]
    pub(crate) client_metadata_url: Option<Url>,

    /// The authorization server, whatever the server says
    #[arg(long, value_name = "URL", env = "REGROW_ISSUER")]
    pub(crate) issuer: Option<String>,

    /// Where the metadata of the authorization server is, for servers that do not say it
    #[arg(long, value_name = "URL", env = "REGROW_AUTH_SERVER_METADATA_URL")]
    pub(crate) auth_server_metadata_url: Option<Url>,

    /// One more parameter of the authorization request, such as audience=https://api.example.com (repeatable)
    #[arg(long = "authorize-param", value_name = "NAME=VALUE", value_parser = parameter, env = "REGROW_AUTHORIZE_PARAM")]
    pub(crate) authorize_params: Vec<(String, String)>,

    /// Send no `resource` parameter, for authorization servers that refuse it
    #[arg(long, env = "REGROW_NO_RESOURCE")]
    pub(crate) no_resource: bool,

    /// Let sign-in reach this host although it is in a private network (repeatable)
    #[arg(long = "private-host", value_name = "HOST", env = "REGROW_PRIVATE_HOST")]
    pub(crate) private_hosts: Vec<String>,

    /// Let the browser return to this port [default: the registered one, or a free one]
    #[arg(long, value_name = "PORT", env = "REGROW_CALLBACK_PORT")]
    pub(crate) callback_port: Option<u16>,
}

impl OAuthClient {
    pub(crate) fn settings(&self, account: String, ca_file: Option<PathBuf>) -> Settings {
        Settings {
            account,
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret_env: self.client_secret_env.clone(),
            client_metadata_url: self.client_metadata_url.clone(),
            scope: self.scope.clone(),
            callback_port: self.callback_port,
            auth_server_metadata_url: self.auth_server_metadata_url.clone(),
            authorize_params: self.authorize_params.iter().cloned().collect(),
            no_resource: self.no_resource,
            private_hosts: self.private_hosts.clone(),
            client_credentials: self.grant == Some(Grant::ClientCredentials),
            ca_file,
        }
    }
}

/// The options of `regrow login` that say the same as these settings.
pub(crate) fn login_options(settings: &Settings) -> Vec<String> {
    let Settings { account, issuer, client_id, client_secret_env, scope, .. } = settings;
    let mut words: Vec<String> = vec![];
    let mut say = |option: &str, value: &str| words.extend([option.to_owned(), value.to_owned()]);
    if !account.is_empty() {
        say("--account", account);
    }
    let texts = [
        ("--client-id", client_id),
        ("--client-secret-env", client_secret_env),
        ("--issuer", issuer),
        ("--scope", scope),
    ];
    for (option, value) in texts {
        value.iter().for_each(|value| say(option, value));
    }
    settings.auth_server_metadata_url.iter().for_each(|url| say("--auth-server-metadata-url", url.as_str()));
    settings.client_metadata_url.iter().for_each(|url| say("--client-metadata-url", url.as_str()));
    for (name, value) in &settings.authorize_params {
        say("--authorize-param", &format!("{name}={value}"));
    }
    settings.private_hosts.iter().for_each(|host| say("--private-host", host));
    settings.callback_port.iter().for_each(|port| say("--callback-port", &port.to_string()));
    settings.ca_file.iter().for_each(|file| say("--ca-file", &file.to_string_lossy()));
    if settings.client_credentials {
        say("--grant", "client_credentials");
    }
    if settings.no_resource {
        words.push("--no-resource".into());
    }
    words
}

fn document(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).ok().filter(|_| is_metadata_document(text));
    url.ok_or("write it as the document does, as https://host/path")
}

fn parameter(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, _)) if OWN_PARAMETERS.contains(&name) => Err("Regrow sets this parameter itself"),
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Grant {
    /// With the secret of a client
    #[value(name = "client_credentials", alias = "client-credentials")]
    ClientCredentials,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignIn {
    /// Where a browser can be opened
    Auto,
    /// Calls name the command to run instead
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallbackHost {
    /// By its address
    #[value(name = "127.0.0.1")]
    Ip,
    /// By its name, for servers that accept no address
    #[value(name = "localhost")]
    Localhost,
}

#[derive(Args, Debug)]
pub(crate) struct Logout {
    /// The server: its URL, or its name in messages
    #[arg(value_name = "NAME|URL", required_unless_present = "all")]
    pub(crate) server: Option<String>,

    /// The account with this label
    #[arg(long, value_name = "LABEL", env = "REGROW_ACCOUNT")]
    pub(crate) account: Option<String>,

    /// All accounts at all servers
    #[arg(long, conflicts_with_all = ["server", "account"])]
    pub(crate) all: bool,

    /// Trust the certificates in this file (PEM), in addition to the system's
    #[arg(long, value_name = "FILE", env = "REGROW_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct Accounts {
    /// Print everything as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn settings_and_options_say_the_same() {
        let all = Settings {
            account: "at work".into(),
            issuer: Some("https://issuer.example".into()),
            auth_server_metadata_url: Some("https://issuer.example/metadata".parse().unwrap()),
            authorize_params: BTreeMap::from([("a".into(), "b=c".into()), ("d".into(), String::new())]),
            no_resource: true,
            private_hosts: vec!["one".into(), "two".into()],
            client_id: Some("ours".into()),
            client_secret_env: Some("SECRET".into()),
            client_metadata_url: Some("https://acme.example/client.json".parse().unwrap()),
            scope: Some("read write".into()),
            callback_port: Some(8080),
            client_credentials: true,
            ca_file: Some("/ca.pem".into()),
        };
        for settings in [Settings::default(), all] {
            let words = ["regrow", "login", "https://acme.example/mcp"].map(str::to_owned);
            let parsed = Arguments::try_parse_from([&words[..], &login_options(&settings)].concat()).unwrap();
            let Command::Login(login) = parsed.command else { panic!("{words:?}") };
            let said =
                login.client.settings(login.account.clone().unwrap_or_default(), login.ca_file.clone());
            assert_eq!(said, settings);
        }
        for (option, value, told) in [
            ("--authorize-param", "=x", "write NAME=VALUE"),
            ("--authorize-param", "state=x", "Regrow sets this parameter itself"),
            ("--client-metadata-url", "https://acme.example", "as https://host/path"),
        ] {
            let wrong = ["regrow", "login", option, value, "https://acme.example/mcp"];
            assert!(Arguments::try_parse_from(wrong).unwrap_err().to_string().contains(told));
        }
    }
}
