//! SECURITY 22: what a client's token opens, and what needs the operator's.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{PATIENCE, envelope};
use crate::evidence::{children_of, command_line, wait_until};
use crate::guest::{ERAS, Era, Guest};
use crate::house::{House, Place, chaos, done};
use crate::wire::{Head, Wire};

const A: (&str, &str) = ("Authorization", "Bearer alpha-client");
const B: (&str, &str) = ("Authorization", "Bearer beta-client");
/// What an operator sees.
pub const PAGES: [&str; 5] = ["/status", "/metrics", "/admin/servers/one/logs", "/readyz?server=one", "/"];
/// What an operator has a gateway do, and a body that would do.
pub const COMMANDS: [(&str, &str); 7] = [
    ("/admin/servers/one/park", "{}"),
    ("/admin/servers/one/drain", "{}"),
    ("/admin/servers/one/reconnect", "{}"),
    ("/admin/servers/one/wake", "{}"),
    ("/admin/servers/one/reset-budget", "{}"),
    ("/admin/servers/one/approve", "{}"),
    ("/admin/log-level", "{\"level\":\"off\"}"),
];

fn ask(house: &House, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (Head, String) {
    Wire::connect(house.address).ask(method, path, headers, body)
}

/// A gateway with two client tokens, whose server has said something on stderr.
fn with_tokens() -> Place {
    Place::new([("one", chaos("refuse-discover log-secret=PLAIN").variable("PLAIN", "what-one-said"))])
        .variable("TOKEN_A", "alpha-client")
        .variable("TOKEN_B", "beta-client")
        .options(&["--token-env", "TOKEN_A", "--token-env", "TOKEN_B"])
}

fn server_of(house: &House, operator: &str) -> Value {
    let accept = ("Accept", "application/json");
    let (head, body) = ask(house, "GET", "/status", &[("Authorization", operator), accept], "");
    assert_eq!(head.status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["servers"][0].clone()
}

pub fn is_untouched(house: &House, operator: &str) {
    let server = server_of(house, operator);
    assert_eq!((&server["state"], &server["epoch"]), (&json!("ready"), &json!(1)), "{server}");
}

#[test]
fn security_22_a_client_token_opens_no_page_log_or_command_of_the_operator() {
    let place = with_tokens();
    let house = place.start();
    let mut client = Guest::new(&house, Era::Legacy).token("alpha-client");
    client.greet();
    assert_eq!(client.call("echo", json!({ "text": "in" })), "in");
    let operator = place.operator(&house);

    for (headers, refused) in
        [(&[A][..], 403), (&[B], 403), (&[], 401), (&[("Authorization", "Bearer x")], 401)]
    {
        for path in PAGES {
            let (head, body) = ask(&house, "GET", path, headers, "");
            assert_eq!(head.status, refused, "{headers:?} {path}: {body}");
            assert!(!body.contains("what-one-said") && !body.contains("\"one\""), "{body}");
            assert!(refused == 401 || body.contains("needs the operator token: run"), "{body}");
        }
        for (path, order) in COMMANDS {
            let (head, body) = ask(&house, "POST", path, headers, order);
            assert_eq!(head.status, refused, "{headers:?} {path}: {body}");
        }
        let (unknown, known) = ("/readyz?server=nobody", "/readyz?server=one");
        assert_eq!(house.page(unknown, headers), house.page(known, headers), "a name is not given away");
    }
    is_untouched(&house, &operator);

    // The operator has no business at the servers, and the same token does not open both.
    let greeting = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }).to_string();
    let (head, body) = ask(&house, "POST", "/mcp", &[("Authorization", &operator)], &greeting);
    assert_eq!(head.status, 403, "{body}");
    for path in &PAGES[..4] {
        assert_eq!(ask(&house, "GET", path, &[("Authorization", &operator)], "").0.status, 200, "{path}");
    }
    let (head, _) = ask(&house, "POST", COMMANDS[0].0, &[("Authorization", &operator)], "{}");
    assert_eq!(head.status, 202);
    wait_until("it is parked", PATIENCE, || {
        let (_, status) =
            house.page("/status", &[("Authorization", &operator), ("Accept", "application/json")]);
        serde_json::from_str::<Value>(&status).unwrap()["servers"][0]["state"] == "parked"
    });
    assert_eq!(client.failing_call("echo", json!({ "text": "in" })).1["cause"], "parked");
}

#[test]
fn security_22_without_tokens_reading_is_open_to_the_user_and_every_command_needs_the_operator_token() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    for path in &PAGES[..4] {
        assert_eq!(house.page(path, &[]).0, 200, "{path}");
    }
    for headers in [&[][..], &[("Authorization", "Bearer wrong")], &[("X-Requested-With", "x")]] {
        for (path, order) in COMMANDS {
            let (head, body) = ask(&house, "POST", path, headers, order);
            assert_eq!(head.status, 401, "{path}: {body}");
            assert!(body.contains("needs the operator token: run"), "{body}");
        }
    }
    let operator = place.operator(&house);
    is_untouched(&house, &operator);
    // The commands find it on their own.
    assert_eq!(done(&mut place.command(&["park", "one"])).0, 0);
    house.wait_for_state("one", "parked");
    assert_eq!(done(place.command(&["wake", "one"]).env("REGROW_URL", house.url())).0, 0);
    house.wait_for_state("one", "ready");
    assert_eq!(done(&mut place.command(&["log-level", "debug"])).0, 0);
    // Elsewhere they say what to do.
    let mut elsewhere = place.command(&["park", "one", "--url", &house.url()]);
    let (code, _, said) = done(elsewhere.env("XDG_RUNTIME_DIR", "/nowhere"));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("on the same machine as the same user, or set REGROW_ADMIN_TOKEN"), "{said}");
}

#[test]
fn security_22_no_simple_request_of_a_web_page_changes_anything() {
    let place = Place::new([("one", chaos("refuse-discover"))]);
    let house = place.start();
    house.wait_for_tools("one");
    let operator = place.operator(&house);
    let password = format!("Basic {}", STANDARD.encode(format!(":{}", &operator["Bearer ".len()..])));
    let call = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": { "name": "count", "arguments": {}, "_meta": envelope() } });
    let port = house.address.port();
    let origins = [
        format!("http://127.0.0.1:{port}"),
        "http://127.0.0.1:3000".into(),
        "http://localhost:3000".into(),
        format!("http://[::1]:{port}"),
        String::new(),
    ];
    for origin in &origins {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
        {
            // A browser adds the password that its user once typed.
            for known in ["", &*password] {
                let headers = [("Origin", &**origin), ("Content-Type", kind), ("Authorization", known)];
                for (path, order) in COMMANDS {
                    let (head, _) = ask(&house, "POST", path, &headers, order);
                    assert_eq!(head.status, 401, "{origin} {kind} {path}");
                }
                let (head, _) = ask(&house, "POST", "/mcp", &headers, &call.to_string());
                assert_eq!(head.status, 415, "{origin} {kind}");
            }
            let bearer = [("Origin", &**origin), ("Content-Type", kind), ("Authorization", &operator)];
            for (path, order) in COMMANDS {
                assert_eq!(ask(&house, "POST", path, &bearer, order).0.status, 415, "{origin} {kind} {path}");
            }
        }
        // For anything else a page has to ask first, and gets no permission.
        let asks = [("Origin", &**origin), ("Access-Control-Request-Method", "POST")];
        for path in ["/mcp", COMMANDS[0].0] {
            let (head, _) = ask(&house, "OPTIONS", path, &asks, "");
            assert!(head.status >= 400 && head.header("access-control-allow-origin").is_none(), "{path}");
        }
    }
    assert_eq!(place.journal("one").runs("count"), 0);
    is_untouched(&house, &operator);
    let (head, page) =
        ask(&house, "GET", "/status", &[("Authorization", &password), ("Accept", "text/html")], "");
    assert!(head.status == 200 && page.contains("one"), "{page}");
}

#[test]
fn security_22_the_operator_token_is_in_one_file_that_only_its_user_can_read() {
    let place = with_tokens().variable("ADMIN", "own-admin-secret").options(&["--admin-token-env", "ADMIN"]);
    let house = place.start();
    let operator = place.operator(&house);
    let generated = operator["Bearer ".len()..].to_owned();
    assert!(generated.len() >= 32, "{generated}");
    let folder = place.path("regrow");
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.clone()), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    assert_eq!(mode(files[0].clone()), 0o600);
    let text = fs::read_to_string(&files[0]).unwrap();
    assert!(!text.contains("own-admin-secret") && !text.contains("alpha-client"), "only the generated one");

    // The operator's own one works, too, also from elsewhere.
    let url = house.url();
    for (name, arguments) in [("ADMIN", &["--admin-token-env", "ADMIN"][..]), ("REGROW_ADMIN_TOKEN", &[])] {
        let words = [&["reconnect", "one", "--url", &url], arguments].concat();
        let mut elsewhere = place.command(&words);
        elsewhere.env("XDG_RUNTIME_DIR", "/nowhere").env(name, "own-admin-secret");
        let (code, _, said) = done(&mut elsewhere);
        assert_eq!(code, 0, "{said}");
    }
    let (code, _, said) = done(
        place
            .command(&["park", "one", "--url", &house.url()])
            .env("XDG_RUNTIME_DIR", "/nowhere")
            .env("REGROW_ADMIN_TOKEN", "alpha-client"),
    );
    assert!(code == 2 && said.contains("a client token opens /mcp only"), "{code} {said}");

    let bearer = ("Authorization", &*operator);
    let mut seen: Vec<(String, String)> =
        vec![("the log".into(), house.log().join("\n")), ("an error".into(), said)];
    for path in PAGES {
        for accept in ["application/json", "text/html"] {
            seen.push((path.into(), house.page(path, &[bearer, ("Accept", accept)]).1));
        }
    }
    let (_, table, said) = done(&mut place.command(&["status", "--json"]));
    seen.push(("regrow status".into(), table + &said));
    let mut family = children_of(house.pid());
    family.push(house.pid());
    seen.extend(family.into_iter().map(|pid| ("an argument".into(), command_line(pid))));
    for (place, text) in seen {
        assert!(!text.contains(&generated) && !text.contains("own-admin-secret"), "{place}: {text}");
    }
    house.end();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "it ends with the gateway");
}

#[test]
fn security_22_one_secret_for_clients_and_operator_is_a_mistake_of_usage() {
    let place = Place::new([("one", chaos(""))]).variable("SAME", "one-secret").variable("EMPTY", "");
    let config = place.config().to_str().unwrap().to_owned();
    for (options, part) in [
        (["--token-env", "SAME", "--admin-token-env", "SAME"], "use a different secret for each"),
        (["--token-env", "SAME", "--admin-token-env", "EMPTY"], "--admin-token-env EMPTY"),
    ] {
        let words = [&["serve", "--port", "0", &config][..], &options[..]].concat();
        let (code, _, log) = done(&mut place.command(&words));
        assert!(code == 64 && log.contains(part) && !log.contains("one-secret"), "{log}");
    }
}

#[test]
fn a_client_token_works_as_before_for_clients_of_both_eras() {
    let place = with_tokens();
    let house = place.start();
    for era in ERAS {
        for token in ["alpha-client", "beta-client"] {
            let mut guest = Guest::new(&house, era).token(token);
            guest.greet();
            assert_eq!(guest.call("echo", json!({ "text": token })), token);
        }
    }
    assert!(place.journal("one").wait(PATIENCE, |journal| journal.runs("echo") == 4));
}
