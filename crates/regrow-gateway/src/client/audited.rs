//! What the audit log gets to know of a client's request.

use regrow::Request;
use regrow_protocol::method;

use super::Client;
use crate::audit::{AuditedReply, Record, Target, client_name, session_tag};
use crate::route::{OwnMethod, Route};

impl Client {
    /// The request, whose end goes to the audit log if there is one. What the gateway answers from what it knows needs no line, except
    /// for streams.
    pub(super) fn audited(&self, request: Request, route: &Route) -> Request {
        let audit = self.clients.audit();
        if !audit.is_on() {
            return request;
        }
        let server = |name: &String| Target::Server(name.clone());
        let (target, sent) = match route {
            Route::Gateway(OwnMethod::Listen) => (Target::Gateway, None),
            Route::Gateway(_) => return request,
            Route::Server { name, frame } => (server(name), Some(frame)),
            Route::ForeignTask { name, .. } if !self.has_own_session(name) => (Target::Nobody, None),
            Route::ForeignTask { name, frame } => (server(name), Some(frame)),
            Route::Subscription { owner, .. } => (server(&owner.server), None),
            Route::Held { name } => (server(name), None),
            Route::Refused(_) => (Target::Nobody, None),
        };
        let (principal, introduction) = {
            let state = self.state();
            (state.record.principal, state.record.greeting.clone())
        };
        let mut record = Record::of_request(&request.frame, principal);
        // In its server's words, where they differ.
        if let Some(tool) = sent.and_then(|sent| sent.tool()) {
            record.tool = Some(tool.into_owned().into());
        }
        if record.client.is_none()
            && let Some(greeting) =
                introduction.filter(|greeting| greeting.method() == Some(method::INITIALIZE))
        {
            record.client = client_name(greeting.params(), "clientInfo");
        }
        record.session = self.inbox.session_id().map(session_tag);
        AuditedReply::wrap(audit.clone(), record, target, request)
    }
}
