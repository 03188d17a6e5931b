//! One JSON-RPC message as raw bytes, and where in them the few members stand that we must understand.
//!
//! A message is read in one pass. `params`, results and errors are carried as they were written; in the envelope only the members of
//! JSON-RPC are. Only structure decides what a message is: `jsonrpc` may be missing or odd, as a bare pipe would let it.

mod batch;
mod build;
mod envelope;
mod error;
mod id;
mod lookalike;
mod member;
mod parts;
mod pieces;
#[cfg(test)]
pub(crate) mod random;
mod rewrite;
mod salvage;
mod scan;
mod span;
mod streamed;
mod subscription;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;

use crate::method;

pub use batch::{MAX_BATCH, join_batch, split_batch};
pub use build::{cancellation, error, method_not_found, notification, request, response};
use envelope::{Envelope, Shape};
pub use error::{Invalid, ParseError};
pub use id::RawId;
use member::Member;
pub use parts::Parts;
pub use pieces::{repeated_ids, split_first};
pub use rewrite::Edit;
pub use salvage::{Salvage, Salvaged};
pub use streamed::{NotAResponse, StreamedResponse};
pub use subscription::{stream_complete, stream_end, stream_notification};

/// One message, without a line end.
///
/// It is a slice of the buffer it was read into and keeps that buffer alive: a frame that is to be kept for long
/// should be [compact](Frame::compact).
#[derive(Clone)]
pub struct Frame {
    bytes: Bytes,
    envelope: Envelope,
}

/// A message of at least this length fills most of the buffer that it was read into, and keeps it.
const LONG: usize = 64 << 10;

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// Wants an answer.
    Request {
        /// Whom to answer.
        id: RawId,
        /// What is asked.
        method: &'a str,
    },
    /// Wants none. A method with `"id": null` is one too: some serializers write every member.
    Notification {
        /// What is told.
        method: &'a str,
    },
    /// A result or an error.
    Response {
        /// The request that it answers; an error may have none, when its sender could not read one.
        id: Option<RawId>,
    },
    /// An array of messages: see [`split_batch`].
    Batch,
}

impl Frame {
    /// Reads one message. A byte order mark and whitespace around it are dropped.
    pub fn parse(mut bytes: Bytes) -> Result<Frame, ParseError> {
        Frame::take_from(&mut bytes)
    }

    /// The same. What is no message stays where it is.
    pub fn take_from(bytes: &mut Bytes) -> Result<Frame, ParseError> {
        trim(bytes);
        envelope::read(bytes)
    }

    /// A line that a function of this module built from parts that are JSON.
    pub fn built(line: Bytes) -> Frame {
        Frame::parse(line).expect("a line that we built ourselves is a message")
    }

    /// What this message is.
    pub fn kind(&self) -> Kind<'_> {
        // A request has an id, and it and a notification have a method: `envelope::read` refuses others.
        let method = || self.method().unwrap_or_default();
        match self.envelope.shape {
            Shape::Request => match self.id() {
                Some(id) => Kind::Request { id, method: method() },
                None => Kind::Notification { method: method() },
            },
            Shape::Notification => Kind::Notification { method: method() },
            Shape::Response => Kind::Response { id: self.id() },
            Shape::Batch => Kind::Batch,
        }
    }

    /// Whether this is an array of messages.
    pub fn is_batch(&self) -> bool {
        self.envelope.shape == Shape::Batch
    }

    /// How many members the message had besides those of an envelope. They were dropped: what they mean depends on the reader.
    pub fn dropped_members(&self) -> u32 {
        self.envelope.dropped
    }

    /// The message as it was written, without members that no envelope has.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Copies the message out of the buffer it was read into, which may be far larger, so that the buffer can go. A long message keeps it.
    pub fn compact(&mut self) {
        if self.bytes.len() < LONG {
            self.bytes = Bytes::copy_from_slice(&self.bytes);
        }
    }

    /// The id of a request or a response; none where it is absent or null.
    pub fn id(&self) -> Option<RawId> {
        RawId::from_value(self.raw(Member::Id)?)
    }

    /// The method of a request or a notification, decoded.
    pub fn method(&self) -> Option<&str> {
        if let Some(method) = &self.envelope.decoded_method {
            return Some(method);
        }
        let quoted = self.raw(Member::Method)?;
        std::str::from_utf8(&quoted[1..quoted.len() - 1]).ok()
    }

    /// `params`, raw, whatever it is.
    pub fn params(&self) -> Option<&[u8]> {
        self.raw(Member::Params)
    }

    /// `result`, raw; none in an error.
    pub fn result(&self) -> Option<&[u8]> {
        self.raw(Member::Result)
    }

    /// `error`, raw; none in a result.
    pub fn error(&self) -> Option<&[u8]> {
        self.raw(Member::Error)
    }

    /// Whether this is a response that carries an error.
    pub fn is_error(&self) -> bool {
        self.error().is_some()
    }

    /// Whether this is the result of a tool that says that the tool failed.
    pub fn is_tool_error(&self) -> bool {
        #[derive(Deserialize)]
        struct ToolResult {
            #[serde(rename = "isError", default)]
            is_error: bool,
        }
        // What was seen may stand deeper in the result.
        let is_error =
            |result| serde_json::from_slice::<ToolResult>(result).is_ok_and(|result| result.is_error);
        self.envelope.seen.is_error && self.result().is_some_and(is_error)
    }

    /// The code of an error, read when asked; none where it is not an integer.
    pub fn error_code(&self) -> Option<i64> {
        #[derive(Deserialize)]
        struct Coded {
            code: i64,
        }
        Some(serde_json::from_slice::<Coded>(self.error()?).ok()?.code)
    }

    /// `params._meta`, raw.
    pub fn meta(&self) -> Option<&[u8]> {
        self.raw(Member::Meta)
    }

    /// `params._meta.progressToken`, raw: under which token a request wants to hear of progress.
    pub fn meta_progress_token(&self) -> Option<&[u8]> {
        self.raw(Member::MetaProgressToken)
    }

    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, decoded.
    pub fn protocol_version(&self) -> Option<Cow<'_, str>> {
        self.text(Member::ProtocolVersion)
    }

    /// Whether `params._meta["io.modelcontextprotocol/clientCapabilities"]` is there.
    pub fn has_client_capabilities(&self) -> bool {
        self.raw(Member::ClientCapabilities).is_some()
    }

    /// `params._meta["io.modelcontextprotocol/subscriptionId"]`, if it is a string or a number.
    pub fn subscription_id(&self) -> Option<RawId> {
        RawId::from_value(self.raw(Member::SubscriptionId)?)
    }

    /// `params.name`, decoded: of a tool or a prompt.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.text(Member::Name)
    }

    /// The tool that this request calls; none if it is no `tools/call`.
    pub fn tool(&self) -> Option<Cow<'_, str>> {
        self.name().filter(|_| self.method() == Some(method::TOOLS_CALL))
    }

    /// `params.uri`, decoded: of a resource.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.text(Member::Uri)
    }

    /// `params.cursor`, raw: present in every page of a list but the first.
    pub fn cursor(&self) -> Option<&[u8]> {
        self.raw(Member::Cursor)
    }

    /// `params.level`, decoded: of logging.
    pub fn level(&self) -> Option<Cow<'_, str>> {
        self.text(Member::Level)
    }

    /// `params.requestId`, if it is a string or a number: which request a cancellation means.
    pub fn request_id(&self) -> Option<RawId> {
        RawId::from_value(self.raw(Member::RequestId)?)
    }

    /// `params.progressToken`, raw: to which request a progress notification belongs.
    pub fn progress_token(&self) -> Option<&[u8]> {
        self.raw(Member::ProgressToken)
    }

    /// `params.requestState`, decoded: which call a client comes back to with the input that it was asked for.
    pub fn request_state(&self) -> Option<Cow<'_, str>> {
        self.text(Member::RequestState)
    }

    /// Whether `params.task` is there, and not null: the call wants to run as a task.
    pub fn has_task(&self) -> bool {
        self.raw(Member::Task).is_some_and(|task| task != b"null")
    }

    fn raw(&self, member: Member) -> Option<&[u8]> {
        let span = self.envelope.places[member];
        (!span.is_empty()).then(|| &self.bytes[span.range()])
    }

    /// A string, decoded; none where it is no string, or holds a lone surrogate and so is no text.
    fn text(&self, member: Member) -> Option<Cow<'_, str>> {
        span::decode(self.raw(member)?)
    }
}

/// Says what the message is and how long, and not what is in it: that may be a secret.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("kind", &self.kind()).field("bytes", &self.bytes.len()).finish()
    }
}

fn trim(bytes: &mut Bytes) {
    let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes).trim_ascii();
    // A slice is a second handle, which most messages do not need.
    if text.len() < bytes.len() {
        *bytes = bytes.slice_ref(text);
    }
}
