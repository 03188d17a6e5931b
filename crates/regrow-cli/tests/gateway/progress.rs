//! What a person at a terminal sees while the servers start.

use rustix::process::Signal;

use crate::evidence::kill;
use crate::house::{Place, chaos};
use crate::terminal::{Terminal, screen};

#[test]
fn on_a_terminal_the_first_start_of_each_server_is_shown_below_the_log() {
    let place = Place::new([("quick", chaos("")), ("hung", chaos("never-answer"))]);
    let (mut terminal, mut child) = Terminal::start_sized(&mut place.serve(), true, 200, 24);
    terminal.read_until("quick  ready in ");
    terminal.read_until("hung   starting (");
    kill(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{:?}", terminal.seen);
    terminal.read_all();
    // What is left is the log, as it would be in a pipe.
    let shown = screen(&terminal.seen, 200);
    let ours = |line: &&String| line.starts_with("regrow: ") || line.is_empty();
    assert!(shown.iter().all(|line| ours(&line)), "{shown:#?}");
    for part in ["serving at http", "quick: ready (session 1)", "shutting down"] {
        assert!(shown.iter().any(|line| line.contains(part)), "no {part:?} in {shown:#?}");
    }
}
