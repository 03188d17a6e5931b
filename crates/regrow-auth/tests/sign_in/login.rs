//! The whole sign-in.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use regrow_auth::authorize::CallbackError;
use regrow_auth::discovery::Overrides;
use regrow_auth::listener::CallbackHost;
use regrow_auth::login::{Flow, LoginError, Options, login};
use regrow_auth::records::{AuthMethod, RegisteredBy, Registration, Secret};
use regrow_auth::registration::{ClientSettings, RegistrationError};
use regrow_auth::revoke::{Revoked, revoke};
use regrow_auth::token::{Reason, TokenError, refresh};
use regrow_chaos::issuer::{Issuer, Response, merge};
use serde_json::json;
use url::Url;

use crate::person::{Browser, Remote, browse, get};
use crate::provider::{http, start};

fn known(provider: &Issuer, redirect_uri: &str) -> Registration {
    Registration {
        issuer: provider.origin.clone(),
        client_id: "known".into(),
        client_secret: None,
        secret_expires_at: None,
        auth_method: AuthMethod::None,
        redirect_uri: Some(redirect_uri.into()),
        how: RegisteredBy::Dynamic,
    }
}

/// The same redirect on a free port that the system gives to nobody who asks for any port.
///
/// Tests run side by side in one process, so each call gets ports of its own.
fn on_quiet_port(redirect_uri: &str) -> String {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let mut url = Url::parse(redirect_uri).unwrap();
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 20_000 + (std::process::id() % 5_000) as u16 + 100 * CALLS.fetch_add(1, Ordering::Relaxed);
    url.set_port((first..first + 100).find(is_free)).unwrap();
    url.into()
}

#[tokio::test]
async fn a_sign_in_in_a_browser_yields_tokens_that_can_be_refreshed_and_revoked() {
    let (provider, browser) = (start(), Browser::default());
    let http = http(&provider);
    let signed_in = login(&http, &Options::new(provider.server()), &browser).await.unwrap();
    assert_eq!(signed_in.tokens.access_token.expose(), "access-token-1");
    assert_eq!(signed_in.registration.client_id, "client-1");
    assert_eq!(signed_in.server.issuer, provider.origin);
    let resource = signed_in.resource.resource.clone().unwrap();
    assert_eq!(resource, provider.server().as_str());

    let opened = browser.opened.lock().unwrap()[0].to_string();
    let exchanged = provider.heard("/token")[0].form();
    assert_eq!(provider.heard("/authorize")[0].query["scope"], "read offline_access", "{opened}");
    for form in [&provider.heard("/authorize")[0].query, &exchanged] {
        assert_eq!(form["resource"], resource);
        assert_eq!(form["client_id"], "client-1");
        assert_eq!(form["redirect_uri"], signed_in.registration.redirect_uri.clone().unwrap());
    }
    assert!(!opened.contains(&exchanged["code_verifier"]), "the browser sees only the hash");
    let page = browser.page().await;
    assert!(page.text.contains("You are signed in to 127.0.0.1."), "{page:?}");
    let secrets = format!("{signed_in:?}");
    assert!(!secrets.contains("access-token-1") && !secrets.contains("refresh-token-1"), "{secrets}");

    let (server, registration) = (&signed_in.server, &signed_in.registration);
    let renewed = refresh(&http, server, registration, &signed_in.tokens, Some(&resource)).await.unwrap();
    assert_eq!(
        renewed.scope.as_deref(),
        Some("read offline_access"),
        "it was not repeated, so it is the same"
    );
    assert_eq!(provider.heard("/token")[1].form()["resource"], resource);
    assert_eq!(revoke(&http, server, registration, &renewed).await, Ok(Revoked::Done));
    let revoked: Vec<String> =
        provider.heard("/revoke").iter().map(|request| request.form()["token"].clone()).collect();
    assert_eq!(revoked, ["refresh-token-2", "access-token-2"]);
}

#[tokio::test]
async fn the_page_waits_for_the_token_exchange() {
    let (provider, browser) = (start(), Browser::default());
    provider.replace("/token", |_| {
        Response::json(400, json!({ "error": "invalid_request", "error_description": "<b>\u{1b}[2J" }))
    });
    let error = login(&http(&provider), &Options::new(provider.server()), &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Token(TokenError::Refused { .. })), "{error:?}");
    assert!(error.to_string().contains("<b>\\u{1b}[2J"), "{error}");
    let page = browser.page().await;
    assert!(page.text.contains("Not signed in") && page.text.contains("&lt;b&gt;\\u{1b}[2J"), "{page:?}");
}

#[tokio::test]
async fn a_pasted_address_is_accepted_after_a_wrong_one() {
    let provider = start();
    let (person, pastes) = Remote::new();
    let mut opened = person.opened.subscribe();
    let elsewhere = tokio::spawn(async move {
        let url = opened.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        let (_, location, _) = get(&url).await;
        pastes.send("http://127.0.0.1:1/callback?code=evil&state=other".into()).await.unwrap();
        pastes.send(format!("  {}\n", location.unwrap())).await.unwrap();
        pastes
    });
    let options = Options::new(provider.server());
    let signed_in = login(&http(&provider), &options, &person).await.unwrap();
    assert_eq!(signed_in.tokens.access_token.expose(), "access-token-1");
    assert_eq!(*person.errors.lock().unwrap(), [CallbackError::State]);
    drop(elsewhere.await.unwrap());
}

#[tokio::test]
async fn a_callback_is_checked_for_state_then_issuer_then_error() {
    let cases = [
        ("error=access_denied&iss=https%3A%2F%2Fevil.example", CallbackError::Issuer),
        ("code=x", CallbackError::Issuer), // The server says that it sends `iss`.
        ("code=x&iss=ORIGIN&iss=ORIGIN", CallbackError::Issuer),
        (
            "error=access_denied&error_description=no%1b&iss=ORIGIN",
            CallbackError::Denied(Reason {
                summary: "access_denied".into(),
                details: Some("no\\u{1b}".into()),
            }),
        ),
        ("code=x&code=y&iss=ORIGIN", CallbackError::NoCode),
    ];
    for (query, expected) in cases {
        let (provider, browser) = (start(), Browser::default());
        let query = query.replace("ORIGIN", &provider.origin);
        provider.replace("/authorize", move |request| {
            let (back, state) = (&request.query["redirect_uri"], &request.query["state"]);
            Response::redirect(302, &format!("{back}?{query}&state={state}"))
        });
        let error = login(&http(&provider), &Options::new(provider.server()), &browser).await.unwrap_err();
        assert!(matches!(&error, LoginError::Callback(found) if *found == expected), "{error:?}");
        assert_eq!(provider.heard("/token").len(), 0);
    }
}

#[tokio::test]
async fn a_client_that_the_server_has_forgotten_is_registered_again_once() {
    let (provider, browser) = (start(), Browser::default());
    provider.replace("/token", move |request| match request.form()["client_id"].as_str() {
        "client-1" => Response::json(200, json!({ "access_token": "a" })),
        _ => Response::json(401, json!({ "error": "invalid_client" })),
    });
    // Its port is busy, so it is registered again with another redirect.
    let known = known(&provider, &format!("{}/callback/x", provider.origin));
    let options = Options { known: Some(known), ..Options::new(provider.server()) };
    let signed_in = login(&http(&provider), &options, &browser).await.unwrap();
    assert_eq!(signed_in.registration.client_id, "client-1");
    assert_eq!(provider.heard("/authorize").len(), 1);

    // Its port is free, so it is used, rejected, and replaced.
    let redirect_uri = on_quiet_port(&signed_in.registration.redirect_uri.clone().unwrap());
    let known = Registration {
        client_id: "forgotten".into(),
        redirect_uri: Some(redirect_uri.clone()),
        ..signed_in.registration
    };
    provider.replace("/token", |request| match request.form()["client_id"].as_str() {
        "client-2" => Response::json(200, json!({ "access_token": "a" })),
        _ => Response::json(401, json!({ "error": "invalid_client" })),
    });
    let options = Options { known: Some(known), ..options };
    let signed_in = login(&http(&provider), &options, &browser).await.unwrap();
    assert_eq!(signed_in.registration.client_id, "client-2");
    let clients: Vec<String> =
        provider.heard("/authorize").iter().map(|request| request.query["client_id"].clone()).collect();
    assert_eq!(clients, ["client-1", "forgotten", "client-2"]);
    assert_eq!(provider.heard("/authorize")[1].query["redirect_uri"], redirect_uri);

    // A client that was registered just now is not registered again.
    provider.replace("/token", |_| Response::json(401, json!({ "error": "invalid_client" })));
    let error = login(&http(&provider), &Options::new(provider.server()), &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Token(TokenError::ClientRejected { .. })), "{error:?}");
    assert_eq!(provider.heard("/authorize").len(), 4);
}

#[tokio::test]
async fn a_configured_client_keeps_its_secret_for_its_issuer() {
    let (provider, browser) = (start(), Browser::default());
    let client = ClientSettings {
        client_id: Some("configured".into()),
        client_secret: Some(Secret::new("s/e:c ret")),
        metadata_document: None,
    };
    let options = Options { client, ..Options::new(provider.server()) };
    let error = login(&http(&provider), &options, &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Registration(RegistrationError::SecretWithoutIssuer)), "{error:?}");
    let no_secret = Options { flow: Flow::ClientCredentials, ..Options::new(provider.server()) };
    let error = login(&http(&provider), &no_secret, &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Registration(RegistrationError::NeedsSecret)), "{error:?}");

    let overrides = Overrides { issuer: Some(provider.origin.clone()), ..Overrides::default() };
    let callback_port = Url::parse(&on_quiet_port("http://localhost:1/")).unwrap().port();
    let callback_host = Some(CallbackHost::Localhost);
    let options = Options { overrides, callback_host, callback_port, ..options };
    let first = login(&http(&provider), &options, &browser).await.unwrap();
    let request = &provider.heard("/token")[0];
    assert_eq!(request.basic().unwrap(), "configured:s%2Fe%3Ac+ret");
    assert!(!request.body.contains("secret"), "{}", request.body);
    assert!(request.form()["redirect_uri"].starts_with("http://localhost:"));
    assert_eq!(provider.heard("/register").len(), 0);

    // The next sign-in needs no options: the same client, issuer and redirect.
    let again = Options::new(provider.server()).known(first.registration.clone());
    let second = login(&http(&provider), &again, &browser).await.unwrap();
    assert_eq!(second.registration, first.registration);
    assert_eq!(provider.heard("/token")[1].basic(), provider.heard("/token")[0].basic());
    let elsewhere = Overrides { issuer: Some("https://other.example".into()), ..Overrides::default() };
    let elsewhere =
        Options { overrides: elsewhere, ..Options::new(provider.server()) }.known(first.registration);
    assert!(elsewhere.client.client_secret.is_none(), "another issuer does not get the secret");

    let options = Options { flow: Flow::ClientCredentials, ..options };
    let signed_in = login(&http(&provider), &options, &browser).await.unwrap();
    assert_eq!(signed_in.tokens.access_token.expose(), "access-token-3");
    assert_eq!(browser.opened.lock().unwrap().len(), 2, "nobody was asked");
}

#[tokio::test]
async fn a_server_that_does_not_say_what_it_wants_is_discovered_all_the_same() {
    let (provider, browser) = (start(), Browser::default());
    provider.replace("/mcp", |_| Response::redirect(307, "/mcp/"));
    login(&http(&provider), &Options::new(provider.server()), &browser).await.unwrap();
    assert_eq!(provider.heard("/authorize")[0].query["scope"], "all offline_access", "of the resource");
    let plain = Url::parse("http://mcp.example/mcp").unwrap();
    let error = login(&http(&provider), &Options::new(plain), &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Server(_)), "{error:?}");
}

#[tokio::test]
async fn extra_parameters_are_sent_but_replace_none_of_ours() {
    let (provider, browser) = (start(), Browser::default());
    let overrides = Overrides { no_resource: true, ..Overrides::default() };
    let authorize_params = vec![("access_type".to_owned(), "offline".to_owned())];
    let options = Options { overrides, authorize_params, ..Options::new(provider.server()) };
    login(&http(&provider), &options, &browser).await.unwrap();
    let query = &provider.heard("/authorize")[0].query;
    assert_eq!(query["access_type"], "offline");
    assert!(!query.contains_key("resource"));
    assert!(!provider.heard("/token")[0].form().contains_key("resource"));

    let authorize_params = vec![("redirect_uri".to_owned(), "https://evil.example".to_owned())];
    let options = Options { authorize_params, ..options };
    let error = login(&http(&provider), &options, &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Parameter(_)), "{error:?}");
}

#[tokio::test]
async fn a_step_up_asks_for_the_union() {
    let (provider, browser) = (start(), Browser::default());
    let challenge = "Bearer error=insufficient_scope, scope=\"write\"".parse().unwrap();
    let granted = Some("read offline_access".to_owned());
    let options = Options { challenges: vec![challenge], granted, ..Options::new(provider.server()) };
    login(&http(&provider), &options, &browser).await.unwrap();
    assert_eq!(provider.heard("/authorize")[0].query["scope"], "write read offline_access");
    assert_eq!(provider.heard("/mcp").len(), 0, "its challenge is known");
}

#[tokio::test]
async fn a_person_has_ten_minutes() {
    let provider = start();
    let (person, _pastes) = Remote::new();
    let options = Options::new(provider.server());
    assert_eq!(options.patience, Duration::from_secs(600));
    let options = Options { patience: Duration::from_millis(10), ..options };
    let error = login(&http(&provider), &options, &person).await.unwrap_err();
    assert!(matches!(error, LoginError::TimedOut), "{error:?}");
}

#[tokio::test]
async fn a_code_for_another_device_yields_tokens() {
    let provider = start();
    let (person, _pastes) = Remote::new();
    // A client that registered for a browser may not use a device.
    let known = Some(known(&provider, "http://127.0.0.1:7/callback"));
    let options = Options { flow: Flow::Device, known, ..Options::new(provider.server()) };
    let signed_in = login(&http(&provider), &options, &person).await.unwrap();
    assert_eq!(signed_in.tokens.refresh_token.unwrap().expose(), "refresh-token-1");
    assert_eq!(*person.codes.lock().unwrap(), ["ABCD-1234 at /enter"]);
    assert_eq!(provider.heard("/token").len(), 2);
    let device = &provider.heard("/device")[0].form();
    assert_eq!(device["scope"], "read offline_access");
    assert_eq!(device["resource"], provider.server().as_str());
    let registered: serde_json::Value = serde_json::from_str(&provider.heard("/register")[0].body).unwrap();
    assert_eq!(registered["redirect_uris"], json!([]));
}

#[tokio::test]
async fn a_device_code_must_look_like_one() {
    let hostile = [
        json!({ "user_code": "\u{1b}[2J" }),
        json!({ "user_code": "x".repeat(100) }),
        json!({ "verification_uri": "file:///etc/passwd" }),
        json!({ "verification_uri": "https://a.example/$(reboot)" }),
        json!({ "verification_uri_complete": "http://a.example/" }),
    ];
    for changes in hostile {
        let provider = start();
        let mut body =
            json!({ "device_code": "d", "user_code": "AB", "verification_uri": "https://a.example/" });
        merge(&mut body, changes.clone());
        provider.replace("/device", move |_| Response::json(200, body.clone()));
        let (person, _pastes) = Remote::new();
        let options = Options { flow: Flow::Device, ..Options::new(provider.server()) };
        let error = login(&http(&provider), &options, &person).await.unwrap_err();
        assert!(matches!(error, LoginError::Token(TokenError::Refused { .. })), "{changes}: {error:?}");
        assert_eq!(person.codes.lock().unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_configured_port_that_is_busy_is_an_error() {
    let (provider, browser) = (start(), Browser::default());
    let port = Url::parse(&provider.origin).unwrap().port();
    let options = Options { callback_port: port, ..Options::new(provider.server()) };
    let error = login(&http(&provider), &options, &browser).await.unwrap_err();
    assert!(matches!(error, LoginError::Listen(_)), "{error:?}");
    assert_eq!(provider.heard("/register").len(), 0);
    assert_eq!(browse(provider.url("/nothing")).await.status, 404);
}
