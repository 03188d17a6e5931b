//! What the metadata of resources and authorization servers must look like, and where it may be. Pure: the fetching is in
//! `discovery`.

use serde::Deserialize;
use url::Url;

use crate::authorize::browser_url;
use crate::guarded::shown;
use crate::records::{AuthMethod, AuthorizationServer, is_scope};
use regrow_protocol::text::{escape, is_active};

/// Why a document is not used. Texts from outside are escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It is not what the specification calls metadata.
    #[error("the metadata is not valid: {0}")]
    NotValid(String),
    /// It speaks of another resource than the one that it was fetched for.
    #[error("the metadata is for another resource: {0}")]
    OtherResource(String),
    /// It names another issuer than the one that it was fetched for.
    #[error("the metadata is from issuer {found}, not from {expected}")]
    OtherIssuer {
        /// Who should have written it.
        expected: String,
        /// Who did.
        found: String,
    },
    /// It does not support PKCE with S256.
    #[error("the authorization server does not support PKCE with S256")]
    NoS256,
    /// People would sign in at another origin, and the response would not prove who sent it.
    #[error(
        "the authorization endpoint has another origin than the issuer and the token endpoint, and the server does not support the `iss` parameter"
    )]
    OtherOrigin,
}

/// Protected-resource metadata (RFC 9728), after all checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResource {
    /// Exactly as the document has it.
    pub resource: String,
    /// The issuers whose tokens it accepts.
    pub authorization_servers: Vec<String>,
    /// The scopes that it names.
    pub scopes_supported: Vec<String>,
}

/// Where the metadata of a resource may be if it is not advertised: with the path of the resource, then at the root.
pub fn resource_candidates(server: &Url) -> Vec<Url> {
    let mut found = vec![];
    let path = server.path().trim_end_matches('/');
    if !path.is_empty() {
        let mut url = with_path(server, &format!("/.well-known/oauth-protected-resource{path}"));
        url.set_query(server.query());
        found.push(url);
    }
    found.push(with_path(server, "/.well-known/oauth-protected-resource"));
    found
}

/// Where the metadata of an issuer may be.
pub fn issuer_candidates(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| with_path(issuer, path)).collect()
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// Reads protected-resource metadata that was fetched for this MCP server.
pub fn protected_resource(body: &[u8], server: &Url) -> Result<ProtectedResource, MetadataError> {
    let document: ResourceDocument = serde_json::from_slice(body).map_err(not_valid)?;
    let other = || MetadataError::OtherResource(escape(&document.resource));
    let resource = Url::parse(&document.resource).map_err(|_| other())?;
    if resource.origin() != server.origin() || !is_equal_or_parent(resource.path(), server.path()) {
        return Err(other());
    }
    if resource.query().is_some_and(|query| server.query() != Some(query)) || resource.fragment().is_some() {
        return Err(other());
    }
    Ok(ProtectedResource {
        resource: document.resource,
        authorization_servers: document.authorization_servers,
        scopes_supported: scopes(document.scopes_supported),
    })
}

/// Whether one path is the other, or a folder above it.
fn is_equal_or_parent(parent: &str, path: &str) -> bool {
    let (parent, path) = (parent.trim_end_matches('/'), path.trim_end_matches('/'));
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Deserialize)]
struct ServerDocument {
    issuer: String,
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    registration_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
}

/// Reads the metadata of an authorization server. Without an expected issuer the document was named by the operator, and its own
/// issuer counts.
pub fn authorization_server(
    body: &[u8],
    expected: Option<&str>,
) -> Result<AuthorizationServer, MetadataError> {
    let document: ServerDocument = serde_json::from_slice(body).map_err(not_valid)?;
    if let Some(expected) = expected.filter(|expected| !is_same_issuer(expected, &document.issuer)) {
        let (expected, found) = (escape(expected), escape(&document.issuer));
        return Err(MetadataError::OtherIssuer { expected, found });
    }
    // The parser of URLs skips some of them, and people are shown the issuer.
    if document.issuer.contains(is_active) {
        return Err(MetadataError::NotValid("its issuer contains control characters".into()));
    }
    if !document.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return Err(MetadataError::NoS256);
    }
    let authorization_endpoint = match &document.authorization_endpoint {
        Some(text) => Some(browser_url(text).map_err(|error| MetadataError::NotValid(error.to_string()))?),
        None => None,
    };
    let methods = document.token_endpoint_auth_methods_supported;
    let methods = methods.unwrap_or_else(|| vec!["client_secret_basic".into()]);
    let server = AuthorizationServer {
        authorization_endpoint,
        token_endpoint: endpoint(&document.token_endpoint)?,
        registration_endpoint: document.registration_endpoint.as_deref().map(endpoint).transpose()?,
        revocation_endpoint: document.revocation_endpoint.as_deref().map(endpoint).transpose()?,
        device_authorization_endpoint: document
            .device_authorization_endpoint
            .as_deref()
            .map(endpoint)
            .transpose()?,
        scopes_supported: scopes(document.scopes_supported),
        token_auth_methods: methods.iter().filter_map(|method| auth_method(method)).collect(),
        iss_parameter_supported: document.authorization_response_iss_parameter_supported,
        client_id_metadata_supported: document.client_id_metadata_document_supported,
        issuer: document.issuer,
    };
    match is_mixed_up(&server) {
        true => Err(MetadataError::OtherOrigin),
        false => Ok(server),
    }
}

/// An issuer is compared letter by letter; only a slash may be missing where there is no path.
pub(crate) fn is_same_issuer(expected: &str, found: &str) -> bool {
    let has_no_path = |issuer: &str| {
        Url::parse(issuer)
            .is_ok_and(|url| url.path() == "/" && url.query().is_none() && url.fragment().is_none())
    };
    expected == found
        || has_no_path(expected)
            && has_no_path(found)
            && expected.strip_suffix('/').unwrap_or(expected) == found.strip_suffix('/').unwrap_or(found)
}

/// Whether people would be sent to an origin that has nothing to do with the one that gets the code.
fn is_mixed_up(server: &AuthorizationServer) -> bool {
    let Some(endpoint) = &server.authorization_endpoint else { return false };
    let is_of_issuer = Url::parse(&server.issuer).is_ok_and(|issuer| issuer.origin() == endpoint.origin());
    !server.iss_parameter_supported && !is_of_issuer && endpoint.origin() != server.token_endpoint.origin()
}

/// How a token endpoint names a method; None if Regrow does not know it.
pub(crate) fn auth_method(name: &str) -> Option<AuthMethod> {
    match name {
        "none" => Some(AuthMethod::None),
        "client_secret_basic" => Some(AuthMethod::Basic),
        "client_secret_post" => Some(AuthMethod::Post),
        _ => None,
    }
}

fn scopes(scopes: Vec<String>) -> Vec<String> {
    scopes.into_iter().filter(|scope| is_scope(scope)).collect()
}

fn endpoint(text: &str) -> Result<Url, MetadataError> {
    let wrong = || MetadataError::NotValid(format!("{} is not an absolute URL", escape(text)));
    let url = Url::parse(text).map_err(|_| wrong())?;
    match url.fragment() {
        None => Ok(url),
        Some(_) => Err(MetadataError::NotValid(format!("{} has a fragment", shown(&url)))),
    }
}

fn not_valid(error: serde_json::Error) -> MetadataError {
    MetadataError::NotValid(escape(&error.to_string()))
}
