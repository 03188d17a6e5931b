//! Clients over HTTP.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

use super::outbox::Outbox;
use super::stdio::{read_lines, split};
use crate::frame::{scan, with_id};

pub(super) fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}

/// Prints the port, then handles each request.
async fn listen<F, R, B>(handle: F) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let handle = handle.clone();
        let service = service_fn(move |request| {
            let response = handle(request);
            async move { Ok::<_, Infallible>(response.await) }
        });
        // A connection that breaks concerns its client only.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

pub(super) async fn to_http(url: String) -> io::Result<()> {
    let url: Uri = url.parse().map_err(io::Error::other)?;
    let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build(connector());
    listen(move |mut request| {
        *request.uri_mut() = url.clone();
        request.headers_mut().remove(HOST);
        let response = client.request(request);
        async move {
            match response.await {
                Ok(response) => response.map(BodyExt::boxed),
                Err(error) => {
                    let text = Full::new(Bytes::from(error.to_string())).map_err(|never| match never {});
                    let mut response = Response::new(text.boxed());
                    *response.status_mut() = StatusCode::BAD_GATEWAY;
                    response
                }
            }
        }
    })
    .await
}

pub(super) async fn to_stdio(server: &[String]) -> io::Result<()> {
    let mut command = Command::new(&server[0]);
    let (_child, input, output) = crate::pipes::start(command.args(&server[1..]))?;
    let pipe = Arc::new(Pipe::default());
    let (writer, reader) = (pipe.clone(), pipe.clone());
    tokio::spawn(async move { writer.outbox.write_to(input).await });
    tokio::spawn(async move { reader.read(output).await });
    listen(move |request| {
        let pipe = pipe.clone();
        async move { pipe.exchange(request).await }
    })
    .await
}

/// The server's pipe, and the calls in flight on it.
#[derive(Default)]
struct Pipe {
    outbox: Outbox,
    calls: Mutex<Calls>,
}

/// Each call has the number of its place as its id.
#[derive(Default)]
struct Calls {
    places: Vec<Option<Call>>,
    free: Vec<usize>,
}

struct Call {
    /// The client's own id.
    id: Bytes,
    response: oneshot::Sender<Vec<u8>>,
}

impl Calls {
    fn insert(&mut self, call: Call) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(call);
        place
    }

    fn remove(&mut self, id: &[u8]) -> Option<Call> {
        let place: usize = std::str::from_utf8(id).ok()?.parse().ok()?;
        let call = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(call)
    }
}

impl Pipe {
    async fn exchange(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::POST {
            return status(StatusCode::METHOD_NOT_ALLOWED);
        }
        let Ok(body) = request.into_body().collect().await else { return status(StatusCode::BAD_REQUEST) };
        let body = body.to_bytes();
        let Some(members) = scan(&body) else { return status(StatusCode::BAD_REQUEST) };
        let (Some(id), Some(_)) = (members.id, members.method) else {
            self.outbox.push(|out| out.extend_from_slice(&body));
            return status(StatusCode::ACCEPTED);
        };
        let (response, waiting) = oneshot::channel();
        let call = Call { id: body.slice(id.clone()), response };
        let place = self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
        self.outbox.push(|out| with_id(&body, &id, place.to_string().as_bytes(), out));
        let Ok(line) = waiting.await else { return status(StatusCode::BAD_GATEWAY) };
        let mut response = Response::new(Full::new(Bytes::from(line)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    async fn read(&self, mut output: Receiver) -> io::Result<()> {
        let (mut buffer, mut done) = (BytesMut::new(), 0);
        while let Some(lines) = read_lines(&mut output, &mut buffer, &mut done).await? {
            for line in split(lines) {
                let Some(id) = scan(line).and_then(|members| members.id) else { continue };
                let call =
                    self.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&line[id.clone()]);
                let Some(call) = call else { continue };
                let mut response = vec![];
                with_id(line, &id, &call.id, &mut response);
                let _ = call.response.send(response); // The client may have left.
            }
        }
        Ok(())
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
