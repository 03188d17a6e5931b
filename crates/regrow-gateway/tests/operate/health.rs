//! Whether the gateway lives, and can do its work.

use axum::http::{Method, StatusCode};
use regrow_gateway::admit::Principal;
use regrow_gateway::operate::{ServerReport, ServerState};
use serde_json::json;

use crate::fake::{Fake, broken, by, ready, stranger};

#[tokio::test]
async fn it_lives_while_it_answers_whatever_its_servers_do() {
    let fake = Fake::with([broken("files")]);
    fake.set(|inner| inner.gateway.shutting_down = true);
    let answer = fake.get("/livez").await;
    assert_eq!((answer.code, &*answer.body), (StatusCode::OK, "alive\n"));
}

#[tokio::test]
async fn it_is_ready_when_every_server_that_is_wanted_is_or_was_stopped_on_purpose() {
    let stopped = ServerReport { state: ServerState::Parked, stopped: true, ..broken("stopped") };
    let lazy = ServerReport { eager: false, state: ServerState::Idle, ..ready("lazy") };
    let lazy_and_broken = ServerReport { eager: false, ..broken("lazy-and-broken") };
    let fake = Fake::with([ready("files"), stopped, lazy, lazy_and_broken]);
    let answer = fake.get("/readyz").await;
    assert_eq!((answer.code, answer.json()), (StatusCode::OK, json!({ "ready": true })));
}

#[tokio::test]
async fn otherwise_it_says_which_server_is_not_and_why() {
    let starting = ServerReport { state: ServerState::Connecting, ..ready("slow") };
    let fake = Fake::with([ready("files"), broken("github"), starting]);
    let answer = fake.get("/readyz").await;
    assert_eq!(answer.code, StatusCode::SERVICE_UNAVAILABLE);
    let expected = json!({ "ready": false, "shuttingDown": false, "notReady": [
        {
            "server": "github",
            "state": "backoff",
            "why": "it waits for the next attempt: the server process exited with code 3",
        },
        { "server": "slow", "state": "connecting", "why": "it is starting" },
    ]});
    assert_eq!(answer.json(), expected);
}

#[tokio::test]
async fn it_is_not_ready_while_it_shuts_down() {
    let fake = Fake::with([ready("files")]);
    fake.set(|inner| inner.gateway.shutting_down = true);
    let answer = fake.get("/readyz").await;
    assert_eq!(
        (answer.code, &answer.json()["shuttingDown"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!(true))
    );
}

#[tokio::test]
async fn one_server_can_be_asked_for() {
    let lazy_and_broken = ServerReport { eager: false, ..broken("lazy") };
    let fake = Fake::with([ready("my files"), broken("github"), lazy_and_broken]);
    for (path, code) in [
        ("/readyz?server=my%20files", 200),
        ("/readyz?server=my+files", 200),
        ("/readyz?server=github", 503),
        ("/readyz?server=lazy", 503),
        ("/readyz?server=gihtub", 404),
    ] {
        assert_eq!(fake.get(path).await.code.as_u16(), code, "{path}");
    }
    let error = fake.get("/readyz?server=gihtub").await.json();
    assert_eq!(error["error"], "no server is called gihtub; did you mean github?");
}

#[tokio::test]
async fn a_stranger_learns_only_whether_it_is_ready() {
    let fake = Fake::with([broken("github")]);
    let answer = fake.send(stranger(Method::GET, "/readyz")).await;
    assert_eq!((answer.code, answer.json()), (StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false })));
    assert_eq!(fake.send(stranger(Method::GET, "/livez")).await.code, StatusCode::OK);
    let fake = Fake::with([ready("github"), broken("other")]);
    let of = async |name| {
        let answer = fake.send(stranger(Method::GET, &format!("/readyz?server={name}"))).await;
        (answer.code, answer.body)
    };
    let ready = of("github").await;
    assert_eq!(ready.0, StatusCode::UNAUTHORIZED);
    assert_eq!((of("other").await, of("nobody").await), (ready.clone(), ready), "not even its name");
}

#[tokio::test]
async fn only_the_local_user_and_the_operator_read_and_only_the_operator_commands() {
    let fake = Fake::with([ready("github")]);
    let pages = ["/status", "/metrics", "/admin/servers/github/logs", "/readyz?server=github", "/"];
    let commands = ["/admin/servers/github/reconnect", "/admin/servers/nobody/park", "/admin/log-level"];
    let may = |principal| match principal {
        Some(Principal::Client(_)) => (StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
        Some(Principal::LocalUser) => (StatusCode::OK, StatusCode::UNAUTHORIZED),
        _ => (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED),
    };
    for principal in
        [None, Some(Principal::Anonymous), Some(Principal::Client(0)), Some(Principal::LocalUser)]
    {
        let request = |method, path| match principal {
            Some(principal) => by(principal, method, path),
            None => stranger(method, path),
        };
        for path in pages {
            let answer = fake.send(request(Method::GET, path)).await;
            let read = may(principal).0 == StatusCode::OK;
            let wanted = if read && path == "/" { StatusCode::NOT_FOUND } else { may(principal).0 };
            assert_eq!(answer.code, wanted, "{principal:?} {path}");
            assert!(read || !answer.body.contains("github"), "{}", answer.body);
            assert!(read || answer.body.contains("needs the operator token: run"), "{}", answer.body);
        }
        for path in commands {
            let order = request(Method::POST, path).header("content-type", "application/json");
            let answer = fake.send_with(order, r#"{"level":"off"}"#).await;
            assert_eq!(answer.code, may(principal).1, "{principal:?} {path}");
        }
    }
    assert!(fake.see(|inner| inner.orders.is_empty() && inner.level.is_none()));
}

#[tokio::test]
async fn a_form_is_no_command_whoever_sends_it() {
    let fake = Fake::with([ready("github")]);
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        for path in ["/admin/servers/github/park", "/admin/log-level"] {
            let order = by(Principal::Operator, Method::POST, path).header("content-type", kind);
            let answer = fake.send_with(order, r#"{"level":"off"}"#).await;
            assert_eq!(answer.code, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind} {path}");
        }
    }
    assert!(fake.see(|inner| inner.orders.is_empty() && inner.level.is_none()));
}

#[tokio::test]
async fn a_browser_asks_for_the_operator_token() {
    let fake = Fake::with([]);
    let of = async |accept| {
        let request = by(Principal::Anonymous, Method::GET, "/status").header("accept", accept);
        fake.send(request).await.header("www-authenticate").to_owned()
    };
    assert!(of("text/html").await.starts_with("Basic "));
    assert_eq!(of("application/json").await, "Bearer");
}
