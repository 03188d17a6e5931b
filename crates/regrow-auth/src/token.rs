//! The token endpoint: what it is asked, and what its responses mean.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regrow_protocol::text::escape;
use serde_json::{Map, Value};

use crate::guarded::{Answer, Guarded, HttpError};
use crate::records::{AuthorizationServer, Registration, Secret, Tokens};

/// How long a description from outside may be in an error.
const MAX_DESCRIPTION: usize = 300;

/// Why there are no tokens. Texts from outside are escaped; they are for people, not for a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// `invalid_grant`: the code or refresh token is not valid, or not any more.
    #[error("the authorization server rejected the grant: {reason}")]
    Rejected {
        /// What the server said.
        reason: String,
    },
    /// `invalid_client`: the server does not know the client, or not with this secret.
    #[error("the authorization server rejected the client: {reason}")]
    ClientRejected {
        /// What the server said.
        reason: String,
    },
    /// A later attempt may succeed: nothing was said about the grant.
    #[error("the authorization server is not available: {reason}")]
    Temporary {
        /// What went wrong.
        reason: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// Another reason, which a retry does not change.
    #[error("the authorization server refused: {reason}")]
    Refused {
        /// What the server said, or which rule refused.
        reason: String,
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
        return Err(TokenError::Rejected { reason: "there is no refresh token".into() });
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

/// Sends a form to the token endpoint.
pub(crate) async fn request(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    form: &[(&str, &str)],
) -> Result<Tokens, TokenError> {
    if registration.issuer != server.issuer {
        return Err(TokenError::Refused { reason: "the client is registered with another issuer".into() });
    }
    let answer = http.post_form(&server.token_endpoint, form, registration).await.map_err(unanswered)?;
    read(&answer, now())
}

/// The error for a request without a response.
pub(crate) fn unanswered(error: HttpError) -> TokenError {
    match error {
        HttpError::Refused { .. } => TokenError::Refused { reason: error.to_string() },
        HttpError::Network { .. } | HttpError::TooLarge { .. } => {
            TokenError::Temporary { reason: error.to_string(), retry_after: None }
        }
    }
}

/// What a response means.
fn read(answer: &Answer, now: u64) -> Result<Tokens, TokenError> {
    let temporary = |reason: String| TokenError::Temporary { reason, retry_after: answer.retry_after };
    if matches!(answer.status, 408 | 425 | 429 | 500..) {
        return Err(temporary(format!("HTTP {}", answer.status)));
    }
    let Ok(Value::Object(body)) = serde_json::from_slice(&answer.body) else {
        return Err(temporary(format!("HTTP {} with a response that is not JSON", answer.status)));
    };
    // Some servers report errors with status 200.
    if let Some(error) = text(&body, "error") {
        return Err(error_of(error, text(&body, "error_description"), answer.retry_after));
    }
    if !(200..300).contains(&answer.status) {
        return Err(temporary(format!("HTTP {} without an OAuth error", answer.status)));
    }
    tokens(&body, now).ok_or_else(|| temporary("the response contains no bearer token".into()))
}

/// What an OAuth error means.
pub(crate) fn error_of(error: &str, description: Option<&str>, retry_after: Option<Duration>) -> TokenError {
    let reason = described(error, description);
    match error {
        "invalid_grant" => TokenError::Rejected { reason },
        "invalid_client" | "unauthorized_client" => TokenError::ClientRejected { reason },
        "temporarily_unavailable" | "server_error" => TokenError::Temporary { reason, retry_after },
        _ => TokenError::Refused { reason },
    }
}

/// An OAuth error with its description, escaped and shortened.
pub(crate) fn described(error: &str, description: Option<&str>) -> String {
    let text = match description {
        Some(description) => format!("{error} ({description})"),
        None => error.to_owned(),
    };
    let short: String = text.chars().take(MAX_DESCRIPTION).collect();
    escape(&short)
}

fn tokens(body: &Map<String, Value>, now: u64) -> Option<Tokens> {
    let is_bearer = text(body, "token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let is_token = |token: &&str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let access_token = text(body, "access_token").filter(is_token).filter(|_| is_bearer)?;
    Some(Tokens {
        access_token: Secret::new(access_token),
        refresh_token: text(body, "refresh_token").filter(|token| !token.is_empty()).map(Secret::new),
        expires_at: body.get("expires_in").and_then(seconds).map(|left| now.saturating_add(left)),
        scope: text(body, "scope").map(str::to_owned),
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

fn text<'a>(body: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    body.get(name)?.as_str()
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
