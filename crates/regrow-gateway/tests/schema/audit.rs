//! The schema of the audit log says what its lines have, and lets nothing else in.

use std::fs;
use std::time::{Duration, SystemTime};

use regrow_gateway::audit::{ChangedServers, Digest, Event, Record};
use serde_json::{Value, json};

use crate::validity;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.schema.json");
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(PATH).unwrap()).unwrap()
}

fn line(record: &Record) -> Value {
    serde_json::from_slice(&record.line(SystemTime::now())).unwrap()
}

fn call() -> Record {
    Record {
        principal: Some("client-1".into()),
        server: Some("files".into()),
        method: Some("tools/call".into()),
        tool: Some("read".into()),
        arguments: Some(Digest::of(b"{}")),
        delivery: Some("answered"),
        duration: Some(Duration::from_millis(3)),
        ..Record::new(Event::Call, "answered")
    }
}

fn refusal() -> Record {
    Record {
        principal: Some("none".into()),
        request: Some("POST /mcp".into()),
        http_status: Some(401),
        duration: Some(Duration::ZERO),
        ..Record::new(Event::Refusal, "wrong-token")
    }
}

#[test]
fn every_kind_of_line_keeps_to_the_schema() {
    let command = Record {
        principal: Some("operator".into()),
        request: Some("POST /admin/servers/files/park".into()),
        http_status: Some(202),
        duration: Some(Duration::ZERO),
        ..Record::command("park", Some("files"), "ok")
    };
    let config = Record::config(ChangedServers { added: vec!["a".into()], ..ChangedServers::default() });
    let rejected = Record::new(Event::Config, "rejected");
    let unknown_tool = Record { event: Event::Refusal, outcome: "unknown-tool", ..call() };
    let untrusted = Record::new(Event::Config, "untrusted");
    let held = Record { tool: Some("read".into()), ..Record::pin("files", "held") };
    let counted = Record { repeats: Some(290), ..Record::new(Event::Refusal, "wrong-token") };
    for record in [call(), refusal(), unknown_tool, counted, command, config, rejected, untrusted, held] {
        let line = line(&record);
        validity::check(&schema(), &line).unwrap_or_else(|problem| panic!("{line}: {problem}"));
    }
}

#[test]
fn the_examples_in_the_document_keep_to_the_schema() {
    let document = fs::read_to_string(DOCUMENT).unwrap();
    let examples = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(examples.lines().count(), 7);
    for line in examples.lines() {
        validity::check(&schema(), &serde_json::from_str(line).unwrap()).unwrap();
    }
}

#[test]
fn nothing_else_keeps_to_it() {
    let with = |record: &Record, name: &str, value: Value| {
        let mut line = line(record);
        line[name] = value;
        line
    };
    let without = |record: &Record, name: &str| {
        let mut line = line(record);
        line.as_object_mut().unwrap().remove(name);
        line
    };
    let wrong = [
        with(&call(), "arguments", json!({ "path": "/home" })),
        with(&call(), "arguments", json!({ "sha256": "x", "bytes": 1 })),
        with(&call(), "session", json!("a-whole-session-id")),
        with(&call(), "time", json!("yesterday")),
        with(&call(), "event", json!("other")),
        with(&call(), "outcome", json!("free text")),
        with(&call(), "token", json!("secret")),
        with(&refusal(), "principal", json!("root")),
        without(&call(), "principal"),
        without(&call(), "method"),
        without(&call(), "arguments"),
        without(&call(), "delivery"),
        without(&refusal(), "request"),
        without(&refusal(), "outcome"),
        with(&refusal(), "repeats", json!(0)),
        line(&Record::new(Event::Command, "ok")),
        line(&Record::new(Event::Config, "ok")),
        line(&Record::new(Event::Pin, "held")),
        line(&Record::pin("files", "ok")),
        line(&Record::new(Event::SignIn, "needed")),
        line(&Record::sign_in("files", "ok")),
    ];
    for line in wrong {
        assert!(validity::check(&schema(), &line).is_err(), "{line}");
    }
}
