//! The token endpoint: what it is asked, and what its responses mean.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regrow_protocol::text::escape;
use serde_json::{Map, Value};
use url::Url;

use crate::guarded::{Answer, Guarded, HttpError};
use crate::records::{AuthorizationServer, Registration, Secret, Tokens, scopes};

/// The grant type of RFC 8628.
pub(crate) const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// How long a description from outside may be in an error.
const MAX_DESCRIPTION: usize = 300;

/// The error codes of OAuth that a model may read: a server can write anything else in their place.
const KNOWN_CODES: [&str; 14] = [
    "access_denied",
    "authorization_pending",
    "expired_token",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "slow_down",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_grant_type",
    "unsupported_token_type",
];

/// What went wrong. `Display` is for people and logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Regrow's own words, or an error code of OAuth. A model may read it.
    pub summary: String,
    /// Words of others, escaped and cut. A model must never read them.
    pub details: Option<String>,
}

impl Reason {
    /// In Regrow's own words only.
    pub fn own(summary: impl Into<String>) -> Reason {
        Reason { summary: summary.into(), details: None }
    }

    /// What the authorization server reports.
    pub(crate) fn reported(error: &str, description: Option<&str>) -> Reason {
        match KNOWN_CODES.contains(&error) {
            true => Reason { summary: error.to_owned(), details: description.map(cut) },
            false => {
                let details = Some(described(error, description));
                Reason { summary: "an unknown error code".into(), details }
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.details {
            Some(details) => write!(f, "{} ({details})", self.summary),
            None => f.write_str(&self.summary),
        }
    }
}

/// Why there are no tokens. `Display` is for people and logs; a model may read only [`Reason::summary`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// `invalid_grant`: the code or refresh token is not valid, or not any more.
    #[error("the authorization server rejected the grant: {reason}")]
    Rejected {
        /// What the server said.
        reason: Reason,
    },
    /// `invalid_client`, or another word for it: the server does not know the client, or not with this secret.
    #[error("the authorization server rejected the client: {reason}")]
    ClientRejected {
        /// What the server said.
        reason: Reason,
    },
    /// A later attempt may succeed: nothing was said about the grant.
    #[error("the authorization server is not available: {reason}")]
    Temporary {
        /// What went wrong.
        reason: Reason,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// Another reason, which a retry does not change.
    #[error("the authorization server refused: {reason}")]
    Refused {
        /// What the server said, or which rule refused.
        reason: Reason,
    },
}

/// Gets new tokens for a refresh token. What the response omits stays as it was: the refresh token and the scope.
pub async fn refresh(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    tokens: &Tokens,
    resource: Option<&str>,
) -> Result<Tokens, TokenError> {
    let Some(refresh_token) = &tokens.refresh_token else {
        return Err(TokenError::Rejected { reason: Reason::own("there is no refresh token") });
    };
    let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token.expose())];
    form.extend(resource.map(|resource| ("resource", resource)));
    let renewed = request(http, server, registration, &form).await?;
    Ok(Tokens {
        refresh_token: renewed.refresh_token.or_else(|| tokens.refresh_token.clone()),
        scope: renewed.scope.or_else(|| tokens.scope.clone()),
        ..renewed
    })
}

/// Exchanges the code that the browser brought.
pub async fn exchange(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    code: &Secret,
    verifier: &Secret,
    redirect_uri: &str,
    resource: Option<&str>,
) -> Result<Tokens, TokenError> {
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code.expose()),
        ("code_verifier", verifier.expose()),
        ("redirect_uri", redirect_uri),
    ];
    form.extend(resource.map(|resource| ("resource", resource)));
    request(http, server, registration, &form).await
}

/// Gets a token for the client itself, without a person.
pub async fn client_credentials(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    scope: Option<&str>,
    resource: Option<&str>,
) -> Result<Tokens, TokenError> {
    let mut form = vec![("grant_type", "client_credentials")];
    form.extend(scope.map(|scope| ("scope", scope)));
    form.extend(resource.map(|resource| ("resource", resource)));
    request(http, server, registration, &form).await
}

/// Sends a form to the token endpoint.
async fn request(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    form: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    let answer = post(http, server, &server.token_endpoint, registration, form).await?;
    read(&answer, now())
}

/// Posts a form to an endpoint of the issuer that the client is registered with, and to no other.
pub(crate) async fn post(
    http: &Guarded,
    server: &AuthorizationServer,
    endpoint: &Url,
    registration: &Registration,
    form: &[(&str, &str)],
) -> Result<Answer, TokenError> {
    if registration.issuer != server.issuer {
        return Err(TokenError::Refused {
            reason: Reason::own("the client is registered with another issuer"),
        });
    }
    http.post_form(endpoint, form, registration).await.map_err(unanswered)
}

/// The error for a request without a response.
fn unanswered(error: HttpError) -> TokenError {
    let reason = |summary: &str| Reason { summary: summary.into(), details: Some(error.to_string()) };
    match error {
        HttpError::Refused { .. } => {
            TokenError::Refused { reason: reason("the address of its endpoint is not allowed") }
        }
        HttpError::Network { .. } => {
            TokenError::Temporary { reason: reason("no response"), retry_after: None }
        }
        HttpError::TooLarge { .. } => {
            TokenError::Temporary { reason: reason("the response is too long"), retry_after: None }
        }
    }
}

/// What a response of the token endpoint means.
pub(crate) fn read(answer: &Answer, now: u64) -> Result<Tokens, TokenError> {
    let body = object(answer)?;
    tokens(&body, now).ok_or_else(|| temporary(answer, Reason::own("the response contains no bearer token")))
}

/// The JSON of a successful response, or what its error means.
pub(crate) fn object(answer: &Answer) -> Result<Map<String, Value>, TokenError> {
    if matches!(answer.status, 408 | 425 | 429 | 500..) {
        return Err(temporary(answer, Reason::own(format!("HTTP {}", answer.status))));
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(&answer.body) else {
        let reason = format!("HTTP {} with a response that is not JSON", answer.status);
        return Err(temporary(answer, Reason::own(reason)));
    };
    // Some servers report errors with status 200.
    if let Some(error) = text(&body, "error") {
        let reason = Reason::reported(error, text(&body, "error_description"));
        return Err(match error {
            "invalid_grant" => TokenError::Rejected { reason },
            "invalid_client" => TokenError::ClientRejected { reason },
            // So say servers of the official Python SDK 1.x of a client that they do not know.
            "unauthorized_client" if answer.status == 401 => TokenError::ClientRejected { reason },
            "temporarily_unavailable" | "server_error" => temporary(answer, reason),
            _ => TokenError::Refused { reason },
        });
    }
    match answer.status {
        200..300 => Ok(body),
        status => Err(temporary(answer, Reason::own(format!("HTTP {status} without an OAuth error")))),
    }
}

/// The OAuth error in a response.
pub(crate) fn error_code(answer: &Answer) -> Option<String> {
    let body: Map<String, Value> = serde_json::from_slice(&answer.body).ok()?;
    text(&body, "error").map(str::to_owned)
}

fn temporary(answer: &Answer, reason: Reason) -> TokenError {
    TokenError::Temporary { reason, retry_after: answer.retry_after }
}

/// An OAuth error with its description, escaped and shortened.
pub(crate) fn described(error: &str, description: Option<&str>) -> String {
    match description {
        Some(description) => cut(&format!("{error} ({description})")),
        None => cut(error),
    }
}

fn cut(text: &str) -> String {
    escape(&text.chars().take(MAX_DESCRIPTION).collect::<String>())
}

fn tokens(body: &Map<String, Value>, now: u64) -> Option<Tokens> {
    let is_bearer = text(body, "token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let is_token = |token: &&str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let access_token = text(body, "access_token").filter(is_token).filter(|_| is_bearer)?;
    let expires_in = body.get("expires_in").and_then(seconds).filter(|left| *left > 0);
    Some(Tokens {
        access_token: Secret::new(access_token),
        refresh_token: text(body, "refresh_token").filter(|token| !token.is_empty()).map(Secret::new),
        // A token that is over when it is issued would be refreshed for each request: only the MCP server knows its end.
        expires_at: expires_in.map(|left| now.saturating_add(left)),
        scope: text(body, "scope").map(|scope| scopes(scope).join(" ")),
    })
}

/// A number of seconds; some servers write it as a string or as a fraction.
pub(crate) fn seconds(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.trim().parse().ok(),
        // The cast keeps what fits: a negative time is over, an endless one does not end.
        value => value.as_u64().or_else(|| value.as_f64().map(|seconds| seconds as u64)),
    }
}

pub(crate) fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name)?.as_str()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
