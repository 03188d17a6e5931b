//! Completion scripts and man pages, as shells and package builders use them.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

use std::fs;
use std::io::{ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

#[test]
fn each_shell_accepts_its_script() {
    let shells: [(&str, &str, &[&str]); 4] = [
        ("bash", "bash", &["-n"]),
        ("zsh", "zsh", &["-n"]),
        ("fish", "fish", &["--no-execute"]),
        ("powershell", "pwsh", &["-NoProfile", "-NonInteractive", "-File"]),
    ];
    let folder = TempDir::new().unwrap();
    for (shell, program, check) in shells {
        let script = folder.path().join(format!("{shell}.ps1")); // PowerShell insists on the name.
        fs::write(&script, completions(shell)).unwrap();
        let mut accepts = Command::new(program);
        accepts.args(check).arg(&script).env("HOME", folder.path()).stdin(Stdio::null());
        match accepts.output() {
            Ok(output) => assert!(output.status.success(), "{program}: {}", text(&output.stderr)),
            Err(error) if error.kind() == ErrorKind::NotFound && shell != "bash" => {
                // Not by `eprintln!`, which is only shown for tests that fail.
                let skipped = format!("skipped: {program} is not installed\n");
                std::io::stderr().write_all(skipped.as_bytes()).unwrap();
            }
            Err(error) => panic!("{program}: {error}"),
        }
    }
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(completed(&["wr"]), ["wrap"]);
    assert_eq!(completed(&["wrap", "--safe"]), ["--safe-tool"]);
    assert_eq!(completed(&["serve", "--transport", ""]), ["http", "stdio"]);
    assert_eq!(completed(&["completions", "z"]), ["zsh"]);
    assert!(!completed(&[""]).contains(&"guard".to_owned()), "not for people");
}

#[test]
fn a_shell_that_is_not_known_is_refused_with_those_that_are() {
    let output = regrow(&["completions", "tcsh"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(64), "{said}");
    for shell in ["bash", "fish", "powershell", "zsh"] {
        assert!(said.contains(shell), "{said}");
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("share/man1");
    let output = regrow(&["man", pages.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let page = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    for command in completed(&[""]).iter().filter(|word| !word.starts_with('-') && *word != "help") {
        assert!(page("regrow.1").contains(&format!("regrow\\-{}", command.replace('-', "\\-"))), "{command}");
        assert!(page(&format!("regrow-{command}.1")).starts_with(".ie"), "{command}");
    }
    assert!(page("regrow-wrap.1").contains("REGROW_CALL_TIMEOUT"), "{}", page("regrow-wrap.1"));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = regrow(&["man", file.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains(file.path().to_str().unwrap()) && said.contains("name a folder"), "{said}");
}

/// What bash offers for the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("regrow.bash"), completions("bash")).unwrap();
    let ask = r#"
        source regrow.bash
        COMP_WORDS=(regrow "$@") COMP_CWORD=$#
        _regrow regrow "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash"]).args(words).current_dir(&folder).stdin(Stdio::null());
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

fn completions(shell: &str) -> Vec<u8> {
    let output = regrow(&["completions", shell]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output.stdout
}

fn regrow(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regrow")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
