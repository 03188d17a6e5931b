//! `regrow demo`, as a person, a machine and an impatient reader see it.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

const ACTS: [&str; 7] = [
    "1  The server is killed while nothing runs",
    "2  It is killed while a call writes",
    "3  It hangs: alive, but silent",
    "4  It dies in a call that was declared safe",
    "5  It is killed, and ten calls arrive at that moment",
    "6  It is restarted on purpose, during a call",
    "7  It exits cleanly on its own",
];

#[test]
fn a_person_sees_each_fault_without_regrow_and_then_with_it() {
    let stage = Stage::new();
    let output = stage.demo(&[]).output().unwrap();
    let story = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{story}");
    let mut rest = &*story;
    for act in &ACTS[..3] {
        for part in [*act, "without regrow\n", "lost", "with regrow\n", "kept"] {
            let Some((_, after)) = rest.split_once(part) else {
                panic!("no {part:?} after {act:?} in:\n{story}")
            };
            rest = after;
        }
    }
    assert!(!story.contains(ACTS[3]), "{story}");
    assert!(story.contains("no response: the connection is closed"), "{story}");
    assert!(story.contains("; the call still hangs"), "{story}");
    let unwrapped = story.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("It may have run; check before repeating it."), "{story}");
    assert!(story.contains("Every promise was kept."), "{story}");
    assert!(story.contains("regrow wrap -- your-server"), "{story}");
    assert!(!story.contains('\x1b'), "colour in a pipe:\n{story}");
    let too_long: Vec<_> = story.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(too_long.is_empty(), "{too_long:?}");
    assert_eq!(text(&output.stderr), "");
    stage.assert_nothing_left();
}

#[test]
fn a_machine_reads_the_numbers() {
    let stage = Stage::new();
    // What a user has set for servers of their own must not change the demo.
    let output = stage
        .demo(&["--json", "--all"])
        .env("REGROW_CALL_TIMEOUT", "1ms")
        .env("CHAOS", "never-answer")
        .output()
        .unwrap();
    let Output { status, stdout, stderr } = &output;
    assert_eq!(status.code(), Some(0), "{}", text(stderr));
    let summary: Value = serde_json::from_slice(stdout).unwrap();
    assert_eq!(summary["deaths"], json!({ "killed": 4, "hung": 1, "planned": 1, "retired": 1 }));
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["ran_twice"], 0);
    assert_eq!(summary["orphans"], if cfg!(target_os = "linux") { json!(0) } else { Value::Null });
    assert_eq!(summary["broken"], json!([]));
    for times in ["noticed_ms", "recovered_ms"] {
        assert_eq!(summary[times]["all"].as_array().map(Vec::len), Some(4), "{summary}");
        assert!(summary[times]["median"].as_f64() <= summary[times]["worst"].as_f64(), "{summary}");
    }
    assert!(ACTS.iter().all(|act| text(stderr).contains(act)), "the story is told beside");
    // Only the first call is answered: before the first death.
    assert_eq!(summary["without_regrow"], json!({ "calls": 5, "lost": 4 }), "{summary}");
    stage.assert_nothing_left();
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let stage = Stage::new();
    let mut demo = stage.start();
    read_until(&mut demo, ACTS[0]);
    let (code, errors) = end_of(demo);
    assert_eq!(code, Some(0));
    assert_eq!(errors, "");
    stage.assert_nothing_left();
}

#[test]
fn an_interrupt_ends_everything_it_started() {
    let stage = Stage::new();
    let mut demo = stage.start();
    let story = read_until(&mut demo, "SIGSTOP"); // Without Regrow: nobody but the demo ends this server.
    kill(demo.id(), Signal::INT);
    let (code, _) = end_of(demo);
    assert_eq!(code, Some(130));
    drop(story);
    stage.assert_nothing_left();
}

#[cfg(target_os = "linux")]
#[test]
fn a_broken_promise_is_named_and_fails() {
    let stage = Stage::new();
    let mut demo = stage.start();
    let mut story = read_until(&mut demo, ACTS[2]);
    let wrap = stage.marked().into_iter().find(|pid| command_line(*pid).contains("\0wrap\0")).unwrap();
    kill(wrap, Signal::KILL);
    let mut rest = String::new();
    story.read_to_string(&mut rest).unwrap();
    let (code, _) = end_of(demo);
    assert_eq!(code, Some(1), "{rest}");
    assert!(rest.contains("BROKEN"), "{rest}");
    assert!(rest.contains("`regrow wrap` outlives its servers"), "{rest}");
    stage.assert_nothing_left();
}

/// A folder for temporary files, and a mark on every process.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage { folder: TempDir::new().unwrap() }
    }

    fn demo(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regrow"));
        command.arg("demo").args(options).env("TMPDIR", self.folder.path()).stdin(Stdio::null());
        command
    }

    fn start(&self) -> Child {
        self.demo(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The processes that were told our folder, where there is a `/proc` to tell. Zombies have no environment.
    fn marked(&self) -> Vec<u32> {
        let wanted = format!("TMPDIR={}", self.folder.path().display()).into_bytes();
        let processes = fs::read_dir("/proc").into_iter().flatten();
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let carries = |pid: &u32| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|part| part == wanted))
        };
        pids.filter(carries).collect()
    }

    fn assert_nothing_left(&self) {
        let files: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.is_empty(), "{files:?}");
        let left: Vec<_> = self.marked().into_iter().map(command_line).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Reads the story up to this line. Dropping what it returns is leaving.
fn read_until(demo: &mut Child, part: &str) -> impl BufRead + use<> {
    let mut story = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert_ne!(story.read_line(&mut line).unwrap(), 0, "the story ended before {part:?}");
    }
    story
}

/// The exit code, which must come soon, and what was said on stderr.
fn end_of(mut demo: Child) -> (Option<i32>, String) {
    let began = Instant::now();
    let status = loop {
        match demo.try_wait().unwrap() {
            Some(status) => break status,
            None if began.elapsed() > Duration::from_secs(15) => {
                demo.kill().unwrap();
                panic!("it does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut errors = String::new();
    demo.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    (status.code(), errors)
}

fn command_line(pid: u32) -> String {
    text(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
