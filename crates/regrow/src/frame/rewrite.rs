//! A message again, with other ids: spans are replaced, and every other byte stays as it was written.

use bytes::Bytes;

use super::span::Span;
use super::{Frame, RawId, build};

/// One value to replace in a message.
#[derive(Clone, Copy, Debug)]
pub enum Edit<'a> {
    /// `id`.
    Id(&'a RawId),
    /// `params.requestId`, of a cancellation.
    RequestId(&'a RawId),
    /// `params._meta["io.modelcontextprotocol/subscriptionId"]`.
    SubscriptionId(&'a RawId),
    /// `params._meta.progressToken`, of a request.
    MetaProgressToken(&'a RawId),
    /// `params.progressToken`, of a progress notification.
    ProgressToken(&'a RawId),
}

impl Frame {
    /// The message with these values replaced, as a line. What it does not have is not added.
    pub fn with<const N: usize>(&self, edits: [Edit<'_>; N]) -> Bytes {
        let mut splices = edits.map(|edit| self.splice(edit));
        splices.sort_unstable_by_key(|(span, _)| span.end());

        let added: usize = splices.iter().map(|(_, new)| new.len()).sum();
        let mut line = Vec::with_capacity(self.bytes.len() + added + 1);
        let mut done = 0;
        for (span, new) in splices {
            if !span.is_empty() {
                line.extend_from_slice(&self.bytes[done..span.range().start]);
                line.extend_from_slice(new);
                done = span.end();
            }
        }
        line.extend_from_slice(&self.bytes[done..]);
        build::line(line)
    }

    /// The message with another `id`, as a line.
    pub fn with_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::Id(id)])
    }

    /// A cancellation of another request, as a line.
    pub fn with_request_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::RequestId(id)])
    }

    /// A notification of another subscription, as a line.
    pub fn with_subscription_id(&self, id: &RawId) -> Bytes {
        self.with([Edit::SubscriptionId(id)])
    }

    /// The message as it is, as a line.
    pub fn to_line(&self) -> Bytes {
        self.with([])
    }

    fn splice<'a>(&self, edit: Edit<'a>) -> (Span, &'a [u8]) {
        let members = &self.envelope.members;
        match edit {
            Edit::Id(new) => (self.envelope.id, new.as_bytes()),
            Edit::RequestId(new) => (members.request_id, new.as_bytes()),
            Edit::SubscriptionId(new) => (members.in_meta.subscription_id, new.as_bytes()),
            Edit::MetaProgressToken(new) => (members.in_meta.progress_token, new.as_bytes()),
            Edit::ProgressToken(new) => (members.progress_token, new.as_bytes()),
        }
    }
}
