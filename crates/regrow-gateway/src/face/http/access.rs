//! Who makes a request. It is decided here, once, from the token and the user at the other end; nothing else looks at either.

use http::{HeaderMap, Method};

use super::peer::Peer;
use super::token::{Credential, Tokens};
use crate::admit::Principal;

#[derive(Debug)]
pub(super) struct Access {
    /// Of clients. Where there are none, the user at the other end decides.
    pub(super) clients: Tokens,
    pub(super) operators: Tokens,
    /// Whether clients without a token need not be the user who runs the gateway.
    pub(super) any_user: bool,
}

/// Why a request is nobody's that we serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It has no token.
    Silent,
    /// It has a wrong one, or more than one.
    Wrong,
    /// It comes from a process of another user of this machine.
    OtherUser(u32),
    /// It needs no token, but whose process it comes from is not known.
    UnknownUser,
}

impl Stranger {
    /// In the audit log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Stranger::Silent => "no-token",
            Stranger::Wrong => "wrong-token",
            Stranger::OtherUser(_) => "other-user",
            Stranger::UnknownUser => "unknown-user",
        }
    }
}

impl Access {
    pub(super) fn principal(
        &self,
        method: &Method,
        headers: &HeaderMap,
        peer: Peer,
    ) -> Result<Principal, Stranger> {
        let credential = Credential::of(method, headers);
        if let Credential::Bearer(shown) | Credential::Password(shown) = &credential
            && self.operators.position(shown).is_some()
        {
            return Ok(Principal::Operator);
        }
        if !self.clients.is_empty() {
            return match credential {
                Credential::None => Err(Stranger::Silent),
                Credential::Bearer(shown) => {
                    self.clients.position(&shown).map(Principal::Client).ok_or(Stranger::Wrong)
                }
                Credential::Password(_) | Credential::Unusable => Err(Stranger::Wrong),
            };
        }
        match peer {
            Peer::Own => Ok(Principal::LocalUser),
            Peer::Other(_) | Peer::Unknown if self.any_user => Ok(Principal::Anonymous),
            Peer::Other(user) => Err(Stranger::OtherUser(user)),
            Peer::Unknown => Err(Stranger::UnknownUser),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use http::header::AUTHORIZATION;

    fn access(clients: &[&str], any_user: bool) -> Access {
        let clients = clients.iter().map(|token| Secret::new(*token)).collect();
        let operators = Tokens::new(vec![Secret::new("root"), Secret::new("made")]);
        Access { clients: Tokens::new(clients), operators, any_user }
    }

    fn who(access: &Access, value: &str, peer: Peer) -> Result<Principal, Stranger> {
        let value = (!value.is_empty()).then(|| (AUTHORIZATION, value.parse().unwrap()));
        access.principal(&Method::POST, &value.into_iter().collect(), peer)
    }

    #[test]
    fn with_client_tokens_the_token_alone_decides() {
        let access = access(&["one", "two"], true);
        for peer in [Peer::Own, Peer::Other(7), Peer::Unknown] {
            assert_eq!(who(&access, "Bearer one", peer), Ok(Principal::Client(0)));
            assert_eq!(who(&access, "Bearer two", peer), Ok(Principal::Client(1)));
            assert_eq!(who(&access, "Bearer made", peer), Ok(Principal::Operator));
            assert_eq!(who(&access, "", peer), Err(Stranger::Silent));
            assert_eq!(who(&access, "Bearer three", peer), Err(Stranger::Wrong));
            assert_eq!(
                who(&access, "Basic OnJvb3Q=", peer),
                Err(Stranger::Wrong),
                "a password posts nothing"
            );
        }
    }

    #[test]
    fn without_client_tokens_the_user_at_the_other_end_decides() {
        let (own, any) = (access(&[], false), access(&[], true));
        for value in ["", "Bearer wrong", "Basic x"] {
            assert_eq!(who(&own, value, Peer::Own), Ok(Principal::LocalUser));
            assert_eq!(who(&own, value, Peer::Other(7)), Err(Stranger::OtherUser(7)));
            assert_eq!(who(&own, value, Peer::Unknown), Err(Stranger::UnknownUser));
            assert_eq!(who(&any, value, Peer::Own), Ok(Principal::LocalUser));
            assert_eq!(who(&any, value, Peer::Other(7)), Ok(Principal::Anonymous));
            assert_eq!(who(&any, value, Peer::Unknown), Ok(Principal::Anonymous));
        }
        assert_eq!(who(&own, "Bearer root", Peer::Other(7)), Ok(Principal::Operator));
    }
}
