//! One exchange of Streamable HTTP on a connection of its own: a message goes, its response comes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::Place;

const LARGEST: u64 = 16 << 20;
const MOST_HEADERS: usize = 200;

/// How the complaint begins of a proxy that no longer knows the session.
pub(super) const FORGOTTEN: &str = "HTTP status 404";

/// The response to the message with this id, and the session that it names.
pub(super) fn post(
    place: &Place,
    session: Option<&str>,
    message: &Value,
    id: Option<u64>,
    limit: Duration,
) -> Result<(Value, Option<String>), String> {
    exchange(place, session, message, id, limit).map_err(|error| format!("HTTP: {error}"))?
}

type Exchanged = Result<(Value, Option<String>), String>;

fn exchange(
    place: &Place,
    session: Option<&str>,
    message: &Value,
    id: Option<u64>,
    limit: Duration,
) -> std::io::Result<Exchanged> {
    let mut socket = TcpStream::connect_timeout(&place.address, limit)?;
    socket.set_read_timeout(Some(limit))?;
    let body = message.to_string();
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n",
        place.path,
        place.address,
        body.len()
    );
    if let Some(session) = session {
        head.push_str(&format!("Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: 2025-11-25\r\n"));
    }
    socket.write_all(format!("{head}\r\n{body}").as_bytes())?;
    let mut reader = BufReader::new(socket.take(LARGEST));
    let (status, headers) = read_head(&mut reader)?;
    let header =
        |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let session = header("mcp-session-id");
    let Some(id) = id else { return Ok(Ok((Value::Null, session))) };
    let chunked = header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
    let mut body: Box<dyn BufRead> = match (chunked, header("content-length")) {
        (true, _) => Box::new(BufReader::new(Chunks { reader, left: 0, over: false })),
        (false, Some(length)) => Box::new(reader.take(length.parse().unwrap_or(0))),
        (false, None) => Box::new(reader),
    };
    if header("content-type").is_some_and(|kind| kind.contains("text/event-stream")) {
        return Ok(from_events(&mut body, id)?.map(|response| (response, session)));
    }
    let mut text = String::new();
    body.read_to_string(&mut text)?;
    match serde_json::from_str::<Value>(&text) {
        Ok(response) if response["id"] == id => Ok(Ok((response, session))),
        _ => Ok(Err(format!("HTTP status {status}: {}", text.chars().take(200).collect::<String>()))),
    }
}

/// The first response with this id in a stream of events.
fn from_events(body: &mut impl BufRead, id: u64) -> std::io::Result<Result<Value, String>> {
    let mut line = String::new();
    loop {
        line.clear();
        if body.read_line(&mut line)? == 0 {
            return Ok(Err("the stream ended without an answer".to_owned()));
        }
        let data = line.strip_prefix("data:").unwrap_or_default();
        let message: Value = serde_json::from_str(data.trim()).unwrap_or_default();
        if message["id"] == id && message.get("method").is_none() {
            return Ok(Ok(message));
        }
    }
}

type Head = (u16, Vec<(String, String)>);

fn read_head(reader: &mut impl BufRead) -> std::io::Result<Head> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut headers = vec![];
    while headers.len() < MOST_HEADERS {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok((status, headers))
}

/// A body in chunks, as one stream.
struct Chunks<R> {
    reader: R,
    left: u64,
    over: bool,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut line = String::new();
            if self.over || self.reader.read_line(&mut line)? == 0 {
                return Ok(0);
            }
            if line.trim().is_empty() {
                continue; // The end of the chunk before.
            }
            let size = line.trim().split(';').next().unwrap_or_default();
            self.left = u64::from_str_radix(size, 16).map_err(std::io::Error::other)?;
            self.over = self.left == 0;
        }
        let read = (&mut self.reader).take(self.left).read(buffer)?;
        self.left -= read as u64;
        self.over |= read == 0;
        if read == 0 {
            self.left = 0;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_stream() {
        let text = &b"5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n"[..];
        let mut whole = String::new();
        Chunks { reader: text, left: 0, over: false }.read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "hello world");
    }

    #[test]
    fn the_response_is_found_among_other_events() {
        let stream =
            ": ping\n\nevent: message\ndata: {\"method\":\"x\"}\n\ndata: {\"id\":7,\"result\":{}}\n\n";
        let found = from_events(&mut stream.as_bytes(), 7).unwrap().unwrap();
        assert_eq!(found["id"], 7);
        assert!(from_events(&mut &b"data: {}\n\n"[..], 7).unwrap().is_err());
    }
}
