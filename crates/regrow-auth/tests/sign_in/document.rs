//! Sign-in with a client ID metadata document.

use regrow_auth::listener::{CallbackHost, path_of};
use regrow_auth::login::{Options, SignedIn, login};
use regrow_auth::records::RegisteredBy;
use regrow_auth::registration::ClientSettings;
use regrow_chaos::issuer::Issuer;
use serde_json::{Value, json};
use url::Url;

use crate::person::Browser;
use crate::provider::{http, start};

/// The one that docs/sign-in.md tells people to publish.
fn example() -> Value {
    let page = include_str!("../../../../docs/sign-in.md");
    let is_document = |block: &&str| block.starts_with("json") && block.contains("redirect_uris");
    let block = page.split("```").find(is_document).unwrap();
    serde_json::from_str(block.strip_prefix("json").unwrap()).unwrap()
}

fn options(provider: &Issuer) -> Options {
    let document = Url::parse(example()["client_id"].as_str().unwrap()).unwrap();
    let client = ClientSettings { metadata_document: Some(document), ..ClientSettings::default() };
    Options { client, ..Options::new(provider.server()) }
}

async fn sign_in(provider: &Issuer, options: &Options) -> SignedIn {
    login(&http(provider), options, &Browser::default()).await.unwrap()
}

fn redirect(signed_in: &SignedIn) -> Url {
    Url::parse(signed_in.registration.redirect_uri.as_deref().unwrap()).unwrap()
}

#[tokio::test]
async fn the_documents_address_is_the_client_and_the_document_lists_the_redirect_but_for_its_port() {
    let provider = start();
    provider.metadata(json!({ "client_id_metadata_document_supported": true }));
    let example = example();
    assert_eq!(example["token_endpoint_auth_method"], "none");
    for host in [CallbackHost::Loopback, CallbackHost::Localhost] {
        let options = Options { callback_host: Some(host), ..options(&provider) };
        let mut redirect = redirect(&sign_in(&provider, &options).await);
        redirect.set_port(None).unwrap();
        let listed = example["redirect_uris"].as_array().unwrap();
        assert!(listed.contains(&json!(redirect.as_str())), "{redirect}: {listed:?}");
    }
    for heard in [&provider.heard("/authorize")[0].query, &provider.heard("/token")[0].form()] {
        assert_eq!(heard["client_id"], example["client_id"]);
    }
    assert!(provider.heard("/register").is_empty());
}

#[tokio::test]
async fn the_document_is_used_again_until_the_authorization_server_accepts_none() {
    let provider = start();
    provider.metadata(json!({ "client_id_metadata_document_supported": true }));
    let first = sign_in(&provider, &options(&provider)).await;
    assert_eq!(first.registration.how, RegisteredBy::MetadataDocument);
    // Another process, without the option.
    let again = Options::new(provider.server()).known(first.registration.clone());
    let again = sign_in(&provider, &again).await;
    assert_eq!(again.registration.client_id, first.registration.client_id);

    provider.metadata(json!({}));
    let registered = sign_in(&provider, &options(&provider).known(again.registration)).await;
    assert_eq!(registered.registration.how, RegisteredBy::Dynamic);
    assert_eq!(redirect(&registered).path(), path_of(&provider.server()));
}
