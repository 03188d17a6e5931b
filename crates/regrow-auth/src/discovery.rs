//! Finds out who issues the tokens of an MCP server.

use http::HeaderValue;
use regrow_protocol::text::escape;
use serde_json::json;
use url::Url;

use crate::challenge::bearer;
use crate::guarded::{Answer, Guarded, HttpError, shown};
use crate::metadata::{
    MetadataError, ProtectedResource, authorization_server, is_same_issuer, issuer_candidates,
    protected_resource, resource_candidates,
};
use crate::records::{AuthorizationServer, Resource, canonical};

/// How many of the authorization servers that a resource names are tried.
const MAX_ISSUERS: usize = 5;

/// What the operator sets for servers whose metadata is broken.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The issuer, whatever the resource says.
    pub issuer: Option<String>,
    /// Where the metadata of the authorization server is.
    pub metadata_url: Option<Url>,
    /// Send no `resource` parameter.
    pub no_resource: bool,
}

/// What discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// What the tokens are for.
    pub resource: Resource,
    /// Who issues them.
    pub server: AuthorizationServer,
    /// The scopes that the resource names.
    pub scopes_supported: Vec<String>,
}

/// Why there is no authorization server to sign in at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A request failed or was refused.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A document breaks a rule.
    #[error("{url}: {error}")]
    Metadata {
        /// Where the document is.
        url: String,
        /// Which rule.
        error: MetadataError,
    },
    /// There is no document.
    #[error("{host} has no OAuth metadata (asked: {asked})")]
    NotFound {
        /// Whose metadata it is.
        host: String,
        /// Where Regrow looked, and what it got.
        asked: String,
    },
    /// An issuer that is not an https URL without query and fragment.
    #[error("{0} is not a valid issuer")]
    NotAnIssuer(String),
}

/// What an MCP server asks of a client without a token: its `WWW-Authenticate` headers. Sends a ping, which changes nothing.
pub async fn ask_server(http: &Guarded, server: &Url) -> Result<Vec<HeaderValue>, HttpError> {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let answer = http.post_json(server, &ping).await?;
    Ok(match answer.status {
        401 | 403 => answer.challenges,
        _ => vec![],
    })
}

/// Finds the authorization server of an MCP server that sent these challenges.
pub async fn discover(
    http: &Guarded,
    server: &Url,
    challenges: &[HeaderValue],
    overrides: &Overrides,
) -> Result<Discovered, DiscoveryError> {
    let found = find_resource(http, server, challenges).await;
    let is_overridden = overrides.issuer.is_some() || overrides.metadata_url.is_some();
    let metadata = match found {
        Ok(metadata) => metadata,
        // The operator knows that it is broken.
        Err(_) if is_overridden => None,
        Err(error) => return Err(error),
    };
    let authorization_server = find_server(http, server, metadata.as_ref(), overrides).await?;
    check_endpoints(http, &authorization_server)?;
    let canonical = canonical(server.clone());
    let (resource, scopes_supported) = match metadata {
        Some(metadata) => (metadata.resource, metadata.scopes_supported),
        None => (canonical.as_str().trim_end_matches('/').to_owned(), vec![]),
    };
    let resource = Resource { url: canonical, resource: (!overrides.no_resource).then_some(resource) };
    Ok(Discovered { resource, server: authorization_server, scopes_supported })
}

/// Checks where the endpoints are: also the one that only a browser opens, because a page of this computer or its network may do something
/// for a mere request.
fn check_endpoints(http: &Guarded, server: &AuthorizationServer) -> Result<(), HttpError> {
    let endpoints = [
        Some(&server.token_endpoint),
        server.authorization_endpoint.as_ref(),
        server.registration_endpoint.as_ref(),
        server.revocation_endpoint.as_ref(),
        server.device_authorization_endpoint.as_ref(),
    ];
    endpoints.into_iter().flatten().try_for_each(|endpoint| http.check(endpoint))
}

/// Whether an MCP server that sent these challenges names other issuers than this one. One whose metadata cannot be read, or that names
/// none, does not.
pub(crate) async fn names_others(
    http: &Guarded,
    server: &Url,
    challenges: &[HeaderValue],
    issuer: &str,
) -> bool {
    let Ok(Some(found)) = find_resource(http, server, challenges).await else { return false };
    let named = &found.authorization_servers;
    !named.is_empty() && !named.iter().any(|named| is_same_issuer(named, issuer))
}

/// The protected-resource metadata: where the server says, then where it belongs. None if the server has none.
async fn find_resource(
    http: &Guarded,
    server: &Url,
    challenges: &[HeaderValue],
) -> Result<Option<ProtectedResource>, DiscoveryError> {
    let advertised = bearer(challenges).resource_metadata.and_then(|text| server.join(&text).ok());
    let server = canonical(server.clone());
    let mut candidates: Vec<Url> = advertised.into_iter().collect();
    candidates.extend(resource_candidates(&server));
    candidates.dedup();
    match first_document(http, &candidates).await? {
        Search::Found(url, answer) => protected_resource(&answer.body, &server)
            .map(Some)
            .map_err(|error| DiscoveryError::Metadata { url: shown(&url), error }),
        Search::Nothing(_) => Ok(None),
    }
}

/// The first authorization server that can be used, of those that the operator or the resource names.
async fn find_server(
    http: &Guarded,
    server: &Url,
    metadata: Option<&ProtectedResource>,
    overrides: &Overrides,
) -> Result<AuthorizationServer, DiscoveryError> {
    if let Some(url) = &overrides.metadata_url {
        return server_at(http, std::slice::from_ref(url), overrides.issuer.as_deref()).await;
    }
    let issuers: Vec<String> = match (&overrides.issuer, metadata) {
        (Some(issuer), _) => vec![issuer.clone()],
        (None, Some(metadata)) if !metadata.authorization_servers.is_empty() => {
            metadata.authorization_servers.iter().take(MAX_ISSUERS).cloned().collect()
        }
        // Servers of the first revision with OAuth issue their tokens themselves.
        _ => vec![server.origin().ascii_serialization()],
    };
    let mut first_error = None;
    for issuer in &issuers {
        let found = match valid_issuer(issuer) {
            Some(url) => server_at(http, &issuer_candidates(&url), Some(issuer)).await,
            None => Err(DiscoveryError::NotAnIssuer(escape(issuer))),
        };
        match found {
            Ok(server) => return Ok(server),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error
        .unwrap_or_else(|| DiscoveryError::NotFound { host: shown(server), asked: "nowhere".into() }))
}

fn valid_issuer(issuer: &str) -> Option<Url> {
    Url::parse(issuer).ok().filter(|url| url.query().is_none() && url.fragment().is_none() && url.has_host())
}

async fn server_at(
    http: &Guarded,
    candidates: &[Url],
    issuer: Option<&str>,
) -> Result<AuthorizationServer, DiscoveryError> {
    match first_document(http, candidates).await? {
        Search::Found(url, answer) => authorization_server(&answer.body, issuer)
            .map_err(|error| DiscoveryError::Metadata { url: shown(&url), error }),
        Search::Nothing(asked) => {
            let host = candidates.first().and_then(Url::host_str).unwrap_or_default();
            Err(DiscoveryError::NotFound { host: escape(host), asked })
        }
    }
}

enum Search {
    Found(Url, Answer),
    /// Where it was looked for, and what came back.
    Nothing(String),
}

/// The first JSON document at these addresses. A server that fails is not one that has none, but its next address may work.
async fn first_document(http: &Guarded, candidates: &[Url]) -> Result<Search, DiscoveryError> {
    let (mut asked, mut failure) = (vec![], None);
    for url in candidates {
        let answer = match http.get(url).await {
            Ok(answer) => answer,
            Err(error @ HttpError::Refused { .. }) => return Err(error.into()),
            Err(error) => {
                failure = failure.or(Some(error));
                continue;
            }
        };
        let is_object = answer.body.trim_ascii_start().starts_with(b"{");
        match answer.status {
            200 if is_object => return Ok(Search::Found(url.clone(), answer)),
            status @ (408 | 425 | 429 | 500..) => {
                let host = escape(url.host_str().unwrap_or_default());
                failure = failure.or(Some(HttpError::Network { host, reason: format!("HTTP {status}") }));
            }
            status => asked.push(format!("{} HTTP {status}", shown(url))),
        }
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(Search::Nothing(asked.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::account;
    use crate::guarded::Network;

    #[test]
    fn the_browser_is_sent_into_a_private_network_only_if_the_server_is_there() {
        let check = |server: &str, endpoint: &str| {
            let http = Guarded::new(&Url::parse(server).unwrap(), &Network::default()).unwrap();
            let endpoint = Some(Url::parse(endpoint).unwrap());
            let server = AuthorizationServer { authorization_endpoint: endpoint, ..account().server };
            check_endpoints(&http, &server)
        };
        let local = "http://127.0.0.1:631/authorize";
        assert!(check("http://127.0.0.1:1/mcp", local).is_ok());
        assert!(check("https://mcp.example/", "https://login.example/").is_ok());
        for endpoint in [local, "http://localhost/x", "https://192.168.0.1/reboot"] {
            assert!(check("https://mcp.example/", endpoint).is_err(), "{endpoint}");
        }
    }
}
