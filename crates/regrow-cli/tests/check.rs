//! `regrow check` as people, machines and impatient callers see it, with real servers.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/evidence.rs"]
mod evidence;
#[path = "harness/far.rs"]
mod far;
#[path = "harness/terminal.rs"]
mod terminal;
#[path = "check/trust.rs"]
mod trust;

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use evidence::{Marked, children_of, kill, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use terminal::{Terminal, screen};

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

struct Stage {
    folder: TempDir,
    marked: Marked,
}

impl Stage {
    fn new() -> Stage {
        Stage { folder: TempDir::new().unwrap(), marked: Marked::new() }
    }

    /// A server that misbehaves to this plan.
    fn server(&self, plan: &str) -> Value {
        let variables = json!({ Marked::VARIABLE: self.marked.value(), "CHAOS": plan, "CHAOS_LIFE": "120s" });
        json!({ "command": REGROW, "args": ["chaos-server"], "env": variables })
    }

    /// Writes the configuration, and trusts it.
    fn write(&self, servers: Value) {
        self.write_untrusted(servers);
        let output = self.command(&["trust"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    fn write_untrusted(&self, servers: Value) {
        let text = serde_json::to_string_pretty(&json!({ "mcpServers": servers })).unwrap();
        std::fs::write(self.folder.path().join(".mcp.json"), text).unwrap();
    }

    fn check(&self, options: &[&str]) -> Command {
        self.command(&[&["check"], options].concat())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(REGROW);
        command.args(arguments).current_dir(self.folder.path()).env("HOME", self.folder.path());
        command.env("XDG_CACHE_HOME", self.cache());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn cache(&self) -> std::path::PathBuf {
        self.folder.path().join("cache")
    }

    fn nothing_left(&self) {
        self.marked.assert_none_left(Duration::from_secs(5));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_person_sees_which_servers_work_and_why_others_do_not() {
    let stage = Stage::new();
    let mut leaky = stage.server("exit-at-start");
    leaky["env"]["API_TOKEN"] = "s3cr3t-value".into();
    leaky["command"] = "sh".into();
    leaky["args"] = json!(["-c", "printf 'no access with s3cr3t-value \\033[31m\\n' >&2; exit 3"]);
    let mut hung = stage.server("never-answer");
    hung["regrow"] = json!({ "connectTimeout": "1s" });
    stage.write(json!({
        "good": stage.server("tools=echo|pid|env"),
        "legacy": stage.server("die-on-discover, page=4, tools=echo|pid|env|count|die|dup|set"),
        "leaky": leaky,
        "missing": { "command": "no-such-program-anywhere" },
        "hung": hung,
        "crashing": stage.server("crash-after-handshake"),
        "off": { "disabled": true, "command": "${UNSET}" },
    }));
    let Output { status, stdout, stderr } = stage.check(&[]).output().unwrap();
    let (table, said) = (text(&stdout), text(&stderr));
    assert_eq!(status.code(), Some(1), "{table}{said}");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let row =
        |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}:\n{table}"));
    assert_eq!(row("good")[1..4], ["ok", "modern", "3"], "{table}");
    assert_eq!(row("legacy")[1..4], ["ok", "legacy", "7"], "{table}");
    for broken in ["leaky", "missing", "hung"] {
        assert_eq!(row(broken)[1..], ["broken", "-", "-", "-"], "{table}");
    }
    assert_eq!(row("crashing")[1], "broken", "{table}");
    assert_eq!(row("off")[1], "disabled");
    assert!(
        table.contains("  the server process exited with code 3\n  | no access with *** \\u{1b}[31m\n"),
        "{table}"
    );
    assert!(table.contains("  the program \"no-such-program-anywhere\" was not found"), "{table}");
    assert!(table.contains("handshake timed out after 1 s"), "{table}");
    assert!(!table.contains("s3cr3t") && !said.contains("s3cr3t") && !table.contains('\x1b'));
    assert!(said.starts_with("regrow: using ") && said.trim_end().ends_with(".mcp.json"), "{said}");
    stage.nothing_left();
}

#[test]
fn an_error_that_stands_before_a_long_usage_is_shown() {
    let stage = Stage::new();
    let script = "echo 'error: TOKEN missing' >&2; i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo usage $i >&2; done; exit 2";
    stage.write(json!({ "wordy": { "command": "sh", "args": ["-c", script] } }));
    let output = stage.check(&["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wordy = &found["servers"][0];
    assert_eq!(
        (&wordy["fault"], &wordy["problem"]),
        (&json!("exited"), &json!("the server process exited with code 2"))
    );
    let stderr: Vec<&str> =
        wordy["stderr"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(
        (stderr[0], stderr[5], stderr[13]),
        ("error: TOKEN missing", "... (188 lines left out)", "usage 200")
    );
    assert_eq!(stderr.len(), 14, "{stderr:?}");
}

#[test]
fn a_server_that_exits_is_started_three_times_and_one_that_recovers_works() {
    let stage = Stage::new();
    let counting = |name: &str, then: &str| {
        let file = stage.folder.path().join(name);
        let script = format!("echo start >> '{0}'; {then}", file.display());
        json!({ "command": "sh", "args": ["-c", script], "env": { "CHAOS": "", "CHAOS_LIFE": "120s" } })
    };
    let third = format!("[ $(wc -l < recovers) -ge 3 ] || exit 1; exec '{REGROW}' chaos-server");
    stage.write(json!({ "exits": counting("exits", "exit 1"), "recovers": counting("recovers", &third) }));
    let output = stage.check(&["--json"]).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [exits, recovers] = &found["servers"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&exits["state"], &exits["fault"]), (&json!("broken"), &json!("exited")), "{found}");
    assert_eq!(recovers["state"], "ok", "{found}");
    let starts = std::fs::read_to_string(stage.folder.path().join("exits")).unwrap().lines().count();
    assert_eq!(starts, 3, "{found}");
}

#[test]
fn an_address_that_refuses_connections_is_retried() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let stage = Stage::new();
    stage.write(json!({ "late": { "type": "http", "url": format!("http://{port}/mcp") } }));
    let mut check = stage.check(&["--json"]).spawn().unwrap();
    // More than one refused attempt, fewer than the ten seconds that it is retried for.
    std::thread::sleep(Duration::from_secs(2));
    assert!(check.try_wait().unwrap().is_none(), "it goes on");
    let output = check.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["servers"][0]["fault"], "unreachable", "{found}");
}

#[test]
fn a_machine_gets_json_and_an_exit_code() {
    let stage = Stage::new();
    stage.write(json!({ "good": stage.server("tools=echo|pid"), "bad": stage.server("exit-at-start") }));
    let output = stage.check(&["--json", ".mcp.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [bad, good] = &found["servers"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&bad["state"], &bad["fault"]), (&json!("broken"), &json!("exited")), "{found}");
    assert_eq!(bad["stderr"], json!(["regrow-chaos: exits at start, as planned"]));
    assert_eq!((&good["state"], &good["tools"], &good["era"]), (&json!("ok"), &json!(2), &json!("modern")));
    assert!(good["startMs"].is_u64());

    let output = stage.check(&["--json", "--server", "good"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["servers"].as_array().unwrap().len(), 1);

    let output = stage.check(&["--server", "godo"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("there are bad, good"), "{}", text(&output.stderr));
    stage.nothing_left();
}

#[test]
fn a_broken_entry_is_shown_and_the_other_servers_are_checked() {
    let stage = Stage::new();
    let mut wrong = stage.server("");
    wrong["regrow"] = json!({ "callTimeuot": "5s", "era": "s3cr3t" });
    stage.write(json!({ "fine": stage.server(""), "wrong": wrong, "empty": {} }));
    let output = stage.check(&["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let server = |name: &str| {
        let mut servers = found["servers"].as_array().unwrap().iter();
        servers.find(|server| server["name"] == name).unwrap_or_else(|| panic!("{name}: {found}")).clone()
    };
    assert_eq!(server("fine")["state"], "ok", "{found}");
    let wrong = server("wrong");
    assert_eq!((&wrong["state"], wrong["problems"].as_array().unwrap().len()), (&json!("broken"), 2));
    assert_eq!(wrong["problems"][0]["field"], "regrow.callTimeuot");
    assert!(wrong["problems"][0]["line"].as_u64() > Some(1));
    assert!(!found.to_string().contains("s3cr3t"));
    let table = text(&stage.check(&[]).output().unwrap().stdout);
    assert!(
        table
            .contains("field \"regrow.callTimeuot\": there is no such option; did you mean \"callTimeout\"?"),
        "{table}"
    );
    assert!(table.contains("server \"empty\": it has neither"), "{table}");

    // What concerns all servers is refused as a whole, with everything else that is wrong.
    let file = stage.folder.path().join(".mcp.json");
    std::fs::write(&file, r#"{ "sessions": "private", "mcpServers": { "a": { "command": "x" }, "b": {} } }"#)
        .unwrap();
    let output = stage.check(&["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["problems"].as_array().unwrap().len(), 2, "{found}");
    assert_eq!(found["problems"][0]["field"], "sessions");
    stage.nothing_left();

    let empty = TempDir::new().unwrap();
    let output = stage.check(&[]).current_dir(empty.path()).env("HOME", empty.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).starts_with(".mcp.json: there is no such file here"));
}

#[test]
fn later_files_win_and_that_is_said() {
    let stage = Stage::new();
    stage.write(json!({ "one": stage.server("exit-at-start") }));
    let better = json!({ "servers": { "one": stage.server("") } }).to_string();
    std::fs::write(stage.folder.path().join("better.json"), better).unwrap();
    let output = stage.check(&[".mcp.json", "--config", "better.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("better.json:1:13: server \"one\": an earlier file"), "{output:?}");
    stage.nothing_left();
}

#[test]
fn told_to_end_it_ends_every_server_and_says_so_in_its_code() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let stage = Stage::new();
        stage.write(json!({ "a": stage.server("never-answer, ignore-eof"), "b": stage.server("never-answer, helper") }));
        let mut check = stage.check(&[]).spawn().unwrap();
        wait_until("both run", Duration::from_secs(10), || stage.marked.alive().len() >= 2);
        kill(check.id(), signal);
        assert_eq!(check.wait().unwrap().code(), Some(code));
        stage.nothing_left();
    }
}

#[test]
fn killed_it_leaves_nothing_behind() {
    let stage = Stage::new();
    stage.write(json!({ "a": stage.server("never-answer, ignore-eof, ignore-term") }));
    let mut check = stage.check(&[]).spawn().unwrap();
    wait_until("it runs", Duration::from_secs(10), || !stage.marked.alive().is_empty());
    let family = children_of(check.id());
    kill(check.id(), Signal::KILL);
    check.wait().unwrap();
    stage.nothing_left();
    let all_gone = || family.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists());
    wait_until("the guard is gone, too", Duration::from_secs(5), all_gone);
}

#[test]
fn a_server_gets_harmless_variables_and_what_its_file_names() {
    let stage = Stage::new();
    let script = "env >&2; exit 1";
    stage.write(json!({
        "clean": { "command": "sh", "args": ["-c", script], "env": { "NAMED": "yes" } },
        "whole": { "command": "sh", "args": ["-c", script], "regrow": { "cleanEnv": false } },
    }));
    let mut check = stage.check(&["--json"]);
    check.env_clear().env("PATH", "/usr/bin:/bin").env("OTHER", "told").env("XDG_CACHE_HOME", stage.cache());
    let output = check.output();
    let found: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let [clean, whole] = &found["servers"].as_array().unwrap()[..] else { panic!("{found}") };
    let has = |server: &Value, line: &str| server["stderr"].as_array().unwrap().contains(&json!(line));
    assert!(has(clean, "NAMED=yes") && !has(clean, "OTHER=told"), "{clean}");
    assert!(has(whole, "OTHER=told"), "{whole}");
}

#[test]
fn a_server_that_fails_is_told_which_variables_it_may_be_missing_without_their_values() {
    let stage = Stage::new();
    let server = |env: Value| json!({ "command": "sh", "args": ["-c", "test \"$inherit$SOME_TOKEN\" && env >&2; echo set SOME_TOKEN >&2; exit 1"], "env": env });
    stage.write(json!({
        "none": server(json!({})),
        "some": server(json!({ "inherit": ["SOME_*"] })),
        "all": server(json!({ "inherit": true })),
        "variable": server(json!({ "inherit": "a text" })),
    }));
    let mut check = stage.check(&["--json"]);
    check.env_clear().env("PATH", "/usr/bin:/bin").env("XDG_CACHE_HOME", stage.cache());
    check
        .env("SOME_TOKEN", "s3cr3t-s3cr3t")
        .env("OTHER", "told")
        .env("HTTPS_PROXY", "http://u:p4ssw0rd@proxy:1");
    let output = check.output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        !text(&output.stdout).contains("s3cr3t") && !text(&output.stdout).contains("p4ssw0rd"),
        "{found}"
    );
    let server = |name: &str| {
        let found = found["servers"].as_array().unwrap().iter().find(|server| server["name"] == name);
        found.unwrap().clone()
    };
    let has = |name: &str, line: &str| server(name)["stderr"].as_array().unwrap().contains(&json!(line));
    assert_eq!(server("none")["missingVariables"], json!(["SOME_TOKEN"]));
    assert_eq!(server("variable")["missingVariables"], json!(["SOME_TOKEN"]));
    assert!(server("some")["missingVariables"].is_null() && server("all")["missingVariables"].is_null());
    assert!(has("some", "SOME_TOKEN=***") && !has("some", "OTHER=told"), "{found}");
    assert!(has("all", "OTHER=told") && has("variable", "inherit=***"), "{found}");
    assert!(has("some", "HTTPS_PROXY=http://u:***@proxy:1"), "{found}");
}

#[test]
fn a_remote_server_is_reached_with_its_headers() {
    let url = far::start();
    let stage = Stage::new();
    let entry = |key: &str| json!({ "type": "http", "url": url, "headers": { "X-Key": key } });
    stage.write(json!({ "far": entry("${KEY}"), "refused": entry("wrong") }));
    let output = stage.check(&["--json"]).env("KEY", far::KEY).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [far, refused] = &found["servers"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!(
        (&far["state"], &far["era"], &far["tools"]),
        (&json!("ok"), &json!("legacy"), &json!(2)),
        "{found}"
    );
    assert_eq!((&refused["state"], &refused["fault"]), (&json!("broken"), &json!("unauthorized")), "{found}");
}

#[test]
fn a_server_that_requires_sign_in_is_named_with_the_command() {
    let stage = Stage::new();
    stage.write(json!({ "my far": { "type": "http", "url": far::start_with_sign_in() } }));
    let output = stage.check(&[]).env("XDG_STATE_HOME", stage.folder.path()).output().unwrap();
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("  the server requires sign-in; sign in: regrow login -- 'my far'\n"), "{table}");
}

#[test]
fn on_a_terminal_each_server_has_a_line_that_is_redrawn_and_goes_away() {
    let stage = Stage::new();
    let missing = json!({ "command": "/nowhere/a-server-whose-name-does-not-fit-on-a-narrow-terminal" });
    stage.write(json!({ "quick": stage.server(""), "slow": stage.server("slow-start=1s"), "none": missing }));
    for columns in [80, 40] {
        let (mut terminal, mut check) =
            Terminal::start_sized(&mut stage.check(&[".mcp.json"]), false, columns, 24);
        let mut table = String::new();
        check.stdout.take().unwrap().read_to_string(&mut table).unwrap();
        assert_eq!(check.wait().unwrap().code(), Some(1), "{table}");
        terminal.read_all();
        let seen = &terminal.seen;
        for part in
            ["quick  ready in ", "slow   starting (0 s)", "slow   ready in ", "none   failed: ", " tools"]
        {
            assert!(seen.contains(part), "no {part:?} in {seen:?}");
        }
        assert!(seen.contains("\x1b[32mquick") && seen.contains("\x1b[31mnone"), "{seen:?}");
        // While it runs every line fits, and in the end nothing is left of it.
        assert_eq!(screen(seen, columns.into()), [""], "{seen:?}");
        assert!(table.starts_with("SERVER") && !table.contains('\x1b'), "{table}");
    }
    stage.nothing_left();
}

#[test]
fn the_table_fits_the_terminal_and_is_coloured_as_asked() {
    let stage = Stage::new();
    stage.write(json!({ "quick": stage.server(""), "broken": { "command": "/nowhere/server" } }));
    let table = |columns: u16, options: &[&str], variables: &[(&str, &str)]| {
        let mut check = stage.check(&[options, &[".mcp.json"]].concat());
        check.envs(variables.iter().copied());
        let (mut terminal, mut check) = Terminal::start_sized(&mut check, true, columns, 24);
        terminal.read_all();
        assert_eq!(check.wait().unwrap().code(), Some(1), "{:?}", terminal.seen);
        let shown = screen(&terminal.seen, columns.into());
        assert!(shown[0].starts_with("SERVER  STATE"), "{shown:?}");
        let is_coloured = terminal.seen.contains("\x1b[3");
        (shown, is_coloured)
    };
    let (wide, is_coloured) = table(80, &[], &[]);
    assert!(is_coloured && wide[0].ends_with("ERA     TOOLS   START"), "{wide:?}");
    let (narrow, _) = table(40, &[], &[]);
    assert!(narrow.len() > wide.len(), "the reason is wrapped: {narrow:?}");
    for (options, variables) in [(&[][..], &[("NO_COLOR", "1")][..]), (&["--color", "never"], &[])] {
        let (shown, is_coloured) = table(80, options, variables);
        assert!(!is_coloured && shown.len() == wide.len(), "{shown:?}");
    }
    // A pipe gets colours only when it is told to.
    let piped = |options: &[&str], variable: &str| {
        let output = stage.check(options).env(variable, "1").output().unwrap();
        text(&output.stdout).contains("\x1b[31m")
    };
    assert!(!piped(&[], "NOTHING") && piped(&[], "CLICOLOR_FORCE"));
    assert!(piped(&["--color=always"], "NO_COLOR"));
    stage.nothing_left();
}

#[test]
fn servers_that_hang_are_given_up_side_by_side() {
    let stage = Stage::new();
    let servers: serde_json::Map<String, Value> =
        (0..6).map(|number| (format!("hung-{number}"), stage.server("never-answer"))).collect();
    stage.write(servers.into());
    let began = Instant::now();
    let output = stage.check(&["--timeout", "6s"]).output().unwrap();
    assert!(began.elapsed() < 6 * Duration::from_secs(6), "{:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout).matches("timed out after 6 s").count(), 6, "{}", text(&output.stdout));
    stage.nothing_left();
}
