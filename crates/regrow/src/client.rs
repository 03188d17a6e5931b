//! What a client writes, on its way to a server: requests, batches, cancellations and responses. The relay of a stdio client and the
//! sessions of an HTTP face share it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use regrow_core::Epoch;
use regrow_protocol::frame::{self, Edit, Frame, Kind, ParseError, Parts, RawId, join_batch, split_batch};
use regrow_protocol::{method, notification};
use tokio::time::Instant;

use crate::call::{Outcome, Reply, Request};
use crate::upstream::Upstream;

/// One client's side of a connection.
pub trait ClientSide {
    /// Where responses go.
    type Sink: ResponseSink;

    /// A request begins. Returns who waits for its end; none if it was refused, and the client has its response.
    fn begin(&self, request: &Frame, id: &RawId, to: ResponseTo<Self::Sink>) -> Option<Box<dyn Reply>>;

    /// The client responded to a request of a server. Returns the server's session and its own id for the request, if it is open.
    fn answered(&self, id: &RawId) -> Option<(Epoch, RawId)>;
}

/// Where the responses to one message of a client go.
pub trait ResponseSink: Clone + Send + Sync + 'static {
    /// The response, or the news that there will be none.
    fn deliver(&self, response: Option<Bytes>);
}

/// Where the response to one request goes.
#[derive(Clone)]
pub enum ResponseTo<S: ResponseSink> {
    /// Out, as it is.
    Alone(S),
    /// Into one array with the other responses of its batch.
    Batch(Arc<Batch<S>>),
}

impl<S: ResponseSink> ResponseTo<S> {
    /// Where it leaves, alone or in an array.
    pub fn sink(&self) -> &S {
        match self {
            ResponseTo::Alone(sink) => sink,
            ResponseTo::Batch(batch) => &batch.sink,
        }
    }

    /// The response, or the news that there will be none.
    pub fn deliver(&self, response: Option<Bytes>) {
        match self {
            ResponseTo::Alone(sink) => sink.deliver(response),
            ResponseTo::Batch(batch) => {
                batch.responses.lock().unwrap_or_else(PoisonError::into_inner).extend(response);
            }
        }
    }
}

/// The responses to a batch. They leave as one array when the last member has ended, answered or cancelled.
pub struct Batch<S: ResponseSink> {
    sink: S,
    responses: Mutex<Vec<Bytes>>,
}

impl<S: ResponseSink> Drop for Batch<S> {
    fn drop(&mut self) {
        let responses = std::mem::take(self.responses.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.sink.deliver(join_batch(responses));
    }
}

/// Takes what a client wrote: one message, or a batch of them. `since` is when it came. A request is kept until it ends, so a short one must be
/// [compact](Frame::compact).
pub fn take<C: ClientSide>(
    client: &C,
    upstream: &(impl Upstream + ?Sized),
    frame: Frame,
    to: ResponseTo<C::Sink>,
    since: Instant,
) {
    match frame.kind() {
        Kind::Request { id, .. } => {
            if let Some(reply) = client.begin(&frame, &id, to) {
                upstream.submit(Request { frame, id, reply, since });
            }
        }
        Kind::Notification { method: notification::CANCELLED } => {
            let known = frame.request_id().is_some_and(|id| upstream.cancel(&id, &frame));
            if !known {
                tracing::debug!("the client cancelled a request that is not running");
            }
        }
        Kind::Notification { .. } => {
            upstream.forward(&frame);
        }
        Kind::Response { id } => match id.and_then(|id| client.answered(&id)) {
            Some((epoch, server_id)) => {
                upstream.hand_over(epoch, &server_id, frame.with_id(&server_id));
            }
            None => tracing::debug!("the client sent a response to a request that was not made"),
        },
        Kind::Batch => {
            let batch = Batch { sink: to.sink().clone(), responses: Mutex::default() };
            let batch = ResponseTo::Batch(Arc::new(batch));
            for member in split_batch(&frame) {
                match member {
                    Ok(mut member) => {
                        member.compact();
                        take(client, upstream, member, batch.clone(), since);
                    }
                    Err(error) => batch.deliver(Some(unreadable(&error))),
                }
            }
        }
    }
}

/// The response to what is no message.
pub(crate) fn unreadable(error: &ParseError) -> Bytes {
    frame::error(error.id(), error.code(), &error.to_string(), None)
}

/// How a failed tool call is told to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorStyle {
    /// As a tool result that says so, which is what reaches a model.
    #[default]
    Tool,
    /// As a JSON-RPC error.
    Protocol,
}

/// What is needed to answer a request of a client.
pub struct ResponseFormat {
    id: RawId,
    wants_tool_result: bool,
    modern: bool,
}

impl ResponseFormat {
    /// Of a request with this id.
    pub fn of(request: &Frame, id: RawId) -> ResponseFormat {
        ResponseFormat {
            id,
            wants_tool_result: request.method() == Some(method::TOOLS_CALL) && !request.has_task(),
            modern: request.protocol_version().is_some(),
        }
    }

    /// The client's id for the request.
    pub fn id(&self) -> &RawId {
        &self.id
    }

    /// Whether its response may be passed on while it arrives: if the rest does not come, the result can say so.
    pub fn can_be_streamed(&self, style: ErrorStyle) -> bool {
        self.wants_tool_result && style == ErrorStyle::Tool
    }

    /// What the client is told of the end of its request, where its length tells its end: a long response is not copied.
    pub fn answer_parts(&self, outcome: &Outcome, style: ErrorStyle) -> Parts {
        let long = match outcome {
            Outcome::Answered(frame) => frame.parts([Edit::Id(&self.id)]),
            Outcome::Failed(_) | Outcome::Refused => None,
        };
        long.unwrap_or_else(|| self.answer(outcome, style).into())
    }

    /// What the client is told of the end of its request, as a line.
    pub fn answer(&self, outcome: &Outcome, style: ErrorStyle) -> Bytes {
        match outcome {
            Outcome::Answered(frame) => frame.with_id(&self.id),
            Outcome::Failed(error) if style == ErrorStyle::Tool && self.wants_tool_result => {
                error.tool_result(&self.id, self.modern)
            }
            Outcome::Failed(error) => error.rpc_error(&self.id),
            Outcome::Refused => frame::method_not_found(&self.id),
        }
    }
}
