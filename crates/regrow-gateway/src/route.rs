//! Where a request of a client goes: a function of the request, of what the client's session remembers, and of what the servers offer.
//! Nothing here sends, waits or locks.

use std::collections::BTreeMap;

use regrow::Outcome;
use regrow_protocol::frame::{self, Edit, Frame, RawId};
use regrow_protocol::list::List;
use regrow_protocol::text::escape;
use regrow_protocol::version::MODERN;
use regrow_protocol::{error_code, method};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answers::{self, parsed, raw_text};
use crate::directory::Directory;
use crate::session_record::SessionRecord;

/// How much of an unknown name an error repeats, in characters.
const MAX_NAME: usize = 256;

/// Where a request goes.
pub(crate) enum Route {
    /// The gateway answers it.
    Gateway(OwnMethod),
    /// To this server, in its words.
    Server { name: String, frame: Frame },
    /// To this server, where it begins or ends a subscription.
    Subscription { owner: ResourceOwner, begins: bool },
    /// To this server, about tasks that this client is not known to have begun: only where the server knows from the session whose
    /// they are.
    ForeignTask { name: String, frame: Frame },
    /// To no server: this one has changed what it means since that was approved.
    Held { name: String },
    /// Nobody can answer it. This is the client's answer.
    Refused(Outcome),
}

/// What the gateway answers from what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnMethod {
    Initialize,
    Discover,
    Ping,
    SetLevel,
    Listen,
    List(List),
}

/// The server that answers for a resource, and what it calls that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceOwner {
    pub(crate) server: String,
    pub(crate) uri: String,
}

/// Where this request goes.
pub(crate) fn route(request: &Frame, session: &SessionRecord, directory: &Directory) -> Route {
    if let Some(refusal) = wrong_version(request) {
        return Route::Refused(refusal);
    }
    if is_gone(request) {
        return Route::Refused(answers::unknown_method());
    }
    let method = request.method().unwrap_or_default();
    match method {
        method::INITIALIZE => Route::Gateway(OwnMethod::Initialize),
        method::SERVER_DISCOVER => Route::Gateway(OwnMethod::Discover),
        method::PING => Route::Gateway(OwnMethod::Ping),
        method::LOGGING_SET_LEVEL => Route::Gateway(OwnMethod::SetLevel),
        method::SUBSCRIPTIONS_LISTEN => Route::Gateway(OwnMethod::Listen),
        method::TOOLS_CALL => by_name(request, List::Tools, directory),
        method::PROMPTS_GET => by_name(request, List::Prompts, directory),
        method::RESOURCES_READ | method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => {
            match (owner(&request.uri().unwrap_or_default(), session, directory), method) {
                (None, _) => Route::Refused(unknown_resource(request)),
                (Some(ResourceOwner { server, uri }), method::RESOURCES_READ) => {
                    Route::Server { name: server, frame: with_uri(request, &uri) }
                }
                (Some(owner), _) => {
                    Route::Subscription { owner, begins: method == method::RESOURCES_SUBSCRIBE }
                }
            }
        }
        method::COMPLETION_COMPLETE => completion(request, session, directory),
        _ if method::is_about_tasks(method) => task(request, session, directory),
        _ => match (List::by_method(method), directory.only_server()) {
            (Some(list), _) => Route::Gateway(OwnMethod::List(list)),
            (None, Some(only)) => Route::Server { name: only.into(), frame: request.clone() },
            (None, None) => Route::Refused(answers::unknown_method()),
        },
    }
}

/// The server that answers for this resource. Links to resources come in results, so a URI may be on no list.
pub(crate) fn owner(uri: &str, session: &SessionRecord, directory: &Directory) -> Option<ResourceOwner> {
    let found = directory.resource(uri, |server| session.links.is_from(uri, server));
    let found = found.map(|(at, original)| (directory.server(at), original.into_owned()));
    let (server, uri) = found.or_else(|| Some((directory.only_server()?, uri.to_owned())))?;
    Some(ResourceOwner { server: server.into(), uri })
}

/// A request for a resource, as this server knows it.
pub(crate) fn with_uri(request: &Frame, uri: &str) -> Frame {
    match request.uri().is_some_and(|old| old != uri) {
        true => request.edited([Edit::Uri(&raw_text(uri))]),
        false => request.clone(),
    }
}

/// To the server that has this tool or prompt.
fn by_name(request: &Frame, list: List, directory: &Directory) -> Route {
    let name = request.name();
    let listed = name.as_deref().and_then(|name| directory.item(list, name));
    if let Some((at, item)) = listed
        && item.is_held()
    {
        return Route::Held { name: directory.server(at).into() };
    }
    let found = name.as_deref().and_then(|name| {
        let listed = listed.map(|(at, item)| (directory.server(at), item.key()));
        listed.or_else(|| directory.unlisted(list, name))
    });
    match found {
        Some((server, original)) if name.as_deref() != Some(original) => {
            Route::Server { name: server.into(), frame: request.edited([Edit::Name(&raw_text(original))]) }
        }
        Some((server, _)) => Route::Server { name: server.into(), frame: request.clone() },
        None => match directory.server_for_unlisted(list) {
            // It may have something that it does not list.
            Some(only) => Route::Server { name: only.into(), frame: request.clone() },
            None => Route::Refused(unknown_name(list, name.as_deref().unwrap_or_default())),
        },
    }
}

/// To the server where the task runs.
fn task(request: &Frame, session: &SessionRecord, directory: &Directory) -> Route {
    let params = parsed(request.params());
    let (task, only) = (params["taskId"].as_str(), directory.only_server());
    let frame = request.clone();
    match (task, task.and_then(|task| session.tasks.server(task)), only) {
        (_, Some(server), _) => Route::Server { name: server.into(), frame },
        (Some(_), None, Some(only)) => Route::ForeignTask { name: only.into(), frame },
        (Some(_), None, None) => Route::Refused(unknown_task()),
        (None, None, Some(only)) => Route::Server { name: only.into(), frame },
        (None, None, None) => Route::Refused(answers::unknown_method()),
    }
}

/// What a client is told of a task that is not its own: the same as of one that does not exist.
pub(crate) fn unknown_task() -> Outcome {
    answers::refusal(error_code::INVALID_PARAMS, "Invalid params: no task has this id", None)
}

/// To the server that has the prompt or the resource whose argument is to be completed.
fn completion(request: &Frame, session: &SessionRecord, directory: &Directory) -> Route {
    let reference = &parsed(request.params())["ref"];
    match referred(reference, session, directory) {
        Some((server, known)) if known == *reference => {
            Route::Server { name: server.into(), frame: request.clone() }
        }
        Some((server, known)) => {
            // Only what it refers to changes; every other member stays as it was written.
            let mut members: BTreeMap<String, Box<RawValue>> =
                serde_json::from_slice(request.params().unwrap_or_default()).unwrap_or_default();
            if let Ok(known) = serde_json::value::to_raw_value(&known) {
                members.insert("ref".into(), known);
            }
            let params = serde_json::to_vec(&members).unwrap_or_default();
            let id = request.id().unwrap_or_else(|| RawId::from(0));
            let frame = Frame::built(frame::request(&id, method::COMPLETION_COMPLETE, Some(&params)));
            Route::Server { name: server.into(), frame }
        }
        None => match directory.only_server() {
            Some(only) => Route::Server { name: only.into(), frame: request.clone() },
            None => {
                let text = "Invalid params: unknown name";
                Route::Refused(answers::refusal(error_code::INVALID_PARAMS, text, None))
            }
        },
    }
}

/// The server that a reference means, and the reference in that server's words.
fn referred<'a>(
    reference: &Value,
    session: &SessionRecord,
    directory: &'a Directory,
) -> Option<(&'a str, Value)> {
    let mut known = reference.clone();
    match reference["type"].as_str()? {
        "ref/prompt" => {
            let (at, original) = directory.prompt(reference["name"].as_str()?)?;
            known["name"] = original.into();
            Some((directory.server(at), known))
        }
        "ref/resource" => {
            let uri = reference["uri"].as_str()?;
            let (at, original) = directory.resource(uri, |server| session.links.is_from(uri, server))?;
            known["uri"] = original.into();
            Some((directory.server(at), known))
        }
        _ => None,
    }
}

/// What a client of a revision that we do not speak is told.
fn wrong_version(request: &Frame) -> Option<Outcome> {
    let requested = request.protocol_version().filter(|version| version != MODERN)?;
    let data = json!({ "supported": [MODERN], "requested": requested });
    Some(answers::refusal(
        error_code::UNSUPPORTED_PROTOCOL_VERSION,
        "Unsupported protocol version",
        Some(&data),
    ))
}

/// Whether a modern client asks for what its era has no longer.
fn is_gone(request: &Frame) -> bool {
    request.protocol_version().is_some()
        && request.method().is_some_and(|method| method::LEGACY_ONLY.contains(&method))
}

fn unknown_name(list: List, name: &str) -> Outcome {
    let what = if list == List::Tools { "tool" } else { "prompt" };
    // Clients show it to people and models.
    let name = escape(&name.chars().take(MAX_NAME).collect::<String>());
    answers::refusal(error_code::INVALID_PARAMS, &format!("Unknown {what}: {name}"), None)
}

fn unknown_resource(request: &Frame) -> Outcome {
    let data = json!({ "uri": request.uri().unwrap_or_default() });
    answers::refusal(error_code::RESOURCE_NOT_FOUND, "Resource not found", Some(&data))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::admit::{Principal, ServerScope};
    use crate::catalog::made_up::catalog;
    use crate::tool_filter::{Glob, ToolFilter};

    fn request(method: &str, params: &Value) -> Frame {
        Frame::built(
            json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string().into(),
        )
    }

    fn directory(names: &[&str]) -> Directory {
        let offers = json!({ "capabilities": { "tools": {}, "prompts": {}, "resources": {} } });
        let lists: [(List, &[&str]); 4] = [
            (List::Tools, &[r#"{"name":"read"}"#]),
            (List::Prompts, &[r#"{"name":"greet"}"#]),
            (List::Resources, &[r#"{"uri":"file:///x","name":"x"}"#]),
            (List::Templates, &[]),
        ];
        let catalog = catalog(&offers, &lists);
        Directory::of(&names.iter().map(|name| (*name, catalog.clone())).collect::<Vec<_>>())
    }

    fn session() -> SessionRecord {
        SessionRecord::new(ServerScope::All, Principal::default())
    }

    /// Where it goes, in a few words.
    fn goes(method: &str, params: Value, session: &SessionRecord, directory: &Directory) -> String {
        match route(&request(method, &params), session, directory) {
            Route::Gateway(own) => format!("{own:?}"),
            Route::Server { name, frame } => {
                format!("{name} {}", String::from_utf8_lossy(frame.params().unwrap_or_default()))
            }
            Route::Subscription { owner, begins } => format!("{} {} {begins}", owner.server, owner.uri),
            Route::ForeignTask { name, .. } => format!("{name}, if that knows whose it is"),
            Route::Held { name } => format!("held: {name}"),
            Route::Refused(Outcome::Answered(refusal)) => {
                parsed(refusal.error())["message"].as_str().unwrap_or_default().to_owned()
            }
            Route::Refused(_) => "not by us".into(),
        }
    }

    #[test]
    fn what_the_gateway_answers_itself_goes_nowhere() {
        for (method, own) in [
            ("initialize", "Initialize"),
            ("ping", "Ping"),
            ("logging/setLevel", "SetLevel"),
            ("tools/list", "List(Tools)"),
            ("resources/templates/list", "List(Templates)"),
        ] {
            assert_eq!(goes(method, json!({}), &session(), &directory(&["a", "b"])), own);
        }
    }

    #[test]
    fn one_server_gets_what_nobody_knows_and_everything_in_the_words_of_the_client() {
        let only = directory(&["a"]);
        let goes = |method: &str, params: Value| goes(method, params, &session(), &only);
        assert_eq!(goes("tools/call", json!({ "name": "hidden" })), r#"a {"name":"hidden"}"#);
        assert_eq!(goes("vendor/thing", json!({ "x": 1 })), r#"a {"x":1}"#);
        for uri in ["other://y", "regrow://a/x"] {
            assert_eq!(goes("resources/read", json!({ "uri": uri })), format!(r#"a {{"uri":"{uri}"}}"#));
        }
        assert_eq!(goes("tasks/get", json!({ "taskId": "t" })), "a, if that knows whose it is");
        assert_eq!(goes("tasks/list", json!({})), "a {}");
    }

    #[test]
    fn several_servers_get_what_is_theirs_in_their_own_words() {
        let both = directory(&["a", "b"]);
        let goes = |method: &str, params: Value| goes(method, params, &session(), &both);
        assert_eq!(goes("tools/call", json!({ "name": "b__read" })), r#"b {"name":"read"}"#);
        assert_eq!(goes("prompts/get", json!({ "name": "a__greet" })), r#"a {"name":"greet"}"#);
        assert_eq!(goes("tools/call", json!({ "name": "read" })), "Unknown tool: read");
        assert_eq!(goes("vendor/thing", json!({})), "Method not found");
        let uri = json!({ "uri": "regrow://b/file%3A%2F%2F%2Fx" });
        assert_eq!(goes("resources/subscribe", uri.clone()), "b file:///x true");
        assert_eq!(goes("resources/unsubscribe", uri), "b file:///x false");
        let completed =
            json!({ "ref": { "type": "ref/prompt", "name": "b__greet" }, "argument": { "name": "n" } });
        let known = r#"b {"argument":{"name":"n"},"ref":{"name":"greet","type":"ref/prompt"}}"#;
        assert_eq!(goes("completion/complete", completed), known);
    }

    #[test]
    fn security_25_a_server_answers_for_what_it_lists_or_has_returned_and_for_nothing_else() {
        let both = directory(&["a", "b"]);
        let mut session = session();
        let read = |uri: &str, session: &SessionRecord| {
            goes("resources/read", json!({ "uri": uri }), session, &both)
        };
        assert_eq!(
            read("file:///x", &session),
            "Resource not found",
            "both list it, so neither has it alone"
        );
        assert_eq!(read("other://y", &session), "Resource not found");
        session.links.remember("b", &json!({ "content": [{ "type": "resource_link", "uri": "other://y" }] }));
        assert_eq!(read("other://y", &session), r#"b {"uri":"other://y"}"#);
        session.links.remember("a", &json!({ "contents": [{ "uri": "other://y" }] }));
        assert_eq!(read("other://y", &session), "Resource not found", "both have returned it");
    }

    #[test]
    fn a_task_is_asked_for_where_it_runs() {
        let both = directory(&["a", "b"]);
        let mut session = session();
        session.tasks.remember("t", "b");
        assert_eq!(goes("tasks/get", json!({ "taskId": "t" }), &session, &both), r#"b {"taskId":"t"}"#);
        let unknown = goes("tasks/get", json!({ "taskId": "u" }), &session, &both);
        assert_eq!(unknown, "Invalid params: no task has this id");
    }

    #[test]
    fn a_server_that_has_not_told_its_tools_yet_is_asked_by_its_name() {
        let silent = Arc::default();
        let both = Directory::of(&[("a", silent), ("b", Arc::default())]);
        let call = |name: &str| goes("tools/call", json!({ "name": name }), &session(), &both);
        assert_eq!(call("b__read"), r#"b {"name":"read"}"#);
        assert_eq!(call("c__read"), "Unknown tool: c__read");
    }

    #[test]
    fn security_28_a_tool_that_is_not_offered_is_answered_like_one_that_does_not_exist() {
        let tools = [r#"{"name":"read"}"#, r#"{"name":"write"}"#];
        let catalog = catalog(&json!({ "capabilities": { "tools": {} } }), &[(List::Tools, &tools)]);
        let filter = ToolFilter { deny: vec![Glob::new("write")], ..ToolFilter::default() };
        let only = Directory::filtered(&[("a", catalog.clone(), &filter)]);
        let call = |name: &str| goes("tools/call", json!({ "name": name }), &session(), &only);
        assert_eq!(call("read"), r#"a {"name":"read"}"#);
        assert_eq!(
            (call("write"), call("other")),
            ("Unknown tool: write".into(), "Unknown tool: other".into())
        );
        assert_eq!(goes("tools/call", json!({}), &session(), &only), "Unknown tool: ");
        assert_eq!(goes("vendor/thing", json!({}), &session(), &only), "a {}", "only tools are filtered");
        let both = Directory::filtered(&[("a", catalog, &filter), ("b", Arc::default(), &filter)]);
        let call = |name: &str| goes("tools/call", json!({ "name": name }), &session(), &both);
        assert_eq!(
            (call("a__write"), call("b__write")),
            ("Unknown tool: a__write".into(), "Unknown tool: b__write".into())
        );
    }

    #[test]
    fn a_modern_client_finds_nothing_of_what_its_era_has_given_up() {
        let modern = json!({ "io.modelcontextprotocol/protocolVersion": MODERN });
        for method in method::LEGACY_ONLY {
            assert!(is_gone(&request(method, &json!({ "_meta": modern }))), "{method}");
            assert!(!is_gone(&request(method, &json!({ "_meta": {} }))), "{method} of a legacy client");
        }
        assert!(!is_gone(&request("tools/list", &json!({ "_meta": modern }))));
    }

    #[test]
    fn a_revision_that_we_do_not_speak_is_refused() {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2099-01-01" });
        let answer = goes("tools/list", json!({ "_meta": meta }), &session(), &directory(&["a"]));
        assert_eq!(answer, "Unsupported protocol version");
    }
}
