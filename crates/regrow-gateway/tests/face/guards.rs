//! What stands before every page: hosts, origins, tokens, and what a request must look like.

use regrow_gateway::config::Secret;
use regrow_gateway::face::http::{BindError, Options, bind};

use crate::world::{World, call, initialize, value};

#[tokio::test]
async fn a_host_that_is_not_ours_is_refused_and_nobody_is_admitted() {
    let world = World::new().await;
    let port = world.address.port();
    for host in [
        "evil.example".into(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("localhost:{port}@evil.example"),
        format!("user@localhost:{port}"),
        format!("127.0.0.1.:{port}"),
        "localhost".into(),
        "127.0.0.1:1".into(),
        format!("[::2]:{port}"),
    ] {
        for path in ["/mcp", "/livez", "/status", "/nowhere"] {
            let (head, _) = world.wire().await.ask("POST", path, &[("Host", &host)], &initialize()).await;
            assert_eq!(head.status, 403, "{host} {path}");
        }
    }
    assert_eq!(world.house.admitted(), 0);
    for host in [format!("LOCALHOST.:{port}"), format!("[::1]:{port}"), format!("127.0.0.2:{port}")] {
        let (head, _) = world.wire().await.ask("POST", "/mcp", &[("Host", &host)], &initialize()).await;
        assert_eq!(head.status, 200, "{host}");
    }
}

#[tokio::test]
async fn a_request_with_no_host_two_hosts_or_two_that_differ_is_refused() {
    let world = World::new().await;
    let ours = world.address;
    for head in [
        "GET /livez HTTP/1.0\r\n\r\n".to_owned(),
        format!("GET /livez HTTP/1.1\r\nHost: {ours}\r\nHost: evil.example\r\n\r\n"),
        format!("GET http://evil.example/livez HTTP/1.1\r\nHost: {ours}\r\n\r\n"),
        format!("GET http://{ours}/livez HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    ] {
        let mut wire = world.wire().await;
        wire.raw(&head).await;
        assert_eq!(wire.head().await.status, 403, "{head}");
    }
}

#[tokio::test]
async fn an_origin_that_is_not_allowed_is_refused_and_nobody_is_admitted() {
    let world = World::with(|options| options.origins = vec!["https://app.example".into()]).await;
    for origin in [
        "https://evil.example",
        "null",
        "https://app.example.evil.example",
        "http://app.example",
        "https://localhost@evil.example",
        "http://localhost.evil.example",
        "file://",
    ] {
        let (head, _) = world.wire().await.ask("POST", "/mcp", &[("Origin", origin)], &initialize()).await;
        assert_eq!(head.status, 403, "{origin}");
    }
    let twice = [("Origin", "http://localhost"), ("Origin", "http://evil.example")];
    assert_eq!(world.wire().await.ask("POST", "/mcp", &twice, &initialize()).await.0.status, 403);
    assert_eq!(world.house.admitted(), 0);
    for origin in ["http://localhost:3000", "https://APP.example", "http://[::1]"] {
        let (head, _) = world.wire().await.ask("POST", "/mcp", &[("Origin", origin)], &initialize()).await;
        assert_eq!(head.status, 200, "{origin}");
    }
}

#[tokio::test]
async fn what_a_page_of_another_origin_has_a_browser_send_is_refused_but_a_link_is_followed() {
    let world = World::with(|options| {
        options.sse = true;
        options.origins = vec!["https://app.example".into()];
    })
    .await;
    let status = async |method: &str, path: &str, site: &str, mode: &str, origin: &str| {
        let headers = [("Sec-Fetch-Site", site), ("Sec-Fetch-Mode", mode), ("Origin", origin)];
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let mut wire = world.wire().await;
        wire.send(method, path, &headers, &initialize()).await;
        wire.head().await.status
    };
    for site in ["cross-site", "same-site"] {
        for (mode, origin) in [("no-cors", ""), ("cors", "http://localhost:3000"), ("cors", "")] {
            for (method, path) in [("GET", "/status"), ("GET", "/sse"), ("POST", "/mcp")] {
                assert_eq!(status(method, path, site, mode, origin).await, 403, "{site} {mode} {path}");
            }
        }
        assert_eq!(status("POST", "/mcp", site, "navigate", "http://localhost:3000").await, 403, "a form");
        assert_eq!(status("GET", "/status", site, "navigate", "").await, 200, "a link");
        assert_eq!(status("POST", "/mcp", site, "cors", "https://app.example").await, 200, "named");
    }
    assert_eq!(status("GET", "/status", "none", "navigate", "").await, 200, "typed");
    assert_eq!(status("GET", "/status", "same-origin", "no-cors", "").await, 200);
}

#[tokio::test]
async fn browsers_are_told_of_allowed_origins_only() {
    let world = World::with(|options| {
        options.origins = vec!["https://app.example".into()];
        options.tokens = vec![Secret::new("secret")];
    })
    .await;
    let asks = [
        ("Origin", "https://app.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization, mcp-param-region"),
    ];
    let (head, _) = world.wire().await.ask("OPTIONS", "/mcp", &asks, "").await;
    assert_eq!(head.status, 204);
    assert_eq!(head.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(head.header("access-control-allow-headers"), Some("authorization, mcp-param-region"));

    let posts = [("Origin", "https://app.example"), ("Authorization", "Bearer secret")];
    let (head, _) = world.wire().await.ask("POST", "/mcp", &posts, &initialize()).await;
    assert_eq!(head.header("access-control-allow-origin"), Some("https://app.example"));
    assert_eq!(head.header("access-control-expose-headers"), Some("Mcp-Session-Id"));

    let local = [("Origin", "http://localhost:3000"), ("Access-Control-Request-Method", "POST")];
    let (head, _) = world.wire().await.ask("OPTIONS", "/mcp", &local, "").await;
    assert_eq!((head.status, head.header("access-control-allow-origin")), (401, None));
}

#[tokio::test]
async fn the_operator_token_opens_the_operators_pages_and_no_endpoint() {
    let world = World::with(|options| {
        options.tokens = vec![Secret::new("one")];
        options.operator_tokens = vec![Secret::new("root")];
    })
    .await;
    for path in ["/mcp", "/servers/files/mcp"] {
        let operator = [("Authorization", "Bearer root")];
        let (head, body) = world.wire().await.ask("POST", path, &operator, &initialize()).await;
        assert_eq!(head.status, 403, "{path}");
        assert!(body.contains("use a client token"), "{body}");
    }
    assert_eq!(world.house.admitted(), 0);
    // What a browser sends after its user was asked. It posts nothing.
    let typed = [("Authorization", "Basic OnJvb3Q="), ("Accept", "text/html")];
    assert_eq!(world.wire().await.ask("GET", "/status", &typed, "").await.1, "fine");
    assert_eq!(world.wire().await.ask("POST", "/status", &typed, "").await.0.status, 401);
    let (head, _) = world.wire().await.ask("GET", "/status", &typed[1..], "").await;
    assert!(
        head.status == 401 && head.header("www-authenticate").is_some_and(|how| how.starts_with("Basic "))
    );
}

#[tokio::test]
async fn without_the_token_nothing_but_the_signs_of_life_is_told() {
    let world = World::with(|options| options.tokens = vec![Secret::new("one"), Secret::new("two")]).await;
    for path in ["/mcp", "/status", "/nowhere", "/servers/files/mcp"] {
        let (head, body) = world.wire().await.ask("POST", path, &[], &initialize()).await;
        assert_eq!((head.status, head.header("www-authenticate")), (401, Some("Bearer")), "{path}");
        assert!(!body.contains("one"));
        let wrong = [("Authorization", "Bearer three")];
        let (head, _) = world.wire().await.ask("POST", path, &wrong, &initialize()).await;
        assert_eq!(
            (head.status, head.header("www-authenticate")),
            (401, Some("Bearer error=\"invalid_token\""))
        );
    }
    assert_eq!(world.house.admitted(), 0);
    for path in ["/livez", "/readyz"] {
        assert_eq!(world.wire().await.ask("GET", path, &[], "").await.0.status, 200, "{path}");
    }
    let two = [("Authorization", "bearer two")];
    assert_eq!(world.wire().await.ask("GET", "/status", &two, "").await.1, "fine");
    let session = world.session_of("/mcp", &two).await;
    let mine = [two[0], ("Mcp-Session-Id", session.as_str())];
    let (_, body) = world.wire().await.ask("POST", "/mcp", &mine, &call(1, "echo")).await;
    assert_eq!(value(&body)["result"]["place"], "All Client(1)", "the second token");
}

#[tokio::test]
async fn nothing_of_a_clients_headers_reaches_its_guest() {
    let world = World::with(|options| options.tokens = vec![Secret::new("secret")]).await;
    let headers = [("Authorization", "Bearer secret"), ("X-Internal", "planted"), ("Cookie", "planted")];
    world.session_of("/mcp", &headers).await;
    let request = world.house.request().await.to_string();
    assert!(!request.contains("secret") && !request.contains("planted"), "{request}");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_other_methods_are_told_which_there_are() {
    let world = World::with(|options| options.sse = true).await;
    let (head, body) = world.wire().await.ask("GET", "/nowhere", &[], "").await;
    assert_eq!(head.status, 404);
    assert!(body.contains("/servers/NAME/mcp"), "{body}");
    for (method, path, allow) in [
        ("PUT", "/mcp", "POST, GET, DELETE"),
        ("HEAD", "/mcp", "POST, GET, DELETE"),
        ("POST", "/sse", "GET"),
        ("GET", "/messages", "POST"),
        ("GET", "/mcp", "POST"),
        ("DELETE", "/mcp", "POST"),
    ] {
        let mut wire = world.wire().await;
        wire.send(method, path, &[], "").await;
        let head = wire.head().await;
        assert_eq!((head.status, head.header("allow")), (405, Some(allow)), "{method} {path}");
    }
    let (head, _) = world.wire().await.ask("POST", "/servers/other/mcp", &[], &initialize()).await;
    assert_eq!(head.status, 404);
    let (head, _) = World::new().await.wire().await.ask("GET", "/sse", &[], "").await;
    assert_eq!(head.status, 404, "the older transport is behind a switch");
}

#[tokio::test]
async fn a_body_must_be_json_and_the_client_must_take_json_and_events() {
    let world = World::new().await;
    let post = async |headers: &[(&str, &str)], body: &str| {
        let (head, body) = world.wire().await.ask("POST", "/mcp", headers, body).await;
        (head.status, value(&body)["error"]["code"].as_i64().unwrap_or(0))
    };
    assert_eq!(post(&[("Content-Type", "text/plain")], &initialize()).await.0, 415);
    assert_eq!(post(&[("Content-Encoding", "gzip")], &initialize()).await.0, 415);
    assert_eq!(post(&[("Accept", "application/json")], &initialize()).await.0, 406);
    assert_eq!(post(&[("Accept", "text/event-stream")], &initialize()).await.0, 406);
    assert_eq!(post(&[], "{").await, (400, -32700));
    assert_eq!(post(&[], "").await, (400, -32700));
    assert_eq!(post(&[], "5").await, (400, -32600));
    assert_eq!(post(&[], "[]").await, (400, -32600));
    assert_eq!(post(&[], r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize"}"#).await, (400, -32600));
    assert_eq!(post(&[], "{\"id\":1,\"method\":\"a\u{0}\"}").await, (400, -32700));
    assert_eq!(post(&[], r#"{"id":1,"method":"initialize","params":{"a":NaN}}"#).await, (400, -32700));
    assert_eq!(post(&[], r#"{"id":1,"method":"\ud800"}"#).await, (400, -32600));
    let deep = format!(
        r#"{{"id":1,"method":"tools/list","params":{}{}}}"#,
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    assert_eq!(post(&[], &deep).await, (400, -32600), "no session, and no stack was lost over it");
    assert_eq!(world.house.admitted(), 0);
    let anything = [("Accept", "*/*"), ("Content-Type", "Application/JSON; charset=utf-8")];
    let marked = format!("\u{feff}{}\r\n", initialize());
    assert_eq!(world.wire().await.ask("POST", "/mcp", &anything, &marked).await.0.status, 200);
}

#[tokio::test]
async fn beyond_loopback_a_token_is_needed_unless_the_operator_insists() {
    let anywhere = || vec!["0.0.0.0:0".parse().unwrap()];
    let refused = bind(Options { addresses: anywhere(), ..Options::default() }).await.err().unwrap();
    assert!(matches!(refused, BindError::Unprotected { .. }));
    assert!(refused.to_string().contains("set a token"), "{refused}");
    let tokens = vec![Secret::new("secret")];
    assert!(bind(Options { addresses: anywhere(), tokens, ..Options::default() }).await.is_ok());
    assert!(bind(Options { addresses: anywhere(), insecure: true, ..Options::default() }).await.is_ok());
    let empty = Options { addresses: anywhere(), tokens: vec![Secret::new(" ")], ..Options::default() };
    assert!(matches!(bind(empty).await.err().unwrap(), BindError::EmptyToken));
    let both = vec![Secret::new("both")];
    let shared =
        Options { addresses: anywhere(), tokens: both.clone(), operator_tokens: both, ..Options::default() };
    assert!(matches!(bind(shared).await.err().unwrap(), BindError::SharedToken));
}

#[tokio::test]
async fn options_that_cannot_be_used_are_named() {
    let loopback = || vec!["127.0.0.1:0".parse().unwrap()];
    let hosts = Options { addresses: loopback(), hosts: vec!["http://a".into()], ..Options::default() };
    assert!(bind(hosts).await.err().unwrap().to_string().contains("\"http://a\" is not a host"));
    let origins = Options { addresses: loopback(), origins: vec!["a".into()], ..Options::default() };
    assert!(bind(origins).await.err().unwrap().to_string().contains("\"a\" is not an origin"));
    let taken = bind(Options { addresses: loopback(), ..Options::default() }).await.unwrap();
    let again = Options { addresses: taken.addresses().to_vec(), ..Options::default() };
    assert!(matches!(bind(again).await.err().unwrap(), BindError::Address { .. }));
}
