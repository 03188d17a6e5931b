//! A configuration that came with a folder runs nothing before its user has allowed exactly that.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::terminal::Terminal;
use crate::{REGROW, Stage, text};

impl Stage {
    /// A server that leaves this mark if it is ever started.
    fn marking(&self, mark: &str) -> Value {
        json!({ "command": "sh", "args": ["-c", format!("touch '{}'; exit 1", self.mark(mark).display())] })
    }

    fn mark(&self, mark: &str) -> PathBuf {
        self.folder.path().join(mark)
    }

    /// Whether `regrow check` has started the server that leaves this mark; and what it said.
    fn runs(&self, options: &[&str], mark: &str) -> (bool, String) {
        let _ = fs::remove_file(self.mark(mark)); // It may not be there.
        let Output { status, stderr, .. } = self.check(options).output().unwrap();
        let did_run = self.mark(mark).exists();
        // A server that exits is broken; what is refused is a matter of the configuration.
        assert_eq!(status.code(), Some(if did_run { 1 } else { 64 }), "{}", text(&stderr));
        (did_run, text(&stderr))
    }

    /// The file that says that the configuration is trusted.
    fn trust_file(&self) -> PathBuf {
        let folder = self.cache().join("regrow/trust");
        let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [file] = &files[..] else { panic!("{files:?}") };
        file.clone()
    }
}

#[test]
fn security_26_a_file_of_the_folder_runs_nothing_until_the_command_that_is_named_was_run() {
    let stage = Stage::new();
    stage.write_untrusted(json!({ "git": stage.marking("ran") }));
    let (did_run, said) = stage.runs(&[], "ran");
    assert!(!did_run, "{said}");
    let command = said.lines().find_map(|line| line.split("allow it: regrow ").nth(1)).expect(&said);
    assert!(command.starts_with("trust /") && command.ends_with(".mcp.json"), "{command}");
    let found: Value = serde_json::from_slice(&stage.check(&["--json"]).output().unwrap().stdout).unwrap();
    assert!(found["problems"][0]["text"].as_str().unwrap().contains("not trusted"), "{found}");

    let arguments: Vec<&str> = command.split(' ').collect();
    let output = stage.command(&arguments).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("  git\n    command: \"sh\"\n    args: [\"-c\", \"touch "), "{said}");
    let (did_run, said) = stage.runs(&[], "ran");
    assert!(did_run, "{said}");

    // Any other content is another matter, also in the same place; and so is the same content elsewhere.
    stage.write_untrusted(json!({ "git": stage.marking("ran"), "more": stage.marking("more") }));
    assert!(!stage.runs(&[], "ran").0 && !stage.mark("more").exists());
    stage.write_untrusted(json!({ "git": stage.marking("ran") }));
    assert!(stage.runs(&[], "ran").0, "this content was trusted before");
    let elsewhere = stage.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::copy(stage.folder.path().join(".mcp.json"), elsewhere.join(".mcp.json")).unwrap();
    let _ = fs::remove_file(stage.mark("ran"));
    let output = stage.check(&[]).current_dir(&elsewhere).output().unwrap();
    assert_eq!((output.status.code(), stage.mark("ran").exists()), (Some(64), false), "{output:?}");
}

#[test]
fn security_26_a_file_that_is_named_is_trusted_and_so_are_the_users_own() {
    let stage = Stage::new();
    stage.write_untrusted(json!({ "git": stage.marking("ran") }));
    assert!(stage.runs(&[".mcp.json"], "ran").0);
    assert!(stage.runs(&["--config", "./.mcp.json"], "ran").0);
    assert!(!stage.runs(&[], "ran").0, "naming a file once is no permission for later");
    assert!(!stage.cache().join("regrow/trust").exists());

    let own = stage.folder.path().join(".cursor/mcp.json");
    fs::create_dir(own.parent().unwrap()).unwrap();
    fs::rename(stage.folder.path().join(".mcp.json"), own).unwrap();
    assert!(stage.runs(&[], "ran").0, "the folder is the home folder");
}

#[test]
fn security_26_a_file_of_variables_belongs_to_what_is_trusted() {
    let stage = Stage::new();
    let mut server = stage.marking("ran");
    server["envFile"] = ".env".into();
    fs::write(stage.folder.path().join(".env"), "A=1\n").unwrap();
    stage.write(json!({ "git": server }));
    assert!(stage.runs(&[], "ran").0);
    fs::write(stage.folder.path().join(".env"), "LD_PRELOAD=./evil.so\n").unwrap();
    assert!(!stage.runs(&[], "ran").0);
}

#[test]
fn security_26_a_trust_file_that_is_a_link_or_damaged_or_in_a_folder_of_all_users_is_not_believed() {
    let stage = Stage::new();
    stage.write(json!({ "git": stage.marking("ran") }));
    let file = stage.trust_file();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    assert!(stage.runs(&[], "ran").0);

    let folder = file.parent().unwrap();
    fs::set_permissions(folder, PermissionsExt::from_mode(0o770)).unwrap();
    assert!(!stage.runs(&[], "ran").0, "others can write there");
    fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).unwrap();
    assert!(stage.runs(&[], "ran").0);

    let moved = stage.folder.path().join("moved.json");
    fs::rename(&file, &moved).unwrap();
    symlink(&moved, &file).unwrap();
    assert!(!stage.runs(&[], "ran").0, "it is a link");
    let kept = fs::read(&moved).unwrap();
    assert!(stage.command(&["trust"]).output().unwrap().status.success());
    assert_eq!(fs::read(&moved).unwrap(), kept, "nothing is written through the link");
    assert!(stage.runs(&[], "ran").0 && !file.is_symlink());

    fs::write(&file, "{ \"paths\": ").unwrap();
    assert!(!stage.runs(&[], "ran").0, "it is damaged");
    fs::remove_file(&file).unwrap();
    assert!(!stage.runs(&[], "ran").0);
}

#[test]
fn security_26_at_a_terminal_a_person_is_asked_once_per_content() {
    let stage = Stage::new();
    let mut server = stage.marking("ran");
    server["env"] = json!({ "TOKEN": "${SECRET_TOKEN}", "ODD": "\u{1b}[2J\u{202e}" });
    stage.write_untrusted(json!({ "git": server, "docs": { "url": "https://mcp.example/x" } }));
    let asked = |answer: &str| {
        let mut check = stage.check(&["--server", "git"]);
        let (mut terminal, mut child) = Terminal::start(check.env("SECRET_TOKEN", "s3cr3t-value"), false);
        terminal.read_until("Run it? [y/N] ");
        assert!(!stage.mark("ran").exists());
        terminal.write(answer);
        (child.wait().unwrap().code(), terminal.seen)
    };
    let (code, seen) = asked("n\n");
    assert_eq!((code, stage.mark("ran").exists()), (Some(64), false), "{seen}");
    for part in
        ["command: \"sh\"", "touch ", "url: \"https://mcp.example/x\"", "\"TOKEN\": \"${SECRET_TOKEN}\""]
    {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(!seen.contains("s3cr3t") && !seen.contains("\u{1b}[2J") && !seen.contains('\u{202e}'), "{seen}");
    let (code, seen) = asked("\n");
    assert_eq!((code, stage.mark("ran").exists()), (Some(64), false), "{seen}");
    let (code, seen) = asked("y\n");
    assert_eq!((code, stage.mark("ran").exists()), (Some(1), true), "{seen}");
    let mut again = stage.check(&["--server", "git"]);
    let output = again.env("SECRET_TOKEN", "another").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "it was allowed: {output:?}");
}

#[test]
fn security_26_trust_needs_a_file_that_can_be_read() {
    let stage = Stage::new();
    let output = stage.command(&["trust"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(text(&output.stderr).contains("there is no .mcp.json here"), "{output:?}");
    fs::write(stage.folder.path().join(".mcp.json"), "{").unwrap();
    let output = std::process::Command::new(REGROW)
        .args(["trust", "x.json"])
        .current_dir(stage.folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert_eq!(stage.command(&["trust"]).output().unwrap().status.code(), Some(64));
}
