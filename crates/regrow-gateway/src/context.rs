//! What all servers of a gateway have in common.

use std::sync::Arc;
use std::time::Duration;

use regrow::Builder;
use regrow::transport::stdio::Stderr;
use tokio::sync::Notify;

use crate::audit::Audit;
use crate::catalog::{Pin, PinFolder, PinOwner, Pinning, Revision, Store, StoreKey, sha256};
use crate::config::{Reach, ServerConfig};
use crate::connect::ConnectError;
use crate::operate::LogLevel;
use crate::operate::traces::Traces;
use crate::shares::Shares;

/// Who the clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// One, over stdio: each server has one session, and it is this client's own.
    One,
    /// Any number, over HTTP.
    Many,
}

/// Makes a connection of a server as it is described, to be built. Lines of its standard error go where the second argument says.
pub type Connect = Box<dyn Fn(&ServerConfig, Stderr) -> Result<Builder, ConnectError> + Send + Sync>;

/// How a gateway is set up.
pub struct Settings {
    /// Who the clients are.
    pub clients: Clients,
    /// How servers are reached; see [`connect`](crate::connect()).
    pub connect: Connect,
    /// Where catalogs are kept over starts.
    pub store: Option<Store>,
    /// Where pins are kept over starts.
    pub pins: Option<PinFolder>,
    /// What is done about changes since a server was approved, where its options say nothing.
    pub pin: Pin,
    /// How long a list waits for servers whose tools are not known yet.
    pub list_wait: Duration,
    /// More clients than this are refused.
    pub max_clients: usize,
    /// How limits are divided between principals.
    pub shares: Arc<Shares>,
    /// The files that the configuration was read from, for the status.
    pub config_files: Vec<String>,
    /// The audit log.
    pub audit: Audit,
    /// Whether and where calls are traced.
    pub traces: Traces,
    /// Makes the log say more or less, where that can be done.
    pub log_level: Option<Box<dyn Fn(LogLevel) + Send + Sync>>,
}

pub(crate) struct Context {
    pub(crate) settings: Settings,
    /// A catalog or a server has changed.
    pub(crate) changed: Notify,
    /// Counts these changes, also those that nobody need hear of.
    pub(crate) revision: Arc<Revision>,
}

/// The pins of a server.
pub(crate) fn pinning(server: &ServerConfig, settings: &Settings) -> Pinning {
    let owner = PinOwner::of(&server.file, &server.name);
    let mode = server.options.pin.unwrap_or(settings.pin);
    Pinning::new(mode, owner, endpoint(server), settings.pins.clone(), settings.audit.clone())
}

/// A hash of the command and its arguments, or of the URL.
fn endpoint(server: &ServerConfig) -> String {
    let identity = match &server.reach {
        Reach::Process(process) => {
            let args: Vec<&str> = process.args.iter().map(|arg| arg.reveal()).collect();
            format!("{:?}", (&process.program, args))
        }
        Reach::Remote(remote) => remote.url.reveal().to_owned(),
        Reach::Broken(_) => String::new(),
    };
    sha256(format!("regrow endpoint\0{identity}").as_bytes())
}

/// What a catalog on disk is known by: all that decides whom we talk to, and as whom. It is only ever used as a fingerprint.
pub(crate) fn store_key(server: &ServerConfig) -> StoreKey {
    let identity = match &server.reach {
        Reach::Process(process) => {
            let args: Vec<&str> = process.args.iter().map(|arg| arg.reveal()).collect();
            let variables: Vec<_> =
                process.variables.iter().map(|(name, value)| (name, value.reveal())).collect();
            format!(
                "{:?}",
                (&server.name, &process.program, args, variables, &process.inherit, &process.directory)
            )
        }
        Reach::Remote(remote) => {
            let headers: Vec<_> = remote.headers.iter().map(|(name, value)| (name, value.reveal())).collect();
            format!("{:?}", (&server.name, remote.url.reveal(), headers, server.account()))
        }
        // It is never reached, so nothing is ever kept of it.
        Reach::Broken(_) => format!("{:?}", (&server.name, "broken")),
    };
    StoreKey::of(identity.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Surroundings};

    #[test]
    fn two_accounts_at_a_server_never_share_a_cached_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".mcp.json");
        let key = |sign_in: &str| {
            let entry = format!(r#"{{ "url": "https://h/mcp"{sign_in} }}"#);
            std::fs::write(&path, format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#)).unwrap();
            store_key(&Config::read(&[&path], &Surroundings::default()).unwrap().servers[0])
        };
        let with = |member: &str| key(&format!(r#", "regrow": {{ "signIn": {{ {member} }} }}"#));
        let keys = [
            key(""),
            with(r#""account": "work""#),
            with(r#""account": "home""#),
            with(r#""resource": "none""#),
            with(r#""authorizeParams": { "tenant": "t" }"#),
        ];
        for (number, one) in keys.iter().enumerate() {
            assert!(!keys[number + 1..].contains(one), "{number}");
        }
        assert_eq!(with(r#""account": "work""#), keys[1], "the same every time");
        assert_eq!(with(r#""clientId": "x""#), keys[0], "a client is no other account");
    }
}
