//! A connection of its own over plain HTTP, for the stream of messages that a server sends unasked.
//!
//! The task that waits for the response also drives the connection. So the request for the stream is written as soon as it is
//! polled, and no later call can overtake it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use regrow_core::Fault;
use tokio::net::TcpStream;
use tower::ServiceExt;
use url::{Position, Url};

use super::client::{HttpClient, OUR_NAME};
use super::diagnose::{self, At};
use crate::within::within;

/// A connection outside of the pool.
pub(super) struct Dedicated {
    requests: SendRequest<reqwest::Body>,
    driver: Driver,
}

/// Reads and writes; none once the connection has ended.
struct Driver(Option<Box<Connection<TokioIo<TcpStream>, reqwest::Body>>>);

impl Dedicated {
    pub(super) async fn connect(client: &HttpClient, url: &Url) -> Result<Dedicated, Fault> {
        let uri = Uri::try_from(&url[..Position::AfterPort]);
        let uri = uri.map_err(|error| diagnose::unreachable(error.to_string(), url, client))?;
        let socket = match within(client.connect, client.tcp.clone().oneshot(uri)).await {
            Some(Ok(connected)) => connected,
            Some(Err(error)) => return Err(diagnose::unconnected(&error, url, client)),
            None => return Err(diagnose::unreachable(diagnose::late(client), url, client)),
        };
        let connection = http1::handshake(socket).await;
        let (requests, driver) = connection.map_err(|error| diagnose::plain(&error, At::Start))?;
        Ok(Dedicated { requests, driver: Driver(Some(Box::new(driver))) })
    }

    /// Sends a request and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        request: Request<reqwest::Body>,
    ) -> Result<http::Response<Incoming>, Fault> {
        let sending = self.requests.send_request(request);
        self.driver.until(sending).await.map_err(|error| diagnose::plain(&error, At::Start))
    }

    /// The next part of a response's body; none at its end.
    pub(super) async fn chunk(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Fault> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx));
            match self.driver.until(frame).await {
                None => return Ok(None),
                Some(Err(error)) => return Err(diagnose::plain(&error, At::Body)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// Whether the last response was read to its end and another request may follow.
    pub(super) fn is_ready(&self) -> bool {
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
            if let Some(driver) = &mut self.0
                && Pin::new(driver).poll(cx).is_ready()
            {
                self.0 = None; // `work` reports why.
            }
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// A request as the pool would send it.
pub(super) fn request(
    method: &Method,
    url: &Url,
    headers: &HeaderMap,
    body: reqwest::Body,
) -> Result<Request<reqwest::Body>, http::Error> {
    let uri = &url[Position::BeforePath..Position::AfterQuery];
    let mut request = Request::builder().method(method).uri(uri).body(body)?;
    let host = HeaderValue::from_str(&url[Position::BeforeHost..Position::AfterPort])?;
    let ours = [(HOST, host), (USER_AGENT, HeaderValue::from_static(OUR_NAME))];
    request.headers_mut().extend(ours);
    for (name, value) in headers {
        request.headers_mut().insert(name, value.clone());
    }
    // The connection says where the body ends, whatever an operator's headers say.
    for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
        request.headers_mut().remove(name);
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    fn get(url: &Url, headers: &HeaderMap) -> Request<reqwest::Body> {
        request(&Method::GET, url, headers, reqwest::Body::default()).unwrap()
    }

    #[test]
    fn an_operator_may_name_another_host_but_no_body() {
        let url = Url::parse("http://[::1]:8080/m%20cp?a=b").unwrap();
        let usual = get(&url, &HeaderMap::new());
        assert_eq!((usual.method(), usual.uri().to_string().as_str()), (&Method::GET, "/m%20cp?a=b"));
        let headers = |host, agent| {
            [(HOST, host), (USER_AGENT, agent)].map(|(name, value)| (name, HeaderValue::from_static(value)))
        };
        assert_eq!(*usual.headers(), headers("[::1]:8080", OUR_NAME).into_iter().collect());
        let body = [
            (CONTENT_LENGTH, HeaderValue::from_static("7")),
            (CONNECTION, HeaderValue::from_static("close")),
        ];
        let given = headers("a.example", "ours").into_iter().chain(body).collect();
        assert_eq!(*get(&url, &given).headers(), headers("a.example", "ours").into_iter().collect());
    }

    async fn fault(url: &str) -> Fault {
        let client = HttpClient::builder().no_proxy().connect(Duration::from_secs(60)).build().unwrap();
        let url = Url::parse(url).unwrap();
        match Dedicated::connect(&client, &url).await {
            Ok(mut connection) => connection.send(get(&url, &HeaderMap::new())).await.err().unwrap(),
            Err(fault) => fault,
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_told_as_for_other_requests() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Fault::Unreachable { address, reason } = fault(&format!("http://{nobody}/")).await else {
            panic!()
        };
        assert_eq!(address, nobody.to_string());
        assert!(reason.contains("refused"), "{reason}");
        let Fault::UnknownHost { host, .. } = fault("http://no-such-host.invalid/").await else { panic!() };
        assert_eq!(host, "no-such-host.invalid");
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", silent.local_addr().unwrap());
        std::thread::spawn(move || silent.accept().unwrap().0.read(&mut [0; 1000]).unwrap());
        assert_eq!(fault(&url).await, diagnose::closed_early());
    }
}
