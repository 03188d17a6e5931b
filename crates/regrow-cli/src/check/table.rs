//! The findings as a table for people.

use std::time::Duration;

use super::finding::{Finding, State};
use crate::table::{Columns, printable};
use crate::terminal::{Screen, Style};

const COLUMNS: Columns<5> =
    Columns { heading: ["SERVER", "STATE", "ERA", "TOOLS", "START"], numbers: &[3, 4], optional: &[2, 4, 3] };

/// A line for each server; under a broken one what is wrong with it, and what it said.
pub(super) fn text(findings: &[Finding], screen: Screen) -> String {
    if findings.is_empty() {
        return "There are no servers in this configuration.\n".into();
    }
    let rows: Vec<[String; 5]> = findings.iter().map(row).collect();
    let mut lines = COLUMNS.lines(&rows, screen.width()).into_iter();
    let mut text = lines.next().unwrap_or_default();
    for (line, finding) in lines.zip(findings) {
        text.push_str(&format!("{}\n", screen.paint(style(finding.state), line.trim_end())));
        if !finding.sandbox_gaps.is_empty() {
            text.push_str(&screen.paragraph("  ", &format!("sandbox: {}", finding.sandbox_gaps.join("; "))));
        }
        if let Some(problem) = &finding.problem {
            problem.text.lines().for_each(|line| text.push_str(&screen.paragraph("  ", line)));
            problem.stderr.iter().for_each(|line| text.push_str(&screen.quote("  | ", line)));
        }
        if !finding.missing.is_empty() {
            let (names, quoted) = (finding.missing.join(", "), finding.missing.join("\", \""));
            let hint = format!(
                "set here, but not passed to it: {names}; to pass: \"env\": {{ \"inherit\": [\"{quoted}\"] }}"
            );
            text.push_str(&screen.paragraph("  ", &hint));
        }
    }
    text
}

fn row(finding: &Finding) -> [String; 5] {
    let nothing = || "-".to_owned();
    [
        printable(&finding.name),
        finding.state.name().to_owned(),
        finding.era.map_or_else(nothing, str::to_owned),
        finding.tools.map_or_else(nothing, |tools| tools.to_string()),
        finding.start.map_or_else(nothing, seconds),
    ]
}

fn style(state: State) -> Style {
    match state {
        State::Ok => Style::Good,
        State::Broken => Style::Bad,
        State::Disabled => Style::Faint,
    }
}

fn seconds(length: Duration) -> String {
    format!("{:.2} s", length.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Problem;
    use super::*;

    #[test]
    fn the_table_lines_up_and_forges_no_line() {
        let ok = Finding {
            name: "files".into(),
            state: State::Ok,
            era: Some("legacy"),
            tools: Some(12),
            start: Some(Duration::from_millis(412)),
            sandbox_gaps: vec!["it does not limit files"],
            missing: vec![],
            problem: None,
        };
        let stderr = vec!["Error: no token".to_owned()];
        let problem = Problem {
            text: "the server process exited with code 1".into(),
            fault: None,
            stderr,
            entry: vec![],
        };
        let broken = Finding {
            name: "git\n\x1b[2J".into(),
            state: State::Broken,
            missing: vec!["A_TOKEN".into(), "B".into()],
            problem: Some(problem),
            ..Finding::disabled(String::new())
        };
        let table = text(&[ok, broken, Finding::disabled("off".into())], Screen::plain());
        let expected = "\
SERVER          STATE     ERA     TOOLS   START
files           ok        legacy     12  0.41 s
  sandbox: it does not limit files
git\\n\\u{1b}[2J  broken    -           -       -
  the server process exited with code 1
  | Error: no token
  set here, but not passed to it: A_TOKEN, B; to pass: \"env\": { \"inherit\": [\"A_TOKEN\", \"B\"] }
off             disabled  -           -       -
";
        assert_eq!(table, expected);
    }
}
