//! The report as one HTML page: no script, nothing from elsewhere, everything escaped.

use std::fmt::Write as _;

use super::Report;
use super::escape::markup;
use crate::suite::verdict::{Group, Verdict};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2321;background:#fff}\
h1{font-size:1.4rem}table{border-collapse:collapse;width:100%;margin:1rem 0}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;\
border-bottom:1px solid #d9dedc}th{font-weight:600}code{font-size:.9em;overflow-wrap:anywhere}.pass{color:#16703a}.fail{color:#b3261e;font-weight:600}\
.na{color:#6b7573}.bar{display:flex;height:.6rem;width:12rem;border-radius:.3rem;overflow:hidden;background:#e6eae8}\
.bar i{background:#2f9e5b}.bar b{background:#d0453c}td.seen{overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{color:#e4e9e7;background:#151a19}th,td{border-color:#333b39}.pass{color:#6fd39a}.fail{color:#ff8a80}.na{color:#97a19f}.bar{background:#2a312f}}";

pub(super) fn page(report: &Report) -> String {
    let title = markup(&report.title());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
    );
    let command = report.command.iter().map(|word| markup(word)).collect::<Vec<_>>().join(" ");
    let date = report.date();
    let seconds = report.took.as_secs();
    let _ = writeln!(page, "<h1>{title}</h1>\n<p><code>{command}</code></p>\n<p>{date}, in {seconds} s.</p>");
    page.push_str("<table>\n<tr><th>Group</th><th>Kept</th><th></th></tr>\n");
    for group in Group::ALL {
        let score = report.score(Some(group));
        let (passed, failed) = (score.passed, score.failed);
        let _ = writeln!(
            page,
            "<tr><td>{group}</td><td>{}</td><td><span class=\"bar\"><i style=\"flex:{passed}\"></i><b style=\"flex:{failed}\"></b></span></td></tr>",
            score.short()
        );
    }
    page.push_str("</table>\n<table>\n<tr><th>Scenario</th><th>Group</th><th>Promise</th><th>Verdict</th><th>Seen</th></tr>\n");
    for finding in &report.findings {
        let class = match finding.verdict {
            Verdict::Pass => "pass",
            Verdict::Fail(_) => "fail",
            Verdict::NotApplicable(_) => "na",
        };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td><td class=\"seen\">{}</td></tr>",
            markup(finding.scenario),
            finding.group,
            markup(finding.promise),
            finding.verdict.name(),
            markup(finding.verdict.text().unwrap_or_default())
        );
    }
    page.push_str("</table>\n</body>\n</html>\n");
    page
}

#[cfg(test)]
mod tests {
    use super::super::sample;

    #[test]
    fn the_page_needs_nothing_from_elsewhere_and_nothing_in_it_runs() {
        let page = sample().html();
        for forbidden in ["<script", "http://", "https://", "url(", "src=", "@import", "</pre>"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), "{page}");
        assert!(page.contains("<td class=\"fail\">fail</td>"), "{page}");
    }
}
