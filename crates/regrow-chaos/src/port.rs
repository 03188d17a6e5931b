//! Ports that can be left and taken again, and sockets that can be asked.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Below the ports that systems give to outgoing connections, one of which could take ours while we are away.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// Listens on any port of the loopback interface that stays ours when we leave it for a while.
pub(crate) fn bind_any() -> io::Result<TcpListener> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::SeqCst) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        match bind((Ipv4Addr::LOCALHOST, port).into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Listens on this port. The standard library sets `SO_REUSEADDR`, so earlier connections do not get in the way.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Waits at most so long for something to read, which may be the end.
pub(crate) fn is_readable(socket: impl AsFd, limit: Duration) -> bool {
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
    let limit = Timespec { tv_sec: seconds, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut polled, Some(&limit)).unwrap_or(0) > 0
}

/// Makes the close of this socket a reset. Goes off when the last handle is dropped.
pub(crate) fn reset_at_close(socket: &TcpStream) {
    // One that is closed already cannot be reset, and need not be.
    let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}
