//! Scenario 43 and SECURITY 15: a secret is planted everywhere it may be, and looked for everywhere it must not be.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::evidence::{children_of, command_line};
use crate::guest::{ERAS, Guest};
use crate::house::{House, Place, chaos, done, remote};
use crate::recorder::Recorder;

const SECRETS: [&str; 7] = [
    "env-5ecret-horse",
    "plain-5ecret-horse",
    "header-5ecret-horse",
    "query-5ecret-horse",
    "userinfo-5ecret-horse",
    "token-5ecret-horse",
    "arg-5ecret-horse",
];

fn assert_unseen(place: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} in {place}: {text}");
    }
}

/// Everything below this folder.
fn search(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => search(&path),
            path => assert_unseen(
                &path.display().to_string(),
                &String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()),
            ),
        }
    }
}

fn look_everywhere(place: &Place, house: &House) {
    let bearer = ("Authorization", &*place.operator(house));
    for accept in ["application/json", "text/html"] {
        let (status, page) = house.page("/status", &[bearer, ("Accept", accept)]);
        assert_eq!(status, 200);
        assert!(page.contains("talks"), "{page}");
        assert_unseen(accept, &page);
    }
    for path in ["/metrics", "/readyz", "/livez"] {
        assert_unseen(path, &house.page(path, &[bearer]).1);
    }
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["logs", "talks"],
        &["logs", "fails"],
        &["logs", "far"],
        &["logs", "wrong"],
    ] {
        let mut command = place.command(words);
        let (_, said, log) = done(command.env("REGROW_URL", house.url()));
        assert!(!said.is_empty(), "{words:?}: {log}");
        assert_unseen(&words.join(" "), &(said + &log));
    }
    let mut family = children_of(house.pid());
    family.push(house.pid());
    for pid in family {
        let line = command_line(pid);
        if !line.contains("--api-key") {
            assert_unseen("an argument", &line); // Only where the operator put it.
        }
    }
    assert_unseen("the log", &house.log().join("\n"));
    search(&place.path("cache"));
}

#[test]
fn scenario_43_a_secret_is_in_no_log_error_metric_page_argument_or_file() {
    let recorder = Recorder::start();
    let url =
        recorder.url.replace("http://", "http://user:userinfo-5ecret-horse@") + "?key=query-5ecret-horse";
    let nowhere = "http://user:userinfo-5ecret-horse@127.0.0.1:9/mcp?key=query-5ecret-horse";
    let header = json!({ "X-Key": "header-5ecret-horse" });
    let args = json!(["-c", "exec \"$0\" chaos-server", crate::house::REGROW, "--api-key=arg-5ecret-horse"]);
    let place = Place::new([
        (
            "talks",
            chaos("refuse-discover log-secret=CHAOS_SECRET log-secret=PLAIN")
                .variable("CHAOS_SECRET", "${SECRET_OF_OURS}")
                .variable("PLAIN", "plain-5ecret-horse"),
        ),
        (
            "fails",
            chaos("refuse-discover log-secret=PLAIN exit-at-start=3")
                .variable("PLAIN", "plain-5ecret-horse")
                .option("budget", "1/60"),
        ),
        ("argued", chaos("refuse-discover").member("command", "sh").member("args", args)),
        ("far", remote(&url).member("headers", header.clone())),
        ("wrong", remote(nowhere).member("headers", header).option("budget", "1/60")),
    ])
    .variable("SECRET_OF_OURS", "env-5ecret-horse")
    .variable("TOKEN", "token-5ecret-horse")
    .options(&["--token-env", "TOKEN", "--log-level", "debug"]);
    let house = place.start();
    for era in ERAS {
        let mut guest = Guest::new(&house, era).token("token-5ecret-horse");
        assert_unseen("the greeting", &guest.greet().to_string());
        let list = guest.request("tools/list", json!({}));
        assert!(list.to_string().contains("far__say"), "{list}");
        assert_unseen("a list", &list.to_string());
        // A server may say to its client what it likes; but it is written down nowhere.
        let answer = guest.request("tools/call", json!({ "name": "talks__secret", "arguments": {} }));
        assert!(answer.to_string().contains("env-5ecret-horse"), "handed on as it is: {answer}");
        assert_eq!(guest.call("far__say", json!({ "x": "plain-5ecret-horse" })), "said");
        for (tool, arguments) in [
            ("talks__die", json!({ "key": "plain-5ecret-horse" })),
            ("fails__echo", json!({})),
            ("wrong__echo", json!({})),
        ] {
            let (said, fault) = guest.failing_call(tool, arguments);
            assert_unseen(tool, &format!("{said} {fault}"));
        }
    }
    assert!(recorder.heads().contains("x-key: header-5ecret-horse"), "the server itself gets it");
    look_everywhere(&place, &house);
    // Nor is it said while it ends, or by a file that is wrong.
    place.write_config(r#"{ "mcpServers": { "talks": { "command": "x", "env": { "A": ["plain-5ecret-horse"] }, "regrow": { "callTimeout": "soon" } } } }"#);
    house.wait_for_log("not served");
    assert_unseen("the log", &house.log().join("\n"));
    house.end();
    search(&place.path("cache"));
}
