//! What a server gets of our surroundings, and what nobody gets to see of them.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::{Client, Setup};
use crate::evidence::{children_of, command_line, kill, spawn_copy};

const SECRET: &str = "hunter2-correct-horse";

/// Every line of ours so far, and every message that we wrote ourselves, without the secret.
fn assert_unseen(client: &mut Client) {
    let log = client.log();
    assert!(log.iter().all(|line| !line.contains(SECRET)), "{log:#?}");
    let seen = client.seen();
    assert!(seen.iter().all(|message| !message.to_string().contains(SECRET)), "{seen:#?}");
}

#[test]
fn a_secret_that_the_server_logs_at_a_failed_start_is_in_no_log_and_no_error() {
    for options in [&["--stderr", "pass"][..], &["--stderr", "keep"], &["--log-format", "json"]] {
        let mut client = Setup::plan("log-secret exit-at-start=3")
            .variable("CHAOS_SECRET", SECRET)
            .options(&["--connect-timeout", "1500ms", "--log-level", "debug"])
            .options(options)
            .start();
        let answer = client.request("initialize", json!({ "protocolVersion": "2025-11-25" }));
        let said = answer.to_string();
        assert!(!said.contains(SECRET), "{said}");
        assert!(said.contains("connecting with ***"), "its last words are told, without the secret: {said}");
        assert_unseen(&mut client);
    }
}

#[test]
fn security_23_no_line_of_a_key_that_a_failing_server_logs_reaches_a_log_or_a_model() {
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQC7VJTU\n-----END PRIVATE KEY-----\n";
    let mut client = Setup::plan("log-secret=DEPLOY_KEY exit-at-start=3")
        .variable("DEPLOY_KEY", key)
        .options(&["--connect-timeout", "1500ms", "--log-level", "debug", "--stderr", "pass"])
        .start();
    let said = client.request("initialize", json!({ "protocolVersion": "2025-11-25" })).to_string();
    assert!(said.contains("***"), "its last words are told: {said}");
    let all = client.log().join("\n") + &said;
    for line in key.lines() {
        assert!(!all.contains(line), "{line}: {all}");
    }
}

#[test]
fn a_secret_that_the_server_logs_while_it_serves_is_in_no_log_and_no_error() {
    for options in [&["--stderr-in-errors"][..], &["--stderr-in-errors", "--stderr", "keep"], &[]] {
        let mut client = Setup::plan("log-secret")
            .variable("CHAOS_SECRET", SECRET)
            .options(&["--log-level", "debug"])
            .options(options)
            .connect();
        let (text, fault) = client.failing_call("die", json!({ "how": "abort" }));
        assert!(!text.contains(SECRET) && !fault.to_string().contains(SECRET), "{text} {fault}");
        assert_eq!(text.contains("connecting with ***"), !options.is_empty(), "{text}");
        client.wait_for_log(0, "ready (session 2)");
        assert_unseen(&mut client);
        client.leave();
        assert_unseen(&mut client);
    }
}

#[test]
fn a_secret_given_with_e_is_masked_whatever_its_name() {
    // In words, and copied from our own environment, where no list of processes shows it.
    for variable in [format!("PLAIN_NAME={SECRET}"), "PLAIN_NAME".to_owned()] {
        let mut client = Setup::plan("log-secret=PLAIN_NAME")
            .variable("PLAIN_NAME", SECRET)
            .options(&["-e", &variable, "--stderr-in-errors"])
            .connect();
        assert_eq!(client.call("env", json!({ "name": "PLAIN_NAME" })), SECRET, "the server itself gets it");
        let (text, _) = client.failing_call("die", json!({}));
        assert!(text.contains("connecting with ***"), "{text}");
        assert_unseen(&mut client);
    }
}

#[test]
fn what_a_server_answers_is_handed_on_as_it_is_and_logged_nowhere() {
    let mut client =
        Setup::plan("").variable("CHAOS_SECRET", SECRET).options(&["--log-level", "debug"]).connect();
    let answer = client.request("tools/call", json!({ "name": "secret", "arguments": {} }));
    // A relay does not change what a server says to its client.
    assert_eq!(answer["error"]["message"], format!("login refused for token {SECRET}"));
    client.call("echo", json!({ "text": SECRET }));
    client.failing_call("die", json!({ "key": SECRET }));
    client.wait_for_log(0, "ready (session 2)");
    assert_unseen(&mut client);
}

#[test]
fn a_secret_in_the_environment_is_in_no_command_line_and_not_with_the_guard() {
    let mut client = Setup::plan("helper").variable("CHAOS_SECRET", SECRET).connect();
    client.call("echo", json!({ "text": "x" }));
    let mut family = children_of(client.pid());
    assert!(family.len() >= 2, "a server and a guard");
    for pid in &family {
        if command_line(*pid).trim().ends_with(" guard") {
            // Only root can look.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment);
            // Where to look for helpers of servers, and nothing else.
            let mut names = environment.split_terminator('\0');
            assert!(names.all(|name| name.starts_with("REGROW_GUARD_")), "{environment:?}");
        }
    }
    family.push(client.pid());
    for pid in family {
        assert!(!command_line(pid).contains(SECRET), "{}", command_line(pid));
    }
}

#[test]
fn a_server_gets_our_environment_as_the_host_chose_it() {
    let mut client =
        Setup::plan("").variable("CHOSEN", "by the host").options(&["-e", "EXTRA=more"]).connect();
    assert_eq!(client.call("env", json!({ "name": "CHOSEN" })), "by the host");
    assert_eq!(client.call("env", json!({ "name": "EXTRA" })), "more");
    // Also after a restart.
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "ready (session 2)");
    assert_eq!(client.call("env", json!({ "name": "CHOSEN" })), "by the host");
    assert_eq!(client.call("env", json!({ "name": "EXTRA" })), "more");
}

#[test]
fn the_server_starts_in_the_directory_that_is_named_in_every_life() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let mut client = Setup::plan("")
        .options(&["--cwd", place.to_str().unwrap()])
        .command(&["sh", "-c", "pwd -P >> here; exec {server} chaos-server"])
        .connect();
    kill(client.server_pid(), Signal::KILL);
    client.wait_for_log(0, "ready (session 2)");
    assert_eq!(client.call("echo", json!({ "text": "on" })), "on");
    let said = std::fs::read_to_string(place.join("here")).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), [place.to_str().unwrap(); 2]);
}

#[test]
fn a_clean_environment_has_only_what_is_harmless_or_named() {
    let needed =
        ["-e", "CHAOS_DIR", "-e", "CHAOS", "-e", "CHAOS_LIFE", "-e", "REGROW_SCENARIO", "-e", "NAMED"];
    let mut client = Setup::plan("")
        .variable("CHAOS_SECRET", SECRET)
        .variable("NAMED", "copied")
        .variable("LC_ALL", "C")
        .options(&["--clean-env"])
        .options(&needed)
        .connect();
    assert_eq!(client.call("env", json!({ "name": "NAMED" })), "copied");
    assert_eq!(client.call("env", json!({ "name": "LC_ALL" })), "C");
    assert!(!client.call("env", json!({ "name": "PATH" })).is_empty());
    let id = client.begin_call("env", json!({ "name": "CHAOS_SECRET" }));
    assert_eq!(client.answer(id)["result"]["content"][0]["text"], "not set");
}

#[test]
fn a_server_does_not_get_the_files_that_a_careless_host_left_open_for_us() {
    let mut client = Setup::plan("").after("exec 7</dev/null 9>&2").connect();
    assert_eq!(client.call("fds", json!({})), "", "nothing above 2");
    // Only root can look.
    if let Ok(mut open) = fs::read_dir(format!("/proc/{}/fd", client.pid())) {
        let ours = open.any(|entry| entry.is_ok_and(|entry| entry.file_name() == "9"));
        assert!(ours, "we got it, and kept it to ourselves");
    }
}

#[test]
fn a_server_has_no_file_of_ours_open_and_keeps_its_arguments_to_the_letter() {
    let mut client = Setup::plan("").connect();
    for _ in 0..2 {
        assert_eq!(client.call("fds", json!({})), "", "nothing above 2");
        client.replace_server();
    }
    drop(client);

    // No shell touches the arguments.
    let script = "printf '%s\\n' \"$@\" > \"$CHAOS_DIR/arguments\"; exec \"$0\" chaos-server";
    let odd = ["$(touch /tmp/x)", "a b", "*", "--name", "-e", "`id`", ""];
    let mut command = vec!["sh", "-c", script, "{server}"];
    command.extend(odd);
    let mut client = Setup::plan("").command(&command).connect();
    client.call("echo", json!({ "text": "x" }));
    let got = fs::read_to_string(client.journal.dir().join("arguments")).unwrap();
    assert_eq!(got, odd.map(|argument| format!("{argument}\n")).concat());
    let (code, _) = client.leave();
    assert_eq!(code, Some(0));
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[cfg(target_os = "linux")]
#[test]
fn neither_we_nor_the_guard_leave_a_core_dump() {
    let client = Setup::plan("").after("ulimit -S -c unlimited").connect();
    let children = children_of(client.pid());
    let guard = children.into_iter().find(|pid| command_line(*pid).trim().ends_with(" guard")).unwrap();
    for pid in [client.pid(), guard] {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    }
}

/// Only the user root may look into any process, so this runs as another one.
#[cfg(target_os = "linux")]
#[test]
fn a_server_cannot_read_our_environment_or_that_of_the_guard() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    if !rustix::process::geteuid().is_root() {
        return; // It cannot become somebody else.
    }
    // Where everybody can get at it.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let regrow = folder.path().join("regrow");
    fs::copy(env!("CARGO_BIN_EXE_regrow"), &regrow).unwrap();
    // We are its parent, and that of the guard.
    let server = r#"tr '\0' '\n' < /proc/$PPID/environ >&2
        for stat in /proc/[0-9]*/stat; do
            set -- $(cat $stat 2>/dev/null)
            if [ "$4" = $PPID ] && [ "$1" != $$ ]; then tr '\0' '\n' < /proc/$1/environ >&2; echo "looked at $1" >&2; fi
        done
        exit 1"#;
    let mut wrap = Command::new(&regrow);
    wrap.args(["wrap", "--clean-env", "--", "sh", "-c", server]).env("PRIVATE_KEY", SECRET).current_dir("/");
    wrap.uid(65534).gid(65534).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = spawn_copy(&mut wrap);
    // A request keeps it there until the server has said what it found.
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    writeln!(running.stdin.take().unwrap(), "{request}").unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("looked at") && said.contains("Permission denied"), "{said}");
    assert!(!said.contains("PRIVATE_KEY"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn no_program_that_a_server_starts_has_more_rights_than_it_unless_that_is_allowed() {
    let script = "grep NoNewPrivs /proc/self/status >> \"$CHAOS_DIR/flag\"; exec {server} chaos-server";
    for (options, flag) in [(&[][..], "1"), (&["--allow-new-privileges"][..], "0")] {
        let client = Setup::plan("").options(options).command(&["sh", "-c", script]).connect();
        let said = fs::read_to_string(client.journal.dir().join("flag")).unwrap();
        assert!(said.lines().all(|line| line.split_whitespace().eq(["NoNewPrivs:", flag])), "{said}");
    }
}
