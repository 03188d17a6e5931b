//! Which user of this machine is at the other end of a loopback connection.
//!
//! TCP does not say, but the client's socket is on this machine, too, and the kernel knows its owner. Each connection is looked up once, as
//! soon as it is accepted. See `owner` for how.

#[cfg_attr(target_os = "linux", path = "peer/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "peer/other.rs")]
mod system;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use tokio::net::TcpStream;

/// Loopback connects at once, or something keeps it from it.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(1);
const ROOT: u32 = 0;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The user who runs the gateway, or root.
    Own,
    /// Another user of this machine.
    Other(u32),
    /// Another machine, or nobody can tell.
    Unknown,
}

/// How peers are looked up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peers {
    /// Not at all: tokens decide.
    NotNeeded,
    /// The system does not tell, so every user of this machine counts as the one who runs the gateway.
    Untold,
    /// This user runs the gateway.
    RunBy(u32),
}

impl Peers {
    /// Tries the lookup on a connection of our own. The error says why the system does not tell.
    pub(super) fn try_lookup(loopback: IpAddr) -> io::Result<Peers> {
        let own = system::own_user()?;
        let listener = TcpListener::bind(SocketAddr::new(loopback, 0))?;
        let to = listener.local_addr()?;
        let client = std::net::TcpStream::connect_timeout(&to, TRIAL_TIMEOUT)?;
        match system::owner(client.local_addr()?, to)? {
            user if user == own => Ok(Peers::RunBy(own)),
            user => Err(io::Error::other(format!("our own connection seems to be of user {user}"))),
        }
    }

    /// Who is at the other end of this connection.
    pub(super) fn peer(self, socket: &TcpStream) -> Peer {
        match (self, socket.peer_addr(), socket.local_addr()) {
            (Peers::NotNeeded, ..) => Peer::Unknown,
            (_, Ok(from), Ok(_)) if !from.ip().to_canonical().is_loopback() => Peer::Unknown,
            (Peers::Untold, Ok(_), _) => Peer::Own,
            (Peers::RunBy(own), Ok(from), Ok(to)) => match system::owner(from, to) {
                Ok(user) if user == own || user == ROOT => Peer::Own,
                Ok(user) => Peer::Other(user),
                Err(error) => {
                    tracing::debug!(%error, "cannot tell which user a connection comes from");
                    Peer::Unknown
                }
            },
            _ => Peer::Unknown, // It has ended.
        }
    }
}
