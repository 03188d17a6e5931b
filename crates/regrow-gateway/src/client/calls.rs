//! The requests of a client that go to one server each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use regrow::{CallError, ErrorKind, Outcome, Reply, Request};
use regrow_protocol::frame::{Edit, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{error_code, method};
use tokio::time::timeout;

use super::Client;
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
    pub(super) fn call(&self, server: &Arc<Server>, request: Request) {
        let number = self.state().calls.begin(request.id.clone(), server.key);
        match server.waits() {
            true => self.call_later(server.clone(), number, request),
            false => self.call_now(server, number, request),
        }
    }

    /// The same when the server may start. What it is waited for is taken from the time of the call.
    fn call_later(&self, server: Arc<Server>, number: u64, request: Request) {
        if self.state().calls.open.len() > MAX_WAITING {
            self.state().calls.end(number);
            let error = CallError::unsent(server.name.clone(), &request.frame, ErrorKind::Overloaded);
            return request.reply.end(Outcome::Failed(error));
        }
        let blocks = request.frame.method().is_some_and(method::waits_by_design);
        let limit = server.config.options.call_timeout.filter(|_| !blocks);
        let left = limit.map(|limit| limit.saturating_sub(request.since.elapsed()));
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
            if !client.state().calls.is_open(number) {
                return; // It was cancelled.
            }
            // It may have been replaced once more.
            let newest = client.gateway.server_named(&server.config.name);
            match newest.filter(|newest| newest.key != server.key) {
                Some(newest) if in_time => {
                    client.state().calls.end(number);
                    return client.call(&newest, request);
                }
                None if in_time => return client.call_now(&server, number, request),
                _ => client.state().calls.end(number),
            }
            let error = CallError::unsent(server.name.clone(), &request.frame, ErrorKind::Timeout);
            request.reply.end(Outcome::Failed(error));
        });
    }

    fn call_now(&self, server: &Arc<Server>, number: u64, request: Request) {
        let Request { frame, id, reply, since } = request;
        let seat = match self.seat(server) {
            Ok(seat) => seat,
            Err(error) => {
                self.state().calls.end(number);
                let tool = frame.tool().map(Arc::from);
                return reply.end(Outcome::Failed(CallError { tool, ..*error }));
            }
        };
        let (frame, reply) = self.gateway.traces().trace(&server.name, frame, reply);
        let reply = if frame.has_task() { self.remembering(server.key, reply) } else { reply };
        let reply = Box::new(Ended { client: self.me.clone(), number, reply: server.stats.timed(reply) });
        server.enter(self.number, number, Request { frame, id, reply, since }, seat);
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
                self.call(&server, Request { frame, ..request });
            }
            // It may have something that it does not list.
            (None, Some(server)) => self.call(&server, request),
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
        let asked = self.owners(&request.frame);
        Reading { client: self.me.clone(), left: asked, request }.go_on(None);
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

/// A resource that is asked for at one server after the other, until one has it. Reading runs nothing.
struct Reading {
    client: Weak<Client>,
    left: VecDeque<(Arc<Server>, String)>,
    request: Request,
}

impl Reading {
    /// To the next server; if there is none, what the last one said.
    fn go_on(mut self, last: Option<Outcome>) {
        let Some(client) = self.client.upgrade() else { return };
        match self.left.pop_front() {
            Some((server, uri)) => {
                let Request { frame, id, since, .. } = &self.request;
                let (frame, id, since) = (with_uri(frame, &uri), id.clone(), *since);
                client.call(&server, Request { frame, id, reply: Box::new(self), since });
            }
            None => {
                let outcome = last.unwrap_or_else(|| unknown_resource(&self.request.frame));
                self.request.reply.end(outcome);
            }
        }
    }
}

impl Reply for Reading {
    fn end(self: Box<Self>, outcome: Outcome) {
        let has_it = matches!(&outcome, Outcome::Answered(answer) if !answer.is_error());
        match has_it || self.left.is_empty() {
            true => self.request.reply.end(outcome),
            false => self.go_on(Some(outcome)),
        }
    }
}

/// Takes a call off the list of its client when it has ended.
struct Ended {
    client: Weak<Client>,
    number: u64,
    reply: Box<dyn Reply>,
}

impl Reply for Ended {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(client) = self.client.upgrade() {
            client.state().calls.end(self.number);
        }
        self.reply.end(outcome);
    }
}
