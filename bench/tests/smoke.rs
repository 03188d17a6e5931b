//! One short run with everything that needs no other executable.

#![allow(clippy::unwrap_used)] // This is a test.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn the_echo_server_lists_as_many_tools_as_it_is_told_and_updates_what_is_subscribed_to() {
    let mut echo = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["echo", "--tools", "3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let requests = "{\"id\":1,\"method\":\"tools/list\"}\n{\"id\":2,\"method\":\"resources/subscribe\"}\n";
    echo.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
    let output = echo.wait_with_output().unwrap();
    let answers: Vec<Value> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().map(Result::unwrap).collect();
    let names: Vec<&Value> =
        answers[0]["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["echo", "echo-1", "echo-2"]);
    assert_eq!(answers[1]["id"], 2);
    assert_eq!(answers[2]["method"], "notifications/resources/updated");
}

#[test]
fn a_short_run_measures_and_checks_every_contestant_in_every_shape() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("not/there");
    let arguments = "--only direct,pump,relay,library --sizes 100 --in-flight 3 --eras legacy,modern --formats json,sse \
                     --rounds 1 --time 5 --calls-only --output";
    let run = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(arguments.split_whitespace())
        .arg(&folder)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let results = std::fs::read(folder.join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    // In both eras: four on pipes only, the relay from HTTP to a pipe, and over HTTP, in both formats, two, and the relay and the library.
    let rows = results["calls"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * (4 + 1 + 2 * (2 + 2)), "{results}");
    for row in rows {
        let calls = row["rounds"][0]["callsPerSecond"].as_f64().unwrap();
        assert!(calls > 0.0, "{row}");
        let has_cpu = row["rounds"][0]["cpuUsPerCall"].is_number();
        assert_eq!(has_cpu, row["contestant"] != "direct", "{row}");
    }
    let chart = std::fs::read_to_string(folder.join("cpu.svg")).unwrap();
    assert!(chart.ends_with("</svg>\n"));
    assert!(std::fs::read_to_string(folder.join("results.md")).unwrap().contains("## stdio -> stdio"));
}
