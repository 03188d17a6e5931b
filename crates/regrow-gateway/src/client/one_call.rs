//! A session for one call. Several clients may come through one handle, as modern clients with the same token do, and nothing tells
//! which of them a legacy server means. Where its sessions are private, each call that it may ask for input during gets a session of
//! its own, which lives until the call has ended, also while its client is away to answer.

use std::sync::{Arc, Weak};

use regrow::CallError;
use regrow_protocol::frame::Frame;
use regrow_protocol::method;

use super::Client;
use super::greeting::introduction;
use super::upstream_inbox::UpstreamInbox;
use crate::server::Server;
use crate::upstream::UpstreamSession;

/// As long as this lives, the call has its session. After that, the session lives on if it waits for its client to come back.
pub(super) struct OneCall {
    client: Weak<Client>,
    session: Arc<UpstreamSession>,
}

impl Client {
    /// The session for this call, if it must have one of its own.
    pub(super) fn one_call(
        &self,
        server: &Arc<Server>,
        request: &Frame,
    ) -> Result<Option<OneCall>, Box<CallError>> {
        let may_ask = request.method().is_some_and(method::may_require_input);
        if self.inbox.is_one_client() || !may_ask || !server.has_private_sessions() {
            return Ok(None);
        }
        let guard = |session| OneCall { client: self.me.clone(), session };
        if let Some(shown) = request.request_state() {
            let state = self.state();
            let asked = state.one_call.iter().find(|session| session.awaits(&shown)).cloned();
            return Ok(asked.map(guard)); // Where none knows it, the answer is that it is stale.
        }
        let inbox = Arc::new(UpstreamInbox::new(self.me.clone(), server, true));
        let principal = self.state().record.principal;
        let session = Arc::new(server.private_upstream(principal, inbox.clone())?);
        inbox.belongs_to(&session);
        let over: Vec<_> = {
            let mut state = self.state();
            let over = state.one_call.extract_if(.., |session| session.is_over()).collect();
            state.one_call.push(session.clone());
            over
        };
        drop(over); // Not under the lock.
        session.tell(introduction(request));
        Ok(Some(guard(session)))
    }
}

impl OneCall {
    pub(super) fn session(&self) -> &Arc<UpstreamSession> {
        &self.session
    }
}

impl Drop for OneCall {
    fn drop(&mut self) {
        let Some(client) = self.client.upgrade().filter(|_| !self.session.has_calls()) else { return };
        client.state().one_call.retain(|session| !Arc::ptr_eq(session, &self.session));
    }
}
