//! `regrow check`: connects to every server of a configuration and shows which work.

pub(crate) mod finding;
mod missing;
mod progress;
mod table;
mod visit;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use regrow::transport::http::Credential;
use regrow_gateway::config::{Config, Message, Place, Problems, Reach, ServerConfig};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::arguments::Check;
use crate::files::{Files, Unusable};
use crate::signals::{ENDED_BY_SIGNAL, told_to_end};
use crate::table::print;
use crate::terminal::Screen;
use crate::{DONE, SERVER_FAILED, USAGE, WE_FAILED, account, guard};
use finding::{Finding, State};
use progress::CheckProgress;

/// How many servers start at the same time: enough to be fast, few enough not to slow each other down.
const SIDE_BY_SIDE: usize = 8;

pub(crate) fn run(options: Check) -> u8 {
    let config = match read(&options) {
        Ok(config) => config,
        Err(problems) => return refused(&options, &problems),
    };
    let wanted = match select(config, options.server.as_deref()) {
        Ok(wanted) => wanted,
        Err(message) => return usage(&message),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let checked = runtime.block_on(check(&options, wanted));
    runtime.shutdown_background();
    checked.unwrap_or_else(|error| failed(&error))
}

fn read(options: &Check) -> Result<Config, Problems> {
    match Files::find(options.file.iter().chain(&options.config).cloned()) {
        Some(files) => files.read_or_ask(true).map_err(Unusable::problems),
        None => {
            let place = Place { file: ".mcp.json".into(), line: 0, column: 0 };
            let text = "there is no such file here, and no configuration of a known host; create it, or name another file";
            Err(Problems(vec![Message { place, server: None, field: None, text: text.into() }]))
        }
    }
}

/// The servers to visit, and those that are switched off.
struct Wanted {
    servers: Vec<ServerConfig>,
    disabled: Vec<String>,
}

fn select(config: Config, name: Option<&str>) -> Result<Wanted, String> {
    let Config { mut servers, mut disabled, .. } = config;
    let Some(name) = name else { return Ok(Wanted { servers, disabled }) };
    let names = servers.iter().map(|server| &*server.name).chain(disabled.iter().map(|name| &**name));
    let all: Vec<String> = names.map(|name| name.escape_debug().to_string()).collect();
    servers.retain(|server| server.name == name);
    disabled.retain(|disabled| disabled == name);
    if servers.is_empty() && disabled.is_empty() {
        let there = if all.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", all.join(", "))
        };
        return Err(format!("--server: no server has this name; {there}"));
    }
    Ok(Wanted { servers, disabled })
}

async fn check(options: &Check, wanted: Wanted) -> io::Result<u8> {
    let mut findings = match visit_all(wanted.servers, account::of_server, options.timeout).await? {
        Ok(findings) => findings,
        Err(signal) => return Ok(ENDED_BY_SIGNAL + signal),
    };
    findings.extend(wanted.disabled.into_iter().map(Finding::disabled));
    print(&text(options, &findings))?;
    let broken = findings.iter().any(|finding| finding.state == State::Broken);
    Ok(if broken { SERVER_FAILED } else { DONE })
}

/// Visits these servers side by side, each with the account that it is given, and shows progress. Returns what was found in their order, or the
/// signal that ended it.
pub(crate) async fn visit_all(
    servers: Vec<ServerConfig>,
    account_of: fn(&ServerConfig) -> Option<Arc<dyn Credential>>,
    timeout: Duration,
) -> io::Result<Result<Vec<Finding>, u8>> {
    let told_to_end = told_to_end()?;
    let is_started = |server: &ServerConfig| matches!(server.reach, Reach::Process(_));
    let guard = match servers.iter().any(is_started) {
        true => Some(guard::of_servers()?),
        false => None,
    };
    let (stop, stopped) = watch::channel(false);
    let turns = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let mut progress = CheckProgress::new(&servers);
    let (begun, mut begins) = mpsc::channel(servers.len().max(1));
    let mut visits = JoinSet::new();
    for (number, server) in servers.into_iter().enumerate() {
        let (guard, turns, stopped, begun) = (guard.clone(), turns.clone(), stopped.clone(), begun.clone());
        visits.spawn(async move {
            let _turn = turns.acquire_owned().await; // Never closed; and if it were, all may go.
            let _ = begun.try_send(number); // There is room for each, and it is only for the eye.
            (number, visit::visit(&server, account_of(&server), guard, timeout, stopped).await)
        });
    }
    let mut findings: Vec<(usize, Finding)> = vec![];
    let mut ended_by = None;
    let mut told_to_end = std::pin::pin!(told_to_end);
    loop {
        tokio::select! {
            biased;
            signal = &mut told_to_end, if ended_by.is_none() => {
                ended_by = Some(signal);
                stop.send_replace(true);
            }
            visited = visits.join_next() => match visited {
                Some(visited) => {
                    let (number, finding) = visited.map_err(io::Error::other)?;
                    progress.done(number, &finding);
                    findings.push((number, finding));
                }
                None => break,
            },
            Some(number) = begins.recv() => progress.begin(number),
            () = progress.tick() => {}
        }
    }
    progress.clear();
    if let Some(signal) = ended_by {
        return Ok(Err(signal));
    }
    findings.sort_by_key(|(number, _)| *number);
    Ok(Ok(findings.into_iter().map(|(_, finding)| finding).collect()))
}

fn text(options: &Check, findings: &[Finding]) -> String {
    match options.json {
        true => {
            format!("{:#}\n", json!({ "servers": findings }))
        }
        false => table::text(findings, Screen::stdout()),
    }
}

/// What is wrong with the configuration; for a machine on standard output.
fn refused(options: &Check, problems: &Problems) -> u8 {
    eprintln!("{problems}");
    if options.json {
        let _ = print(&format!("{:#}\n", json!({ "problems": problems.0 }))); // The exit code says the same.
    }
    USAGE
}

fn usage(message: &str) -> u8 {
    eprintln!("regrow: {message}\nTry `regrow check --help`.");
    USAGE
}

fn failed(error: &io::Error) -> u8 {
    eprintln!("regrow: cannot check the servers: {error}");
    WE_FAILED
}
