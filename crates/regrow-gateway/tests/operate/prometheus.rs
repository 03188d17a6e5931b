//! The metrics, read back by a strict little parser of the text format.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use regrow_gateway::operate::{CallReport, METRICS, ServerReport};
use regrow_gateway::stats::{Histogram, Stats};

use crate::fake::{Fake, broken, ready};

/// A sample's name and labels, and its value.
pub type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Panics at whatever the format does not allow.
pub fn parse(text: &str) -> Samples {
    assert!(text.ends_with('\n'));
    let mut samples = Samples::new();
    let mut family = (String::new(), String::new());
    let mut seen = BTreeSet::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && seen.insert(name.to_owned()), "{name} comes twice");
            let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            family = (name.to_owned(), kind.to_owned());
            continue;
        }
        let (name, labels, value) = sample(line);
        let suffix = name.strip_prefix(&family.0).unwrap_or_else(|| panic!("{name} is not of {}", family.0));
        match &*family.1 {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
            _ => assert_eq!(suffix, "", "{line}"),
        }
        assert_eq!(family.1 == "counter", family.0.ends_with("_total"), "{line}");
        assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
    }
    samples
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            assert!(is_name(label), "{line}");
            let (value, after) = quoted(value);
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_')
}

/// A value up to its closing quote, and what follows.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next().unwrap().1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                other => panic!("\\{other} means nothing"),
            },
            '\n' => panic!("a value ends with its line"),
            letter => value.push(letter),
        }
    }
    panic!("no end: {text}")
}

fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    samples.get(&(name.to_owned(), labels)).copied()
}

async fn metrics(fake: &Fake) -> Samples {
    let answer = fake.get("/metrics").await;
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    parse(&answer.body)
}

#[tokio::test]
async fn what_was_counted_is_told() {
    let latency = Histogram::default();
    for millis in [1, 3, 3, 5000, 10_000_000] {
        latency.record(Duration::from_millis(millis));
    }
    let call = |outcome: &str, delivery: &str, count| CallReport {
        outcome: outcome.into(),
        delivery: delivery.into(),
        count,
    };
    let files = ServerReport {
        restarts: [("killed".to_owned(), 2), ("planned".to_owned(), 1)].into(),
        calls: vec![call("answered", "answered", 9), call("interrupted", "not-sent", 1)],
        latency_buckets: latency.buckets(),
        in_flight: 4,
        queue: 5,
        private_sessions: 6,
        ..ready("files")
    };
    let fake = Fake::with([files, broken("github")]);
    let samples = metrics(&fake).await;
    let is = |name: &str, labels: &[(&str, &str)], expected: f64| {
        assert_eq!(value(&samples, name, labels), Some(expected), "{name} {labels:?}");
    };
    let files = ("server", "files");
    is("regrow_build_info", &[("version", "0.1.0")], 1.0);
    is("regrow_uptime_seconds", &[], 1.5);
    is("regrow_clients", &[], 3.0);
    is("regrow_sessions", &[], 4.0);
    is("regrow_tasks", &[], 17.0);
    is("regrow_server_state", &[files, ("state", "ready")], 1.0);
    is("regrow_server_state", &[files, ("state", "backoff")], 0.0);
    is("regrow_server_state", &[("server", "github"), ("state", "backoff")], 1.0);
    is("regrow_restarts_total", &[files, ("reason", "killed")], 2.0);
    is("regrow_calls_total", &[files, ("outcome", "interrupted"), ("delivery", "not-sent")], 1.0);
    is("regrow_call_seconds_bucket", &[files, ("le", "0.001")], 1.0);
    is("regrow_call_seconds_bucket", &[files, ("le", "0.004")], 3.0);
    is("regrow_call_seconds_bucket", &[files, ("le", "4194.304")], 4.0);
    is("regrow_call_seconds_bucket", &[files, ("le", "+Inf")], 5.0);
    is("regrow_call_seconds_count", &[files], 5.0);
    is("regrow_call_seconds_sum", &[files], 10_005.007);
    is("regrow_calls_in_flight", &[files], 4.0);
    is("regrow_queue", &[files], 5.0);
    is("regrow_private_sessions", &[files], 6.0);
    is("regrow_budget_left", &[files], 5.0);
}

#[tokio::test]
async fn every_metric_is_there_for_a_server_that_did_nothing_yet() {
    let fake = Fake::with([ServerReport::new("files", &Arc::new(Stats::default()))]);
    let answer = fake.get("/metrics").await;
    for metric in METRICS {
        assert!(answer.body.contains(&format!("# TYPE {} {}\n", metric.name, metric.kind)));
    }
    let samples = parse(&answer.body);
    assert_eq!(value(&samples, "regrow_call_seconds_count", &[("server", "files")]), Some(0.0));
}

#[tokio::test]
async fn a_name_can_forge_no_sample() {
    let name = "a\"} 1\nregrow_forged{x=\"\\\u{202e}";
    let samples = metrics(&Fake::with([broken(name)])).await;
    let told = "a\"} 1\\nregrow_forged{x=\"\\\\u{202e}";
    assert_eq!(value(&samples, "regrow_queue", &[("server", told)]), Some(0.0), "{samples:?}");
    assert!(!samples.keys().any(|(name, _)| name == "regrow_forged"));
}
