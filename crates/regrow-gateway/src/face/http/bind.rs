//! Taking the addresses, after everything was checked that can be wrong with the options.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tokio::net::TcpListener;

use super::access::Access;
use super::bound::Bound;
use super::face_stats::FaceStats;
use super::guard::Guard;
use super::options::{AllowUsers, Options};
use super::origin::{Hosts, Origins};
use super::peer::Peers;
use super::tls;
use super::token::Tokens;

/// Why the face cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The operator's mistake: everybody could use it.
    #[error(
        "{address} can be reached from other machines, and no token protects it: set a token, listen on 127.0.0.1, or allow \
         this with --insecure"
    )]
    Unprotected {
        /// Where it would have listened.
        address: SocketAddr,
    },
    /// The operator's mistake: anybody can guess it.
    #[error("a token must not be empty")]
    EmptyToken,
    /// The operator's mistake: every client could give commands.
    #[error("a client token is also the operator token; use a different secret for each")]
    SharedToken,
    /// The operator's mistake.
    #[error("{text:?} is not a host: write it as mcp.example or mcp.example:8443")]
    NotAHost {
        /// As it was written.
        text: String,
    },
    /// The operator's mistake.
    #[error("{text:?} is not an origin: write it as https://app.example")]
    NotAnOrigin {
        /// As it was written.
        text: String,
    },
    /// A certificate or key that cannot be used.
    #[error("{path:?} cannot be used for TLS: {problem}")]
    Tls {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody else has the address, or it is not of this machine.
    #[error("cannot listen on {address}: {error}")]
    Address {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
}

/// Takes the addresses. From here on clients can connect, and wait until they are served.
pub async fn bind(options: Options) -> Result<Bound, BindError> {
    let Options { addresses, tokens, operator_tokens, allow_users, insecure, .. } = options;
    let Options { hosts, origins, sse, tls, audit, style, limits, shares, .. } = options;
    if tokens.iter().chain(&operator_tokens).any(|token| token.reveal().trim().is_empty()) {
        return Err(BindError::EmptyToken);
    }
    if tokens.iter().any(|token| operator_tokens.contains(token)) {
        return Err(BindError::SharedToken);
    }
    let reachable = addresses.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(&address) = reachable.filter(|_| tokens.is_empty() && !insecure) {
        return Err(BindError::Unprotected { address });
    }
    let acceptor = tls.as_ref().map(tls::acceptor).transpose();
    let acceptor = acceptor.map_err(|(path, problem)| BindError::Tls { path, problem })?;
    let origins = Origins::new(&origins).map_err(|text| BindError::NotAnOrigin { text })?;

    let mut listeners = vec![];
    let mut ours = vec![];
    for address in addresses {
        let cannot = |error| BindError::Address { address, error };
        let listener = TcpListener::bind(address).await.map_err(cannot)?;
        ours.push(listener.local_addr().map_err(cannot)?);
        listeners.push(listener);
    }
    let hosts =
        Hosts::new(ours.clone(), &hosts, acceptor.is_some()).map_err(|text| BindError::NotAHost { text })?;
    let face_stats = FaceStats::new(&limits, &shares);
    let any_user = insecure || allow_users == AllowUsers::Any;
    let peers = if tokens.is_empty() { peers(&ours, any_user) } else { Peers::NotNeeded };
    let access = Access { clients: Tokens::new(tokens), operators: Tokens::new(operator_tokens), any_user };
    let guard = Guard { hosts, origins, access, audit, face_stats: face_stats.clone() };
    let threads = vec![];
    Ok(Bound {
        listeners,
        addresses: ours,
        acceptor,
        peers,
        guard,
        sse,
        style,
        limits,
        shares,
        face_stats,
        threads,
    })
}

/// How the users of clients are told apart. Where they cannot be, the operator is told who gets in.
fn peers(addresses: &[SocketAddr], any_user: bool) -> Peers {
    let ips = addresses.iter().map(|address| address.ip().to_canonical());
    let loopback = ips.into_iter().find(IpAddr::is_loopback).unwrap_or(Ipv4Addr::LOCALHOST.into());
    Peers::try_lookup(loopback).unwrap_or_else(|error| {
        if !any_user {
            tracing::warn!(
                "cannot tell which user a connection comes from ({error}): every user of this machine can call the tools; set a token \
                 with --token-env, or accept this with --allow-users any"
            );
        }
        Peers::Untold
    })
}
