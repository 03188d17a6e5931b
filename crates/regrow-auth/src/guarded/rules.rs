//! Where OAuth requests may go: checks of an address, and of what its name resolves to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::place::{Place, place};

/// Where requests may go.
pub(super) struct Rules {
    /// The MCP server. Regrow connects to it anyway.
    pub(super) server: Url,
    /// In their canonical form.
    pub(super) private_hosts: Vec<String>,
    pub(super) lookup: Arc<dyn Lookup>,
}

impl Rules {
    /// Checks what an address says without a lookup. An error is the reason.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let Some(host) = url.host() else { return Err("it has no host".into()) };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it contains a user name or password".into());
        }
        let is_local = place_of(&host) == Some(Place::Loopback);
        match url.scheme() {
            "https" => {}
            "http" if is_local && self.server_place() == Some(Place::Loopback) => {}
            "http" => return Err("it is not https".into()),
            _ => return Err("it is neither https nor http".into()),
        }
        let literal = match host {
            Host::Ipv4(address) => IpAddr::from(address),
            Host::Ipv6(address) => IpAddr::from(address),
            Host::Domain(_) => return Ok(()),
        };
        match self.allows(&host.to_string(), literal) {
            true => Ok(()),
            false => Err(self.reason(literal)),
        }
    }

    /// Where the MCP server is, as far as its address says. What its name resolves to proves nothing: its owner decides that.
    fn server_place(&self) -> Option<Place> {
        self.server.host().and_then(|host| place_of(&host))
    }

    fn allows(&self, host: &str, address: IpAddr) -> bool {
        let host = canonical(host);
        let is_server = self.server.host_str().is_some_and(|server| canonical(server) == host);
        match place(address) {
            Place::Public => true,
            Place::Nowhere => false,
            _ if is_server || self.private_hosts.contains(&host) => true,
            Place::LinkLocal => false,
            place @ (Place::Private | Place::Loopback) => self.server_place() == Some(place),
        }
    }

    fn reason(&self, address: IpAddr) -> String {
        format!("its address {address} is {}", place(address).name())
    }

    /// The addresses of a name that Regrow may connect to.
    pub(super) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, NameError> {
        let found = match is_localhost(name) {
            true => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
            false => self.lookup.addresses(name).await.map_err(NameError::NotFound)?,
        };
        let (allowed, other): (Vec<IpAddr>, Vec<IpAddr>) =
            found.into_iter().partition(|address| self.allows(name, *address));
        match (allowed.is_empty(), other.first()) {
            (true, Some(address)) => Err(NameError::Refused(self.reason(*address))),
            _ => Ok(allowed),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum NameError {
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    NotFound(io::Error),
}

/// Where a host is, without a lookup.
fn place_of(host: &Host<&str>) -> Option<Place> {
    match host {
        Host::Ipv4(address) => Some(place(IpAddr::from(*address))),
        Host::Ipv6(address) => Some(place(IpAddr::from(*address))),
        Host::Domain(name) => is_localhost(name).then_some(Place::Loopback),
    }
}

/// These names never leave this computer (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = canonical(name);
    name == "localhost" || name.ends_with(".localhost")
}

pub(super) fn canonical(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How names become addresses.
pub(super) trait Lookup: Send + Sync {
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Gives reqwest only addresses that the rules allow, so the checked address is the one it connects to.
pub(super) struct GuardedNames(pub(super) Arc<Rules>);

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let rules = self.0.clone();
        Box::pin(async move {
            let found = rules.addresses(name.as_str()).await?;
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}
