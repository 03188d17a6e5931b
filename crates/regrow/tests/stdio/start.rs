//! Starting: what a server gets, and why it does not start.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use regrow::transport::Transport as _;
use regrow::transport::stdio::{Environment, Stdio};
use regrow_core::{Epoch, Fault};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::signal::unix::SignalKind;
use tokio::task::JoinSet;

use super::{leader, line, open, pid, runs, shell, soon, until};

async fn fault(server: Stdio) -> Fault {
    soon(server.open(Epoch(1))).await.err().expect("it should not start")
}

async fn output(server: Stdio) -> String {
    let mut text = String::new();
    soon(open(server).await.output.read_to_string(&mut text)).await.unwrap();
    text
}

#[tokio::test]
async fn a_server_reads_what_we_write_and_we_read_what_it_writes() {
    let mut link = open(Stdio::new("test", "cat")).await;
    link.input.write_all(b"hello\n").await.unwrap();
    assert_eq!(line(&mut link).await, "hello");
    link.input.shutdown().await.unwrap();
    assert_eq!(soon(link.process.exited()).await, Fault::Exited { code: 0 });
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let server = Stdio::new("test", "printf").args(["%s|", "a b", "$HOME", "", "*", "'\""]);
    assert_eq!(output(server).await, "a b|$HOME||*|'\"|");
}

#[tokio::test]
async fn the_environment_is_exact_but_for_the_mark() {
    let environment = Environment::from([("A".into(), "1".into()), ("PATH".into(), "/usr/bin:/bin".into())]);
    let text = output(Stdio::new("test", "env").environment(environment)).await;
    let names: Vec<_> = text.lines().map(|line| line.split('=').next().unwrap()).collect();
    assert_eq!(names, ["A", "PATH", "REGROW_MARK"]);
}

#[tokio::test]
async fn the_program_is_looked_up_in_the_servers_own_path() {
    let environment = Environment::from([("PATH".into(), "/nowhere".into())]);
    let fault = fault(Stdio::new("test", "cat").environment(environment)).await;
    assert_eq!(fault, Fault::NotFound { program: "cat".into() });
}

#[tokio::test]
async fn the_first_program_in_the_path_that_can_be_run_is_started() {
    let folder = tempfile::tempdir().unwrap();
    for (name, mode) in [("plain", "644"), ("first", "755"), ("second", "755")] {
        fs::create_dir(folder.path().join(name)).unwrap();
        script(&folder.path().join(name).join("program"), &format!("#!/bin/sh\necho {name}\n"), mode);
    }
    let with = |path: &str| Stdio::new("test", "program").variable("PATH", path).directory(folder.path());
    assert_eq!(output(with("/nowhere:plain:first:second")).await, "first\n");
    assert_eq!(output(with("second:first")).await, "second\n");
    let text = fault(with("/nowhere:plain:/dev/null")).await.to_string();
    assert!(text.ends_with("cannot be run: permission denied"), "{text}");
    assert_eq!(fault(with("/nowhere:/dev/null")).await, Fault::NotFound { program: "program".into() });
    let here = with("/nowhere:").directory(folder.path().join("second"));
    assert_eq!(output(here).await, "second\n", "no name is the working directory");
}

/// musl leaves that to shells.
#[tokio::test]
async fn glibc_has_the_shell_run_a_script_that_does_not_name_its_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    script(&path, "echo $0 $#\n", "755");
    let by_path = Stdio::new("test", &path).args(["a b", "c"]);
    let by_name = Stdio::new("test", "script").args(vec!["a"; 20_000]).variable("PATH", folder.path());
    if cfg!(target_env = "gnu") {
        assert_eq!(output(by_path).await, format!("{} 2\n", path.display()));
        assert_eq!(output(by_name).await, format!("{} 20000\n", path.display()));
    } else {
        let text = fault(by_path).await.to_string();
        assert!(text.ends_with("it is not a program for this machine"), "{text}");
    }
}

#[tokio::test]
async fn the_working_directory_is_the_one_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(shell("pwd -P").directory(folder.path())).await;
    assert_eq!(text.trim(), folder.path().canonicalize().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn no_file_is_open_in_the_server_but_its_three_streams() {
    let leaked = fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    assert!(leaked.as_raw_fd() > 2);
    assert_eq!(output(shell("ls /proc/$$/fd; true")).await, "0\n1\n2\n");
}

/// Whatever this program does about signals.
#[tokio::test]
async fn a_server_blocks_and_handles_no_signals() {
    let _handled = tokio::signal::unix::signal(SignalKind::user_defined1()).unwrap();
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let its = output(Stdio::new("test", "cat").args(["/proc/self/status"])).await;
    assert_ne!(signals(&own, "SigCgt"), 0);
    assert_eq!(signals(&its, "SigCgt"), 0);
    assert_eq!(signals(&its, "SigBlk"), 0);
    let pipe = 1 << (Signal::PIPE.as_raw() - 1);
    assert_eq!(signals(&own, "SigIgn") & pipe, pipe, "Rust ignores it");
    assert_eq!(signals(&its, "SigIgn"), signals(&own, "SigIgn") & !pipe);
}

/// Such a set in `/proc/self/status`.
fn signals(status: &str, set: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(":\t")).unwrap();
    u64::from_str_radix(line, 16).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_servers_start_at_once() {
    let mut starts = JoinSet::new();
    for number in 0..100 {
        starts.spawn(async move { output(Stdio::new("test", "echo").args([number.to_string()])).await });
    }
    let outputs = starts.join_all().await;
    let mut numbers: Vec<u32> = outputs.iter().map(|text| text.trim().parse().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100));
}

#[tokio::test]
async fn a_server_leads_a_session_and_a_group_of_its_own() {
    let link = open(Stdio::new("test", "cat")).await;
    let leader = leader(&link);
    assert_eq!(rustix::process::getpgid(Some(leader)), Ok(leader));
    assert_eq!(rustix::process::getsid(Some(leader)), Ok(leader));
}

#[tokio::test]
async fn a_server_has_no_terminal() {
    let opens = "if (: < /dev/tty) 2>/dev/null; then echo a terminal; else echo none; fi";
    assert_eq!(output(shell(opens)).await, "none\n");
}

#[tokio::test]
async fn a_missing_program_is_not_found() {
    for program in ["no-such-program", "/no/such/program", "./no-such-program"] {
        assert_eq!(fault(Stdio::new("test", program)).await, Fault::NotFound { program: program.into() });
    }
}

#[tokio::test]
async fn a_directory_or_a_plain_file_cannot_be_run() {
    let text = fault(Stdio::new("test", "/tmp")).await.to_string();
    assert_eq!(text, "the program \"/tmp\" cannot be run: it is a directory");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "hello").unwrap();
    let text = fault(Stdio::new("test", &file)).await.to_string();
    assert!(text.ends_with("cannot be run: permission denied"), "{text}");
}

#[tokio::test]
async fn a_script_whose_interpreter_is_missing_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    self::script(&script, "#!/no/such/python3 -u\n", "755");
    let by_path = fault(Stdio::new("test", &script)).await;
    let by_name = fault(Stdio::new("test", "script").variable("PATH", folder.path())).await;
    for fault in [by_path, by_name] {
        let Fault::NotExecutable { reason, .. } = fault else { panic!("{fault:?}") };
        assert_eq!(reason, "its interpreter \"/no/such/python3\" was not found");
    }
}

#[tokio::test]
async fn a_bad_working_directory_is_told_from_a_missing_program() {
    for (path, reason) in [("/no/such", "no such file or directory"), ("/dev/null", "it is not a directory")]
    {
        let fault = fault(Stdio::new("test", "cat").directory(path)).await;
        assert_eq!(fault, Fault::BadDirectory { path: path.into(), reason: reason.into() });
    }
    let fault = fault(Stdio::new("test", "no-such-program").directory("/")).await;
    assert_eq!(fault, Fault::NotFound { program: "no-such-program".into() });
}

#[tokio::test]
async fn a_nul_byte_is_refused() {
    let cat = || Stdio::new("test", "cat");
    let everywhere = [
        Stdio::new("test", "c\0t"),
        cat().args(["a\0b"]),
        cat().variable("A", "1\x002"),
        cat().variable("A\0B", "1"),
        cat().directory("/tmp\0/"),
    ];
    for server in everywhere {
        let fault = fault(server).await;
        assert!(matches!(fault, Fault::NotExecutable { .. }), "{fault:?}");
    }
}

#[tokio::test]
async fn a_server_whose_opening_nobody_awaits_any_more_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let server = shell("echo $$ > \"$FILE.$$\"; mv \"$FILE.$$\" \"$FILE\"; exec sleep 100");
    for _ in 0..20 {
        let mut opening = server.clone().variable("FILE", &file).open(Epoch(1));
        assert!(futures_once(&mut opening).await.is_none());
        drop(opening);
    }
    // Some were killed before they could write; whoever did write is gone.
    until(|| fs::read_to_string(&file).map_or(true, |text| !runs(pid(&text)))).await;
}

/// Polls once.
async fn futures_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    tokio::select! { biased; value = future => Some(value), () = std::future::ready(()) => None }
}

/// Written by another process: what we had open for writing, a server that another test starts meanwhile would have as well, until its exec.
fn script(path: &Path, text: &str, mode: &str) {
    let write = r#"printf %s "$2" > "$1" && chmod "$3" "$1""#;
    let mut command = std::process::Command::new("sh");
    assert!(
        command
            .args(["-c", write, "sh"])
            .args([path, text.as_ref(), mode.as_ref()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn its_arguments_and_environment_are_not_shown() {
    let server = Stdio::new("test", "cat").args(["--token=secret"]).variable("TOKEN", "secret");
    assert!(!format!("{server:?}").contains("secret"));
}
