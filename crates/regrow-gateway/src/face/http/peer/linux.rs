//! The owner of a socket on this machine, from the kernel: sock_diag(7).
//!
//! Not from `/proc/net/tcp`, which lists all sockets of the machine: any user can make it long, and every connection would have to read it. Here the kernel
//! looks up one socket by its addresses and answers before `send` returns, so nothing waits and no other thread is needed.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};
use rustix::net::{recv, send, socket_with};

/// `SOCK_DIAG_BY_FAMILY`, and `struct inet_diag_msg` behind the header of the message.
const BY_FAMILY: u16 = 20;
/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// `NLM_F_REQUEST`
const REQUEST: u16 = 1;
/// Of `struct nlmsghdr` and `struct inet_diag_req_v2`.
const REQUEST_LENGTH: u32 = 16 + 56;
const TCP: u8 = 6;
/// The states of a client's socket that is or was connected: established, closing in either order.
const CONNECTED: [u8; 4] = [1, 4, 5, 8];
/// In a user namespace, all users that have no number there are reported as this one.
const OVERFLOW_USER: u32 = 65534;

/// The user who runs this process, if the kernel can tell it from others.
pub(super) fn own_user() -> io::Result<u32> {
    let own = rustix::process::geteuid().as_raw();
    if own == OVERFLOW_USER && is_in_user_namespace() {
        return Err(io::Error::other(format!(
            "in a user namespace, user {own} looks like every user from outside of it"
        )));
    }
    Ok(own)
}

fn is_in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().ne(["0", "0", "4294967295"])
}

/// Who owns the socket that is bound to `from` and connected to `to`.
pub(super) fn owner(from: SocketAddr, to: SocketAddr) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &request(from, to), SendFlags::empty())?;
    let mut reply = [0; 1024];
    let (length, _) = recv(&kernel, &mut reply, RecvFlags::empty())?;
    read(&reply[..length], from, to)
}

/// An IPv4 connection of an IPv6 socket is found by its IPv4 addresses.
fn request(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let (family, source, target) = match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            (AddressFamily::INET, padded(&from.octets()), padded(&to.octets()))
        }
        (from, to) => (AddressFamily::INET6, v6(from), v6(to)),
    };
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    let mut request = Vec::with_capacity(REQUEST_LENGTH as usize);
    // The header: length, type, flags, sequence number, sender.
    request.extend(REQUEST_LENGTH.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    // Family, protocol, no extensions, padding, any state.
    request.extend([family, TCP, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    // The socket: ports and addresses, any interface, and the value that stands for any cookie.
    request.extend(from.port().to_be_bytes());
    request.extend(to.port().to_be_bytes());
    request.extend(source);
    request.extend(target);
    request.extend([0; 4]);
    request.extend([u8::MAX; 8]);
    request
}

fn padded(octets: &[u8; 4]) -> [u8; 16] {
    let mut padded = [0; 16];
    padded[..4].copy_from_slice(octets);
    padded
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn read(reply: &[u8], from: SocketAddr, to: SocketAddr) -> io::Result<u32> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the reply of sock_diag is not understood");
    match field(reply, 4).map(u16::from_ne_bytes).ok_or_else(wrong)? {
        BY_FAMILY => {}
        ERROR => {
            let code = field(reply, 16).map(i32::from_ne_bytes).ok_or_else(wrong)?;
            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
        }
        _ => return Err(wrong()),
    }
    let state = *reply.get(17).ok_or_else(wrong)?;
    let ports = (field(reply, 20).map(u16::from_be_bytes), field(reply, 22).map(u16::from_be_bytes));
    let user = field(reply, 80).map(u32::from_ne_bytes).ok_or_else(wrong)?;
    let inode = field(reply, 84).map(u32::from_ne_bytes).ok_or_else(wrong)?;
    // A socket that its process has closed has no inode, and some kernels report it as root's. Without this, another user
    // could send a request, close, and pass for root. A listener or another attempt to connect is somebody else's.
    if inode == 0 || !CONNECTED.contains(&state) || ports != (Some(from.port()), Some(to.port())) {
        return Err(io::Error::new(io::ErrorKind::NotConnected, "the client has closed the connection"));
    }
    Ok(user)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn connected(listen: &str, connect: &str) -> (TcpStream, TcpStream, SocketAddr) {
        let listener = TcpListener::bind((listen, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let client = TcpStream::connect((connect, to.port())).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, server, to)
    }

    #[test]
    fn the_owner_is_found_over_ipv4_ipv6_and_ipv4_in_ipv6() {
        for (listen, connect) in
            [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "::ffff:127.0.0.1"), ("::1", "::1")]
        {
            let (_client, server, _) = connected(listen, connect);
            let found = owner(server.peer_addr().unwrap(), server.local_addr().unwrap());
            assert_eq!(found.unwrap(), own_user().unwrap(), "{connect}");
        }
    }

    #[test]
    fn a_socket_that_was_closed_a_listener_and_nothing_have_no_owner() {
        let (client, server, to) = connected("127.0.0.1", "127.0.0.1");
        let from = client.local_addr().unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(owner(from, to).is_ok(), "it still reads");
        drop(client);
        assert!(owner(from, to).is_err());
        drop(server);
        assert!(owner(from, to).is_err());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(owner(listener.local_addr().unwrap(), to).is_err());
        assert!(owner("127.0.0.1:1".parse().unwrap(), to).is_err());
    }
}
