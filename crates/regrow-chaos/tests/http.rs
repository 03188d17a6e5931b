//! The server over HTTP: sessions, both eras, and streams.
#![cfg(unix)]

mod common;

use common::LIMIT;
use common::http::{request, site};
use serde_json::json;

#[test]
fn a_session_of_the_legacy_era_from_its_handshake_to_its_end() {
    let site = site("");
    assert_eq!(site.post(None, request(1, "tools/list", json!({}))).status(), 400);
    let session = site.session();
    assert_eq!(
        site.post(Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).status(),
        202
    );
    let answer = site.call(&session, "count", json!({"key": "a"}));
    assert_eq!((answer.status(), answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.result(), "1");
    assert_eq!(site.ask("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], "").status(), 200);
    let gone = site.call(&session, "count", json!({"key": "a"}));
    assert_eq!((gone.status(), gone.json()["error"]["message"].as_str()), (404, Some("Session not found")));
    let journal = &site.journal;
    assert_eq!(
        (journal.sessions(), journal.deletes(), journal.expired()),
        (vec![session.clone()], vec![session], vec!["tools/call".to_owned()])
    );
    assert_eq!(
        (
            journal.runs_with("count", "a"),
            journal.requests("initialize"),
            journal.notifications("notifications/initialized")
        ),
        (1, 1, 1)
    );
}

#[test]
fn a_connection_carries_one_request_after_the_other() {
    let site = site("");
    let session = site.session();
    let mut wire = site.connect();
    for number in 1..=3 {
        wire.send(
            "POST",
            "/mcp",
            &[("Mcp-Session-Id", &session)],
            &request(number, "ping", json!({})).to_string(),
        );
        assert_eq!(wire.answer().json(), json!({"jsonrpc": "2.0", "id": number, "result": {}}));
    }
    assert_eq!(site.journal.connections(), 2);
}

#[test]
fn a_restart_at_the_same_port_knows_no_session_of_before() {
    let mut site = site("");
    let session = site.session();
    site.restart();
    assert_eq!(site.call(&session, "count", json!({"key": "a"})).status(), 404);
    assert_eq!(site.call(&site.session(), "count", json!({"key": "a"})).result(), "1");
    assert_eq!(site.journal.starts(), 2);
}

#[test]
fn sessions_are_forgotten_after_some_calls_or_by_control() {
    let site = site("forget-after=2");
    let session = site.session();
    assert_eq!(site.call(&session, "echo", json!({})).status(), 200);
    assert_eq!(site.call(&session, "echo", json!({})).status(), 200);
    assert_eq!(site.call(&session, "echo", json!({})).status(), 404);
    site.journal.set_control("!forget-after forget=1").unwrap();
    let session = site.session();
    assert_eq!(site.call(&session, "echo", json!({})).status(), 200);
    site.journal.set_control("!forget-after forget=2").unwrap();
    assert_eq!(site.call(&session, "echo", json!({})).status(), 404);
    assert_eq!(site.call(&site.session(), "echo", json!({})).status(), 200);
}

#[test]
fn a_session_is_refused_in_every_flavour() {
    for (flavour, status, part) in [
        ("404", 404, "Session not found"),
        ("404-text", 404, "Not Found"),
        ("404-empty", 404, ""),
        ("400", 400, "No valid session ID provided\"},\"id\":null"),
        ("400-bare", 400, "No valid session ID provided\"}}"),
        ("400-text", 400, "no valid session"),
        ("200", 200, "\"id\":7,\"error\":{\"code\":-32603"),
    ] {
        let site = site(&format!("expiry={flavour}"));
        let answer = site.call("chaos-9-9", "count", json!({}));
        assert_eq!(answer.status(), status, "{flavour}");
        assert!(answer.body.contains(part), "{flavour}: {answer:?}");
        assert_eq!(site.journal.runs("count"), 0);
    }
}

#[test]
fn a_stateless_server_gives_no_sessions() {
    let site = site("stateless");
    let answer = site.post(None, request(1, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert_eq!((answer.status(), answer.header("mcp-session-id")), (200, None));
    assert_eq!(site.post(None, request(2, "tools/call", json!({"name": "count"}))).result(), "1");
    assert_eq!(site.ask("GET", "/mcp", &[], "").status(), 405);
}

#[test]
fn a_client_listens_for_what_belongs_to_no_request() {
    let site = site("");
    let session = site.session();
    let mut listener = site.connect();
    listener.send("GET", "/mcp", &[("Mcp-Session-Id", &session)], "");
    assert!(listener.read_until("text/event-stream"));
    assert_eq!(site.call(&session, "change", json!({})).result(), "change");
    assert!(listener.read_until("notifications/tools/list_changed"));
    drop(listener);
    assert!(site.journal.wait(LIMIT, |journal| journal.gone() == ["GET"]));
}

#[test]
fn what_belongs_to_a_request_comes_before_its_answer() {
    let site = site("");
    let session = site.session();
    let params = json!({"name": "notify", "arguments": {"n": 2}, "_meta": {"progressToken": "t"}});
    let answer = site.post(Some(&session), request(3, "tools/call", params));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.events();
    assert_eq!(events.len(), 5);
    assert_eq!(
        (&events[0]["params"]["data"], &events[1]["params"]["progressToken"]),
        (&json!(1), &json!("t"))
    );
    assert_eq!(events[4]["id"], 3);
}

#[test]
fn questions_come_on_the_response_or_where_the_client_listens() {
    for (plan, on_get) in [("", false), ("ask-on-get", true)] {
        let site = site(plan);
        let session = site.session();
        let own = [("Mcp-Session-Id", &session[..])];
        let mut listener = site.connect();
        listener.send("GET", "/mcp", &own, "");
        assert!(listener.read_until("text/event-stream"));
        let mut call = site.connect();
        call.send("POST", "/mcp", &own, &request(4, "tools/call", json!({"name": "ask"})).to_string());
        assert!(if on_get { &mut listener } else { &mut call }.read_until("elicitation/create"));
        let reply = json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept"}});
        assert_eq!(site.post(Some(&session), reply).status(), 202);
        assert!(call.read_until(r#"{\"action\":\"accept\"}"#), "{}", call.text());
    }
}

#[test]
fn the_modern_era_needs_no_session_and_checks_its_headers() {
    let site = site("");
    let found = site.modern("server/discover", json!({}));
    assert_eq!((found.status(), found.json()["result"]["resultType"].as_str()), (200, Some("complete")));
    let call = json!({"name": "count", "arguments": {"key": "m"}});
    assert_eq!(site.modern("tools/call", call.clone()).result(), "1");
    assert_eq!(site.modern("ping", json!({})).status(), 404);
    for headers in
        [[("Mcp-Method", "tools/list")], [("Mcp-Name", "other")], [("MCP-Protocol-Version", "2025-11-25")]]
    {
        let mut wire = site.connect();
        wire.send_modern("tools/call", call.clone(), &headers);
        let answer = wire.answer();
        assert_eq!(
            (answer.status(), answer.json()["error"]["code"].as_i64()),
            (400, Some(-32020)),
            "{headers:?}"
        );
    }
    let region = json!({"name": "region", "arguments": {"region": "e\u{e9}"}});
    assert_eq!(site.modern("tools/call", region.clone()).json()["error"]["code"], -32020);
    let mut wire = site.connect();
    wire.send_modern("tools/call", region, &[("Mcp-Param-Region", "=?base64?ZcOp?=")]);
    assert_eq!(wire.answer().result(), "e\u{e9}");
    assert_eq!(site.journal.runs("count"), 1);

    let strict = common::http::site("modern-only");
    let refusal = strict.post(None, request(1, "initialize", json!({"protocolVersion": "2025-11-25"})));
    assert_eq!((refusal.status(), refusal.json()["error"]["code"].as_i64()), (400, Some(-32022)));
    assert_eq!(
        (strict.ask("GET", "/mcp", &[], "").status(), strict.ask("DELETE", "/mcp", &[], "").status()),
        (405, 405)
    );
    let old = common::http::site("refuse-discover");
    assert_eq!(old.modern("server/discover", json!({})).status(), 400);
}

#[test]
fn a_modern_stream_is_open_until_its_client_leaves() {
    let site = site("");
    let mut listener = site.connect();
    listener.send_modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}), &[]);
    assert!(listener.read_until("acknowledged"));
    site.modern("tools/call", json!({"name": "change", "arguments": {}}));
    assert!(listener.read_until("notifications/tools/list_changed"));
    drop(listener);
    assert!(site.journal.wait(LIMIT, |journal| journal.cancelled() == ["5"]));

    let mut call = site.connect();
    call.send_modern("tools/call", json!({"name": "slow", "arguments": {"ms": 20000}}), &[]);
    assert!(site.journal.wait(LIMIT, |journal| journal.runs("slow") == 1));
    drop(call);
    assert!(site.journal.wait(LIMIT, |journal| journal.cancelled() == ["5", "5"]));
}

#[test]
fn a_legacy_client_that_leaves_cancels_nothing() {
    let site = site("");
    let session = site.session();
    let mut call = site.connect();
    call.send(
        "POST",
        "/mcp",
        &[("Mcp-Session-Id", &session)],
        &request(4, "tools/call", json!({"name": "slow", "arguments": {"ms": 20000}})).to_string(),
    );
    assert!(site.journal.wait(LIMIT, |journal| journal.runs("slow") == 1));
    drop(call);
    assert!(site.journal.wait(LIMIT, |journal| journal.gone() == ["tools/call"]));
    assert!(site.journal.cancelled().is_empty());
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}});
    assert_eq!(site.post(Some(&session), cancel).status(), 202);
    assert!(site.journal.wait(LIMIT, |journal| journal.cancelled() == ["4"]));
}

#[test]
fn the_older_transport_answers_on_its_one_stream() {
    let site = site("");
    let mut stream = site.connect();
    stream.send("GET", "/sse", &[], "");
    assert!(stream.read_until("session=chaos-1-1\n"), "{}", stream.text());
    let path = "/messages?session=chaos-1-1";
    let hello = request(1, "initialize", json!({"protocolVersion": "2024-11-05"})).to_string();
    assert_eq!(site.ask("POST", path, &[], &hello).status(), 202);
    assert!(stream.read_until("\"protocolVersion\":\"2024-11-05\""));
    for id in [2, 3] {
        let call = request(id, "tools/call", json!({"name": "count"})).to_string();
        assert_eq!(site.ask("POST", path, &[], &call).status(), 202);
        assert!(stream.read_until(&format!("\"id\":{id},")));
    }
    assert_eq!(site.ask("POST", "/sse", &[], &hello).status(), 405);
    drop(stream);
    assert!(site.journal.wait(LIMIT, |journal| journal.gone() == ["GET"]));
    assert!(site.journal.wait(LIMIT, |_| site.ask("POST", path, &[], &hello).status() == 404));

    let foreign = common::http::site("foreign-endpoint=9");
    let mut stream = foreign.connect();
    stream.send("GET", "/sse", &[], "");
    assert!(stream.read_until("data: http://127.0.0.1:9/messages"));
}
