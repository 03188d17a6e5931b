//! Servers of the official Python SDKs that are their own authorization servers (`mcp.server.auth`), through `regrow login`, `wrap` and
//! `logout`. Needs `tests/peers/install`; says so where that is missing, and fails in CI.

use std::path::Path;
use std::process::Command;

use regrow_chaos::Journal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup, fault, is_failure};
use crate::evidence::wait_until;
use crate::real_server::{RealServer, peers};
use crate::sign_in::{browse, regrow, said, sign_in};
use crate::site::{Era, Peer};

/// `mcp1` or `mcp2`. None if it is not installed.
fn start(sdk: &str) -> Option<RealServer> {
    let mut server = Command::new(peers(&format!("{sdk}/installed"))?.join(sdk).join("bin/python"));
    server.arg(RealServer::scripts().join("protected_server.py"));
    Some(RealServer::start(server))
}

/// Makes the server do something, or nothing. Returns what has happened there.
fn control(server: &RealServer, command: &str) -> Value {
    let answer = browse(&format!("{}/control/{command}?", server.origin));
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn login(server: &RealServer, state: &Path, peer: &mut Peer) {
    let from = peer.client.log().len();
    let output = sign_in(state, &["login", &server.url(), "--no-browser"]);
    assert!(output.status.success(), "{}", said(&output));
    peer.client.wait_for_log(from, "connecting");
}

fn assert_needs_sign_in(answer: &Value) {
    assert!(is_failure(answer), "{answer}");
    assert_eq!(fault(answer)["cause"], "sign-in-needed", "{answer}");
}

fn keeps_an_account_signed_in(sdk: &str) {
    let Some(server) = start(sdk) else { return };
    let folder = TempDir::new().unwrap();
    let state = folder.path();
    let setup = Setup::remote(&server.url(), &Journal::new(state));
    let setup = setup.variable("XDG_STATE_HOME", state.to_str().unwrap());
    let mut peer = Peer { client: setup.start(), era: Era::Legacy };
    let id = peer.ask_greeting();
    assert_needs_sign_in(&peer.client.answer(id));

    login(&server, state, &mut peer);
    let id = peer.ask_greeting();
    let greeting = peer.client.answer(id);
    assert!(!is_failure(&greeting), "{greeting}");
    peer.client.notify("notifications/initialized", json!({}));
    let me = format!("read at {}", server.url());
    assert_eq!(peer.call("whoami", json!({})), me);

    // Access tokens expire; refresh tokens rotate.
    for _ in 0..2 {
        control(&server, "expire");
        assert_eq!(peer.call("whoami", json!({})), me);
    }
    let events = ["register", "sign-in", "refresh", "refresh"];
    assert_eq!(control(&server, "state")["events"], json!(events));

    // The server ends all tokens: only a person helps, as the same client.
    control(&server, "revoke");
    let id = peer.begin_call("whoami", json!({}));
    assert_needs_sign_in(&peer.client.answer(id));
    login(&server, state, &mut peer);
    assert_eq!(peer.call("whoami", json!({})), me);

    // It forgets the client, too: that must be registered again.
    control(&server, "forget");
    let id = peer.begin_call("whoami", json!({}));
    assert_needs_sign_in(&peer.client.answer(id));
    login(&server, state, &mut peer);
    assert_eq!(peer.call("whoami", json!({})), me);
    let events = [&events[..], &["sign-in", "register", "sign-in"]].concat();
    assert_eq!(control(&server, "state")["events"], json!(events));

    let output = regrow(state, &["logout", &server.url()]).output().unwrap();
    assert!(output.status.success() && said(&output).contains("signed out of"), "{}", said(&output));
    let after = control(&server, "state");
    assert_eq!((&after["events"][7], &after["tokens"]), (&json!("revoke"), &json!(0)), "{after}");
    wait_until("the connection has no account", PATIENCE, || {
        let id = peer.begin_call("whoami", json!({}));
        let answer = peer.client.answer(id);
        is_failure(&answer) && fault(&answer)["cause"] == "sign-in-needed"
    });
    peer.leave();
}

#[test]
fn an_account_at_a_server_of_the_python_sdk_2_stays_signed_in() {
    keeps_an_account_signed_in("mcp2");
}

#[test]
fn an_account_at_a_server_of_the_python_sdk_1_stays_signed_in() {
    keeps_an_account_signed_in("mcp1");
}
