//! Who issues the tokens of a server, and which documents are not believed.

use http::HeaderValue;
use regrow_auth::discovery::{Discovered, DiscoveryError, Overrides, discover};
use regrow_auth::guarded::HttpError;
use regrow_auth::metadata::{MetadataError, issuer_candidates, protected_resource, resource_candidates};
use regrow_auth::records::AuthMethod;
use regrow_chaos::issuer::{Issuer, Response};
use serde_json::json;
use url::Url;

use crate::provider::{http, start};

async fn find(provider: &Issuer) -> Result<Discovered, DiscoveryError> {
    discover(&http(provider), &provider.server(), &[], &Overrides::default()).await
}

#[tokio::test]
async fn metadata_is_found_where_it_is_advertised_then_by_path_then_at_the_root() {
    let provider = start();
    let document =
        json!({ "resource": provider.origin, "authorization_servers": [format!("{}/", provider.origin)] });
    provider.replace("/.well-known/oauth-protected-resource/mcp", |_| Response::new(404, ""));
    provider.replace("/.well-known/oauth-protected-resource", move |_| Response::json(200, document.clone()));
    let advertised = format!("Bearer resource_metadata=\"{}\"", provider.url("/lost"));
    let challenge = HeaderValue::try_from(advertised).unwrap();
    let overrides = Overrides::default();
    let found = discover(&http(&provider), &provider.server(), &[challenge], &overrides).await.unwrap();
    assert_eq!(
        provider.paths(),
        [
            "/lost",
            "/.well-known/oauth-protected-resource/mcp",
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-authorization-server"
        ]
    );
    assert_eq!(found.resource.resource.as_deref(), Some(provider.origin.as_str()), "as the document has it");
    assert_eq!(found.server.token_auth_methods, [AuthMethod::None, AuthMethod::Basic, AuthMethod::Post]);
}

#[tokio::test]
async fn an_issuer_with_a_path_has_three_places() {
    let provider = start();
    let issuer = format!("{}/tenant", provider.origin);
    let resource = json!({ "resource": provider.server(), "authorization_servers": [issuer] });
    provider
        .replace("/.well-known/oauth-protected-resource/mcp", move |_| Response::json(200, resource.clone()));
    let document = json!({ "issuer": issuer, "token_endpoint": provider.url("/token"),
                           "code_challenge_methods_supported": ["S256"] });
    provider
        .replace("/tenant/.well-known/openid-configuration", move |_| Response::json(200, document.clone()));
    // A page in place of an error is no document.
    provider.replace("/.well-known/openid-configuration/tenant", |_| Response::new(200, "<html>"));
    let found = find(&provider).await.unwrap();
    assert_eq!(found.server.issuer, issuer);
    assert_eq!(found.server.token_auth_methods, [AuthMethod::Basic], "the default");
    assert_eq!(
        provider.paths()[1..],
        [
            "/.well-known/oauth-authorization-server/tenant",
            "/.well-known/openid-configuration/tenant",
            "/tenant/.well-known/openid-configuration"
        ]
    );
}

#[tokio::test]
async fn a_server_without_resource_metadata_is_its_own_issuer() {
    let provider = start();
    provider.replace("/.well-known/oauth-protected-resource/mcp", |_| Response::new(404, ""));
    let found = find(&provider).await.unwrap();
    assert_eq!(found.server.issuer, provider.origin);
    assert_eq!(found.resource.resource.as_deref(), Some(provider.server().as_str()));
    // But one whose metadata is broken for the moment is not.
    provider.replace("/.well-known/oauth-protected-resource/mcp", |_| Response::new(503, ""));
    let error = find(&provider).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Http(HttpError::Network { .. })), "{error:?}");
}

#[tokio::test]
async fn metadata_that_breaks_a_rule_is_refused() {
    let no_iss = json!({ "authorization_endpoint": "https://other.example/",
                         "authorization_response_iss_parameter_supported": false });
    let cases = [
        (json!({ "issuer": "https://evil.example" }), "OtherIssuer"),
        (json!({ "issuer": "ORIGIN/other" }), "OtherIssuer"),
        (json!({ "issuer": "ORIGIN//" }), "OtherIssuer"),
        (json!({ "issuer": "ORIGIN?x" }), "OtherIssuer"),
        (json!({ "code_challenge_methods_supported": null }), "NoS256"),
        (json!({ "code_challenge_methods_supported": ["plain"] }), "NoS256"),
        (json!({ "authorization_endpoint": "file:///bin/sh" }), "NotValid"),
        (json!({ "authorization_endpoint": "https://a.example/$(id)" }), "NotValid"),
        (json!({ "token_endpoint": "/relative" }), "NotValid"),
        (json!({ "token_endpoint": 7 }), "NotValid"),
        (no_iss, "OtherOrigin"),
    ];
    for (changes, expected) in cases {
        let provider = start();
        let changes = changes.to_string().replace("ORIGIN", &provider.origin);
        provider.metadata(serde_json::from_str(&changes).unwrap());
        let error = find(&provider).await.unwrap_err();
        let DiscoveryError::Metadata { error: found, .. } = &error else { panic!("{error:?}") };
        assert!(format!("{found:?}").starts_with(expected), "{expected}: {error:?}");
    }
}

#[tokio::test]
async fn endpoints_where_regrow_must_not_connect_are_refused() {
    let cases = [
        ("token_endpoint", "http://169.254.169.254/token"),
        ("token_endpoint", "https://169.254.169.254/token"),
        ("token_endpoint", "https://[::ffff:10.0.0.1]/token"),
        ("token_endpoint", "https://0x0a.1/token"),
        ("registration_endpoint", "https://012.0.0.1/register"),
        ("revocation_endpoint", "http://example.com/revoke"),
        ("device_authorization_endpoint", "https://user:password@example.com/device"),
    ];
    for (name, address) in cases {
        let provider = start();
        provider.metadata(json!({ name: address }));
        let error = find(&provider).await.unwrap_err();
        assert!(matches!(error, DiscoveryError::Http(HttpError::Refused { .. })), "{address}: {error:?}");
        assert!(!error.to_string().contains("password@"), "{error}");
    }
}

#[tokio::test]
async fn the_operator_can_override_what_is_broken() {
    let provider = start();
    provider.replace("/.well-known/oauth-protected-resource/mcp", |_| {
        Response::json(200, json!({ "resource": "https://other.example/" }))
    });
    let error = find(&provider).await.unwrap_err();
    let is_expected =
        matches!(&error, DiscoveryError::Metadata { error: MetadataError::OtherResource(_), .. });
    assert!(is_expected, "{error:?}");

    let (http, server) = (http(&provider), provider.server());
    let overrides = Overrides { issuer: Some(provider.origin.clone()), ..Overrides::default() };
    assert_eq!(discover(&http, &server, &[], &overrides).await.unwrap().server.issuer, provider.origin);

    provider.metadata(json!({ "issuer": "https://proxied.example" }));
    let metadata_url = Some(provider.url("/.well-known/oauth-authorization-server"));
    let overrides = Overrides { metadata_url, no_resource: true, ..Overrides::default() };
    let found = discover(&http, &server, &[], &overrides).await.unwrap();
    assert_eq!(found.server.issuer, "https://proxied.example");
    assert_eq!(found.resource.resource, None);
    let overrides = Overrides { issuer: Some("https://third.example".into()), ..overrides };
    assert!(discover(&http, &server, &[], &overrides).await.is_err());
}

#[test]
fn candidates_keep_the_path_of_the_resource() {
    let texts = |urls: Vec<Url>| urls.iter().map(Url::to_string).collect::<Vec<_>>();
    let url = |text: &str| Url::parse(text).unwrap();
    assert_eq!(
        texts(resource_candidates(&url("https://a.example/v1/mcp/?t=1"))),
        [
            "https://a.example/.well-known/oauth-protected-resource/v1/mcp?t=1",
            "https://a.example/.well-known/oauth-protected-resource"
        ]
    );
    assert_eq!(
        texts(resource_candidates(&url("https://a.example"))),
        ["https://a.example/.well-known/oauth-protected-resource"]
    );
    assert_eq!(
        texts(issuer_candidates(&url("https://a.example/"))),
        [
            "https://a.example/.well-known/oauth-authorization-server",
            "https://a.example/.well-known/openid-configuration"
        ]
    );
}

#[test]
fn a_resource_has_the_same_origin_and_an_equal_or_parent_path() {
    let server = Url::parse("https://a.example/v1/mcp").unwrap();
    let read =
        |resource: &str| protected_resource(json!({ "resource": resource }).to_string().as_bytes(), &server);
    for good in
        ["https://a.example", "https://a.example/", "https://a.example/v1", "https://a.example/v1/mcp/"]
    {
        assert!(read(good).is_ok(), "{good}");
    }
    for bad in [
        "http://a.example/v1/mcp",
        "https://a.example:8443/v1/mcp",
        "https://a.example.evil.com/v1/mcp",
        "https://a.example/v1/m",
        "https://a.example/v1/mcp/more",
        "https://a.example/v1/mcp?x=1",
        "https://a.example/v1/mcp#x",
        "a.example",
    ] {
        assert!(matches!(read(bad), Err(MetadataError::OtherResource(_))), "{bad}");
    }
}
