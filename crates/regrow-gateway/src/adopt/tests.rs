//! Configurations of real hosts, put behind regrow and back.

use super::*;

const PROGRAM: &str = "/opt/bin/regrow";

/// One with the members of Claude Code and of VS Code.
fn file() -> &'static Path {
    Path::new("servers.json")
}

/// Adopts, checks that undoing gives the same bytes and that adopting twice changes nothing, and returns the text.
fn there_and_back(text: &str) -> String {
    let adopted = adopt(file(), text, PROGRAM, None).unwrap().text;
    assert!(document::parse(&adopted).is_ok(), "{adopted}");
    assert!(adopt(file(), &adopted, PROGRAM, None).unwrap().is_empty(), "{adopted}");
    let back = undo(file(), &adopted, PROGRAM, None).unwrap().text;
    assert_eq!(back, text, "by way of\n{adopted}");
    assert!(undo(file(), text, PROGRAM, None).unwrap().is_empty());
    adopted
}

fn outcomes(plan: &Plan) -> Vec<(&str, &Outcome)> {
    plan.steps.iter().map(|step| (&*step.server, &step.outcome)).collect()
}

fn refusal(entry: &str) -> String {
    let text = format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}");
    let plan = adopt(file(), &text, PROGRAM, None).unwrap();
    assert!(plan.is_empty());
    match &plan.steps[0].outcome {
        Outcome::Refused(why) => why.clone(),
        other => panic!("{entry}: {other:?}"),
    }
}

#[test]
fn claude_desktop() {
    let adopted = there_and_back(
        r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": [
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/ann/Desktop"
      ],
      "env": { "TOKEN": "s3cr3t" }
    },
    "time": {
      "command": "uvx",
      "args": ["mcp-server-time"]
    },
    "bare": {
      "command": "/usr/local/bin/bare-server"
    }
  }
}
"#,
    );
    let expected = r#"{
  "globalShortcut": "",
  "mcpServers": {
    "filesystem": {
      "command": "/opt/bin/regrow",
      "args": [
        "wrap",
        "--",
        "npx",
        "-y",
        "@modelcontextprotocol/server-filesystem",
        "/Users/ann/Desktop"
      ],
      "env": { "TOKEN": "s3cr3t" }
    },
    "time": {
      "command": "/opt/bin/regrow",
      "args": ["wrap", "--", "uvx", "mcp-server-time"]
    },
    "bare": {
      "command": "/opt/bin/regrow",
      "args": [ "wrap", "--", "/usr/local/bin/bare-server" ]
    }
  }
}
"#;
    assert_eq!(adopted, expected);
}

#[test]
fn vs_code_with_comments_tabs_and_crlf() {
    let text = "{\r\n\t// What we ask for.\r\n\t\"inputs\": [{ \"id\": \"k\" }],\r\n\t\"servers\": {\r\n\
                \t\t\"a\": {\r\n\t\t\t\"type\": \"stdio\", /* here */\r\n\t\t\t\"command\": \"${workspaceFolder}/run\", // it\r\n\
                \t\t\t\"args\": [\r\n\t\t\t\t// first\r\n\t\t\t\t\"--k=${input:k}\",\r\n\t\t\t],\r\n\t\t},\r\n\
                \t\t\"b\": {\r\n\t\t\t\"command\": \"b\"\r\n\t\t},\r\n\
                \t\t\"c\": {\r\n\t\t\t\"url\": \"https://c/mcp\",\r\n\t\t\t\"type\": \"http\"\r\n\t\t},\r\n\t},\r\n}\r\n";
    let adopted = there_and_back(text);
    assert!(adopted.contains("\t\t\t\"command\": \"/opt/bin/regrow\", // it\r\n"), "{adopted}");
    assert!(adopted.contains(
        "// first\r\n\t\t\t\t\"wrap\",\r\n\t\t\t\t\"--\",\r\n\t\t\t\t\"${workspaceFolder}/run\",\r\n"
    ));
    assert!(adopted.contains(
        "\t\t\t\"command\": \"/opt/bin/regrow\",\r\n\t\t\t\"args\": [ \"wrap\", \"--\", \"b\" ]\r\n"
    ));
    let c = "\t\t\t\"command\": \"/opt/bin/regrow\",\r\n\t\t\t\"args\": [\"wrap\", \"https://c/mcp\"],\r\n\
             \t\t\t\"env\": { \"REGROW_ADOPTED\": \"url http\" },\r\n\t\t\t\"type\": \"stdio\"\r\n";
    assert!(adopted.contains(c), "{adopted}");
    assert!(!adopted.replace("\r\n", "").contains('\n'));
}

#[test]
fn claude_code_and_its_projects() {
    let text = r#"{"numStartups":3,"projects":{"/home/ann/shop":{"mcpServers":{"db":{"type":"stdio","command":"db","args":[],"env":{}}}}},"mcpServers":{"x":{"command":"x","args":["1"]}}}"#;
    let adopted = there_and_back(text);
    assert!(
        adopted.contains(r#""db":{"type":"stdio","command":"/opt/bin/regrow","args":["wrap", "--", "db"],"#),
        "{adopted}"
    );
    assert!(
        adopted.contains(r#""x":{"command":"/opt/bin/regrow","args":["wrap", "--", "x", "1"]}"#),
        "{adopted}"
    );
}

#[test]
fn remote_servers_in_every_form() {
    let entries = [
        r#"{ "url": "https://h/mcp" }"#,
        r#"{"url":"https://h/mcp","type":"sse"}"#,
        r#"{ "serverUrl" : "https://h/mcp", "transport" : "streamable-http" }"#,
        r#"{ "httpUrl": "https://h/mcp?key=s3cr3t" }"#,
        r#"{ "url": "https://${HOST}/mcp", "disabled": false }"#,
        r#"{ "type": "http", "url": "https://h/mcp", "headers": { "Authorization": "Bearer s3cr3t\"x" } }"#,
        r#"{ "headers": {}, "url": "https://h/mcp" }"#,
        r#"{ "headers": { /* none */ }, "url": "https://h/mcp?key=s3cr3t", }"#,
        "{\n  \"url\": \"https://u:s3cr3t@h/mcp\",\n  \"headers\": {\n    // mine\n    \"X-Key\": \"s3cr3t\",\n  },\n}",
    ];
    for entry in entries {
        let text = format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}");
        let adopted = there_and_back(&text);
        let plan = adopt(file(), &text, PROGRAM, None).unwrap();
        assert!(!plan.difference(&text).contains("s3cr3t"), "{}", plan.difference(&text));
        let back = undo(file(), &adopted, PROGRAM, None).unwrap().difference(&adopted);
        assert!(!back.contains("s3cr3t"), "{back}");
        let (_tree, servers) = parse(file(), &adopted).unwrap();
        let entry = servers[0].entry().unwrap();
        let args = entry.args.unwrap().list.to_string();
        assert!(!args.contains("s3cr3t") && !args.contains("${"), "{args}");
    }
    let text = r#"{ "mcpServers": { "a": { "type": "http", "url": "https://h/mcp", "headers": { "X-Key": "v" } } } }"#;
    let expected = r#"{ "mcpServers": { "a": { "type": "stdio", "command": "/opt/bin/regrow", "args": ["wrap", "https://h/mcp"], "env": { "REGROW_ADOPTED": "url http headers", "REGROW_HEADER": "X-Key: v" } } } }"#;
    assert_eq!(there_and_back(text), expected);
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let several = r#"{ "url": "https://h", "headers": { "A": "s3cr3t", "B": "s3cr3t" } }"#;
    assert!(refusal(several).contains("--header-file FILE"));
    assert!(!refusal(several).contains("s3cr3t"));
    assert!(refusal(r#"{ "url": "https://h", "oauth": {} }"#).contains("signs in"));
    assert!(refusal(r#"{ "url": "https://h", "type": "ws" }"#).contains("its type"));
    assert!(refusal(r#"{ "url": "https://h", "command": "x" }"#).contains("keep one of them"));
    assert!(refusal(r#"{ "url": "https://h", "env": {} }"#).contains("correct it"));
    assert!(refusal(r#"{ "command": "x", "args": [1] }"#).contains("list of strings"));
    assert!(refusal(r#"{ "command": "x", "command": "y" }"#).contains("twice"));
    assert!(refusal("{}").contains("neither"));
    assert!(refusal("7").contains("not an object"));
    assert!(matches!(adopt(file(), "{", PROGRAM, None), Err(PlanError::Text { line: 1, .. })));
    assert_eq!(adopt(file(), "{}", PROGRAM, None).unwrap_err(), PlanError::NoServers);
    let text = r#"{ "servers": { "one": {}, "two\n": {} } }"#;
    let wrong = adopt(file(), text, PROGRAM, Some("three")).unwrap_err().to_string();
    assert_eq!(wrong, "no server has this name; there are one, two\\n");
}

#[test]
fn what_is_behind_regrow_already_is_left_and_what_a_person_wrote_is_not_undone() {
    let text = r#"{ "mcpServers": {
        "hand": { "command": "regrow", "args": ["wrap", "--", "x"] },
        "serve": { "command": "/usr/bin/regrow", "args": ["serve"] },
        "other": { "command": "/elsewhere/regrow", "args": ["wrap", "--call-timeout", "5s", "--", "y", "z"] },
        "bare": { "command": "/elsewhere/regrow", "args": ["wrap", "y", "--", "z"] } } }"#;
    let plan = adopt(file(), text, PROGRAM, None).unwrap();
    assert!(plan.is_empty());
    let undone = undo(file(), text, PROGRAM, None).unwrap();
    let expected = [
        ("hand", &Outcome::Left("it was put behind regrow by hand")),
        ("serve", &Outcome::Left("it is not behind regrow")),
        ("other", &Outcome::Changed),
    ];
    let mut others = outcomes(&undone);
    let bare = others.pop().unwrap();
    assert!(matches!(bare, ("bare", Outcome::Refused(_))), "dashes of its own are not ours: {bare:?}");
    assert_eq!(others, expected);
    assert!(undone.text.contains(r#""other": { "command": "y", "args": ["z"] }"#));
}

#[test]
fn one_server_alone() {
    let text = r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#;
    let plan = adopt(file(), text, PROGRAM, Some("b")).unwrap();
    assert_eq!(outcomes(&plan), [("b", &Outcome::Changed)]);
    assert!(plan.text.contains(r#""a": { "command": "a" }"#));
}

#[test]
fn a_remote_entry_that_was_changed_since_is_not_guessed_at() {
    let text = r#"{ "mcpServers": { "a": { "url": "https://h/mcp" } } }"#;
    let adopted = adopt(file(), text, PROGRAM, None).unwrap().text;
    let changed = adopted.replace("\"env\": { ", "\"env\": { \"MORE\": \"1\", ");
    let plan = undo(file(), &changed, PROGRAM, None).unwrap();
    assert!(matches!(plan.steps[0].outcome, Outcome::Refused(_)) && plan.is_empty(), "{:?}", plan.steps);
}

#[test]
fn the_difference_shows_changed_lines_and_no_secret() {
    let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"npx\", \"env\": { \"T\": \"s3cr3t\" },\n      \
                \"args\": [\"--token\", \"s3cr3t\", \"--key=s3cr3t\", \"x\u{202e}\"]\n    }\n  }\n}\n";
    let difference = adopt(file(), text, PROGRAM, None).unwrap().difference(text);
    let expected = "\
@@ line 3 @@
-    \"a\": { \"command\": \"npx\", \"env\": { \"T\": \"***\" },
-      \"args\": [\"--token\", \"***\", \"***\", \"x\\u{202e}\"]
+    \"a\": { \"command\": \"/opt/bin/regrow\", \"env\": { \"T\": \"***\" },
+      \"args\": [\"wrap\", \"--\", \"npx\", \"--token\", \"***\", \"***\", \"x\\u{202e}\"]
";
    assert_eq!(difference, expected);
}

/// Every way to lay a file out that people and programs have.
#[test]
fn any_layout_comes_back_byte_for_byte() {
    let mut changed = 0;
    for seed in 0..3000 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut text = String::from("{");
        let mut gap = |text: &mut String| {
            let gaps = ["", "", " ", "\n\t", "\r\n    ", "\n", " /* \"url\": [ */ ", " // it's }\n"];
            text.push_str(gaps[chance.usize(..gaps.len())]);
        };
        let mut chance = fastrand::Rng::with_seed(!seed);
        gap(&mut text);
        text.push_str("\"mcpServers\": {");
        for number in 0..chance.usize(1..4) {
            text.push_str(if number == 0 { "" } else { "," });
            gap(&mut text);
            text.push_str(&format!("\"s{number}\": {{"));
            let mut members = match chance.bool() {
                true => vec!["\"command\"\"npx\\u0041\"", "\"args\"[]", "\"env\"{}", "\"type\"\"stdio\""],
                false => vec![
                    "\"url\"\"https://h/x\"",
                    "\"headers\"{\"K\" :\"v\"}",
                    "\"type\"\"http\"",
                    "\"x\"[{}]",
                ],
            };
            chance.shuffle(&mut members[1..]);
            members.truncate(chance.usize(1..=members.len()));
            chance.shuffle(&mut members);
            let count = members.len();
            for (number, member) in members.into_iter().enumerate() {
                let split = member[1..].find('"').unwrap() + 2;
                gap(&mut text);
                text.push_str(&member[..split]);
                text.push_str([":", ": ", " : ", "/**/:"][chance.usize(..4)]);
                match &member[split..] {
                    "[]" => {
                        text.push('[');
                        for number in 0..chance.usize(..3) {
                            text.push_str(if number == 0 { "" } else { "," });
                            gap(&mut text);
                            text.push_str("\"--\"");
                        }
                        gap(&mut text);
                        text.push(']');
                    }
                    value => text.push_str(value),
                }
                gap(&mut text);
                text.push_str(if number + 1 < count || chance.bool() { "," } else { "" });
            }
            gap(&mut text);
            text.push('}');
        }
        text.push_str("}}");
        let caught = std::panic::catch_unwind(|| there_and_back(&text));
        assert!(caught.is_ok(), "seed {seed}:\n{text}");
        changed += usize::from(caught.is_ok_and(|adopted| adopted != text));
    }
    assert!(changed > 2000, "{changed}");
}

/// Whatever a file looks like, we do not stumble over it, and what we change we can undo.
#[test]
fn broken_files_are_refused_or_come_back_byte_for_byte() {
    let whole = r#"{"mcpServers":{"a":{"command":"x","args":["1", "2"],"env":{"K":"v"}},"b":{"url":"https://h/m?k",
        "type":"http","headers":{"A":"v"}},"c":{"command":"y"}},"projects":{"p":{"mcpServers":{"d":{"url":"http://h"}}}}}"#;
    let mut taken = 0;
    for seed in 0..5000 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..chance.usize(1..4) {
            let (at, to) = (chance.usize(..bytes.len()), chance.usize(..bytes.len()));
            match chance.u8(..4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, b"{}[]\",:x\\ \n/"[chance.usize(..12)]),
                2 => bytes.swap(at, to),
                _ => drop(bytes.splice(at..at, bytes[at.min(to)..at.max(to)].to_vec())),
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        let caught =
            std::panic::catch_unwind(|| adopt(file(), &text, PROGRAM, None).map(|_| there_and_back(&text)));
        assert!(caught.is_ok(), "seed {seed}:\n{text}");
        taken += usize::from(caught.is_ok_and(|adopted| adopted.is_ok()));
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn a_copy_is_spent_once_everything_in_it_is_back_in_the_file() {
    let original = r#"{ "n": 1, "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#;
    let one = adopt(file(), original, PROGRAM, Some("a")).unwrap().text;
    let both = adopt(file(), &one, PROGRAM, None).unwrap().text;
    assert!(is_spent(file(), original, original, PROGRAM) && is_spent(file(), &one, original, PROGRAM));
    assert!(!is_spent(file(), original, &one, PROGRAM), "a is still behind regrow");
    assert!(!is_spent(file(), &one, &both, PROGRAM));
    assert!(is_spent(file(), original, &original.replace("\"n\": 1", "\"n\": 2"), PROGRAM));
    assert!(!is_spent(file(), original, &original.replace("\"b\" }", "\"c\" }"), PROGRAM), "b was edited");
    assert!(!is_spent(file(), "precious", original, PROGRAM));
}

#[test]
fn a_command_that_is_a_list_comes_back_byte_for_byte() {
    let path = Path::new("opencode.json");
    let text = "{\n  \"mcp\": {\n    \"a\": { \"type\": \"local\", \"command\": [\"npx\", \"-y\", \"a\"], \"environment\": { \"T\": \"s3cr3t\" } },\n    \
                \"b\": {\n      \"command\": [\n        // it\n        \"b\",\n      ],\n      \"type\": \"local\",\n    },\n    \
                \"c\": { \"type\": \"remote\", \"url\": \"https://h/mcp\", \"enabled\": true },\n    \
                \"d\": { \"type\": \"remote\", \"url\": \"https://h/mcp\", \"headers\": { \"K\": \"s3cr3t\" } }\n  }\n}\n";
    let plan = adopt(path, text, PROGRAM, None).unwrap();
    let adopted = &plan.text;
    assert!(
        adopted.contains(r#""command": ["/opt/bin/regrow", "wrap", "--", "npx", "-y", "a"]"#),
        "{adopted}"
    );
    let c = r#"{ "type": "local", "command": ["/opt/bin/regrow", "wrap", "https://h/mcp"], "environment": { "REGROW_ADOPTED": "url remote" }, "enabled": true }"#;
    assert!(adopted.contains(c), "{adopted}");
    assert!(!plan.difference(text).contains("s3cr3t"), "{}", plan.difference(text));
    assert!(adopt(path, adopted, PROGRAM, None).unwrap().is_empty());
    assert_eq!(undo(path, adopted, PROGRAM, None).unwrap().text, text, "by way of\n{adopted}");
}

#[test]
fn a_server_in_a_sandbox_does_not_lose_it() {
    let why = refusal(r#"{ "command": "x", "regrow": { "sandbox": { "read": [] } } }"#);
    assert!(why.contains("run it behind `regrow serve`"), "{why}");
}
