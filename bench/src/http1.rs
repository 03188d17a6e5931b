//! As much of HTTP/1.1 as the echo server and the load client need: they must cost less than what they measure.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: BytesMut,
}

/// A request or a response.
pub(crate) struct Message {
    head: Bytes,
    pub(crate) body: Bytes,
}

impl Message {
    /// The request line or the status line.
    pub(crate) fn start(&self) -> &str {
        self.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn lines(&self) -> std::str::Split<'_, &str> {
        std::str::from_utf8(&self.head).unwrap_or_default().split("\r\n")
    }

    /// The JSON-RPC messages in the body of a response, which is JSON or an event stream.
    pub(crate) fn messages(&self) -> Vec<&[u8]> {
        if !self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return vec![&self.body];
        }
        let data = self.body.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:"));
        data.map(<[u8]>::trim_ascii).filter(|data| !data.is_empty()).collect()
    }
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream, buffer: BytesMut::new() })
    }

    pub(crate) async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.stream.write_all(message).await
    }

    /// None if the other side closed the connection between two messages.
    pub(crate) async fn read(&mut self) -> io::Result<Option<Message>> {
        let head_end = loop {
            if let Some(at) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                let clean = self.buffer.is_empty();
                return if clean { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        let mut message = Message { head: self.buffer.split_to(head_end).freeze(), body: Bytes::new() };
        self.buffer.advance(4);
        if let Some(length) = message.header("content-length") {
            let length = length.parse().map_err(io::Error::other)?;
            self.fill(length).await?;
            message.body = self.buffer.split_to(length).freeze();
        } else if message.header("transfer-encoding").is_some() {
            message.body = self.read_chunks().await?;
        }
        Ok(Some(message))
    }

    async fn read_chunks(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line_end = loop {
                if let Some(at) = memmem::find(&self.buffer, b"\r\n") {
                    break at;
                }
                self.fill(self.buffer.len() + 1).await?;
            };
            let size = std::str::from_utf8(&self.buffer[..line_end]).map_err(io::Error::other)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            self.buffer.advance(line_end + 2);
            self.fill(size + 2).await?;
            body.extend_from_slice(&self.buffer[..size]);
            self.buffer.advance(size + 2);
            if size == 0 {
                return Ok(body.freeze());
            }
        }
    }

    /// Reads until there are at least this many bytes.
    async fn fill(&mut self, length: usize) -> io::Result<()> {
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}
