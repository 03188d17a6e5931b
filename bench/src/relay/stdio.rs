//! A client on standard input and output.

use std::io;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use memchr::memrchr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::outbox::Outbox;
use crate::frame::{Members, scan, string_member};

/// Reads whole lines. Returns none at the end of the stream.
pub(super) async fn read_lines<'a>(
    pipe: &mut Receiver,
    buffer: &'a mut BytesMut,
    done: &mut usize,
) -> io::Result<Option<&'a [u8]>> {
    buffer.advance(*done);
    loop {
        let new = buffer.len();
        buffer.reserve(64 * 1024);
        if pipe.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
        if let Some(at) = memrchr(b'\n', &buffer[new..]) {
            *done = new + at + 1;
            return Ok(Some(&buffer[..*done]));
        }
    }
}

/// The lines, without their ends.
pub(super) fn split(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines.split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1])
}

pub(super) async fn to_stdio(server: &[String]) -> io::Result<()> {
    let (client_input, client_output) = crate::pipes::own()?;
    let mut command = Command::new(&server[0]);
    let (mut child, server_input, server_output) = crate::pipes::start(command.args(&server[1..]))?;
    let upward = tokio::spawn(forward(client_input, server_input));
    forward(server_output, client_output).await?;
    upward.abort();
    child.wait().map(|_| ())
}

/// Ids stay as they are: there is only one client.
async fn forward(mut from: Receiver, mut to: Sender) -> io::Result<()> {
    let (mut buffer, mut done) = (BytesMut::new(), 0);
    while let Some(lines) = read_lines(&mut from, &mut buffer, &mut done).await? {
        if split(lines).any(|line| scan(line).is_none()) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        to.write_all(lines).await?;
    }
    Ok(())
}

pub(super) async fn to_http(url: String) -> io::Result<()> {
    let (mut input, output) = crate::pipes::own()?;
    let server = Arc::new(Server {
        url,
        client: Client::builder(TokioExecutor::new()).build(super::http::connector()),
        session: OnceLock::new(),
        outbox: Outbox::default(),
    });
    let writer = server.clone();
    tokio::spawn(async move { writer.outbox.write_to(output).await });
    let (mut buffer, mut done) = (BytesMut::new(), 0);
    while let Some(lines) = read_lines(&mut input, &mut buffer, &mut done).await? {
        for line in split(lines) {
            let Some(members) = scan(line) else { return Err(io::ErrorKind::InvalidData.into()) };
            let is_call = members.id.is_some()
                && members.method.clone().is_some_and(|method| &line[method] != b"\"initialize\"");
            let (server, line) = (server.clone(), Bytes::copy_from_slice(line));
            let exchange = async move { server.post(line, members).await };
            // The handshake and notifications must arrive before the calls that follow.
            if is_call { drop(tokio::spawn(exchange)) } else { exchange.await? }
        }
    }
    Ok(())
}

struct Server {
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    session: OnceLock<HeaderValue>,
    outbox: Outbox,
}

impl Server {
    async fn post(&self, line: Bytes, members: Members) -> io::Result<()> {
        let mut request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream");
        if let Some(session) = self.session.get() {
            request = request.header("mcp-session-id", session);
        }
        let version = string_member(&line, "io.modelcontextprotocol/protocolVersion");
        if let (Some(version), Some(method)) = (version, members.method) {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", &line[method.start + 1..method.end - 1]);
            if let Some(name) = string_member(&line, "name") {
                request = request.header("mcp-name", name);
            }
        }
        let request = request.body(Full::new(line)).map_err(io::Error::other)?;
        let (head, body) = self.client.request(request).await.map_err(io::Error::other)?.into_parts();
        if let Some(session) = head.headers.get("mcp-session-id") {
            self.session.get_or_init(|| session.clone());
        }
        let is_stream =
            head.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event"));
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if is_stream {
            let data = body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
            data.for_each(|data| self.outbox.push(|out| out.extend_from_slice(data.trim_ascii())));
        } else if !body.is_empty() {
            self.outbox.push(|out| out.extend_from_slice(&body));
        }
        Ok(())
    }
}
