//! The authorization server of these tests, and a client for it.

use regrow_auth::guarded::{Guarded, Network, Proxy};
use regrow_chaos::issuer::Issuer;

pub(crate) fn start() -> Issuer {
    Issuer::start().unwrap()
}

/// A client for the sign-in at its MCP server.
pub(crate) fn http(issuer: &Issuer) -> Guarded {
    Guarded::new(&issuer.server(), &Network { proxy: Proxy::Off, ..Network::default() }).unwrap()
}
