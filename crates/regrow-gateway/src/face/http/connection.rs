//! One connection of a client, plain or over TLS, from its first byte to its end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::aside::Aside;
use super::connections::{ConnectionInfo, Slot};
use super::header_timer::HeaderTimer;
use super::options::ClientLimits;
use super::peer::Peer;
use super::route::Pages;

/// Changes when connections are to take no more requests. Held until the connection has ended.
pub(super) type Shutdown = watch::Receiver<()>;

/// The most that is read at once. hyper begins with 8 KiB, and takes more while a client fills it: a body that comes in one piece is not copied.
const READ_BUFFER: usize = 128 << 10;
/// Requests at a time on one connection of HTTP/2.
const STREAMS: u32 = 256;
/// How often a silent connection of HTTP/2 is asked whether it still lives.
const PING: Duration = Duration::from_secs(30);

/// Serves it until it ends, or is closed: for the sake of others, or because no request on it was let in within the time for that.
pub(super) async fn serve(
    socket: TcpStream,
    peer: Peer,
    slot: Arc<Slot>,
    acceptor: Option<TlsAcceptor>,
    pages: Arc<Pages>,
    limits: &ClientLimits,
    shutdown: Shutdown,
) {
    let client = ConnectionInfo { peer, slot: Some(slot.clone()) };
    let unauthenticated = async {
        sleep(limits.unauthenticated_timeout).await;
        if slot.is_authenticated() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = speak(socket, client, acceptor, pages, limits, shutdown) => {}
        () = Aside::new(slot.hung_up()) => tracing::debug!("closed a connection to make room"),
        () = Aside::new(unauthenticated) => tracing::debug!("closed a connection without an accepted request"),
    }
}

async fn speak(
    socket: TcpStream,
    client: ConnectionInfo,
    acceptor: Option<TlsAcceptor>,
    pages: Arc<Pages>,
    limits: &ClientLimits,
    shutdown: Shutdown,
) {
    // Without it answers are only slower.
    let _ = socket.set_nodelay(true);
    let Some(acceptor) = acceptor else { return speak_http1(socket, client, pages, limits, shutdown).await };
    match timeout(limits.handshake_timeout, acceptor.accept(socket)).await {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            speak_http2(stream, client, pages, limits, shutdown).await;
        }
        Ok(Ok(stream)) => speak_http1(stream, client, pages, limits, shutdown).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake timed out"),
    }
}

async fn speak_http1(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: ConnectionInfo,
    pages: Arc<Pages>,
    limits: &ClientLimits,
    shutdown: Shutdown,
) {
    let service = service_fn(move |request| answer(&pages, &client, request));
    // hyper takes 100 headers at most. If it is told a number, even this one, it fills a table of that length for each request.
    let connection = http1::Builder::new()
        .timer(HeaderTimer::default())
        .header_read_timeout(limits.header_timeout)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(READ_BUFFER))
        .serve_connection(TokioIo::new(stream), service);
    finish(connection, shutdown).await;
}

async fn speak_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    client: ConnectionInfo,
    pages: Arc<Pages>,
    limits: &ClientLimits,
    shutdown: Shutdown,
) {
    let service = service_fn(move |request| answer(&pages, &client, request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(PING)
        .serve_connection(TokioIo::new(stream), service);
    finish(connection, shutdown).await;
}

fn answer(
    pages: &Arc<Pages>,
    client: &ConnectionInfo,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    let (pages, client) = (pages.clone(), client.clone());
    let (head, body) = request.into_parts();
    async move { Ok(pages.answer(&head, body, &client).await) }
}

/// Serves it to its end. From the shutdown on it takes no more requests.
async fn finish<C>(connection: C, mut shutdown: Shutdown)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    let mut connection = pin!(connection);
    let mut shutdown = Some(Aside::new(shutdown.changed()));
    let ended = poll_fn(|cx| {
        if shutdown.as_mut().is_some_and(|shutdown| pin!(shutdown).poll(cx).is_ready()) {
            shutdown = None;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "a connection broke");
    }
}

/// Says politely that there are too many, as far as the socket takes it at once.
pub(super) fn turn_away(socket: &TcpStream) -> io::Result<usize> {
    socket.try_write(
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    )
}
