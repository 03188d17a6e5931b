//! The requests of a client that go to one server each.

use std::collections::BTreeMap;
use std::sync::Arc;

use regrow::{CallError, ErrorKind, Outcome, Request, Unapproved};
use regrow_protocol::frame::RawId;
use regrow_protocol::method;
use tokio::time::timeout;

use super::Client;
use super::call::{Call, OnEnd};

/// No more calls of one client wait until their server may start.
const MAX_WAITING: usize = 4096;

/// Calls of one client that wait until their server may start, in the order in which they came.
#[derive(Default)]
pub(super) struct WaitingCalls {
    calls: BTreeMap<u64, Box<Call>>,
    last: u64,
}

impl WaitingCalls {
    fn is_full(&self) -> bool {
        self.calls.len() >= MAX_WAITING
    }

    /// Returns the number of the call here.
    fn insert(&mut self, call: Box<Call>) -> u64 {
        self.last += 1;
        self.calls.insert(self.last, call);
        self.last
    }

    /// Takes out the newest that the client knows by this id.
    pub(super) fn withdraw(&mut self, id: &RawId) -> Option<Box<Call>> {
        let newest = self.calls.iter().rev().find(|(_, call)| call.request.id == *id);
        let number = newest.map(|(&number, _)| number)?;
        self.calls.remove(&number)
    }
}

impl Client {
    /// A request for this server, as it is.
    pub(super) fn call(&self, name: &str, request: Request, then: OnEnd) {
        let Some(server) = self.servers.named(name) else {
            let error = CallError::unsent(name.into(), &request.frame, ErrorKind::Closed);
            return request.reply.end(Outcome::Failed(error)); // It has just gone from the configuration.
        };
        let mut call = Call::new(self, server.clone(), request, then);
        if server.waits() {
            return self.call_later(call);
        }
        let upstream = match self.one_call(&server, &call.request.frame) {
            Ok(None) => self.upstream(&server),
            Ok(Some(own)) => {
                let session = own.session().clone();
                call.one_call = Some(own);
                Ok(session)
            }
            Err(error) => Err(error),
        };
        let upstream = match upstream {
            Ok(upstream) => upstream,
            Err(error) => {
                let tool = call.request.frame.tool().map(Arc::from);
                return call.refuse(CallError { tool, ..*error });
            }
        };
        let call = call.begin(&upstream);
        let key = (self.number, call.request.id.clone());
        let limit = server.config.options.call_timeout;
        let left = limit.map(|limit| limit.saturating_sub(call.request.since.elapsed()));
        let queued = server.stats.queued();
        let principal = self.state().record.principal;
        server.limiter.submit(principal, key, left, move |turn| {
            drop(queued);
            match turn {
                Ok(permit) => call.send(permit, &upstream),
                Err(turned) => call.fail(turned.into()),
            }
        });
    }

    /// A request for something whose definition has changed since it was approved.
    pub(super) fn refuse_held(&self, name: &str, request: Request) {
        let kind = ErrorKind::NotApproved(Unapproved::Definition);
        match self.servers.named(name) {
            Some(server) => Call::new(self, server, request, OnEnd::Nothing).fail(kind),
            None => {
                let error = CallError::unsent(name.escape_debug().to_string().into(), &request.frame, kind);
                request.reply.end(Outcome::Failed(error));
            }
        }
    }

    /// The same when the server may start. What it is waited for is taken from the time of the call.
    fn call_later(&self, call: Box<Call>) {
        let server = call.server.clone();
        let blocks = call.request.frame.method().is_some_and(method::waits_by_design);
        let limit = server.config.options.call_timeout.filter(|_| !blocks);
        let left = limit.map(|limit| limit.saturating_sub(call.request.since.elapsed()));
        let mut state = self.state();
        if state.waiting.is_full() {
            drop(state);
            return call.fail(ErrorKind::Overloaded);
        }
        let number = state.waiting.insert(call);
        drop(state);
        let me = self.me.clone();
        tokio::spawn(async move {
            let in_time = match left {
                Some(left) => timeout(left, server.released()).await.is_ok(),
                None => {
                    server.released().await;
                    true
                }
            };
            let Some(client) = me.upgrade() else { return };
            let call = client.state().waiting.calls.remove(&number);
            let Some(call) = call else { return }; // It was cancelled.
            if !in_time {
                return call.fail(ErrorKind::Timeout);
            }
            client.call(&server.config.name, call.request, call.then); // It may have been replaced once more.
        });
    }
}
