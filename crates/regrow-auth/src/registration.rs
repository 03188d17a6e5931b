//! Who Regrow is to an authorization server: what the operator registered, a metadata document, or a registration of its own.

use regrow_protocol::text::escape;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::guarded::{Guarded, HttpError};
use crate::metadata::auth_method;
use crate::records::{AuthMethod, AuthorizationServer, RegisteredBy, Registration, Secret};
use crate::token::{DEVICE_GRANT, described, seconds};

/// What the operator says about the client.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// The id of a client that the operator registered.
    pub client_id: Option<String>,
    /// Its secret. It requires a configured issuer, so that a server cannot name another one to get it.
    pub client_secret: Option<Secret>,
    /// A client ID metadata document, for servers that support those.
    pub metadata_document: Option<Url>,
}

/// Why there is no client to sign in with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The server registers no clients, and the operator named none.
    #[error(
        "the authorization server registers no clients: register one with it, and pass its id with --client-id"
    )]
    NeedsClientId,
    /// A configured secret without a configured issuer.
    #[error("a client secret requires an issuer: pass --issuer, so that the secret goes nowhere else")]
    SecretWithoutIssuer,
    /// A secret without its client.
    #[error("a client secret requires a client id: pass --client-id")]
    SecretWithoutClient,
    /// The operator's client is known to another issuer, and its id goes nowhere else.
    #[error(
        "the server names another authorization server than at the last sign-in: {found}, not {known}; if you trust it, pass --issuer, and --client-id for a client that you registered there"
    )]
    OtherIssuer {
        /// Where the client is known. Escaped.
        known: String,
        /// The issuer that the server names now. Escaped.
        found: String,
    },
    /// Client credentials without a secret.
    #[error("sign-in without a person requires a client of your own: its id, its secret and the issuer")]
    NeedsSecret,
    /// The token endpoint accepts no method that Regrow knows.
    #[error("the token endpoint accepts no authentication method that Regrow supports")]
    NoMethod,
    /// A request failed or was refused.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The server refused to register the client. The text is escaped.
    #[error("the authorization server did not register the client: {0}")]
    Refused(String),
}

/// How to get a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// This one can be used.
    Use(Registration),
    /// Regrow must register.
    Register,
}

/// Picks the client: the operator's, then a metadata document, then the one that Regrow registered before, then a new one.
pub fn plan(
    server: &AuthorizationServer,
    settings: &ClientSettings,
    has_configured_issuer: bool,
    known: Option<&Registration>,
    now: u64,
) -> Result<Plan, RegistrationError> {
    let registration = |client_id: String, client_secret: Option<Secret>, auth_method, how| Registration {
        issuer: server.issuer.clone(),
        client_id,
        client_secret,
        secret_expires_at: None,
        auth_method,
        redirect_uri: None,
        how,
    };
    match (&settings.client_id, &settings.client_secret) {
        (None, Some(_)) => return Err(RegistrationError::SecretWithoutClient),
        (Some(_), Some(_)) if !has_configured_issuer => return Err(RegistrationError::SecretWithoutIssuer),
        (Some(id), secret) => {
            let method = match secret {
                None => AuthMethod::None,
                Some(_) => secret_method(server).ok_or(RegistrationError::NoMethod)?,
            };
            let configured = registration(id.clone(), secret.clone(), method, RegisteredBy::Configured);
            let before = known.filter(|known| known.how == configured.how && known.client_id == *id);
            if let Some(before) = before.filter(|before| before.issuer != server.issuer)
                && !has_configured_issuer
            {
                let (known, found) = (escape(&before.issuer), escape(&server.issuer));
                return Err(RegistrationError::OtherIssuer { known, found });
            }
            let redirect_uri = before.and_then(|before| before.redirect_uri.clone());
            return Ok(Plan::Use(Registration { redirect_uri, ..configured }));
        }
        (None, None) => {}
    }
    if let Some(document) =
        settings.metadata_document.as_ref().filter(|_| server.client_id_metadata_supported)
    {
        let id = document.to_string();
        return Ok(Plan::Use(registration(id, None, AuthMethod::None, RegisteredBy::MetadataDocument)));
    }
    let is_usable = |known: &&Registration| {
        known.how == RegisteredBy::Dynamic
            && known.issuer == server.issuer
            && known.secret_expires_at.is_none_or(|at| now < at)
    };
    if let Some(known) = known.filter(is_usable) {
        return Ok(Plan::Use(known.clone()));
    }
    match server.registration_endpoint {
        Some(_) => Ok(Plan::Register),
        None => Err(RegistrationError::NeedsClientId),
    }
}

/// The method of a client that the operator registered.
fn secret_method(server: &AuthorizationServer) -> Option<AuthMethod> {
    first(server, [AuthMethod::Basic, AuthMethod::Post])
}

/// The method to register with: a public client where the server has those, else the secret in the form. Servers differ on how they
/// decode a header, and those of the official Python SDK revoke tokens only with the secret in the form.
fn method_to_register(server: &AuthorizationServer) -> Option<AuthMethod> {
    first(server, [AuthMethod::None, AuthMethod::Post, AuthMethod::Basic])
}

fn first<const N: usize>(server: &AuthorizationServer, methods: [AuthMethod; N]) -> Option<AuthMethod> {
    methods.into_iter().find(|method| server.token_auth_methods.contains(method))
}

/// What Regrow registers about itself.
#[derive(Clone, Debug, Default)]
pub struct ClientMetadata<'a> {
    /// Where the browser returns to.
    pub redirect_uri: Option<&'a str>,
    /// The scopes that it will ask for, separated by spaces.
    pub scope: Option<&'a str>,
    /// Whether it uses the device flow.
    pub device: bool,
}

/// Registers a client (RFC 7591).
pub async fn register(
    http: &Guarded,
    server: &AuthorizationServer,
    metadata: &ClientMetadata<'_>,
) -> Result<Registration, RegistrationError> {
    let endpoint = server.registration_endpoint.as_ref().ok_or(RegistrationError::NeedsClientId)?;
    let method = method_to_register(server).ok_or(RegistrationError::NoMethod)?;
    let answer = http.post_json(endpoint, &request(metadata, method)).await?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if !(200..300).contains(&answer.status) {
        let said = body["error"].as_str().map(|error| described(error, body["error_description"].as_str()));
        let reason = said.map_or_else(String::new, |said| format!(": {said}"));
        return Err(RegistrationError::Refused(format!("HTTP {}{reason}", answer.status)));
    }
    read(body, server, metadata, method)
}

fn request(metadata: &ClientMetadata<'_>, method: AuthMethod) -> Value {
    let mut grants = vec!["refresh_token"];
    grants.extend(metadata.redirect_uri.map(|_| "authorization_code"));
    grants.extend(metadata.device.then_some(DEVICE_GRANT));
    let mut request = json!({
        "client_name": "Regrow",
        "client_uri": "https://github.com/regrow-dev/regrow",
        "application_type": "native",
        "token_endpoint_auth_method": method,
        "grant_types": grants,
        "response_types": if metadata.redirect_uri.is_some() { vec!["code"] } else { vec![] },
        "redirect_uris": metadata.redirect_uri.into_iter().collect::<Vec<_>>(),
    });
    if let Some(scope) = metadata.scope {
        request["scope"] = scope.into();
    }
    request
}

#[derive(Deserialize)]
struct Response {
    client_id: String,
    client_secret: Option<Secret>,
    client_secret_expires_at: Option<Value>,
    token_endpoint_auth_method: Option<String>,
}

fn read(
    body: Value,
    server: &AuthorizationServer,
    metadata: &ClientMetadata<'_>,
    asked: AuthMethod,
) -> Result<Registration, RegistrationError> {
    let response: Response = serde_json::from_value(body).map_err(|error| {
        RegistrationError::Refused(escape(&format!("its response is not valid: {error}")))
    })?;
    let auth_method = match &response.token_endpoint_auth_method {
        Some(name) => auth_method(name).ok_or(RegistrationError::NoMethod)?,
        None => asked,
    };
    let client_secret = response.client_secret.filter(|_| auth_method != AuthMethod::None);
    if auth_method != AuthMethod::None && client_secret.is_none() {
        return Err(RegistrationError::Refused("its response contains no client secret".into()));
    }
    // Zero says that it does not expire.
    let expires = response.client_secret_expires_at.as_ref().and_then(seconds).filter(|at| *at != 0);
    Ok(Registration {
        issuer: server.issuer.clone(),
        client_id: response.client_id,
        secret_expires_at: expires.filter(|_| client_secret.is_some()),
        client_secret,
        auth_method,
        redirect_uri: metadata.redirect_uri.map(str::to_owned),
        how: RegisteredBy::Dynamic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::tests::account;

    #[test]
    fn the_operators_client_is_not_used_at_another_issuer_unless_the_operator_names_it() {
        let before = account();
        let known = Registration {
            client_id: "ours".into(),
            client_secret: None,
            how: RegisteredBy::Configured,
            ..before.registration
        };
        let settings = ClientSettings { client_id: Some("ours".into()), ..ClientSettings::default() };
        let other = AuthorizationServer { issuer: "https://other.example".into(), ..before.server.clone() };
        let plan = |server, is_named, known| plan(server, &settings, is_named, known, 0);
        assert!(matches!(
            plan(&other, false, Some(&known)),
            Err(RegistrationError::OtherIssuer { known, found })
                if known == "https://issuer.example" && found == "https://other.example"
        ));
        assert!(plan(&before.server, false, Some(&known)).is_ok());
        assert!(plan(&other, true, Some(&known)).is_ok(), "named by the operator");
        assert!(plan(&other, false, None).is_ok(), "nothing is known");
    }
}
