//! Messages of HTTP/1.1 as they come in: a head, and the body that it frames.

use std::io::{self, BufRead, ErrorKind, Read};

const LONGEST_HEAD: u64 = 64 * 1024;
const LONGEST_CHUNK_LINE: u64 = 100;

/// The first line of a message, and its headers.
pub(crate) struct Head {
    pub(crate) first_line: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// None at the end of the connection.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut reader = reader.take(LONGEST_HEAD);
        let (mut first_line, mut line, mut headers) = (String::new(), String::new(), vec![]);
        if reader.read_line(&mut first_line)? == 0 {
            return Ok(None);
        }
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Err(invalid("the head did not end"));
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Some(Head { first_line, headers }))
    }

    /// Names, in lower case, and values.
    pub(crate) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A header's value; the name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether a header that is a list has this word in it.
    pub(crate) fn lists(&self, name: &str, word: &str) -> bool {
        self.header(name).is_some_and(|value| value.to_ascii_lowercase().contains(word))
    }

    /// The body that follows. Where nothing frames it, it is as given.
    pub(crate) fn body<R: BufRead>(&self, reader: R, unframed: Framing) -> Body<R> {
        let framing = match self.header("content-length").and_then(|length| length.parse().ok()) {
            _ if self.lists("transfer-encoding", "chunked") => Framing::Chunk(0),
            Some(length) => Framing::Length(length),
            None => unframed,
        };
        Body { reader, framing }
    }
}

/// What is left of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    /// Of the chunk that is being read; others follow it.
    Chunk(u64),
    UntilTheEnd,
}

/// A body, to be read as one stream.
pub(crate) struct Body<R> {
    reader: R,
    framing: Framing,
}

impl<R: BufRead> Body<R> {
    fn next_chunk(&mut self) -> io::Result<Framing> {
        let mut line = String::new();
        // The chunk before ends with an empty line.
        while line.trim().is_empty() {
            line.clear();
            if (&mut self.reader).take(LONGEST_CHUNK_LINE).read_line(&mut line)? == 0 {
                return Err(cut_off());
            }
        }
        let size = line.trim().split(';').next().unwrap_or_default();
        match u64::from_str_radix(size, 16).map_err(|_| invalid("no size of a chunk"))? {
            0 => {
                self.reader.read_line(&mut line)?; // An empty line ends the last chunk.
                Ok(Framing::Length(0))
            }
            size => Ok(Framing::Chunk(size)),
        }
    }
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.framing == Framing::Chunk(0) {
            self.framing = self.next_chunk()?;
        }
        let left = match &mut self.framing {
            Framing::Length(0) => return Ok(0),
            Framing::Length(left) | Framing::Chunk(left) => left,
            Framing::UntilTheEnd => return self.reader.read(buffer),
        };
        match (&mut self.reader).take(*left).read(buffer)? {
            0 if !buffer.is_empty() => Err(cut_off()),
            read => {
                *left -= read as u64;
                Ok(read)
            }
        }
    }
}

fn cut_off() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "connection closed before the body was complete")
}

pub(crate) fn invalid(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_stream() {
        let text =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=1\r\n world\r\n0\r\n\r\n";
        let mut reader = text.as_bytes();
        let head = Head::read(&mut reader).unwrap().unwrap();
        let mut whole = String::new();
        head.body(reader, Framing::UntilTheEnd).read_to_string(&mut whole).unwrap();
        assert_eq!(whole, "hello world");
    }
}
