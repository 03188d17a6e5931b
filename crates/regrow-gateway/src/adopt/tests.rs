//! Configurations of real hosts, put behind regrow and back.

use super::*;
use crate::hosts::HOSTS;

const PROGRAM: &str = "/opt/bin/regrow";

/// One with the members of Claude Code and of VS Code.
fn file() -> &'static Path {
    Path::new("servers.json")
}

/// Adopts, checks that undoing gives the same bytes and that adopting twice changes nothing, and returns the text.
fn there_and_back(text: &str) -> String {
    let adopted = adopt(file(), text, PROGRAM, &[]).unwrap().text;
    assert!(syntax::parse(file(), &adopted).is_ok(), "{adopted}");
    assert!(adopt(file(), &adopted, PROGRAM, &[]).unwrap().is_empty(), "{adopted}");
    let back = undo(file(), &adopted, PROGRAM, &[]).unwrap().text;
    assert_eq!(back, text, "by way of\n{adopted}");
    assert!(undo(file(), text, PROGRAM, &[]).unwrap().is_empty());
    adopted
}

fn outcomes(plan: &Plan) -> Vec<(&str, &Outcome)> {
    plan.steps.iter().map(|step| (&*step.server, &step.outcome)).collect()
}

fn refusal(entry: &str) -> String {
    let text = format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}");
    let plan = adopt(file(), &text, PROGRAM, &[]).unwrap();
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
        let plan = adopt(file(), &text, PROGRAM, &[]).unwrap();
        assert!(!plan.difference(&text).contains("s3cr3t"), "{}", plan.difference(&text));
        let back = undo(file(), &adopted, PROGRAM, &[]).unwrap().difference(&adopted);
        assert!(!back.contains("s3cr3t"), "{back}");
        let root = syntax::parse(file(), &adopted).unwrap();
        let entry =
            Entry::read(Source::new(file(), &adopted), &HOSTS[0], servers(&root, file())[0].value).unwrap();
        let args = &adopted[entry.args.as_ref().unwrap().list.start()..entry.args.unwrap().list.end()];
        assert!(!args.contains("s3cr3t") && !args.contains("${"), "{args}");
    }
    let text = r#"{ "mcpServers": { "a": { "type": "http", "url": "https://h/mcp", "headers": { "X-Key": "v" } } } }"#;
    let expected = r#"{ "mcpServers": { "a": { "type": "stdio", "command": "/opt/bin/regrow", "args": ["wrap", "https://h/mcp"], "env": { "REGROW_ADOPTED": "url http headers", "REGROW_HEADER": "X-Key: v" } } } }"#;
    assert_eq!(there_and_back(text), expected);
}

#[test]
fn the_settings_of_a_host_for_sign_in_become_options_and_come_back() {
    let text = r#"{ "mcpServers": { "a": { "type": "http", "url": "https://h/mcp", "oauth": { "clientId": "x", "callbackPort": 8080 } } } }"#;
    let adopted = there_and_back(text);
    let args = r#""args": ["wrap", "--client-id=x", "--callback-port=8080", "https://h/mcp"]"#;
    assert!(adopted.contains(args) && !adopted.contains("\"oauth\""), "{adopted}");
    for entry in [
        "{\n  \"oauth\": {\n    // mine\n    \"scopes\": [\"a\", \"b\"],\n    \"enabled\": true\n  },\n  \"url\": \"https://h/mcp?key=s3cr3t\"\n}",
        r#"{"url":"https://h/mcp","oauth":{}}"#,
        r#"{ "httpUrl": "https://h/mcp", "oauth" : { "clientId": "\u0061\"b", "scope": "a b" }, }"#,
    ] {
        there_and_back(&format!("{{ \"mcpServers\": {{ \"a\": {entry} }} }}"));
    }
    let more = adopted.replace("\"wrap\",", "\"wrap\", \"--no-cache\",");
    let plan = undo(file(), &more, PROGRAM, &[]).unwrap();
    assert!(plan.is_empty(), "an option that the user added would be lost: {:?}", plan.steps);
    for (settings, options) in [
        (
            r#""oauth": { "authServerMetadataUrl": "https://i/metadata", "scopes": "a b" }"#,
            r#""--auth-server-metadata-url=https://i/metadata", "--scope=a b""#,
        ),
        (r#""oauth": false"#, r#""--sign-in=never""#),
        // Cursor.
        (r#""auth": { "CLIENT_ID": "x", "scopes": ["a", "b"] }"#, r#""--client-id=x", "--scope=a b""#),
    ] {
        let adopted = there_and_back(&format!(
            r#"{{ "mcpServers": {{ "a": {{ "url": "https://h", {settings} }} }} }}"#
        ));
        assert!(adopted.contains(&format!(r#"["wrap", {options}, "https://h"]"#)), "{adopted}");
    }
    let text = "[mcp_servers.a]\nscopes = [\n  'a', # one\n  \"b\",\n]\nurl = \"https://h\"\n";
    let adopted = codex(text);
    assert!(adopted.contains(r#"args = ["wrap", "--scope=a b", "https://h"]"#), "{adopted}");
    let adopted = codex("[mcp_servers.a]\nurl = \"https://h\"\noauth = { client_id = \"x\" }\n");
    assert!(adopted.contains(r#"args = ["wrap", "--client-id=x", "https://h"]"#), "{adopted}");
}

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let several = r#"{ "url": "https://h", "headers": { "A": "s3cr3t", "B": "s3cr3t" } }"#;
    assert!(refusal(several).contains("--header-file FILE"));
    assert!(!refusal(several).contains("s3cr3t"));
    for own in [
        r#""oauth": { "clientId": "a", "clientSecret": "s3cr3t" }"#,
        r#""oauth": { "tokenUrl": "https://i" }"#,
        r#""oauth": { "clientId": "a" }, "headers": { "A": "b" }"#,
        r#""oauth": { "scope": "a", "scopes": ["a"] }"#,
        r#""oauth": true"#,
        r#""oauth": { "clientId": "a" }, "auth": {}"#,
        r#""auth": "oauth""#,
        r#""auth": { "CLIENT_ID": "a", "CLIENT_SECRET": "s3cr3t" }"#,
        r#""scopes": "a""#,
    ] {
        let refusal = refusal(&format!(r#"{{ "url": "https://h", {own} }}"#));
        assert!(refusal.contains("signs in") && !refusal.contains("s3cr3t"), "{own}: {refusal}");
        assert_eq!(refusal.contains("--client-secret-env NAME"), own.contains("s3cr3t"), "{own}: {refusal}");
    }
    assert!(refusal(r#"{ "url": "https://h", "type": "ws" }"#).contains("its type"));
    assert!(refusal(r#"{ "url": "https://h", "command": "x" }"#).contains("keep one of them"));
    assert!(refusal(r#"{ "url": "https://h", "env": {} }"#).contains("correct it"));
    assert!(refusal(r#"{ "command": "x", "args": [1] }"#).contains("list of strings"));
    assert!(refusal(r#"{ "command": "x", "command": "y" }"#).contains("twice"));
    assert!(refusal("{}").contains("neither"));
    assert!(refusal("7").contains("not an object"));
    assert!(matches!(adopt(file(), "{", PROGRAM, &[]), Err(PlanError::Text { line: 1, .. })));
    assert_eq!(adopt(file(), "{}", PROGRAM, &[]).unwrap_err(), PlanError::NoServers);
    let text = r#"{ "servers": { "one": {}, "two\n": {} } }"#;
    let wrong = adopt(file(), text, PROGRAM, &["three".into()]).unwrap_err().to_string();
    assert_eq!(wrong, "no server has this name; there are one, two\\n");
}

#[test]
fn what_is_behind_regrow_already_is_left_and_undo_takes_it_out_whoever_put_it_there() {
    let text = r#"{ "mcpServers": {
        "hand": { "command": "regrow", "args": ["wrap", "--", "x"] },
        "serve": { "command": "/usr/bin/regrow", "args": ["serve"] },
        "other": { "command": "/elsewhere/regrow", "args": ["wrap", "--call-timeout", "5s", "--", "y", "z"] },
        "bare": { "command": "/elsewhere/regrow", "args": ["wrap", "y", "--", "z"] } } }"#;
    let plan = adopt(file(), text, PROGRAM, &[]).unwrap();
    assert!(plan.is_empty());
    let undone = undo(file(), text, PROGRAM, &[]).unwrap();
    let expected = [
        ("hand", &Outcome::Changed),
        ("serve", &Outcome::Left("it is not behind regrow")),
        ("other", &Outcome::Changed),
    ];
    let mut others = outcomes(&undone);
    let bare = others.pop().unwrap();
    assert!(matches!(bare, ("bare", Outcome::Refused(_))), "dashes of its own are not ours: {bare:?}");
    assert_eq!(others, expected);
    assert!(undone.text.contains(r#""other": { "command": "y", "args": ["z"] }"#));
    assert!(undone.text.contains(r#""hand": { "command": "x", "args": [] }"#));
}

#[test]
fn one_server_alone() {
    let text = r#"{ "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#;
    let plan = adopt(file(), text, PROGRAM, &["b".into()]).unwrap();
    assert_eq!(outcomes(&plan), [("b", &Outcome::Changed)]);
    assert!(plan.text.contains(r#""a": { "command": "a" }"#));
}

#[test]
fn a_remote_entry_that_was_changed_since_is_not_guessed_at() {
    let text = r#"{ "mcpServers": { "a": { "url": "https://h/mcp" } } }"#;
    let adopted = adopt(file(), text, PROGRAM, &[]).unwrap().text;
    let changed = adopted.replace("\"env\": { ", "\"env\": { \"MORE\": \"1\", ");
    let plan = undo(file(), &changed, PROGRAM, &[]).unwrap();
    assert!(matches!(plan.steps[0].outcome, Outcome::Refused(_)) && plan.is_empty(), "{:?}", plan.steps);
}

#[test]
fn the_difference_shows_changed_lines_and_no_secret() {
    let text = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"npx\", \"env\": { \"T\": \"s3cr3t\" },\n      \
                \"args\": [\"--token\", \"s3cr3t\", \"--key=s3cr3t\", \"x\u{202e}\"]\n    }\n  }\n}\n";
    let difference = adopt(file(), text, PROGRAM, &[]).unwrap().difference(text);
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
            std::panic::catch_unwind(|| adopt(file(), &text, PROGRAM, &[]).map(|_| there_and_back(&text)));
        assert!(caught.is_ok(), "seed {seed}:\n{text}");
        taken += usize::from(caught.is_ok_and(|adopted| adopted.is_ok()));
    }
    assert!(taken > 500, "{taken}");
}

#[test]
fn a_copy_is_spent_once_everything_in_it_is_back_in_the_file() {
    let original = r#"{ "n": 1, "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" } } }"#;
    let one = adopt(file(), original, PROGRAM, &["a".into()]).unwrap().text;
    let both = adopt(file(), &one, PROGRAM, &[]).unwrap().text;
    assert!(is_spent(file(), original, original, PROGRAM) && is_spent(file(), &one, original, PROGRAM));
    assert!(!is_spent(file(), original, &one, PROGRAM), "a is still behind regrow");
    assert!(!is_spent(file(), &one, &both, PROGRAM));
    assert!(is_spent(file(), original, &original.replace("\"n\": 1", "\"n\": 2"), PROGRAM));
    assert!(!is_spent(file(), original, &original.replace("\"b\" }", "\"c\" }"), PROGRAM), "b was edited");
    assert!(!is_spent(file(), "precious", original, PROGRAM));
    let (path, shared) = (Path::new("config.yaml"), "mcp_servers:\n  a: &a { command: a }\n  b: *a\n");
    assert!(is_spent(path, shared, shared, PROGRAM));
}

#[test]
fn a_command_that_is_a_list_comes_back_byte_for_byte() {
    let path = Path::new("opencode.json");
    let text = "{\n  \"mcp\": {\n    \"a\": { \"type\": \"local\", \"command\": [\"npx\", \"-y\", \"a\"], \"environment\": { \"T\": \"s3cr3t\" } },\n    \
                \"b\": {\n      \"command\": [\n        // it\n        \"b\",\n      ],\n      \"type\": \"local\",\n    },\n    \
                \"c\": { \"type\": \"remote\", \"url\": \"https://h/mcp\", \"enabled\": true },\n    \
                \"d\": { \"type\": \"remote\", \"url\": \"https://h/mcp\", \"headers\": { \"K\": \"s3cr3t\" } }\n  }\n}\n";
    let plan = adopt(path, text, PROGRAM, &[]).unwrap();
    let adopted = &plan.text;
    assert!(
        adopted.contains(r#""command": ["/opt/bin/regrow", "wrap", "--", "npx", "-y", "a"]"#),
        "{adopted}"
    );
    let c = r#"{ "type": "local", "command": ["/opt/bin/regrow", "wrap", "https://h/mcp"], "environment": { "REGROW_ADOPTED": "url remote" }, "enabled": true }"#;
    assert!(adopted.contains(c), "{adopted}");
    assert!(!plan.difference(text).contains("s3cr3t"), "{}", plan.difference(text));
    assert!(adopt(path, adopted, PROGRAM, &[]).unwrap().is_empty());
    assert_eq!(undo(path, adopted, PROGRAM, &[]).unwrap().text, text, "by way of\n{adopted}");
}

#[test]
fn a_server_in_a_sandbox_does_not_lose_it() {
    let why = refusal(r#"{ "command": "x", "regrow": { "sandbox": { "read": [] } } }"#);
    assert!(why.contains("run it behind `regrow serve`"), "{why}");
}

/// Adopts a Codex file, checks that it comes back, and returns the text.
fn codex(text: &str) -> String {
    round_trip(".codex/config.toml", text)
}

/// The text after adoption. Nothing is left to adopt, an undo brings the first back, and no difference shows a secret.
fn round_trip(path: &str, text: &str) -> String {
    let path = Path::new(path);
    let plan = adopt(path, text, PROGRAM, &[]).unwrap();
    assert!(!plan.is_empty(), "{text}\n{:?}", plan.steps);
    assert!(!plan.difference(text).contains("s3cr3t"), "{}", plan.difference(text));
    assert!(adopt(path, &plan.text, PROGRAM, &[]).unwrap().is_empty(), "{}", plan.text);
    let undone = undo(path, &plan.text, PROGRAM, &[]).unwrap();
    assert_eq!(undone.text, text, "by way of\n{}", plan.text);
    assert!(!undone.difference(&plan.text).contains("s3cr3t"));
    plan.text
}

#[test]
fn codex_in_every_form() {
    let forms = [
        (
            "[mcp_servers.a]\ncommand = \"npx\" # it\n",
            "[mcp_servers.a]\nargs = [ \"wrap\", \"--\", \"npx\" ]\ncommand = \"/opt/bin/regrow\" # it\n",
        ),
        (
            "[mcp_servers.a]\r\n  command = 'npx'\r\n  args = []",
            "[mcp_servers.a]\r\n  command = \"/opt/bin/regrow\"\r\n  args = [\"wrap\", \"--\", 'npx']",
        ),
        (
            "mcp_servers.a = { command = \"npx\" }",
            "mcp_servers.a = { args = [ \"wrap\", \"--\", \"npx\" ], command = \"/opt/bin/regrow\" }",
        ),
        (
            "[mcp_servers]\na.command = \"npx\"\n",
            "[mcp_servers]\na.args = [ \"wrap\", \"--\", \"npx\" ]\na.command = \"/opt/bin/regrow\"\n",
        ),
        (
            "mcp_servers.a.args = [ 'x' ,'y']\nmcp_servers.a.command=\"\"\"npx\"\"\"\n",
            "mcp_servers.a.args = [ \"wrap\", \"--\", \"\"\"npx\"\"\", 'x' ,'y']\nmcp_servers.a.command=\"/opt/bin/regrow\"\n",
        ),
        (
            "[mcp_servers.a]\nargs = [\n  # first\n  \"x\",\n]\ncommand = \"npx\"\n",
            "[mcp_servers.a]\nargs = [\n  # first\n  \"wrap\",\n  \"--\",\n  \"npx\",\n  \"x\",\n]\ncommand = \"/opt/bin/regrow\"\n",
        ),
        (
            "[mcp_servers.a]\nurl = \"https://h/mcp\"\n",
            "[mcp_servers.a]\ncommand = \"/opt/bin/regrow\"\nargs = [\"wrap\", \"https://h/mcp\"]\nenv = { REGROW_ADOPTED = \"url\" }\n",
        ),
        (
            "[mcp_servers.a]\nbearer_token_env_var = \"T\"\nurl = \"https://h/mcp\" # it",
            "[mcp_servers.a]\nenv_vars = [\"T\"]\ncommand = \"/opt/bin/regrow\"\nargs = [\"wrap\", \"--bearer-env\", \"T\", \"https://h/mcp\"]\nenv = { REGROW_ADOPTED = \"url bearer\" } # it",
        ),
        (
            "[mcp_servers.a]\nurl = 'https://h/mcp?s3cr3t'\n[mcp_servers.a.http_headers]\nX-Key = 's3cr3t'\n",
            "[mcp_servers.a]\ncommand = \"/opt/bin/regrow\"\nargs = [\"wrap\", \"env:REGROW_ADOPTED_URL\"]\n[mcp_servers.a.env]\nREGROW_ADOPTED = \"url headers-bare\"\nREGROW_ADOPTED_URL = 'https://h/mcp?s3cr3t'\nREGROW_HEADER = 'X-Key: s3cr3t'\n",
        ),
    ];
    for (text, expected) in forms {
        assert_eq!(codex(text), expected);
    }
    codex("mcp_servers.a = {url=\"https://h/mcp\",http_headers={\"X-Key\"=\"s3cr3t\"}}");
    codex("[mcp_servers.a]\nhttp_headers = {}\nurl = \"https://h/mcp\"\n");
}

#[test]
fn a_toml_file_that_cannot_be_changed_exactly_stays() {
    let refused = |text: &str| {
        let plan = adopt(Path::new("config.toml"), text, PROGRAM, &[]).unwrap();
        assert!(plan.is_empty() && plan.text == text, "{}", plan.text);
        match &plan.steps[0].outcome {
            Outcome::Refused(why) => why.clone(),
            other => panic!("{text}: {other:?}"),
        }
    };
    assert!(refused("mcp_servers = { a.command = \"npx\" }").contains("by hand"));
    assert!(refused("[mcp_servers.a]\nurl = \"https://h\"\nhttp_headers.K = \"v\"").contains("by hand"));
    let variables = "[mcp_servers.a]\nurl = \"https://h\"\nenv_http_headers = { K = \"V\" }";
    assert!(refused(variables).contains("--header-file FILE URL"));
    assert!(refused("[mcp_servers.a]\nurl = \"https://h\"\noauth_resource = \"x\"").contains("signs in"));
    let table = "[mcp_servers.a]\nurl = \"https://h\"\n[mcp_servers.a.oauth]\nclient_id = \"x\"\n";
    assert!(refused(table).contains("signs in"));
    assert!(refused("[mcp_servers.a]\nurl = \"https://h\"\noauth.client_id = \"x\"").contains("signs in"));
    assert!(refused("[[mcp_servers.a]]\ncommand = \"x\"").contains("not an object"));
    let broken =
        adopt(Path::new("config.toml"), "[mcp_servers.a]\ncommand = npx\n", PROGRAM, &[]).unwrap_err();
    assert!(broken.to_string().starts_with("line 2: this is not TOML: "), "{broken}");
}

/// Adopts a file of Hermes, checks that it comes back, and returns the text.
fn hermes(text: &str) -> String {
    round_trip(".hermes/config.yaml", text)
}

#[test]
fn yaml_in_every_form() {
    let forms = [
        (
            "mcp_servers:\n  a:\n    command: npx # it\n",
            "mcp_servers:\n  a:\n    args: [ \"wrap\", \"--\", npx ]\n    command: \"/opt/bin/regrow\" # it\n",
        ),
        (
            "mcp_servers:\r\n  ä: # ü\r\n    command: 'npx'\r\n    args: []",
            "mcp_servers:\r\n  ä: # ü\r\n    command: \"/opt/bin/regrow\"\r\n    args: [\"wrap\", \"--\", 'npx']",
        ),
        (
            "mcp_servers: { a: {command: npx} }",
            "mcp_servers: { a: {args: [ \"wrap\", \"--\", npx ], command: \"/opt/bin/regrow\"} }",
        ),
        (
            "---\nmcp_servers:\n  a:\n    args:\n    - -y\n    - \"x\"\n    command: \"npx\"\n",
            "---\nmcp_servers:\n  a:\n    args:\n    - \"wrap\"\n    - \"--\"\n    - \"npx\"\n    - -y\n    - \"x\"\n    command: \"/opt/bin/regrow\"\n",
        ),
        (
            "mcp_servers:\n  a:\n    command: npx\n    args: [-y,\n      x]\n",
            "mcp_servers:\n  a:\n    command: \"/opt/bin/regrow\"\n    args: [\"wrap\", \"--\", npx, -y,\n      x]\n",
        ),
        (
            "mcp_servers:\n  a:\n    url: https://h/mcp # it\n",
            "mcp_servers:\n  a:\n    command: \"/opt/bin/regrow\"\n    args: [\"wrap\", https://h/mcp]\n    env: { REGROW_ADOPTED: \"url\" } # it\n",
        ),
        (
            "mcp_servers:\n  a:\n    url: \"https://h/mcp\"\n    transport: sse\n    headers:\n      X-Key: s3cr3t\n",
            "mcp_servers:\n  a:\n    command: \"/opt/bin/regrow\"\n    args: [\"wrap\", \"https://h/mcp\"]\n    transport: stdio\n    env:\n      REGROW_ADOPTED: \"url sse headers-bare-plain\"\n      REGROW_HEADER: \"X-Key: s3cr3t\"\n",
        ),
    ];
    for (text, expected) in forms {
        assert_eq!(hermes(text), expected);
    }
    // What others share is left, and what is not shared is changed all the same.
    let text = "x: &env { T: s3cr3t }\nmcp_servers:\n  a:\n    <<: { timeout: 3 }\n    command: npx\n    args: [x, *env2]\n    env: *env\n";
    hermes(&text.replace("*env2", "y"));
}

#[test]
fn a_list_of_servers_comes_back_byte_for_byte() {
    let path = Path::new(".continue/config.yaml");
    let text = "mcpServers:\n  - command: npx\n    name: a\n  - name: b\n    url: https://h/mcp\n    type: sse\n  - name: c\n    url: https://h/mcp\n    requestOptions: { headers: { K: s3cr3t } }\n";
    let plan = adopt(path, text, PROGRAM, &[]).unwrap();
    let begin =
        "mcpServers:\n  - args: [ \"wrap\", \"--\", npx ]\n    command: \"/opt/bin/regrow\"\n    name: a\n";
    assert!(plan.text.starts_with(begin), "{}", plan.text);
    assert!(!without_secrets(path, text).contains("s3cr3t"));
    let names: Vec<&str> = plan.steps.iter().map(|step| &*step.server).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(matches!(&plan.steps[2].outcome, Outcome::Refused(why) if why.contains("--header-file")));
    assert_eq!(undo(path, &plan.text, PROGRAM, &[]).unwrap().text, text, "by way of\n{}", plan.text);
}

#[test]
fn a_yaml_file_that_cannot_be_changed_exactly_stays() {
    let path = Path::new(".hermes/config.yaml");
    let refused = |entries: &str| {
        let text = format!("base: &base\n  command: npx\n  args: &args [x]\nmcp_servers:\n{entries}");
        let plan = adopt(path, &text, PROGRAM, &[]).unwrap();
        assert!(plan.is_empty() && plan.text == text, "{}", plan.text);
        match &plan.steps[0].outcome {
            Outcome::Refused(why) => why.clone(),
            other => panic!("{text}: {other:?}"),
        }
    };
    for shared in [
        "  a: *base\n",
        "  a:\n    <<: *base\n    timeout: 3\n",
        "  a:\n    command: y\n    args: *args\n",
        "  a: &a\n    command: y\n  b: *a\n",
        "  a:\n    command: &c y\n",
        "  a:\n    command: y\n    args: [&p x]\n",
    ] {
        assert!(refused(shared).contains("alias"), "{shared}");
    }
    assert!(refused("  a:\n    command: |\n      npx\n").contains("by hand"));
    assert!(refused("  a:\n    command: npx,y\n").contains("by hand"));
    assert!(refused("  a:\n    command: npx\n      y\n    args:\n      - z\n").contains("by hand"));
    assert!(refused("  a:\n    url: https://h\n    headers:\n      K: \"{{USER}}\"\n").contains("fills in"));
    assert!(refused("  a:\n    url: https://h\n    client_cert: x\n").contains("certificates"));
    assert!(refused("  a:\n    command: 7\n").contains("not a string"));
    for (text, said) in [
        ("mcp_servers:\n  a: [\n", "this is not YAML: "),
        ("- a\n", "line 1: the file must be a mapping"),
        ("", "the file is empty"),
        ("a: 1\n---\nb: 2\n", "line 2: there are several documents"),
        ("a: &a [*a]\n", "write that out"),
    ] {
        let problem = adopt(path, text, PROGRAM, &[]).unwrap_err().to_string();
        assert!(problem.contains(said), "{text}: {problem}");
    }
}

#[test]
fn a_yaml_file_that_would_grow_without_end_is_refused() {
    let path = Path::new("config.yaml");
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let last = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![last; 10].join(", ")));
    }
    let problem = |text: &str| adopt(path, text, PROGRAM, &[]).unwrap_err().to_string();
    assert!(problem(&bomb).contains("repeat too much text"), "{}", problem(&bomb));
    let nested = |depth: usize| format!("a: {}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(problem(&nested(100)).contains("nested too deeply"), "{}", problem(&nested(100)));
    assert!(problem(&nested(100_000)).contains("this is not YAML: "), "{}", problem(&nested(100_000)));
    assert!(problem(&"a: b\n".repeat(300_000)).contains("larger than 1 MiB"));
}

/// Whatever happens to a file of these formats, we do not stumble over it, and what we change we can undo.
#[test]
fn broken_toml_and_yaml_files_are_refused_or_come_back_byte_for_byte() {
    let toml = "# é\n[mcp_servers.a]\ncommand = \"x\" # it\nargs = [\n  'y', \"z\",\n]\nenv = { K = \"v\" }\n\n[mcp_servers.\"b c\"]\nurl = \"https://h/m\"\n[mcp_servers.\"b c\".http_headers]\nA = 'v'\n\
                [mcp_servers]\nd.command = \"e\"\nf = { command = \"g\", args = [] }\n";
    let yaml = "# é\nmcp_servers:\n  a:\n    command: x # it\n    args:\n      - 'y'\n      - z\n    env: { K: v }\n  \"b c\":\n    url: https://h/m\n    headers:\n      A: v\n    type: sse\n\
                \x20 d: &d { command: \"e\" }\n  f: { command: g, args: [ -h, *d ] }\n  i: { <<: *d, args: [] }\n";
    for (path, whole, letters) in
        [("config.toml", toml, "[]{}=\"'#.\n x,"), ("config.yaml", yaml, "[]{}:\"'#-\n x,&*|>?!")]
    {
        let (letters, whole): (Vec<char>, Vec<char>) = (letters.chars().collect(), whole.chars().collect());
        let mut taken = 0;
        for seed in 0..600 {
            let mut chance = fastrand::Rng::with_seed(seed);
            let mut text = whole.clone();
            for _ in 0..chance.usize(1..4) {
                let (at, to) = (chance.usize(..text.len()), chance.usize(..text.len()));
                match chance.u8(..4) {
                    0 => drop(text.remove(at)),
                    1 => text.insert(at, letters[chance.usize(..letters.len())]),
                    2 => text.swap(at, to),
                    _ => drop(text.splice(at..at, text[at.min(to)..at.max(to)].to_vec())),
                }
            }
            let text: String = text.into_iter().collect();
            let caught = std::panic::catch_unwind(|| {
                let Ok(plan) = adopt(Path::new(path), &text, PROGRAM, &[]) else { return false };
                plan.difference(&text);
                let back = undo(Path::new(path), &plan.text, PROGRAM, &[]).unwrap();
                assert_eq!(back.text, text, "by way of\n{}", plan.text);
                !plan.is_empty()
            });
            assert!(caught.is_ok(), "{path}, seed {seed}:\n{text}");
            taken += usize::from(caught.unwrap());
        }
        assert!(taken > 60, "{path}: {taken}");
    }
}

#[test]
fn of_a_file_in_another_format_it_is_said_which_are_known() {
    let problem = adopt(Path::new("mcp.ini"), "[servers]\n", PROGRAM, &[]).unwrap_err().to_string();
    assert!(
        problem.contains("Regrow reads JSON with comments (.json, .jsonc), TOML (.toml) and YAML"),
        "{problem}"
    );
}
