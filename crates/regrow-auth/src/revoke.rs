//! Ends tokens at their authorization server (RFC 7009).

use crate::guarded::Guarded;
use crate::records::{AuthorizationServer, Registration, Tokens};
use crate::token::{self, Reason, TokenError};

/// What became of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// The tokens are not valid any more.
    Done,
    /// The server has no endpoint for it: the tokens stay valid until they expire.
    NotSupported,
}

/// Revokes the refresh token, then the access token: not every server ends both with the first.
pub async fn revoke(
    http: &Guarded,
    server: &AuthorizationServer,
    registration: &Registration,
    tokens: &Tokens,
) -> Result<Revoked, TokenError> {
    let Some(endpoint) = &server.revocation_endpoint else { return Ok(Revoked::NotSupported) };
    let refresh = tokens.refresh_token.as_ref().map(|token| ("refresh_token", token));
    for (kind, token) in refresh.into_iter().chain([("access_token", &tokens.access_token)]) {
        let form = [("token", token.expose()), ("token_type_hint", kind)];
        let answer = token::post(http, server, endpoint, registration, &form).await?;
        let is_done = (200..300).contains(&answer.status);
        // Some servers revoke only refresh tokens.
        let is_unsupported = token::error_code(&answer).as_deref() == Some("unsupported_token_type");
        if !is_done && !is_unsupported {
            return Err(match token::object(&answer) {
                Err(error) => error,
                Ok(_) => TokenError::Refused { reason: Reason::own(format!("HTTP {}", answer.status)) },
            });
        }
    }
    Ok(Revoked::Done)
}
