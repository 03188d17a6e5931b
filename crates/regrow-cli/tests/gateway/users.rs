//! SECURITY 22: whom of the users of a machine a gateway without tokens serves.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use rustix::process::{Signal, Uid, geteuid};
use serde_json::json;

use crate::client::envelope;
use crate::evidence::{kill, spawn_copy};
use crate::guest::{Era, Guest};
use crate::house::{Place, REGROW, chaos};
use crate::roles::{COMMANDS, PAGES, is_untouched};
use crate::wire::Wire;

/// A user who has nothing to do with us.
const NOBODY: u32 = 65534;

/// Whether somebody else's request can be made here.
fn can_be_nobody() -> bool {
    let is_root = geteuid().is_root();
    assert!(is_root || env::var_os("REGROW_CI").is_none(), "this test must run as root in CI");
    if !is_root {
        eprintln!("skipped: only root can connect as another user");
    }
    is_root
}

/// Runs this as another user. On Linux a thread has credentials of its own, and its sockets belong to them.
fn as_nobody<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let other = thread::spawn(|| {
        rustix::thread::set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        run()
    });
    other.join().unwrap()
}

fn modern_call(tool: &str) -> String {
    let params = json!({ "name": tool, "arguments": {}, "_meta": envelope() });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string()
}

fn modern_headers(tool: &str) -> Vec<(&str, &str)> {
    vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
}

#[test]
fn security_22_without_tokens_another_user_of_the_machine_gets_nothing() {
    if !can_be_nobody() {
        return;
    }
    for host in ["127.0.0.1", "::1"] {
        let place = Place::new([("one", chaos(""))]).options(&["--host", host]);
        let house = place.start();
        house.wait_for_tools("one");
        let address = house.address;
        let mapped = format!("[::ffff:127.0.0.1]:{}", address.port()).parse::<SocketAddr>().unwrap();
        let reached = if host == "::1" { vec![address] } else { vec![address, mapped] };
        for address in reached {
            as_nobody(move || {
                let host = format!("localhost:{}", address.port());
                let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
                    let headers = [headers, &[("Host", &*host)]].concat();
                    Wire::connect(address).ask(method, path, &headers, body)
                };
                let (head, body) = ask("POST", "/mcp", &modern_headers("count"), &modern_call("count"));
                assert_eq!(head.status, 403, "{body}");
                assert!(body.contains("from user 65534") && body.contains("--allow-users any"), "{body}");
                for path in PAGES {
                    let status = ask("GET", path, &[], "").0.status;
                    assert_eq!(status, if path.starts_with("/readyz") { 401 } else { 403 }, "{path}");
                }
                for (path, order) in COMMANDS {
                    assert_eq!(ask("POST", path, &[], order).0.status, 403, "{path}");
                }
                for path in ["/livez", "/readyz"] {
                    assert_eq!(ask("GET", path, &[], "").0.status, 200, "{path}");
                }
            });
        }
        // Nor by leaving at once: a socket that is gone has no owner, and must not pass for root's.
        as_nobody(move || {
            for _ in 0..50 {
                let mut socket = TcpStream::connect(address).unwrap();
                let (call, mut text) =
                    (modern_call("count"), format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\n"));
                for (name, value) in modern_headers("count") {
                    text.push_str(&format!("{name}: {value}\r\n"));
                }
                text.push_str(
                    "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
                );
                text.push_str(&format!("Content-Length: {}\r\n\r\n{call}", call.len()));
                socket.write_all(text.as_bytes()).unwrap();
            }
        });
        let mut own = Guest::of(&house, Era::Modern);
        assert_eq!(own.call("echo", json!({ "text": "mine" })), "mine");
        assert_eq!(place.journal("one").runs("count"), 0);
        is_untouched(&house, &place.operator(&house));
    }
}

#[test]
fn security_22_other_users_are_served_where_the_operator_allows_them_and_see_and_command_nothing() {
    if !can_be_nobody() {
        return;
    }
    let place = Place::new([("one", chaos(""))]).options(&["--allow-users", "any"]);
    let house = place.start();
    house.wait_for_tools("one");
    let address = house.address;
    as_nobody(move || {
        let (head, body) =
            Wire::connect(address).ask("POST", "/mcp", &modern_headers("pid"), &modern_call("pid"));
        assert!(head.status == 200 && body.contains("result"), "{body}");
        for path in PAGES {
            assert_eq!(Wire::connect(address).ask("GET", path, &[], "").0.status, 401, "{path}");
        }
        for (path, order) in COMMANDS {
            assert_eq!(Wire::connect(address).ask("POST", path, &[], order).0.status, 401, "{path}");
        }
    });
    assert_eq!(house.page("/status", &[]).0, 200, "the user who runs it still reads");
    is_untouched(&house, &place.operator(&house));
    assert_eq!(place.journal("one").starts(), 1, "a shared server does not run once more for them");
}

#[test]
fn security_22_where_users_cannot_be_told_apart_the_operator_reads_it_at_the_start() {
    // Without a map of users, all look the same in a user namespace.
    let is_allowed = Command::new("unshare").args(["--user", "true"]).status();
    if !is_allowed.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: this system allows no user namespaces");
    }
    let enter = "set -- unshare --user \"$@\"";
    let place = Place::new([]);
    place.start_after(enter).wait_for_log("cannot tell which user a connection comes from");
    let place = place.options(&["--allow-users", "any"]);
    let accepted = place.start_after(enter);
    accepted.wait_for_log("serving at");
    assert!(!accepted.log().iter().any(|line| line.contains("which user")), "{:?}", accepted.log());
}

#[test]
fn security_22_a_gateway_of_a_user_serves_that_user_and_root() {
    if !can_be_nobody() {
        return;
    }
    let place = Place::new([]);
    // What that user needs, where it can be reached.
    fs::set_permissions(place.path("."), PermissionsExt::from_mode(0o777)).unwrap();
    fs::copy(REGROW, place.path("binary")).unwrap();
    let like = place.serve();
    let mut serve = Command::new(place.path("binary"));
    serve.args(like.get_args()).uid(NOBODY).gid(NOBODY).stdin(Stdio::null()).stderr(Stdio::piped());
    serve.env_clear().env("HOME", place.path(".")).env("XDG_RUNTIME_DIR", place.path("."));
    let mut child = spawn_copy(&mut serve);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("serving at http")).expect("it listens");
    let address: SocketAddr =
        line.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().parse().unwrap();
    let reads =
        move || Wire::connect(address).ask("GET", "/status", &[("Accept", "application/json")], "").0.status;
    assert_eq!(as_nobody(reads), 200, "the user who runs it");
    assert_eq!(reads(), 200, "root");
    let stranger = thread::spawn(move || {
        rustix::thread::set_thread_uid(Uid::from_raw(NOBODY - 1)).unwrap();
        reads()
    });
    assert_eq!(stranger.join().unwrap(), 403, "anybody else");
    kill(child.id(), Signal::TERM);
    lines.for_each(drop);
    child.wait().unwrap();
}
