//! A client that writes every byte as the test wants it, and reads what comes back.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Wire {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
    /// What was read of a stream of events, and not yet looked at.
    text: String,
    chunked: bool,
}

/// The start of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: HashMap<String, String>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: String,
    pub(crate) retry: String,
    pub(crate) is_comment: bool,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> Wire {
        let stream = BufReader::new(TcpStream::connect(address).await.expect("somebody listens"));
        Wire { stream, address, text: String::new(), chunked: false }
    }

    pub(crate) async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the connection stands");
    }

    /// A request with the headers that every client sends, and these.
    pub(crate) async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let usual = [
            ("Host", self.address.to_string()),
            ("Accept", "application/json, text/event-stream".into()),
            ("Content-Type", "application/json".into()),
            ("Content-Length", body.len().to_string()),
        ];
        for (name, value) in &usual {
            if !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(format!("{head}\r\n{body}")).await;
    }

    pub(crate) async fn head(&mut self) -> Head {
        let mut lines = vec![];
        loop {
            let mut line = String::new();
            let read = self.stream.read_line(&mut line).await.expect("the connection stands");
            assert!(read > 0, "the connection ended inside a head: {lines:?}");
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let status = lines[0].split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let header = |line: &String| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: HashMap<_, _> = lines[1..].iter().filter_map(header).collect();
        self.chunked = headers.get("transfer-encoding").is_some_and(|encoding| encoding == "chunked");
        self.text.clear();
        Head { status, headers }
    }

    /// The whole body of a response that has a length.
    pub(crate) async fn body(&mut self, head: &Head) -> String {
        let length = head.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.expect("a whole body");
        String::from_utf8(body).expect("text")
    }

    /// Status and body of one exchange.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (Head, String) {
        self.send(method, path, headers, body).await;
        let head = self.head().await;
        assert!(!head.is_stream(), "{method} {path} became a stream: {body}");
        let body = self.body(&head).await;
        (head, body)
    }

    /// The answer to what was sent, in whichever form it comes.
    pub(crate) async fn answer(&mut self) -> Value {
        let head = self.head().await;
        assert_eq!(head.status, 200);
        if !head.is_stream() {
            let body = self.body(&head).await;
            return serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        }
        let answer = self.message().await;
        assert_eq!(self.event().await, None, "one answer");
        answer
    }

    async fn chunk(&mut self) -> Option<String> {
        assert!(self.chunked, "not a stream");
        let mut size = String::new();
        if self.stream.read_line(&mut size).await.ok()? == 0 {
            return None;
        }
        let size = usize::from_str_radix(size.trim(), 16).expect("a size");
        let mut data = vec![0; size + 2];
        self.stream.read_exact(&mut data).await.ok()?;
        data.truncate(size);
        (size > 0).then(|| String::from_utf8(data).expect("text"))
    }

    /// The next event or comment; none at the end of the stream.
    pub(crate) async fn any_event(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let mut read = Event::default();
                for line in event.lines() {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("id", id) => read.id = id.into(),
                        ("event", kind) => read.kind = kind.into(),
                        ("data", data) => read.data = data.into(),
                        ("retry", retry) => read.retry = retry.into(),
                        (":", _) => read.is_comment = true,
                        other => panic!("{other:?}"),
                    }
                }
                self.text = rest.to_owned();
                return Some(read);
            }
            let chunk = self.chunk().await?;
            self.text.push_str(&chunk);
        }
    }

    /// The next event that says something.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            let event = self.any_event().await?;
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// The next message of a stream.
    pub(crate) async fn message(&mut self) -> Value {
        self.event().await.expect("the stream goes on").json()
    }

    /// Reads until the other side closes; an abrupt close is one, too.
    pub(crate) async fn rest(&mut self) -> String {
        let mut rest = vec![];
        let _ = self.stream.read_to_end(&mut rest).await;
        String::from_utf8_lossy(&rest).into_owned()
    }
}
