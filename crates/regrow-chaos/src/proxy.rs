//! A network that fails on command: a proxy on the loopback interface, between a client and a server.
//!
//! ```no_run
//! # fn main() -> std::io::Result<()> {
//! use regrow_chaos::proxy::{Fault, Proxy};
//! let proxy = Proxy::start(([127, 0, 0, 1], 8080).into())?;
//! // A client connects to proxy.address(); then the network goes silent, for new connections and for those there are:
//! proxy.set(Fault::Blackhole);
//! # Ok(())
//! # }
//! ```

mod inject;
mod link;
mod pump;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use self::inject::Canned;
use self::link::Link;
use crate::port;
use crate::sync::lock;

/// More connections at a time are closed at once.
const MOST_CONNECTIONS: usize = 128;
/// How soon a change of the fault is noticed.
const GLANCE: Duration = Duration::from_millis(2);

/// What is wrong with the network. It holds for new connections and for those there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Every piece takes so long, each way.
    Latency(Duration),
    /// Connections are reset, new ones as soon as they are made.
    Reset,
    /// The server's side of a connection is closed towards the client; what the client says still gets there.
    HalfClose,
    /// Nothing is forwarded, and nothing lost: it goes on when the fault is over.
    Stall,
    /// After so many bytes from the server a connection is closed cleanly.
    Truncate(u64),
    /// The server's bytes come one by one, with this pause after each.
    Drip(Duration),
    /// Whatever is sent is lost, and nobody is told. Connections that lost something stay dead.
    Blackhole,
    /// Nobody listens, and connections are reset.
    Refuse,
    /// The next requests are answered so, and not forwarded.
    Answer(Canned),
}

/// A running proxy. It ends with everything that it started when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

/// What its threads share.
struct Shared {
    target: SocketAddr,
    fault: Mutex<Fault>,
    /// Counts the faults that were set.
    change: AtomicU64,
    closed: AtomicBool,
    open: AtomicUsize,
    accepted: AtomicUsize,
    injected: AtomicUsize,
    to_server: AtomicU64,
    to_client: AtomicU64,
    listens: AtomicBool,
}

impl Proxy {
    /// Listens on a port of its own, and forwards to `target`.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = port::bind_any()?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target,
            fault: Mutex::default(),
            change: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
            injected: AtomicUsize::new(0),
            to_server: AtomicU64::new(0),
            to_client: AtomicU64::new(0),
            listens: AtomicBool::new(true),
        });
        let own = Arc::clone(&shared);
        let listening = spawn(move || own.listen(listener, address))?;
        Ok(Self { address, shared, listening: Some(listening) })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on this is wrong. Returns when nobody listens any more, or somebody does again.
    pub fn set(&self, fault: Fault) {
        let listens = fault != Fault::Refuse;
        *self.shared.fault() = fault;
        self.shared.change.fetch_add(1, Ordering::SeqCst);
        while self.shared.listens.load(Ordering::SeqCst) != listens {
            thread::sleep(GLANCE);
        }
    }

    /// How many connections were accepted.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many of them are open.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many bytes the server was sent.
    pub fn bytes_to_server(&self) -> u64 {
        self.shared.to_server.load(Ordering::SeqCst)
    }

    /// How many bytes the client was sent.
    pub fn bytes_to_client(&self) -> u64 {
        self.shared.to_client.load(Ordering::SeqCst)
    }

    /// How many requests were answered by [`Fault::Answer`].
    pub fn injected(&self) -> usize {
        self.shared.injected.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        if let Some(listening) = self.listening.take() {
            // A thread that panicked has ended, too.
            let _ = listening.join();
        }
        while self.open_connections() > 0 {
            thread::sleep(GLANCE);
        }
    }
}

impl Shared {
    fn fault(&self) -> MutexGuard<'_, Fault> {
        lock(&self.fault)
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Accepts while the fault allows it.
    fn listen(self: &Arc<Self>, listener: TcpListener, address: SocketAddr) {
        let mut listener = Some(listener);
        while !self.is_closed() {
            let refuses = *self.fault() == Fault::Refuse;
            match &listener {
                Some(_) if refuses => listener = None,
                Some(listener) => self.accept(listener),
                None if !refuses => listener = port::bind(address).ok(),
                None => thread::sleep(GLANCE),
            }
            self.listens.store(listener.is_some(), Ordering::SeqCst);
        }
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        if !port::is_readable(listener, GLANCE) {
            return;
        }
        let Ok((client, _)) = listener.accept() else { return }; // It left again.
        self.accepted.fetch_add(1, Ordering::SeqCst);
        if self.open.load(Ordering::SeqCst) >= MOST_CONNECTIONS {
            return;
        }
        self.open.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(self);
        let link = spawn(move || {
            pump::run(&Link::new(&shared, client));
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
        if link.is_err() {
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("proxy".into()).stack_size(128 * 1024).spawn(work)
}
