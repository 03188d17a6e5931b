//! The findings on one page, and as JSON.

use serde_json::json;

use super::facts::{ConfigFile, Facts};
use super::finding::{Finding, Level};
use crate::check::finding::State;

/// Of a server's stderr; JSON has more.
const STDERR_LINES: usize = 5;

pub(super) fn text(facts: &Facts, findings: &[Finding]) -> String {
    let executable = &facts.machine.executable;
    let mut text = format!("{} at {}\n", executable.version.as_deref().unwrap_or("regrow"), executable.path);
    for file in &facts.files {
        text.push_str(&format!("{}: {} ({})\n", file.host_name(), file.shown, tally(file)));
    }
    for level in [Level::Broken, Level::Hint] {
        let of_level: Vec<&Finding> = findings.iter().filter(|finding| finding.level == level).collect();
        if of_level.is_empty() {
            continue;
        }
        text.push_str(if level == Level::Broken { "\nBroken\n" } else { "\nHints\n" });
        of_level.into_iter().for_each(|finding| text.push_str(&entry(finding)));
    }
    text.push_str(&format!("\n{}\n", summary(findings)));
    text
}

/// How many servers of a file were tried, and what came of it.
fn tally(file: &ConfigFile) -> String {
    let of = |state: State| {
        let visits = file.servers.iter().filter_map(|server| server.visit.as_ref());
        visits.filter(|visit| visit.state == state).count()
    };
    let (work, fail) = (of(State::Ok), of(State::Broken));
    let counts = [(work, "work"), (fail, "fail"), (file.servers.len() - work - fail, "not tried")];
    let shown: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match (file.problems.is_empty(), shown.is_empty()) {
        (false, _) => "cannot be read".into(),
        (true, true) => "no servers".into(),
        (true, false) => format!("servers: {}", shown.join(", ")),
    }
}

fn entry(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut place: Vec<String> = vec![];
    place.extend(subject.host.map(str::to_owned));
    match &subject.servers[..] {
        [] => {}
        [server] => place.push(format!("server {server}")),
        servers => place.push(format!("servers {}", servers.join(", "))),
    }
    place.extend(subject.file.iter().map(|file| match subject.line {
        Some(line) => format!("{file}:{line}"),
        None => file.clone(),
    }));
    let what = finding.what.replace('\n', "\n    ");
    let mut text = match place.is_empty() {
        true => format!("  {what}\n"),
        false => format!("  {}\n    {what}\n", place.join(", ")),
    };
    for line in finding.stderr.iter().take(STDERR_LINES) {
        text.push_str(&format!("    | {line}\n"));
    }
    text.push_str(&format!("    next: {}\n", finding.next));
    text
}

fn summary(findings: &[Finding]) -> String {
    let (broken, hints) = counts(findings);
    let plural = |count: usize, one: &str| if count == 1 { one.to_owned() } else { format!("{one}s") };
    let hints = match hints {
        0 => String::new(),
        hints => format!("; {hints} {}", plural(hints, "hint")),
    };
    match broken {
        0 => format!("Nothing is broken{hints}."),
        broken => format!("{broken} {} to fix{hints}.", plural(broken, "problem")),
    }
}

fn counts(findings: &[Finding]) -> (usize, usize) {
    let broken = findings.iter().filter(|finding| finding.level == Level::Broken).count();
    (broken, findings.len() - broken)
}

/// The shape is in `docs/doctor.schema.json`.
pub(super) fn json(facts: &Facts, findings: &[Finding]) -> String {
    let file = |file: &ConfigFile| {
        let servers = file.servers.iter().map(|server| {
            let state = server.visit.as_ref().map_or("not-tried", |visit| visit.state.name());
            json!({ "name": server.name, "state": state, "isBehindRegrow": server.is_behind_regrow })
        });
        json!({ "file": file.shown, "host": file.host_name(), "servers": servers.collect::<Vec<_>>() })
    };
    let (broken, hints) = counts(findings);
    let value = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "executable": facts.machine.executable.path,
        "broken": broken,
        "hints": hints,
        "findings": findings,
        "files": facts.files.iter().map(file).collect::<Vec<_>>(),
    });
    format!("{value:#}\n")
}
