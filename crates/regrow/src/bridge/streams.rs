//! Subscription streams of a modern client, kept up for a legacy server that knows none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;

use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{meta, method, notification};
use serde_json::value::RawValue;

use super::Bridge;
use super::object::Object;
use super::onto_legacy::Unheard;
use super::words;
use crate::call::{Outcome, Reply};
use crate::error::ErrorKind;

/// More streams than this are refused,
const MAX_STREAMS: usize = 256;
/// and those that would make for more subscriptions.
const MAX_URIS: usize = 4096;
/// A longer URI is not subscribed to.
const MAX_URI: usize = 4096;

/// The client's streams, and what the server was asked to tell for them.
#[derive(Default)]
pub(super) struct Streams {
    open: Vec<SubscriptionStream>,
    /// Resources, and whether the server has confirmed that it tells of them.
    uris: BTreeMap<String, bool>,
}

struct SubscriptionStream {
    id: RawId,
    request: Frame,
    reply: Box<dyn Reply>,
    lists: Vec<&'static str>,
    uris: BTreeSet<String>,
    acknowledged: bool,
}

impl SubscriptionStream {
    /// A notification of this stream.
    fn line(&self, method: &str, params: &Object) -> bytes::Bytes {
        let mut params = params.clone();
        let mut meta = params.object("_meta");
        // The id as it was written: its type is part of it.
        if let Ok(id) = serde_json::from_slice::<Box<RawValue>>(self.id.as_bytes()) {
            meta.put_raw(meta::SUBSCRIPTION_ID, id);
        }
        params.put("_meta", meta);
        frame::notification(method, Some(&params.bytes()))
    }

    fn acknowledgement(&self) -> bytes::Bytes {
        let mut params = Object::default();
        params.put("notifications", words::filter(&self.lists, &self.uris));
        self.line(notification::SUBSCRIPTIONS_ACKNOWLEDGED, &params)
    }

    /// Whether it wants to hear this. What is told of a part of a resource concerns those who asked for the whole.
    fn wants(&self, method: &str, uri: Option<&str>) -> bool {
        let list = List::ALL.into_iter().find(|list| list.notification() == method).map(List::filter);
        let hears = |uri: &str| self.uris.iter().any(|wanted| uri.starts_with(wanted.as_str()));
        self.acknowledged && (list.is_some_and(|list| self.lists.contains(&list)) || uri.is_some_and(hears))
    }
}

impl Streams {
    /// The lines that tell of the streams for which all is confirmed now.
    fn acknowledge(&mut self) -> Vec<bytes::Bytes> {
        let Streams { open, uris } = self;
        let is_ready =
            |stream: &SubscriptionStream| stream.uris.iter().all(|uri| uris.get(uri) == Some(&true));
        let ready = open.iter_mut().filter(|stream| !stream.acknowledged && is_ready(stream));
        ready
            .map(|stream| {
                stream.acknowledged = true;
                stream.acknowledgement()
            })
            .collect()
    }
}

impl Bridge {
    /// The client opens a stream.
    pub(super) fn listen(&self, request: &Frame, id: RawId, reply: Box<dyn Reply>) {
        let filter = Object::of(request.params()).object("notifications");
        let about = self.about();
        let mut lists = about.lists();
        lists.retain(|list| filter.value(list) == true);
        let mut uris: BTreeSet<String> =
            serde_json::from_value(filter.value("resourceSubscriptions")).unwrap_or_default();
        uris.retain(|uri| about.tells_of_resources() && uri.len() <= MAX_URI);
        let mut state = self.state();
        let streams = &mut state.streams;
        let new: Vec<String> = uris.iter().filter(|uri| !streams.uris.contains_key(*uri)).cloned().collect();
        if streams.open.len() >= MAX_STREAMS || streams.uris.len() + new.len() > MAX_URIS {
            drop(state);
            return reply.end(Outcome::Failed(self.error(request, ErrorKind::Overloaded)));
        }
        streams.uris.extend(new.iter().map(|uri| (uri.clone(), false)));
        let request = request.clone();
        streams.open.push(SubscriptionStream { id, request, reply, lists, uris, acknowledged: false });
        let lines = streams.acknowledge();
        drop(state);
        self.tell_client(lines);
        for uri in new {
            let subscribed = Subscribed { bridge: self.me.clone(), uri: uri.clone() };
            self.tell(method::RESOURCES_SUBSCRIBE, &naming(&uri), Box::new(subscribed));
        }
    }

    /// The server has said whether it tells of this resource; or it could not be asked.
    fn subscribed(&self, uri: &str, outcome: Outcome) {
        let mut state = self.state();
        let streams = &mut state.streams;
        let Some(confirmed) = streams.uris.get_mut(uri) else { return }; // Nobody wants it any more.
        let mut failed = vec![];
        match &outcome {
            Outcome::Answered(answer) if !answer.is_error() => *confirmed = true,
            _ => {
                streams.uris.remove(uri);
                let is_hit =
                    |stream: &mut SubscriptionStream| stream.uris.remove(uri) && !stream.acknowledged;
                if matches!(outcome, Outcome::Failed(_)) {
                    failed = streams.open.extract_if(.., |stream| is_hit(stream)).collect();
                } else {
                    streams.open.iter_mut().for_each(|stream| _ = is_hit(stream));
                }
            }
        }
        let lines = streams.acknowledge();
        drop(state);
        self.tell_client(lines);
        if let Outcome::Failed(error) = outcome {
            failed.into_iter().for_each(|stream| stream.reply.end(Outcome::Failed(error.clone())));
        }
    }

    /// The client gave up a stream. Returns whether it was one of these.
    pub(super) fn cancel_stream(&self, id: &RawId) -> bool {
        let mut state = self.state();
        let streams = &mut state.streams;
        let Some(at) = streams.open.iter().rposition(|stream| stream.id == *id) else { return false };
        let ended = streams.open.remove(at);
        let is_unwanted = |uri: &String| !streams.open.iter().any(|stream| stream.uris.contains(uri));
        let unwanted: BTreeSet<String> = ended.uris.into_iter().filter(is_unwanted).collect();
        streams.uris.retain(|uri, _| !unwanted.contains(uri));
        drop(state);
        for uri in unwanted {
            self.tell(method::RESOURCES_UNSUBSCRIBE, &naming(&uri), Box::new(Unheard));
        }
        true
    }

    /// The server tells of a change: each stream that wants to hear of it does.
    pub(super) fn tell_streams(&self, method: &str, notification: &Frame) -> bool {
        let params = Object::of(notification.params());
        let uri = notification.uri();
        let lines: Vec<_> = {
            let state = self.state();
            let streams = state.streams.open.iter().filter(|stream| stream.wants(method, uri.as_deref()));
            streams.map(|stream| stream.line(method, &params)).collect()
        };
        self.tell_client(lines);
        true
    }

    fn tell_client(&self, lines: Vec<bytes::Bytes>) {
        for line in lines {
            self.client.take(words::to_client(line));
        }
    }

    /// The connection is over.
    pub(super) fn end_streams(&self) {
        let streams = std::mem::take(&mut self.state().streams);
        for stream in streams.open {
            stream.reply.end(Outcome::Failed(self.error(&stream.request, ErrorKind::Closed)));
        }
    }
}

fn naming(uri: &str) -> Object {
    let mut params = Object::default();
    params.put("uri", uri);
    params
}

struct Subscribed {
    bridge: Weak<Bridge>,
    uri: String,
}

impl Reply for Subscribed {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(bridge) = self.bridge.upgrade() {
            bridge.subscribed(&self.uri, outcome);
        }
    }
}
