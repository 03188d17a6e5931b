//! What a server in a sandbox gets at: what its list names, and nothing else. The attacker is a shell that tries, reports what worked, and
//! then becomes a server. On a kernel that cannot enforce it all, that is reported, and a required sandbox keeps the server from starting.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use regrow::transport::stdio::Sandbox;
use serde_json::{Value, json};

use crate::guest::{Era, Guest};
use crate::house::{Entry, Place, REGROW, chaos};

/// Each line is an attack. A helper in a session of its own tries the first two again.
const ATTACKS: &str = r#"
    worked() { echo "$1" >> "$CHAOS_DIR/worked"; }
    cat "$OUTSIDE/secret" > /dev/null 2>&1 && worked read
    (echo x > "$OUTSIDE/planted") 2> /dev/null && worked write
    (: > "$OUTSIDE/emptied") 2> /dev/null && worked empty
    rm "$OUTSIDE/removed" 2> /dev/null && worked remove
    mv "$OUTSIDE/moved" "$CHAOS_DIR/moved" 2> /dev/null && worked move
    ls "$OUTSIDE" > /dev/null 2>&1 && worked list
    ln -s "$OUTSIDE/secret" "$CHAOS_DIR/link"; cat "$CHAOS_DIR/link" > /dev/null 2>&1 && worked link
    cat "/proc/$VICTIM/environ" > /dev/null 2>&1 && worked environment
    kill -0 "$VICTIM" 2> /dev/null && worked signal
    bash -c "exec 3<> /dev/tcp/127.0.0.1/$PORT" 2> /dev/null && worked connect
    bash -c "exec 3> /dev/udp/127.0.0.1/$PORT" 2> /dev/null && worked datagram
    setsid sh -c 'cat "$OUTSIDE/secret"' > /dev/null 2>&1 && worked helper-read
    setsid sh -c 'echo x > "$OUTSIDE/planted2"' 2> /dev/null && worked helper-write
    cat "$ALLOWED/file" > /dev/null 2>&1 && worked allowed-read
    (echo x > "$ALLOWED/file") 2> /dev/null && worked allowed-write
    exec "$0" chaos-server
"#;
/// What a server that is not in a sandbox can do.
const EVERYTHING: [&str; 15] = [
    "read",
    "write",
    "empty",
    "remove",
    "move",
    "list",
    "link",
    "environment",
    "signal",
    "connect",
    "datagram",
    "helper-read",
    "helper-write",
    "allowed-read",
    "allowed-write",
];

/// Starts the attacker with this sandbox around its own folder and what it may read; tells which attacks worked.
fn attack(sandbox: Option<Value>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let (outside, allowed) = (folder.path().join("outside"), folder.path().join("allowed"));
    fs::create_dir(&outside).unwrap();
    fs::create_dir(&allowed).unwrap();
    for file in
        [outside.join("secret"), outside.join("emptied"), outside.join("removed"), outside.join("moved")]
    {
        fs::write(file, "ours").unwrap();
    }
    fs::write(allowed.join("file"), "theirs").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let entry = |own: &Path| -> Entry {
        let entry = chaos("")
            .member("command", "sh")
            .member("args", json!(["-c", ATTACKS, REGROW]))
            .variable("PATH", "/usr/bin:/bin")
            .variable("OUTSIDE", &text(&outside))
            .variable("ALLOWED", &text(&allowed))
            .variable("VICTIM", &std::process::id().to_string())
            .variable("PORT", &listener.local_addr().unwrap().port().to_string())
            .option("era", "legacy");
        let Some(mut sandbox) = sandbox.clone() else { return entry };
        sandbox["read"] = json!([REGROW, allowed]);
        sandbox["write"] = json!([own]);
        entry.option("sandbox", sandbox)
    };
    let place = Place::new([]);
    let own = place.journal("one").dir().to_owned();
    place.configure([("one", entry(&own))]);
    let house = place.start();
    house.wait_for_tools("one");
    let mut guest = Guest::of(&house, Era::Legacy);
    assert_eq!(guest.call("echo", json!({ "text": "served" })), "served");
    let worked = fs::read_to_string(own.join("worked")).unwrap();
    let worked: Vec<String> = worked.lines().map(str::to_owned).collect();
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().is_ok(), worked.contains(&"connect".to_owned()), "{worked:?}");
    assert_eq!(outside.join("planted").exists(), worked.contains(&"write".to_owned()), "{worked:?}");
    worked
}

/// Whether this kernel enforces every part.
fn is_enforced() -> bool {
    Sandbox::default().gaps().is_empty()
}

#[test]
fn security_16_a_server_in_a_sandbox_and_its_helpers_reach_only_what_is_named() {
    assert_eq!(attack(None), EVERYTHING, "each attack works without a sandbox");
    if is_enforced() {
        assert_eq!(attack(Some(json!({ "net": false, "required": true }))), ["allowed-read"]);
        let with_network = attack(Some(json!({ "net": true, "required": true })));
        assert_eq!(with_network, ["connect", "datagram", "allowed-read"]);
    }
}

#[test]
fn security_16_a_sandbox_that_the_system_does_not_enforce_is_reported_and_refused_where_it_is_required() {
    let place = Place::new([]);
    let own = place.journal("best").dir().to_owned();
    let required = place.journal("strict").dir().to_owned();
    let sandbox =
        |own: &Path, required: bool| json!({ "read": [REGROW], "write": [own], "required": required });
    place.configure([
        ("best", chaos("").option("era", "legacy").option("sandbox", sandbox(&own, false))),
        ("strict", chaos("").option("era", "legacy").option("sandbox", sandbox(&required, true))),
    ]);
    let house = place.start();
    house.wait_for_tools("best");
    if is_enforced() {
        house.wait_for_tools("strict");
        assert!(house.server("best")["sandboxGaps"].is_null());
        return;
    }
    assert!(!house.server("best")["sandboxGaps"].as_array().unwrap().is_empty());
    house.wait_for_log("this system does not enforce the whole sandbox");
    let strict = house.wait_for_state("strict", "parked");
    assert_eq!(strict["lastFault"]["kind"], "unsandboxed", "{strict}");
    assert!(!place.journal("strict").dir().join("pids").exists());
}

#[test]
fn a_path_of_a_sandbox_that_does_not_exist_is_named() {
    let sandbox = json!({ "read": [REGROW, "/no/such/folder"] });
    let place = Place::new([("one", chaos("").option("era", "legacy").option("sandbox", sandbox))]);
    let house = place.start();
    let one = house.wait_for_state("one", "parked");
    assert_eq!(one["lastFault"]["kind"], "misconfigured", "{one}");
    let text = one["lastFault"]["text"].as_str().unwrap();
    assert!(
        text.contains("sandbox.read: \"/no/such/folder\": no such file or directory; create it"),
        "{text}"
    );
}

/// With nothing but the folder of the script in the list.
#[test]
fn interpreters_run_in_a_sandbox_with_a_short_list() {
    let programs = ["/usr/bin/python3", "/usr/bin/node", "/bin/sh"];
    for program in programs.into_iter().filter(|program| Path::new(program).exists()) {
        let place = Place::new([]);
        let own = place.journal("one").dir().to_owned();
        fs::create_dir_all(&own).unwrap();
        let script = match program {
            "/usr/bin/python3" => {
                "import os,ssl,json,subprocess,sys\nsubprocess.run(['true'],check=True)\nos.execv(sys.argv[1],[sys.argv[1],'chaos-server'])"
            }
            "/usr/bin/node" => {
                "require('os').cpus(); process.memoryUsage(); require('crypto').randomBytes(8);
                 const s = require('child_process').spawn(process.argv[2], ['chaos-server'], { stdio: 'inherit' });
                 s.on('exit', code => process.exit(code ?? 1));"
            }
            _ => "ls /usr | sort > /dev/null || exit 9; exec \"$1\" chaos-server",
        };
        let file = own.join("script");
        fs::write(&file, script).unwrap();
        let sandbox = json!({ "read": [REGROW], "write": [own] });
        let server = chaos("").member("command", program).member("args", json!([file, REGROW]));
        place.configure([("one", server.option("era", "legacy").option("sandbox", sandbox))]);
        let house = place.start();
        house.wait_for_tools("one");
    }
}
