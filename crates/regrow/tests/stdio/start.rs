//! Starting: what a server gets, and why it does not start.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;

use regrow::transport::Transport as _;
use regrow::transport::stdio::{Environment, Stdio};
use regrow_core::{Epoch, Fault};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
    fs::write(&script, "#!/no/such/python3 -u\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
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
async fn a_nul_byte_in_an_argument_is_refused() {
    let fault = fault(Stdio::new("test", "cat").args(["a\0b"])).await;
    assert!(matches!(fault, Fault::NotExecutable { .. }), "{fault:?}");
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

#[test]
fn its_arguments_and_environment_are_not_shown() {
    let server = Stdio::new("test", "cat").args(["--token=secret"]).variable("TOKEN", "secret");
    assert!(!format!("{server:?}").contains("secret"));
}
