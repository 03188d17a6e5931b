//! The requests of a client that go to one server each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::{Edit, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{error_code, method};
use tokio::time::timeout;

use super::Client;
use super::call::{Call, Then};
use crate::answers::{self, raw_text};
use crate::server::{Key, Server};

/// No more calls of one client wait until their server may start.
const MAX_WAITING: usize = 4096;

/// The calls of one client that have not ended, in the order in which they came.
#[derive(Default)]
pub(super) struct Calls {
    open: BTreeMap<u64, (RawId, Key)>,
    last: u64,
}

impl Calls {
    fn begin(&mut self, id: RawId, key: Key) -> u64 {
        self.last += 1;
        self.open.insert(self.last, (id, key));
        self.last
    }

    pub(super) fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Whether it has neither ended nor been cancelled.
    fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// The newest that the client knows by this id.
    pub(super) fn newest(&self, id: &RawId) -> Option<(u64, Key)> {
        let mut newest_first = self.open.iter().rev();
        newest_first.find(|(_, (of, _))| of == id).map(|(&number, &(_, key))| (number, key))
    }

    /// The newest at this server: what the server tells by itself most likely belongs to it.
    pub(super) fn newest_at(&self, key: Key) -> Option<RawId> {
        self.open.values().rev().find(|(_, of)| *of == key).map(|(id, _)| id.clone())
    }
}

impl Client {
    /// A request for this server, as it is.
    pub(super) fn call(&self, server: &Arc<Server>, request: Request, then: Then) {
        let number = self.state().calls.begin(request.id.clone(), server.key);
        let call = Call::new(self, number, server.clone(), request, then);
        match server.waits() {
            true => self.call_later(call),
            false => self.call_now(call),
        }
    }

    /// The same when the server may start. What it is waited for is taken from the time of the call.
    fn call_later(&self, call: Call) {
        if self.state().calls.open.len() > MAX_WAITING {
            return call.fail(ErrorKind::Overloaded);
        }
        let server = call.server.clone();
        let blocks = call.request.frame.method().is_some_and(method::waits_by_design);
        let limit = server.config.options.call_timeout.filter(|_| !blocks);
        let left = limit.map(|limit| limit.saturating_sub(call.request.since.elapsed()));
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
            if !client.state().calls.is_open(call.number) {
                return; // It was cancelled.
            }
            if !in_time {
                return call.fail(ErrorKind::Timeout);
            }
            // It may have been replaced once more.
            let newest = client.gateway.server_named(&server.config.name);
            match newest.filter(|newest| newest.key != server.key) {
                Some(newest) => {
                    client.state().calls.end(call.number);
                    client.call(&newest, call.request, call.then);
                }
                None => client.call_now(call),
            }
        });
    }

    fn call_now(&self, call: Call) {
        let seat = match self.seat(&call.server) {
            Ok(seat) => seat,
            Err(error) => {
                let tool = call.request.frame.tool().map(Arc::from);
                return Box::new(call).end(Outcome::Failed(CallError { tool, ..*error }));
            }
        };
        let call = call.begin(self, &seat);
        let server = call.server.clone();
        server.enter(self.number, call.number, call.request.since, move |turn| match turn {
            Ok(pass) => call.send(pass, &seat),
            Err(kind) => call.fail(kind),
        });
    }

    /// A tool is called or a prompt asked for, by the name that it has among all servers.
    pub(super) fn call_by_name(&self, request: Request) {
        let is_tool = request.frame.method() == Some(method::TOOLS_CALL);
        let directory = self.directory();
        let name = request.frame.name();
        let found = name.as_deref().and_then(|name| match is_tool {
            true => directory.tool(name),
            false => directory.prompt(name),
        });
        let found = found.and_then(|(at, original)| {
            Some((self.gateway.server_named(directory.server(at))?, original.to_owned()))
        });
        let list = if is_tool { List::Tools } else { List::Prompts };
        let found = found.or_else(|| self.unlisted(name.as_deref()?, list));
        match (found, self.only_server()) {
            (Some((server, original)), _) => {
                let is_renamed = name.as_deref() != Some(&original);
                let frame = match is_renamed {
                    true => Frame::built(request.frame.with([Edit::Name(&raw_text(&original))])),
                    false => request.frame.clone(),
                };
                self.call(&server, Request { frame, ..request }, Then::Nothing);
            }
            // It may have something that it does not list.
            (None, Some(server)) => self.call(&server, request, Then::Nothing),
            (None, None) => {
                let what = if is_tool { "tool" } else { "prompt" };
                let text = format!("Unknown {what}: {}", name.as_deref().unwrap_or_default());
                request.reply.end(answers::refusal(error_code::INVALID_PARAMS, &text, None));
            }
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
        let then = Then::AskNext { request: request.frame, left };
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
                Some((self.gateway.server_named(directory.server(at))?, original.into_owned()))
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

pub(super) fn unknown_resource(request: &Frame) -> Outcome {
    let uri = request.uri().unwrap_or_default();
    let data = serde_json::json!({ "uri": uri });
    answers::refusal(error_code::RESOURCE_NOT_FOUND, "Resource not found", Some(&data))
}
