//! Orders to servers.

use axum::http::{Method, StatusCode};
use regrow_gateway::admit::Principal;
use regrow_gateway::operate::{CommandError, LogLevel, ServerCommand};
use serde_json::json;

use crate::fake::{Fake, by, ready};

#[tokio::test]
async fn every_order_reaches_its_server() {
    let fake = Fake::with([ready("my/files")]);
    for order in ServerCommand::ALL {
        let answer = fake.post(&format!("/admin/servers/my%2Ffiles/{}", order.name())).await;
        assert_eq!(answer.code, StatusCode::ACCEPTED, "{}", answer.body);
        assert_eq!(answer.json(), json!({ "server": "my/files", "order": order.name() }));
    }
    let orders = fake.see(|inner| inner.orders.clone());
    assert_eq!(orders, ServerCommand::ALL.map(|order| ("my/files".to_owned(), order)));
}

#[tokio::test]
async fn an_order_that_cannot_be_followed_says_why() {
    let fake = Fake::with([ready("github")]);
    let unknown = fake.post("/admin/servers/gitbub/drain").await;
    assert_eq!(unknown.code, StatusCode::NOT_FOUND);
    assert_eq!(unknown.json()["error"], "no server is called gitbub; did you mean github?");
    let far = fake.post("/admin/servers/%1b%5B2J/drain").await;
    assert_eq!(far.json()["error"], "no server is called \\u{1b}[2J");
    let wrong = fake.post("/admin/servers/github/reconect").await;
    assert_eq!(wrong.json()["error"], "unknown command: reconect; did you mean reconnect?");
    fake.set(|inner| inner.refusal = Some(CommandError::Impossible("it is not running".into())));
    let refused = fake.post("/admin/servers/github/drain").await;
    assert_eq!(refused.code, StatusCode::CONFLICT);
    assert_eq!(refused.json()["error"], "not possible now: it is not running");
    fake.set(|inner| inner.refusal = Some(CommandError::Closing));
    assert_eq!(fake.post("/admin/servers/github/drain").await.code, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fake.get("/admin/servers/github/drain").await.code, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(fake.post("/admin/servers/github/logs").await.code, StatusCode::METHOD_NOT_ALLOWED);
    assert!(fake.see(|inner| inner.orders.is_empty()));
}

#[tokio::test]
async fn the_log_level_is_a_word_that_there_is() {
    let fake = Fake::with([]);
    let order = || {
        by(Principal::Operator, Method::POST, "/admin/log-level").header("content-type", "application/json")
    };
    assert_eq!(fake.send_with(order(), r#"{"level":"debug"}"#).await.code, StatusCode::OK);
    assert_eq!(fake.see(|inner| inner.level), Some(LogLevel::Debug));
    for body in [r#"{"level":"loud"}"#, r#"{"level":"info","server":"x"}"#, "", "\u{1b}"] {
        let answer = fake.send_with(order(), body).await;
        assert_eq!(answer.code, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.body.contains("off, error, warn, info, debug"), "{}", answer.body);
    }
    let long = format!(r#"{{"level":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(fake.send_with(order(), &long).await.code, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn logs_are_lines_that_forge_nothing() {
    let fake = Fake::with([ready("github")]);
    fake.set(|inner| inner.logs = vec!["ready".into(), "| \u{1b}[31m\nforged\u{202e}".into()]);
    let answer = fake.get("/admin/servers/github/logs").await;
    let lines = json!(["ready", "| \\u{1b}[31m\\nforged\\u{202e}"]);
    assert_eq!(answer.json(), json!({ "server": "github", "lines": lines }));
    assert_eq!(fake.get("/admin/servers/hubgit/logs").await.code, StatusCode::NOT_FOUND);
}
