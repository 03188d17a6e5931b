//! The problems that are planted, and what must be found.

use std::net::TcpListener;

use regrow_auth::account::AccountKey;
use serde_json::{Value, json};

use crate::far;
use crate::machine::Machine;

pub struct Problem {
    pub name: &'static str,
    pub plant: fn(&mut Machine),
    pub level: &'static str,
    pub kind: &'static str,
    /// Where; empty if nowhere in particular. Folders of the machine are in braces.
    pub host: &'static str,
    pub file: &'static str,
    pub server: &'static str,
    /// Parts of what is said.
    pub what: &'static str,
    pub next: &'static str,
    pub stderr: &'static [&'static str],
}

const NONE: Problem = Problem {
    name: "",
    plant: |_| {},
    level: "broken",
    kind: "",
    host: "",
    file: "",
    server: "",
    what: "",
    next: "",
    stderr: &[],
};
/// A server of Claude Code.
const CLAUDE: Problem =
    Problem { host: "Claude Code", file: "{home}/.claude.json", server: "planted", ..NONE };

pub fn problems() -> Vec<Problem> {
    [of_regrow(), of_configurations(), of_servers(), of_accounts(), of_network(), of_own_files()]
        .into_iter()
        .flatten()
        .collect()
}

/// An entry behind `regrow wrap`.
fn wrapped(words: &[&str]) -> Value {
    let args = [&["wrap"], words].concat();
    json!({ "command": "regrow", "args": args })
}

fn of_regrow() -> Vec<Problem> {
    vec![
        Problem {
            name: "two versions in PATH",
            plant: |machine| {
                machine.script("bin2/regrow", "echo regrow 0.0.9");
                let path = format!("{}:{}", machine.path("bin"), machine.path("bin2"));
                machine.set("PATH", &path);
            },
            level: "hint",
            kind: "several-regrows",
            what: "{bin}2/regrow (regrow 0.0.9)",
            next: "remove those that you do not need",
            ..NONE
        },
        Problem {
            name: "the regrow of an entry is gone",
            plant: |machine| {
                machine.claude(
                    "planted",
                    json!({ "command": "/opt/gone/regrow", "args": ["wrap", "--", "good"] }),
                );
            },
            kind: "regrow-missing",
            what: "/opt/gone/regrow does not exist",
            next: "write {bin}/regrow as its command; then start a new session of Claude Code",
            ..CLAUDE
        },
        Problem {
            name: "the regrow of an entry is in the cache of npx",
            plant: |machine| {
                machine.script("home/.npm/_npx/1f/regrow", "exit 1");
                let command = machine.path("home/.npm/_npx/1f/regrow");
                machine.claude("planted", json!({ "command": command, "args": ["wrap", "--", "good"] }));
            },
            level: "hint",
            kind: "regrow-in-cache",
            what: "cache of a package manager",
            next: "write {bin}/regrow as its command",
            ..CLAUDE
        },
        Problem {
            name: "an option that wrap does not have",
            plant: |machine| machine.claude("planted", wrapped(&["--no-such-option", "--", "good"])),
            kind: "wrap-fails",
            what: "unexpected argument",
            next: "`regrow wrap --help`",
            ..CLAUDE
        },
        Problem {
            name: "a variable that wrap should pass is not set",
            plant: |machine| machine.claude("planted", wrapped(&["-e", "PLANTED_TOKEN", "--", "good"])),
            kind: "wrap-fails",
            what: "-e PLANTED_TOKEN: the variable is not set",
            next: "correct its command",
            ..CLAUDE
        },
        Problem {
            name: "the port of serve is taken",
            plant: |machine| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                machine.set("REGROW_PORT", &listener.local_addr().unwrap().port().to_string());
                std::mem::forget(listener); // It listens until the test ends.
            },
            kind: "port-in-use",
            what: "cannot listen on 127.0.0.1:",
            next: "--port PORT",
            ..NONE
        },
    ]
}

fn of_configurations() -> Vec<Problem> {
    vec![
        Problem {
            name: "a file that does not parse",
            plant: |machine| machine.write(".cursor/mcp.json", "{\n  \"mcpServers\": {\n    oops\n"),
            kind: "config-file",
            host: "Cursor",
            file: "{home}/.cursor/mcp.json:3",
            next: "switch each server off and on in the MCP settings of Cursor",
            ..NONE
        },
        Problem {
            name: "a variable that an entry refers to is not set",
            plant: |machine| {
                let mut entry = wrapped(&["--", "good"]);
                entry["env"] = json!({ "TOKEN": "${PLANTED_TOKEN}" });
                machine.claude("planted", entry);
            },
            kind: "config-entry",
            what: "env.TOKEN: the variable PLANTED_TOKEN is not set",
            next: "where Claude Code is started",
            ..CLAUDE
        },
        Problem {
            name: "an input that the host asks for",
            plant: |machine| {
                let mut entry = wrapped(&["--", "good"]);
                entry["env"] = json!({ "TOKEN": "${input:token}" });
                let inputs = json!([{ "id": "token", "type": "promptString", "password": true }]);
                let text = json!({ "inputs": inputs, "servers": { "planted": entry } }).to_string();
                machine.write(".config/Code/User/mcp.json", &text);
            },
            level: "hint",
            kind: "input",
            host: "VS Code",
            file: "{home}/.config/Code/User/mcp.json",
            server: "planted",
            what: "set the variable REGROW_INPUT_TOKEN",
            next: "VS Code asks you for it",
            ..NONE
        },
        Problem {
            name: "a host that bypasses Regrow",
            plant: |machine| {
                let command = machine.path("bin/good");
                let text =
                    json!({ "mcpServers": { "one": { "command": command }, "two": { "command": command } } });
                machine.write(".gemini/settings.json", &text.to_string());
            },
            level: "hint",
            kind: "bypassing",
            host: "Gemini CLI",
            file: "{home}/.gemini/settings.json",
            what: "Regrow does not supervise: one, two",
            next: "`regrow adopt {home}/.gemini/settings.json`; then start Gemini CLI again",
            ..NONE
        },
        Problem {
            name: "a file of a project that nobody has trusted",
            plant: |machine| {
                let text = json!({ "mcpServers": { "planted": wrapped(&["--", "good"]) } }).to_string();
                machine.write("project/.mcp.json", &text);
                machine.directory = "project".into();
            },
            level: "hint",
            kind: "untrusted-file",
            host: "Claude Code",
            file: "{project}/.mcp.json",
            what: "its servers were not tried",
            next: "`regrow trust {project}/.mcp.json`",
            ..NONE
        },
    ]
}

fn of_servers() -> Vec<Problem> {
    vec![
        Problem {
            name: "uvx is not installed",
            plant: |machine| machine.claude("planted", wrapped(&["--", "uvx", "mcp-server-time"])),
            kind: "program-missing",
            what: "the program uvx was not found in PATH",
            next: "install uv, which brings uvx: https://docs.astral.sh/uv; then start a new session of Claude Code",
            ..CLAUDE
        },
        Problem {
            name: "npx is not installed, and would run regrow",
            plant: |machine| {
                let args = ["-y", "regrow", "wrap", "--", "good"];
                machine.claude("planted", json!({ "command": "npx", "args": args }));
            },
            kind: "program-missing",
            what: "the program npx was not found in PATH",
            next: "install Node.js",
            ..CLAUDE
        },
        Problem {
            name: "a program that only the shell finds",
            plant: |machine| {
                machine.write(
                    ".cursor/mcp.json",
                    &json!({ "mcpServers": { "planted": {
                    "command": machine.path("bin/regrow"), "args": ["wrap", "--", "good"],
                } } })
                    .to_string(),
                );
            },
            level: "hint",
            kind: "desktop-path",
            host: "Cursor",
            file: "{home}/.cursor/mcp.json",
            server: "planted",
            what: "Cursor may not find good: your shell finds {bin}/good, but apps that are started from the desktop look in /nowhere:/bin",
            next: "write {bin}/good instead of good",
            ..NONE
        },
        Problem {
            name: "a server that fails at its start",
            plant: |machine| {
                machine.script("failing", "echo 'Error: no token' >&2; exit 3");
                machine.claude("planted", wrapped(&["--", "failing"]));
            },
            kind: "server-fails",
            what: "the server process exited with code 3",
            next: "goes into \"env\" of its entry",
            stderr: &["Error: no token"],
            ..CLAUDE
        },
        Problem {
            name: "a server that never responds",
            plant: |machine| {
                machine.script(
                    "silent",
                    &format!(
                        "CHAOS=never-answer CHAOS_LIFE=120s exec '{}' chaos-server",
                        crate::machine::REGROW
                    ),
                );
                machine.claude("planted", wrapped(&["--connect-timeout", "1s", "--", "silent"]));
            },
            kind: "server-fails",
            what: "handshake timed out after 1 s",
            next: "--timeout 120s",
            ..CLAUDE
        },
        Problem {
            name: "a remote server that is not there",
            plant: |machine| {
                machine.claude("planted", wrapped(&["--connect-timeout", "3s", "http://127.0.0.1:1/mcp"]));
            },
            kind: "unreachable",
            what: "127.0.0.1:1",
            next: "check its URL",
            ..CLAUDE
        },
        Problem {
            name: "a token that a remote server refuses",
            plant: |machine| {
                machine.claude("planted", wrapped(&["-H", "Authorization: Bearer wrong", &far::start()]));
            },
            kind: "credential-refused",
            what: "refused the credentials (HTTP 401)",
            next: "a valid token",
            ..CLAUDE
        },
    ]
}

fn of_accounts() -> Vec<Problem> {
    vec![
        Problem {
            name: "a remote server that requires sign-in",
            plant: |machine| {
                let far = far::start_with_sign_in();
                machine.set("FAR", &far);
                machine.claude("planted", wrapped(&[&far]));
            },
            kind: "sign-in-needed",
            what: "the server requires sign-in",
            next: "`regrow login {far}`",
            ..CLAUDE
        },
        Problem {
            name: "an account that has expired",
            plant: |machine| {
                let far = far::start_with_sign_in();
                machine.set("FAR", &far);
                machine.claude("planted", wrapped(&["--account", "work", &far]));
                account(machine, &far, "work");
            },
            kind: "sign-in-needed",
            what: "needs sign-in again (account work, issuer issuer.example, expiry 1970-01-01T00:00:07Z)",
            next: "`regrow login {far} --account work`",
            ..CLAUDE
        },
        Problem {
            name: "an expired account that an entry for serve names",
            plant: |machine| {
                let far = far::start_with_sign_in();
                machine.set("FAR", &far);
                let entry =
                    json!({ "url": far, "regrow": { "signIn": { "account": "work", "clientId": "ours" } } });
                let text = json!({ "mcpServers": { "planted": entry } }).to_string();
                machine.write(".config/regrow/mcp.json", &text);
                account(machine, &far, "work");
            },
            kind: "sign-in-needed",
            host: "regrow serve",
            file: "{home}/.config/regrow/mcp.json",
            server: "planted",
            what: "needs sign-in again (account work, issuer issuer.example, expiry 1970-01-01T00:00:07Z)",
            next: "`regrow login {far} --account work --client-id ours`",
            ..NONE
        },
        Problem {
            name: "an expired account that nothing uses",
            plant: |machine| account(machine, "https://mcp.example/mcp", ""),
            level: "hint",
            kind: "account-expired",
            server: "https://mcp.example/mcp",
            what: "issuer issuer.example",
            next: "regrow logout",
            ..NONE
        },
        Problem {
            name: "a damaged account",
            plant: |machine| machine.private("state/regrow/accounts/0123.json", "{ \"format\": 1, \"key\""),
            kind: "account-damaged",
            file: "{state}/regrow/accounts/0123.json",
            what: "an account cannot be read",
            next: "`regrow login URL`",
            ..NONE
        },
    ]
}

/// An account whose token expired long ago, without a refresh token.
fn account(machine: &Machine, url: &str, label: &str) {
    let key = AccountKey::new(url.parse().unwrap(), label);
    let issuer = "https://issuer.example";
    let text = json!({
        "format": 1,
        "key": key,
        "resource": { "url": url, "resource": null },
        "server": {
            "issuer": issuer, "authorization_endpoint": null, "token_endpoint": format!("{issuer}/token"),
            "registration_endpoint": null, "revocation_endpoint": null, "device_authorization_endpoint": null,
            "scopes_supported": [], "token_auth_methods": [], "iss_parameter_supported": false,
            "client_id_metadata_supported": false,
        },
        "registration": {
            "issuer": issuer, "client_id": "regrow", "client_secret": null, "secret_expires_at": null,
            "auth_method": "none", "redirect_uri": null, "how": "dynamic",
        },
        "generation": 1,
        "tokens": { "access_token": "s3cr3t", "refresh_token": null, "expires_at": 7, "scope": null },
        "obtained_at": 1,
        "rejected": null,
    });
    machine.private(&format!("state/regrow/accounts/{}.json", key.hash()), &text.to_string());
}

fn of_network() -> Vec<Problem> {
    vec![
        Problem {
            name: "a proxy that a host does not pass",
            plant: |machine| {
                machine.set("HTTPS_PROXY", "http://127.0.0.1:9");
                let entry = json!({ "command": machine.path("bin/regrow"), "args": ["wrap", "--", machine.path("bin/good")] });
                let text = json!({ "mcpServers": { "planted": entry } }).to_string();
                machine.write(".config/Claude/claude_desktop_config.json", &text);
            },
            level: "hint",
            kind: "variable-not-passed",
            host: "Claude Desktop",
            file: "{home}/.config/Claude/claude_desktop_config.json",
            what: "HTTPS_PROXY: set in your shell, but Claude Desktop may not pass it to planted",
            next: "\"env\" of their entries; then quit Claude Desktop and open it again",
            ..NONE
        },
        Problem {
            name: "a proxy that serve does not pass",
            plant: |machine| {
                machine.set("PIP_PROXY", "http://127.0.0.1:9");
                machine.write(
                    ".config/regrow/mcp.json",
                    r#"{ "mcpServers": { "planted": { "command": "good" } } }"#,
                );
            },
            level: "hint",
            kind: "variable-not-passed",
            host: "regrow serve",
            file: "{home}/.config/regrow/mcp.json",
            what: "PIP_PROXY: set here, but `regrow serve` does not pass it to planted",
            next: "\"inherit\": [\"PIP_PROXY\"]",
            ..NONE
        },
        Problem {
            name: "a file of certificates that is not there",
            plant: |machine| {
                let path = machine.path("home/corporate.pem");
                machine.set("SSL_CERT_FILE", &path);
            },
            kind: "network-variable",
            what: "SSL_CERT_FILE: the file {home}/corporate.pem cannot be read",
            next: "correct SSL_CERT_FILE",
            ..NONE
        },
        Problem {
            name: "a proxy that is no address",
            plant: |machine| machine.set("HTTP_PROXY", "http://user:s3cr3t@"),
            kind: "network-variable",
            what: "HTTP_PROXY: its value is not the address of a proxy",
            next: "unset it",
            ..NONE
        },
        Problem {
            name: "no home folder",
            plant: |machine| drop(machine.variables.remove("HOME")),
            kind: "no-home",
            what: "HOME is not set",
            next: "set HOME",
            ..NONE
        },
    ]
}

fn of_own_files() -> Vec<Problem> {
    vec![
        Problem {
            name: "a cache that others can write to",
            plant: |machine| {
                machine.private("cache/regrow/x", "");
                machine.chmod("cache/regrow", 0o777);
            },
            kind: "folder-unusable",
            file: "{cache}/regrow",
            what: "its cache: other users have access to it (mode 777)",
            next: "chmod 700",
            ..NONE
        },
        Problem {
            name: "a file where accounts should be",
            plant: |machine| machine.private("state/regrow/accounts", ""),
            kind: "folder-unusable",
            file: "{state}/regrow/accounts",
            what: "Regrow cannot use the folder for accounts",
            next: "or remove it",
            ..NONE
        },
        Problem {
            name: "a damaged cache file",
            plant: |machine| machine.private("cache/regrow/eras.json", "{ \"0123\": \"mod"),
            level: "hint",
            kind: "cache-damaged",
            file: "{cache}/regrow/eras.json",
            what: "a cache file cannot be read",
            next: "Regrow replaces it",
            ..NONE
        },
        Problem {
            name: "damaged pins",
            plant: |machine| machine.private("cache/regrow/pins/0123.json", "{"),
            kind: "pins-damaged",
            file: "{cache}/regrow/pins/0123.json",
            what: "what was approved of a server cannot be read",
            next: "`regrow approve SERVER --config FILE`",
            ..NONE
        },
    ]
}
