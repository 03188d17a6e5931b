//! `regrow adopt` on files of real hosts, and what becomes of the servers in them.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/far.rs"]
mod far;
#[path = "harness/terminal.rs"]
mod terminal;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use terminal::Terminal;

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

/// As people write it, with everything that must stay.
const CONFIG: &str = "{\r\n\t// Mine.\r\n\t\"mcpServers\": {\r\n\t\t\"time\": {\r\n\t\t\t\"command\": \"uvx\", // fast\r\n\
                      \t\t\t\"args\": [\"mcp-server-time\"],\r\n\t\t\t\"env\": { \"KEY\": \"s3cr3t\" },\r\n\t\t},\r\n\
                      \t\t\"bare\": { \"command\": \"bare\" }\r\n\t},\r\n}\r\n";

struct Desk {
    folder: TempDir,
    file: PathBuf,
}

impl Desk {
    fn new(text: &str) -> Desk {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("mcp.json");
        fs::write(&file, text).unwrap();
        Desk { folder, file }
    }

    fn adopt(&self, options: &[&str]) -> Command {
        let mut command = Command::new(REGROW);
        command.arg("adopt").arg(&self.file).args(options).stdin(Stdio::null());
        command
    }

    fn run(&self, options: &[&str]) -> Output {
        self.adopt(options).output().unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_file_is_changed_and_comes_back_byte_for_byte() {
    let desk = Desk::new(CONFIG);
    fs::set_permissions(&desk.file, fs::Permissions::from_mode(0o640)).unwrap();
    let output = desk.run(&["--yes"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("time (line 4): changes\n"), "{shown}");
    assert!(shown.contains("-\t\t\t\"command\": \"uvx\", // fast\n"), "{shown}");
    assert!(
        shown.contains("+\t\t\t\"args\": [\"wrap\", \"--\", \"uvx\", \"mcp-server-time\"],\n"),
        "{shown}"
    );
    assert!(!shown.contains("s3cr3t"), "{shown}");
    let adopted = desk.text();
    assert!(adopted.contains("// Mine.\r\n") && adopted.contains(", // fast\r\n"), "{adopted}");
    assert_eq!(adopted.matches(&format!("\"command\": \"{REGROW}\"")).count(), 2, "{adopted}");
    assert_eq!(fs::metadata(&desk.file).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(desk.files(), ["mcp.json", "mcp.json.before-regrow"]);
    let backup = desk.folder.path().join("mcp.json.before-regrow");
    assert_eq!(fs::read_to_string(&backup).unwrap(), CONFIG);
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);

    let again = desk.run(&["--yes"]);
    assert!(text(&again.stderr).contains("there is nothing to change"), "{again:?}");
    assert_eq!(desk.files().len(), 2, "no copy of what does not change");

    // The undo needs no copy, and an older copy is never overwritten.
    fs::write(&backup, "precious").unwrap();
    let output = desk.run(&["--undo", "--yes"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(desk.text(), CONFIG);
    desk.run(&["--yes", "--server", "bare"]);
    assert_eq!(fs::read_to_string(&backup).unwrap(), "precious");
    assert_eq!(fs::read_to_string(desk.folder.path().join("mcp.json.before-regrow.2")).unwrap(), CONFIG);
    assert!(desk.text().contains("\"command\": \"uvx\""), "only the one that was named");
}

#[test]
fn undo_restores_the_file_byte_for_byte_and_removes_its_backup() {
    let desk = Desk::new(CONFIG);
    desk.run(&["--yes"]);
    let output = desk.run(&["--undo", "--yes"]);
    assert!(text(&output.stderr).contains("mcp.json.before-regrow is removed"), "{output:?}");
    assert_eq!((desk.text().as_str(), desk.files()), (CONFIG, vec!["mcp.json".to_owned()]));

    // One copy for each change; they stay while a server is behind regrow.
    desk.run(&["--yes", "--server", "time"]);
    desk.run(&["--yes", "--server", "bare"]);
    desk.run(&["--undo", "--yes", "--server", "time"]);
    assert_eq!(desk.files(), ["mcp.json", "mcp.json.before-regrow", "mcp.json.before-regrow.2"]);
    desk.run(&["--undo", "--yes"]);
    assert_eq!((desk.text().as_str(), desk.files()), (CONFIG, vec!["mcp.json".to_owned()]));

    // The host has written something else into the file meanwhile.
    desk.run(&["--yes"]);
    fs::write(&desk.file, desk.text().replace("// Mine.", "// Ours.")).unwrap();
    desk.run(&["--undo", "--yes"]);
    assert_eq!((desk.text(), desk.files().len()), (CONFIG.replace("// Mine.", "// Ours."), 1));

    // The user has changed a server meanwhile: the copy may be needed.
    desk.run(&["--yes"]);
    fs::write(&desk.file, desk.text().replace("mcp-server-time", "another")).unwrap();
    let output = desk.run(&["--undo", "--yes"]);
    assert!(text(&output.stderr).contains("mcp.json.before-regrow stays"), "{output:?}");
    assert_eq!(desk.files(), ["mcp.json", "mcp.json.before-regrow"]);
}

#[test]
fn a_change_that_is_interrupted_leaves_the_file_as_it_was() {
    let desk = Desk::new(CONFIG);
    // The system ends it in the middle of the first write.
    let interrupted = |options: &[&str]| {
        let adopt = desk.adopt(options);
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; exec \"$@\"", "sh", REGROW]).args(adopt.get_args());
        shell.stdin(Stdio::null()).output().unwrap()
    };
    assert_ne!(interrupted(&["--yes"]).status.code(), Some(0));
    assert_eq!(desk.text(), CONFIG);
    desk.run(&["--yes"]);
    let adopted = desk.text();
    assert_ne!(adopted, CONFIG);
    assert_ne!(interrupted(&["--undo", "--yes"]).status.code(), Some(0));
    assert_eq!(desk.text(), adopted);
    desk.run(&["--undo", "--yes"]);
    assert_eq!(desk.text(), CONFIG);
}

#[test]
fn nothing_is_written_or_removed_through_a_link_that_somebody_planted() {
    let desk = Desk::new(CONFIG);
    let place = |name: &str| desk.folder.path().join(name);
    fs::write(place("victim"), CONFIG).unwrap();
    symlink(place("victim"), place("mcp.json.before-regrow")).unwrap();
    symlink(place("nowhere"), place("mcp.json.before-regrow.2")).unwrap();
    assert_eq!(desk.run(&["--yes"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(place("mcp.json.before-regrow.3")).unwrap(), CONFIG);
    assert_eq!(desk.run(&["--undo", "--yes"]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(place("victim")).unwrap(), CONFIG);
    assert_eq!(desk.files(), ["mcp.json", "mcp.json.before-regrow", "mcp.json.before-regrow.2", "victim"]);
}

#[test]
fn a_configuration_that_is_linked_from_elsewhere_changes_in_its_own_place() {
    let desk = Desk::new(CONFIG);
    fs::set_permissions(&desk.file, fs::Permissions::from_mode(0o640)).unwrap();
    let home = TempDir::new().unwrap();
    let link = home.path().join("link.json");
    symlink(&desk.file, &link).unwrap();
    for options in [&["--yes"][..], &["--undo", "--yes"]] {
        let output = Command::new(REGROW).arg("adopt").arg(&link).args(options).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(fs::read_link(&link).unwrap(), desk.file);
        assert_eq!(desk.text().contains("\"wrap\""), options.len() == 1);
        assert_eq!(fs::metadata(&desk.file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            1,
            "the copy is beside the file, not beside the link"
        );
    }
    assert_eq!((desk.text().as_str(), desk.files().len()), (CONFIG, 1));
}

#[test]
fn without_a_terminal_it_only_shows() {
    let desk = Desk::new(CONFIG);
    let output = desk.run(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("+++ "));
    assert!(text(&output.stderr).contains("nothing was changed; --yes changes"));
    assert_eq!((desk.text().as_str(), desk.files().len()), (CONFIG, 1));
}

#[test]
fn at_a_terminal_it_asks() {
    for (answer, agreed) in [("n\n", false), ("\n", false), ("y\n", true)] {
        let desk = Desk::new(CONFIG);
        let (mut terminal, mut child) = Terminal::start(&mut desk.adopt(&[]), true);
        terminal.read_until("[y/N] ");
        assert_eq!(desk.text(), CONFIG, "not before the answer");
        terminal.write(answer);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(desk.text() != CONFIG, agreed, "{answer:?}");
    }
}

#[test]
fn a_link_stays_a_link_and_a_mark_at_the_beginning_stays() {
    let desk = Desk::new(&format!("\u{feff}{CONFIG}"));
    let link = desk.folder.path().join("link.json");
    symlink(&desk.file, &link).unwrap();
    let output = Command::new(REGROW).arg("adopt").arg(&link).arg("--yes").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(desk.text().starts_with("\u{feff}{") && desk.text().contains("\"wrap\""));
    desk.run(&["--undo", "--yes"]);
    assert_eq!(desk.text(), format!("\u{feff}{CONFIG}"));
}

#[test]
fn what_cannot_be_done_is_said_and_the_file_stays() {
    let cases = [
        ("{ not json", &[][..], 64, "line 1: this is not JSON"),
        ("{}", &[], 64, "no servers in this file"),
        (CONFIG, &["--server", "other"], 64, "there are time, bare"),
    ];
    for (config, options, code, said) in cases {
        let desk = Desk::new(config);
        let output = desk.run(&[options, &["--yes"]].concat());
        assert_eq!(output.status.code(), Some(code));
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
        assert_eq!(desk.text(), config);
    }
    let headers =
        r#"{ "servers": { "a": { "url": "https://h", "headers": { "A": "s3cr3t", "B": "s3cr3t" } } } }"#;
    let desk = Desk::new(headers);
    let output = desk.run(&["--yes", "--server", "a"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("--header-file FILE URL"), "{}", text(&output.stdout));
    assert!(!text(&output.stdout).contains("s3cr3t"));
    let output = Command::new(REGROW).args(["adopt", "/nowhere/x.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}

/// Starts the server `a` of the file as a host would, and returns what it answers to these requests.
fn ask(desk: &Desk, methods: &[&str]) -> Vec<Value> {
    let config: Value = serde_json::from_str(&desk.text()).unwrap();
    let entry = &config["mcpServers"]["a"];
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    let variables = entry["env"].as_object().cloned().unwrap_or_default();
    let args = texts(&entry["args"]);
    assert!(!args.join(" ").contains("s3cr3t"), "{args:?}");
    let mut host = Command::new(entry["command"].as_str().unwrap())
        .args(args)
        .envs(variables.iter().map(|(name, value)| (name, value.as_str().unwrap())))
        .env("XDG_CACHE_HOME", desk.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = host.stdin.take().unwrap();
    let mut output = BufReader::new(host.stdout.take().unwrap()).lines();
    let mut answers = vec![];
    for (id, method) in methods.iter().enumerate() {
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let params = if *method == "initialize" { hello } else { json!({}) };
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .unwrap();
        let answer = output.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        answers.extend(answer.filter(|answer| answer["id"] == id).take(1));
    }
    drop(input);
    host.wait().unwrap();
    answers
}

#[test]
fn an_adopted_server_works_behind_regrow() {
    let entry = json!({ "command": REGROW, "args": ["chaos-server"], "env": { "CHAOS_LIFE": "60s", "CHAOS": "tools=echo|pid" } });
    // Our own executable in another role must look like somebody else's.
    let folder = TempDir::new().unwrap();
    let server = folder.path().join("some-server");
    symlink(REGROW, &server).unwrap();
    let mut config = json!({ "mcpServers": { "a": entry } });
    config["mcpServers"]["a"]["command"] = server.to_str().into();
    let desk = Desk::new(&config.to_string());
    assert_eq!(desk.run(&["--yes"]).status.code(), Some(0));
    let answers = ask(&desk, &["initialize", "tools/list"]);
    assert_eq!(answers[1]["result"]["tools"].as_array().map(Vec::len), Some(2), "{answers:?}");
    assert!(desk.text().contains("\"wrap\""));
}

#[test]
fn an_adopted_remote_server_works_with_its_header_and_hides_its_url() {
    let url = far::start();
    for url in [url.clone(), format!("{url}?k=s3cr3t")] {
        let entry = json!({ "type": "http", "url": url, "headers": { "X-Key": far::KEY } });
        let config = json!({ "mcpServers": { "a": entry } }).to_string();
        let desk = Desk::new(&config);
        let output = desk.run(&["--yes"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("run `regrow login URL` once"), "{}", text(&output.stdout));
        assert!(!text(&output.stdout).contains("s3cr3t"), "{}", text(&output.stdout));
        let answers = ask(&desk, &["initialize", "tools/list"]);
        assert_eq!(answers[1]["result"]["tools"].as_array().map(Vec::len), Some(2), "{answers:?}");
        assert_eq!(desk.run(&["--undo", "--yes"]).status.code(), Some(0));
        assert_eq!(desk.text(), config);
    }
}

/// Regrow's own configuration.
const OURS: &str = ".config/regrow/mcp.json";

/// A home folder with the files of three hosts, each in another format, and Regrow's own.
struct Home {
    folder: TempDir,
    files: [(PathBuf, &'static str); 3],
}

impl Home {
    fn new() -> Home {
        let folder = TempDir::new().unwrap();
        let files = [
            (
                ".cursor/mcp.json",
                "{ \"mcpServers\": { \"time\": { \"command\": \"uvx\" }, \"files\": { \"command\": \"npx\" } } }",
            ),
            (".codex/config.toml", "# mine\n[mcp_servers.time]\ncommand = \"uvx\"\n"),
            (".hermes/config.yaml", "mcp_servers:\n  time:\n    command: uvx # fast\n"),
        ];
        let files = files.map(|(name, text)| (folder.path().join(name), text));
        for (path, text) in &files {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(folder.path().join(".claude.json"), "{ \"numStartups\": 1 }").unwrap();
        fs::create_dir_all(folder.path().join(".config/regrow")).unwrap();
        fs::write(folder.path().join(OURS), files[0].1).unwrap();
        Home { folder, files }
    }

    /// What it prints, and what it says.
    fn adopt(&self, options: &[&str], code: i32) -> (String, String) {
        let mut command = Command::new(REGROW);
        command.arg("adopt").args(options).env("HOME", self.folder.path()).env_remove("XDG_CONFIG_HOME");
        let output = command.current_dir(&self.folder).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        (text(&output.stdout), text(&output.stderr))
    }

    fn texts(&self) -> Vec<String> {
        self.files.iter().map(|(path, _)| fs::read_to_string(path).unwrap()).collect()
    }

    fn originals(&self) -> Vec<String> {
        self.files.iter().map(|(_, text)| (*text).to_owned()).collect()
    }
}

#[test]
fn without_a_file_it_shows_what_would_change_for_every_host() {
    let home = Home::new();
    for options in [&[][..], &["--yes"], &["--dry-run"], &["--all", "--dry-run", "--yes"]] {
        let (shown, said) = home.adopt(options, 0);
        for host in ["Cursor: ", "Codex: ", "Hermes: "] {
            assert!(shown.contains(host), "{shown}");
        }
        assert!(shown.contains("+args = [ \"wrap\", \"--\", \"uvx\" ]"), "{shown}");
        assert_eq!(
            said.contains("`regrow adopt --all` changes these files"),
            !options.contains(&"--all"),
            "{said}"
        );
        assert_eq!(home.texts(), home.originals());
    }
    let empty = TempDir::new().unwrap();
    let output = Command::new(REGROW).arg("adopt").env("HOME", empty.path()).output().unwrap();
    assert!(text(&output.stderr).contains("name its configuration: `regrow adopt FILE`"), "{output:?}");
}

#[test]
fn all_hosts_are_changed_and_come_back_byte_for_byte() {
    let home = Home::new();
    let (_, said) = home.adopt(&["--all", "--yes"], 0);
    // The next step, as each host calls it.
    for next in ["MCP settings of Cursor", "start Codex again", "`/reload-mcp`"] {
        assert!(said.contains(next), "{said}");
    }
    assert!(
        home.texts().iter().all(|text| text.contains("\"wrap\"") && text.contains(REGROW)),
        "{:?}",
        home.texts()
    );
    let (_, said) = home.adopt(&["--all", "--yes"], 0);
    assert!(said.contains("there is nothing to change"), "{said}");
    let ours = fs::read_to_string(home.folder.path().join(OURS)).unwrap();
    assert_eq!(ours, home.files[0].1, "no host starts these servers");
    home.adopt(&["--all", "--undo", "--yes"], 0);
    assert_eq!(home.texts(), home.originals());
}

#[test]
fn only_the_servers_that_are_named_change_and_the_path_is_written_as_given() {
    let home = Home::new();
    let options =
        ["--all", "--yes", "--server", "files", "--server", "time", "--path", "/usr/local/bin/regrow"];
    home.adopt(&options[..4], 0);
    assert_eq!(home.texts()[1..], home.originals()[1..]);
    assert!(home.texts()[0].contains("\"time\": { \"command\": \"uvx\" }"), "{:?}", home.texts());
    home.adopt(&options, 0);
    assert_eq!(home.texts().iter().filter(|text| text.contains("\"/usr/local/bin/regrow\"")).count(), 3);
    home.adopt(&["--all", "--undo", "--yes"], 0);
    assert_eq!(home.texts(), home.originals());

    let (_, said) = home.adopt(&["--all", "--server", "other"], 64);
    assert!(said.contains("no host has a server that is called other"), "{said}");
    let file = home.files[1].0.to_str().unwrap();
    let (_, said) = home.adopt(&[file, "--server", "time", "--server", "other"], 64);
    assert!(said.contains("no server is called other"), "{said}");
    let (_, said) = home.adopt(&["--path", "/x/other"], 64);
    assert!(said.contains("--path must end in regrow"), "{said}");
    home.adopt(&[file, "--all"], 64);
}

#[test]
fn a_file_that_cannot_be_read_is_told_and_the_others_are_changed() {
    let home = Home::new();
    fs::write(&home.files[1].0, "[mcp_servers.time\n").unwrap();
    let (_, said) = home.adopt(&["--all", "--yes"], 1);
    assert!(said.contains("line 1: this is not TOML: "), "{said}");
    assert!(home.texts()[0].contains("\"wrap\"") && home.texts()[2].contains("\"wrap\""));
    assert_eq!(home.texts()[1], "[mcp_servers.time\n");
}
