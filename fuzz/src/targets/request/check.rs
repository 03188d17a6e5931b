//! What must hold of every visit.

use http::Method;
use regrow_protocol::frame::{Frame, Kind, RawId, split_batch};
use regrow_protocol::version::MODERN;
use serde_json::Value;

use super::Sent;
use super::visit::{GIVEN, SESSION, Tools, Visit};

const CALL: &str = "tools/call";
const LIST: &str = "tools/list";

pub(super) fn check(sent: &Sent, visit: &Visit, tools: &Tools) {
    let messages = sent.messages();
    let requests: Vec<&Frame> =
        messages.iter().filter(|message| matches!(message.kind(), Kind::Request { .. })).collect();
    assert_ne!(visit.answered.status, 500, "something panicked");
    headers_are_our_own(visit);
    each_request_is_answered_once(sent, visit, &messages, &requests);
    a_name_leads_to_its_server(sent, visit, tools, &requests);
    sessions_are_given_by_us(sent, visit, &messages);
    if let [request] = requests[..] {
        the_answer_is_for_it(visit, request);
        what_is_not_ours_is_refused(visit, request);
    }
}

/// Nothing that a client sends comes back in a header.
fn headers_are_our_own(visit: &Visit) {
    for (name, value) in &visit.headers {
        let value = value.to_str().expect("only what every header can carry");
        let is_ours = match name.as_str() {
            "content-type" => ["application/json", "text/event-stream"].contains(&value),
            "cache-control" => value == "no-cache, no-transform",
            "x-accel-buffering" => value == "no",
            "content-length" => value.bytes().all(|byte| byte.is_ascii_digit()),
            "connection" => value == "close",
            "allow" => ["POST, GET, DELETE", "POST", "GET"].contains(&value),
            SESSION => value.strip_prefix("r1-").is_some_and(|digits| digits.len() == 48),
            _ => false,
        };
        assert!(is_ours, "{name}: {value}");
    }
}

fn each_request_is_answered_once(sent: &Sent, visit: &Visit, messages: &[Frame], requests: &[&Frame]) {
    let is_refused = visit.answered.status >= 400;
    let told: Vec<Frame> = visit.answered.messages.iter().flat_map(|text| read(text)).collect();
    let answers: Vec<&Frame> = told.iter().filter(|told| told.method().is_none()).collect();
    let is_one_error = matches!(&answers[..], [answer] if answer.is_error()) && told.len() == 1;
    assert!(!is_refused || is_one_error || sent.method == Method::HEAD, "{:?}", visit.answered);
    let mut open: Vec<RawId> = requests.iter().filter_map(|request| request.id()).collect();
    for answer in answers {
        let Some(id) = answer.id() else {
            assert!(answer.is_error(), "an answer to nothing: {:?}", visit.answered);
            continue;
        };
        match open.iter().position(|open| *open == id) {
            Some(at) => drop(open.swap_remove(at)),
            // What is no request may have an id all the same.
            None => assert!(answer.is_error() && stands_in(&id, &sent.body), "{id} was not asked"),
        }
    }
    // A stream has no end, and what its client cancels needs none.
    let may_stay = |message: &Frame, id: &RawId| match message.method() {
        Some("notifications/cancelled") => message.request_id().is_some_and(|of| of == *id),
        Some("subscriptions/listen") => message.id().is_some_and(|of| of == *id),
        _ => false,
    };
    open.retain(|id| !messages.iter().any(|message| may_stay(message, id)));
    assert!(is_refused || open.is_empty(), "{open:?} was not answered: {:?}", visit.answered);
}

/// A call that reaches a server was meant for it, and brings what the client wrote.
fn a_name_leads_to_its_server(sent: &Sent, visit: &Visit, tools: &Tools, requests: &[&Frame]) {
    let mut calls = requests.to_vec();
    for (server, line) in &visit.heard {
        let heard = Frame::parse(line.clone().into()).expect("a server hears one message at a time");
        if !matches!(heard.kind(), Kind::Request { method: CALL, .. }) {
            continue;
        }
        assert!(visit.answered.status < 400, "it was refused, and {server} heard it");
        let tool = heard.name().unwrap_or_default();
        let is_it = |call: &&Frame| {
            let name = call.name().unwrap_or_default();
            let leads_here = match sent.uri.path().strip_prefix("/servers/") {
                Some(path) => name == tool && (path.contains('%') || path.starts_with(&format!("{server}/"))),
                None => tools.get(&*name).is_some_and(|(of, known)| of == server && *known == tool),
            };
            leads_here
                && call.method() == Some(CALL)
                && param(call, "arguments") == param(&heard, "arguments")
        };
        let at = calls.iter().position(is_it).unwrap_or_else(|| panic!("{server} heard {line}"));
        calls.swap_remove(at);
    }
}

fn sessions_are_given_by_us(sent: &Sent, visit: &Visit, messages: &[Frame]) {
    let is_modern = |message: &Frame| message.protocol_version().is_some();
    let says_modern = sent.headers.get("mcp-protocol-version").is_some_and(|version| version == MODERN);
    let Some(id) = sent.headers.get(SESSION).filter(|id| *id != GIVEN) else { return };
    // The modern era has no sessions.
    if sent.uri.path().ends_with("/mcp") && !says_modern && !messages.iter().any(is_modern) {
        assert!(visit.answered.status >= 400, "{id:?} is a session");
    }
}

/// Servers answer with the arguments that they got.
fn the_answer_is_for_it(visit: &Visit, request: &Frame) {
    for told in visit.answered.messages.iter().flat_map(|text| read(text)) {
        let result: Value =
            told.result().and_then(|raw| serde_json::from_slice(raw).ok()).unwrap_or_default();
        if let Some(got) = result.get("got") {
            assert_eq!(*got, param(request, "arguments").unwrap_or_default(), "{:?}", visit.answered);
        }
    }
}

/// Cursors, and the state of a call that was sent away for input.
fn what_is_not_ours_is_refused(visit: &Visit, request: &Frame) {
    let is_answered = visit.answered.messages.iter().any(|told| told.contains("\"result\":"));
    if let (Some(LIST), Some(cursor)) = (request.method(), param(request, "cursor"))
        && !cursor.is_null()
    {
        assert!(!is_answered || cursor.as_str().is_some_and(could_be_ours), "{cursor} is a cursor");
    }
    let state = param(request, "requestState").filter(Value::is_string);
    if request.protocol_version().is_some() && state.is_some() {
        let is_heard = visit.heard.iter().any(|(_, line)| line.contains(CALL));
        assert!(!is_heard, "nobody was sent away with {state:?}");
    }
}

/// Two numbers, as we write them.
fn could_be_ours(cursor: &str) -> bool {
    let is_number = |text: &str| {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text == "0" || !text.is_empty() && !text.starts_with('0') && text.bytes().all(is_digit)
    };
    cursor.split_once('-').is_some_and(|(position, last)| is_number(position) && is_number(last))
}

/// The messages in a text that the client was told.
fn read(text: &str) -> Vec<Frame> {
    let told = Frame::parse(text.to_owned().into());
    let told = told.unwrap_or_else(|error| panic!("{error}: {text}"));
    split_batch(&told).into_iter().map(|member| member.expect("we write messages")).collect()
}

/// A parameter, where all of them can be read.
fn param(message: &Frame, name: &str) -> Option<Value> {
    let params: Value = serde_json::from_slice(message.params()?).ok()?;
    params.get(name).cloned()
}

fn stands_in(id: &RawId, body: &[u8]) -> bool {
    body.windows(id.as_bytes().len()).any(|part| part == id.as_bytes())
}
