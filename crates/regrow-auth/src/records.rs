//! What is known of an account: plain values, as they are stored. `Debug` shows no secret.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

/// A token, a client secret, a code: never shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text out of `Debug`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, to send it to where it belongs.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a token is for: one MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// The address of the MCP server, without userinfo and fragment.
    pub url: Url,
    /// The `resource` parameter of all requests (RFC 8707). None where the server wants no such parameter.
    pub resource: Option<String>,
}

/// The address of an MCP server as its accounts and tokens name it: without userinfo and fragment.
pub(crate) fn canonical(mut server: Url) -> Url {
    // These fail for URLs without a host, which have no userinfo.
    let _ = server.set_username("");
    let _ = server.set_password(None);
    server.set_fragment(None);
    server
}

/// Whether this can be one scope (RFC 6749): no spaces, quotes or control characters.
pub(crate) fn is_scope(text: &str) -> bool {
    let is_allowed = |letter: u8| letter.is_ascii_graphic() && letter != b'"' && letter != b'\\';
    !text.is_empty() && text.bytes().all(is_allowed)
}

/// The scopes in a text from outside, one after the other. What cannot be a scope is left out, since people are shown them.
pub(crate) fn scopes(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().filter(|scope| is_scope(scope)).collect()
}

/// How a client proves to the token endpoint who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuthMethod {
    /// A public client: only its id.
    #[serde(rename = "none")]
    None,
    /// The secret in an `Authorization: Basic` header.
    #[serde(rename = "client_secret_basic")]
    Basic,
    /// The secret in the form.
    #[serde(rename = "client_secret_post")]
    Post,
}

/// The metadata of an authorization server, after all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationServer {
    /// Exactly as the metadata has it.
    pub issuer: String,
    /// Where a person signs in. A server that only knows other grants has none.
    pub authorization_endpoint: Option<Url>,
    /// Where tokens come from.
    pub token_endpoint: Url,
    /// Where clients register (RFC 7591).
    pub registration_endpoint: Option<Url>,
    /// Where tokens are revoked (RFC 7009).
    pub revocation_endpoint: Option<Url>,
    /// Where the device flow starts (RFC 8628).
    pub device_authorization_endpoint: Option<Url>,
    /// The scopes that it names.
    pub scopes_supported: Vec<String>,
    /// The methods that its token endpoint accepts, of those that Regrow knows. Empty if it knows none of them.
    pub token_auth_methods: Vec<AuthMethod>,
    /// Whether each callback carries `iss` (RFC 9207).
    pub iss_parameter_supported: bool,
    /// Whether a client id may be the address of a metadata document.
    pub client_id_metadata_supported: bool,
}

/// Where a client id comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RegisteredBy {
    /// The operator registered it.
    Configured,
    /// It is the address of a metadata document.
    MetadataDocument,
    /// Regrow registered it (RFC 7591).
    Dynamic,
}

/// Who Regrow is to an authorization server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The issuer it belongs to. The secret goes nowhere else.
    pub issuer: String,
    /// The public name of the client.
    pub client_id: String,
    /// Its secret, unless it is a public client.
    pub client_secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970.
    pub secret_expires_at: Option<u64>,
    /// How the client authenticates at the token endpoint.
    pub auth_method: AuthMethod,
    /// Where the browser returns to. None for flows without a browser.
    pub redirect_uri: Option<String>,
    /// Where the client id comes from.
    pub how: RegisteredBy,
}

/// What a sign-in yields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// What the MCP server accepts.
    pub access_token: Secret,
    /// What gets the next tokens.
    pub refresh_token: Option<Secret>,
    /// When the access token expires, in seconds since 1970, by this computer's clock.
    pub expires_at: Option<u64>,
    /// The scopes that were granted, separated by spaces.
    pub scope: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret_and_storage_keeps_it() {
        let registration = Registration {
            issuer: "https://issuer.example".into(),
            client_id: "regrow".into(),
            client_secret: Some(Secret::new("hunter2")),
            secret_expires_at: Some(7),
            auth_method: AuthMethod::Basic,
            redirect_uri: None,
            how: RegisteredBy::Dynamic,
        };
        let tokens = Tokens {
            access_token: Secret::new("hunter2"),
            refresh_token: Some(Secret::new("hunter2")),
            expires_at: None,
            scope: None,
        };
        let shown = format!("{registration:?} {tokens:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        let stored = serde_json::to_string(&(&registration, &tokens)).unwrap();
        let read: (Registration, Tokens) = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, (registration, tokens));
    }
}
