//! Subscription streams of a modern client: what of them concerns lists is told here, what concerns resources by the servers that have
//! them, each over a stream of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use regrow::core::Epoch;
use regrow::{Incoming, Outcome, Reply, Request};
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::{meta, method, notification};
use serde_json::{Map, Value, json};

use super::Client;
use crate::answers::{self, parsed, raw_text};
use crate::route;
use crate::server::InUse;
use crate::upstream::UpstreamSession;

/// More streams of one client than this are refused,
const MAX_STREAMS: usize = 64;
/// and those that ask for more resources.
const MAX_URIS: usize = 1024;
/// So long the client waits for servers to open their part. Then it is told what is open.
const OPENED_WITHIN: Duration = Duration::from_secs(5);
/// The lists whose changes a stream can report. Templates change with resources.
const LISTS: [List; 3] = [List::Tools, List::Prompts, List::Resources];

/// The open streams of one client.
#[derive(Default)]
pub(super) struct Streams {
    open: Vec<ClientStream>,
    last: u64,
}

impl Streams {
    /// Whether one of them tells of changed lists.
    pub(super) fn tell_of_lists(&self) -> bool {
        self.open.iter().any(|stream| !stream.lists.is_empty())
    }
}

struct ClientStream {
    id: RawId,
    reply: Box<dyn Reply>,
    lists: Vec<List>,
    /// The revisions of the lists when it was opened, or last told of a change. Others may ask for lists beside it.
    seen: [u64; 4],
    parts: Vec<StreamPart>,
    is_acknowledged: bool,
}

/// What one server does for a stream.
struct StreamPart {
    id: RawId,
    upstream: Arc<UpstreamSession>,
    uris: BTreeSet<String>,
    is_open: bool,
    /// Who listens uses the server.
    _used: InUse,
}

impl ClientStream {
    fn notification(&self, method: &str, mut params: Map<String, Value>) -> Frame {
        let mut meta = params.get("_meta").and_then(Value::as_object).cloned().unwrap_or_default();
        meta.insert(meta::SUBSCRIPTION_ID.into(), parsed(Some(self.id.as_bytes())));
        params.insert("_meta".into(), meta.into());
        Frame::built(frame::notification(method, Some(Value::from(params).to_string().as_bytes())))
    }

    /// A message for its client, on its way there.
    fn incoming(&self, message: Frame) -> Incoming {
        let incoming = Incoming::of_no_call(Epoch(0), message);
        Incoming { call: Some(self.id.clone()), to: self.reply.inbox(), ..incoming }
    }

    /// What tells of the lists that it asked for and that are not what it has seen.
    fn changes(&mut self, now: [u64; 4]) -> Vec<Incoming> {
        let seen = std::mem::replace(&mut self.seen, now);
        let changed = |list: &&List| seen[**list as usize] != now[**list as usize];
        let mut methods: Vec<_> = List::ALL.iter().filter(changed).map(|list| list.notification()).collect();
        methods.dedup();
        methods.retain(|method| self.lists.iter().any(|list| list.notification() == *method));
        methods.into_iter().map(|method| self.incoming(self.notification(method, Map::new()))).collect()
    }

    /// Says what is open now, once.
    fn acknowledge(&mut self) -> Option<Incoming> {
        if std::mem::replace(&mut self.is_acknowledged, true) {
            return None;
        }
        let mut honoured: Map<String, Value> =
            self.lists.iter().map(|list| (list.filter().to_owned(), true.into())).collect();
        let uris: Vec<&String> =
            self.parts.iter().filter(|part| part.is_open).flat_map(|part| &part.uris).collect();
        if !uris.is_empty() {
            honoured.insert("resourceSubscriptions".into(), json!(uris));
        }
        let params = Map::from_iter([("notifications".to_owned(), honoured.into())]);
        Some(self.incoming(self.notification(notification::SUBSCRIPTIONS_ACKNOWLEDGED, params)))
    }
}

impl Client {
    pub(super) fn listen(&self, request: Request) {
        let params = parsed(request.frame.params());
        let filter = &params["notifications"];
        let lists: Vec<_> = LISTS.into_iter().filter(|list| filter[list.filter()] == true).collect();
        let wanted: BTreeSet<String> =
            serde_json::from_value(filter["resourceSubscriptions"].clone()).unwrap_or_default();
        let is_full = self.state().streams.open.len() >= MAX_STREAMS;
        if is_full || wanted.len() > MAX_URIS {
            let text = "too many subscriptions are open";
            return request.reply.end(answers::refusal(-31003, text, None));
        }
        let mut by_server = BTreeMap::new();
        let directory = self.directory();
        for uri in wanted {
            if let Some(owner) = route::owner(&uri, &self.state().record, &directory)
                && let Some(server) = self.servers.named(&owner.server)
            {
                by_server.entry(server.key).or_insert_with(|| (server, BTreeSet::new())).1.insert(owner.uri);
            }
        }
        let mut parts = vec![];
        for (server, uris) in by_server.into_values() {
            // A server that cannot be reached tells nothing; the others do.
            let Ok(upstream) = self.upstream(&server) else { continue };
            let mut state = self.state();
            state.streams.last += 1;
            let id = raw_text(&format!("regrow-listen-{}", state.streams.last));
            let used = InUse::of(&server, &upstream);
            parts.push(StreamPart { id, upstream, uris, is_open: false, _used: used });
        }
        let opened: Vec<(RawId, Arc<UpstreamSession>, Frame)> = parts
            .iter()
            .map(|part| (part.id.clone(), part.upstream.clone(), part_of(&params, part)))
            .collect();
        let id = request.id.clone();
        let seen = List::ALL.map(|list| directory.revision(list));
        let stream =
            ClientStream { id: request.id, reply: request.reply, lists, seen, parts, is_acknowledged: false };
        self.state().streams.open.push(stream);
        if opened.is_empty() {
            return self.acknowledge(&id);
        }
        for (part, upstream, frame) in opened {
            let end = PartEnd { client: self.me.clone(), part: part.clone() };
            upstream.submit(Request::new(frame, part, Box::new(end)));
        }
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(OPENED_WITHIN).await;
            if let Some(client) = me.upgrade() {
                client.acknowledge(&id);
            }
        });
    }

    fn acknowledge(&self, id: &RawId) {
        let told = {
            let mut state = self.state();
            let stream = state.streams.open.iter_mut().find(|stream| stream.id == *id);
            stream.and_then(ClientStream::acknowledge)
        };
        told.map(|told| self.take(told));
    }

    /// A server tells something for a part of a stream. Returns whether anybody hears it.
    pub(super) fn tell_stream(&self, part_id: &RawId, notification: &Frame) -> bool {
        let method = notification.method().unwrap_or_default();
        let opens = method == notification::SUBSCRIPTIONS_ACKNOWLEDGED;
        let told = {
            let mut state = self.state();
            let has_part = |stream: &&mut ClientStream| stream.parts.iter().any(|part| part.id == *part_id);
            let Some(stream) = state.streams.open.iter_mut().find(has_part) else { return false };
            let part = stream.parts.iter_mut().find(|part| part.id == *part_id);
            if opens && let Some(part) = part {
                part.is_open = true;
                let honoured =
                    parsed(notification.params())["notifications"]["resourceSubscriptions"].clone();
                let honoured: Option<BTreeSet<String>> = serde_json::from_value(honoured).ok();
                part.uris = honoured.unwrap_or_default();
            }
            match opens {
                true if stream.parts.iter().all(|part| part.is_open) => stream.acknowledge(),
                true => None,
                false => Some(stream.incoming(notification.edited([Edit::SubscriptionId(&stream.id)]))),
            }
        };
        told.map(|told| self.take(told));
        true
    }

    /// Tells each stream which of its lists have changed.
    pub(super) fn tell_streams(&self, now: [u64; 4]) {
        let told: Vec<_> = {
            let mut state = self.state();
            state.streams.open.iter_mut().flat_map(|stream| stream.changes(now)).collect()
        };
        for told in told {
            self.take(told);
        }
    }

    /// The client does not want to hear any more. Returns whether it was a stream.
    pub(super) fn end_stream(&self, id: &RawId) -> bool {
        let mut state = self.state();
        let Some(at) = state.streams.open.iter().rposition(|stream| stream.id == *id) else { return false };
        let stream = state.streams.open.remove(at);
        drop(state);
        for part in stream.parts {
            let told = Frame::built(frame::cancellation(&part.id, None));
            part.upstream.cancel(&part.id, &told);
        }
        true
    }

    /// A server has ended its part. The rest goes on; with nothing left to tell, so does the stream end.
    fn part_ended(&self, part_id: &RawId, outcome: Outcome) {
        let mut state = self.state();
        let has_part = |stream: &ClientStream| stream.parts.iter().any(|part| part.id == *part_id);
        let Some(at) = state.streams.open.iter().position(has_part) else { return };
        let stream = &mut state.streams.open[at];
        stream.parts.retain(|part| part.id != *part_id);
        let is_over = stream.parts.is_empty() && stream.lists.is_empty();
        let all_open = stream.parts.iter().all(|part| part.is_open);
        let id = stream.id.clone();
        let ended = is_over.then(|| state.streams.open.remove(at));
        drop(state);
        match ended {
            Some(stream) => stream.reply.end(renamed(outcome, &id)),
            None if all_open => self.acknowledge(&id),
            None => {}
        }
    }
}

/// The request for one server's part of a stream.
fn part_of(params: &Value, part: &StreamPart) -> Frame {
    let mut params = params.clone();
    params["notifications"] = json!({ "resourceSubscriptions": part.uris });
    Frame::built(frame::request(&part.id, method::SUBSCRIPTIONS_LISTEN, Some(params.to_string().as_bytes())))
}

/// The end of a stream names it as its client does.
fn renamed(outcome: Outcome, id: &RawId) -> Outcome {
    let Outcome::Answered(end) = &outcome else { return outcome };
    frame::stream_end(end, id).map(|line| Outcome::Answered(Frame::built(line))).unwrap_or(outcome)
}

struct PartEnd {
    client: Weak<Client>,
    part: RawId,
}

impl Reply for PartEnd {
    fn end(self: Box<Self>, outcome: Outcome) {
        if let Some(client) = self.client.upgrade() {
            client.part_ended(&self.part, outcome);
        }
    }
}
