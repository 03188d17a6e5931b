//! What a run of the suite has found, for people and machines.

mod escape;
mod html;
mod junit;
mod text;

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::verdict::{Finding, Group, Verdict};
use super::{Role, Transport};

/// The findings of one run, and of what.
#[derive(Clone, Debug)]
pub struct Report {
    /// What the program under test is called.
    pub name: String,
    /// What it calls itself.
    pub version: Option<String>,
    /// Its command.
    pub command: Vec<String>,
    /// What it is.
    pub role: Role,
    /// How the server was reached.
    pub transport: Transport,
    /// When the run began.
    pub date: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// How many times as long the bounds were as on an idle machine.
    pub patience: u32,
    /// What was found, in the order of the scenarios.
    pub findings: Vec<Finding>,
}

/// How many promises of a group were kept, broken, and not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Kept.
    pub passed: usize,
    /// Broken.
    pub failed: usize,
    /// Not judged.
    pub not_applicable: usize,
}

impl Report {
    /// The score of one group, or of all.
    pub fn score(&self, group: Option<Group>) -> Score {
        let mut score = Score::default();
        let asked = self.findings.iter().filter(|finding| group.is_none_or(|group| finding.group == group));
        for finding in asked {
            match finding.verdict {
                Verdict::Pass => score.passed += 1,
                Verdict::Fail(_) => score.failed += 1,
                Verdict::NotApplicable(_) => score.not_applicable += 1,
            }
        }
        score
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let groups: serde_json::Map<String, Value> = Group::ALL
            .into_iter()
            .map(|group| (group.name().to_owned(), self.score(Some(group)).json()))
            .collect();
        let findings: Vec<Value> = self.findings.iter().map(finding_json).collect();
        json!({
            "name": self.name,
            "version": self.version,
            "command": self.command,
            "role": self.role.name(),
            "transport": self.transport.name(),
            "date": self.date(),
            "seconds": self.took.as_secs_f64().round(),
            "patience": self.patience,
            "groups": groups,
            "findings": findings,
        })
    }

    /// For a terminal.
    pub fn text(&self, colour: bool) -> String {
        text::text(self, colour)
    }

    /// For systems that show test results.
    pub fn junit(&self) -> String {
        junit::xml(self)
    }

    /// For a browser: one page that needs nothing from elsewhere.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// When the run began, in UTC.
    fn date(&self) -> String {
        humantime::format_rfc3339_seconds(self.date).to_string()
    }

    /// What was tested, in a line.
    fn title(&self) -> String {
        let version = self.version.as_ref().filter(|version| **version != self.name);
        let version = version.map(|version| format!(" ({version})")).unwrap_or_default();
        format!("{}{version}, a {} with a server over {}", self.name, self.role.name(), self.transport.name())
    }
}

impl Score {
    fn json(self) -> Value {
        json!({ "pass": self.passed, "fail": self.failed, "not applicable": self.not_applicable })
    }

    /// `5 of 6`, or a dash where nothing was judged.
    fn short(self) -> String {
        match self.passed + self.failed {
            0 => "-".to_owned(),
            judged => format!("{} of {judged}", self.passed),
        }
    }
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "scenario": finding.scenario,
        "numbers": finding.numbers,
        "group": finding.group.name(),
        "promise": finding.promise,
        "verdict": finding.verdict.name(),
        "seen": finding.verdict.text(),
    })
}

#[cfg(test)]
pub(crate) fn sample() -> Report {
    let finding =
        |group, promise, verdict| Finding { scenario: "killed-idle", numbers: "1", group, promise, verdict };
    Report {
        name: "a <b>bad</b> & \"quoted\" client\u{1b}[2J".into(),
        version: Some("1.0 | ]]> --".into()),
        command: vec!["client".into(), "</pre><script>alert(1)</script>".into()],
        role: Role::Client,
        transport: Transport::Stdio,
        date: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
        took: Duration::from_secs(12),
        patience: 1,
        findings: vec![
            finding(Group::Notices, "a death is noticed", Verdict::Pass),
            finding(
                Group::Recovers,
                "calls succeed again",
                Verdict::Fail("it said: <script>alert('x')</script> ]]> & \u{0}\u{7} | pipe\nline".into()),
            ),
            finding(Group::Answers, "it answers", Verdict::NotApplicable("no status".into())),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_counts_each_verdict_in_its_group() {
        let report = sample();
        assert_eq!(report.score(None), Score { passed: 1, failed: 1, not_applicable: 1 });
        assert_eq!(report.score(Some(Group::Recovers)), Score { failed: 1, ..Score::default() });
        assert_eq!(report.score(Some(Group::Notices)).short(), "1 of 1");
        assert_eq!(report.score(Some(Group::Answers)).short(), "-");
        assert_eq!(report.json()["groups"]["Recovers"]["fail"], 1);
        assert_eq!(report.json()["date"], "2001-09-09T01:46:40Z");
    }
}
