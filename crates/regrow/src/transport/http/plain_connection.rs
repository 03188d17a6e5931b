//! A connection over plain HTTP, driven by the task that uses it: there is no other task that would have to be woken for each message.
//!
//! So a request is written as soon as it is polled. That is why the request for a server's own stream cannot be overtaken by a later call.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use regrow_core::Fault;
use tokio::net::TcpStream;

use super::broken::{At, plain};
use super::departure::Departure;

pub(super) struct PlainConnection {
    requests: SendRequest<Departure>,
    driver: Driver,
}

/// Reads and writes; none once the connection has ended.
struct Driver(Option<Box<Connection<TokioIo<TcpStream>, Departure>>>);

/// Why there is no response.
pub(super) struct Unanswered {
    pub(super) fault: Fault,
    /// The request, if the connection was closed before any of it was written.
    pub(super) unsent: Option<Request<Departure>>,
}

impl PlainConnection {
    pub(super) async fn new(socket: TokioIo<TcpStream>) -> Result<PlainConnection, Fault> {
        let connection = http1::handshake(socket).await;
        let (requests, driver) = connection.map_err(|error| plain(&error, At::Start))?;
        Ok(PlainConnection { requests, driver: Driver(Some(Box::new(driver))) })
    }

    /// Sends a request and waits for the head of the response.
    pub(super) fn send(
        &mut self,
        request: Request<Departure>,
    ) -> impl Future<Output = Result<http::Response<Incoming>, Box<Unanswered>>> {
        // Boxed: it has room for the request, and so would every future that waits for it.
        let mut sending = Box::pin(self.requests.try_send_request(request));
        poll_fn(move |cx| {
            // The driver first: before it has read something there is no response.
            self.driver.poll(cx);
            sending.as_mut().poll(cx).map_err(|mut error| {
                let unsent = error.take_message();
                Box::new(Unanswered { fault: plain(&error.into_error(), At::Start), unsent })
            })
        })
    }

    /// The next part of a response's body; none at its end.
    pub(super) async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            match self.driver.until(frame).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(plain(&error, At::Body)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Whether the last response was read to its end, the server keeps the connection open, and another request may follow.
    pub(super) fn is_usable(&mut self) -> bool {
        // Nobody is to be woken for it: the next to use it looks again.
        self.driver.poll(&mut Context::from_waker(Waker::noop()));
        self.requests.is_ready()
    }
}

impl Driver {
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(driver) = &mut self.0
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.0 = None; // Who waits for a response learns why.
        }
    }
}
