//! A connection over plain HTTP that we use ourselves, for the stream of what a server says by itself. That lasts as long as its
//! session, and is silent most of the time: what the pool keeps for each connection, 25 KiB, would be the larger part of what an
//! idle session costs.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use httparse::{EMPTY_HEADER, Status};
use regrow_core::Fault;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;
use url::{Position, Url};

use super::client::{HttpClient, OUR_NAME};
use super::diagnose::{self, not_http};
use super::framing::{Framing, Piece};
use crate::within::within;

/// A connection of its own, from the head of an answer on.
pub(super) struct Wire {
    socket: TcpStream,
    read: BytesMut,
    /// So much is made room for when more is to be read: more and more while that is filled.
    room: usize,
    framing: Framing,
    /// The server has said that it closes it.
    closes: bool,
}

const ROOM: usize = 512;
const MAX_ROOM: usize = 64 << 10;
const MAX_HEAD: usize = 128 << 10;
const MAX_HEADERS: usize = 128;

impl Wire {
    /// Sends a request, and reads the head of the answer.
    pub(super) async fn ask(
        mut socket: TcpStream,
        request: &[u8],
    ) -> Result<(StatusCode, HeaderMap, Wire), Fault> {
        socket.write_all(request).await.map_err(|error| diagnose::broken(&error))?;
        let (read, framing) = (BytesMut::new(), Framing::UntilClosed);
        let mut wire = Wire { socket, read, room: ROOM, framing, closes: false };
        let (status, headers) = wire.head().await?;
        wire.framing =
            Framing::of(status, &headers).ok_or_else(|| not_http(&"a body of no certain length"))?;
        wire.closes =
            headers.get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        Ok((status, headers, wire))
    }

    async fn head(&mut self) -> Result<(StatusCode, HeaderMap), Fault> {
        loop {
            if let Some((length, status, headers)) = head(&self.read)? {
                self.read.advance(length);
                if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                    return Ok((status, headers));
                }
                continue;
            }
            if self.read.len() >= MAX_HEAD {
                return Err(not_http(&"an endless head"));
            }
            if self.read_more().await? == 0 {
                return Err(diagnose::closed_early());
            }
        }
    }

    /// The next of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            match self.framing.next(&mut self.read) {
                Some(Piece::Data(data)) => return Ok(Some(data)),
                Some(Piece::End) => return Ok(None),
                Some(Piece::More) => {}
                None => return Err(Fault::Broken { reason: "the stream of the server is garbled".into() }),
            }
            if self.read_more().await? == 0 {
                return if self.framing.may_end() { Ok(None) } else { Err(Fault::AnswerCut) };
            }
        }
    }

    /// The connection, if the answer was read to its end and another request may follow.
    pub(super) fn into_connection(self) -> Option<TcpStream> {
        (self.framing.is_over() && self.read.is_empty() && !self.closes).then_some(self.socket)
    }

    async fn read_more(&mut self) -> Result<usize, Fault> {
        self.read.reserve(self.room);
        let count = self.socket.read_buf(&mut self.read).await.map_err(|error| diagnose::broken(&error))?;
        self.room = if count >= self.room { (2 * self.room).min(MAX_ROOM) } else { ROOM };
        Ok(count)
    }
}

/// A connection outside of the pool.
pub(super) async fn connect(client: &HttpClient, url: &Url) -> Result<TcpStream, Fault> {
    let uri = Uri::try_from(&url[..Position::AfterPort]);
    let uri = uri.map_err(|error| diagnose::unreachable(error.to_string(), url, client))?;
    match within(client.connect, client.tcp.clone().oneshot(uri)).await {
        Some(Ok(connected)) => Ok(connected.into_inner()),
        Some(Err(error)) => Err(diagnose::unconnected(&error, url, client)),
        None => Err(diagnose::unreachable(diagnose::late(client), url, client)),
    }
}

/// A request as it is written.
pub(super) fn request(method: &Method, url: &Url, headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let mut text = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
    let mut add = |name: &HeaderName, value: &[u8]| {
        for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
            text.extend_from_slice(part);
        }
    };
    if !headers.contains_key(HOST) {
        add(&HOST, url[Position::BeforeHost..Position::AfterPort].as_bytes());
    }
    if !headers.contains_key(USER_AGENT) {
        add(&USER_AGENT, OUR_NAME.as_bytes());
    }
    // Where its body ends is said by us, whatever an operator's headers say.
    let ours = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];
    for (name, value) in headers.iter().filter(|(name, _)| !ours.contains(name)) {
        add(name, value.as_bytes());
    }
    if !body.is_empty() {
        add(&CONTENT_LENGTH, body.len().to_string().as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(body);
    text
}

/// The head at the beginning of what was read, and how long it is; none if it is not all there.
pub(super) fn head(read: &[u8]) -> Result<Option<(usize, StatusCode, HeaderMap)>, Fault> {
    let mut found = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut found);
    let length = match response.parse(read).map_err(|error| not_http(&error))? {
        Status::Complete(length) => length,
        Status::Partial => return Ok(None),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default()).map_err(|error| not_http(&error))?;
    let mut headers = HeaderMap::new();
    for header in response.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| not_http(&error))?;
        headers.append(name, HeaderValue::from_bytes(header.value).map_err(|error| not_http(&error))?);
    }
    Ok(Some((length, status, headers)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn an_operator_may_name_another_host_but_no_body() {
        let url = Url::parse("http://[::1]:8080/m%20cp?a=b").unwrap();
        let usual = format!("GET /m%20cp?a=b HTTP/1.1\r\nhost: [::1]:8080\r\nuser-agent: {OUR_NAME}\r\n\r\n");
        assert_eq!(request(&Method::GET, &url, &HeaderMap::new(), b""), usual.as_bytes());
        let given = [(USER_AGENT, "ours"), (CONTENT_LENGTH, "7"), (HOST, "a.example"), (CONNECTION, "close")];
        let given = given.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let given = request(&Method::GET, &url, &given.into_iter().collect(), b"");
        let given = String::from_utf8(given).unwrap();
        let mut lines: Vec<&str> = given.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["", "GET /m%20cp?a=b HTTP/1.1", "host: a.example", "user-agent: ours"]);
    }

    async fn fault(url: &str) -> Fault {
        let client = HttpClient::builder().no_proxy().connect(Duration::from_millis(300)).build().unwrap();
        let url = Url::parse(url).unwrap();
        match connect(&client, &url).await {
            Ok(socket) => {
                Wire::ask(socket, &request(&Method::GET, &url, &HeaderMap::new(), b"")).await.err().unwrap()
            }
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
