//! Each fault of the network, for connections that are there and for new ones.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::proxy::{Canned, Fault, Proxy};

const LIMIT: Duration = Duration::from_secs(60);
/// Long enough to see that nothing comes.
const QUIET: Duration = Duration::from_millis(150);

/// A server that says everything back. It ends with the test.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut piece) {
                    if socket.write_all(&piece[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn proxy() -> Proxy {
    Proxy::start(echo()).unwrap()
}

fn connect(proxy: &Proxy) -> TcpStream {
    let socket = TcpStream::connect(proxy.address()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// Says something and hears it back.
fn talk(socket: &mut TcpStream, text: &str) {
    socket.write_all(text.as_bytes()).unwrap();
    let mut heard = vec![0; text.len()];
    socket.read_exact(&mut heard).unwrap();
    assert_eq!(heard, text.as_bytes());
}

fn is_quiet(socket: &mut TcpStream) -> bool {
    socket.set_read_timeout(Some(QUIET)).unwrap();
    let quiet = socket.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    quiet
}

fn is_reset(socket: &mut TcpStream) -> bool {
    socket.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn without_a_fault_bytes_pass_and_are_counted() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    talk(&mut socket, &"x".repeat(3_000));
    assert_eq!((proxy.connections(), proxy.bytes_to_server(), proxy.bytes_to_client()), (1, 3_005, 3_005));
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "an end is passed on, and comes back");
}

#[test]
fn latency_delays_each_piece() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "fast");
    proxy.set(Fault::Latency(Duration::from_millis(100)));
    let begin = Instant::now();
    talk(&mut socket, "slow");
    assert!(begin.elapsed() >= Duration::from_millis(200), "both ways: {:?}", begin.elapsed());
}

#[test]
fn a_reset_hits_old_connections_and_new_ones() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    proxy.set(Fault::Reset);
    assert!(is_reset(&mut socket));
    assert!(is_reset(&mut connect(&proxy)));
    proxy.set(Fault::None);
    talk(&mut connect(&proxy), "again");
}

#[test]
fn half_closed_the_client_hears_the_end_and_is_still_heard() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    proxy.set(Fault::HalfClose);
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    socket.write_all(b"still").unwrap();
    let deadline = Instant::now() + LIMIT;
    while proxy.bytes_to_server() < 10 {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_stall_loses_nothing() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    proxy.set(Fault::Stall);
    socket.write_all(b"later").unwrap();
    assert!(is_quiet(&mut socket));
    let mut fresh = connect(&proxy);
    fresh.write_all(b"fresh").unwrap();
    assert!(is_quiet(&mut fresh));
    proxy.set(Fault::None);
    for (socket, text) in [(&mut socket, b"later"), (&mut fresh, b"fresh")] {
        let mut heard = [0; 5];
        socket.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, text);
    }
}

#[test]
fn a_truncated_connection_ends_in_good_order() {
    let proxy = proxy();
    let mut old = connect(&proxy);
    talk(&mut old, "hello");
    proxy.set(Fault::Truncate(3));
    for socket in [&mut old, &mut connect(&proxy)] {
        socket.write_all(b"abcdef").unwrap();
        let mut heard = vec![];
        socket.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"abc");
    }
}

#[test]
fn bytes_drip() {
    let proxy = proxy();
    proxy.set(Fault::Drip(Duration::from_millis(20)));
    let mut socket = connect(&proxy);
    let begin = Instant::now();
    talk(&mut socket, "0123456789");
    assert!(begin.elapsed() >= Duration::from_millis(180), "{:?}", begin.elapsed());
}

#[test]
fn a_black_hole_tells_nobody_and_gives_nothing_back() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    proxy.set(Fault::Blackhole);
    let mut fresh = connect(&proxy);
    for socket in [&mut socket, &mut fresh] {
        socket.write_all(b"lost").unwrap();
        assert!(is_quiet(socket));
    }
    proxy.set(Fault::None);
    for socket in [&mut socket, &mut fresh] {
        assert!(is_quiet(socket), "what is lost stays lost");
    }
    talk(&mut connect(&proxy), "new ones work");
    assert_eq!(proxy.bytes_to_server(), 5 + 13);
}

#[test]
fn nobody_listens_and_then_somebody_does_at_the_same_port() {
    let proxy = proxy();
    let mut socket = connect(&proxy);
    talk(&mut socket, "hello");
    for _ in 0..3 {
        proxy.set(Fault::Refuse);
        assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        proxy.set(Fault::None);
        talk(&mut connect(&proxy), "again");
    }
    assert!(is_reset(&mut socket));
}

#[test]
fn requests_are_answered_in_the_servers_place_as_often_as_told() {
    let proxy = proxy();
    let canned = Canned { body: "busy".into(), ..Canned::status(2, 503).header("Retry-After", "1") };
    proxy.set(Fault::Answer(canned));
    let request = "POST /mcp HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
    let mut socket = connect(&proxy);
    for _ in 0..2 {
        // In two pieces, as some clients do.
        socket.write_all(&request.as_bytes()[..30]).unwrap();
        socket.write_all(&request.as_bytes()[30..]).unwrap();
        let wanted = "HTTP/1.1 503 Injected\r\nContent-Length: 4\r\nRetry-After: 1\r\n\r\nbusy";
        let mut heard = vec![0; wanted.len()];
        socket.read_exact(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard), wanted);
    }
    assert_eq!((proxy.injected(), proxy.bytes_to_server()), (2, 0));
    talk(&mut socket, request);
    // On a connection that the server has already.
    proxy.set(Fault::Answer(Canned::status(1, 502)));
    socket.write_all(request.as_bytes()).unwrap();
    let mut heard = [0; 12];
    socket.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"HTTP/1.1 502");
    assert_eq!(proxy.injected(), 3);
}

#[test]
fn a_server_that_is_down_shows_as_a_reset() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::start(gone).unwrap();
    assert!(is_reset(&mut connect(&proxy)));
}

#[test]
fn all_ends_when_it_is_dropped_whatever_is_wrong() {
    for fault in
        [Fault::None, Fault::Stall, Fault::Blackhole, Fault::HalfClose, Fault::Refuse, Fault::Drip(QUIET)]
    {
        let proxy = proxy();
        let mut socket = connect(&proxy);
        talk(&mut socket, "hello");
        proxy.set(fault.clone());
        // A reset may be there already.
        let _ = socket.write_all(b"on its way");
        let (address, begin) = (proxy.address(), Instant::now());
        drop(proxy);
        assert!(begin.elapsed() < LIMIT, "{fault:?}");
        assert!(TcpStream::connect(address).is_err(), "{fault:?}");
    }
}
