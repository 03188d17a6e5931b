//! The findings as a table for people.

use std::time::Duration;

use super::finding::{Finding, State};

/// Longer names are cut.
const LONGEST_NAME: usize = 40;

/// A line for each server; under a broken one what is wrong with it, and what it said.
pub(super) fn text(findings: &[Finding], is_terminal: bool) -> String {
    if findings.is_empty() {
        return "There are no servers in this configuration.\n".into();
    }
    let colour = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let rows: Vec<[String; 5]> = findings.iter().map(row).collect();
    let heading = ["SERVER", "STATE", "ERA", "TOOLS", "START"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |cells: [&str; 5]| {
        let mut line = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            // Numbers stand at the right.
            match column {
                3 | 4 => line.push_str(&format!("{padding}{cell}  ")),
                _ => line.push_str(&format!("{cell}{padding}  ")),
            }
        }
        line.trim_end().to_owned() + "\n"
    };
    let mut text = line(heading);
    for (row, finding) in rows.iter().zip(findings) {
        let line = line(row.each_ref().map(String::as_str));
        text.push_str(&if colour { paint(finding.state, &line) } else { line });
        if let Some(problem) = &finding.problem {
            text.push_str(&format!("  {}\n", problem.text));
            problem.stderr.iter().for_each(|line| text.push_str(&format!("  | {line}\n")));
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

/// A name as it can stand in a line.
pub(super) fn printable(name: &str) -> String {
    let mut text = name.escape_debug().to_string();
    if text.chars().count() > LONGEST_NAME {
        text = text.chars().take(LONGEST_NAME - 1).chain(['…']).collect();
    }
    text
}

fn paint(state: State, line: &str) -> String {
    let colour = match state {
        State::Ok => "32",
        State::Broken => "31",
        State::Disabled => "2",
    };
    format!("\x1b[{colour}m{}\x1b[0m\n", line.trim_end())
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
            problem: None,
        };
        let stderr = vec!["Error: no token".to_owned()];
        let problem = Problem { text: "the server process exited with code 1".into(), fault: None, stderr };
        let broken = Finding {
            name: "git\n\x1b[2J".into(),
            state: State::Broken,
            problem: Some(problem),
            ..Finding::disabled(String::new())
        };
        let table = text(&[ok, broken, Finding::disabled("off".into())], false);
        let expected = "\
SERVER          STATE     ERA     TOOLS   START
files           ok        legacy     12  0.41 s
git\\n\\u{1b}[2J  broken    -           -       -
  the server process exited with code 1
  | Error: no token
off             disabled  -           -       -
";
        assert_eq!(table, expected);
    }
}
