//! One call of a client to one server: one record, made when its request has found the server, and ended in one place.

use std::sync::{Arc, Weak};

use regrow::transport::ResponseStream;
use regrow::{CallError, CallInbox, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::method;

use super::Client;
use super::one_call::OneCall;
use crate::answers::parsed;
use crate::gate::Permit;
use crate::operate::traces::CallSpan;
use crate::server::{InUse, Server};
use crate::stats::{CallTimer, Ending};
use crate::upstream::UpstreamSession;

/// A call. Dropping it cancels it: its client gets no answer, and its guards count that. It is boxed at once, as the reply that it becomes.
pub(super) struct Call {
    /// Its reply is the client's own.
    pub(super) request: Request,
    pub(super) server: Arc<Server>,
    client: Weak<Client>,
    pub(super) then: OnEnd,
    span: CallSpan,
    /// Runs as soon as the call has a place at its server.
    timer: Option<CallTimer>,
    in_use: Option<InUse>,
    /// The session that it has for itself, if so.
    pub(super) one_call: Option<OneCall>,
    permit: Option<Permit>,
}

/// What the end of a call means to the gateway, besides the answer.
pub(super) enum OnEnd {
    Nothing,
    /// The client is subscribed to this resource, or no longer.
    Subscribed {
        uri: String,
        begins: bool,
    },
}

impl Call {
    pub(super) fn new(client: &Client, server: Arc<Server>, request: Request, then: OnEnd) -> Box<Call> {
        let client = client.me.clone();
        let (span, timer, in_use, one_call, permit) = (CallSpan::default(), None, None, None, None);
        Box::new(Call { request, server, client, then, span, timer, in_use, one_call, permit })
    }

    /// From now on it counts as a call in flight, and uses the server and the client's place there.
    pub(super) fn begin(mut self: Box<Self>, upstream: &UpstreamSession) -> Box<Call> {
        self.span = self.server.traces().begin(&self.server.name, &mut self.request.frame);
        self.timer = Some(self.server.stats.begin());
        self.in_use = Some(InUse::of(&self.server, upstream));
        self
    }

    /// Sends it. It holds its permit until it ends, unless it only waits: that is no work for the server, and must not keep other
    /// calls out.
    pub(super) fn send(mut self: Box<Self>, permit: Permit, upstream: &UpstreamSession) {
        let only_waits = self.request.frame.method().is_some_and(method::waits_by_design);
        self.permit = (!only_waits).then_some(permit);
        let Request { frame, id, since, .. } = &self.request;
        let (frame, id, since) = (frame.clone(), id.clone(), *since);
        upstream.submit(Request { frame, id, since, reply: self });
    }

    /// It was not sent, for this reason.
    pub(super) fn fail(self: Box<Self>, kind: ErrorKind) {
        let error = CallError::unsent(self.server.name.clone(), &self.request.frame, kind);
        self.refuse(error);
    }

    /// The same. It is counted, also if it never had a place at its server.
    pub(super) fn refuse(mut self: Box<Self>, error: CallError) {
        self.timer.get_or_insert_with(|| self.server.stats.begin());
        self.end(Outcome::Failed(error));
    }
}

impl Reply for Call {
    fn end(self: Box<Self>, outcome: Outcome) {
        let Call { request, server, client, then, span, timer, in_use, one_call, permit } = *self;
        let client = client.upgrade();
        // Before the client is told: a client that has the answer finds the call counted, and can ask for its task.
        if let Some(timer) = timer {
            let ending = Ending::of(&outcome);
            timer.end(ending);
            span.end(ending);
        }
        if let (Outcome::Answered(answer), Some(client), true) = (&outcome, &client, request.frame.has_task())
            && let Some(task) = parsed(answer.result())["task"]["taskId"].as_str()
        {
            client.state().record.tasks.remember(task, &server.config.name);
        }
        if let (Outcome::Answered(answer), Some(client)) = (&outcome, &client) {
            client.note_links(&server.config.name, answer.result().unwrap_or_default());
        }
        let is_done = matches!(&outcome, Outcome::Answered(answer) if !answer.is_error());
        match (then, client) {
            (OnEnd::Subscribed { uri, begins }, Some(client)) if is_done || !begins => {
                client.subscribed(&server, uri, begins);
                request.reply.end(outcome);
            }
            _ => request.reply.end(outcome),
        }
        drop((in_use, one_call, permit)); // The next call may go when this one's answer is written.
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        self.request.reply.inbox()
    }

    fn response_stream(&self) -> Option<Arc<dyn ResponseStream>> {
        self.request.reply.response_stream()
    }
}
