//! The metrics in docs/operations.md are those in the code, with the same meaning of their kind.

use std::collections::BTreeSet;

use regrow_gateway::operate::{METRICS, ServerCommand};

const DOCUMENT: &str = include_str!("../../../../docs/operations.md");

#[test]
fn the_metrics_in_the_document_are_those_in_the_code() {
    let documented: BTreeSet<(&str, &str)> = DOCUMENT
        .lines()
        .filter(|line| line.starts_with("| `regrow_"))
        .map(|line| {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let name = cells.next().unwrap().trim_matches('`').split('{').next().unwrap();
            (name, cells.next().unwrap())
        })
        .collect();
    let known: BTreeSet<(&str, &str)> = METRICS.iter().map(|metric| (metric.name, metric.kind)).collect();
    assert_eq!(documented, known);
}

#[test]
fn no_other_metric_is_named_in_an_alert() {
    let words = DOCUMENT.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    for word in words.filter(|word| word.starts_with("regrow_")) {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
        let is_known = |name: &str| METRICS.iter().any(|metric| metric.name == name);
        assert!(is_known(word) || base.is_some_and(is_known), "{word}");
    }
}

#[test]
fn every_order_is_documented() {
    for order in ServerCommand::ALL {
        assert!(DOCUMENT.contains(&format!("`regrow {} NAME`", order.name())), "{}", order.name());
    }
}
