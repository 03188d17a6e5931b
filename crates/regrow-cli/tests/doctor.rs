//! `regrow doctor` on machines with one problem each, and on a healthy one.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/evidence.rs"]
mod evidence;
#[path = "harness/far.rs"]
mod far;
#[path = "doctor/machine.rs"]
mod machine;
#[path = "doctor/problems.rs"]
mod problems;
#[path = "harness/terminal.rs"]
mod terminal;
#[path = "../../regrow-gateway/tests/schema/validity.rs"]
mod validity;

use std::time::Duration;

use evidence::{children_of, kill, wait_until};
use machine::Machine;
use problems::{Problem, problems};
use rustix::process::Signal;
use serde_json::{Value, json};
use terminal::Terminal;

const SCHEMA: &str = include_str!("../../../docs/doctor.schema.json");

#[test]
fn every_planted_problem_is_found_and_nothing_else() {
    let problems = problems();
    assert!(problems.len() >= 15);
    std::thread::scope(|scope| {
        for problem in &problems {
            scope.spawn(|| {
                let mut machine = Machine::healthy();
                (problem.plant)(&mut machine);
                examine(problem, &machine);
            });
        }
    });
}

fn examine(problem: &Problem, machine: &Machine) {
    let before = machine.contents();
    let output = machine.output(&["--json"]);
    let said = format!("{}: {}", problem.name, String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect(&said);
    validity::check(&serde_json::from_str(SCHEMA).unwrap(), &found).expect(&said);
    let all = format!("{}: {found:#}", problem.name);
    assert_eq!(output.status.code(), Some(i32::from(problem.level == "broken")), "{all}");
    let [finding] = &found["findings"].as_array().unwrap()[..] else { panic!("{all}") };
    let text = |member: &str| finding[member].as_str().unwrap_or_default().to_owned();
    assert_eq!((&*text("kind"), &*text("level")), (problem.kind, problem.level), "{all}");
    assert_eq!(text("host"), problem.host, "{all}");
    let servers = &finding["servers"];
    let expected =
        if problem.server.is_empty() { Value::Null } else { json!([machine.filled(problem.server)]) };
    assert_eq!(servers, &expected, "{all}");
    let file = match finding["line"].as_u64() {
        Some(line) => format!("{}:{line}", text("file")),
        None => text("file"),
    };
    for (said, expected) in [(text("what"), problem.what), (text("next"), problem.next), (file, problem.file)]
    {
        assert!(said.contains(&machine.filled(expected)), "{expected} in {all}");
    }
    let stderr: Vec<&str> =
        finding["stderr"].as_array().into_iter().flatten().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(stderr, problem.stderr, "{all}");
    assert_eq!(machine.contents(), before, "{}: something on the disk has changed", problem.name);
    machine.nothing_left();
}

#[test]
fn a_healthy_machine_has_no_findings_and_nothing_on_it_changes() {
    let mut machine = Machine::healthy();
    let entry =
        json!({ "command": machine.path("bin/regrow"), "args": ["wrap", "--", machine.path("bin/good")] });
    machine.write(".cursor/mcp.json", &json!({ "mcpServers": { "good": entry } }).to_string());
    let far = far::start();
    machine.claude(
        "far",
        json!({ "command": "regrow", "args": ["wrap", "-H", format!("X-Key: {}", far::KEY), far] }),
    );
    // The host passes on what it has from its shell.
    machine.script("picky", &format!("[ \"$FROM_SHELL\" = 1 ] && exec '{}'", machine.path("bin/good")));
    machine.set("FROM_SHELL", "1");
    machine.claude("picky", json!({ "command": "regrow", "args": ["wrap", "--", "picky"] }));
    machine.write("project/.vscode/settings.json", "{ \"editor.tabSize\": 4 }");
    machine.directory = "project".into();
    let before = machine.contents();

    let output = machine.output(&[]);
    let (page, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{page}{said}");
    let home = machine.path("home");
    let expected = format!(
        "Claude Code: {home}/.claude.json (servers: 3 work)\nCursor: {home}/.cursor/mcp.json (servers: 1 work)\n\n\
         Nothing is broken.\n"
    );
    assert!(page.starts_with("regrow ") && page.ends_with(&expected), "{page}");
    assert_eq!(said, "", "progress is for terminals");
    assert_eq!(machine.contents(), before, "something on the disk has changed");

    let output = machine.output(&["--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    validity::check(&serde_json::from_str(SCHEMA).unwrap(), &found).unwrap();
    assert_eq!((&found["broken"], &found["findings"]), (&json!(0), &json!([])), "{found:#}");
    let expected = json!({ "name": "good", "state": "ok", "isBehindRegrow": true });
    assert_eq!(found["files"][1]["servers"], json!([expected]));
    machine.nothing_left();
}

#[test]
fn a_person_sees_progress_and_a_page_that_says_what_to_do() {
    let mut machine = Machine::healthy();
    machine.script("once", &format!("echo started >> '{0}.starts'; exec '{0}'", machine.path("bin/good")));
    machine.claude("again", json!({ "command": "regrow", "args": ["wrap", "--", "once"] }));
    machine.script("failing", "echo 'Error: no \\033[31mtoken' >&2; exit 3");
    machine.claude("failing", json!({ "command": "regrow", "args": ["wrap", "--", "failing"] }));
    machine.write(".gemini/settings.json", r#"{ "mcpServers": { "direct": { "command": "once" } } }"#);
    let (mut terminal, mut child) = {
        let _alone = machine::one_at_a_time();
        Terminal::start(&mut machine.doctor(&[]), true)
    };
    assert_eq!(child.wait().unwrap().code(), Some(1));
    terminal.read_all();
    let page = terminal.seen.replace("\r\n", "\n");
    assert!(page.contains("\x1b["), "progress is shown: {page}");
    let starts = std::fs::read_to_string(machine.path("bin/good.starts")).unwrap();
    assert_eq!(starts, "started\n", "a server that two hosts have is started once");
    let home = machine.path("home");
    for expected in [
        format!("Claude Code: {home}/.claude.json (servers: 2 work, 1 fail)\n"),
        format!("\nBroken\n  Claude Code, server failing, {home}/.claude.json:"),
        "\n    the server process exited with code 3\n    | Error: no \\u{1b}[31mtoken\n    next: fix what its stderr says".to_owned(),
        format!("\nHints\n  Gemini CLI, {home}/.gemini/settings.json\n    Regrow does not supervise: direct\n"),
        "\n1 problem to fix; 1 hint.\n".to_owned(),
    ] {
        assert!(page.contains(&expected), "{expected:?} in {page}");
    }
    machine.nothing_left();
}

#[test]
fn an_interrupt_ends_it_and_the_servers() {
    let mut machine = Machine::healthy();
    machine.script("silent", "exec \"$REGROW_OF_TEST\" chaos-server");
    let env = json!({ "REGROW_OF_TEST": machine::REGROW, "CHAOS": "never-answer", "CHAOS_LIFE": "120s" });
    machine.claude("silent", json!({ "command": "regrow", "args": ["wrap", "--", "silent"], "env": env }));
    let mut child = machine.start(&[]);
    wait_until("a server runs", Duration::from_secs(30), || !machine.alive().is_empty());
    kill(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(children_of(child.id()), [] as [u32; 0]);
    machine.nothing_left();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
