//! Reports in files, and the list of scenarios.

use std::fs;

use crate::{chaos, fakes};

#[test]
fn a_report_is_written_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").to_string_lossy().into_owned();
    let command = fakes::command("plain");
    let mut words = vec!["client", "--scenario", "healthy", "--report", &path, "--name", "a <fake>", "--"];
    words.extend(command.iter().map(String::as_str));
    let output = chaos(&words);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("a <fake> (fake 1), a client with a server over stdio\n"), "{text}");
    let read = |name: &str| fs::read_to_string(format!("{path}/{name}")).unwrap();
    assert!(read("report.json").contains("\"verdict\": \"pass\""));
    assert!(read("report.xml").contains("<testsuite name=\"a &lt;fake&gt; (fake 1)"));
    assert!(read("report.html").contains("<title>a &lt;fake&gt; (fake 1)"));
}

#[test]
fn scenarios_are_listed_for_both_transports() {
    let output = chaos(&["scenarios"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("stdio\n  healthy"), "{text}");
    assert!(text.contains("\nhttp\n  healthy"), "{text}");
    assert!(text.lines().count() > 40, "{text}");
}
