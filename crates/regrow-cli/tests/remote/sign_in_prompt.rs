//! Sign-in that `regrow wrap` begins on its own: which requests open a browser, and how often.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;

use regrow_chaos::Journal;
use regrow_chaos::issuer::{Issuer, Response};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{PATIENCE, Setup, fault};
use crate::evidence::wait_until;
use crate::sign_in::{SECRET, browse, first_form, issuer, regrow, said, sent_back};
use crate::site::{Era, Peer, Site, in_both_eras};

/// A user at a desktop, whose browser notes what it is to open.
pub(crate) struct Desktop {
    folder: TempDir,
    pub(crate) issuer: Issuer,
}

impl Desktop {
    pub(crate) fn new() -> Desktop {
        let desktop = Desktop { folder: TempDir::new().unwrap(), issuer: issuer() };
        let script = format!("#!/bin/sh\necho \"$1\" >> '{}'\n", desktop.path("opened").display());
        std::fs::write(desktop.path("browser"), script).unwrap();
        std::fs::set_permissions(desktop.path("browser"), PermissionsExt::from_mode(0o755)).unwrap();
        desktop
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that names its authorization server.
    pub(crate) fn site(&self, era: Era, more: &str) -> Site {
        let (_, port) = self.issuer.origin.rsplit_once(':').unwrap();
        Site::new(era, &format!("issuer={port} {more}"))
    }

    fn setup(&self, site: &Site) -> Setup {
        let setup = site.setup().name("acme").variable("BROWSER", self.path("browser").to_str().unwrap());
        setup.variable("XDG_STATE_HOME", self.folder.path().to_str().unwrap())
    }

    /// What the browser was to open.
    pub(crate) fn opened(&self) -> Vec<String> {
        let opened = std::fs::read_to_string(self.path("opened")).unwrap_or_default();
        opened.lines().map(str::to_owned).collect()
    }

    /// The scopes that the page asked for that was opened as this one, from 0.
    fn asked_for(&self, number: usize) -> String {
        query(&self.opened()[number], "scope")
    }

    /// Says no at the page that was opened as this one.
    fn refuse(&self, number: usize) {
        wait_until("a browser is opened", PATIENCE, || self.opened().len() > number);
        let [back, state] = ["redirect_uri", "state"].map(|name| query(&self.opened()[number], name));
        let page = browse(&format!("{back}?error=access_denied&state={state}&iss={}", self.issuer.origin));
        assert!(page.contains("Not signed in"), "{page}");
    }

    /// Signs in at the page that was opened as this one.
    pub(crate) fn sign_in(&self, number: usize) {
        wait_until("a browser is opened", PATIENCE, || self.opened().len() > number);
        let page = browse(&sent_back(&browse(&self.opened()[number])));
        assert!(page.contains("Signed in"), "{page}");
    }
}

fn query(url: &str, name: &str) -> String {
    let url = reqwest::Url::parse(url).unwrap();
    let (_, value) = url.query_pairs().find(|(key, _)| key == name).unwrap();
    value.into_owned()
}

fn ask_call(peer: &mut Peer) -> u64 {
    peer.client.ask("tools/call", json!({ "name": "count", "arguments": { "key": "a" } }))
}

fn begin(setup: Setup, era: Era) -> Peer {
    Peer { client: setup.start(), era }
}

fn assert_asks_for_login(refused: &Value) {
    assert_eq!(fault(refused)["cause"], "sign-in-needed", "{refused}");
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("It did not run. Ask the user to run `regrow login acme`, then call again."),
        "{text}"
    );
    assert!(!text.contains("://"), "no address for a model: {text}");
}

#[test]
fn the_first_request_opens_a_browser_and_goes_on_when_the_person_has_signed_in() {
    in_both_eras(|era| {
        let desktop = Desktop::new();
        let site = desktop.site(era, "need-token=access-token-1");
        let mut peer = thread::scope(|scope| {
            scope.spawn(|| desktop.sign_in(0));
            Peer::greet(desktop.setup(&site), era)
        });
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        assert_eq!((desktop.opened().len(), desktop.issuer.grants().len()), (1, 1));
        assert!(!peer.log().contains("://") && !peer.log().contains("access-token"), "{}", peer.log());
    });
}

#[test]
fn the_browser_signs_in_as_the_client_that_the_user_registered() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let client = ["--client-id", "ours", "--client-secret-env", SECRET, "--issuer", &desktop.issuer.origin];
    let setup = desktop.setup(&site).variable(SECRET, "s3cr3t").options(&client);
    let mut peer = thread::scope(|scope| {
        scope.spawn(|| desktop.sign_in(0));
        Peer::greet(setup.options(&["--scope", "one two"]), Era::Legacy)
    });
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    assert_eq!(query(&desktop.opened()[0], "client_id"), "ours");
    assert_eq!(desktop.asked_for(0), "one two");
    assert_eq!(first_form(&desktop.issuer, "client_secret").as_deref(), Some("s3cr3t"));
}

#[test]
fn the_browser_and_a_login_sign_in_with_the_parameters_that_wrap_was_given() {
    let desktop = Desktop::new();
    let site = Site::new(Era::Legacy, "need-token=access-token-1");
    let metadata = format!("{}/.well-known/oauth-authorization-server", desktop.issuer.origin);
    let given = ["--auth-server-metadata-url", &metadata, "--authorize-param", "tenant=a=b", "--no-resource"];
    let mut peer = thread::scope(|scope| {
        scope.spawn(|| desktop.sign_in(0));
        Peer::greet(desktop.setup(&site).options(&given), Era::Legacy)
    });
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    let opened = desktop.opened().remove(0);
    assert_eq!(query(&opened, "tenant"), "a=b");
    assert!(!opened.contains("resource="), "{opened}");
    assert_eq!(first_form(&desktop.issuer, "resource"), None);

    // The URL with the same options is the same account, and without them it is another one.
    let url = site.url();
    let run = |words: &[&str]| {
        let mut command = regrow(desktop.folder.path(), words);
        command.env("BROWSER", desktop.path("browser")).spawn().unwrap()
    };
    let login = run(&[&["login", &url], &given[..]].concat());
    desktop.sign_in(1);
    assert!(login.wait_with_output().unwrap().status.success());
    let accounts = || said(&regrow(desktop.folder.path(), &["accounts", "--json"]).output().unwrap());
    assert_eq!(accounts().matches(&url).count(), 1, "{}", accounts());
    let login = run(&["login", &url, "--issuer", &desktop.issuer.origin]);
    desktop.sign_in(2);
    assert!(login.wait_with_output().unwrap().status.success());
    assert_eq!(accounts().matches(&url).count(), 2, "{}", accounts());
    assert!(run(&["logout", &url]).wait_with_output().unwrap().status.success());
    assert_eq!(accounts().trim(), "[]");
}

#[test]
fn wrap_signs_in_as_a_client_without_a_person() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let client = ["--client-id", "ours", "--client-secret-env", SECRET, "--issuer", &desktop.issuer.origin];
    let setup = desktop.setup(&site).variable(SECRET, "s3cr3t").options(&client);
    let mut peer = Peer::greet(setup.options(&["--grant", "client_credentials"]), Era::Legacy);
    site.control("need-token=access-token-2");
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    assert_eq!(desktop.issuer.grants(), ["client_credentials"; 2]);
    // If the server accepts none of its tokens, no person can help with a browser.
    site.control("need-token=none");
    let id = ask_call(&mut peer);
    let refused = peer.client.answer_within(id, PATIENCE);
    assert_eq!(fault(&refused)["cause"], "sign-in-needed", "{refused}");
    assert!(desktop.opened().is_empty());
}

#[test]
fn three_processes_open_one_browser_and_all_go_on() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let mut peers: Vec<Peer> = (0..3).map(|_| begin(desktop.setup(&site), Era::Legacy)).collect();
    let ids: Vec<_> = peers.iter_mut().map(Peer::ask_greeting).collect();
    let refused =
        || site.journal.lines().iter().filter(|line| line.starts_with("refused 401 initialize")).count();
    wait_until("all were refused", PATIENCE, || refused() >= 3);
    desktop.sign_in(0);
    for (peer, id) in peers.iter_mut().zip(ids) {
        let greeted = peer.client.answer_within(id, PATIENCE);
        assert!(greeted["result"].is_object(), "{greeted}");
    }
    assert_eq!((desktop.opened().len(), desktop.issuer.grants().len()), (1, 1));
}

#[test]
fn a_page_that_nobody_answers_is_not_opened_again_but_still_signs_in() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    // A client waits for half of this.
    let setup = || desktop.setup(&site).options(&["--connect-timeout", "10s"]);
    let mut peer = begin(setup(), Era::Legacy);
    let id = peer.ask_greeting();
    assert_asks_for_login(&peer.client.answer_within(id, PATIENCE));
    wait_until("a browser is opened", PATIENCE, || desktop.opened().len() == 1);
    let mut other = begin(setup(), Era::Legacy);
    let id = other.ask_greeting();
    assert_asks_for_login(&other.client.answer_within(id, PATIENCE));
    assert_eq!(desktop.opened().len(), 1, "another process does not open it again");

    let from = [&peer, &other].map(|peer| peer.client.log().len());
    desktop.sign_in(0);
    for (peer, from) in [&mut peer, &mut other].into_iter().zip(from) {
        peer.client.wait_for_log(from, "connecting");
        let id = peer.ask_greeting();
        assert!(peer.client.answer_within(id, PATIENCE)["result"].is_object());
    }
    assert_eq!(desktop.opened().len(), 1);
}

#[test]
fn no_browser_is_opened_where_the_user_wants_none() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let mut peer = begin(desktop.setup(&site).options(&["--sign-in", "never"]), Era::Legacy);
    let id = peer.ask_greeting();
    assert_asks_for_login(&peer.client.answer_within(id, PATIENCE));
    assert!(desktop.opened().is_empty());
}

/// The session lives, and only Regrow asks the server whether it does.
#[test]
fn a_probe_opens_no_browser_but_the_next_call_does() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "");
    let setup = desktop.setup(&site).options(&["--idle-probe", "100ms"]);
    let mut peer = Peer::greet(setup, Era::Legacy);
    site.control("need-token=access-token-1");
    peer.client.wait_for_log(0, "parked: the server requires sign-in");
    assert!(desktop.opened().is_empty());
    let id = ask_call(&mut peer);
    desktop.sign_in(0);
    let answer = peer.client.answer_within(id, PATIENCE);
    assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
}

/// A client whose first request made the user sign in.
fn signed_in(desktop: &Desktop, site: &Site) -> Peer {
    thread::scope(|scope| {
        scope.spawn(|| desktop.sign_in(0));
        Peer::greet(desktop.setup(site), Era::Legacy)
    })
}

#[test]
fn a_server_that_names_another_issuer_gets_tokens_from_there_at_once() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let mut peer = signed_in(&desktop, &site);
    let (other, port) = next_issuer();
    other.replace("/register", |_| Response::json(201, json!({ "client_id": "of the other" })));
    site.control(&format!("issuer={port} need-token=of-the-other"));
    let id = ask_call(&mut peer);
    desktop.sign_in(1);
    let answer = peer.client.answer_within(id, PATIENCE);
    assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
    assert_eq!(desktop.issuer.grants(), ["authorization_code"], "no refresh of tokens that are useless");
    assert_eq!(other.grants(), ["authorization_code"], "nothing else goes to the new one");
    assert!(other.heard_of("refresh-token-1").is_empty() && other.heard_of("client-1").is_empty());

    // Once: a server can name another issuer each time.
    site.control(&format!("issuer={} need-token=no", desktop.issuer.origin.rsplit_once(':').unwrap().1));
    let id = ask_call(&mut peer);
    let refused = peer.client.answer_within(id, PATIENCE).to_string();
    assert!(refused.contains("sign-in-needed"), "{refused}");
    assert_eq!(desktop.opened().len(), 2);
}

/// The authorization server that a server moves to, and its port. Its token has a name that the first one never gives out.
fn next_issuer() -> (Issuer, String) {
    let other = issuer();
    let token = json!({ "access_token": "of-the-other", "token_type": "Bearer" });
    other.replace("/token", move |_| Response::json(200, token.clone()));
    let port = other.origin.rsplit_once(':').unwrap().1.to_owned();
    (other, port)
}

fn wait_for_refusal(site: &Site, method: &str) {
    let line = format!("refused 401 {method}");
    let is_refused = |journal: &Journal| journal.lines().contains(&line);
    assert!(site.journal.wait(PATIENCE, is_refused), "{:?}", site.journal.lines());
}

/// The server moves while its own stream is being opened, for which no browser is opened.
#[test]
fn a_stream_that_is_refused_by_a_server_that_moves_keeps_no_call_from_the_browser() {
    let desktop = Desktop::new();
    let (other, port) = next_issuer();
    let moves = format!("need-token=access-token-1 from=GET issuer={port} need-token=of-the-other");
    let site = desktop.site(Era::Legacy, &moves);
    let mut peer = signed_in(&desktop, &site);
    wait_for_refusal(&site, "GET");
    let id = ask_call(&mut peer);
    desktop.sign_in(1);
    let answer = peer.client.answer_within(id, PATIENCE);
    assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
    assert_eq!(desktop.issuer.grants(), ["authorization_code"], "no refresh of tokens that are useless");
    assert_eq!(other.grants(), ["authorization_code"]);
}

/// A refresh for a notification hangs at the old authorization server when the server names another one.
#[test]
fn a_refresh_that_hangs_keeps_no_call_from_the_browser() {
    let desktop = Desktop::new();
    let (_other, port) = next_issuer();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let mut peer = signed_in(&desktop, &site);
    let held = desktop.issuer.hold_tokens();
    site.control("need-token=of-the-other");
    peer.client.send(json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" }));
    wait_until("it refreshes", PATIENCE, || desktop.issuer.grants().len() == 2);
    site.control(&format!("issuer={port} need-token=of-the-other"));
    let id = ask_call(&mut peer);
    desktop.sign_in(1);
    assert!(!peer.log().contains("the access token was not refreshed"), "{}", peer.log());
    drop(held);
    let answer = peer.client.answer_within(id, PATIENCE);
    assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
}

const SCOPES: &str = "need-token=access-token-1 also-token=access-token-2 call-token=access-token-2";

#[test]
fn a_call_that_needs_more_scopes_opens_a_browser_for_all_of_them_and_runs_once() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, SCOPES);
    let mut peer = signed_in(&desktop, &site);
    let id = ask_call(&mut peer);
    desktop.sign_in(1);
    let answer = peer.client.answer_within(id, PATIENCE);
    assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
    assert_eq!([0, 1].map(|number| desktop.asked_for(number)), ["read", "write read"]);

    // The server wants what was granted: another sign-in would not help.
    site.control("call-token=another");
    let id = ask_call(&mut peer);
    let refused = peer.client.answer_within(id, PATIENCE).to_string();
    assert!(refused.contains("403") && !refused.contains("write"), "{refused}");
    assert_eq!(desktop.opened().len(), 2);
}

#[test]
fn scopes_that_the_user_refused_are_not_asked_for_again() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, SCOPES);
    let mut peer = signed_in(&desktop, &site);
    let id = ask_call(&mut peer);
    desktop.refuse(1);
    let refused = peer.client.answer_within(id, PATIENCE).to_string();
    assert!(refused.contains("403"), "{refused}");

    // Not because of the ten minutes.
    let accounts = std::fs::read_dir(desktop.path("regrow/accounts")).unwrap();
    let mut paths = accounts.map(|entry| entry.unwrap().path());
    let attempt = paths.find(|path| path.extension().is_some_and(|kind| kind == "attempt")).unwrap();
    std::fs::remove_file(attempt).unwrap();
    let id = ask_call(&mut peer);
    let refused = peer.client.answer_within(id, PATIENCE).to_string();
    assert!(refused.contains("403"), "{refused}");
    assert_eq!(desktop.opened().len(), 2);
}
