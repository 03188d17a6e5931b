//! Who gets in, and what gets through: the cases of SECURITY that concern a client at the door.

use std::fs;

use serde_json::json;

use crate::client::PATIENCE;
use crate::evidence::wait_until;
use crate::guest::{ERAS, Era, Guest};
use crate::house::{House, Place, chaos, done, remote};
use crate::recorder::Recorder;
use crate::wire::Wire;

fn status_of(house: &House, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    Wire::connect(house.address).ask(method, path, headers, body).0.status
}

#[test]
fn security_1_a_host_or_origin_that_is_not_ours_gets_no_further_than_the_door() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    guest.call("echo", json!({ "text": "on" }));
    let session = guest.session.clone().unwrap();
    let port = house.address.port();
    let call = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "count", "arguments": {} } });
    let call = call.to_string();
    let hosts = [
        "evil.example",
        "evil.example:{}",
        "localhost.evil.example:{}",
        "127.0.0.1:1",
        "user@127.0.0.1:{}",
        "[::2]:{}",
        "127.0.0.1..:{}",
        "evil.example.:{}",
        "EVIL.example:{}",
        "localhost.EVIL.example.:{}",
        "localhost:1",
        "[::1]:1",
        "[::ffff:10.0.0.1]:{}",
        "127.0.0.1:{}@evil.example",
    ];
    for host in hosts.map(|host| host.replace("{}", &port.to_string())) {
        let headers = [("Host", &*host), ("Mcp-Session-Id", &*session)];
        for (method, path) in [
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("DELETE", "/mcp"),
            ("GET", "/"),
            ("GET", "/status"),
            ("POST", "/admin/servers/one/park"),
            ("GET", "/metrics"),
            ("GET", "/livez"),
        ] {
            assert_eq!(status_of(&house, method, path, &headers, &call), 403, "{host} {method} {path}");
        }
    }
    for origin in [
        "https://evil.example",
        "https://evil.example.",
        "HTTPS://EVIL.EXAMPLE",
        "http://evil.example:80",
        "http://[::2]",
        "null",
        "http://localhost.evil.example",
        "http://user@localhost",
        "http://localhost@evil.example",
    ] {
        let headers = [("Origin", origin), ("Mcp-Session-Id", &*session)];
        for (method, path) in
            [("POST", "/mcp"), ("POST", "/admin/servers/one/park"), ("GET", "/status"), ("OPTIONS", "/mcp")]
        {
            assert_eq!(status_of(&house, method, path, &headers, &call), 403, "{origin} {method} {path}");
        }
    }
    assert_eq!(place.journal("one").runs("count"), 0, "no byte upstream");
    assert_eq!(house.server("one")["state"], "ready", "no order was obeyed");
    assert_eq!(guest.call("echo", json!({ "text": "on" })), "on");
}

#[test]
fn security_3_a_session_belongs_to_its_principal_and_has_one_listener() {
    let place = Place::new([("one", chaos("refuse-discover"))])
        .variable("TOKEN_A", "alpha-token")
        .variable("TOKEN_B", "beta-token")
        .options(&["--token-env", "TOKEN_A", "--token-env", "TOKEN_B"]);
    let house = place.start();
    let mut guest = Guest::new(&house, Era::Legacy).token("alpha-token");
    guest.greet();
    let session = guest.session.clone().unwrap();
    let mut stream = guest.listen();
    guest.tools();

    let ping = json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" }).to_string();
    for (method, body) in [("POST", &*ping), ("GET", ""), ("DELETE", "")] {
        for (token, wanted) in [("Bearer beta-token", 404), ("Bearer wrong", 401), ("", 401)] {
            let headers = [("Authorization", token), ("Mcp-Session-Id", &*session)];
            assert_eq!(status_of(&house, method, "/mcp", &headers, body), wanted, "{method} {token}");
        }
        // Not at another page either.
        let headers = [("Authorization", "Bearer alpha-token"), ("Mcp-Session-Id", &*session)];
        assert_eq!(status_of(&house, method, "/servers/one/mcp", &headers, body), 404, "{method}");
    }
    let headers = [("Authorization", "Bearer alpha-token"), ("Mcp-Session-Id", &*session)];
    assert_eq!(status_of(&house, "GET", "/mcp", &headers, ""), 409, "a second listener");
    guest.call("change", json!({}));
    assert_eq!(stream.message().unwrap()["method"], "notifications/tools/list_changed", "the first stays");

    let ids: std::collections::BTreeSet<String> = (0..20)
        .map(|_| {
            let mut guest = Guest::new(&house, Era::Legacy).token("alpha-token");
            guest.greet();
            guest.session.unwrap()
        })
        .collect();
    assert_eq!(ids.len(), 20);
    assert!(ids.iter().all(|id| id.len() >= 22 && id.bytes().all(|byte| byte.is_ascii_graphic())), "{ids:?}");
}

#[test]
fn security_4_and_8_no_header_of_a_client_reaches_a_server_and_its_credential_least_of_all() {
    let recorder = Recorder::start();
    let place =
        Place::new([("far", remote(&recorder.url).member("headers", json!({ "X-Ours": "ours-to-send" })))])
            .variable("TOKEN", "client-token-1")
            .options(&["--token-env", "TOKEN"]);
    let house = place.start();
    for era in ERAS {
        let mut guest = Guest::new(&house, era).token("client-token-1");
        guest.greet();
        assert_eq!(guest.call("say", json!({})), "said");
        // The same by hand, with what must not pass.
        let session = guest.session.clone().unwrap_or_default();
        let mut params = json!({ "name": "say", "arguments": {} });
        if era == Era::Modern {
            params["_meta"] = crate::client::envelope();
        }
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params }).to_string();
        let version = if era == Era::Modern { "2026-07-28" } else { "2025-11-25" };
        let headers = [
            ("Authorization", "Bearer client-token-1"),
            ("Mcp-Session-Id", &*session),
            ("MCP-Protocol-Version", version),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "say"),
            ("Cookie", "leak-cookie"),
            ("X-Forwarded-For", "leak-forwarded"),
            ("Forwarded", "for=leak-forwarded"),
            ("Proxy-Authorization", "Basic leak-proxy"),
            ("X-Regrow-Principal", "leak-principal"),
            ("X-Ours", "leak-ours"),
            ("Connection", "x-hop"),
            ("X-Hop", "leak-hop"),
            ("Last-Event-ID", "leak-event"),
            ("Traceparent", "leak-trace"),
        ];
        let (head, said) = Wire::connect(house.address).ask("POST", "/mcp?leak-query", &headers, &body);
        assert_eq!(head.status, 200, "{said}");
        assert!(said.contains("said"), "{said}");
        let heads = recorder.heads();
        assert!(heads.contains("x-ours: ours-to-send"), "{heads}");
        assert!(!heads.contains("leak-") && !heads.contains("client-token"), "{heads}");
        assert!(!heads.contains("authorization:"), "{heads}");
        assert!(session.is_empty() || !heads.contains(&session.to_lowercase()), "{heads}");
    }
}

#[test]
fn security_5_no_command_comes_over_the_network_and_arguments_pass_to_the_letter() {
    let script = "printf '%s\\n' \"$@\" > \"$CHAOS_DIR/arguments\"; exec \"$0\" chaos-server";
    let odd = ["$(touch here)", "a b", "*", "--name", "-e", "`id`", "$HOME", ";ls", ""];
    let mut args = vec!["-c", script, crate::house::REGROW];
    args.extend(odd);
    let place = Place::new([("one", chaos("").member("command", "sh").member("args", args))]);
    let house = place.start();
    house.wait_for_tools("one");
    let got = fs::read_to_string(place.journal("one").dir().join("arguments")).unwrap();
    assert_eq!(got, odd.map(|argument| format!("{argument}\n")).concat());

    let operator = place.operator(&house);
    let server = json!({ "name": "evil", "command": "touch", "args": ["here"] }).to_string();
    let places = [
        "/admin/servers",
        "/admin/servers/evil",
        "/admin/servers/one",
        "/admin/servers/evil/wake",
        "/admin/config",
        "/servers",
        "/servers/evil/mcp",
        "/admin/servers/one/exec",
        "/servers/..%2f..%2fone/mcp",
        "/",
    ];
    for path in places {
        for method in ["POST", "PUT", "PATCH"] {
            // Not even the operator can.
            for headers in [&[][..], &[("Authorization", &*operator)]] {
                let status = status_of(&house, method, path, headers, &server);
                assert!((400..500).contains(&status), "{method} {path} {headers:?}: {status}");
            }
        }
    }
    assert_eq!(house.status()["servers"].as_array().unwrap().len(), 1);
    assert_eq!(fs::read_dir(place.journal("one").dir()).unwrap().count(), 2, "the journal and the arguments");
}

#[test]
fn beyond_this_machine_a_token_is_needed_and_its_absence_is_a_mistake_of_usage() {
    let place = Place::new([("one", chaos("")), ("hung", chaos("never-answer"))]);
    let config = place.config().to_str().unwrap().to_owned();
    let refused = |arguments: &[&str], part: &str| {
        let (code, said, log) =
            done(&mut place.command(&[&["serve", "--port", "0", &config], arguments].concat()));
        assert_eq!((code, &*said), (64, ""), "{arguments:?}: {log}");
        assert!(log.contains(part), "{arguments:?}: {log}");
    };
    refused(&["--host", "0.0.0.0"], "token");
    refused(&["--host", "::"], "token");
    refused(&["--token-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE");
    assert_eq!(place.journal("one").starts(), 0, "nothing was started");

    let place = place.variable("TOKEN", "a-token").options(&["--host", "0.0.0.0", "--token-env", "TOKEN"]);
    let mut house = place.start();
    house.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(status_of(&house, "GET", "/livez", &[], ""), 200);
    for path in ["/status", "/metrics", "/mcp", "/admin/servers/one/logs"] {
        assert_eq!(status_of(&house, "GET", path, &[], ""), 401, "{path}");
    }
    let operator = place.operator(&house);
    assert_eq!(status_of(&house, "GET", "/status", &[("Authorization", &operator)], ""), 200);
    for headers in [&[][..], &[("Authorization", "Bearer a-token")]] {
        let (status, said) = house.page("/readyz", headers);
        assert_eq!(status, 503);
        assert!(!said.contains("hung"), "neither strangers nor clients learn anything of servers: {said}");
    }
    let (_, said) = house.page("/readyz", &[("Authorization", &operator)]);
    assert!(said.contains("hung"), "who may know learns why: {said}");
    let mut guest = Guest::new(&house, Era::Modern).token("a-token");
    guest.tools(); // Until it is known whose tool is meant.
    assert_eq!(guest.call("one__echo", json!({ "text": "in" })), "in");
    let url = house.url();
    let mut status = place.command(&["status", "--url", &url]);
    wait_until("the command gets in", PATIENCE, || done(&mut status).0 == 0);
    assert_ne!(done(status.env("XDG_RUNTIME_DIR", "/nowhere")).0, 0, "without the file");
}
