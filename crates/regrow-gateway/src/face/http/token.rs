//! Credentials in a request, and tokens that are compared in a time that tells nothing of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::config::Secret;

/// The tokens that are accepted.
#[derive(Debug)]
pub(super) struct Tokens(Vec<Secret>);

/// What a request has in `Authorization`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credential {
    None,
    Bearer(Vec<u8>),
    /// What a person typed when a browser asked for a password. Browsers send it along with requests that other pages cause, so it
    /// is accepted only from requests that change nothing.
    Password(Vec<u8>),
    /// More than one, or of another kind.
    Unusable,
}

impl Tokens {
    pub(super) fn new(tokens: Vec<Secret>) -> Tokens {
        Tokens(tokens)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of the token. All are compared, so that their order shows nothing.
    pub(super) fn position(&self, shown: &[u8]) -> Option<u32> {
        let (mut found, mut position) = (Choice::from(0), 0);
        for (at, token) in (0_u32..).zip(&self.0) {
            let same = token.reveal().as_bytes().ct_eq(shown);
            position.conditional_assign(&at, same & !found);
            found |= same;
        }
        bool::from(found).then_some(position)
    }
}

impl Credential {
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Credential {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Credential::None,
            (Some(value), None) => value.as_bytes(),
            (Some(_), Some(_)) => return Credential::Unusable,
        };
        let is_reading = [Method::GET, Method::HEAD].contains(method);
        if let Some(token) = after(value, b"bearer ") {
            return Credential::Bearer(token.to_owned());
        }
        let password = after(value, b"basic ").filter(|_| is_reading).and_then(password);
        password.map_or(Credential::Unusable, Credential::Password)
    }
}

fn after<'a>(value: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (found, rest) = value.split_at_checked(scheme.len())?;
    found.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

/// The user name does not matter.
fn password(encoded: &[u8]) -> Option<Vec<u8>> {
    let decoded = STANDARD.decode(encoded).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some(decoded[colon + 1..].trim_ascii().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, values: &[&str]) -> Credential {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        Credential::of(&method, &headers)
    }

    #[test]
    fn a_token_is_found_whole_or_not_at_all() {
        let tokens = Tokens::new(vec![Secret::new("one"), Secret::new("two"), Secret::new("one")]);
        assert_eq!((tokens.position(b"one"), tokens.position(b"two")), (Some(0), Some(1)));
        for wrong in ["", "on", "onee", "One"] {
            assert_eq!(tokens.position(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Tokens::new(vec![]).position(b""), None);
    }

    #[test]
    fn a_credential_is_one_bearer_token_or_a_password_for_reading() {
        assert_eq!(of(Method::POST, &[]), Credential::None);
        assert_eq!(of(Method::POST, &["Bearer one"]), Credential::Bearer(b"one".to_vec()));
        assert_eq!(of(Method::GET, &["bearer  two "]), Credential::Bearer(b"two".to_vec()));
        let typed = "Basic OmE6Yg=="; // ":a:b"
        assert_eq!(of(Method::GET, &[typed]), Credential::Password(b"a:b".to_vec()));
        for (method, values) in [
            (Method::POST, &[typed][..]),
            (Method::GET, &["Basic one"]),
            (Method::GET, &["Bearer"]),
            (Method::GET, &["one"]),
            (Method::GET, &["Bearer one", "Bearer one"]),
        ] {
            assert_eq!(of(method, values), Credential::Unusable, "{values:?}");
        }
    }
}
