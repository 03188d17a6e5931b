//! How the servers start for the first time, below the log on a terminal.

use std::time::{Duration, Instant};

use regrow_gateway::Gateway;
use regrow_gateway::operate::{Operate, ServerReport, ServerState};
use regrow_protocol::text::escape;
use tokio::time::sleep;

use crate::starts::{StartState, Starts};
use crate::terminal::{Screen, TICK, remove_footer, set_footer};

/// A server that takes longer is no longer waited for here; the log and the status go on.
const LONGEST: Duration = Duration::from_secs(120);
/// The log keeps the rest of the terminal.
const MOST_LINES: usize = 10;

/// Shows how each server starts that is wanted from the start, until all have started or failed.
pub(super) async fn show(gateway: &Gateway) {
    let screen = Screen::stderr();
    if !screen.is_terminal() {
        return;
    }
    let _footer = Footer;
    let began = Instant::now();
    let eager = || gateway.servers().into_iter().filter(|server| server.eager).collect::<Vec<_>>();
    let names: Vec<String> = eager().into_iter().map(|server| server.name).collect();
    let mut starts = Starts::new(names.iter().map(String::as_str), screen);
    while began.elapsed() < LONGEST {
        for server in eager() {
            if let Some(number) = names.iter().position(|name| *name == server.name) {
                starts.set(number, start_state(&server, began));
            }
        }
        if starts.are_done() {
            return;
        }
        set_footer(starts.lines(Instant::now(), MOST_LINES));
        sleep(TICK).await;
    }
}

fn start_state(server: &ServerReport, began: Instant) -> StartState {
    match server.state {
        ServerState::Ready => StartState::Ready {
            start: began.elapsed().saturating_sub(server.in_state),
            tools: server.catalog.get("tools").map(|tools| tools.count),
        },
        _ if server.stopped => StartState::Failed("stopped".into()),
        _ if server.is_broken() => StartState::Failed(escape(&server.why_not_ready().unwrap_or_default())),
        _ => StartState::Starting(began),
    }
}

/// Goes away when it is dropped.
struct Footer;

impl Drop for Footer {
    fn drop(&mut self) {
        remove_footer();
    }
}
