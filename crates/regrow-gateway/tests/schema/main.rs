//! The schema for editors says what the reader does. `UPDATE=1 cargo test -p regrow-gateway --test schema` writes its
//! options anew.

#![allow(clippy::unwrap_used)] // A helper of a test may fail as loudly as the test.

mod audit;
mod validity;

use std::fs;

use regrow_gateway::config::{Config, Kind, OPTIONS, Surroundings};
use regrow_protocol::oauth::OWN_PARAMETERS;
use serde_json::{Value, json};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/regrow.schema.json");

fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(PATH).unwrap()).unwrap()
}

/// What an editor should accept for an option.
fn schema_of(kind: Kind) -> Value {
    let pattern = |pattern: &str| json!({ "type": "string", "pattern": pattern });
    match kind {
        Kind::Duration => pattern(r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)$"),
        Kind::Limit => pattern(r"^(none|[0-9]+(\.[0-9]+)?(ms|s|m|h))$"),
        Kind::Size => pattern("^[0-9]+(B|KiB|MiB|GiB)?$"),
        Kind::Pace => pattern("^[0-9]+/[1-9][0-9]*s?$"),
        Kind::PaceOrNone => pattern("^(none|[1-9][0-9]*/[1-9][0-9]*s?)$"),
        Kind::Number => json!({ "type": "integer", "minimum": 1 }),
        Kind::NumberOrNone => json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, { "const": "none" }] }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "enum": words }),
        Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Path => json!({ "type": "string" }),
        Kind::Tools => {
            let globs = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
            let names = json!({ "type": "object", "additionalProperties": pattern("^[a-zA-Z0-9_-]{1,64}$") });
            let prefix = pattern("^[a-zA-Z0-9_-]{0,32}$");
            let members = json!({ "allow": globs, "deny": globs, "rename": names, "prefix": prefix });
            json!({
                "type": "object", "properties": members, "additionalProperties": false, "minProperties": 1
            })
        }
        Kind::SignIn => {
            let text = json!({ "type": "string", "minLength": 1 });
            let texts = json!({ "type": "array", "items": { "type": "string" } });
            let members = json!({
                "account": text, "issuer": text, "authServerMetadataUrl": text,
                "authorizeParams": {
                    "type": "object", "additionalProperties": { "type": "string" },
                    "propertyNames": { "not": { "enum": OWN_PARAMETERS } },
                },
                "resource": { "const": "none" }, "privateHosts": texts,
                "clientId": text, "clientSecretEnv": text,
                "clientMetadataUrl": pattern("^https://[^/]+/.+$"), "scopes": { "anyOf": [text, texts] },
                "callbackPort": { "type": "integer", "minimum": 1, "maximum": 65535 },
                "grant": { "const": "client_credentials" },
            });
            json!({
                "type": "object", "properties": members, "additionalProperties": false, "minProperties": 1,
                "dependencies": { "clientSecretEnv": ["clientId", "issuer"], "grant": ["clientSecretEnv"] }
            })
        }
        Kind::Sandbox => {
            let paths = json!({ "type": "array", "items": { "type": "string", "minLength": 1 } });
            let flag = json!({ "type": "boolean" });
            let members = json!({ "read": paths, "write": paths, "net": flag, "required": flag });
            let object = json!({
                "type": "object", "properties": members, "additionalProperties": false, "minProperties": 1
            });
            json!({ "anyOf": [object, { "const": "none" }] })
        }
    }
}

#[test]
fn the_options_in_the_schema_are_those_in_the_code() {
    let mut properties = json!({});
    for option in OPTIONS {
        let mut described = schema_of(option.kind);
        described["description"] = option.meaning.into();
        if let Some(default) = option.default {
            described["default"] = serde_json::from_str(default).unwrap();
        }
        properties[option.name] = described;
    }
    let mut updated = schema();
    updated["definitions"]["options"]["properties"] = properties;
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PATH, format!("{updated:#}\n")).unwrap();
    }
    assert_eq!(schema(), updated, "run it with UPDATE=1, and look at what changes");
}

/// What the reader says of a configuration, and what the schema says.
fn verdicts(config: &Value) -> (Result<(), String>, Result<(), String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    fs::write(&path, config.to_string()).unwrap();
    let surroundings = Surroundings { directory: folder.path().to_owned(), ..Surroundings::default() };
    let read = match Config::read(&[path], &surroundings) {
        Ok(config) => match config.broken().next() {
            Some((_, problems)) => Err(problems.to_string()),
            None => Ok(()),
        },
        Err(problems) => Err(problems.to_string()),
    };
    (read, validity::check(&schema(), config))
}

/// A configuration of one server.
fn one(server: Value) -> Value {
    json!({ "mcpServers": { "a": server } })
}

#[test]
fn what_is_right_is_right_for_both() {
    let mut right = vec![
        json!({ "mcpServers": {} }),
        json!({ "servers": { "a": { "command": "x" } }, "inputs": [{ "id": "k", "password": true }], "other": 1 }),
        one(
            json!({ "command": "x", "args": ["1"], "env": { "A": "1", "B": 2, "C": null }, "cwd": "/", "unknown": {} }),
        ),
        one(json!({ "command": "x", "env": { "inherit": true, "A": "1" } })),
        one(json!({ "command": "x", "env": { "inherit": ["A", "B_*"] } })),
        one(json!({ "command": "x", "env": { "inherit": "a variable" } })),
        one(json!({ "url": "https://h", "headers": { "X-A": "1" }, "type": "http" })),
        one(json!({ "serverUrl": "https://h", "transport": "sse" })),
        one(json!({ "httpUrl": "https://h", "type": "streamableHttp" })),
        one(json!({ "url": "https://h", "oauth": { "clientId": "a", "callbackPort": 1, "other": true } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": {
            "account": "a", "issuer": "https://i", "authServerMetadataUrl": "https://i/m", "authorizeParams": { "t": "1" },
            "resource": "none", "privateHosts": ["h"], "clientId": "c", "clientSecretEnv": "S", "scopes": "a b",
            "callbackPort": 8080, "grant": "client_credentials" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "scopes": ["a", "b"] } } })),
        one(
            json!({ "url": "https://h", "regrow": { "signIn": { "clientMetadataUrl": "https://h/c.json" } } }),
        ),
        one(json!({ "disabled": true })),
        one(json!({ "enabled": false, "note": "later" })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "read": ["/a", "~/b", "c"], "net": true } } })),
        json!({ "mcpServers": {}, "sandbox": { "enabled": true } }),
        one(
            json!({ "command": "x", "regrow": { "readOnly": true, "tools": { "allow": [], "deny": ["a*"] } } }),
        ),
        one(json!({ "command": "x", "regrow": { "tools": { "rename": { "a.b": "a" }, "prefix": "" } } })),
        one(json!({ "command": "x", "tools": ["*"] })),
        json!({ "mcpServers": {}, "tools": { "allowed": ["x"] } }),
        json!({ "mcpServers": {}, "regrow": { "callTimeout": "none", "queue": 7, "concurrency": 2, "rate": "5/1" } }),
    ];
    for option in OPTIONS {
        let default = match (option.default, option.kind) {
            (Some(default), _) => serde_json::from_str(default).unwrap(),
            (None, Kind::Word(words)) => json!(words[0]),
            (None, Kind::Tools) => json!({ "allow": ["*"] }),
            (None, Kind::SignIn) => json!({ "account": "work" }),
            (None, _) => json!("/x"),
        };
        let mut options = json!({ option.name: default });
        if option.name.starts_with("client") {
            options = json!({ "clientCert": "/x", "clientKey": "/x" });
        }
        right.push(one(json!({ "command": "x", "regrow": options })));
        if let Kind::Word(words) = option.kind {
            right.extend(
                words.iter().map(|word| one(json!({ "command": "x", "regrow": { option.name: word } }))),
            );
        }
    }
    for config in right {
        let (read, schema) = verdicts(&config);
        assert_eq!((read, schema), (Ok(()), Ok(())), "{config}");
    }
}

#[test]
fn what_is_wrong_is_wrong_for_both() {
    let mut wrong = vec![
        json!({}),
        json!([]),
        json!({ "mcpServers": [] }),
        json!({ "servers": { "a": "x" } }),
        json!({ "mcpServers": {}, "inputs": {} }),
        json!({ "mcpServers": {}, "inputs": [{}] }),
        json!({ "mcpServers": {}, "regrow": [] }),
        json!({ "mcpServers": {}, "regrow": { "colour": "red" } }),
        one(json!({})),
        one(json!({ "disabled": false })),
        one(json!({ "command": "" })),
        one(json!({ "command": ["x"] })),
        one(json!({ "command": "x", "url": "https://h" })),
        one(json!({ "command": "x", "args": "1" })),
        one(json!({ "command": "x", "args": [1] })),
        one(json!({ "command": "x", "env": ["A=1"] })),
        one(json!({ "command": "x", "env": { "A": true } })),
        one(json!({ "command": "x", "env": { "inherit": [1] } })),
        one(json!({ "command": "x", "env": { "inherit": [""] } })),
        one(json!({ "command": "x", "env": { "inherit": {} } })),
        one(json!({ "command": "x", "env": { "Inherit": true } })),
        one(json!({ "command": "x", "cwd": 1 })),
        one(json!({ "command": "x", "type": "tcp" })),
        one(json!({ "command": "x", "disabled": "no" })),
        one(json!({ "url": 7 })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "reed": [] } } })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "read": "/a" } } })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "read": [""] } } })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "write": [1] } } })),
        one(json!({ "command": "x", "regrow": { "sandbox": { "net": "no" } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "alow": ["a"] } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "allow": "a" } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "deny": [""] } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "rename": ["a"] } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "rename": { "a": "b c" } } } })),
        one(json!({ "command": "x", "regrow": { "tools": { "prefix": "a." } } })),
        json!({ "mcpServers": {}, "regrow": { "tools": { "allow": ["a"] } } }),
        json!({ "mcpServers": {}, "regrow": { "signIn": { "account": "a" } } }),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "acount": "a" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "account": "" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "clientId": 1 } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "clientMetadataUrl": "https://h/" } } })),
        one(
            json!({ "url": "https://h", "regrow": { "signIn": { "clientId": "a", "clientSecretEnv": "S" } } }),
        ),
        one(
            json!({ "url": "https://h", "regrow": { "signIn": { "issuer": "https://i", "clientSecretEnv": "S" } } }),
        ),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "resource": "https://h" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "scopes": 1 } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "grant": "client_credentials" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": {
            "grant": "password", "clientId": "c", "clientSecretEnv": "S", "issuer": "https://i" } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "callbackPort": 65536 } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "authorizeParams": ["a"] } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "authorizeParams": { "state": "a" } } } })),
        one(json!({ "url": "https://h", "regrow": { "signIn": { "privateHosts": "h" } } })),
        one(json!({ "url": "https://h", "headers": { "A": [] } })),
        one(json!({ "command": "x", "regrow": { "callTimeout": "none", "call_timeout": "5s" } })),
    ];
    for option in OPTIONS {
        for value in [json!(null), json!({}), json!(-1), json!(0.5)] {
            wrong.push(one(json!({ "command": "x", "regrow": { option.name: value } })));
        }
        let is_path_or_list = matches!(option.kind, Kind::Path | Kind::List);
        if !is_path_or_list {
            wrong.push(one(json!({ "command": "x", "regrow": { option.name: "soon" } })));
        }
    }
    for config in wrong {
        let (read, schema) = verdicts(&config);
        assert!(read.is_err(), "the reader takes {config}");
        assert!(schema.is_err(), "the schema takes {config}");
    }
}
