//! The status, for machines and for browsers.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use regrow_gateway::admit::Principal;
use regrow_gateway::operate::{CallReport, ListReport, Overview, ServerInfo, ServerReport, Spread};
use serde_json::json;

use crate::fake::{Fake, broken, by, ready};

#[tokio::test]
async fn a_machine_reads_everything_back() {
    let list = ListReport {
        count: 12,
        age: Duration::from_secs(60),
        stale: Some("the server is away".into()),
        left_out: None,
    };
    let report = ServerReport {
        in_state: Duration::from_micros(1_234_567),
        epoch: 7,
        era: Some("modern".into()),
        server_info: Some(ServerInfo { name: "git".into(), version: "1".into() }),
        pid: Some(42),
        stderr: vec!["Error: no token".into()],
        restarts: [("killed".to_owned(), 2)].into(),
        calls: vec![CallReport { outcome: "answered".into(), delivery: "answered".into(), count: 9 }],
        latency: Some(Spread { count: 9, p50: Duration::from_millis(3), ..Spread::default() }),
        in_flight: 1,
        queue: 2,
        private_sessions: 3,
        catalog: [("tools".to_owned(), list)].into(),
        ..broken("github")
    };
    let fake = Fake::with([report.clone()]);
    let answer = fake.get("/status").await;
    assert_eq!((answer.code, answer.header("content-type")), (StatusCode::OK, "application/json"));
    assert_eq!(answer.header("cache-control"), "no-store");
    let value = answer.json();
    let server = &value["servers"][0];
    assert_eq!(server["inStateMs"], json!(1234.567));
    assert_eq!(server["lastFault"]["exitCode"], 3);
    assert_eq!(
        server["catalog"]["tools"],
        json!({ "count": 12, "ageMs": 60000, "stale": "the server is away" })
    );
    assert_eq!(value["gateway"]["uptimeMs"], 1500);
    let read: Overview = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), value);
}

#[tokio::test]
async fn a_reader_of_another_version_takes_what_it_knows() {
    let read: Overview = serde_json::from_value(json!({ "servers": [{ "name": "x", "news": 1 }] })).unwrap();
    assert_eq!(read.servers[0].name, "x");
}

#[tokio::test]
async fn nothing_in_the_json_drives_a_terminal() {
    let nasty = "a\u{1b}]0;x\u{7}\u{202e}b\u{2028}";
    let fake = Fake::with([ServerReport { stderr: vec![nasty.into()], ..broken(nasty) }]);
    fake.set(|inner| inner.gateway.config_files = vec![nasty.into()]);
    let answer = fake.get("/status").await;
    let escaped = "a\\u{1b}]0;x\\u{7}\\u{202e}b\\u{2028}";
    let value = answer.json();
    assert_eq!(value["servers"][0]["name"], escaped);
    assert_eq!(value["servers"][0]["stderr"][0], escaped);
    assert_eq!(value["gateway"]["configFiles"][0], escaped);
    assert!(!answer.body.contains("\\u001b") && !answer.body.contains('\u{202e}'));
}

#[tokio::test]
async fn a_browser_gets_a_page_that_nothing_can_be_put_into() {
    let nasty = "</td><script>alert('x')</script><img src=x onerror=\"a&b\">";
    let fault = regrow_gateway::operate::FaultReport { text: nasty.into(), ..Default::default() };
    let report = ServerReport {
        era: Some(nasty.into()),
        last_fault: Some(fault),
        stderr: vec![nasty.into(), "</pre><h1>".into()],
        ..broken(nasty)
    };
    let fake = Fake::with([report, ready("files")]);
    fake.set(|inner| {
        inner.gateway.version = nasty.into();
        inner.gateway.config_files = vec![nasty.into()];
    });
    let browser = by(Principal::LocalUser, Method::GET, "/status")
        .header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let answer = fake.send(browser).await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert!(answer.header("content-security-policy").starts_with("default-src 'none';"));
    for forbidden in ["<script", "<img", "</pre><h1>", "onerror=\"", "http://", "https://"] {
        assert!(!answer.body.contains(forbidden), "{forbidden}: {}", answer.body);
    }
    let shown = "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&lt;img src=x onerror=&quot;a&amp;b&quot;&gt;";
    let occurrences = answer.body.matches(shown).count();
    assert_eq!(occurrences, 7, "name twice, version, file, era, fault, stderr: {}", answer.body);
    assert!(answer.body.contains("<td class=\"ready\">ready"));
}
