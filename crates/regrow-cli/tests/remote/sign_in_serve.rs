//! Sign-in behind `regrow serve`: accounts belong to the servers of its configuration.

use serde_json::{Value, json};

use crate::guest::{Era as GuestEra, Guest};
use crate::house::{Entry, House, Place, done, remote};
use crate::sign_in::SECRET;
use crate::sign_in_prompt::Desktop;
use crate::site::Era;

/// A gateway of this user.
fn place<'a>(desktop: &Desktop, servers: impl IntoIterator<Item = (&'a str, Entry)>) -> Place {
    let text = |name: &str| desktop.path(name).to_str().unwrap().to_owned();
    let place = Place::new(servers).variable("XDG_STATE_HOME", &text("state"));
    place.variable("BROWSER", &text("browser")).variable(SECRET, "s3cr3t")
}

/// Signs in with the browser, in a process of its own.
fn login(place: &Place, desktop: &Desktop, name: &str) {
    let number = desktop.opened().len();
    let login = place.command(&["login", name]).spawn().unwrap();
    desktop.sign_in(number);
    let output = login.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn is_parked(server: &Value) -> bool {
    server["state"] == "parked" && server["lastFault"]["kind"] == "sign-in-needed"
}

fn count(house: &House, tool: &str) -> String {
    Guest::of(house, GuestEra::Legacy).call(tool, json!({ "key": "a" }))
}

#[test]
fn a_server_that_requires_sign_in_is_parked_until_a_login_in_another_process_wakes_it() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let place = place(&desktop, [("acme", remote(&site.url()))]);
    let house = place.start();
    house.wait_where("acme", "parked", is_parked);
    let mut guest = Guest::of(&house, GuestEra::Legacy);
    let (text, fault) = guest.failing_call("count", json!({ "key": "a" }));
    assert!(
        text.contains("It did not run. Ask the user to run `regrow login acme`, then call again."),
        "{text}"
    );
    assert!(!text.contains("://"), "no address for a model: {text}");
    assert_eq!((&fault["cause"], &fault["delivery"]), (&json!("sign-in-needed"), &json!("not-sent")));
    assert!(desktop.opened().is_empty(), "serve opens no browser");
    let status = ["status", "--url", &house.url()];
    let (code, shown, _) = done(&mut place.command(&status));
    assert!(code == 1 && shown.contains("sign in: regrow login acme"), "{shown}");

    login(&place, &desktop, "acme");
    // Without another call.
    house.wait_for_tools("acme");
    assert_eq!(guest.call("count", json!({ "key": "a" })), "1");

    // It accepts no token that it could get: an account that must sign in again.
    site.control("need-token=none");
    let (text, fault) = guest.failing_call("count", json!({ "key": "a" }));
    assert_eq!(fault["cause"], "sign-in-needed", "{text}");
    house.wait_where("acme", "parked", is_parked);
    let config = place.config();
    let check = ["check", config.to_str().unwrap()];
    for words in [&status[..], &check] {
        let (code, shown, said) = done(&mut place.command(words));
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(code, 1, "{shown}{said}");
        assert!(shown.contains("(issuer 127.0.0.1, expiry 2"), "{shown}");
        assert!(shown.contains("sign in: regrow login acme") && !shown.contains("access-token"), "{shown}");
    }
    house.end();
}

#[test]
fn two_accounts_at_a_server_have_their_own_tokens() {
    let desktop = Desktop::new();
    // Both are let in; only the second may call.
    let tokens = "need-token=access-token-1 also-token=access-token-2 call-token=access-token-2";
    let site = desktop.site(Era::Legacy, tokens);
    let entry = |account: &str| remote(&site.url()).option("signIn", json!({ "account": account }));
    let place = place(&desktop, [("home", entry("private")), ("work", entry("acme"))]);
    let house = place.start();
    for name in ["home", "work"] {
        house.wait_where(name, "parked", is_parked);
        login(&place, &desktop, name);
        house.wait_for_tools(name);
    }
    assert_eq!(count(&house, "work__count"), "1");
    let (text, _) = Guest::of(&house, GuestEra::Legacy).failing_call("home__count", json!({ "key": "a" }));
    assert!(text.contains("403"), "{text}");
    assert_eq!(count(&house, "work__count"), "2");
    house.end();
}

#[test]
fn a_list_that_was_cached_for_one_account_is_not_shown_for_another() {
    let desktop = Desktop::new();
    let mut site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let entry = |account: &str| remote(&site.url()).option("signIn", json!({ "account": account }));
    let place = place(&desktop, [("acme", entry("work"))]);
    let house = place.start();
    house.wait_where("acme", "parked", is_parked);
    login(&place, &desktop, "acme");
    house.wait_for_tools("acme");
    house.end();
    let [work, home] = [entry("work"), entry("home")];
    site.kill();
    for (entry, is_known) in [(home, false), (work, true)] {
        place.configure([("acme", entry.option("start", "lazy"))]);
        let house = place.start();
        let tools = Guest::of(&house, GuestEra::Legacy).tools();
        assert_eq!(tools.contains(&"count".to_owned()), is_known, "{tools:?}");
        house.end();
    }
}

#[test]
fn a_client_signs_in_without_a_person_behind_serve() {
    let desktop = Desktop::new();
    let site = desktop.site(Era::Legacy, "need-token=access-token-1");
    let client = json!({
        "issuer": desktop.issuer.origin, "clientId": "ours", "clientSecretEnv": SECRET, "grant": "client_credentials",
    });
    let place = place(&desktop, [("acme", remote(&site.url()).option("signIn", client))]);
    let house = place.start();
    house.wait_for_tools("acme");
    assert_eq!(count(&house, "count"), "1");
    site.control("need-token=access-token-2");
    assert_eq!(count(&house, "count"), "2");
    assert_eq!(desktop.issuer.grants(), ["client_credentials"; 2]);
    assert!(!house.log().join("\n").contains("access-token"), "{:?}", house.log());
    house.end();
}

#[test]
fn two_entries_with_one_account_are_told_to_set_another_and_a_public_server_is_not_concerned() {
    let desktop = Desktop::new();
    let (public, site) =
        (desktop.site(Era::Legacy, ""), desktop.site(Era::Legacy, "need-token=access-token-1"));
    let servers = [("one", &site), ("two", &site), ("a", &public), ("b", &public)];
    let place = place(&desktop, servers.map(|(name, site)| (name, remote(&site.url()))));
    let house = place.start();
    house.wait_for_tools("a");
    house.wait_for_tools("b");
    house.wait_where("one", "parked", is_parked);
    let told =
        house.wait_where("two", "misconfigured", |server| server["lastFault"]["kind"] == "misconfigured");
    let text = "the server requires sign-in; it would use the same account as the server one; set another \"account\"";
    assert!(told["lastFault"]["text"].as_str().unwrap().contains(text), "{told}");
    login(&place, &desktop, "one");
    house.wait_for_tools("one");
    assert_eq!(house.server("two")["state"], "parked");
    let (code, shown, _) = done(&mut place.command(&["check", place.config().to_str().unwrap()]));
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 1 && shown.contains(text), "{shown}");
    house.end();
}
