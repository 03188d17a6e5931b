//! Signed in, and then the authorization server, the clock or the disk fails: what `regrow wrap` does about its tokens.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use regrow_chaos::issuer::Issuer;
use serde_json::{Value, json};

use crate::client::PATIENCE;
use crate::evidence::wait_until;
use crate::sign_in::{issuer, regrow, said, sign_in};
use crate::sign_in_refresh::{ask_call, greet, signed_in, signed_in_at};
use crate::site::{Era, Peer};

/// The refresh tokens that were presented.
fn refreshed_with(issuer: &Issuer) -> Vec<String> {
    let requests = issuer.heard("/token");
    let fields = requests.iter().map(|request| request.field("refresh_token"));
    fields.filter(|token| !token.is_empty()).collect()
}

fn accounts(state: &Path) -> Value {
    let listed = regrow(state, &["accounts", "--json"]).output().unwrap();
    serde_json::from_slice(&listed.stdout).unwrap()
}

/// The file of the only account.
fn account_file(state: &Path) -> PathBuf {
    let files = std::fs::read_dir(state.join("regrow/accounts")).unwrap();
    let mut paths = files.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().is_some_and(|kind| kind == "json")).unwrap()
}

/// As if its tokens had been obtained at this time, for an hour.
pub(crate) fn set_obtained(state: &Path, at: u64) {
    let file = account_file(state);
    let mut account: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    account["obtained_at"] = at.into();
    account["tokens"]["expires_at"] = (at + 3600).into();
    std::fs::write(&file, account.to_string()).unwrap();
}

#[test]
fn a_refresh_that_fails_keeps_the_tokens_and_the_connection_goes_on_when_it_works_again() {
    let cases = [
        ("refresh-status=408", "HTTP 408"),
        ("refresh-status=425", "HTTP 425"),
        ("refresh-status=429", "HTTP 429"),
        ("refresh-status=503", "HTTP 503"),
        ("refresh-html", "not JSON"),
        ("refresh-error=temporarily_unavailable", "temporarily_unavailable"),
        ("redirect-refresh=STRANGER/token", "the address of its endpoint is not allowed"),
    ];
    thread::scope(|scope| {
        for (fault, reason) in cases {
            scope.spawn(move || {
                let ((folder, issuer, site), stranger) = (signed_in(), issuer());
                let mut peer = greet(&site, folder.path());
                assert!(issuer.fault(&fault.replace("STRANGER", &stranger.origin)));
                site.control("need-token=access-token-2");
                let id = ask_call(&mut peer);
                peer.client.wait_for_log(0, reason);
                issuer.repair(fault.split('=').next().unwrap());
                assert_eq!(peer.result(id), "1", "{fault}");
                assert!(refreshed_with(&issuer).iter().all(|token| token == "refresh-token-1"), "{fault}");
                assert!(!peer.log().contains('\u{1b}'), "{fault}: {}", peer.log());
                assert_eq!(stranger.paths(), [""; 0]);
            });
        }
    });
}

#[test]
fn a_rejected_refresh_token_keeps_the_registration_and_a_rejected_client_registers_again() {
    for (error, client) in [("invalid_grant", "client-1"), ("invalid_client", "client-2")] {
        let (folder, issuer, site) = signed_in();
        let mut peer = greet(&site, folder.path());
        assert!(issuer.fault(&format!("refresh-error={error}")));
        site.control("need-token=access-token-2");
        let (text, told) = peer.failing_call("count", json!({ "key": "a" }));
        assert_eq!(told["cause"], "sign-in-needed", "{error}: {told}");
        assert!(!text.contains("Ignore") && !text.contains("://"), "{text}");
        assert_eq!(accounts(folder.path())[0]["state"], "sign-in-needed");
        let from = peer.client.log().len();
        let login = ["login", &site.url(), "--no-browser", "--issuer", &issuer.origin];
        assert!(sign_in(folder.path(), &login).status.success());
        assert_eq!(issuer.heard("/token").last().unwrap().field("client_id"), client);
        peer.client.wait_for_log(from, "ready (session");
        assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
        assert_eq!(refreshed_with(&issuer).len(), 1, "nobody presents it again");
    }
}

#[test]
fn a_refresh_token_that_is_not_replaced_is_used_again() {
    let (folder, issuer, site) = signed_in();
    let mut peer = greet(&site, folder.path());
    assert!(issuer.fault("refresh-omits"));
    for number in 2..=3 {
        site.control(&format!("need-token=access-token-{number}"));
        assert_eq!(peer.call("count", json!({ "key": "a" })), (number - 1).to_string());
    }
    assert_eq!(refreshed_with(&issuer), ["refresh-token-1"; 2]);
}

/// The endpoints are those of the sign-in, until somebody signs in again.
#[test]
fn metadata_that_changes_after_the_sign_in_gets_no_refresh_token() {
    let (stranger, first) = (issuer(), issuer());
    assert!(first.fault(&format!("token-moves-to={}/token", stranger.origin)));
    let (folder, issuer, site) = signed_in_at(first);
    let mut peer = greet(&site, folder.path());
    site.control("need-token=access-token-2");
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    assert_eq!((refreshed_with(&issuer).len(), stranger.paths().len()), (1, 0));
}

#[test]
fn headers_for_the_server_do_not_go_to_its_authorization_server() {
    let (folder, issuer, site) = signed_in();
    let setup = site.setup().variable("XDG_STATE_HOME", folder.path().to_str().unwrap());
    let mut peer = Peer::greet(setup.options(&["-H", "X-Api-Key: static-key"]), Era::Legacy);
    site.control("need-token=access-token-2");
    assert_eq!(peer.call("count", json!({ "key": "a" })), "1");
    assert_eq!((issuer.heard_of("static-key").len(), issuer.heard_of("access-token-").len()), (0, 0));
    assert!(!peer.log().contains("-token-"), "{}", peer.log());
}

/// It would be refreshed for each request.
#[test]
fn a_token_that_is_over_when_it_is_issued_is_used_until_the_server_refuses_it() {
    let first = issuer();
    assert!(first.fault("expires-in=-5") && first.fault("refresh-expires-in=0"));
    let (folder, issuer, site) = signed_in_at(first);
    let mut peer = greet(&site, folder.path());
    for number in 1..=2 {
        site.control(&format!("need-token=access-token-{number}"));
        for _ in 0..3 {
            peer.call("count", json!({ "key": "a" }));
        }
        assert_eq!(issuer.grants().len(), number, "{:?}", issuer.grants());
    }
}

/// The clock was set back by ten days, or forward, since the tokens were stored.
#[test]
fn a_clock_that_is_wrong_costs_at_most_one_refresh() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (obtained_at, refreshes) in [(now + 864_000, 0), (now - 864_000, 1)] {
        let (folder, issuer, site) = signed_in();
        set_obtained(folder.path(), obtained_at);
        site.control("need-token=access-token-1 also-token=access-token-2");
        let mut peer = greet(&site, folder.path());
        peer.call("count", json!({ "key": "a" }));
        wait_until("it refreshes in the background", PATIENCE, || refreshed_with(&issuer).len() == refreshes);
        // What the server says counts more than any clock.
        for number in refreshes + 1..=refreshes + 2 {
            site.control(&format!("need-token=access-token-{number}"));
            peer.call("count", json!({ "key": "a" }));
            peer.call("count", json!({ "key": "a" }));
        }
        assert_eq!(refreshed_with(&issuer).len(), refreshes + 1);
    }
}

#[test]
fn a_call_that_runs_when_its_token_expires_ends_normally_and_the_next_one_refreshes() {
    let (folder, issuer, site) = signed_in();
    let mut peer = greet(&site, folder.path());
    let long = peer.begin_call("slow", json!({ "key": "a", "ms": 1500 }));
    wait_until("it runs", PATIENCE, || site.journal.runs("slow") == 1);
    site.control("need-token=access-token-2");
    let next = ask_call(&mut peer);
    assert_eq!(peer.result(next), "1");
    peer.result(long);
    assert_eq!((site.journal.runs("slow"), refreshed_with(&issuer).len()), (1, 1));
}

#[test]
fn a_sign_in_on_a_full_disk_keeps_the_old_account() {
    let (folder, issuer, site) = signed_in();
    let before = std::fs::read(account_file(folder.path())).unwrap();
    // No file of the process may become larger than nothing.
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_regrow")]);
    full.args(["login", &site.url(), "--no-browser", "--issuer", &issuer.origin]);
    full.env("XDG_STATE_HOME", folder.path()).stdin(std::process::Stdio::null());
    full.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let output = crate::sign_in::sign_in_with(&mut full);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert_eq!(std::fs::read(account_file(folder.path())).unwrap(), before);
    let mut peer = greet(&site, folder.path());
    peer.call("count", json!({ "key": "a" }));
}
