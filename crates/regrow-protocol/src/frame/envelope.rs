//! The one pass over a message: it finds every member that we must understand, and checks that all else is JSON.
//!
//! serde_json does the reading, and skips what we do not name without recursion, so depth costs no stack. It does
//! not say where a value stands; keys are therefore read raw, and from a key's end on only whitespace and a
//! colon stand before its value.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::batch::MAX_BATCH;
use super::span::{self, MAX_MESSAGE, Span};
use super::{Invalid, ParseError, RawId};
use crate::meta;

/// Where the members of one message stand.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) shape: Shape,
    pub(super) id: Span,
    pub(super) method: Span,
    /// The method, where it was written with escapes: `tools\/call`.
    pub(super) unescaped_method: Option<Box<str>>,
    pub(super) params: Span,
    pub(super) result: Span,
    pub(super) error: Span,
    pub(super) members: Params,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Request,
    Notification,
    Response,
    Batch,
}

/// Members of `params`. Of equal keys the last counts, as in most readers.
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
}

/// Members of `params._meta`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meta {
    pub(super) progress_token: Span,
    pub(super) protocol_version: Span,
    pub(super) subscription_id: Span,
}

/// Reads one message.
pub(super) fn read(text: &str) -> Result<Envelope, ParseError> {
    if text.len() > MAX_MESSAGE {
        return Err(ParseError::NotRpc { id: None, why: Invalid::TooLarge });
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut top = Top::default();
            Object { text, start: 0, members: &mut top }.deserialize(&mut deserializer)?;
            deserializer.end()?;
            top.judge(text)
        }
        Some(b'[') => {
            let count = Count::deserialize(&mut deserializer)?.0;
            deserializer.end()?;
            batch(count).map_err(|why| ParseError::NotRpc { id: None, why })
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
    repeated: bool,
    repeated_id: bool,
}

impl Top {
    fn judge(mut self, text: &str) -> Result<Envelope, ParseError> {
        let raw_id = self.id;
        let id = if self.repeated_id { None } else { RawId::from_value(text[raw_id.range()].as_bytes()) };
        let refused = |why| Err(ParseError::NotRpc { id: id.clone(), why });
        let null = |span: Span| &text[span.range()] == "null";

        if self.repeated {
            return refused(Invalid::Repeated);
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
                let unescaped =
                    if let Cow::Owned(method) = method { Some(method.into_boxed_str()) } else { None };
                if id.is_some() {
                    return Ok(self.into_envelope(Shape::Request, unescaped));
                }
                self.id = Span::default(); // Was null: giving it an id would make it a request.
                Ok(self.into_envelope(Shape::Notification, unescaped))
            }
            [false, true, false] if id.is_none() => refused(Invalid::NoId),
            [false, true, false] | [false, false, true] => Ok(self.into_envelope(Shape::Response, None)),
            [false, false, false] => refused(Invalid::Shapeless),
            _ => refused(Invalid::Ambiguous),
        }
    }

    fn into_envelope(self, shape: Shape, unescaped_method: Option<Box<str>>) -> Envelope {
        let Top { id, method, params, result, error, members, .. } = self;
        Envelope { shape, id, method, unescaped_method, params, result, error, members }
    }
}

/// What takes the members of one object.
trait Members {
    /// Reads the value of `key`, and says where it stands.
    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Span, M::Error>;
}

impl Members for &mut Top {
    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Span, M::Error> {
        let known = match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return value.skip(map),
        };
        if !known.is_empty() {
            self.repeated = true;
            self.repeated_id |= key == "id";
        }
        *known = if key == "params" { value.enter(map, &mut self.members)? } else { value.skip(map)? };
        Ok(*known)
    }
}

impl Members for &mut Params {
    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Span, M::Error> {
        let known = match key {
            "_meta" => {
                self.in_meta = Meta::default();
                self.meta = value.enter(map, &mut self.in_meta)?;
                return Ok(self.meta);
            }
            "name" => &mut self.name,
            "uri" => &mut self.uri,
            "cursor" => &mut self.cursor,
            "level" => &mut self.level,
            "requestId" => &mut self.request_id,
            "progressToken" => &mut self.progress_token,
            "task" => &mut self.task,
            _ => return value.skip(map),
        };
        *known = value.skip(map)?;
        Ok(*known)
    }
}

impl Members for &mut Meta {
    fn member<'de, M: MapAccess<'de>>(
        &mut self,
        key: &str,
        value: Value<'_>,
        map: &mut M,
    ) -> Result<Span, M::Error> {
        let known = match key {
            meta::PROGRESS_TOKEN => &mut self.progress_token,
            meta::PROTOCOL_VERSION => &mut self.protocol_version,
            meta::SUBSCRIPTION_ID => &mut self.subscription_id,
            _ => return value.skip(map),
        };
        *known = value.skip(map)?;
        Ok(*known)
    }
}

/// A value that is about to be read.
#[derive(Clone, Copy)]
struct Value<'t> {
    text: &'t str,
    start: usize,
}

impl<'t> Value<'t> {
    /// The value of the key that ends at `key_end`. In broken JSON this may be anywhere; reading it then fails.
    fn after(text: &'t str, key_end: usize) -> Value<'t> {
        let colon = after_whitespace(text, key_end);
        Value { text, start: after_whitespace(text, colon + 1) }
    }

    /// Reads over it, without recursion.
    fn skip<'de, M: MapAccess<'de>>(self, map: &mut M) -> Result<Span, M::Error> {
        Ok(Span::of(map.next_value::<&'de RawValue>()?.get(), self.text))
    }

    /// Reads its members if it is an object, and over it if not.
    fn enter<'de, M: MapAccess<'de>>(self, map: &mut M, members: impl Members) -> Result<Span, M::Error> {
        if self.text.as_bytes().get(self.start) != Some(&b'{') {
            return self.skip(map);
        }
        map.next_value_seed(Object { text: self.text, start: self.start, members })
    }
}

/// An object that starts at `start`; reading it gives its span.
struct Object<'t, T> {
    text: &'t str,
    start: usize,
    members: T,
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
        let mut end = self.start + 1;
        while let Some(key) = map.next_key::<&'de RawValue>()? {
            let value = Value::after(self.text, Span::of(key.get(), self.text).end());
            // A key with a lone surrogate is no text: with its quotes on it equals no name of ours.
            let name = span::decode(key.get()).unwrap_or(Cow::Borrowed(key.get()));
            end = self.members.member(&name, value, &mut map)?.end();
        }
        Ok(Span::new(self.start, after_whitespace(self.text, end) + 1))
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
