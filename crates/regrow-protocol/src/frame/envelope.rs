//! The one pass over a message: it finds every member that we must understand, and checks that all else is JSON.
//!
//! Readers differ: some take the last of equal members, some ignore case. So a message is refused if a member that we act on stands there
//! twice or has a lookalike ([`resembles`]), and members that do not belong into an envelope are dropped.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::batch::MAX_BATCH;
use super::lookalike::resembles;
use super::scan::{NotJson, Scan};
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
    /// Not used. Remembered so that a second one is refused.
    pub(super) arguments: Span,
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
    let mut reading = Reading { scan: Scan::new(text), refused: None };
    match text.as_bytes().first() {
        Some(b'{') => {
            let mut top = Top::default();
            reading.object(&mut top)?;
            reading.scan.expect_end()?;
            if top.dropped > 0 && reading.refused.is_none() {
                let rest = top.without_dropped(text);
                let (mut envelope, _) = read(&rest)?;
                envelope.dropped = top.dropped;
                return Ok((envelope, Some(rest)));
            }
            Ok((top.judge(text, reading.refused)?, None))
        }
        Some(b'[') => {
            let mut count = 0;
            reading.scan.elements(|_| count += 1)?;
            reading.scan.expect_end()?;
            let batch = batch(count).map_err(|why| ParseError::NotRpc { id: None, why })?;
            Ok((batch, None))
        }
        _ => {
            reading.scan.value()?;
            reading.scan.expect_end()?;
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
        let named = Top::KNOWN.iter().zip(members).filter(|(_, span)| !span.is_empty());
        let written: Vec<_> =
            named.map(|(name, span)| format!("\"{name}\":{}", &text[span.range()])).collect();
        format!("{{{}}}", written.join(","))
    }
}

/// What takes the members of one object.
trait Members {
    /// All names that mean something here. What resembles one of them is refused.
    const KNOWN: &'static [&'static str];

    /// What takes the members of a member.
    type Inner: Members;

    /// Where this member's place is remembered; none if it means nothing here.
    fn place(&mut self, key: &str) -> Option<&mut Span>;

    /// What takes its members, if they mean something as well.
    fn inner(&mut self, _key: &str) -> Option<&mut Self::Inner> {
        None
    }

    /// There is a member that means nothing here. Returns whether it is dropped.
    fn drops_unknown(&mut self) -> bool {
        false
    }

    /// There is a member that resembles this one, or another of its name.
    fn unclear(&mut self, _key: &str) {}
}

impl Members for Top {
    const KNOWN: &'static [&'static str] = &["jsonrpc", "id", "method", "params", "result", "error"];

    type Inner = Params;

    fn place(&mut self, key: &str) -> Option<&mut Span> {
        Some(match key {
            "jsonrpc" => &mut self.jsonrpc,
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return None,
        })
    }

    fn inner(&mut self, key: &str) -> Option<&mut Params> {
        (key == "params").then_some(&mut self.members)
    }

    fn drops_unknown(&mut self) -> bool {
        self.dropped = self.dropped.saturating_add(1);
        true
    }

    fn unclear(&mut self, key: &str) {
        self.unclear_id |= key == "id";
    }
}

impl Members for Params {
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

    type Inner = Meta;

    fn place(&mut self, key: &str) -> Option<&mut Span> {
        Some(match key {
            "_meta" => &mut self.meta,
            "arguments" => &mut self.arguments,
            "name" => &mut self.name,
            "uri" => &mut self.uri,
            "cursor" => &mut self.cursor,
            "level" => &mut self.level,
            "requestId" => &mut self.request_id,
            "progressToken" => &mut self.progress_token,
            "task" => &mut self.task,
            "requestState" => &mut self.request_state,
            _ => return None,
        })
    }

    fn inner(&mut self, key: &str) -> Option<&mut Meta> {
        (key == "_meta").then_some(&mut self.in_meta)
    }
}

impl Members for Meta {
    const KNOWN: &'static [&'static str] = &[
        meta::PROGRESS_TOKEN,
        meta::PROTOCOL_VERSION,
        meta::SUBSCRIPTION_ID,
        meta::CLIENT_INFO,
        meta::CLIENT_CAPABILITIES,
        meta::LOG_LEVEL,
        meta::SERVER_INFO,
    ];

    type Inner = Meta;

    fn place(&mut self, key: &str) -> Option<&mut Span> {
        Some(match key {
            meta::PROGRESS_TOKEN => &mut self.progress_token,
            meta::PROTOCOL_VERSION => &mut self.protocol_version,
            meta::SUBSCRIPTION_ID => &mut self.subscription_id,
            meta::CLIENT_CAPABILITIES => &mut self.client_capabilities,
            _ => return None,
        })
    }
}

/// A message on the way through.
struct Reading<'t> {
    scan: Scan<'t>,
    /// What is wrong with the message, if something is.
    refused: Option<Invalid>,
}

impl<'t> Reading<'t> {
    fn object(&mut self, members: &mut impl Members) -> Result<Span, NotJson> {
        let start = self.scan.at();
        self.scan.expect(b'{')?;
        let mut others = Others::default();
        if !self.scan.take(b'}') {
            loop {
                self.member(members, &mut others)?;
                if !self.scan.take(b',') {
                    break;
                }
            }
            self.scan.expect(b'}')?;
        }
        Ok(Span::new(start, self.scan.at()))
    }

    fn member<M: Members>(&mut self, members: &mut M, others: &mut Others<'t>) -> Result<(), NotJson> {
        let name = self.scan.key()?;
        let is_object = self.scan.peek() == Some(b'{');
        let span = match members.inner(&name).filter(|_| is_object) {
            Some(inner) => self.object(inner)?,
            None => self.scan.value()?,
        };
        if let Some(place) = members.place(&name) {
            let is_first = place.is_empty();
            *place = span;
            if !is_first {
                members.unclear(&name);
                self.refused = Some(Invalid::Repeated);
            }
        } else if let Some(known) = resembles(&name, M::KNOWN) {
            members.unclear(known);
            self.refused = Some(Invalid::Lookalike);
        } else if !members.drops_unknown() && !others.is_new(name) {
            self.refused = Some(Invalid::Repeated);
        }
        Ok(())
    }
}

/// Which members an object had besides those that are remembered. Mostly few.
#[derive(Default)]
struct Others<'t> {
    few: Vec<Cow<'t, str>>,
    many: BTreeSet<Cow<'t, str>>,
}

impl<'t> Others<'t> {
    const FEW: usize = 8;

    fn is_new(&mut self, name: Cow<'t, str>) -> bool {
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
