//! The HTTP face: the same server behind Streamable HTTP at `/mcp`, and behind the older HTTP+SSE at `/sse`.

mod access;
mod exchange;
mod faults;
mod listening;
mod response;
mod rules;
mod sessions;
mod stream;

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use self::faults::{Arrivals, Strikes};
pub(super) use self::rules::status_of;
pub(super) use self::sessions::Sessions;
pub(super) use self::stream::Stream;
use super::{Server, rest};
use crate::incoming::Incoming;
use crate::port;
use crate::sync::lock;

/// More connections at a time are closed at once.
const MOST_CONNECTIONS: usize = 4096;
/// How many responses are remembered for clients that come back for the rest.
const KEPT_STREAMS: usize = 64;
/// How long a port may still belong to the life before.
const PORT_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether a response is over.
const GLANCE: Duration = Duration::from_millis(5);

/// What only a server of HTTP has.
pub(super) struct Http {
    address: SocketAddr,
    sessions: Arc<Sessions>,
    streams: Mutex<VecDeque<Arc<Stream>>>,
    next_stream: AtomicU64,
    connections: AtomicUsize,
    arrivals: Arrivals,
    strikes: Strikes,
    hangs: AtomicBool,
}

impl Http {
    pub(super) fn new(address: SocketAddr) -> Self {
        Self {
            address,
            sessions: Arc::default(),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            connections: AtomicUsize::new(0),
            arrivals: Arrivals::default(),
            strikes: Strikes::default(),
            hangs: AtomicBool::new(false),
        }
    }

    /// Those who listen for what belongs to no request.
    pub(super) fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.sessions)
    }

    /// Accepts and reads nothing any more.
    pub(super) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    /// Remembers a stream for those who come back.
    fn keep(&self, stream: &Arc<Stream>) {
        let mut streams = lock(&self.streams);
        streams.push_back(Arc::clone(stream));
        if streams.len() > KEPT_STREAMS {
            streams.pop_front();
        }
    }
}

impl Server {
    /// Serves until the time of this life is up.
    pub(super) fn serve_http(self: &Arc<Self>, http: &Http) -> io::Result<()> {
        let listener = bind(http.address)?;
        let port = listener.local_addr()?.port();
        self.evidence.note(&format!("port {port}"));
        eprintln!("regrow-chaos: serves http://{}/mcp", listener.local_addr()?);
        self.after_requests(&self.orders(), 0);
        for socket in listener.incoming() {
            if http.hangs.load(Ordering::SeqCst) {
                rest();
            }
            let Ok(socket) = socket else { continue }; // It left before we took it.
            if http.connections.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                http.connections.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let server = Arc::clone(self);
            self.spawn(move || {
                server.attend(&socket, port);
                if let Some(http) = &server.http {
                    http.connections.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
        Ok(())
    }

    /// One connection, request after request.
    fn attend(self: &Arc<Self>, socket: &TcpStream, port: u16) {
        let Some(http) = &self.http else { return };
        self.evidence.note(&format!("connection {}", process::id()));
        // Without it answers are only slower.
        let _ = socket.set_nodelay(true);
        let Ok(clone) = socket.try_clone() else { return };
        let mut reader = BufReader::new(clone);
        let mut served = false;
        loop {
            if http.hangs.load(Ordering::SeqCst) {
                rest();
            }
            let is_idle = |idle: Duration| idle.is_zero() || !port::is_readable(socket, idle);
            if served && self.orders().time("close-idle").is_some_and(is_idle) {
                break;
            }
            served = true;
            let incoming = match Incoming::read(&mut reader) {
                Ok(Some(incoming)) => incoming,
                Ok(None) => break,
                Err(_) => {
                    // One that breaks off in the middle is gone; one that says no HTTP may read this.
                    let _ = { socket }.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
                    break;
                }
            };
            let received = self.received.load(Ordering::SeqCst);
            // The connection that brought the last one may not have come to hang us yet.
            if self.orders().number("hang-after").is_some_and(|limit| received >= limit) {
                rest();
            }
            let close = incoming.head.lists("connection", "close");
            // An error of writing says that the client has left.
            if !self.exchange(http, socket, &incoming, port).unwrap_or(false) || close {
                break;
            }
        }
        // The client may have closed it already.
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
}

/// Binds the port, also when the life before has only just left it.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    if address.port() == 0 {
        return port::bind_any();
    }
    let deadline = Instant::now() + PORT_PATIENCE;
    loop {
        match port::bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::sleep(GLANCE);
            }
            outcome => return outcome,
        }
    }
}

/// Waits for a moment; returns whether the client has closed the connection by then.
fn has_left(socket: &TcpStream) -> bool {
    if !port::is_readable(socket, GLANCE) {
        return false;
    }
    match socket.peek(&mut [0]) {
        Ok(0) | Err(_) => true,
        Ok(_) => {
            thread::sleep(GLANCE); // The next request is there already, and must wait.
            false
        }
    }
}
