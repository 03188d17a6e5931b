//! What goes on while other things go on: calls that can be cancelled, questions to the client, listen streams.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use regrow_protocol::meta;
use serde_json::{Value, json};

use super::Server;
use super::wire::{Reply, RpcRequest};
use crate::sync::lock;

/// Longer than any life; keeps a silly number from overflowing the clock.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Something in flight that waits for news from the client.
#[derive(Default)]
pub(super) struct Call {
    news: Mutex<Option<News>>,
    arrived: Condvar,
}

/// What the client may say about it.
#[derive(Clone)]
pub(super) enum News {
    Cancelled,
    Answer(String),
}

impl Call {
    fn tell(&self, news: News) {
        *lock(&self.news) = Some(news);
        self.arrived.notify_all();
    }

    /// Waits for news until `limit` has passed.
    pub(super) fn wait(&self, limit: Duration) -> Option<News> {
        let deadline = Instant::now() + limit.min(LONGEST_WAIT);
        let mut news = lock(&self.news);
        while news.is_none() {
            let left = deadline.checked_duration_since(Instant::now())?;
            news = self.arrived.wait_timeout(news, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        news.clone()
    }
}

/// A `subscriptions/listen` request that is open.
pub(super) struct Listen {
    request: RpcRequest,
    wanted: Value,
}

impl Listen {
    fn meta(&self) -> Value {
        json!({meta::SUBSCRIPTION_ID: self.request.id_value()})
    }
}

impl Server {
    /// The client cancels a call or ends a stream.
    pub(super) fn cancel(&self, id: &Value) {
        let mut streams = lock(&self.listens);
        let before = streams.len();
        streams.retain(|stream| stream.request.id_value() != *id);
        let ended = streams.len() < before;
        let call = lock(&self.running)
            .iter()
            .find(|(raw, _)| serde_json::from_str::<Value>(raw).is_ok_and(|raw| raw == *id))
            .map(|(_, call)| Arc::clone(call));
        let known = if ended || call.is_some() { "cancelled" } else { "cancelled-unknown" };
        self.evidence.note(&format!("{known} {id}"));
        if let Some(call) = call {
            call.tell(News::Cancelled);
        }
    }

    /// The client answers a question.
    pub(super) fn take_answer(&self, id: &str, line: String) {
        match lock(&self.questions).remove(id) {
            Some(call) => {
                self.evidence.note(&format!("response {id}"));
                call.tell(News::Answer(line));
            }
            None => self.evidence.note(&format!("stray-response {id}")),
        }
    }

    /// Asks the client something in the way of the request's era, and returns its answer verbatim.
    pub(super) fn ask(&self, request: &RpcRequest, call: &Arc<Call>) -> Reply {
        let (method, params) = match request.argument("kind").as_str().unwrap_or("elicitation") {
            "sampling" => {
                let message = json!({"role": "user", "content": {"type": "text", "text": "Say yes."}});
                ("sampling/createMessage", json!({"messages": [message], "maxTokens": 10}))
            }
            "roots" => ("roots/list", json!({})),
            _ => {
                let schema = json!({"type": "object", "properties": {"yes": {"type": "boolean"}}});
                ("elicitation/create", json!({"message": "Shall I?", "requestedSchema": schema}))
            }
        };
        if request.modern {
            return match request.params.get("inputResponses") {
                Some(answers) => Reply::text(answers.to_string()),
                None => Reply::Result(json!({
                    "resultType": "input_required",
                    "inputRequests": {"question": {"method": method, "params": params}},
                    "requestState": format!("chaos-life-{}", self.life),
                })),
            };
        }
        let number = self.next_question.fetch_add(1, Ordering::SeqCst);
        let id = number.to_string();
        lock(&self.questions).insert(id.clone(), Arc::clone(call));
        let question = json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params});
        let output = if self.orders().has("ask-on-get") { &self.output } else { &request.output };
        output.line(&question.to_string());
        match call.wait(self.time_left()) {
            Some(News::Answer(answer)) => Reply::text(answer),
            Some(News::Cancelled) | None => {
                lock(&self.questions).remove(&id);
                output.notify("notifications/cancelled", &json!({"requestId": number}));
                Reply::Silence
            }
        }
    }

    /// Opens a stream: the acknowledgement comes first, the answer not before the end.
    pub(super) fn listen(&self, request: &RpcRequest) -> Reply {
        let mut wanted = request.params["notifications"].clone();
        if let Some(wanted) = wanted.as_object_mut() {
            wanted.retain(|_, value| *value != false && !value.is_null() && *value != json!([]));
        } else {
            return Reply::error(-32602, "subscriptions/listen needs params.notifications");
        }
        let stream = Listen { request: request.clone(), wanted };
        // Locked while the acknowledgement is written, so that no notification overtakes it.
        let mut streams = lock(&self.listens);
        let params = json!({"notifications": stream.wanted, "_meta": stream.meta()});
        request.output.notify("notifications/subscriptions/acknowledged", &params);
        streams.push(stream);
        Reply::Silence
    }

    /// Ends all streams cleanly; returns how many there were.
    pub(super) fn end_streams(self: &Arc<Self>) -> usize {
        let streams = std::mem::take(&mut *lock(&self.listens));
        for stream in &streams {
            self.answer(&stream.request, Reply::Result(json!({"_meta": stream.meta()})));
        }
        streams.len()
    }

    /// Says that the list of tools has changed, to those that the era allows.
    pub(super) fn say_tools_changed(&self, modern: bool) {
        self.publish(modern, "notifications/tools/list_changed", &json!({}), |wanted| {
            wanted["toolsListChanged"] == true
        });
    }

    /// Says that a resource has changed, to its subscribers. Returns how often it was said.
    pub(super) fn say_resource_changed(&self, modern: bool, uri: &str) -> usize {
        if !modern && !lock(&self.subscriptions).contains(uri) {
            return 0;
        }
        self.publish(modern, "notifications/resources/updated", &json!({"uri": uri}), |wanted| {
            wanted["resourceSubscriptions"]
                .as_array()
                .is_some_and(|uris| uris.iter().any(|known| known == uri))
        })
    }

    fn publish(&self, modern: bool, method: &str, params: &Value, wants: impl Fn(&Value) -> bool) -> usize {
        if !modern {
            self.output.notify(method, params);
            return 1;
        }
        let streams = lock(&self.listens);
        let listening = streams.iter().filter(|stream| wants(&stream.wanted));
        let tagged = listening.map(|stream| {
            let mut params = params.clone();
            params["_meta"] = stream.meta();
            stream.request.output.notify(method, &params);
        });
        tagged.count()
    }

    /// How long this life may still last.
    pub(super) fn time_left(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }
}
