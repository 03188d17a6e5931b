//! Regrow in a terminal: the server must not be able to wait for the person who sits there.

use std::fs;
use std::io::{Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::termios::{Action, tcflow};
use tempfile::TempDir;

use crate::client::PATIENCE;
use crate::evidence::{Marked, wait_until};
use crate::terminal::{INVISIBLE, Terminal};

/// `regrow wrap` as the foreground job of a terminal, in front of a server that first does this.
fn at_a_terminal(script: &str, marked: &Marked) -> (Terminal, std::process::Child) {
    let regrow = env!("CARGO_BIN_EXE_regrow");
    let server = format!("{script}; exec '{regrow}' chaos-server");
    // The terminal becomes the controlling one of a session that `regrow` leads.
    let mut command = Command::new("setsid");
    command.args(["--ctty", regrow, "wrap", "--name=chaos", "--", "sh", "-c", &server]);
    command.env(Marked::VARIABLE, marked.value()).env("CHAOS_LIFE", "120s");
    Terminal::start(&mut command, true)
}

const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"a person","version":"1"}}}"#,
    "\n"
);

#[test]
fn no_line_of_the_log_is_lost_while_something_else_writes_to_the_same_terminal() {
    let marked = Marked::new();
    let (mut terminal, mut child) = at_a_terminal("echo sudo: a terminal is required >&2", &marked);
    let (mut other, ended) = (terminal.output(), Arc::new(AtomicBool::new(false)));
    let is_over = ended.clone();
    let writer = thread::spawn(move || {
        // It fails once Regrow has ended: the terminal ends with its session.
        while !is_over.load(Ordering::Relaxed) && other.write_all(&[INVISIBLE; 64]).is_ok() {}
    });
    terminal.write(INITIALIZE);
    for line in ["starting the server (session 1)", "tried to use a terminal", "ready (session 1)"] {
        terminal.read_until(line);
    }
    terminal.write("\x03");
    terminal.read_until("stopping the server");
    wait_until("regrow ends", PATIENCE, || child.try_wait().unwrap().is_some());
    ended.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[test]
fn a_stopped_terminal_holds_nothing_up_however_much_is_logged() {
    let folder = TempDir::new().unwrap();
    let input = folder.path().join("input");
    // Each of these is a line of the log.
    let cancelled =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}\n";
    fs::write(&input, format!("{INITIALIZE}{}", cancelled.repeat(2000))).unwrap();
    let regrow = env!("CARGO_BIN_EXE_regrow");
    let wrap = "read -r go && exec \"$0\" wrap --log-level debug -- \"$0\" chaos-server <\"$1\"";
    let mut command = Command::new("sh");
    command.args(["-c", wrap, regrow]).arg(&input).env("CHAOS_LIFE", "120s");
    let (mut terminal, mut child) = Terminal::start(&mut command, false);
    let other = terminal.output();
    tcflow(&other, Action::OOff).unwrap();
    terminal.write("go\n");
    wait_until("regrow ends", PATIENCE, || child.try_wait().unwrap().is_some());
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\"serverInfo\""), "{answer}");
}

#[test]
fn scenario_55_a_server_that_asks_at_the_terminal_is_told_at_once_that_there_is_none() {
    let marked = Marked::new();
    let (mut terminal, mut child) = at_a_terminal("read -r password < /dev/tty || echo none >&2", &marked);
    terminal.write(INITIALIZE);
    // Before, SIGTTIN stopped it, and it never answered.
    terminal.read_until("\"serverInfo\"");
    terminal.read_until("[chaos] none");
    terminal.read_until("tried to use a terminal, but it has none");

    terminal.write("\x03"); // Ctrl-C reaches Regrow alone, which ends the server.
    let mut code = None;
    wait_until("regrow ends", PATIENCE, || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!(code.unwrap().code(), Some(0), "{}", terminal.seen);
    marked.assert_none_left(Duration::from_secs(10));
}
