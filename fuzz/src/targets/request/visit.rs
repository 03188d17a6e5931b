//! One visit of a client: what it was given before, what it sends, and what becomes of it.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body::Body as _;
use regrow_protocol::version::MODERN;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use super::Sent;
use super::house::House;

/// Streams that have no end of their own are read for so long, and so long a response is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
pub(super) const SESSION: &str = "mcp-session-id";
/// Stands for an id that we gave.
pub(super) const GIVEN: &str = "@";

/// What became of a request.
pub(super) struct Visit {
    pub(super) headers: HeaderMap,
    pub(super) answered: Answered,
    /// What servers heard since the request was sent.
    pub(super) heard: Vec<(&'static str, String)>,
}

/// What the client was told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) status: u16,
    /// Messages, in the order of their texts.
    pub(super) messages: Vec<String>,
}

impl Visit {
    /// With a body that comes in these pieces, at a face of its own.
    pub(super) async fn of(house: &House, sent: &Sent, pieces: &[&[u8]]) -> Visit {
        let pages = house.pages();
        let (mut headers, mut uri) = (sent.headers.clone(), sent.uri.clone());
        // Whoever names a session finds that there is one, its own or another's.
        if let Some(id) = headers.get_mut(SESSION)
            && let Some(given) = session(&pages, uri.path()).await
            && id == GIVEN
        {
            *id = given;
        }
        let mut stream = None;
        if uri.query() == Some("session=@") {
            let mut opened =
                send(&pages, "GET", &uri.path().replace("messages", "sse"), headers_of([]), &[]).await;
            let address = events(&read_once(&mut opened).await, "endpoint").pop();
            uri = address.and_then(|address| address.parse().ok()).unwrap_or(uri);
            stream = Some(opened);
        }
        drop(house.heard()); // From before.
        let response = send(&pages, sent.method.as_str(), &uri.to_string(), headers, pieces).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut messages = told(response).await;
        if let Some(stream) = stream {
            messages.extend(told(stream).await);
        }
        messages.sort();
        sleep(Duration::from_millis(1)).await; // What was given up may still be on its way.
        Visit { headers, answered: Answered { status, messages }, heard: house.heard() }
    }
}

async fn send(pages: &Router, method: &str, uri: &str, mut headers: HeaderMap, pieces: &[&[u8]]) -> Response {
    headers.entry(HOST).or_insert(HeaderValue::from_static("localhost"));
    let body = Pieces(pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect());
    let mut request = Request::new(Body::new(body));
    *request.method_mut() = method.parse().expect("it was one before");
    *request.uri_mut() = uri.parse().expect("it was one before");
    *request.headers_mut() = headers;
    let answered = timeout(PATIENCE, pages.clone().oneshot(request)).await;
    answered.expect("a request is answered, or its stream begins").unwrap_or_else(|never| match never {})
}

/// The tools by the names that clients are shown: of each the server, and what it is called there.
pub(super) type Tools = BTreeMap<String, (String, String)>;

pub(super) async fn tools(house: &House) -> Tools {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {},
    });
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
    let headers = headers_of([("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")]);
    let listed = send(&house.pages(), "POST", "/mcp", headers, &[list.to_string().as_bytes()]).await;
    let listed: Value = serde_json::from_str(&told(listed).await[0]).expect("a list is JSON");
    let tools = listed["result"]["tools"].as_array().expect("a list has tools");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    tools.iter().map(|tool| (text(&tool["name"]), (text(&tool["server"]), text(&tool["tool"])))).collect()
}

/// A session at this place, if there can be one.
async fn session(pages: &Router, path: &str) -> Option<HeaderValue> {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" },
    });
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let response = send(pages, "POST", path, headers_of([]), &[greeting.to_string().as_bytes()]).await;
    response.headers().get(SESSION).cloned()
}

fn headers_of<const N: usize>(more: [(&'static str, &'static str); N]) -> HeaderMap {
    let all = [("content-type", "application/json")].into_iter().chain(more);
    all.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// The messages of a response; nothing more comes after some time.
async fn told(mut response: Response) -> Vec<String> {
    let mut body = vec![];
    let read = async {
        loop {
            let piece = read_once(&mut response).await;
            if piece.is_empty() {
                return;
            }
            body.extend_from_slice(&piece);
        }
    };
    let _ = timeout(PATIENCE, read).await; // A stream may go on.
    match response.headers().get(CONTENT_TYPE) {
        Some(kind) if kind == "text/event-stream" => events(&body, "message"),
        _ if body.is_empty() => vec![],
        _ => vec![String::from_utf8(body).expect("what we say is text")],
    }
}

/// The next piece of a response; nothing at its end.
async fn read_once(response: &mut Response) -> Bytes {
    let frame = poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await;
    frame.and_then(Result::ok).and_then(|frame| frame.into_data().ok()).unwrap_or_default()
}

/// The data of the events of this kind, as any reader of such streams would find it: a line ends in one of three ways.
fn events(stream: &[u8], kind: &str) -> Vec<String> {
    let text = std::str::from_utf8(stream).expect("what we say is text");
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let kind = format!("event: {kind}");
    let events = text.split("\n\n").filter(|event| event.lines().any(|line| line == kind));
    let data = |event: &str| {
        event.lines().filter_map(|line| line.strip_prefix("data: ")).collect::<Vec<_>>().join("\n")
    };
    events.map(data).collect()
}

/// A body that comes in pieces.
struct Pieces(VecDeque<Bytes>);

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(http_body::Frame::data(piece))))
    }
}
