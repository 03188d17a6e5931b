//! Configurations as users have them, and as they get them wrong.

use super::*;
use std::fs;

struct Folder {
    folder: tempfile::TempDir,
    surroundings: Surroundings,
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        let variables = [("TOKEN", "s3cr3t-token"), ("REGROW_INPUT_API_KEY", "s3cr3t-input")];
        let surroundings = Surroundings {
            variables: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            home: Some("/home/ann".into()),
            directory: folder.path().to_owned(),
        };
        Folder { folder, surroundings }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, text: &str) -> Result<Config, Problems> {
        Config::read(&[self.write(".mcp.json", text)], &self.surroundings)
    }

    /// The problems with the name of the folder taken out, a line each; of the file, or of its servers.
    fn problems(&self, text: &str) -> Vec<String> {
        let problems = match self.read(text) {
            Err(problems) => problems,
            Ok(config) => Problems(config.broken().flat_map(|(_, problems)| problems.0.clone()).collect()),
        };
        let problems = problems.to_string();
        let folder = format!("{}/", self.folder.path().display());
        problems.lines().map(|line| line.replace(&folder, "")).collect()
    }
}

fn process(server: &ServerConfig) -> &Process {
    match &server.reach {
        Reach::Process(process) => process,
        other => panic!("{} is {other:?}", server.name),
    }
}

fn remote(server: &ServerConfig) -> &Remote {
    match &server.reach {
        Reach::Remote(remote) => remote,
        other => panic!("{} is {other:?}", server.name),
    }
}

#[test]
fn the_form_of_claude_and_cursor() {
    let folder = Folder::new();
    folder.write("keys.env", "FROM_FILE=1\nBOTH=file\n");
    let config = folder
        .read(
            r#"{
  // Comments and trailing commas are let pass.
  "globalShortcut": "",
  "mcpServers": {
    "files": {
      "command": "npx", "args": ["-y", "server", "${workspaceFolder}/data",],
      "env": { "TOKEN": "${TOKEN}", "BOTH": "env", "PORT": 8080, "HOME": null },
      "envFile": "keys.env", "cwd": "sub", "alwaysAllow": ["x"],
    },
    "remote": { "type": "streamableHttp", "url": "https://h/mcp?k=${TOKEN}", "headers": { "X-Key": "${TOKEN}" } },
    "old": { "serverUrl": "http://h/sse", "transport": "sse" },
    "gemini": { "httpUrl": "http://h/mcp" },
    "off": { "disabled": true, "command": "${UNSET}" },
    "off too": { "enabled": false },
  },
}"#,
        )
        .unwrap();
    assert_eq!(config.disabled, ["off", "off too"]);
    assert_eq!(config.remarks, []);
    let [files, far, old, gemini] = &config.servers[..] else { panic!("{config:?}") };
    let files = process(files);
    let args: Vec<_> = files.args.iter().map(Secret::reveal).collect();
    let data = folder.folder.path().join("data").to_string_lossy().into_owned();
    assert_eq!(args, ["-y", "server", &data]);
    let variables: Vec<_> = files.variables.iter().map(|(name, value)| (&**name, value.reveal())).collect();
    let expected = [("BOTH", "env"), ("FROM_FILE", "1"), ("PORT", "8080"), ("TOKEN", "s3cr3t-token")];
    assert_eq!(variables, expected);
    assert_eq!(files.removed, ["HOME"]);
    assert_eq!(files.directory.as_deref(), Some(&*folder.folder.path().join("sub")));
    assert_eq!(remote(far).dialect, Some(Dialect::Streamable));
    assert_eq!(remote(far).url.reveal(), "https://h/mcp?k=s3cr3t-token");
    assert_eq!(remote(far).headers[0].1.reveal(), "s3cr3t-token");
    assert_eq!(remote(old).dialect, Some(Dialect::Sse));
    assert_eq!(remote(gemini).dialect, Some(Dialect::Streamable));
    assert!(!format!("{config:?}").contains("s3cr3t"), "{config:?}");
    assert_eq!(config.servers[0].place.line, 5);
}

#[test]
fn the_form_of_vs_code() {
    let folder = Folder::new();
    let path = folder.write(
        ".vscode/mcp.json",
        r#"{
  "inputs": [
    { "type": "promptString", "id": "api-key", "description": "Key", "password": true },
    { "type": "pickString", "id": "region", "options": ["eu", "us"], "default": "eu" }
  ],
  "servers": {
    "a": { "type": "stdio", "command": "${workspaceFolder}/run", "args": ["${input:region}"],
           "env": { "KEY": "${input:api-key}" }, "dev": { "watch": "src/**" } }
  }
}"#,
    );
    let config = Config::read(&[path], &folder.surroundings).unwrap();
    let a = process(&config.servers[0]);
    assert_eq!(Path::new(&a.program), folder.folder.path().join("run"), "the project, not .vscode");
    assert_eq!(a.args[0].reveal(), "eu");
    assert_eq!(a.variables["KEY"].reveal(), "s3cr3t-input");
}

#[test]
fn an_input_that_only_a_person_could_give_is_refused_with_the_variable_to_set() {
    let problems = Folder::new().problems(
        r#"{ "inputs": [{ "id": "db-pass", "password": true, "default": "s3cr3t" }],
  "servers": { "db": { "command": "db", "env": { "P": "${input:db-pass}" } } } }"#,
    );
    let expected = ".mcp.json:2:55: server \"db\", field \"env.P\": Regrow cannot ask for ${input:db-pass}; \
                    set the variable REGROW_INPUT_DB_PASS to its value";
    assert_eq!(problems, [expected]);
}

#[test]
fn every_problem_is_told_in_one_go_with_place_server_field_and_next_step() {
    let problems = Folder::new().problems(
        r#"{
  "regrow": { "callTimeout": 30 },
  "mcpServers": {
    "one": { "command": "one", "args": ["${NOT_SET}", 7], "regrow": { "call_timeout": "5s", "era": "new" } },
    "two": { "command": "two", "url": "http://s3cr3t" },
    "three": { "type": "tcp", "url": "ftp://s3cr3t@h" },
    "four": {},
    "five": { "url": "http://h", "headers": { "Bad Name": "s3cr3t" }, "type": "stdio" },
    "six": { "url": "http://h", "headers": { "Authorization": "s3cr3t\nx" } },
    "seven": { "command": "", "envFile": "none.env" },
    "eight": "s3cr3t",
    "nine\u001b[31m": { "command": "n", "regrow": { "colour": 1 } },
    "one": { "command": "again" }
  }
}"#,
    );
    let expected = [
        r#".mcp.json:2:30: field "regrow.callTimeout": write it in quotes with a unit, such as "30s", or "none""#,
        r#".mcp.json:4:71: server "one", field "regrow.call_timeout": there is no such option; did you mean "callTimeout"?"#,
        r#".mcp.json:4:100: server "one", field "regrow.era": write one of "auto", "legacy", "modern""#,
        r#".mcp.json:4:41: server "one", field "args[0]": the variable NOT_SET is not set; set it, or give it a default: ${NOT_SET:-...}"#,
        r#".mcp.json:4:55: server "one", field "args[1]": it must be a string; write it in quotes"#,
        r#".mcp.json:13:5: server "one": this file has a server of this name already; rename one of them"#,
        r#".mcp.json:5:32: server "two", field "url": it has a "command" as well; keep one of them"#,
        r#".mcp.json:6:24: server "three", field "type": it must be one of "stdio", "http" (or "streamable-http") and "sse""#,
        r#".mcp.json:6:38: server "three", field "url": the address of the server must begin with http:// or https://, not ftp:; write it as https://host/path"#,
        r#".mcp.json:7:13: server "four": it has neither a "command" nor a "url"; give it one, or "disabled": true"#,
        r#".mcp.json:8:15: server "five", field "url": its type is stdio; give a "command" or change the type to http"#,
    ];
    assert_eq!(problems[..expected.len()], expected);
    let rest = problems[expected.len()..].join("\n");
    for part in [
        r#"server "six", field "headers.Authorization": "#,
        r#"server "seven", field "command": it is empty"#,
        r#"server "seven", field "envFile": the file "#,
        r#"server "eight": it must be an object"#,
        r#"server "nine\u{1b}[31m", field "regrow.colour": there is no such option; docs/configuration.md lists all"#,
    ] {
        assert!(rest.contains(part), "{part}\nin\n{rest}");
    }
    assert!(!problems.join("\n").contains("s3cr3t"), "{problems:#?}");
}

#[test]
fn what_is_not_json_is_told_where() {
    let folder = Folder::new();
    let cases = [
        (
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\" \"x\" }\n  }\n}",
            ".mcp.json:3:22: this is not JSON: ",
        ),
        ("", ".mcp.json:1:1: the file is empty; "),
        ("[]", ".mcp.json:1:1: the file must be an object; "),
        ("{ 'mcpServers': {} }", ".mcp.json:1:3: this is not JSON: "),
        ("{ \"mcp\": 1 }", ".mcp.json:1:1: there are no servers in this file; "),
        ("{ \"servers\": [] }", ".mcp.json:1:14: field \"servers\": it must be an object; "),
    ];
    for (text, expected) in cases {
        let problems = folder.problems(text);
        assert!(problems[0].starts_with(expected), "{problems:?}");
    }
    let deep = format!("{{\"mcpServers\": {}", "[".repeat(1_000_000));
    assert!(folder.problems(&deep)[0].contains("nesting"));
    assert!(Config::read(&["/nowhere/x.json"], &folder.surroundings).is_err());
}

#[test]
fn a_mark_at_the_beginning_and_crlf_are_no_obstacle() {
    let config =
        Folder::new().read("\u{feff}{\r\n\"mcpServers\": {\r\n\"a\": {\"command\": \"x\"}}}\r\n").unwrap();
    assert_eq!(config.servers[0].place.line, 3);
}

#[test]
fn options_of_a_server_stand_above_those_at_top_level() {
    let config = Folder::new()
        .read(
            r#"{ "regrow": { "callTimeout": "10s", "safeTools": ["get_*"], "headerFile": "${userHome}/h" },
  "mcpServers": { "a": { "command": "a" }, "b": { "command": "b", "regrow": { "callTimeout": "none" } } } }"#,
        )
        .unwrap();
    let [a, b] = &config.servers[..] else { panic!("{config:?}") };
    assert_eq!(a.options.call_timeout, Some(std::time::Duration::from_secs(10)));
    assert_eq!((b.options.call_timeout, &b.options.safe_tools[..]), (None, &["get_*".to_owned()][..]));
    assert_eq!(b.options.header_file.as_deref(), Some(Path::new("/home/ann/h")));
}

#[test]
fn of_several_files_the_later_wins_and_that_is_said() {
    let folder = Folder::new();
    let user = folder.write(
        "user.json",
        r#"{ "mcpServers": { "a": { "command": "old" }, "b": { "command": "b" }, "c": { "command": "c" } } }"#,
    );
    let project = folder.write(
        "project.json",
        r#"{ "servers": { "a": { "command": "new" }, "c": { "command": "c", "disabled": true } } }"#,
    );
    let config = Config::read(&[user, project], &folder.surroundings).unwrap();
    let programs: Vec<_> = config.servers.iter().map(|server| process(server).program.clone()).collect();
    assert_eq!(programs, ["b", "new"]);
    assert_eq!(config.disabled, ["c"]);
    let remarks: Vec<_> = config.remarks.iter().map(Message::to_string).collect();
    assert_eq!(remarks.len(), 2);
    assert!(
        remarks[0]
            .contains("project.json:1:16: server \"a\": an earlier file has a server of this name, too")
    );
}

#[test]
fn too_many_servers_are_refused() {
    let servers: Vec<String> = (0..1100).map(|n| format!("\"s{n}\": {{ \"command\": \"x\" }}")).collect();
    let problems = Folder::new().problems(&format!("{{ \"mcpServers\": {{ {} }} }}", servers.join(",")));
    assert!(problems[0].contains("more than 1000 servers"), "{problems:?}");
}

#[test]
fn no_file_makes_us_stumble() {
    let whole = r#"{"regrow":{"callTimeout":"5s"},"inputs":[{"id":"k"}],"servers":{"a":{"command":"${TOKEN}","args":["${X:-1}"],
        "env":{"K":"${input:k}"},"envFile":"x"},"b":{"url":"https://h/m?k","headers":{"A":"v"}}}}"#;
    let folder = Folder::new();
    for seed in 0..500 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut bytes = whole.as_bytes().to_vec();
        for _ in 0..chance.usize(1..5) {
            let at = chance.usize(..bytes.len());
            match chance.bool() {
                true => drop(bytes.remove(at)),
                false => bytes.insert(at, b"{}[]\",:$\\\n/\xff"[chance.usize(..12)]),
            }
        }
        let path = folder.folder.path().join("x.json");
        fs::write(&path, &bytes).unwrap();
        let read = std::panic::catch_unwind(|| Config::read(&[&path], &folder.surroundings).map(drop));
        assert!(read.is_ok(), "seed {seed}: {}", String::from_utf8_lossy(&bytes));
    }
}

#[test]
fn one_broken_server_does_not_concern_the_others() {
    let folder = Folder::new();
    let config = folder.read(
        r#"{
  "inputs": [{ "id": "key", "password": true }],
  "servers": {
    "good": { "command": "good" },
    "unset": { "command": "x", "env": { "TOKEN": "${NOT_SET}" } },
    "asks": { "command": "x", "args": ["${input:key}"] },
    "typo": { "command": "x", "regrow": { "callTimeout": 30 } },
    "twice": { "command": "x" },
    "twice": { "command": "y" },
    "word": "s3cr3t",
    "off": { "disabled": true, "env": { "TOKEN": "${NOT_SET}" } },
    "fine": { "url": "https://h/mcp" }
  }
}"#,
    );
    let config = config.unwrap();
    let names: Vec<_> = config.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["good", "unset", "asks", "typo", "twice", "word", "fine"], "in the order of the file");
    let broken: Vec<_> = config.broken().map(|(server, _)| &*server.name).collect();
    assert_eq!(broken, ["unset", "asks", "typo", "twice", "word"]);
    assert_eq!(config.disabled, ["off"]);
    let unset = config.servers[1].problems().unwrap();
    assert_eq!(
        unset.brief(),
        "line 5, field \"env.TOKEN\": the variable NOT_SET is not set; set it, or give it a default: ${NOT_SET:-...}"
    );
    assert!(!format!("{config:?}").contains("s3cr3t"));

    // What stands in a later file counts, broken or not.
    let [first, second] = [("a.json", "${NOT_SET}"), ("b.json", "x")].map(|(name, command)| {
        folder.write(name, &format!(r#"{{ "mcpServers": {{ "s": {{ "command": "{command}" }} }} }}"#))
    });
    let broken = |paths: [&PathBuf; 2]| Config::read(&paths, &folder.surroundings).unwrap().broken().count();
    assert_eq!((broken([&first, &second]), broken([&second, &first])), (0, 1));
}

#[test]
fn an_option_of_ours_that_is_elsewhere_never_silently_does_not_hold() {
    let of_server = |member: &str| {
        let text = format!(
            r#"{{ "mcpServers": {{ "a": {{ "command": "a", {member} }}, "b": {{ "command": "b" }} }} }}"#
        );
        let config = Folder::new().read(&text).unwrap();
        let broken: Vec<_> =
            config.broken().map(|(server, problems)| (server.name.clone(), problems.brief())).collect();
        assert_eq!(broken.len(), 1, "{member}: {broken:?}");
        assert_eq!(broken[0].0, "a");
        broken[0].1.clone()
    };
    for option in OPTIONS {
        let value = match option.kind {
            Kind::Sandbox => r#"{ "read": [] }"#,
            Kind::Tools => r#"{ "deny": [] }"#,
            Kind::SignIn => r#"{ "account": "work" }"#,
            _ => r#""x""#,
        };
        let told = of_server(&format!("\"{}\": {value}", option.name));
        let wanted = format!(
            "field \"{0}\": this is an option of Regrow; move it into \"regrow\": {{ \"{0}\": ... }}",
            option.name
        );
        assert!(told.ends_with(&wanted), "{told}");
    }
    for (member, told) in [
        (r#""call_timeout": "5s""#, "\"callTimeout\": ... }"),
        (r#""session": "private""#, "did you mean the option \"sessions\"?"),
        (r#""Regrow": { "sessions": "private" }"#, "did you mean \"regrow\"?"),
        (r#""regow": {}"#, "did you mean \"regrow\"?"),
        (r#""regrow": { "env": {} }"#, "move it out of \"regrow\""),
        (r#""regrow": { "disabled": true }"#, "move it out of \"regrow\""),
        (r#""regrow": { "session": "private" }"#, "did you mean \"sessions\"?"),
        (r#""sandbox": { "read": ["/data"] }"#, "move it into \"regrow\""),
        (r#""sandbx": { "read": ["/data"] }"#, "did you mean the option \"sandbox\"?"),
        (r#""regrow": { "sand_box": { "read": [] } }"#, "did you mean \"sandbox\"?"),
        (r#""regrow": { "sandbox": { "reads": [] } }"#, "did you mean \"read\"?"),
        (r#""regrow": { "sandbox": { "network": false } }"#, "there is no such member"),
        (r#""regrow": { "sandbox": { "read": [" "] } }"#, "it is empty; name a file or a folder"),
        (r#""regrow": { "sandbox": { "read": [] }, "noNewPrivileges": false }"#, "gains no rights"),
    ] {
        assert!(of_server(member).contains(told), "{member}: {}", of_server(member));
    }
    // For all servers: then none is served.
    let servers = r#""mcpServers": { "a": { "command": "a" } }"#;
    for file in [
        format!(r#"{{ "sessions": "private", {servers} }}"#),
        format!(r#"{{ "max_sessions": 3, {servers} }}"#),
        format!(r#"{{ "Regrow": {{ "sessions": "private" }}, {servers} }}"#),
        format!(r#"{{ "regrow": {{ "headers": {{}} }}, {servers} }}"#),
        r#"{ "mcpServers": { "sessions": "private", "a": { "command": "a" } } }"#.to_owned(),
        r#"{ "mcpServers": { "regrow": { "sessions": "private" }, "a": { "command": "a" } } }"#.to_owned(),
    ] {
        assert!(Folder::new().read(&file).is_err(), "{file}");
    }
}

#[test]
fn a_slip_of_the_pen_is_told_with_what_was_meant() {
    for (entry, told) in [
        (
            r#"{ "comand": "x" }"#,
            r#"field "comand": Regrow does not know this member; did you mean "command"?"#,
        ),
        (r#"{ "cmd": "x" }"#, r#"did you mean "command"?"#),
        (r#"{ "URL": "https://h" }"#, r#"did you mean "url"?"#),
        (r#"{ "httpURL": "https://h" }"#, r#"did you mean "httpUrl"?"#),
    ] {
        let problems = Folder::new().problems(&format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#));
        assert!(problems.len() == 1 && problems[0].contains(told), "{problems:?}");
    }
    // It may be another program's, and the server works without it.
    let read = |entry: &str| {
        let config = Folder::new().read(&format!(r#"{{ "mcpServers": {{ "a": {entry} }} }}"#)).unwrap();
        assert_eq!(config.broken().count(), 0, "{entry}");
        config.remarks.iter().map(|remark| remark.text.clone()).collect::<Vec<_>>().join("\n")
    };
    for (member, meant) in [
        ("evn", "env"),
        ("environment", "env"),
        ("arg", "args"),
        ("disable", "disabled"),
        ("header", "headers"),
    ] {
        let told = read(&format!(r#"{{ "command": "x", "{member}": {{}} }}"#));
        assert!(told.contains(&format!("did you mean \"{meant}\"?")), "{member}: {told}");
    }
    // Members that hosts have: nothing is said about them.
    for member in [
        "name",
        "description",
        "timeout",
        "initTimeout",
        "toolTimeout",
        "startup_timeout_sec",
        "tool_timeout_sec",
        "alwaysAllow",
        "autoApprove",
        "trust",
        "tools",
        "includeTools",
        "excludeTools",
        "disabledTools",
        "enabledTools",
        "dev",
        "oauth",
        "auth",
        "authProviderType",
        "icon",
        "icons",
        "version",
        "gallery",
        "sandbox",
        "sandboxEnabled",
        "envVars",
        "env_vars",
        "headersHelper",
        "bearer_token_env_var",
        "scopes",
        "required",
        "note",
        "comment",
        "id",
        "key",
        "tags",
        "group",
        "category",
        "restart",
        "mode",
        "model",
        "retry",
        "cache",
        "priority",
        "x",
        "$comment",
        "//",
    ] {
        for value in ["{}", "\"text\"", "30000", "true", "[\"a\"]"] {
            assert_eq!(
                read(&format!(r#"{{ "command": "x", "{member}": {value} }}"#)),
                "",
                "{member}: {value}"
            );
        }
    }
    let problems = Folder::new().problems(r#"{ "mcpservers": { "a": { "command": "a" } } }"#);
    assert_eq!(
        problems,
        [
            r#".mcp.json:1:3: field "mcpservers": there are no servers in this file; did you mean "mcpServers"?"#
        ]
    );
    // What hosts keep in the same file is theirs.
    let host = r#"{ "numStartups": 7, "sessions": { "x": 1 }, "projects": {}, "start": 3, "queue": [], "rate": {}, "mcpServers": {} }"#;
    assert!(Folder::new().read(host).is_ok());
}

#[test]
fn each_host_writes_servers_in_its_own_way() {
    let folder = Folder::new();
    let project = folder.folder.path().display().to_string();
    let read =
        |name: &str, text: &str| Config::read(&[folder.write(name, text)], &folder.surroundings).unwrap();
    let words = |server: &ServerConfig| {
        let process = process(server);
        let args = process.args.iter().map(|arg| arg.reveal().to_owned());
        [process.program.clone()].into_iter().chain(args).collect::<Vec<_>>().join(" ")
    };

    let opencode = r#"{ "mcp": {
        "a": { "type": "local", "command": ["npx", "-y", "a"], "environment": { "T": "{env:TOKEN}" } },
        "b": { "type": "remote", "url": "https://h/mcp", "headers": { "K": "{env:TOKEN}" } },
        "c": { "type": "local", "command": ["c"], "enabled": false } } }"#;
    let config = read("opencode.json", opencode);
    assert_eq!(words(&config.servers[0]), "npx -y a");
    assert_eq!(process(&config.servers[0]).variables["T"].reveal(), "s3cr3t-token");
    assert_eq!(remote(&config.servers[1]).dialect, None);
    assert_eq!(remote(&config.servers[1]).headers[0].1.reveal(), "s3cr3t-token");
    assert_eq!(config.disabled, ["c"]);
    let written = &config.written[0].1;
    assert!(written.iter().any(|line| line.starts_with("environment: ")), "{written:?}");

    let zed = r#"{ "theme": "One", "context_servers": {
        "a": { "source": "custom", "command": "a", "args": ["${TOKEN}"] }, "b": { "settings": {} } } }"#;
    let config = read(".zed/settings.json", zed);
    assert_eq!(config.servers.iter().map(words).collect::<Vec<_>>(), ["a ${TOKEN}"]);

    let config = read(
        ".gemini/settings.json",
        r#"{ "mcp": { "allowed": [] }, "mcpServers": { "a": { "command": "$TOKEN" } } }"#,
    );
    assert_eq!(config.servers.iter().map(words).collect::<Vec<_>>(), ["s3cr3t-token"]);

    let config = read(".amp/settings.json", r#"{ "amp.mcpServers": { "a": { "command": "a" } } }"#);
    assert_eq!(config.servers.len(), 1);

    let code = r#"{ "mcp": { "inputs": [{ "id": "api-key" }], "servers": { "a": { "command": "${input:api-key}" } } } }"#;
    assert_eq!(words(&read("settings.json", code).servers[0]), "s3cr3t-input");

    let claude = format!(
        r#"{{ "mcpServers": {{ "a": {{ "command": "a" }}, "b": {{ "command": "b" }} }}, "projects": {{
            "/elsewhere": {{ "mcpServers": {{ "c": {{ "command": "c" }} }} }},
            "{project}": {{ "mcpServers": {{ "b": {{ "command": "mine" }} }} }} }} }}"#
    );
    let config = read(".claude.json", &claude);
    assert_eq!(config.servers.iter().map(words).collect::<Vec<_>>(), ["a", "mine"]);
    assert!(config.remarks[0].text.contains("instead of the user's server"), "{:?}", config.remarks);
}

#[test]
fn codex_takes_values_from_variables_that_it_names() {
    let folder = Folder::new();
    let text = r#"
[mcp_servers.a]
command = "npx"
args = ["-y", "${TOKEN}"]
env = { K = 'v' }
env_vars = ["TOKEN", { name = "UNSET", source = "local" }]
startup_timeout_sec = 20.0

[mcp_servers.far]
url = "https://h/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { "X-Team" = "tools" }
env_http_headers = { "X-Key" = "TOKEN" }

[mcp_servers.unset]
url = "https://h/mcp"
bearer_token_env_var = "UNSET"

[mcp_servers.off]
command = "off"
enabled = false
"#;
    let config = Config::read(&[folder.write(".codex/config.toml", text)], &folder.surroundings).unwrap();
    let a = process(&config.servers[0]);
    assert_eq!(a.args[1].reveal(), "${TOKEN}", "Codex replaces nothing in texts");
    assert_eq!((a.variables["K"].reveal(), a.variables["TOKEN"].reveal()), ("v", "s3cr3t-token"));
    let headers = &remote(&config.servers[1]).headers;
    let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, value.reveal())).collect();
    let expected = [("X-Team", "tools"), ("Authorization", "Bearer s3cr3t-token"), ("X-Key", "s3cr3t-token")];
    assert_eq!(headers, expected);
    let (server, problems) = config.broken().next().unwrap();
    assert_eq!((&*server.name, server.place.line), ("unset", 15));
    assert!(problems.to_string().contains("the variable UNSET is not set"), "{problems}");
    assert_eq!(config.disabled, ["off"]);
    assert!(config.remarks[0].to_string().contains("UNSET is not set here"), "{:?}", config.remarks);
    assert_eq!(config.remarks.len(), 1, "{:?}", config.remarks);
}

#[test]
fn yaml_hosts_write_servers_in_their_own_way() {
    let folder = Folder::new();
    let read =
        |name: &str, text: &str| Config::read(&[folder.write(name, text)], &folder.surroundings).unwrap();

    let goose = "extensions:\n  developer: { type: builtin, name: developer, enabled: true }\n  a:\n    type: stdio\n    cmd: npx\n    args: [-y, a]\n    envs:\n      N: 7\n    env_keys: [TOKEN]\n    enabled: true\n\
                 \x20 far: { type: streamable_http, uri: https://h/mcp, headers: { K: Bearer $TOKEN }, envs: {}, env_keys: [] }\n";
    let config = read(".config/goose/config.yaml", goose);
    let a = process(&config.servers[0]);
    assert_eq!((&*a.program, a.args.len(), a.variables["N"].reveal()), ("npx", 2, "7"));
    assert_eq!(a.variables["TOKEN"].reveal(), "s3cr3t-token");
    assert_eq!(remote(&config.servers[1]).headers[0].1.reveal(), "Bearer s3cr3t-token");
    assert!(config.remarks.is_empty() && config.servers.len() == 2, "{:?}", config.remarks);

    let from_list = "mcpServers:\n  - name: a\n    command: npx\n    env: { T: \"${{ secrets.TOKEN }}\", U: \"${{ inputs.X }}\" }\n\
                     \x20 - name: far\n    type: streamable-http\n    url: https://h/mcp\n    requestOptions:\n      headers:\n        K: v\n";
    let config = read(".continue/config.yaml", from_list);
    let a = process(&config.servers[0]);
    assert_eq!((a.variables["T"].reveal(), a.variables["U"].reveal()), ("s3cr3t-token", "${{ inputs.X }}"));
    assert_eq!(remote(&config.servers[1]).headers[0].1.reveal(), "v");
    assert_eq!(config.servers[1].place.line, 5);

    let shared = "base: &base\n  command: npx\n  env: { T: \"${TOKEN}\" }\nmcp_servers:\n  a:\n    <<: *base\n    connect_timeout: 60\n    args: &args [x]\n  b: { command: b, args: *args }\n";
    let config = read(".hermes/config.yaml", shared);
    assert_eq!(process(&config.servers[0]).variables["T"].reveal(), "s3cr3t-token");
    assert_eq!(process(&config.servers[0]).args, process(&config.servers[1]).args);

    let wrong = [
        (".hermes/config.yaml", "mcp_servers:\n  a:\n    command: [\n", ":4:1: this is not YAML: "),
        ("librechat.yaml", "version: 1\n", "there are no servers in this file; add mcp"),
        (".continue/config.yaml", "mcpServers: { a: { command: x } }\n", "it must be a list of servers"),
        (".codex/config.toml", "model = \"x\"\n", "add [mcp_servers.name] with command"),
    ];
    for (name, text, said) in wrong {
        let problems = Config::read(&[folder.write(name, text)], &folder.surroundings).unwrap_err();
        assert!(problems.to_string().contains(said), "{problems}");
    }
}

#[test]
fn how_to_sign_in_is_ours_over_what_the_host_says() {
    let folder = Folder::new();
    let read = |entry: &str| {
        let config =
            folder.read(&format!(r#"{{ "mcpServers": {{ "a": {{ "url": "https://h/mcp", {entry} }} }} }}"#));
        let config = config.unwrap();
        assert_eq!(config.broken().count(), 0, "{config:?}");
        (config.servers[0].options.sign_in.clone(), config.remarks.len())
    };
    let of_host =
        r#""oauth": { "clientId": "theirs", "callbackPort": 8080, "scopes": ["a", "b"], "enabled": true }"#;
    let (host, _) = read(of_host);
    assert_eq!(host.client_id.as_deref(), Some("theirs"));
    assert_eq!((host.callback_port, host.scopes.as_deref()), (Some(8080), Some("a b")));
    let (both, _) = read(&format!(
        r#"{of_host}, "regrow": {{ "signIn": {{ "clientId": "ours", "account": "work", "resource": "none" }} }}"#
    ));
    assert_eq!((both.client_id.as_deref(), &*both.account), (Some("ours"), "work"));
    assert_eq!((both.callback_port, both.no_resource), (Some(8080), true));
    let (secret, remarks) = read(r#""oauth": { "clientId": "x", "clientSecret": "s3cr3t" }"#);
    assert_eq!((secret.client_secret_env, remarks), (None, 1));
    let cursor = r#""auth": { "CLIENT_ID": "x", "CLIENT_SECRET": "s3cr3t", "scopes": ["a"] }"#;
    let (cursor, remarks) = read(cursor);
    assert_eq!((cursor.client_id.as_deref(), cursor.scopes.as_deref(), remarks), (Some("x"), Some("a"), 1));
    let (codex, _) = read(r#""scopes": ["a", "b"], "oauth": { "client_id": "x" }"#);
    assert_eq!((codex.client_id.as_deref(), codex.scopes.as_deref()), (Some("x"), Some("a b")));
    for other in [r#""oauth": false"#, r#""auth": { "scopes": 7 }"#, r#""scopes": "user""#] {
        assert_eq!(read(other), (SignIn::default(), 0), "{other}");
    }
}

#[test]
fn a_sign_in_that_is_wrong_is_told_with_its_place_and_what_to_do() {
    let folder = Folder::new();
    let problems = |sign_in: &str| {
        let text = format!(
            r#"{{ "mcpServers": {{ "a": {{ "url": "https://h", "regrow": {{ "signIn": {sign_in} }} }} }} }}"#
        );
        folder.problems(&text).join("\n")
    };
    for (sign_in, told) in [
        (
            r#"{ "clientID": "x" }"#,
            r#"field "regrow.signIn.clientID": there is no such member; did you mean "clientId"?"#,
        ),
        (
            r#"{ "clientId": "x", "clientSecretEnv": "S" }"#,
            r#"field "regrow.signIn.clientSecretEnv": a client secret requires"#,
        ),
        (r#"{ "issuer": "i" }"#, "write it as https://host/path"),
        (r#"{ "authorizeParams": { "state": "x" } }"#, "Regrow sets this parameter itself"),
        (r#"{ "clientMetadataUrl": "https://h" }"#, "write the address of the document"),
        (r#"{ "callbackPort": "80" }"#, "write a port from 1 to 65535"),
        (r#"{ "resource": true }"#, "write \"none\""),
    ] {
        let problems = problems(sign_in);
        assert!(problems.contains(told), "{sign_in}: {problems}");
    }
}

#[test]
fn two_servers_with_one_account_are_told_to_set_another() {
    let folder = Folder::new();
    let broken = |one: &str, other: &str| {
        let entry = |more: &str| format!(r#"{{ "url": "https://h/mcp"{more} }}"#);
        let config = folder.read(&format!(
            r#"{{ "mcpServers": {{ "one": {}, "other": {} }} }}"#,
            entry(one),
            entry(other)
        ));
        let config = config.unwrap();
        let broken: Vec<String> = config
            .broken()
            .map(|(server, problems)| format!("{}: {}", server.name, problems.brief()))
            .collect();
        broken.join("\n")
    };
    let client = r#", "regrow": { "signIn": { "clientId": "c" } }"#;
    let work = r#", "regrow": { "signIn": { "account": "work" } }"#;
    let tenant = r#", "regrow": { "signIn": { "authorizeParams": { "tenant": "t" } } }"#;
    let header = r#", "headers": { "Authorization": "x" }"#;
    let told = broken("", client);
    assert!(
        told.starts_with("other: ") && told.contains("as the server one; set another \"account\""),
        "{told}"
    );
    assert!(broken(work, work).starts_with("other: "));
    for (one, other) in [("", ""), ("", work), (work, tenant), (client, tenant), (header, client)] {
        assert_eq!(broken(one, other), "", "{one} {other}");
    }
}

#[test]
fn of_two_plain_entries_with_one_url_only_the_first_has_the_account() {
    let folder = Folder::new();
    let config = folder.read(
        r#"{ "mcpServers": {
            "one": { "url": "https://h/mcp" }, "two": { "url": "https://h/mcp#part" }, "three": { "url": "https://h/mcp" },
            "other": { "url": "https://h/other" }, "local": { "command": "x" }
        } }"#,
    );
    let servers = config.unwrap().servers;
    let owners: Vec<Option<&str>> = servers.iter().map(|server| server.account_is_of.as_deref()).collect();
    assert_eq!(owners, [None, Some("one"), Some("one"), None, None]);
}
