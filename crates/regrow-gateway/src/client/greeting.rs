//! A client greets the gateway: who we are, and what the servers behind us can do together.

use regrow::Request;
use regrow_protocol::frame::{self, Frame, RawId};
use regrow_protocol::logging_level::LoggingLevel;
use regrow_protocol::version::{self, MODERN};
use regrow_protocol::{error_code, meta, method};
use serde_json::{Map, Value, json};

use super::Client;
use crate::answers::{self, parsed};
use crate::catalog::Catalog;
use crate::server::Needs;
use crate::session_record::SessionRecord;

impl Client {
    /// A modern client does not greet: each of its requests says who it is, and the first one counts.
    pub(super) fn note_greeting(&self, request: &Frame) {
        if request.protocol_version().is_none() || self.state().record.greeting.is_some() {
            return;
        }
        self.state().record.greeting.get_or_insert_with(|| introduction(request));
    }

    pub(super) fn initialize(&self, request: Request) {
        let upstreams = {
            let mut state = self.state();
            state.record.greet(request.frame.clone());
            std::mem::take(&mut state.upstreams)
        };
        drop(upstreams); // A client that greets again starts over.
        self.when_known(move |client| {
            let params: Value = parsed(request.frame.params());
            let asked = params["protocolVersion"].as_str().filter(|asked| version::LEGACY.contains(asked));
            let about = client.about();
            let mut result = json!({
                "protocolVersion": asked.unwrap_or(version::LATEST_LEGACY),
                "capabilities": about.capabilities(false),
                "serverInfo": about.server_info,
            });
            if let Some(instructions) = about.instructions {
                result["instructions"] = instructions.into();
            }
            request.reply.end(answers::answer_value(&result));
        });
        self.take_upstreams();
    }

    pub(super) fn discover(&self, request: Request) {
        self.when_known(move |client| {
            let about = client.about();
            let mut result = json!({
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": about.capabilities(true),
                // Servers come and go: it is asked every time.
                "ttlMs": 0,
                "cacheScope": "private",
                "_meta": { meta::SERVER_INFO: about.server_info },
            });
            if let Some(instructions) = about.instructions {
                result["instructions"] = instructions.into();
            }
            request.reply.end(answers::answer_value(&result));
        });
    }

    /// Says this when it is known what is behind us: at once for many servers, which come and go; for a single one, whose words
    /// we repeat, when it has been greeted.
    fn when_known(&self, then: impl FnOnce(&Client) + Send + 'static) {
        match self.only_server() {
            Some(server) if !server.is_listed() => {
                let me = self.me.clone();
                server.start();
                self.take_upstreams();
                let settled = server.settled();
                tokio::spawn(async move {
                    settled.await;
                    if let Some(client) = me.upgrade() {
                        then(&client);
                    }
                });
            }
            _ => then(self),
        }
    }

    /// The log level that it wants to hear. Each server is told, now or when the client comes to it.
    pub(super) fn set_level(&self, request: Request) {
        if request.frame.level().is_none_or(|level| LoggingLevel::parse(&level).is_none()) {
            return request.reply.end(answers::refusal(
                error_code::INVALID_PARAMS,
                "Invalid params: no such log level",
                None,
            ));
        }
        let upstreams: Vec<_> = {
            let mut state = self.state();
            state.record.level = Some(request.frame.clone());
            state.upstreams.values().map(|taken| taken.upstream.clone()).collect()
        };
        for upstream in upstreams {
            upstream.tell(request.frame.clone());
        }
        request.reply.end(answers::answer(b"{}"));
    }

    pub(super) fn server_info(&self) -> Value {
        self.about().server_info
    }

    fn about(&self) -> GreetingBody {
        let directory = self.directory();
        let only = self.only_server().map(|server| server.catalog());
        let said = |of: fn(&Catalog) -> &Option<Value>| only.as_ref().and_then(|only| of(only).clone());
        let ours = || json!({ "name": "regrow", "version": env!("CARGO_PKG_VERSION") });
        GreetingBody {
            server_info: said(|only| &only.server_info).unwrap_or_else(ours),
            capabilities: said(|only| &only.capabilities).unwrap_or_else(|| directory.capabilities()),
            instructions: directory.instructions(),
        }
    }
}

struct GreetingBody {
    server_info: Value,
    capabilities: Value,
    instructions: Option<String>,
}

impl GreetingBody {
    /// Without what only the other era knows. Changes of lists are told by us, whether the server tells of them or not.
    fn capabilities(&self, modern: bool) -> Value {
        let mut capabilities: Map<String, Value> = self.capabilities.as_object().cloned().unwrap_or_default();
        capabilities.remove(if modern { "tasks" } else { "extensions" });
        for list in ["tools", "prompts", "resources"] {
            if let Some(list) = capabilities.get_mut(list).and_then(Value::as_object_mut) {
                list.insert("listChanged".into(), true.into());
            }
        }
        capabilities.into()
    }
}

/// `server/discover` in the name of the client that sent this modern request.
pub(super) fn introduction(request: &Frame) -> Frame {
    let params = [b"{\"_meta\":", request.meta().unwrap_or(b"{}"), b"}"].concat();
    Frame::built(frame::request(&RawId::from(0), method::SERVER_DISCOVER, Some(&params)))
}

/// What a client needs a session of its own for, as far as it has said by now.
pub(super) fn needs(record: &SessionRecord) -> Needs {
    Needs {
        questions: record.greeting.as_ref().is_some_and(answers_questions),
        log_messages: record.level.is_some(),
    }
}

/// Whether a client that greeted so can be asked by a server. A modern client is asked by the answer to its own request instead.
fn answers_questions(greeting: &Frame) -> bool {
    let capabilities = &parsed(greeting.params())["capabilities"];
    let has = |name: &&str| capabilities.get(name).is_some_and(|value| !value.is_null());
    greeting.method() == Some(method::INITIALIZE) && ["elicitation", "sampling", "roots"].iter().any(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legacy_client_answers_questions_if_it_declares_one_of_three_capabilities() {
        let greets = |method: &str, capabilities: Value| {
            let params = json!({ "capabilities": capabilities });
            let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
            answers_questions(&Frame::built(request.to_string().into()))
        };
        for name in ["elicitation", "sampling", "roots"] {
            assert!(greets("initialize", json!({ name: {} })), "{name}");
            assert!(!greets("initialize", json!({ name: null })), "{name}");
            assert!(!greets("server/discover", json!({ name: {} })), "{name}");
        }
        assert!(!greets("initialize", json!({ "experimental": {}, "tasks": {} })));
        assert!(!greets("initialize", json!(7)));
    }
}
