//! Every host of the table, with a file as the host writes it: `check`, `serve`, `adopt` and `adopt --undo`.

#![allow(clippy::unwrap_used, unreachable_pub)] // This is a test, and its modules are seen by nobody else.

#[path = "harness/far.rs"]
mod far;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use regrow_gateway::adopt;
use regrow_gateway::hosts::{Format, HOSTS, Host, Variables};
use serde_json::{Value, json};
use tempfile::TempDir;

const REGROW: &str = env!("CARGO_BIN_EXE_regrow");

/// A test for each fixture: the host, which of its files it is, and the servers in it.
macro_rules! fixtures {
    ($($test:ident: $host:literal, $file:literal, $fixture:literal, $servers:expr;)*) => {
        $(#[test] fn $test() {
            let text = include_str!(concat!("hosts/fixtures/", $fixture));
            there_and_back($host, $file, text, &$servers);
        })*

        #[test]
        fn every_fixture_comes_back_with_other_line_breaks() {
            $(comes_back($host, $file, &include_str!(concat!("hosts/fixtures/", $fixture)).replace('\n', "\r\n"));)*
        }

        #[test]
        fn every_host_has_a_fixture() {
            let tested = [$($host),*];
            for host in HOSTS {
                assert!(tested.contains(&host.name), "{} has none", host.name);
            }
        }
    };
}

fixtures! {
    claude_code: "Claude Code", 0, "claude-code.json", ["user", "docs", "local"];
    claude_desktop: "Claude Desktop", 0, "claude-desktop.json", ["files", "time"];
    vs_code: "VS Code", 0, "vs-code.json", ["a", "far"];
    vs_code_settings: "VS Code", 1, "vs-code-settings.json", ["a"];
    cursor: "Cursor", 0, "cursor.json", ["a", "far"];
    windsurf: "Windsurf", 0, "windsurf.json", ["far", "a"];
    cline: "Cline", 0, "cline.json", ["a", "far"];
    gemini_cli: "Gemini CLI", 0, "gemini-cli.json", ["a", "far"];
    copilot_cli: "Copilot CLI", 0, "copilot-cli.json", ["a", "far"];
    amp: "Amp", 0, "amp.json", ["a", "far"];
    zed: "Zed", 0, "zed.json", ["a", "far"];
    opencode: "opencode", 0, "opencode.json", ["a", "b", "far"];
    codex: "Codex", 0, "codex.toml", ["a", "the second", "far"];
    goose: "Goose", 0, "goose.yaml", ["a", "far"];
    continue_dev: "Continue", 0, "continue.yaml", ["a", "Überwacht"];
    continue_folder: "Continue", 3, "continue-folder.yaml", ["A server of its own"];
    librechat: "LibreChat", 0, "librechat.yaml", ["a", "far"];
    hermes: "Hermes", 0, "hermes.yaml", ["a", "far"];
}

fn there_and_back(host: &str, file: usize, fixture: &str, servers: &[&str]) {
    let desk = Desk::new(Host::named(host).unwrap(), file, fixture);
    let original = desk.text();
    assert_eq!(desk.working(), servers);
    desk.serves(servers.len());

    let output = desk.adopt(&[]);
    let adopted = desk.text();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(!shown.contains(far::KEY), "{shown}");
    assert!(adopted.matches("\"wrap\"").count() >= servers.len(), "{adopted}");
    assert_eq!(desk.working(), servers, "{adopted}");
    desk.serves(servers.len());

    desk.adopt(&["--undo"]);
    assert_eq!(desk.text(), original, "by way of\n{adopted}");
}

/// The same, without starting anything.
fn comes_back(host: &str, file: usize, text: &str) {
    let path = place(Host::named(host).unwrap(), file, Path::new("/home/me"));
    let text = text.replace("@URL@", "https://h/mcp").replace("@SERVER@", "/srv/x").replace("@KEY@", "k");
    let adopted = adopt::adopt(&path, &text, "/opt/regrow", &[]).unwrap();
    assert!(!adopted.is_empty() && !adopted.text.replace("\r\n", "").contains('\n'), "{}", adopted.text);
    let refused: Vec<&adopt::Step> =
        adopted.steps.iter().filter(|step| matches!(step.outcome, adopt::Outcome::Refused(_))).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(adopt::undo(&path, &adopted.text, "/opt/regrow", &[]).unwrap().text, text);
}

/// Without a file named: `adopt` finds files of any name, and those in folders that variables name.
#[test]
fn adopt_finds_the_folder_of_continue_and_the_home_of_codex() {
    let desk =
        Desk::new(Host::named("Continue").unwrap(), 1, include_str!("hosts/fixtures/continue-folder.yaml"));
    let codex = desk.home.path().join("elsewhere");
    fs::create_dir(&codex).unwrap();
    let config = codex.join("config.toml");
    fs::write(&config, include_str!("hosts/fixtures/codex.toml")).unwrap();
    let text = || (desk.text(), fs::read_to_string(&config).unwrap());
    let all = |options: &[&str]| {
        let mut command = desk.regrow(&["adopt", "--all", "--yes"]);
        let output = command.args(options).env("CODEX_HOME", &codex).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    };
    let original = text();
    all(&[]);
    let (of_continue, of_codex) = text();
    assert!(of_continue.contains("\"wrap\""), "{of_continue}");
    assert_eq!(of_codex.matches("\"wrap\"").count(), 4, "{of_codex}");
    all(&["--undo"]);
    assert_eq!(text(), original);
}

/// Where a file of a host is in this folder.
fn place(host: &Host, file: usize, folder: &Path) -> PathBuf {
    let file = host.files[file];
    let path = file.of_user(folder, |_| None).or_else(|| file.of_project(folder)).unwrap();
    // A host takes every file of that folder, whatever its name.
    let name = path.file_name().unwrap().to_str().unwrap().replace('*', "mine");
    path.with_file_name(name)
}

struct Desk {
    home: TempDir,
    file: PathBuf,
}

impl Desk {
    /// A home folder with the file where the host has it.
    fn new(host: &Host, file: usize, fixture: &str) -> Desk {
        let home = TempDir::new().unwrap();
        let folder = home.path().canonicalize().unwrap();
        // Our own executable in another role must look like somebody else's.
        let server = folder.join("some-server");
        symlink(REGROW, &server).unwrap();
        let text = fixture
            .replace("@SERVER@", server.to_str().unwrap())
            .replace("@PROJECT@", folder.to_str().unwrap())
            .replace("@KEY@", far::KEY);
        let text = if text.contains("@URL@") { text.replace("@URL@", &far::start()) } else { text };
        let file = place(host, file, &folder);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        Desk { home, file }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    fn regrow(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(REGROW);
        command.args(arguments).current_dir(&self.home).env("HOME", self.home.path());
        command.env("XDG_CACHE_HOME", self.home.path().join("cache")).env_remove("XDG_CONFIG_HOME");
        command.env_remove("CODEX_HOME").env_remove("CLAUDE_CONFIG_DIR");
        command.stdin(Stdio::null());
        command
    }

    fn adopt(&self, options: &[&str]) -> Output {
        let output = self.regrow(&["adopt", "--yes"]).args(options).arg(&self.file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output
    }

    /// The servers that `regrow check` finds and that work: here, all that are not switched off.
    fn working(&self) -> Vec<String> {
        let output = self.regrow(&["check", "--json", "--timeout", "60s"]).arg(&self.file).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let servers = found["servers"].as_array().unwrap().iter();
        let servers = servers.filter(|server| server["state"] != "disabled");
        servers.map(|server| server["name"].as_str().unwrap().to_owned()).collect()
    }

    /// `regrow serve` offers at least a tool of each server.
    fn serves(&self, servers: usize) {
        let mut gateway = self
            .regrow(&["serve", "--transport", "stdio", "--list-wait", "60s"])
            .arg(&self.file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = gateway.stdin.take().unwrap();
        let mut output = BufReader::new(gateway.stdout.take().unwrap()).lines();
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let mut answer = Value::Null;
        for (id, (method, params)) in
            [("initialize", hello), ("tools/list", json!({}))].into_iter().enumerate()
        {
            writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
                .unwrap();
            let mut answers =
                output.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
            answer = answers.find(|answer| answer["id"] == id).unwrap();
        }
        drop(input);
        gateway.wait().unwrap();
        let tools = answer["result"]["tools"].as_array().map_or(0, Vec::len);
        assert!(tools >= servers, "{answer}");
    }
}

/// `UPDATE=1 cargo test -p regrow-cli --test hosts` rewrites the sections.
#[test]
fn the_document_has_a_section_for_each_host_as_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/hosts.md");
    let old = fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- hosts -->\n", "<!-- end of hosts -->\n");
    let start = old.find(begin).unwrap() + begin.len();
    let stop = old.find(end).unwrap();
    let sections: String = HOSTS.iter().map(section).collect();
    let new = format!("{}\n{sections}{}", &old[..start], &old[stop..]);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &new).unwrap();
    }
    assert!(old == new, "docs/hosts.md is out of date: run this test with UPDATE=1");
}

fn section(host: &Host) -> String {
    let mut text = format!("### {}\n\n| system | file |\n|---|---|\n", host.name);
    for file in host.files {
        let windows = file.windows.replace('~', "%USERPROFILE%").replace('/', "\\");
        match file {
            file if file.is_of_project() => text.push_str(&format!("| in a project | `{}` |\n", file.linux)),
            file if file.linux.starts_with('$') => {
                let (variable, _) = file.linux[1..].split_once('/').unwrap();
                text.push_str(&format!("| if `{variable}` is set | `{}` |\n", file.linux));
            }
            file if file.linux == file.macos => {
                text.push_str(&format!("| Linux, macOS | `{}` |\n| Windows | `{windows}` |\n", file.linux));
            }
            file => text.push_str(&format!(
                "| Linux | `{}` |\n| macOS | `{}` |\n| Windows | `{windows}` |\n",
                file.linux, file.macos
            )),
        }
    }
    let variables = match host.variables {
        Variables::Dollar => "`${VAR}`, `${VAR:-default}` or `${env:VAR}`",
        Variables::Shell => "`$VAR` or `${VAR}`",
        Variables::Braces => "`{env:VAR}`",
        Variables::Secrets => "`${{ secrets.VAR }}`",
        Variables::None => "not replaced: every text is taken as it is",
    };
    let places: Vec<String> =
        host.sections.iter().map(|path| format!("`{}`", path.replace('/', " → "))).collect();
    text.push_str(&format!("\nServers are in {}. Variables: {variables}.\n\n", places.join(" or ")));
    let language = match host.format() {
        Format::Json => "json",
        Format::Toml => "toml",
        Format::Yaml => "yaml",
    };
    text.push_str(&format!("```{language}\n{}```\n\nThen {}.\n\n", example(host), host.reload));
    text
}

/// A server of this host behind Regrow.
fn example(host: &Host) -> String {
    let text = match host.format() {
        Format::Json => json_example(host),
        Format::Toml => format!(
            "[{}.time]\n{} = \"uvx\"\n{} = [\"mcp-server-time\"]",
            host.sections[0],
            host.members.command,
            host.members.args.unwrap()
        ),
        Format::Yaml => {
            let members = host.members;
            let server = match members.name {
                Some(name) => format!("  - {name}: time\n"),
                None => "  time:\n".into(),
            };
            let kind = if members.has_extensions { "    type: stdio\n" } else { "" };
            let (section, command, args) = (host.sections[0], members.command, members.args.unwrap());
            format!("{section}:\n{server}{kind}    {command}: uvx\n    {args}: [mcp-server-time]")
        }
    };
    let path = place(host, 0, Path::new("/home/me"));
    let adopted = adopt::adopt(&path, &format!("{text}\n"), "regrow", &[]).unwrap();
    assert!(!adopted.is_empty(), "{:?}", adopted.steps);
    adopted.text
}

fn json_example(host: &Host) -> String {
    let members = host.members;
    let command = match members.args {
        Some(args) => format!("\"{}\": \"uvx\", \"{args}\": [\"mcp-server-time\"]", members.command),
        None => format!(
            "\"type\": \"{}\", \"{}\": [\"uvx\", \"mcp-server-time\"]",
            members.local, members.command
        ),
    };
    let mut text = format!("{{ {command} }}");
    let names = host.sections[0].split('/').chain(["time"]);
    for (depth, name) in names.collect::<Vec<_>>().into_iter().enumerate().rev() {
        let indent = "  ".repeat(depth);
        text = format!("{{\n{indent}  \"{name}\": {text}\n{indent}}}");
    }
    text
}
