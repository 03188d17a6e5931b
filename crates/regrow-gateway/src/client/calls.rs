//! The requests of a client that go to one server each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::{Edit, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{error_code, method};
use tokio::time::timeout;

use super::Client;
use super::call::{Call, OnEnd};
use crate::answers::{self, raw_text};
use crate::server::Server;

/// No more calls of one client wait until their server may start.
const MAX_WAITING: usize = 4096;

/// Calls of one client that wait until their server may start, in the order in which they came.
#[derive(Default)]
pub(super) struct WaitingCalls {
    calls: BTreeMap<u64, Call>,
    last: u64,
}

impl WaitingCalls {
    fn is_full(&self) -> bool {
        self.calls.len() >= MAX_WAITING
    }

    /// Returns the number of the call here.
    fn insert(&mut self, call: Call) -> u64 {
        self.last += 1;
        self.calls.insert(self.last, call);
        self.last
    }

    /// Takes out the newest that the client knows by this id.
    pub(super) fn withdraw(&mut self, id: &RawId) -> Option<Call> {
        let newest = self.calls.iter().rev().find(|(_, call)| call.request.id == *id);
        let number = newest.map(|(&number, _)| number)?;
        self.calls.remove(&number)
    }
}

impl Client {
    /// A request for this server, as it is.
    pub(super) fn call(&self, server: &Arc<Server>, request: Request, then: OnEnd) {
        let call = Call::new(self, server.clone(), request, then);
        if server.waits() {
            return self.call_later(call);
        }
        let upstream = match self.upstream(server) {
            Ok(upstream) => upstream,
            Err(error) => {
                let tool = call.request.frame.tool().map(Arc::from);
                return Box::new(call).end(Outcome::Failed(CallError { tool, ..*error }));
            }
        };
        let call = call.begin(&upstream);
        let key = (self.number, call.request.id.clone());
        let limit = server.config.options.call_timeout;
        let left = limit.map(|limit| limit.saturating_sub(call.request.since.elapsed()));
        let queued = server.stats.queued();
        server.limiter.submit(key, left, move |turn| {
            drop(queued);
            match turn {
                Ok(permit) => call.send(permit, &upstream),
                Err(turned) => call.fail(turned.into()),
            }
        });
    }

    /// The same when the server may start. What it is waited for is taken from the time of the call.
    fn call_later(&self, call: Call) {
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
            // It may have been replaced once more.
            let newest = client.servers.named(&server.config.name).unwrap_or(server);
            client.call(&newest, call.request, call.then);
        });
    }

    /// The server that has the tool or prompt of this request, and the request as that server knows it.
    pub(super) fn by_name(&self, request: &Frame) -> Option<(Arc<Server>, Frame)> {
        let is_tool = request.method() == Some(method::TOOLS_CALL);
        let list = if is_tool { List::Tools } else { List::Prompts };
        let directory = self.directory();
        let name = request.name();
        let found = name.as_deref().and_then(|name| {
            let (at, original) = if is_tool { directory.tool(name) } else { directory.prompt(name) }?;
            Some((self.servers.named(directory.server(at))?, original.to_owned()))
        });
        match found.or_else(|| self.unlisted(name.as_deref()?, list)) {
            Some((server, original)) if name.as_deref() != Some(&original) => {
                Some((server, Frame::built(request.with([Edit::Name(&raw_text(&original))]))))
            }
            Some((server, _)) => Some((server, request.clone())),
            // It may have something that it does not list.
            None => self.only_server().map(|server| (server, request.clone())),
        }
    }

    /// A server that has not told yet what is on this list may have what is named after it: it is asked itself.
    fn unlisted(&self, name: &str, list: List) -> Option<(Arc<Server>, String)> {
        let (prefix, original) = name.split_once("__")?;
        let is_meant = |server: &Arc<Server>| !server.has_told(list) && &*server.name == prefix;
        self.servers().into_iter().find(is_meant).map(|server| (server, original.to_owned()))
    }

    /// A resource is read. Links to resources come in results, so a URI may be on no list: then servers are asked in turn.
    pub(super) fn read(&self, request: Request) {
        match self.owners(&request.frame) {
            owners if owners.is_empty() => request.reply.end(unknown_resource(&request.frame)),
            owners => self.read_at(owners, request),
        }
    }

    /// At the first of these; if that does not have it, at the next.
    pub(super) fn read_at(&self, mut left: VecDeque<(Arc<Server>, String)>, request: Request) {
        let Some((server, uri)) = left.pop_front() else { return };
        let frame = with_uri(&request.frame, &uri);
        let then = OnEnd::AskNext { request: request.frame, left };
        self.call(&server, Request { frame, ..request }, then);
    }

    /// The servers that may have the resource of this request, and what each calls it.
    pub(super) fn owners(&self, request: &Frame) -> VecDeque<(Arc<Server>, String)> {
        let directory = self.directory();
        let Some(uri) = request.uri() else {
            return self.only_server().map(|server| (server, String::new())).into_iter().collect();
        };
        let mut owners: VecDeque<_> = directory
            .resource(&uri)
            .filter_map(|(at, original)| {
                Some((self.servers.named(directory.server(at))?, original.into_owned()))
            })
            .collect();
        if owners.is_empty() {
            owners.extend(self.only_server().map(|server| (server, uri.into_owned())));
        }
        owners
    }
}

pub(super) fn with_uri(request: &Frame, uri: &str) -> Frame {
    match request.uri().is_some_and(|old| old != uri) {
        true => Frame::built(request.with([Edit::Uri(&raw_text(uri))])),
        false => request.clone(),
    }
}

/// No server has the tool or prompt of this request.
pub(super) fn unknown_name(request: &Frame) -> Outcome {
    let what = if request.method() == Some(method::TOOLS_CALL) { "tool" } else { "prompt" };
    let text = format!("Unknown {what}: {}", request.name().as_deref().unwrap_or_default());
    answers::refusal(error_code::INVALID_PARAMS, &text, None)
}

pub(super) fn unknown_resource(request: &Frame) -> Outcome {
    let uri = request.uri().unwrap_or_default();
    let data = serde_json::json!({ "uri": uri });
    answers::refusal(error_code::RESOURCE_NOT_FOUND, "Resource not found", Some(&data))
}
