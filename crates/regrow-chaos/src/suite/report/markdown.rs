//! The report as a Markdown page.

use std::fmt::Write as _;

use super::escape::cell;
use super::{Report, date};
use crate::suite::verdict::{Group, Verdict};

pub(super) fn page(report: &Report) -> String {
    let mut page = format!("# {}\n\n{}", cell(&report.title()), date::utc(report.date));
    let _ = write!(page, ", in {} s.\n\n", report.took.as_secs());
    page.push_str("| group | kept | broken | not applicable |\n|---|---|---|---|\n");
    for group in Group::ALL {
        let score = report.score(Some(group));
        let _ =
            writeln!(page, "| {group} | {} | {} | {} |", score.passed, score.failed, score.not_applicable);
    }
    page.push_str("\n| scenario | group | promise | verdict | seen |\n|---|---|---|---|---|\n");
    for finding in &report.findings {
        let verdict = match &finding.verdict {
            Verdict::Fail(_) => "**fail**",
            verdict => verdict.name(),
        };
        let seen = cell(finding.verdict.text().unwrap_or_default());
        let (scenario, group, promise) = (finding.scenario, finding.group, finding.promise);
        let _ = writeln!(page, "| {scenario} | {group} | {promise} | {verdict} | {seen} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn every_row_has_its_columns_whatever_a_program_says() {
        let page = sample().markdown();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| killed-idle")).collect();
        assert_eq!(rows.len(), 3);
        for row in rows {
            assert_eq!(row.replace("\\|", "").matches('|').count(), 6, "{row}");
        }
        assert!(!page.contains("<script>"), "{page}");
    }
}
