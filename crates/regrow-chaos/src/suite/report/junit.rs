//! The report as JUnit XML: a test case for each promise.

use std::fmt::Write as _;

use super::Report;
use super::escape::markup;
use crate::suite::verdict::Verdict;

pub(super) fn xml(report: &Report) -> String {
    let score = report.score(None);
    let mut page = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let timestamp = report.date();
    let timestamp = timestamp.trim_end_matches('Z');
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"",
        report.findings.len(),
        score.failed,
        score.not_applicable
    );
    let seconds = report.took.as_secs();
    let _ = writeln!(page, "<testsuites {counts} time=\"{seconds}\">");
    let _ = writeln!(
        page,
        "  <testsuite name=\"{}\" {counts} time=\"{seconds}\" timestamp=\"{timestamp}\">",
        markup(&report.title())
    );
    for finding in &report.findings {
        let _ = write!(
            page,
            "    <testcase classname=\"{}.{}\" name=\"{}\" time=\"0\"",
            finding.scenario,
            markup(finding.group.name()),
            markup(finding.promise)
        );
        let _ = match &finding.verdict {
            Verdict::Pass => writeln!(page, "/>"),
            Verdict::Fail(seen) => {
                writeln!(page, "><failure message=\"{}\"/></testcase>", markup(seen))
            }
            Verdict::NotApplicable(reason) => {
                writeln!(page, "><skipped message=\"{}\"/></testcase>", markup(reason))
            }
        };
    }
    page.push_str("  </testsuite>\n</testsuites>\n");
    page
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    /// Every tag is closed by its own kind, and no text holds what begins one.
    fn assert_well_formed(xml: &str) {
        let mut open = vec![];
        let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").unwrap();
        while let Some(at) = rest.find('<') {
            assert!(!rest[..at].contains('>'), "{}", &rest[..at]);
            let end = rest.find('>').unwrap();
            let tag = &rest[at + 1..end];
            assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "{tag}");
            match (tag.strip_prefix('/'), tag.ends_with('/')) {
                (Some(name), _) => assert_eq!(open.pop(), Some(name)),
                (None, true) => {}
                (None, false) => open.push(tag.split(' ').next().unwrap()),
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn it_is_well_formed_whatever_a_program_says() {
        let xml = sample().junit();
        assert_well_formed(&xml);
        assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
        assert!(xml.contains("timestamp=\"2001-09-09T01:46:40\""), "{xml}");
        assert!(!xml.chars().any(|letter| letter.is_control() && letter != '\n'), "{xml}");
    }
}
