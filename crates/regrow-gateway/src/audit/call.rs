//! A call whose end is written to the audit log before its client gets the response.

use std::sync::Arc;

use regrow::transport::ResponseStream;
use regrow::{CallInbox, Outcome, Reply, Request};
use regrow_protocol::frame::Frame;
use regrow_protocol::{error_code, method};
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Audit;
use super::record::{Event, Record};
use crate::stats::Ending;

/// Who answers a request.
pub(crate) enum Target {
    /// This server.
    Server(String),
    /// The gateway, for several servers.
    Gateway,
    /// Nobody: it is refused.
    Nobody,
}

/// Answers a request when its line is written. Dropped before that, the call was cancelled.
pub(crate) struct AuditedReply {
    audit: Audit,
    record: Record,
    is_refused: bool,
    since: Instant,
    /// None once it has ended.
    reply: Option<Box<dyn Reply>>,
}

impl AuditedReply {
    /// The same request, whose end goes to the audit log.
    pub(crate) fn wrap(audit: Audit, mut record: Record, target: Target, request: Request) -> Request {
        let is_refused = matches!(target, Target::Nobody);
        if let Target::Server(name) = target {
            record.server = Some(name.into());
        }
        let since = request.since;
        let reply = AuditedReply { audit, record, is_refused, since, reply: Some(request.reply) };
        Request { reply: Box::new(reply), ..request }
    }
}

impl Reply for AuditedReply {
    fn end(mut self: Box<Self>, outcome: Outcome) {
        let Some(reply) = self.reply.take() else { return };
        self.record.ended(Ending::of(&outcome));
        if let (true, Outcome::Answered(answer)) = (self.is_refused, &outcome) {
            self.record.event = Event::Refusal;
            self.record.delivery = Some("not-sent");
            self.record.outcome = refusal(self.record.method.as_deref().unwrap_or_default(), answer);
        }
        self.record.duration = Some(self.since.elapsed());
        match (self.audit.write(&self.record), Handle::try_current()) {
            (Some(written), Ok(runtime)) => {
                let held = self.audit.held();
                runtime.spawn(async move {
                    written.wait().await;
                    reply.end(outcome);
                    drop(held);
                });
            }
            // The line is lost, or the program ends.
            _ => reply.end(outcome),
        }
    }

    fn inbox(&self) -> Option<Arc<dyn CallInbox>> {
        self.reply.as_ref()?.inbox()
    }

    fn response_stream(&self) -> Option<Arc<dyn ResponseStream>> {
        self.reply.as_ref()?.response_stream()
    }
}

impl Drop for AuditedReply {
    fn drop(&mut self) {
        if self.reply.is_some() {
            self.record.ended(Ending::CANCELLED);
            self.record.duration = Some(self.since.elapsed());
            let _ = self.audit.write(&self.record); // There is no response that would wait.
        }
    }
}

/// Why the gateway refused a request, from its answer.
fn refusal(method: &str, answer: &Frame) -> &'static str {
    match (answer.error_code(), method) {
        (Some(error_code::METHOD_NOT_FOUND), _) => "unknown-method",
        (Some(error_code::UNSUPPORTED_PROTOCOL_VERSION), _) => "unsupported-version",
        (Some(error_code::RESOURCE_NOT_FOUND), _) => "unknown-resource",
        (_, method::TOOLS_CALL) => "unknown-tool",
        (_, method::PROMPTS_GET) => "unknown-prompt",
        (_, method) if method::is_about_tasks(method) => "unknown-task",
        _ => "unknown-name",
    }
}
