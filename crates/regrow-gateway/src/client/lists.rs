//! Lists, answered from the catalogs: at once, also while servers start, hang or are down.

use bytes::{BufMut, BytesMut};
use regrow::core::Epoch;
use regrow::{CallError, ErrorKind, Incoming, Outcome, Request};
use regrow_protocol::frame::{self, Frame};
use regrow_protocol::list::List;
use regrow_protocol::{error_code, meta};
use serde_json::{Value, json};

use super::Client;
use crate::answers::{self, parsed};
use crate::directory::PAGE_SIZE;
use crate::server::Server;

/// More lists of one client do not wait.
const MAX_WAITING: usize = 64;

impl Client {
    /// Servers that have never told what they offer are waited for, within bounds: most clients ask only once.
    pub(super) fn list(&self, list: List, request: Request) {
        self.take_upstreams();
        let unlisted: Vec<_> = self.servers().into_iter().filter(|server| !server.is_listed()).collect();
        if unlisted.is_empty() {
            return self.answer_list(list, request);
        }
        if self.state().waiting_lists == MAX_WAITING {
            let error = CallError::unsent("regrow".into(), &request.frame, ErrorKind::Overloaded);
            return request.reply.end(Outcome::Failed(error));
        }
        self.state().waiting_lists += 1;
        let me = self.me.clone();
        // Each is waited for from now on, also while it is another's turn here.
        let settled: Vec<_> = unlisted.into_iter().map(Server::settled).collect();
        tokio::spawn(async move {
            for settled in settled {
                settled.await;
            }
            if let Some(client) = me.upgrade() {
                client.state().waiting_lists -= 1;
                client.answer_list(list, request);
            }
        });
    }

    fn answer_list(&self, list: List, request: Request) {
        let cursor = request.frame.cursor().filter(|raw| *raw != b"null");
        let cursor: Option<Value> = cursor.map(|raw| parsed(Some(raw)));
        let directory = self.directory();
        let page = match &cursor {
            None => directory.page(list, None, PAGE_SIZE),
            Some(cursor) => directory.page(list, Some(cursor.as_str().unwrap_or_default()), PAGE_SIZE),
        };
        let Ok(page) = page else {
            let text = "Invalid params: the cursor belongs to another list; ask for the first page";
            return request.reply.end(answers::refusal(error_code::INVALID_PARAMS, text, None));
        };
        self.state().record.lists[list as usize] = Some(directory.revision(list));
        let modern = request.frame.protocol_version().is_some();
        let mut result = BytesMut::with_capacity(page.items.len() + 512);
        result.put_slice(b"{\"");
        result.put_slice(list.member().as_bytes());
        result.put_slice(b"\":");
        result.put_slice(&page.items);
        if let Some(next) = &page.next {
            put(&mut result, "nextCursor", &json!(next));
        }
        let mut meta = json!({});
        if modern {
            put(&mut result, "resultType", &json!("complete"));
            put(&mut result, "ttlMs", &json!(0));
            put(&mut result, "cacheScope", &json!("private"));
            meta[meta::SERVER_INFO] = self.server_info();
        }
        // Only what is not as it should be: lists are read by models, and paid for.
        let stale: serde_json::Map<String, Value> = self
            .servers()
            .iter()
            .filter_map(|server| Some((server.name.to_string(), server.staleness(list)?)))
            .collect();
        if !stale.is_empty() {
            meta[meta::FRESHNESS] = stale.into();
        }
        if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
            put(&mut result, "_meta", &meta);
        }
        result.put_u8(b'}');
        request.reply.end(answers::answer(&result));
    }

    /// Takes its upstream session at every server that is to be started with its client, so that they start now.
    pub(crate) fn take_upstreams(&self) {
        for server in self.servers() {
            if server.starts_with_its_client() {
                // One that cannot be reached says so when it is called.
                let _ = self.upstream(&server);
            }
        }
    }

    /// Something has changed. Tells the client which of its lists are not what it knows.
    pub(crate) fn look_at_lists(&self) {
        if !self.state().knows_lists() {
            return; // Most are here while servers start, when all lists change all the time.
        }
        let directory = self.directory();
        let now = List::ALL.map(|list| directory.revision(list));
        let mut state = self.state();
        let mut methods = vec![];
        for list in List::ALL {
            // Who has never asked knows nothing that could have changed.
            let known = &mut state.record.lists[list as usize];
            if known.is_some_and(|known| known != now[list as usize]) {
                *known = Some(now[list as usize]);
                methods.push(list.notification());
            }
        }
        methods.dedup();
        let is_told = state.record.greeting.is_some() && state.record.is_ready;
        drop(state);
        for method in methods.into_iter().filter(|_| is_told) {
            let frame = Frame::built(frame::notification(method, None));
            self.take(Incoming::of_no_call(Epoch(0), frame));
        }
        self.tell_streams(now);
    }
}

fn put(result: &mut BytesMut, name: &str, value: &Value) {
    result.put_slice(format!(",\"{name}\":{value}").as_bytes());
}
