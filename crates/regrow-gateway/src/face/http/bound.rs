//! Serving: connections are taken until the shutdown, and then brought to an end in good order.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use regrow::ErrorStyle;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::census::Census;
use super::guard::Guard;
use super::options::Limits;
use super::{Face, connection, route};
use crate::admit::Admit;

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
    pub(super) guard: Guard,
    pub(super) sse: bool,
    pub(super) style: ErrorStyle,
    pub(super) limits: Limits,
    pub(super) census: Arc<Census>,
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
    pub fn census(&self) -> Arc<Census> {
        self.census.clone()
    }

    /// Serves until `shutdown` resolves, and then as long as answers need, within their limit. `more` are the operator's pages: the
    /// same guards stand before them, and `/livez` and `/readyz` need no token.
    pub async fn serve(
        self,
        admit: Arc<dyn Admit>,
        more: Router,
        shutdown: impl Future<Output = ()>,
    ) -> Parting {
        let Bound { listeners, acceptor, guard, sse, style, limits, census, .. } = self;
        let face = Face::new(admit, style, limits.clone(), census.clone());
        let router = route::router(face.clone(), guard, more, sse);
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut short = false;
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let socket = tokio::select! {
                () = &mut shutdown => break,
                accepted = accept(&listeners) => accepted,
                // One that panicked was reported, and is over like any other.
                Some(_) = connections.join_next() => continue,
                now = sweep.tick() => {
                    face.sweep(now);
                    continue;
                }
            };
            let socket = match socket {
                Ok(socket) => socket,
                Err(error) => {
                    if !std::mem::replace(&mut short, true) {
                        tracing::warn!(%error, "no connection can be taken now; it is tried on");
                    }
                    sleep(PAUSE).await; // Most likely too many files are open; asking at once again would only spin.
                    continue;
                }
            };
            short = false;
            let Some(counted) = census.connect(limits.connections) else {
                // If the client hears nothing of it, it sees the connection closed.
                let _ = connection::turn_away(&socket);
                continue;
            };
            let (acceptor, router, limits) = (acceptor.clone(), router.clone(), limits.clone());
            let watcher = graceful.watcher();
            connections.spawn(async move {
                connection::serve(socket, acceptor, router, &limits, watcher).await;
                drop(counted);
            });
        }
        drop(listeners);
        end(&face, graceful, &mut connections).await
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

/// Lets answers finish, ends streams, and closes what is left.
async fn end(face: &Face, graceful: GracefulShutdown, connections: &mut JoinSet<()>) -> Parting {
    let mut ended = std::pin::pin!(graceful.shutdown());
    let until = Instant::now() + face.limits.drain;
    face.close();
    tokio::select! {
        biased; // Connections are told to take no more requests when this is first polled.
        () = &mut ended => {}
        () = face.census.all_answered() => {}
        () = sleep_until(until) => {}
    }
    let unanswered = face.census.counts().calls;
    face.end();
    // Those that are not done by then are closed.
    let _ = timeout(LAST_BYTES, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
    Parting { unanswered }
}
