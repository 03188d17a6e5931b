//! The status of a gateway as a table for people.

use std::time::Duration;

use regrow_gateway::operate::{Overview, ServerReport, ServerState, Spread};
use regrow_protocol::text::escape;

use crate::table::{Columns, cut};
use crate::terminal::{Screen, Style};

const COLUMNS: Columns<10> = Columns {
    heading: ["SERVER", "STATE", "FOR", "ERA", "CALLS", "FAILED", "P50", "P99", "RESTARTS", "BUDGET"],
    numbers: &[2, 4, 5, 6, 7, 8, 9],
    optional: &[3, 6, 7, 9, 2, 8, 4, 5],
};

/// A line for each server; under one that is not ready why, and what it said last.
pub(super) fn text(overview: &Overview, screen: Screen) -> String {
    let mut text = screen.paragraph("", &heading(overview));
    if let Some(problem) = &overview.gateway.config_problem {
        text.push_str(&screen.paragraph("", &escape(problem)));
    }
    let rows: Vec<[String; 10]> = overview.servers.iter().map(row).collect();
    let mut lines = COLUMNS.lines(&rows, screen.width()).into_iter();
    text.push_str(&lines.next().unwrap_or_default());
    for (line, server) in lines.zip(&overview.servers) {
        let style = match (server.state, server.is_broken()) {
            (ServerState::Ready, _) => Style::Good,
            (_, true) => Style::Bad,
            (_, false) => Style::Faint,
        };
        text.push_str(&format!("{}\n", screen.paint(style, line.trim_end())));
        if !server.unapproved.is_empty() {
            let (name, what) = (escape(&server.name), escape(&server.unapproved.join(", ")));
            let hint = format!("changed since it was approved: {what}; see it with: regrow approve {name}");
            text.push_str(&screen.paragraph("  ", &hint));
        }
        if let Some(tools) = &server.tools {
            text.push_str(&screen.paragraph("  ", &format!("tools: {}", escape(&tools.text()))));
        }
        if !server.sandbox_gaps.is_empty() {
            let gaps = escape(&server.sandbox_gaps.join("; "));
            text.push_str(&screen.paragraph("  ", &format!("sandbox: {gaps}")));
        }
        if let Some(why) = server.why_not_ready() {
            text.push_str(&screen.paragraph("  ", &escape(&why)));
            server.stderr.iter().for_each(|line| text.push_str(&screen.quote("  | ", &escape(line))));
        }
    }
    text
}

fn heading(overview: &Overview) -> String {
    let gateway = &overview.gateway;
    let closing = if gateway.shutting_down { "; shutting down" } else { "" };
    let lost = gateway.audit.map_or(0, |audit| audit.lost);
    let audit = if lost > 0 { format!("; lines missing from the audit log: {lost}") } else { String::new() };
    let clients = if gateway.clients == 1 { "client" } else { "clients" };
    format!(
        "regrow {}, running for {}; {} {clients}{audit}{closing}",
        escape(&gateway.version),
        length(gateway.uptime),
        gateway.clients,
    )
}

fn row(server: &ServerReport) -> [String; 10] {
    let took = |of: fn(&Spread) -> Duration| server.latency.as_ref().map(of).map_or("-".to_owned(), length);
    let stopped = if server.stopped { " (stopped)" } else { "" };
    [
        cut(escape(&server.name)),
        format!("{}{stopped}", server.state.name()),
        length(server.in_state),
        server.era.as_deref().map_or("-".to_owned(), |era| cut(escape(era))),
        server.ended().to_string(),
        server.failed().to_string(),
        took(|spread| spread.p50),
        took(|spread| spread.p99),
        server.restarts.values().sum::<u64>().to_string(),
        server.budget_left.to_string(),
    ]
}

/// As short as a column wants it.
fn length(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0 => format!("{:.1} ms", length.as_secs_f64() * 1000.0),
        1..120 => format!("{:.1} s", length.as_secs_f64()),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regrow_gateway::operate::{CallReport, FaultReport, GatewayReport};

    #[test]
    fn the_table_lines_up_and_forges_no_line() {
        let call = |outcome: &str, count| CallReport { outcome: outcome.into(), count, ..Default::default() };
        let spread =
            Spread { p50: Duration::from_micros(2500), p99: Duration::from_secs(3), ..Default::default() };
        let files = ServerReport {
            name: "files".into(),
            state: ServerState::Ready,
            in_state: Duration::from_secs(86_400),
            era: Some("modern".into()),
            calls: vec![call("answered", 10), call("tool-error", 2), call("interrupted", 1)],
            latency: Some(spread),
            restarts: [("killed".to_owned(), 1), ("planned".to_owned(), 2)].into(),
            budget_left: 5,
            ..Default::default()
        };
        let text_of_fault = "the server process exited with code 1".to_owned();
        let broken = ServerReport {
            name: "git\n\x1b[2J".into(),
            state: ServerState::Backoff,
            in_state: Duration::from_millis(250),
            last_fault: Some(FaultReport { text: text_of_fault, ..Default::default() }),
            stderr: vec!["no token \x1b[31m".into()],
            ..Default::default()
        };
        let off = ServerReport {
            name: "off".into(),
            state: ServerState::Closed,
            stopped: true,
            in_state: Duration::from_secs(600),
            ..Default::default()
        };
        let gateway = GatewayReport {
            version: "1.0".into(),
            uptime: Duration::from_secs(90),
            clients: 1,
            ..Default::default()
        };
        let overview = Overview { gateway, servers: vec![files, broken, off] };
        let expected = "\
regrow 1.0, running for 90.0 s; 1 client
SERVER          STATE                  FOR  ERA     CALLS  FAILED     P50    P99  RESTARTS  BUDGET
files           ready                 24 h  modern     13       1  2.5 ms  3.0 s         3       5
git\\n\\u{1b}[2J  backoff           250.0 ms  -           0       0       -      -         0       0
  it waits for the next attempt: the server process exited with code 1
  | no token \\u{1b}[31m
off             closed (stopped)    10 min  -           0       0       -      -         0       0
";
        assert_eq!(text(&overview, Screen::plain()), expected);
    }
}
