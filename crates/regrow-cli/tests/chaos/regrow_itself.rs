//! Regrow as a client and as a proxy keeps every promise in a short selection of scenarios.

use regrow::transport::stdio::Guard;

use crate::{Findings, fakes};

#[path = "../../../regrow/examples/chaos_client/client.rs"]
mod client;

const PIPES: [&str; 7] =
    ["killed-idle", "dies-in-call", "dead-on-arrival", "away", "held-pipe", "stubborn", "killed-itself"];
const REMOTE: [&str; 5] =
    ["remote-away", "restarted", "remote-killed-in-call", "forgotten-404", "cut-stream"];

/// The crate's example is the client under test.
pub(crate) fn play() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        client::serve(Guard::new(env!("CARGO_BIN_EXE_regrow").as_ref(), &["guard"])).await;
    });
    // The harness must not say more on our output.
    std::process::exit(0);
}

fn assert_all_kept(role: &str, transport: &str, scenarios: &[&str], command: &[&str]) {
    let findings = Findings::of(role, transport, "4", scenarios, command);
    assert_eq!(findings.failed(), [], "{:#?}", findings.broken());
    // No names: all scenarios.
    let played = if scenarios.is_empty() { 20 } else { scenarios.len() };
    assert!(findings.passed() >= 3 * played, "{:#?}", findings.0);
}

#[test]
fn the_crate_keeps_its_promises_with_servers_that_it_starts() {
    let command = fakes::command("regrow");
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_all_kept("client", "stdio", &PIPES, &words);
}

#[test]
fn the_crate_keeps_its_promises_with_servers_over_http() {
    let command = fakes::command("regrow");
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    assert_all_kept("client", "http", &REMOTE, &words);
}

#[test]
fn wrap_keeps_its_promises_with_servers_that_it_starts() {
    assert_published("proxy -- regrow", "stdio", &[&PIPES[..], &["no-handshake", "hung"]].concat());
}

#[test]
fn wrap_keeps_its_promises_with_servers_over_http() {
    assert_published("proxy --transport http -- regrow", "http", &REMOTE);
}

/// The command of docs/chaos.md that begins like this has the result that is published. With `REGROW_LONG` in all scenarios. Its calls have
/// more time here: on a busy machine, 20 MB of standard error take longer than five seconds.
fn assert_published(begins: &str, transport: &str, short: &[&str]) {
    let document = include_str!("../../../../docs/chaos.md");
    let line = document.lines().find_map(|line| line.strip_prefix(&format!("$ regrow chaos {begins} ")));
    let mut command = vec![env!("CARGO_BIN_EXE_regrow")];
    let words = line.expect("docs/chaos.md has the command").split(' ');
    command.extend(words.map(|word| if word == "5s" { "30s" } else { word }));
    let long = std::env::var_os("REGROW_LONG").is_some();
    assert_all_kept("proxy", transport, if long { &[] } else { short }, &command);
}
