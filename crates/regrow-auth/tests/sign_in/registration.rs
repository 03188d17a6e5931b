//! Who Regrow is to an authorization server.

use regrow_auth::discovery::{Overrides, discover};
use regrow_auth::records::{AuthMethod, AuthorizationServer, RegisteredBy};
use regrow_auth::registration::{ClientMetadata, ClientSettings, Plan, RegistrationError, plan, register};
use regrow_chaos::issuer::{Issuer, Response};
use serde_json::{Value, json};
use url::Url;

use crate::provider::{http, start};

async fn server(provider: &Issuer, changes: Value) -> AuthorizationServer {
    provider.metadata(changes);
    let found = discover(&http(provider), &provider.server(), &[], &Overrides::default()).await;
    found.unwrap().server
}

const METADATA: ClientMetadata<'static> =
    ClientMetadata { redirect_uri: Some("http://127.0.0.1:7/callback"), scope: Some("read"), device: false };

#[tokio::test]
async fn a_client_registers_as_a_native_application() {
    let provider = start();
    let server = server(&provider, json!({})).await;
    let registration = register(&http(&provider), &server, &METADATA).await.unwrap();
    assert_eq!(registration.auth_method, AuthMethod::None);
    let sent: Value = serde_json::from_str(&provider.heard("/register")[0].body).unwrap();
    assert_eq!(sent["application_type"], "native");
    assert_eq!(sent["token_endpoint_auth_method"], "none");
    assert_eq!(sent["redirect_uris"], json!(["http://127.0.0.1:7/callback"]));
    assert_eq!(sent["scope"], "read");
}

#[tokio::test]
async fn the_method_comes_from_the_metadata_and_then_from_the_response() {
    let provider = start();
    let methods = ["private_key_jwt", "client_secret_basic", "client_secret_post"];
    let methods = json!({ "token_endpoint_auth_methods_supported": methods });
    let server = server(&provider, methods).await;
    let registration = register(&http(&provider), &server, &METADATA).await.unwrap();
    assert_eq!(registration.auth_method, AuthMethod::Post);
    assert_eq!(registration.client_secret.unwrap().expose(), "s/e:c ret");
    assert_eq!(registration.secret_expires_at, None, "zero says never");

    provider.replace("/register", |_| {
        Response::json(
            201,
            json!({ "client_id": "c", "client_secret": "s", "client_secret_expires_at": 77,
                    "token_endpoint_auth_method": "client_secret_basic" }),
        )
    });
    let registration = register(&http(&provider), &server, &METADATA).await.unwrap();
    assert_eq!(registration.auth_method, AuthMethod::Basic);
    assert_eq!(registration.secret_expires_at, Some(77));
}

#[tokio::test]
async fn a_response_that_is_not_a_registration_is_refused() {
    let provider = start();
    let server =
        server(&provider, json!({ "token_endpoint_auth_methods_supported": ["client_secret_basic"] })).await;
    let responses = [
        Response::json(400, json!({ "error": "invalid_redirect_uri", "error_description": "\u{202e}no" })),
        Response::new(200, "<html>"),
        Response::json(201, json!({ "client_id": "c" })),
        Response::json(201, json!({ "client_id": 7 })),
        Response::new(500, ""),
    ];
    for response in responses {
        provider.replace("/register", move |_| response.clone());
        let error = register(&http(&provider), &server, &METADATA).await.unwrap_err();
        assert!(matches!(error, RegistrationError::Refused(_)), "{error:?}");
        assert!(!error.to_string().contains('\u{202e}'), "{error}");
    }
}

#[tokio::test]
async fn the_operators_client_comes_first_then_a_document_then_a_known_one() {
    let provider = start();
    let server = server(&provider, json!({ "client_id_metadata_document_supported": true })).await;
    let known = register(&http(&provider), &server, &METADATA).await.unwrap();
    let document = Some(Url::parse("https://regrow.example/client.json").unwrap());
    let id = |plan: Result<Plan, RegistrationError>| match plan.unwrap() {
        Plan::Use(registration) => format!("{:?} {}", registration.how, registration.client_id),
        Plan::Register => "register".to_owned(),
    };
    let (none, all) = (
        ClientSettings::default(),
        ClientSettings {
            client_id: Some("ours".into()),
            client_secret: None,
            metadata_document: document.clone(),
        },
    );
    let with_document = ClientSettings { metadata_document: document, ..ClientSettings::default() };
    assert_eq!(id(plan(&server, &all, false, Some(&known), 0)), "Configured ours");
    assert_eq!(
        id(plan(&server, &with_document, false, Some(&known), 0)),
        "MetadataDocument https://regrow.example/client.json"
    );
    assert_eq!(id(plan(&server, &none, false, Some(&known), 0)), "Dynamic client-1");
    let mut expired = known.clone();
    expired.secret_expires_at = Some(10);
    assert_eq!(id(plan(&server, &none, false, Some(&expired), 9)), "Dynamic client-1");
    assert_eq!(id(plan(&server, &none, false, Some(&expired), 10)), "register");
    let mut foreign = known.clone();
    foreign.issuer = "https://other.example".into();
    assert_eq!(id(plan(&server, &none, false, Some(&foreign), 0)), "register");
    let mut removed = known;
    removed.how = RegisteredBy::Configured;
    assert_eq!(id(plan(&server, &none, false, Some(&removed), 0)), "register");

    let server =
        AuthorizationServer { registration_endpoint: None, client_id_metadata_supported: false, ..server };
    assert_eq!(plan(&server, &with_document, false, None, 0), Err(RegistrationError::NeedsClientId));
}
