//! The authorization request that a person's browser carries, and the checks of what comes back.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regrow_protocol::oauth::OWN_PARAMETERS;
use regrow_protocol::text::escape;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;
use url::{Host, Url};

use crate::records::{Secret, scopes};
use crate::token::Reason;

/// Grants refresh tokens where a server names it.
const OFFLINE_ACCESS: &str = "offline_access";

/// Why an address is not shown to a browser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url} must not be opened in a browser: {reason}")]
pub struct BrowserUrlError {
    url: String,
    reason: &'static str,
}

/// Checks an address that a browser is to open: https, or http on this computer, and only characters that a URL has.
pub fn browser_url(text: &str) -> Result<Url, BrowserUrlError> {
    let wrong = |reason| BrowserUrlError { url: escape(&text.chars().take(200).collect::<String>()), reason };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    if !text.bytes().all(is_allowed) || text.contains("$(") {
        return Err(wrong("it contains characters that do not belong into a URL"));
    }
    let url = Url::parse(text).map_err(|_| wrong("it is not a URL"))?;
    let is_local = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err(wrong("it has no host")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("it contains a user name or password"));
    }
    if url.fragment().is_some() {
        return Err(wrong("it has a fragment"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err(wrong("it is not https")),
    }
}

/// The secrets of one authorization request.
#[derive(Clone)]
pub struct Pkce {
    /// What the callback must repeat.
    pub state: Secret,
    /// What the token endpoint gets. The browser sees only its hash.
    pub verifier: Secret,
}

impl Pkce {
    /// New secrets. None if the system has no random numbers.
    pub fn new() -> Option<Pkce> {
        let random = || {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes).ok()?;
            Some(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
        };
        Some(Pkce { state: random()?, verifier: random()? })
    }

    fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.verifier.expose().as_bytes()))
    }
}

impl fmt::Debug for Pkce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pkce(..)")
    }
}

/// One authorization request.
#[derive(Clone, Debug)]
pub struct AuthorizationRequest<'a> {
    /// Where people sign in.
    pub endpoint: &'a Url,
    /// Who asks.
    pub client_id: &'a str,
    /// Where the browser returns to.
    pub redirect_uri: &'a str,
    /// What the token is for (RFC 8707).
    pub resource: Option<&'a str>,
    /// What is asked for, separated by spaces; the server's default if there is none.
    pub scope: Option<&'a str>,
    /// More parameters, for servers that need them.
    pub extra: &'a [(String, String)],
    /// The secrets.
    pub pkce: &'a Pkce,
}

impl AuthorizationRequest<'_> {
    /// The address to open. An error names the parameter that is Regrow's own, in the endpoint or among the extra ones.
    pub fn url(&self) -> Result<Url, OwnParameter> {
        let own = |name: &str| OWN_PARAMETERS.contains(&name);
        let mut set: Vec<String> = self.endpoint.query_pairs().map(|(name, _)| name.into_owned()).collect();
        set.extend(self.extra.iter().map(|(name, _)| name.clone()));
        if let Some(name) = set.iter().find(|name| own(name)) {
            return Err(OwnParameter(escape(name)));
        }
        let mut url = self.endpoint.clone();
        let mut query = url.query_pairs_mut();
        query.append_pair("response_type", "code");
        query.append_pair("client_id", self.client_id);
        query.append_pair("redirect_uri", self.redirect_uri);
        query.append_pair("state", self.pkce.state.expose());
        query.append_pair("code_challenge", &self.pkce.challenge());
        query.append_pair("code_challenge_method", "S256");
        for (name, value) in [("resource", self.resource), ("scope", self.scope)] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        // OpenID Connect grants offline access only with a person's consent.
        let is_offline =
            self.scope.is_some_and(|scope| scope.split(' ').any(|scope| scope == OFFLINE_ACCESS));
        if is_offline && !set.iter().any(|name| name == "prompt") {
            query.append_pair("prompt", "consent");
        }
        query.extend_pairs(self.extra);
        drop(query);
        Ok(url)
    }
}

/// A parameter that only Regrow sets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authorization request has its own parameter `{0}`, which only Regrow sets")]
pub struct OwnParameter(String);

/// The scopes to ask for: what the operator says, else those of the challenge, else those that the resource names. Earlier
/// grants are kept (a step-up asks for the union), and `offline_access` is added where the authorization server names it.
pub fn scope(
    operator: Option<&str>,
    challenge: Option<&str>,
    resource: &[String],
    granted: Option<&str>,
    server: &[String],
) -> Option<String> {
    let words = |text: &str| scopes(text).into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut asked = match (operator, challenge) {
        (Some(text), _) => words(text),
        (None, Some(text)) => words(text),
        (None, None) => resource.to_vec(),
    };
    asked.extend(granted.map(words).unwrap_or_default());
    if operator.is_none() && server.iter().any(|scope| scope == OFFLINE_ACCESS) {
        asked.push(OFFLINE_ACCESS.to_owned());
    }
    let mut seen = BTreeSet::new();
    asked.retain(|scope| seen.insert(scope.clone()));
    (!asked.is_empty()).then(|| asked.join(" "))
}

/// What the browser brought back: the members that count, from the query of the callback.
#[derive(Clone)]
pub struct Callback {
    parameters: Vec<(String, String)>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback(..)")
    }
}

/// Why a callback is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// It does not belong to this request. Somebody else may have sent it.
    #[error("it does not belong to this sign-in (wrong `state`)")]
    State,
    /// It comes from another issuer (RFC 9207).
    #[error("it comes from another issuer (wrong `iss`)")]
    Issuer,
    /// The authorization server reports an error.
    #[error("the authorization server reports: {0}")]
    Denied(Reason),
    /// It contains neither a code nor an error.
    #[error("it contains no code")]
    NoCode,
}

impl Callback {
    /// Of a query string.
    pub fn new(query: &str) -> Callback {
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
        Callback { parameters: pairs.collect() }
    }

    /// Of an address that a person pastes, or of its query.
    pub fn of_address(text: &str) -> Callback {
        let query = text.trim().split_once('?').map_or(text.trim(), |(_, query)| query);
        Callback::new(query.split('#').next().unwrap_or_default())
    }

    /// A parameter; None if it is repeated, because readers differ on which one counts.
    fn parameter(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(key, _)| key == name);
        let first = found.next()?;
        found.next().is_none().then_some(&first.1)
    }

    /// Whether it belongs to the request with this state.
    pub fn has_state(&self, state: &Secret) -> bool {
        let expected = state.expose().as_bytes();
        self.parameter("state").is_some_and(|found| found.as_bytes().ct_eq(expected).into())
    }

    /// The code, after the checks in their order: state, issuer, error.
    pub fn code(&self, state: &Secret, issuer: &str, must_have_iss: bool) -> Result<Secret, CallbackError> {
        if !self.has_state(state) {
            return Err(CallbackError::State);
        }
        let has_iss = self.parameters.iter().any(|(name, _)| name == "iss");
        if (has_iss || must_have_iss) && self.parameter("iss") != Some(issuer) {
            return Err(CallbackError::Issuer);
        }
        if self.parameters.iter().any(|(name, _)| name == "error") {
            let error = self.parameter("error").unwrap_or("more than one error");
            return Err(CallbackError::Denied(Reason::reported(error, self.parameter("error_description"))));
        }
        let code = self.parameter("code").filter(|code| !code.is_empty());
        code.map(Secret::new).ok_or(CallbackError::NoCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_opens_https_and_this_computer_only() {
        for good in ["https://a.example/x?y=1", "http://127.0.0.1:8/", "http://localhost/", "http://[::1]/"] {
            assert!(browser_url(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-https://a.example/",
            "--help",
            "http://a.example/",
            "http://10.0.0.1/",
            "http://localhost.a.example/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https:",
            "https://a.example/$(touch x)",
            "https://a.example/$(touch",
            "https://a.example/`id`",
            "https://a.example/\"&calc",
            "https://a.example/\n",
            "https://a.example/ x",
            "https://a.example/\u{202e}",
            "https://ann:x@a.example/",
            "https://a.example/#x",
        ] {
            assert!(browser_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_carries_each_parameter_once() {
        let pkce = Pkce {
            state: Secret::new("S"),
            verifier: Secret::new("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        };
        let endpoint = Url::parse("https://a.example/authorize?tenant=1").unwrap();
        let request = AuthorizationRequest {
            endpoint: &endpoint,
            client_id: "c&d",
            redirect_uri: "http://127.0.0.1:7/callback",
            resource: Some("https://mcp.example/mcp"),
            scope: Some("read offline_access"),
            extra: &[("audience".into(), "x y".into())],
            pkce: &pkce,
        };
        // The challenge is the one of RFC 7636, appendix B.
        assert_eq!(
            request.url().unwrap().as_str(),
            "https://a.example/authorize?tenant=1&response_type=code&client_id=c%26d\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback&state=S\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
             &resource=https%3A%2F%2Fmcp.example%2Fmcp&scope=read+offline_access&prompt=consent&audience=x+y"
        );
        let prompt = [("prompt".into(), "login".into())];
        let url = AuthorizationRequest { extra: &prompt, ..request.clone() }.url().unwrap();
        assert_eq!(url.query_pairs().filter(|(name, _)| name == "prompt").count(), 1);
        let endpoint = Url::parse("https://a.example/authorize?client_id=evil").unwrap();
        assert!(AuthorizationRequest { endpoint: &endpoint, ..request }.url().is_err());
        assert!(!format!("{pkce:?}").contains("dBjf"));
    }

    #[test]
    fn scopes_come_from_the_operator_then_the_challenge_then_the_resource() {
        let all = ["a".to_owned(), "b".to_owned()];
        let offline = ["offline_access".to_owned()];
        let join = |scope: Option<String>| scope.unwrap_or_default();
        assert_eq!(join(scope(Some("x"), Some("c"), &all, None, &offline)), "x");
        assert_eq!(join(scope(None, Some("c d"), &all, None, &offline)), "c d offline_access");
        assert_eq!(join(scope(None, None, &all, None, &[])), "a b");
        assert_eq!(join(scope(None, Some("c"), &all, Some("b c"), &[])), "c b");
        assert_eq!(
            join(scope(None, Some("c \u{202e}d \"e"), &all, None, &[])),
            "c",
            "what is no scope is left out"
        );
        assert_eq!(scope(None, None, &[], None, &[]), None);
    }

    #[test]
    fn secrets_differ_each_time() {
        let (one, other) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_ne!(one.state, other.state);
        assert_ne!(one.verifier, other.verifier);
        assert_eq!(one.verifier.expose().len(), 43);
    }
}
