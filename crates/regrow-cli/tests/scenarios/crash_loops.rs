//! Scenarios 6 to 8 and 51: the server cannot be started, or never for long.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup, fault, text};
use crate::evidence::{children_of, open_files, processor_time, slack, wait_until, zombies_of};

#[test]
fn scenario_06_a_crash_loop_is_paced_then_parked_and_a_call_wakes_it() {
    let mut client = Setup::plan("crash-after-handshake").connect();
    client.wait_for_log(0, "parked: too many faults");
    // Five faults are borne; the sixth parks.
    assert_eq!(client.journal.starts(), 6);
    let notices = client.notices();
    let pauses: Vec<f64> =
        notices.iter().filter_map(|notice| pause(notice)).filter(|pause| *pause > 0.1).collect();
    assert_eq!(pauses.len(), 4, "{notices:?}");
    for (pause, meant) in pauses.iter().zip([0.25, 0.5, 1.0, 2.0]) {
        assert!((meant * 0.8 - 0.01..=meant * 1.2 + 0.01).contains(pause), "{pauses:?}");
    }
    let faults = notices.iter().filter(|notice| notice.contains("exited with code 1")).count();
    assert_eq!(faults, 6, "{notices:?}");
    // Per session: it starts, is ready, ends, and the next comes after a pause.
    assert!(notices.len() <= 6 * 4 + 1, "{notices:?}");
    let repeated = notices.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(repeated, None, "one line per change of state");

    let before = processor_time(client.pid());
    thread::sleep(Duration::from_secs(2));
    let used = processor_time(client.pid()) - before;
    assert!(used < Duration::from_millis(100), "5 % of 2 s are 100 ms; used: {used:?}");
    assert_eq!((client.journal.starts(), client.notices().len()), (6, notices.len()), "parked is quiet");

    client.journal.set_control("!crash-after-handshake").unwrap();
    assert_eq!(client.call("count", json!({ "key": "a" })), "1");
    assert_eq!((client.journal.starts(), client.journal.requests("tools/call")), (7, 1));
    client.leave_cleanly();
}

#[test]
fn scenario_06_calls_to_a_crash_loop_end_and_start_it_once_a_second_at_most() {
    let mut client = Setup::plan("crash-after-handshake").options(&["--call-timeout", "3s"]).connect();
    client.wait_for_log(0, "parked: too many faults");
    let (starts, began) = (client.journal.starts(), Instant::now());
    let ids: Vec<u64> = (0..20).map(|_| client.begin_call("count", json!({ "key": "a" }))).collect();
    for id in ids {
        let (text, fault) = client.failure(id);
        assert!(text.contains("exited with code 1"), "{text}");
        assert_eq!(fault["server"], "chaos");
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5) + slack(), "{took:?}");
    let more = client.journal.starts() - starts;
    assert!(more <= took.as_secs() as usize + 2, "{more} starts in {took:?}");
    assert_eq!(client.journal.runs("count"), 0);
    client.leave_cleanly();
}

#[test]
fn scenario_07_a_program_that_cannot_be_run_is_tried_once_and_named() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("plain"), "#!/bin/sh\n").unwrap();
    fs::write(path("orphan"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(path("orphan"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(path("folder")).unwrap();

    cannot_run(Setup::plan("").command(&[&path("missing")]), "not-found", &[&path("missing"), "not found"]);
    cannot_run(
        Setup::plan("").command(&["no-such-program-anywhere"]),
        "not-found",
        &["no-such-program-anywhere"],
    );
    cannot_run(
        Setup::plan("").command(&[&path("plain")]),
        "not-executable",
        &[&path("plain"), "permission denied"],
    );
    cannot_run(
        Setup::plan("").command(&[&path("orphan")]),
        "not-executable",
        &[&path("orphan"), "/no/such/interpreter"],
    );
    cannot_run(
        Setup::plan("").command(&[&path("folder")]),
        "not-executable",
        &[&path("folder"), "a directory"],
    );
    cannot_run(Setup::plan("").options(&["--cwd", &path("gone")]), "bad-directory", &[&path("gone")]);
    cannot_run(Setup::plan("").options(&["--cwd", &path("plain")]), "bad-directory", &[&path("plain")]);
}

fn cannot_run(setup: Setup, cause: &str, said: &[&str]) {
    let mut client = setup.start();
    for round in 1..=2 {
        let began = Instant::now();
        let id = client.ask("initialize", hello());
        let answer = client.answer(id);
        assert!(began.elapsed() < Duration::from_secs(1) + slack(), "{cause}: {:?}", began.elapsed());
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        let text = text(&answer);
        assert!(text.starts_with("chaos: "), "{text}");
        assert!(said.iter().all(|said| text.contains(said)), "{said:?} in {text}");
        assert!(text.contains("It did not run."), "{text}");
        assert!(text.contains("Retrying will not help until this is fixed"), "{text}");
        let fault = fault(&answer);
        assert_eq!(
            (&fault["cause"], &fault["delivery"]),
            (&json!(cause), &json!("not-sent")),
            "request {round}"
        );
        assert!(
            fault["retryAfterMs"].as_u64().is_some_and(|wait| (8_000..=10_000).contains(&wait)),
            "{fault}"
        );
    }
    client.wait_for_log(0, "parked");
    let notices = client.notices();
    let count = |part: &str| notices.iter().filter(|notice| notice.contains(part)).count();
    assert_eq!((count("starting the server"), count("parked")), (1, 1), "{notices:?}");
    assert!(notices.iter().any(|notice| said.iter().all(|said| notice.contains(said))), "{notices:?}");
    assert_eq!(zombies_of(client.pid()), [0; 0]);
    let (code, took) = client.leave();
    assert_eq!(code, Some(1));
    assert!(took < Duration::from_secs(2) + slack(), "{took:?}");
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn scenario_51_a_server_that_exits_at_start_is_reported_in_its_own_words_after_three_starts() {
    let folder = TempDir::new().unwrap();
    let starts = folder.path().join("starts");
    let script = format!("echo x >> {}; echo 'TOKEN missing' >&2; exit 1", starts.display());
    let mut client = Setup::plan("").command(&["sh", "-c", &script]).start();
    let id = client.ask("initialize", hello());
    let answer = client.answer(id);
    let count = fs::read_to_string(&starts).unwrap().lines().count();
    assert!((1..=3).contains(&count), "{count} starts");
    let text = text(&answer);
    assert!(text.starts_with("chaos: the server process exited with code 1"), "{text}");
    assert!(text.ends_with("\nTOKEN missing"), "{text}");
    let fault = fault(&answer);
    let told = (&fault["kind"], &fault["cause"], &fault["exitCode"], &fault["stderr"]);
    assert_eq!(told, (&json!("unavailable"), &json!("exited"), &json!(1), &json!(["TOKEN missing"])));
    // Whoever asks again is told at once, or after one more start.
    let id = client.ask("initialize", hello());
    assert_eq!(crate::client::fault(&client.answer(id))["exitCode"], 1);
    assert!(client.notices().len() < 30, "{:?}", client.notices());
    let (code, _) = client.leave();
    assert_eq!(code, Some(1));
    client.marked.assert_none_left(Duration::from_secs(5));
}

#[test]
fn scenario_08_handshakes_that_are_never_answered_end_at_their_limit_and_leave_nothing() {
    let attempts = if std::env::var_os("REGROW_LONG").is_some() { 50 } else { 20 };
    let mut client =
        Setup::plan("never-answer").options(&["--connect-timeout", "300ms", "--budget", "1000/180"]).start();
    let began = Instant::now();
    let answer = client.request("initialize", hello());
    let took = began.elapsed();
    assert!((Duration::from_millis(280)..Duration::from_secs(2) + slack()).contains(&took), "{took:?}");
    assert!(text(&answer).starts_with("chaos: the handshake timed out after 0.3 s"), "{answer}");
    let fault = fault(&answer);
    assert_eq!(fault["cause"], "handshake-timeout", "{fault}");
    // On a busy machine it may not even have read the request.
    assert!(["unknown", "not-sent"].contains(&fault["delivery"].as_str().unwrap()), "{fault}");

    let mut files = vec![];
    while client.journal.starts() < attempts {
        let began = Instant::now();
        let answer = client.request("initialize", hello());
        assert!(began.elapsed() < Duration::from_secs(2) + slack(), "{:?}", began.elapsed());
        assert_eq!(
            answer["error"]["code"], -31003,
            "a timeout, whether it reached a server or not: {answer}"
        );
        // The next one may be there already, and wait for its client to speak.
        let asked = client.journal.requests("initialize");
        assert!(asked <= client.journal.starts(), "none is asked twice: {:?}", client.journal.lines());
        wait_until("all but the next are gone", PATIENCE, || {
            let alive = client.journal.alive().len();
            let children = children_of(client.pid()).len(); // The guard, and the next server.
            alive + asked <= client.journal.starts() && zombies_of(client.pid()).is_empty() && children <= 2
        });
        files.push(open_files(client.pid()));
    }
    // While the next one is being started there are a few more.
    let quietest = |files: &[usize]| files.iter().min().copied();
    let (first, last) = files.split_at(files.len() / 2);
    assert_eq!(quietest(first), quietest(last), "open files: {files:?}");
    let started = |notice: &&String| notice.starts_with("starting the server");
    assert!(client.notices().iter().filter(started).count() >= attempts);

    client.journal.set_control("!never-answer").unwrap();
    let mended = Instant::now();
    while client.request("initialize", hello()).get("error").is_some() {
        assert!(mended.elapsed() < PATIENCE, "log:\n{}", client.log().join("\n"));
    }
    client.notify("notifications/initialized", json!({}));
    assert_eq!(client.call("echo", json!({ "text": "usable" })), "usable");
    client.leave_cleanly();
}

#[test]
fn demand_a_server_that_can_start_again_is_back_with_the_next_call() {
    let mut client = Setup::plan("").connect();
    client.wait_for_session(1);
    client.journal.set_control("exit-at-start=3").unwrap();
    client.kill_server();
    let broken = Instant::now();
    while broken.elapsed() < Duration::from_secs(8) {
        let began = Instant::now();
        let (text, fault) = client.failing_call("count", json!({ "key": "a" }));
        assert!(began.elapsed() < Duration::from_secs(3) + slack(), "{:?}", began.elapsed());
        assert!(text.starts_with("chaos: the server process exited with code 3"), "{text}");
        assert!(text.contains("(count). It did not run."), "{text}");
        assert!(text.contains("exits at start, as planned"), "its stderr tells why: {text}");
        assert_eq!((&fault["kind"], &fault["exitCode"]), (&json!("unavailable"), &json!(3)));
        assert_eq!(fault["delivery"], "not-sent");
        thread::sleep(Duration::from_millis(300)); // The pace of a patient caller.
    }
    let starts = client.journal.starts();
    assert!(starts <= 16, "{starts} starts in {:?}", broken.elapsed());
    client.journal.set_control("").unwrap();
    let mended = Instant::now();
    loop {
        let id = client.begin_call("count", json!({ "key": "a" }));
        let answer = client.answer(id);
        if text(&answer) == "1" {
            break;
        }
        assert!(mended.elapsed() < Duration::from_secs(2) + slack(), "{answer}");
    }
    assert!(mended.elapsed() < Duration::from_secs(2) + slack(), "{:?}", mended.elapsed());
    assert_eq!((client.journal.runs("count"), client.journal.requests("tools/call")), (1, 1));
    client.leave_cleanly();
}

fn hello() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "s", "version": "1" } })
}

/// The seconds of `next attempt in N s`.
fn pause(notice: &str) -> Option<f64> {
    notice.strip_prefix("next attempt in ")?.strip_suffix(" s")?.parse().ok()
}
