//! The suite of `regrow chaos`: what it finds in clients that are bad in a known way, and that Regrow itself passes.

mod fakes;
mod regrow_itself;
mod reports;
mod verdicts;

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `regrow chaos` with these words.
fn chaos(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regrow")).arg("chaos").args(words).output().expect("regrow runs")
}

/// The findings of a run: group, verdict, what was seen.
struct Findings(Vec<Value>);

impl Findings {
    /// Plays these scenarios with this program. Where nothing fails, patience costs nothing.
    fn of(role: &str, transport: &str, patience: &str, scenarios: &[&str], command: &[&str]) -> Findings {
        let mut words = vec![role, "--json", "--jobs", "3", "--patience", patience, "--transport", transport];
        scenarios.iter().for_each(|name| words.extend(["--scenario", name]));
        words.push("--");
        words.extend(command);
        let output = chaos(&words);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let findings = Findings(report["findings"].as_array().expect("a list").clone());
        let expected = if findings.failed().is_empty() { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "the exit code tells whether a promise was broken");
        findings
    }

    /// The findings of promises that were broken.
    fn broken(&self) -> Vec<&Value> {
        self.0.iter().filter(|finding| finding["verdict"] == "fail").collect()
    }

    /// Scenario and group of what failed.
    fn failed(&self) -> Vec<(&str, &str)> {
        let broken = self.broken().into_iter();
        broken.map(|finding| (text(&finding["scenario"]), text(&finding["group"]))).collect()
    }

    /// How many passed.
    fn passed(&self) -> usize {
        self.0.iter().filter(|finding| finding["verdict"] == "pass").count()
    }

    /// What was seen where this promise of this group failed.
    fn seen(&self, scenario: &str, group: &str) -> String {
        let found = self.0.iter().find(|finding| {
            finding["scenario"] == scenario && finding["group"] == group && finding["verdict"] == "fail"
        });
        found.unwrap_or_else(|| panic!("{:?}", self.0))["seen"].as_str().unwrap_or_default().to_owned()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
