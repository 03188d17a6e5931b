//! The one pass over a message: it finds every member that we must understand, and checks that all else is JSON.
//!
//! serde_json does the reading, and skips what we do not name without recursion, so depth costs no stack. It does
//! not say where a value stands; keys are therefore read raw, and from a key's end on only whitespace and a
//! colon stand before its value.
//!
//! Readers differ: some take the last of equal members, some ignore case. So a message is refused if a member that we act on stands there
//! twice or has a lookalike ([`resembles`]), and members that do not belong into an envelope are dropped.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::batch::MAX_BATCH;
use super::lookalike::resembles;
use super::span::{self, MAX_MESSAGE, Span};
use super::{Invalid, ParseError, RawId};
use crate::{meta, method};

/// Where the members of one message stand.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) shape: Shape,
    pub(super) id: Span,
    pub(super) method: Span,
    /// The method, where it is a usual one, or was written with escapes: `tools\/call`.
    pub(super) decoded_method: Option<Cow<'static, str>>,
    pub(super) params: Span,
    pub(super) result: Span,
    pub(super) error: Span,
    pub(super) members: Params,
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

/// Members of `params`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    pub(super) meta: Span,
    pub(super) in_meta: Meta,
    pub(super) name: Span,
    pub(super) uri: Span,
    pub(super) cursor: Span,
    pub(super) level: Span,
    pub(super) request_id: Span,
    pub(super) progress_token: Span,
    pub(super) task: Span,
    pub(super) request_state: Span,
}

/// Members of `params._meta`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    pub(super) progress_token: Span,
    pub(super) protocol_version: Span,
    pub(super) subscription_id: Span,
    pub(super) client_capabilities: Span,
}

/// Reads one message. If members had to be dropped, also gives the message without them, in which everything stands where the envelope says.
pub(super) fn read(text: &str) -> Result<(Envelope, Option<String>), ParseError> {
    if text.len() > MAX_MESSAGE {
        return Err(ParseError::NotRpc { id: None, why: Invalid::TooLarge });
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    match text.as_bytes().first() {
        Some(b'{') => {
            let (mut top, refused) = (Top::default(), Cell::new(None));
            Object { text, start: 0, members: &mut top, refused: &refused }.deserialize(&mut deserializer)?;
            deserializer.end()?;
            if top.dropped > 0 && refused.get().is_none() {
                let rest = top.without_dropped(text);
                let (mut envelope, _) = read(&rest)?;
                envelope.dropped = top.dropped;
                return Ok((envelope, Some(rest)));
            }
            Ok((top.judge(text, refused.get())?, None))
        }
        Some(b'[') => {
            let count = Count::deserialize(&mut deserializer)?.0;
            deserializer.end()?;
            let batch = batch(count).map_err(|why| ParseError::NotRpc { id: None, why })?;
            Ok((batch, None))
        }
        _ => {
            <&RawValue>::deserialize(&mut deserializer)?;
            deserializer.end()?;
            Err(ParseError::NotRpc { id: None, why: Invalid::NotAnObject })
        }
    }
}

fn batch(count: usize) -> Result<Envelope, Invalid> {
    match count {
        0 => Err(Invalid::EmptyBatch),
        1..=MAX_BATCH => Ok(Top::default().into_envelope(Shape::Batch, None)),
        _ => Err(Invalid::LongBatch),
    }
}

/// The members of the envelope, before it is judged.
#[derive(Default)]
struct Top {
    jsonrpc: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    members: Params,
    /// There are two, or one that resembles it: whom to answer is not clear.
    unclear_id: bool,
    dropped: u32,
}

impl Top {
    /// `bad`: what is wrong with it already.
    fn judge(mut self, text: &str, bad: Option<Invalid>) -> Result<Envelope, ParseError> {
        let raw_id = self.id;
        let id = if self.unclear_id { None } else { RawId::from_value(text[raw_id.range()].as_bytes()) };
        let refused = |why| Err(ParseError::NotRpc { id: id.clone(), why });
        let null = |span: Span| &text[span.range()] == "null";

        if let Some(why) = bad {
            return refused(why);
        }
        if id.is_none() && !raw_id.is_empty() && !null(raw_id) {
            return refused(Invalid::BadId);
        }
        // Some serializers write every member that they know: null then says "absent".
        if null(self.method) {
            self.method = Span::default();
        }
        if null(self.error) && !(self.method.is_empty() && self.result.is_empty()) {
            self.error = Span::default();
        }
        if null(self.result) && !(self.method.is_empty() && self.error.is_empty()) {
            self.result = Span::default();
        }
        match [self.method, self.result, self.error].map(|member| !member.is_empty()) {
            [true, false, false] => {
                let Some(method) = span::decode(&text[self.method.range()]) else {
                    return refused(Invalid::BadMethod);
                };
                let decoded = match (method::usual(&method), method) {
                    (Some(usual), _) => Some(Cow::Borrowed(usual)),
                    (None, Cow::Owned(method)) => Some(Cow::Owned(method)),
                    (None, Cow::Borrowed(_)) => None,
                };
                if id.is_some() {
                    return Ok(self.into_envelope(Shape::Request, decoded));
                }
                self.id = Span::default(); // Was null: giving it an id would make it a request.
                Ok(self.into_envelope(Shape::Notification, decoded))
            }
            [false, true, false] if id.is_none() => refused(Invalid::NoId),
            [false, true, false] | [false, false, true] => Ok(self.into_envelope(Shape::Response, None)),
            [false, false, false] => refused(Invalid::Shapeless),
            _ => refused(Invalid::Ambiguous),
        }
    }

    fn into_envelope(self, shape: Shape, decoded_method: Option<Cow<'static, str>>) -> Envelope {
        let Top { id, method, params, result, error, members, .. } = self;
        Envelope { shape, id, method, decoded_method, params, result, error, members, dropped: 0 }
    }

    /// The message with the members of an envelope only.
    fn without_dropped(&self, text: &str) -> String {
        let members = [self.jsonrpc, self.id, self.method, self.params, self.result, self.error];
        let named = <&mut Top>::KNOWN.iter().zip(members).filter(|(_, span)| !span.is_empty());
        let written: Vec<_> =
            named.map(|(name, span)| format!("\"{name}\":{}", &text[span.range()])).collect();
        format!("{{{}}}", written.join(","))
    }
}

/// What takes the members of one object.
trait Members {
    /// All names that mean something here. What resembles one of them is refused.
    const KNOWN: &'static [&'static str];

    /// Reads the value of `key`, and says where it stands; none, and nothing is read, if it need not be remembered.
    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Option<Span>, M::Error>;

    /// There is a member that is not remembered. Returns whether it is dropped.
    fn drops_unknown(&mut self) -> bool {
        false
    }

    /// There is a member that resembles this one, or another of its name.
    fn unclear(&mut self, _key: &str) {}
}

impl Members for &mut Top {
    const KNOWN: &'static [&'static str] = &["jsonrpc", "id", "method", "params", "result", "error"];

    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Option<Span>, M::Error> {
        let place = match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => {
                let span = value.enter(map, &mut self.members)?;
                return Ok(Some(value.keep(&mut self.params, span)));
            }
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return Ok(None),
        };
        self.unclear_id |= key == "id" && !place.is_empty();
        Ok(Some(value.keep(place, value.skip(map)?)))
    }

    fn drops_unknown(&mut self) -> bool {
        self.dropped = self.dropped.saturating_add(1);
        true
    }

    fn unclear(&mut self, key: &str) {
        self.unclear_id |= key == "id";
    }
}

impl Members for &mut Params {
    const KNOWN: &'static [&'static str] = &[
        "_meta",
        "arguments",
        "cursor",
        "level",
        "name",
        "progressToken",
        "ref",
        "requestId",
        "task",
        "taskId",
        "uri",
    ];

    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Option<Span>, M::Error> {
        let place = match key {
            "_meta" => {
                let span = value.enter(map, &mut self.in_meta)?;
                return Ok(Some(value.keep(&mut self.meta, span)));
            }
            "name" => &mut self.name,
            "uri" => &mut self.uri,
            "cursor" => &mut self.cursor,
            "level" => &mut self.level,
            "requestId" => &mut self.request_id,
            "progressToken" => &mut self.progress_token,
            "task" => &mut self.task,
            "requestState" => &mut self.request_state,
            _ => return Ok(None),
        };
        Ok(Some(value.keep(place, value.skip(map)?)))
    }
}

impl Members for &mut Meta {
    const KNOWN: &'static [&'static str] = &[
        meta::PROGRESS_TOKEN,
        meta::PROTOCOL_VERSION,
        meta::SUBSCRIPTION_ID,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
        meta::LOG_LEVEL,
        meta::SERVER_INFO,
    ];

    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Option<Span>, M::Error> {
        let place = match key {
            meta::PROGRESS_TOKEN => &mut self.progress_token,
            meta::PROTOCOL_VERSION => &mut self.protocol_version,
            meta::SUBSCRIPTION_ID => &mut self.subscription_id,
            meta::CLIENT_CAPABILITIES => &mut self.client_capabilities,
            _ => return Ok(None),
        };
        Ok(Some(value.keep(place, value.skip(map)?)))
    }
}

/// A value that is about to be read.
#[derive(Clone, Copy)]
struct Value<'t> {
    text: &'t str,
    start: usize,
    refused: &'t Cell<Option<Invalid>>,
}

impl Value<'_> {
    /// Reads over it, without recursion.
    fn skip<'de, M: MapAccess<'de>>(self, map: &mut M) -> Result<Span, M::Error> {
        Ok(Span::of(map.next_value::<&'de RawValue>()?.get(), self.text))
    }

    /// Reads its members if it is an object, and over it if not.
    fn enter<'de, M: MapAccess<'de>>(self, map: &mut M, members: impl Members) -> Result<Span, M::Error> {
        let Value { text, start, refused } = self;
        if text.as_bytes().get(start) != Some(&b'{') {
            return self.skip(map);
        }
        map.next_value_seed(Object { text, start, members, refused })
    }

    /// Remembers where it stands. It may stand there once.
    fn keep(self, place: &mut Span, span: Span) -> Span {
        if !place.is_empty() {
            self.refused.set(Some(Invalid::Repeated));
        }
        *place = span;
        span
    }
}

/// An object that starts at `start`; reading it gives its span.
struct Object<'t, T> {
    text: &'t str,
    start: usize,
    members: T,
    /// What is wrong with the message, if something is.
    refused: &'t Cell<Option<Invalid>>,
}

impl<'de, T: Members> DeserializeSeed<'de> for Object<'_, T> {
    type Value = Span;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Members> Visitor<'de> for Object<'_, T> {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<Span, M::Error> {
        let (mut end, mut others) = (self.start + 1, Others::default());
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            // In broken JSON the value may be anywhere; reading it then fails.
            let colon = after_whitespace(self.text, Span::of(key.get(), self.text).end());
            let start = after_whitespace(self.text, colon + 1);
            let value = Value { text: self.text, start, refused: self.refused };
            // A key with a lone surrogate is no text: with its quotes on it equals no name of ours.
            let name = span::decode(key.get()).unwrap_or(Cow::Borrowed(key.get()));
            let span = match self.members.member(&name, value, &mut map)? {
                Some(span) => span,
                None => {
                    if let Some(known) = resembles(&name, T::KNOWN) {
                        self.members.unclear(known);
                        self.refused.set(Some(Invalid::Lookalike));
                    } else if !self.members.drops_unknown() && !others.is_new(name) {
                        self.refused.set(Some(Invalid::Repeated));
                    }
                    value.skip(&mut map)?
                }
            };
            end = span.end();
        }
        Ok(Span::new(self.start, after_whitespace(self.text, end) + 1))
    }
}

/// Which members an object had besides those that are remembered. Mostly few.
#[derive(Default)]
struct Others<'de> {
    few: Vec<Cow<'de, str>>,
    many: BTreeSet<Cow<'de, str>>,
}

impl<'de> Others<'de> {
    const FEW: usize = 8;

    fn is_new(&mut self, name: Cow<'de, str>) -> bool {
        if self.few.contains(&name) {
            return false;
        }
        if self.few.len() < Others::FEW {
            self.few.push(name);
            return true;
        }
        self.many.insert(name)
    }
}

fn after_whitespace(text: &str, from: usize) -> usize {
    let rest = text.as_bytes().get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// How many elements an array has.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        struct Elements;

        impl<'de> Visitor<'de> for Elements {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<Count, S::Error> {
                let mut count = 0;
                while elements.next_element::<&'de RawValue>()?.is_some() {
                    count += 1;
                }
                Ok(Count(count))
            }
        }

        deserializer.deserialize_seq(Elements)
    }
}
