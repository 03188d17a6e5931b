//! The status as a page for people: one document, no script, and no value that could become one.

use std::fmt::{self, Write};
use std::time::Duration;

use regrow_protocol::text::escape;

use super::report::{Overview, ServerReport, ServerState, Spread};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em;color-scheme:light dark}\
table{border-collapse:collapse}th,td{padding:.2em .9em .2em 0;text-align:left;vertical-align:top}\
td.number,th.number{text-align:right}.ready{color:#2a8a3a}.bad{color:#c5332b}.quiet{opacity:.65}\
pre{margin:.2em 0 .8em;white-space:pre-wrap}";

/// The whole page. It reloads every five seconds.
pub(super) fn page(overview: &Overview) -> String {
    let mut page = String::new();
    write(&mut page, overview).expect("a string takes everything");
    page
}

fn write(page: &mut String, overview: &Overview) -> fmt::Result {
    let gateway = &overview.gateway;
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>Regrow</title><style>{STYLE}</style></head><body>\n<h1>Regrow</h1>\n\
         <p>Version {}, running for {}. {} clients, {} sessions.{}</p>\n",
        Html(&gateway.version),
        length(gateway.uptime),
        gateway.clients,
        gateway.sessions,
        if gateway.shutting_down { " <b class=\"bad\">Shutting down.</b>" } else { "" },
    )?;
    for file in &gateway.config_files {
        writeln!(page, "<p class=\"quiet\">Configured by {}</p>", Html(file))?;
    }
    if let Some(audit) = gateway.audit.filter(|audit| audit.lost > 0) {
        writeln!(page, "<p class=\"bad\">Lines missing from the audit log: {}</p>", audit.lost)?;
    }
    if let Some(problem) = &gateway.config_problem {
        writeln!(page, "<p class=\"bad\">{}</p>", Html(problem))?;
    }
    page.push_str(
        "<table><tr><th>Server<th>State<th>Since<th>Era<th class=\"number\">Calls<th class=\"number\">Failed",
    );
    page.push_str("<th class=\"number\">In flight<th class=\"number\">p50<th class=\"number\">p99");
    page.push_str(
        "<th class=\"number\">Restarts<th class=\"number\">Budget left<th class=\"number\">Tools</tr>\n",
    );
    overview.servers.iter().try_for_each(|server| row(page, server))?;
    page.push_str("</table>\n");
    for server in &overview.servers {
        if let Some(tools) = &server.tools {
            writeln!(page, "<p>Tools of {}: {}</p>", Html(&server.name), Html(&tools.text()))?;
        }
        trouble(page, server)?;
    }
    page.push_str("</body></html>\n");
    Ok(())
}

fn row(page: &mut String, server: &ServerReport) -> fmt::Result {
    let class = match (server.state, server.is_broken()) {
        (ServerState::Ready, _) => "ready",
        (_, true) => "bad",
        (_, false) => "quiet",
    };
    let stopped = if server.stopped { ", stopped on purpose" } else { "" };
    write!(page, "<tr><td>{}", Html(&server.name))?;
    write!(page, "<td class=\"{class}\">{}{stopped}<td>{}", server.state.name(), length(server.in_state))?;
    write!(page, "<td>{}", Html(server.era.as_deref().unwrap_or("-")))?;
    let took = |of: fn(&Spread) -> Duration| server.latency.as_ref().map(of);
    let shown = |took: Option<Duration>| took.map_or("-".to_owned(), length);
    let tools = server.catalog.get("tools").map_or("-".to_owned(), |list| list.count.to_string());
    let cells = [
        server.ended().to_string(),
        server.failed().to_string(),
        server.in_flight.to_string(),
        shown(took(|spread| spread.p50)),
        shown(took(|spread| spread.p99)),
        server.restarts.values().sum::<u64>().to_string(),
        server.budget_left.to_string(),
        tools,
    ];
    cells.iter().try_for_each(|cell| write!(page, "<td class=\"number\">{cell}"))?;
    page.push_str("</tr>\n");
    Ok(())
}

/// What is wrong with a server, and what it said last.
fn trouble(page: &mut String, server: &ServerReport) -> fmt::Result {
    let Some(why) = server.why_not_ready() else { return Ok(()) };
    write!(page, "<h2>{}</h2>\n<p>{}</p>\n", Html(&server.name), Html(&why))?;
    if !server.stderr.is_empty() {
        page.push_str("<pre>");
        server.stderr.iter().try_for_each(|line| writeln!(page, "{}", Html(line)))?;
        page.push_str("</pre>\n");
    }
    Ok(())
}

fn length(length: Duration) -> String {
    match length.as_secs() {
        0 => format!("{:.1} ms", length.as_secs_f64() * 1000.0),
        1..60 => format!("{:.1} s", length.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Text from outside, as it can stand in a page and in the attributes of its elements.
struct Html<'a>(&'a str);

impl fmt::Display for Html<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in escape(self.0).chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}
