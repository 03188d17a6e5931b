//! Who a client is: bearer tokens, compared in a time that tells nothing of them.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::admit::Principal;
use crate::config::Secret;

/// The tokens that are accepted.
#[derive(Debug)]
pub(super) struct Tokens(Vec<Secret>);

/// Why nobody is who it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It shows no token.
    Silent,
    /// It shows a wrong one, or more than one.
    Wrong,
}

impl Tokens {
    pub(super) fn new(tokens: Vec<Secret>) -> Tokens {
        Tokens(tokens)
    }

    /// Whose request this is. All tokens are compared, so that their order shows nothing.
    pub(super) fn principal(&self, headers: &HeaderMap) -> Result<Principal, Stranger> {
        if self.0.is_empty() {
            return Ok(Principal::default());
        }
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let shown = match (values.next(), values.next()) {
            (None, _) => return Err(Stranger::Silent),
            (Some(value), None) => bearer(value.as_bytes()).ok_or(Stranger::Wrong)?,
            (Some(_), Some(_)) => return Err(Stranger::Wrong),
        };
        let (mut found, mut principal) = (Choice::from(0), 0);
        for (at, token) in (0_u32..).zip(&self.0) {
            let same = token.reveal().as_bytes().ct_eq(shown);
            principal.conditional_assign(&at, same & !found);
            found |= same;
        }
        if bool::from(found) { Ok(Principal(principal)) } else { Err(Stranger::Wrong) }
    }
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_who_it_is() {
        let tokens = Tokens::new(vec![Secret::new("one"), Secret::new("two"), Secret::new("one")]);
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            tokens.principal(&headers)
        };
        assert_eq!(of(&["Bearer one"]), Ok(Principal(0)));
        assert_eq!(of(&["bearer  two "]), Ok(Principal(1)));
        assert_eq!(of(&[]), Err(Stranger::Silent));
        for wrong in ["Bearer", "Bearer ", "Bearer on", "Bearer onee", "Basic one", "one", "Bearer One"] {
            assert_eq!(of(&[wrong]), Err(Stranger::Wrong), "{wrong}");
        }
        assert_eq!(of(&["Bearer one", "Bearer one"]), Err(Stranger::Wrong));
        assert_eq!(Tokens::new(vec![]).principal(&HeaderMap::new()), Ok(Principal(0)));
    }
}
