//! Whether the gateway lives, and can do its work.

use axum::http::{Method, StatusCode};
use regrow_gateway::operate::{ServerReport, ServerState};
use serde_json::json;

use crate::fake::{Fake, broken, ready, stranger};

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
    for path in ["/readyz", "/readyz?server=github", "/readyz?server=gihtub"] {
        let answer = fake.send(stranger(Method::GET, path)).await;
        assert_eq!(
            (answer.code, answer.json()),
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "ready": false }))
        );
    }
    assert_eq!(fake.send(stranger(Method::GET, "/livez")).await.code, StatusCode::OK);
    let fake = Fake::with([ready("github")]);
    assert_eq!(fake.send(stranger(Method::GET, "/readyz")).await.json(), json!({ "ready": true }));
}

#[tokio::test]
async fn a_stranger_sees_and_orders_nothing_else() {
    let fake = Fake::with([ready("github")]);
    for (method, path) in [
        (Method::GET, "/status"),
        (Method::GET, "/metrics"),
        (Method::GET, "/admin/servers/github/logs"),
        (Method::POST, "/admin/servers/github/reconnect"),
        (Method::POST, "/admin/log-level"),
    ] {
        let answer = fake.send(stranger(method, path)).await;
        assert_eq!(answer.code, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!answer.body.contains("github"));
    }
    assert!(fake.see(|inner| inner.orders.is_empty()));
}
