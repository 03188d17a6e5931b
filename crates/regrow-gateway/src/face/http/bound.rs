//! Serving: until the shutdown, and then until nobody needs an answer any more.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use regrow::ErrorStyle;
use regrow::core::Manner;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::face_stats::FaceStats;
use super::guard::Guard;
use super::options::ClientLimits;
use super::peer::Peers;
use super::route::Pages;
use super::threads::Threads;
use super::{Face, connection};
use crate::admit::Admit;
use crate::shares::Shares;

/// How often it is looked for what nobody uses.
const SWEEP: Duration = Duration::from_secs(10);
/// After the system could not give us a connection.
const PAUSE: Duration = Duration::from_millis(100);
/// For streams that were ended to be told so.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// The HTTP face, at its addresses.
pub struct Bound {
    pub(super) listeners: Vec<TcpListener>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) peers: Peers,
    pub(super) guard: Guard,
    pub(super) sse: bool,
    pub(super) style: ErrorStyle,
    pub(super) limits: ClientLimits,
    pub(super) shares: Arc<Shares>,
    pub(super) face_stats: Arc<FaceStats>,
    pub(super) threads: Vec<Handle>,
}

/// How the face ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parting {
    /// Calls that had no answer when their time was up.
    pub unanswered: usize,
}

impl Bound {
    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Its numbers, also while it serves.
    pub fn face_stats(&self) -> Arc<FaceStats> {
        self.face_stats.clone()
    }

    /// Serves connections on these runtimes, too, and not only on the one that accepts them. Each of them is to run on a thread of its own.
    pub fn with_threads(mut self, runtimes: Vec<Handle>) -> Bound {
        self.threads = runtimes;
        self
    }

    /// Serves until `shutdown` resolves, and then as long as answers need, within their limit. Then `end_servers` ends the servers, planned if
    /// all calls are answered: otherwise it must make those in flight fail, and their clients get that. Until then new requests are refused.
    ///
    /// `more` are the operator's pages: the same guards stand before them, and a request to `/livez` and `/readyz` need not be anybody's. Their
    /// requests have a [`Principal`](crate::admit::Principal) as an extension, which those two may lack.
    pub async fn serve<E: Future<Output = ()>>(
        self,
        admit: Arc<dyn Admit>,
        more: Router,
        shutdown: impl Future<Output = ()>,
        end_servers: impl FnOnce(Manner) -> E,
    ) -> Parting {
        let Bound {
            listeners, acceptor, peers, guard, sse, style, limits, shares, face_stats, threads, ..
        } = self;
        let face = Face::new(admit, guard.audit.clone(), style, limits, shares, face_stats);
        let pages = Arc::new(Pages::new(face.clone(), guard, more, sse));
        let mut door = Door {
            face: face.clone(),
            listeners,
            acceptor,
            peers,
            pages,
            threads: Threads::new(threads),
            connections: JoinSet::new(),
            short: false,
        };
        let (graceful, late) = (watch::Sender::new(()), watch::Sender::new(()));
        door.open_until(&graceful, shutdown).await;
        face.close();
        door.open_until(&late, answered(&face, graceful)).await;
        let unanswered = face.face_stats.counts().calls;
        if unanswered == 0 {
            face.end();
            door.open_until(&late, end_servers(Manner::Planned)).await;
        } else {
            // Clients stay to get the errors of their calls.
            door.open_until(&late, end_servers(Manner::Told)).await;
            // Calls that waited for their turn fail after those that ran.
            let answered = timeout(LAST_BYTES, face.face_stats.all_answered());
            door.open_until(&late, async { drop(answered.await) }).await;
            face.end();
        }
        door.close(late).await;
        Parting { unanswered }
    }
}

/// Connections take no more requests. Resolves when all of them have ended.
async fn shut_down(connections: watch::Sender<()>) {
    connections.send_replace(());
    connections.closed().await;
}

/// Resolves when the connections that there were have ended, or all calls are answered, or their time is over.
async fn answered(face: &Face, graceful: watch::Sender<()>) {
    let until = Instant::now() + face.limits.drain;
    tokio::select! {
        biased; // Connections are told to take no more requests when this is first polled.
        () = shut_down(graceful) => {}
        () = face.face_stats.all_answered() => {}
        () = sleep_until(until) => {}
    }
}

/// Where clients come in.
struct Door {
    face: Arc<Face>,
    listeners: Vec<TcpListener>,
    acceptor: Option<TlsAcceptor>,
    peers: Peers,
    pages: Arc<Pages>,
    threads: Threads,
    connections: JoinSet<()>,
    /// The last connection could not be taken.
    short: bool,
}

impl Door {
    /// Takes connections until this resolves.
    async fn open_until(&mut self, graceful: &watch::Sender<()>, until: impl Future<Output = ()>) {
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut until = std::pin::pin!(until);
        loop {
            let socket = tokio::select! {
                biased; // What has come by the end must not keep it from ending.
                () = &mut until => return,
                accepted = accept(&self.listeners) => accepted,
                // One that panicked was reported, and is over like any other.
                Some(_) = self.connections.join_next() => continue,
                now = sweep.tick() => {
                    self.face.sweep(now);
                    continue;
                }
            };
            match socket {
                Ok(socket) => {
                    self.short = false;
                    self.take(socket, graceful);
                    // One that gives way to it is closed before the next comes.
                    yield_now().await;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.short, true) {
                        tracing::warn!(%error, "cannot accept connections now; retrying");
                    }
                    sleep(PAUSE).await; // Most likely too many files are open; asking at once again would only spin.
                }
            }
        }
    }

    fn take(&mut self, socket: TcpStream, graceful: &watch::Sender<()>) {
        let limits = self.face.limits.clone();
        let Some(slot) = self.face.face_stats.connect() else {
            // If the client hears nothing of it, it sees the connection closed.
            let _ = connection::turn_away(&socket);
            return;
        };
        // Now, while the client's socket is most likely still there.
        let peer = self.peers.peer(&socket);
        let (acceptor, pages, shutdown) = (self.acceptor.clone(), self.pages.clone(), graceful.subscribe());
        let (other, counted) = self.threads.next();
        let serve = async move |socket| {
            let _counted = counted;
            connection::serve(socket, peer, slot, acceptor, pages, &limits, shutdown).await;
        };
        match other {
            None => drop(self.connections.spawn(serve(socket))),
            Some(other) => {
                let Ok(socket) = socket.into_std() else { return };
                let serving = async move {
                    if let Ok(socket) = TcpStream::from_std(socket) {
                        serve(socket).await;
                    }
                };
                self.connections.spawn_on(serving, other);
            }
        }
    }

    /// Takes nobody any more. What is not said soon is not said.
    async fn close(mut self, graceful: watch::Sender<()>) {
        drop(std::mem::take(&mut self.listeners));
        let mut connections = self.connections;
        let said = async {
            let ended = async { while connections.join_next().await.is_some() {} };
            tokio::join!(shut_down(graceful), ended)
        };
        // Those that are not done by then are closed.
        let _ = timeout(LAST_BYTES, said).await;
        connections.shutdown().await;
    }
}

/// The next connection, from any listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<TcpStream> {
    poll_fn(|cx| {
        for listener in listeners {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted.map(|(socket, _)| socket));
            }
        }
        Poll::Pending
    })
    .await
}
