//! The examples in docs/errors.md are what the code says. `UPDATE=1 cargo test -p regrow --test errors_document`
//! rewrites them.

use std::sync::Arc;
use std::time::Duration;

use regrow::core::{Delivery, Epoch, Fault, Outlook};
use regrow::{CallError, ErrorKind, Unapproved};
use regrow_protocol::frame::RawId;
use serde_json::Value;

fn interrupted() -> CallError {
    CallError {
        server: "github".into(),
        epoch: Some(Epoch(3)),
        delivery: Delivery::Unknown,
        kind: ErrorKind::Interrupted,
        fault: Some(Arc::new(Fault::Killed { signal: 9 })),
        outlook: Outlook::Restarting,
        repeatable: false,
        attempts: 0,
        timeout: None,
        tool: Some("create_issue".into()),
        stderr: vec![],
    }
}

fn examples() -> Vec<(&'static str, Vec<u8>)> {
    let id = RawId::from(7);
    let unavailable = CallError {
        epoch: None,
        delivery: Delivery::NotSent,
        kind: ErrorKind::Unavailable,
        fault: Some(Arc::new(Fault::NotFound { program: "githubb-mcp".into() })),
        outlook: Outlook::NeedsMending(Duration::from_secs(10)),
        ..interrupted()
    };
    let impatient = CallError {
        fault: Some(Arc::new(Fault::Exited { code: 1 })),
        outlook: Outlook::Restarting,
        attempts: 12,
        ..unavailable.clone()
    };
    let sign_in = CallError {
        fault: Some(Arc::new(Fault::SignInNeeded { command: "regrow login github".into(), may_ask: false })),
        ..unavailable.clone()
    };
    let parked = CallError {
        fault: Some(Arc::new(Fault::Parked)),
        outlook: Outlook::NeedsWaking,
        ..unavailable.clone()
    };
    let timeout = CallError {
        kind: ErrorKind::Timeout,
        fault: None,
        timeout: Some(Duration::from_secs(300)),
        outlook: Outlook::Serving,
        ..interrupted()
    };
    let too_large = CallError {
        delivery: Delivery::Answered,
        kind: ErrorKind::TooLarge { bytes: 83_886_080 },
        fault: None,
        outlook: Outlook::Serving,
        tool: None,
        ..interrupted()
    };
    let refused = CallError {
        kind: ErrorKind::Refused,
        fault: Some(Arc::new(Fault::Status { code: 502, said: ": bad gateway".into() })),
        outlook: Outlook::Serving,
        ..interrupted()
    };
    let not_approved = CallError {
        epoch: None,
        delivery: Delivery::NotSent,
        kind: ErrorKind::NotApproved(Unapproved::Definition),
        fault: None,
        outlook: Outlook::Serving,
        ..interrupted()
    };
    vec![
        ("interrupted", interrupted().tool_result(&id, false).to_vec()),
        ("unavailable", unavailable.tool_result(&id, false).to_vec()),
        ("impatient", impatient.tool_result(&id, false).to_vec()),
        ("sign-in", sign_in.tool_result(&id, false).to_vec()),
        ("parked", parked.tool_result(&id, false).to_vec()),
        ("timeout", timeout.tool_result(&id, false).to_vec()),
        ("too-large", too_large.rpc_error(&id).to_vec()),
        ("refused", refused.tool_result(&id, false).to_vec()),
        ("not-approved", not_approved.tool_result(&id, false).to_vec()),
        ("modern", interrupted().tool_result(&id, true).to_vec()),
    ]
}

#[test]
fn the_examples_in_the_document_are_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
    let old = std::fs::read_to_string(path).unwrap();
    let mut new = old.clone();
    for (name, message) in examples() {
        let message: Value = serde_json::from_slice(&message).unwrap();
        let mark = format!("<!-- example: {name} -->\n");
        let block = format!("```json\n{}\n```\n", serde_json::to_string_pretty(&message).unwrap());
        let start = new.find(&mark).unwrap_or_else(|| panic!("{mark} is missing")) + mark.len();
        let end = match new[start..].strip_prefix("```json\n") {
            Some(rest) => start + "```json\n".len() + rest.find("```\n").unwrap() + "```\n".len(),
            None => start,
        };
        new.replace_range(start..end, &block);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &new).unwrap();
    }
    assert!(old == new, "docs/errors.md is out of date: run this test with UPDATE=1");
}

#[test]
fn every_kind_and_cause_is_in_the_document_with_its_code() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md")).unwrap();
    use ErrorKind::*;
    for kind in [
        Interrupted,
        Unavailable,
        Timeout,
        Overloaded,
        TooLarge { bytes: 1 },
        Malformed,
        Closed,
        Refused,
        NotApproved(Unapproved::Definition),
        NotBridged(regrow::Gap::Tasks),
    ] {
        let row = format!("| `{}` | {} |", kind.name(), kind.code());
        assert!(document.contains(&row), "{row} is missing");
    }
    let text = String::new;
    let causes = [
        Fault::NotFound { program: text() },
        Fault::NotExecutable { program: text(), reason: text() },
        Fault::BadDirectory { path: text(), reason: text() },
        Fault::Unsandboxed { reason: text() },
        Fault::SpawnFailed { program: text(), reason: text() },
        Fault::HandshakeTimeout { after: Duration::ZERO },
        Fault::HandshakeRefused { code: 0, message: text() },
        Fault::VersionChanged { was: text(), is: text() },
        Fault::CapabilityLost { name: text() },
        Fault::Exited { code: 0 },
        Fault::Killed { signal: 9 },
        Fault::OutputClosed,
        Fault::InputClosed,
        Fault::Silent { after: Duration::ZERO },
        Fault::Broken { reason: text() },
        Fault::Misconfigured { reason: text() },
        Fault::Unreachable { address: text(), reason: text() },
        Fault::UnknownHost { host: text(), reason: text() },
        Fault::Untrusted { host: text(), reason: text() },
        Fault::Unauthorized { code: 401 },
        Fault::SignInNeeded { command: text(), may_ask: false },
        Fault::RefreshFailed { reason: text() },
        Fault::Redirected { to: text() },
        Fault::NotMcp { found: text() },
        Fault::SessionExpired { ran: true },
        Fault::Deferred { code: 429, after: Duration::ZERO },
        Fault::Status { code: 500, said: text() },
        Fault::AnswerCut,
        Fault::Stalled { after: Duration::ZERO },
        Fault::Replaced,
        Fault::Parked,
        Fault::Closed,
    ];
    for cause in causes {
        assert!(document.contains(&format!("`{}`", cause.name())), "{} is missing", cause.name());
    }
}
