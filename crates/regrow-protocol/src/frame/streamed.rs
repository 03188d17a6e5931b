//! A response that is passed on while it arrives, because it is too long to be held whole.
//!
//! It is checked like any other, but piece by piece, and the caller's id replaces the server's. If the server fails midway, Regrow writes
//! the rest: the caller reads a complete message that says what happened.

mod ending;
mod grammar;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;

use self::grammar::{Grammar, Token};
use super::RawId;

/// A result with more members is read whole.
const MAX_MEMBERS: usize = 64;
/// So much may stand between two members, the name of the second included.
const MAX_HELD: usize = 4096;
/// No piece of a tail grows beyond this.
const TAIL_PIECE: usize = 64 << 10;
const CONTENT: &[u8] = b"\"content\"";
/// Clients check it against the schema of the tool, so they get all of it or nothing.
const STRUCTURED_CONTENT: &[u8] = b"\"structuredContent\"";

/// The response to a tool call, read in pieces. Each piece is passed on at once, except for what could not be completed as an error: half of
/// a character, the name of a member whose value has not begun, the id, and the `Tail`.
pub struct StreamedResponse {
    /// The server's id for the call, and that of the caller, which stands for it.
    expected: RawId,
    id: RawId,
    grammar: Grammar,
    /// The bytes of a character that is not complete yet.
    partial: Vec<u8>,
    /// What was read since the last member of the message, or of its result, and the name that is in it.
    held: Option<Vec<u8>>,
    name: Vec<u8>,
    tail: Option<Tail>,
    /// The member of the message that is being read, and which of them have begun.
    member: Member,
    has_version: bool,
    has_id: bool,
    has_result: bool,
    /// Whether the value of the id is being read.
    is_in_id: bool,
    /// The names of the result's members, as they stand there; the last one is being read.
    names: Vec<Box<[u8]>>,
    is_error: Option<bool>,
}

/// What is passed on only once all is complete: the message from the end of its content on, or from its structured content, or from the end of
/// its result, whichever comes first. Until then an error can be added to what stands before it.
struct Tail {
    begins: TailBegins,
    /// In pieces, because a long one that grew would be copied again and again.
    pieces: Vec<Vec<u8>>,
    has_version: bool,
    has_id: bool,
    /// How many members of the result.
    names: usize,
    is_error: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TailBegins {
    AtEndOfContent { is_empty: bool },
    InResult,
}

/// A member of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Id,
    Result,
    /// `jsonrpc`, or none yet.
    Version,
}

/// The pieces are no response to this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAResponse;

/// A piece that is being read.
struct Reading<'a> {
    piece: &'a Bytes,
    /// How much of it was given on, or is kept elsewhere; and how much was read.
    given: usize,
    at: usize,
}

impl Reading<'_> {
    /// What was not given on yet, up to this place.
    fn up_to(&mut self, end: usize) -> Bytes {
        let begin = mem::replace(&mut self.given, end);
        self.piece.slice(begin..end)
    }
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        match self.pieces.last_mut().filter(|last| last.len() + bytes.len() <= TAIL_PIECE) {
            Some(last) => last.extend_from_slice(bytes),
            None => self.pieces.push(bytes.to_vec()),
        }
    }
}

impl StreamedResponse {
    /// Begins with what has arrived so far. None if that is no response to the call, or does not end in the middle of its result: then it must
    /// be read whole. `expected` is the server's id for the call, and `id` the caller's. What the caller can have is added to `out`.
    pub fn begin(
        expected: RawId,
        id: RawId,
        start: Bytes,
        out: &mut VecDeque<Bytes>,
    ) -> Option<StreamedResponse> {
        let mut response = StreamedResponse::unread(expected, id);
        response.push(start, out).ok()?;
        let is_open = response.member == Member::Result && response.tail.is_none();
        // One that says that the tool did not fail could not say the opposite later.
        (is_open && response.grammar.depth() >= 2 && response.is_error != Some(false)).then_some(response)
    }

    fn unread(expected: RawId, id: RawId) -> StreamedResponse {
        StreamedResponse {
            expected,
            id,
            grammar: Grammar::new(),
            partial: vec![],
            held: None,
            tail: None,
            name: vec![],
            member: Member::Version,
            has_version: false,
            has_id: false,
            has_result: false,
            is_in_id: false,
            names: vec![],
            is_error: None,
        }
    }

    /// Reads more. What the caller can have is added to `out`.
    pub fn push(&mut self, mut piece: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), NotAResponse> {
        while !self.partial.is_empty() && !piece.is_empty() {
            self.partial.extend_from_slice(&piece.split_to(1));
            match std::str::from_utf8(&self.partial) {
                Ok(_) => {
                    let character = mem::take(&mut self.partial).into();
                    self.read(&character, out)?;
                }
                Err(error) if error.error_len().is_some() => return Err(NotAResponse),
                Err(_) => {}
            }
        }
        if let Err(error) = simdutf8::compat::from_utf8(&piece) {
            if error.error_len().is_some() {
                return Err(NotAResponse);
            }
            self.partial = piece.split_off(error.valid_up_to()).into();
        }
        self.read(&piece, out)
    }

    /// Whether it is complete, and answers the call.
    pub fn is_complete(&self) -> bool {
        self.grammar.is_over() && self.partial.is_empty() && self.has_id && self.has_result
    }

    /// Whether it says that the tool failed.
    pub fn is_tool_error(&self) -> bool {
        self.is_error == Some(true)
    }

    /// If it turns out to be no response, what came before that is passed on all the same.
    fn read(&mut self, piece: &Bytes, out: &mut VecDeque<Bytes>) -> Result<(), NotAResponse> {
        let mut reading = Reading { piece, given: 0, at: 0 };
        let mut read = Ok(());
        while read.is_ok() && reading.at < piece.len() {
            read = self.read_token(&mut reading, out);
        }
        let rest = piece.slice(reading.given..reading.at);
        let kept = match &mut self.held {
            _ if self.is_in_id => Ok(()),
            Some(held) if held.len() + rest.len() > MAX_HELD => Err(NotAResponse),
            Some(held) => {
                held.extend_from_slice(&rest);
                Ok(())
            }
            None => {
                self.give(rest, out);
                Ok(())
            }
        };
        read.and(kept)
    }

    fn read_token(
        &mut self,
        reading: &mut Reading<'_>,
        out: &mut VecDeque<Bytes>,
    ) -> Result<(), NotAResponse> {
        let begin = reading.at;
        let is_empty = self.grammar.is_empty();
        let (read, token) = self.grammar.read(&reading.piece[begin..])?;
        let end = begin + read;
        match (token, self.grammar.depth()) {
            (Token::Name, 1 | 2) => self.name = self.grammar.kept().ok_or(NotAResponse)?.to_vec(),
            (Token::Begin, 0) => return Err(NotAResponse),
            (Token::Begin | Token::Open, depth) => {
                if self.held.is_some() {
                    self.begin_member(token)?;
                }
                let held = self.held.take().unwrap_or_default();
                self.give(held.into(), out);
                self.is_in_id = token == Token::Begin && self.member == Member::Id;
                if self.is_in_id {
                    self.give(reading.up_to(begin), out);
                } else if token == Token::Open && depth <= 2 {
                    if !self.grammar.in_object() {
                        return Err(NotAResponse);
                    }
                    self.give(reading.up_to(end), out);
                    self.held = Some(vec![]);
                }
            }
            (Token::Comma, 1 | 2) => {
                self.give(reading.up_to(begin), out);
                self.held = Some(vec![]);
            }
            (Token::Close, depth) => {
                let held = self.held.take().unwrap_or_default();
                self.give(held.into(), out);
                let ends_content = depth == 2 && reading.piece[begin] == b']' && self.is_in(CONTENT);
                if ends_content {
                    self.give(reading.up_to(begin), out);
                    self.begin_tail(TailBegins::AtEndOfContent { is_empty });
                } else if depth == 1 {
                    self.give(reading.up_to(begin), out);
                    self.begin_tail(TailBegins::InResult);
                } else if depth == 0 {
                    self.give(reading.up_to(end), out);
                    out.extend(self.tail.take().into_iter().flat_map(|tail| tail.pieces).map(Bytes::from));
                }
            }
            (Token::End, _) => {
                self.end_value()?;
                if mem::take(&mut self.is_in_id) {
                    self.give(Bytes::copy_from_slice(self.id.as_bytes()), out);
                    reading.given = end;
                }
            }
            (Token::Name | Token::Comma | Token::Part, _) => {}
        }
        reading.at = end;
        Ok(())
    }

    /// Passes this on, unless it belongs to the tail.
    fn give(&mut self, bytes: Bytes, out: &mut VecDeque<Bytes>) {
        match &mut self.tail {
            _ if bytes.is_empty() => {}
            Some(tail) => tail.push(&bytes),
            None => out.push_back(bytes),
        }
    }

    /// From here on, unless it has begun before.
    fn begin_tail(&mut self, begins: TailBegins) {
        self.tail.get_or_insert(Tail {
            begins,
            pieces: vec![],
            has_version: self.has_version,
            has_id: self.has_id,
            names: self.names.len(),
            is_error: self.is_error,
        });
    }

    /// The value begins of a member of the message, or of its result.
    fn begin_member(&mut self, token: Token) -> Result<(), NotAResponse> {
        let opens = token == Token::Open;
        let depth = self.grammar.depth() - usize::from(opens);
        let is_object = opens && self.grammar.in_object();
        // Which member of the result it is must be certain: we may have to say that the tool failed.
        let is_plain = |name: &[u8]| !name.contains(&b'\\') && !self.names.iter().any(|seen| **seen == *name);
        match &self.name[..] {
            b"\"jsonrpc\"" if depth == 1 && !opens && !self.has_version => {
                (self.member, self.has_version) = (Member::Version, true);
            }
            b"\"id\"" if depth == 1 && !opens && !self.has_id => {
                (self.member, self.has_id) = (Member::Id, true);
            }
            b"\"result\"" if depth == 1 && is_object && !self.has_result => {
                (self.member, self.has_result) = (Member::Result, true);
            }
            name if depth == 2 && is_plain(name) && self.names.len() < MAX_MEMBERS => {
                let name: Box<[u8]> = name.into();
                if *name == *STRUCTURED_CONTENT {
                    self.begin_tail(TailBegins::InResult);
                }
                self.names.push(name);
            }
            _ => {
                if opens {
                    self.grammar.take_back_open();
                }
                return Err(NotAResponse);
            }
        }
        Ok(())
    }

    /// A value has ended that is neither an object nor an array.
    fn end_value(&mut self) -> Result<(), NotAResponse> {
        match self.grammar.depth() {
            1 if self.is_in_id && self.grammar.kept() != Some(self.expected.as_bytes()) => {
                return Err(NotAResponse);
            }
            2 if self.is_in(b"\"isError\"") => self.is_error = Some(self.grammar.kept() == Some(b"true")),
            _ => {}
        }
        Ok(())
    }

    /// Whether this member of the result is being read.
    fn is_in(&self, name: &[u8]) -> bool {
        self.names.last().is_some_and(|last| **last == *name)
    }
}
