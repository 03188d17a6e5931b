//! Sign-in in Chromium at a real authorization server (npm oidc-provider), through `regrow login` and `regrow wrap`.
//! Needs Chromium and `tests/peers/install`; says so where they are missing, and fails in CI.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use regrow_chaos::Journal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup, fault, is_failure};
use crate::evidence::wait_until;
use crate::real_server::{RealServer, peers, skipped};
use crate::sign_in::{browse, regrow, said};
use crate::site::{Era, Peer};

/// A person with Chromium, and the server to sign in to.
struct Desktop {
    folder: TempDir,
    server: RealServer,
}

impl Desktop {
    /// None where something is not installed.
    fn new(decision: &str) -> Option<Desktop> {
        if !Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success()) {
            return skipped("Chromium is not installed");
        }
        let scripts = RealServer::scripts();
        let mut server = Command::new("node");
        server.arg(scripts.join("oidc_provider.mjs")).arg(peers("node/node_modules/oidc-provider")?);
        let desktop = Desktop { folder: TempDir::new().unwrap(), server: RealServer::start(server) };
        let script = format!(
            "#!/bin/sh\nexec node '{}' '{}' {decision} \"$1\"\n",
            scripts.join("browser.mjs").display(),
            desktop.folder.path().display(),
        );
        std::fs::write(desktop.path("browser"), script).unwrap();
        std::fs::set_permissions(desktop.path("browser"), PermissionsExt::from_mode(0o755)).unwrap();
        Some(desktop)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn login(&self) -> Output {
        let mut login = regrow(self.folder.path(), &["login", &self.server.url()]);
        login.env("BROWSER", self.path("browser")).output().unwrap()
    }

    /// A client whose first request made the person sign in.
    fn connect(&self) -> Peer {
        let setup = Setup::remote(&self.server.url(), &Journal::new(self.folder.path()));
        let setup = setup.variable("BROWSER", self.path("browser").to_str().unwrap());
        let setup = setup.variable("XDG_STATE_HOME", self.folder.path().to_str().unwrap());
        let mut peer = Peer { client: setup.start(), era: Era::Legacy };
        let mut greeting = peer.ask_greeting();
        // Where Chromium takes longer than the request waits, the client has to ask again.
        while let answer = peer.client.answer(greeting)
            && is_failure(&answer)
        {
            assert_eq!(fault(&answer)["cause"], "sign-in-needed", "{answer}");
            self.seen();
            greeting = peer.ask_greeting();
        }
        peer.client.notify("notifications/initialized", json!({}));
        peer
    }

    /// What is stored of the only account.
    fn account(&self) -> Value {
        let files = std::fs::read_dir(self.path("regrow/accounts")).unwrap();
        let mut paths = files.map(|entry| entry.unwrap().path());
        let path = paths.find(|path| path.extension().is_some_and(|kind| kind == "json")).unwrap();
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    /// Ends the life of an account's access token.
    fn expire(&self, account: &Value) {
        let token = account["tokens"]["access_token"].as_str().unwrap();
        let answer = browse(&format!("{}/expire?token={token}", self.server.origin));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Uses the refresh token of an account, as a thief would: the status, and the next refresh token or the error.
    fn refresh(&self, account: &Value) -> (u16, String) {
        let client = account["registration"]["client_id"].as_str().unwrap();
        let token = account["tokens"]["refresh_token"].as_str().unwrap();
        let form = format!("grant_type=refresh_token&refresh_token={token}&client_id={client}");
        let address = self.server.origin.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("POST /token HTTP/1.0\r\nHost: {address}\r\nContent-Length: {}\r\n", form.len());
        let kind = "Content-Type: application/x-www-form-urlencoded";
        stream.write_all(format!("{head}{kind}\r\n\r\n{form}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let word = body["refresh_token"].as_str().or(body["error"].as_str());
        let word = word.unwrap_or_else(|| panic!("{answer}")).to_owned();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), word)
    }

    /// What the person saw.
    fn seen(&self) -> Value {
        wait_until("the person has seen all pages", PATIENCE, || self.path("seen.json").exists());
        let seen: Value = serde_json::from_slice(&std::fs::read(self.path("seen.json")).unwrap()).unwrap();
        assert!(seen["error"].is_null(), "{seen:#}");
        seen
    }
}

/// Nothing of Regrow's pages is loaded from elsewhere, the browser forgets the code, and they suit a dark screen.
fn assert_good_pages(seen: &Value) {
    let stray = &seen["stray"];
    assert_eq!(stray["title"], "Not the expected address - Regrow");
    assert_eq!(
        stray["text"],
        "Not the expected address\n\nThis address belongs to no sign-in that is under way.\n\nStart the sign-in again."
    );
    assert_eq!(seen["requests"].as_array().unwrap().len(), 2, "one for each page: {seen:#}");
    for secret in ["code=", "state="] {
        assert!(!format!("{stray}{}{}", seen["last"], seen["history"]).contains(secret), "{seen:#}");
    }
    assert_eq!(seen["colors"], json!(["rgb(0, 0, 0)", "rgb(255, 255, 255)"]));
}

#[test]
fn a_person_signs_in_with_chromium_and_sees_how_to_go_on() {
    let Some(desktop) = Desktop::new("accept") else { return };
    let output = desktop.login();
    assert!(output.status.success(), "{}", said(&output));
    let seen = desktop.seen();
    assert_eq!(seen["last"]["title"], "Signed in - Regrow");
    assert_eq!(
        seen["last"]["text"],
        "Signed in\n\nYou are signed in to 127.0.0.1.\n\nClose this page and continue where you came from."
    );
    assert_good_pages(&seen);
}

#[test]
fn a_person_who_refuses_sees_that_nobody_is_signed_in() {
    let Some(desktop) = Desktop::new("refuse") else { return };
    let output = desktop.login();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("access_denied"), "{}", said(&output));
    let seen = desktop.seen();
    assert_eq!(seen["last"]["title"], "Not signed in - Regrow");
    let text = seen["last"]["text"].as_str().unwrap();
    let [heading, reason, next]: [&str; 3] = text.split("\n\n").collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((heading, next), ("Not signed in", "To try again, run: regrow login"));
    assert!(reason.starts_with("127.0.0.1: sign-in failed:") && reason.contains("access_denied"), "{reason}");
    assert_good_pages(&seen);
}

#[test]
fn wrap_opens_chromium_for_a_request_which_goes_on_after_the_sign_in() {
    let Some(desktop) = Desktop::new("accept") else { return };
    let mut peer = desktop.connect();
    assert_eq!(peer.call("whoami", json!({})), "ann: read");
    assert_eq!(desktop.seen()["last"]["title"], "Signed in - Regrow");

    let used = desktop.account();
    let output = regrow(desktop.folder.path(), &["logout", &desktop.server.url()]).output().unwrap();
    assert!(output.status.success() && said(&output).contains("signed out of"), "{}", said(&output));
    assert_eq!(desktop.refresh(&used), (400, "invalid_grant".into()));
    peer.leave();
}

#[test]
fn a_stolen_refresh_token_ends_with_the_account() {
    let Some(desktop) = Desktop::new("accept") else { return };
    let mut peer = desktop.connect();
    let first = desktop.account();
    desktop.expire(&first);
    assert_eq!(peer.call("whoami", json!({})), "ann: read");
    let second = desktop.account();
    assert_ne!(second["tokens"]["refresh_token"], first["tokens"]["refresh_token"], "it rotates");

    // A thief is faster. The provider takes the second use for a theft and ends all tokens, which only a person can repair.
    let (status, stolen) = desktop.refresh(&second);
    assert_eq!(status, 200);
    desktop.expire(&second);
    let (text, told) = peer.failing_call("whoami", json!({}));
    assert_eq!((&told["cause"], &told["delivery"]), (&json!("sign-in-needed"), &json!("not-sent")), "{text}");
    let mut thief = second;
    thief["tokens"]["refresh_token"] = stolen.into();
    assert_eq!(desktop.refresh(&thief), (400, "invalid_grant".into()));
    peer.leave();
}
