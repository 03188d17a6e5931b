//! `regrow serve` in a folder with a configuration that nobody named: nothing in it runs before it is trusted, also when it changes.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::audit;
use crate::client::PATIENCE;
use crate::evidence::{kill, wait_until};
use crate::house::{House, Place, chaos, done};
use crate::terminal::Terminal;

/// A folder with a configuration that starts a server for each of these marks.
struct Project {
    place: Place,
}

impl Project {
    fn new(marks: &[&str]) -> Project {
        let project = Project { place: Place::new([("unused", chaos(""))]) };
        fs::create_dir(project.folder()).unwrap();
        project.write(marks);
        project
    }

    fn folder(&self) -> PathBuf {
        self.place.path("project")
    }

    fn mark(&self, mark: &str) -> PathBuf {
        self.folder().join(mark)
    }

    fn write(&self, marks: &[&str]) {
        let servers: serde_json::Map<_, _> = marks
            .iter()
            .map(|mark| {
                let script = format!("touch '{}'; exec cat >/dev/null", self.mark(mark).display());
                ((*mark).to_owned(), json!({ "command": "sh", "args": ["-c", script] }))
            })
            .collect();
        let draft = self.folder().join("draft");
        fs::write(&draft, json!({ "mcpServers": servers }).to_string()).unwrap();
        fs::rename(draft, self.folder().join(".mcp.json")).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        command.current_dir(self.folder());
        command
    }

    fn trust(&self) {
        let (code, _, said) = done(&mut self.command(&["trust"]));
        assert_eq!(code, 0, "{said}");
    }

    fn serve(&self) -> Command {
        let audit = self.place.path("audit.jsonl");
        self.command(&["serve", "--port", "0", "--audit", audit.to_str().unwrap()])
    }

    fn wait_for(&self, mark: &str) {
        wait_until(mark, PATIENCE * 2, || self.mark(mark).exists());
    }
}

#[test]
fn security_26_serve_runs_nothing_of_a_folder_that_is_not_trusted() {
    let project = Project::new(&["one"]);
    let stdio = &["serve", "--transport", "stdio"];
    for mut command in [project.serve(), project.command(stdio)] {
        let (code, out, said) = done(&mut command);
        assert_eq!((code, &*out), (64, ""), "{said}");
        assert!(said.contains("not trusted") && said.contains("regrow trust /"), "{said}");
    }
    assert!(!project.mark("one").exists());
    // Standard input belongs to the client, also where that is a terminal.
    let (mut terminal, mut child) = Terminal::start(&mut project.command(stdio), true);
    terminal.read_until("regrow trust /");
    assert_eq!(child.wait().unwrap().code(), Some(64), "{}", terminal.seen);

    project.trust();
    let house = House::of(project.serve(), project.place.marked());
    project.wait_for("one");
    drop(house);
}

#[test]
fn security_26_a_changed_file_is_not_used_before_it_is_trusted_again() {
    let project = Project::new(&["one"]);
    project.trust();
    let house = House::of(project.serve(), project.place.marked());
    project.wait_for("one");
    assert!(house.status()["gateway"]["configProblem"].is_null());

    project.write(&["one", "two"]);
    let line = house.wait_for_log("not trusted");
    assert!(line.contains("the previous one is in use") && line.contains("regrow trust /"), "{line}");
    let from = house.log().len();
    house.signal(Signal::HUP); // Asking again does not help.
    house.wait_for_log_after(from, "not trusted");
    let status = house.status();
    let problem = status["gateway"]["configProblem"].as_str().unwrap();
    assert!(problem.contains("regrow trust /"), "{problem}");
    let servers: Vec<_> =
        status["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(servers, ["one"], "the old configuration stays");
    assert!(!project.mark("two").exists());
    let (_, table, _) = done(&mut project.command(&["status"]));
    assert!(table.contains("regrow trust /"), "{table}");

    project.trust(); // The gateway notices.
    house.wait_for_log("new: two");
    project.wait_for("two");
    assert!(house.status()["gateway"]["configProblem"].is_null());

    // Without servers nothing runs, so nobody need be asked.
    project.write(&[]);
    house.wait_for_log("gone: one, two");
    house.end();
    let lines = audit::read(&project.place.path("audit.jsonl"));
    let mut outcomes: Vec<_> = lines.iter().map(|line| (&line["event"], &line["outcome"])).collect();
    outcomes.dedup();
    let expected = ["ok", "untrusted", "ok"].map(|outcome| (json!("config"), json!(outcome)));
    assert_eq!(outcomes, expected.each_ref().map(|(event, outcome)| (event, outcome)));
}

#[test]
fn security_26_at_a_terminal_serve_asks_at_the_start_and_when_the_file_changes() {
    let project = Project::new(&["one"]);
    let mut serve = project.serve();
    let (mut terminal, mut child) = Terminal::start(serve.stdout(Stdio::null()), true);
    terminal.read_until("Run it? [y/N] ");
    assert!(!project.mark("one").exists());
    terminal.write("y\n");
    terminal.read_until("serving at http");
    project.wait_for("one");

    terminal.seen.clear();
    project.write(&["one", "two"]);
    terminal.read_until("Run it? [y/N] ");
    assert!(terminal.seen.contains("is not trusted"), "{}", terminal.seen);
    assert!(!project.mark("two").exists());
    terminal.write("y\n");
    terminal.read_until("new: two");
    project.wait_for("two");

    terminal.seen.clear();
    project.write(&["one", "two", "three"]);
    terminal.read_until("Run it? [y/N] ");
    // The question keeps nobody from ending it.
    kill(child.id(), Signal::TERM);
    let mut code = None;
    wait_until("regrow ends", PATIENCE * 2, || {
        code = child.try_wait().unwrap();
        code.is_some()
    });
    assert_eq!((code.unwrap().code(), project.mark("three").exists()), (Some(0), false), "{}", terminal.seen);
}
