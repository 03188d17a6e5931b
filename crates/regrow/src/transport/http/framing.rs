//! Where the body of an answer ends, and what of it is the message's (RFC 9112, 6 and 7).

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use httparse::Status;

/// How a body is told from what follows it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes are still to come.
    Length(u64),
    /// It comes in pieces that say how long they are.
    Chunked(Chunk),
    /// It ends with the connection.
    UntilClosed,
}

/// What comes next of a body in pieces.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    Size,
    Data(u64),
    LineEnd,
    Trailer,
    End,
}

/// What stands in the bytes that were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Data(Bytes),
    /// More must be read.
    More,
    End,
}

/// The line before a piece, and one after the last, may be so long.
const MAX_LINE: usize = 8 << 10;

impl Framing {
    /// How the body of an answer with this head is framed; none if the head contradicts itself.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap) -> Option<Framing> {
        if matches!(status.as_u16(), 204 | 304) {
            return Some(Framing::Length(0));
        }
        if let Some(last) = headers.get_all(TRANSFER_ENCODING).iter().next_back() {
            let last = last.to_str().ok()?.rsplit(',').next()?.trim();
            return last.eq_ignore_ascii_case("chunked").then_some(Framing::Chunked(Chunk::Size));
        }
        let mut lengths = headers.get_all(CONTENT_LENGTH).iter().map(|value| digits(value.as_bytes()));
        match lengths.next() {
            None => Some(Framing::UntilClosed),
            Some(first) => lengths.all(|length| length == first).then_some(Framing::Length(first?)),
        }
    }

    /// Takes the next of the body from what was read; none if it is not framed as its head says.
    pub(super) fn next(&mut self, read: &mut BytesMut) -> Option<Piece> {
        match self {
            Framing::Length(0) => Some(Piece::End),
            Framing::Length(left) => Some(take(left, read)),
            Framing::UntilClosed => Some(take(&mut { u64::MAX }, read)),
            Framing::Chunked(chunk) => chunk.next(read),
        }
    }

    /// Whether all of the body was taken.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Framing::Length(0) | Framing::Chunked(Chunk::End))
    }

    /// Whether the body is whole when the connection ends here.
    pub(super) fn may_end(&self) -> bool {
        *self == Framing::UntilClosed
    }
}

impl Chunk {
    fn next(&mut self, read: &mut BytesMut) -> Option<Piece> {
        loop {
            *self = match self {
                Chunk::End => return Some(Piece::End),
                Chunk::Size => match httparse::parse_chunk_size(read).ok()? {
                    Status::Partial => return more(read),
                    Status::Complete((line, size)) => {
                        drop(line_of(line, read)?);
                        if size == 0 { Chunk::Trailer } else { Chunk::Data(size) }
                    }
                },
                Chunk::Data(0) => Chunk::LineEnd,
                Chunk::Data(left) => return Some(take(left, read)),
                Chunk::LineEnd => match read.get(..2) {
                    None => return Some(Piece::More),
                    Some(b"\r\n") => {
                        read.advance(2);
                        Chunk::Size
                    }
                    Some(_) => return None,
                },
                Chunk::Trailer => match memchr::memchr(b'\n', read) {
                    None => return more(read),
                    Some(end) => {
                        let line = line_of(end + 1, read)?;
                        if line.trim_ascii().is_empty() { Chunk::End } else { Chunk::Trailer }
                    }
                },
            }
        }
    }
}

/// As much as there is of so many bytes.
fn take(left: &mut u64, read: &mut BytesMut) -> Piece {
    if read.is_empty() {
        return Piece::More;
    }
    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(read.len());
    *left -= count as u64;
    Piece::Data(read.split_to(count).freeze())
}

/// The rest of a line is still to come, unless that has become too long.
fn more(line: &BytesMut) -> Option<Piece> {
    (line.len() < MAX_LINE).then_some(Piece::More)
}

/// A line of this length, unless that is too long.
fn line_of(length: usize, read: &mut BytesMut) -> Option<BytesMut> {
    (length <= MAX_LINE).then(|| read.split_to(length))
}

/// A number without a sign.
fn digits(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn framing(status: u16, headers: &[(HeaderName, &str)]) -> Option<Framing> {
        let headers =
            headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value);
        }
        Framing::of(StatusCode::from_u16(status).unwrap(), &map)
    }

    /// Reads a body that comes in pieces of this size: what is in it, or none if it is broken; and whether it ended by itself.
    fn read(mut framing: Framing, bytes: &[u8], size: usize) -> Option<(Vec<u8>, bool)> {
        let (mut read, mut body) = (BytesMut::new(), vec![]);
        let mut pieces = bytes.chunks(size);
        loop {
            match framing.next(&mut read)? {
                Piece::Data(data) => body.extend_from_slice(&data),
                Piece::End => return Some((body, true)),
                Piece::More => match pieces.next() {
                    Some(piece) => read.extend_from_slice(piece),
                    None => return Some((body, framing.may_end())),
                },
            }
        }
    }

    #[test]
    fn the_head_tells_where_the_body_ends() {
        let chunked = || Some(Framing::Chunked(Chunk::Size));
        assert_eq!(framing(200, &[]), Some(Framing::UntilClosed));
        assert_eq!(framing(204, &[(CONTENT_LENGTH, "7")]), Some(Framing::Length(0)));
        assert_eq!(framing(200, &[(CONTENT_LENGTH, "7"), (CONTENT_LENGTH, "7")]), Some(Framing::Length(7)));
        assert_eq!(framing(200, &[(TRANSFER_ENCODING, "gzip, Chunked")]), chunked());
        assert_eq!(framing(200, &[(TRANSFER_ENCODING, "chunked"), (CONTENT_LENGTH, "7")]), chunked());
        assert_eq!(framing(200, &[(CONTENT_LENGTH, "7"), (CONTENT_LENGTH, "8")]), None);
        for wrong in ["", "+7", "-1", "7a", "7, 8", "99999999999999999999"] {
            assert_eq!(framing(200, &[(CONTENT_LENGTH, wrong)]), None, "{wrong}");
        }
        assert_eq!(framing(200, &[(TRANSFER_ENCODING, "chunked, gzip")]), None);
    }

    #[test]
    fn a_body_is_the_same_however_it_comes() {
        let chunked =
            b"5\r\nhello\r\n1;note=\"x\"\r\n \r\n00A\r\nwide world\r\n0\r\nTrailer: x\r\n\r\nnot ours";
        for size in 1..=chunked.len() {
            let whole = Some((b"hello wide world".to_vec(), true));
            assert_eq!(read(Framing::Chunked(Chunk::Size), chunked, size), whole, "{size}");
            assert_eq!(read(Framing::Length(5), b"hello not ours", size), Some((b"hello".to_vec(), true)));
            assert_eq!(read(Framing::UntilClosed, b"hello", size), Some((b"hello".to_vec(), true)));
        }
    }

    #[test]
    fn a_body_that_is_cut_is_not_whole() {
        let chunked = b"5\r\nhello\r\n0\r\n\r\n";
        for end in 0..chunked.len() {
            let (body, whole) = read(Framing::Chunked(Chunk::Size), &chunked[..end], 4).unwrap();
            assert!(b"hello".starts_with(&body[..]) && !whole, "{end}");
        }
        assert_eq!(read(Framing::Length(5), b"hell", 9), Some((b"hell".to_vec(), false)));
    }

    #[test]
    fn what_is_not_framed_as_it_says_is_refused() {
        for broken in ["x\r\n", "-1\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "fffffffffffffffff\r\n", "5\nhello\n"] {
            assert_eq!(read(Framing::Chunked(Chunk::Size), broken.as_bytes(), 9), None, "{broken}");
        }
        for (before, after) in
            [("5;", ""), ("5;", "\r\nhello\r\n0\r\n\r\n"), ("0\r\n", ""), ("0\r\n", "\r\n\r\n")]
        {
            let long = [before.as_bytes(), &[b'x'; 2 * MAX_LINE], after.as_bytes()].concat();
            for size in [100, long.len()] {
                assert_eq!(read(Framing::Chunked(Chunk::Size), &long, size), None, "{before}");
            }
        }
    }
}
