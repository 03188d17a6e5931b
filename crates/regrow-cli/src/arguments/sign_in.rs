//! The options of sign-in and accounts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use regrow_auth::settings::Settings;

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
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,

    /// The id of a client that you registered with the authorization server
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,

    /// The variable that contains the client's secret; requires --issuer, so that the secret goes nowhere else
    #[arg(long, value_name = "NAME", requires = "client_id", requires = "issuer")]
    pub(crate) client_secret_env: Option<String>,

    /// The authorization server, whatever the server says
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,

    /// Let the browser return to this port [default: the registered one, or a free one]
    #[arg(long, value_name = "PORT")]
    pub(crate) callback_port: Option<u16>,
}

impl OAuthClient {
    pub(crate) fn settings(&self, account: String, ca_file: Option<PathBuf>) -> Settings {
        Settings {
            account,
            issuer: self.issuer.clone(),
            client_id: self.client_id.clone(),
            client_secret_env: self.client_secret_env.clone(),
            scope: self.scope.clone(),
            callback_port: self.callback_port,
            ca_file,
            ..Settings::default()
        }
    }
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
