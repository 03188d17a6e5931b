//! The one pass over a message: it finds every member that we must understand, and checks that all else is JSON.
//!
//! Readers differ: some take the last of equal members, some ignore case. So a message is refused if a member that we act on stands there
//! twice or has a lookalike ([`resembles`]), and members that do not belong into an envelope are dropped.

use std::borrow::Cow;
use std::mem::take;

use bytes::Bytes;

use super::batch::MAX_BATCH;
use super::lookalike::resembles;
use super::member::{Level, Member, Places};
use super::scan::{NotJson, Seen, after_space, string, token, value};
use super::span::{self, MAX_MESSAGE, Span};
use super::{Frame, Invalid, ParseError, RawId, scan};
use crate::method;

/// What a message is, and where its members stand.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) shape: Shape,
    /// The method, where it is a usual one, or was written with escapes: `tools\/call`.
    pub(super) decoded_method: Option<Cow<'static, str>>,
    pub(super) places: Places,
    pub(super) seen: Seen,
    /// How many members were dropped because no envelope has them.
    pub(super) dropped: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Request,
    Notification,
    Response,
    Batch,
}

/// Takes one message. If it has members that no envelope has, the frame is built without them. What is no message stays where it is.
pub(super) fn read(bytes: &mut Bytes) -> Result<Frame, ParseError> {
    if bytes.len() > MAX_MESSAGE {
        return Err(ParseError::NotRpc { id: None, why: Invalid::TooLarge });
    }
    match bytes.first() {
        Some(b'{') => {
            let mut reading = Reading::new(bytes);
            scan::end(bytes, reading.message()?)?;
            if reading.dropped > 0 && reading.refused.is_none() {
                let mut frame = read(&mut without_dropped(bytes, &reading.places))?;
                frame.envelope.dropped = reading.dropped;
                return Ok(frame);
            }
            let shape = reading.judge()?;
            let Reading { decoded_method, places, seen, .. } = reading;
            let envelope = Envelope { shape, decoded_method, places, seen, dropped: 0 };
            Ok(Frame { bytes: take(bytes), envelope })
        }
        Some(b'[') => {
            let mut count = 0;
            scan::elements(bytes, |_| count += 1)?;
            let envelope = batch(count).map_err(|why| ParseError::NotRpc { id: None, why })?;
            Ok(Frame { bytes: take(bytes), envelope })
        }
        _ => {
            scan::whole(bytes)?;
            Err(ParseError::NotRpc { id: None, why: Invalid::NotAnObject })
        }
    }
}

fn batch(count: usize) -> Result<Envelope, Invalid> {
    match count {
        0 => Err(Invalid::EmptyBatch),
        1..=MAX_BATCH => Ok(Envelope {
            shape: Shape::Batch,
            decoded_method: None,
            places: Places::default(),
            seen: Seen::default(),
            dropped: 0,
        }),
        _ => Err(Invalid::LongBatch),
    }
}

/// The message with the members of an envelope only.
fn without_dropped(bytes: &[u8], places: &Places) -> Bytes {
    let mut rest = vec![];
    for name in Level::Top.known() {
        let span = Level::Top.member(name.as_bytes()).map_or(Span::default(), |member| places[member]);
        if !span.is_empty() {
            rest.push(if rest.is_empty() { b'{' } else { b',' });
            rest.extend_from_slice(format!("\"{name}\":").as_bytes());
            rest.extend_from_slice(&bytes[span.range()]);
        }
    }
    if rest.is_empty() {
        rest.push(b'{');
    }
    rest.push(b'}');
    rest.into()
}

/// A message on the way through.
struct Reading<'t> {
    bytes: &'t [u8],
    decoded_method: Option<Cow<'static, str>>,
    places: Places,
    seen: Seen,
    /// What is wrong with the message, if something is.
    refused: Option<Invalid>,
    /// There are two ids, or a member that resembles one: whom to answer is not clear.
    unclear_id: bool,
    dropped: u32,
}

impl<'t> Reading<'t> {
    fn new(bytes: &'t [u8]) -> Reading<'t> {
        Reading {
            bytes,
            decoded_method: None,
            places: Places::default(),
            seen: Seen::default(),
            refused: None,
            unclear_id: false,
            dropped: 0,
        }
    }

    // Each of these gives the place after what it has read, as those of `scan` do.

    /// The message.
    fn message(&mut self) -> Result<usize, NotJson> {
        /// As nearly all of them begin.
        const START: &[u8; 17] = br#"{"jsonrpc":"2.0","#;
        if self.bytes.first_chunk() != Some(START) {
            return self.object(Level::Top, 0);
        }
        self.places[Member::JsonRpc] = Span::new(11, 16);
        self.members(Level::Top, after_space(self.bytes, START.len()))
    }

    /// An object that starts here.
    fn object(&mut self, level: Level, at: usize) -> Result<usize, NotJson> {
        let at = after_space(self.bytes, at + 1);
        if self.bytes.get(at) == Some(&b'}') { Ok(at + 1) } else { self.members(level, at) }
    }

    /// The members of an object, the first of which starts here, and its end.
    fn members(&mut self, level: Level, mut at: usize) -> Result<usize, NotJson> {
        let bytes = self.bytes;
        let mut others = vec![];
        loop {
            let end = match level.usual(&bytes[at..]) {
                Some((member, length)) => self.known(member, after_space(bytes, at + length))?,
                None => self.other(level, at, &mut others)?,
            };
            at = after_space(bytes, end);
            if bytes.get(at) != Some(&b',') {
                break;
            }
            at = after_space(bytes, at + 1);
        }
        if has_repeated(&mut others) {
            self.refused = Some(Invalid::Repeated);
        }
        token(bytes, at, b'}')
    }

    fn known(&mut self, member: Member, start: usize) -> Result<usize, NotJson> {
        let end = match (member.inner(), self.bytes.get(start)) {
            (Some(inner), Some(b'{')) => self.object(inner, start)?,
            _ => value(self.bytes, start, &mut self.seen)?,
        };
        let place = &mut self.places[member];
        if !place.is_empty() {
            self.unclear_id |= member == Member::Id;
            self.refused = Some(Invalid::Repeated);
        }
        *place = Span::new(start, end);
        Ok(end)
    }

    /// A member that [`Level::usual`] does not find.
    fn other(&mut self, level: Level, at: usize, others: &mut Vec<Cow<'t, [u8]>>) -> Result<usize, NotJson> {
        let bytes = self.bytes;
        let key_end = string(bytes, at)?;
        let key = &bytes[at..key_end];
        let start = after_space(bytes, token(bytes, key_end, b':')?);
        match level.member(&key[1..key.len() - 1]) {
            Some(member) => self.known(member, start),
            None => self.unknown(level, key, start, others),
        }
    }

    /// A key with a lone surrogate is no text; it stays as it was written, with its quotes, and so equals no name of ours.
    fn unknown(
        &mut self,
        level: Level,
        key: &'t [u8],
        start: usize,
        others: &mut Vec<Cow<'t, [u8]>>,
    ) -> Result<usize, NotJson> {
        let mut name = Cow::Borrowed(&key[1..key.len() - 1]);
        if name.contains(&b'\\') {
            let decoded = span::decode(key).map(|name| name.into_owned().into_bytes());
            name = decoded.map_or(Cow::Borrowed(key), Cow::Owned);
            if let Some(member) = level.member(&name) {
                return self.known(member, start);
            }
        }
        let end = value(self.bytes, start, &mut self.seen)?;
        if let Some(known) = resembles(&name, level.known()) {
            self.unclear_id |= level == Level::Top && known == "id";
            self.refused = Some(Invalid::Lookalike);
        } else if level == Level::Top {
            self.dropped = self.dropped.saturating_add(1);
        } else {
            others.push(name);
        }
        Ok(end)
    }

    /// What the message is. Its method is remembered if it need not be read again, and members that say nothing have no place any more.
    fn judge(&mut self) -> Result<Shape, ParseError> {
        let raw_id = &self.bytes[self.places[Member::Id].range()];
        let has_id = RawId::is_value(raw_id);
        let unclear_id = self.unclear_id;
        let refused = |why| {
            let id = if unclear_id { None } else { RawId::from_value(raw_id) };
            Err(ParseError::NotRpc { id, why })
        };
        if let Some(why) = self.refused {
            return refused(why);
        }
        if !has_id && self.has(Member::Id) && !self.is_null(Member::Id) {
            return refused(Invalid::BadId);
        }
        // Some serializers write every member that they know: null then says "absent".
        if self.is_null(Member::Method) {
            self.places[Member::Method] = Span::default();
        }
        if self.is_null(Member::Error) && (self.has(Member::Method) || self.has(Member::Result)) {
            self.places[Member::Error] = Span::default();
        }
        if self.is_null(Member::Result) && (self.has(Member::Method) || self.has(Member::Error)) {
            self.places[Member::Result] = Span::default();
        }
        match [Member::Method, Member::Result, Member::Error].map(|member| self.has(member)) {
            [true, false, false] => {
                let Some(method) = usual_or_decoded(&self.bytes[self.places[Member::Method].range()]) else {
                    return refused(Invalid::BadMethod);
                };
                self.decoded_method = method;
                if !has_id {
                    self.places[Member::Id] = Span::default(); // Was null: giving it an id would make it a request.
                }
                Ok(if has_id { Shape::Request } else { Shape::Notification })
            }
            [false, true, false] if !has_id => refused(Invalid::NoId),
            [false, true, false] | [false, false, true] => Ok(Shape::Response),
            [false, false, false] => refused(Invalid::Shapeless),
            _ => refused(Invalid::Ambiguous),
        }
    }

    fn has(&self, member: Member) -> bool {
        !self.places[member].is_empty()
    }

    /// By its first letter: it is known to be a value.
    fn is_null(&self, member: Member) -> bool {
        self.bytes[self.places[member].range()].first() == Some(&b'n')
    }
}

/// What to remember of a method, as it was written; none where it is no text.
fn usual_or_decoded(quoted: &[u8]) -> Option<Option<Cow<'static, str>>> {
    let usual = |text: &[u8]| method::usual(text).map(Cow::Borrowed);
    let written = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if let Some(usual) = usual(written) {
        return Some(Some(usual));
    }
    Some(match span::decode(quoted)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(method) => Some(usual(method.as_bytes()).unwrap_or(Cow::Owned(method))),
    })
}

fn has_repeated(names: &mut [Cow<'_, [u8]>]) -> bool {
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}
