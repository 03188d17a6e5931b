//! The report on a terminal: a table of groups, and what was broken.

use std::fmt::Write as _;

use super::Report;
use super::escape::line;
use crate::suite::verdict::{Group, Verdict};

pub(super) fn text(report: &Report, colour: bool) -> String {
    let paint = |code: &str, text: String| match colour {
        true => format!("\x1b[{code}m{text}\x1b[0m"),
        false => text,
    };
    let mut page = format!("{}\n\n", line(&report.title()));
    let _ = writeln!(page, "{:<16} {:>6} {:>6} {:>15}", "GROUP", "PASS", "FAIL", "NOT APPLICABLE");
    let rows = Group::ALL.into_iter().map(|group| (group.name(), report.score(Some(group))));
    for (name, score) in rows.chain([("all", report.score(None))]) {
        let row = format!("{name:<16} {:>6} {:>6} {:>15}", score.passed, score.failed, score.not_applicable);
        let code = if score.failed > 0 { "31" } else { "32" };
        let _ = writeln!(page, "{}", paint(code, row));
    }
    for finding in &report.findings {
        if let Verdict::Fail(seen) = &finding.verdict {
            let head = format!("\nFAIL {} ({}): {}", finding.scenario, finding.group, finding.promise);
            let _ = write!(page, "{}\n     {}\n", paint("31", head), line(seen));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn the_table_lines_up_and_failures_follow() {
        let text = sample().text(false);
        assert!(text.contains("Recovers              0      1               0\n"), "{text}");
        assert!(text.contains("FAIL killed-idle (Recovers): calls succeed again\n     it said: "), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
