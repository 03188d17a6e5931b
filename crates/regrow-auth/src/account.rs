//! One account: the identity that Regrow has at an MCP server, as it is stored.

use std::collections::{BTreeMap, BTreeSet};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::login::SignedIn;
use crate::records::{AuthorizationServer, Registration, Resource, Secret, Tokens, canonical};

/// What tells one account from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountKey {
    /// The address of the MCP server, without userinfo and fragment.
    pub url: Url,
    /// Whether the operator wants no `resource` parameter.
    pub no_resource: bool,
    /// Additional parameters of the authorization request, by name: they can select a tenant.
    pub parameters: BTreeMap<String, String>,
    /// The user's name for it, where there are several at one server. Empty for the only one.
    pub label: String,
}

impl AccountKey {
    /// The account with this label at this server.
    pub fn new(url: Url, label: &str) -> AccountKey {
        AccountKey {
            url: canonical(url),
            no_resource: false,
            parameters: BTreeMap::new(),
            label: label.to_owned(),
        }
    }

    /// Whether it is a client's own, so that no person has to sign in.
    pub fn is_of_client(&self) -> bool {
        self.parameters.get("grant_type").is_some_and(|grant| grant == "client_credentials")
    }

    /// A hash, which names its files and contains nothing that may be secret in a URL.
    pub fn hash(&self) -> String {
        let whole = (self.url.as_str(), self.no_resource, &self.parameters, &self.label);
        let text = serde_json::to_vec(&whole).expect("texts can be written as JSON");
        let hash = digest(&SHA256, &[b"regrow account\0", &*text].concat());
        hash.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// All that is stored of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Which one it is.
    pub key: AccountKey,
    /// What its tokens are for.
    pub resource: Resource,
    /// Who issues its tokens.
    pub server: AuthorizationServer,
    /// Who Regrow is to that server. It is kept when tokens are rejected, for the next sign-in.
    pub registration: Registration,
    /// How many times tokens were stored. It only increases.
    pub generation: u64,
    /// The tokens of the newest sign-in or refresh. None until the first sign-in has finished.
    pub tokens: Option<Tokens>,
    /// When they were obtained, in seconds since 1970, by this computer's clock.
    pub obtained_at: u64,
    /// What the authorization server rejected of this generation: only a sign-in helps.
    pub rejected: Option<Rejection>,
    /// How often more scopes were asked for since the user last signed in.
    #[serde(default)]
    pub step_ups: u32,
    /// The scopes that were asked for since then and not granted.
    #[serde(default)]
    pub refused_scopes: BTreeSet<String>,
    /// When a sign-in last changed the issuer, in seconds since 1970.
    #[serde(default)]
    pub moved_at: Option<u64>,
}

/// What an authorization server no longer accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rejection {
    /// The refresh token.
    RefreshToken,
    /// The registration of the client: the next sign-in registers again.
    Client,
}

impl Account {
    /// A sign-in has finished, in the place of this account, if there is one.
    pub fn signed_in(key: AccountKey, signed_in: SignedIn, before: Option<&Account>, now: u64) -> Account {
        let SignedIn { resource, server, registration, tokens } = signed_in;
        let generation = before.map_or(0, |account| account.generation);
        let moved_at = match before.is_some_and(|before| before.server.issuer != server.issuer) {
            true => Some(now),
            false => before.and_then(|before| before.moved_at),
        };
        let new = Account {
            key,
            resource,
            server,
            registration,
            generation,
            tokens: None,
            obtained_at: now,
            rejected: None,
            step_ups: 0,
            refused_scopes: BTreeSet::new(),
            moved_at,
        };
        new.with_tokens(tokens, now)
    }

    /// The same account after these scopes were asked for in addition to what it had before.
    pub fn stepped_up(self, before: &Account, asked: &[String]) -> Account {
        let mut refused_scopes = before.refused_scopes.clone();
        refused_scopes.extend(asked.iter().filter(|scope| !self.has_scope(scope)).cloned());
        Account { step_ups: before.step_ups + 1, refused_scopes, ..self }
    }

    /// Whether the tokens are for this scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        let granted = self.tokens.as_ref().and_then(|tokens| tokens.scope.as_deref());
        granted.is_some_and(|granted| granted.split_ascii_whitespace().any(|one| one == scope))
    }

    /// The same account with new tokens, one generation later.
    pub fn with_tokens(&self, tokens: Tokens, now: u64) -> Account {
        Account {
            tokens: Some(tokens),
            obtained_at: now,
            generation: self.generation + 1,
            rejected: None,
            ..self.clone()
        }
    }

    /// Who Regrow is at the next sign-in. None to register again.
    pub fn into_registration(self) -> Option<Registration> {
        (self.rejected != Some(Rejection::Client)).then_some(self.registration)
    }

    /// What the MCP server accepts.
    pub fn access_token(&self) -> Option<&Secret> {
        self.tokens.as_ref().map(|tokens| &tokens.access_token)
    }

    /// The values that nobody may see.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let tokens = self.tokens.iter();
        let tokens = tokens.flat_map(|tokens| [Some(&tokens.access_token), tokens.refresh_token.as_ref()]);
        tokens.chain([self.registration.client_secret.as_ref()]).flatten().map(Secret::expose)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::records::{AuthMethod, RegisteredBy};

    pub(crate) fn key() -> AccountKey {
        AccountKey::new(Url::parse("https://mcp.example/mcp").unwrap(), "")
    }

    pub(crate) fn tokens(number: u64, expires_at: Option<u64>) -> Tokens {
        Tokens {
            access_token: Secret::new(format!("access-{number}")),
            refresh_token: Some(Secret::new(format!("refresh-{number}"))),
            expires_at,
            scope: None,
        }
    }

    /// Signed in at 1000, for an hour.
    pub(crate) fn account() -> Account {
        let endpoint = |path: &str| Url::parse(&format!("https://issuer.example/{path}")).unwrap();
        let server = AuthorizationServer {
            issuer: "https://issuer.example".into(),
            authorization_endpoint: Some(endpoint("authorize")),
            token_endpoint: endpoint("token"),
            registration_endpoint: None,
            revocation_endpoint: None,
            device_authorization_endpoint: None,
            scopes_supported: vec![],
            token_auth_methods: vec![AuthMethod::None],
            iss_parameter_supported: true,
            client_id_metadata_supported: false,
        };
        let registration = Registration {
            issuer: server.issuer.clone(),
            client_id: "regrow".into(),
            client_secret: Some(Secret::new("client-secret")),
            secret_expires_at: None,
            auth_method: AuthMethod::Basic,
            redirect_uri: None,
            how: RegisteredBy::Dynamic,
        };
        Account {
            key: key(),
            resource: Resource { url: key().url, resource: Some(key().url.to_string()) },
            server,
            registration,
            generation: 1,
            tokens: Some(tokens(1, Some(4600))),
            obtained_at: 1000,
            rejected: None,
            step_ups: 0,
            refused_scopes: BTreeSet::new(),
            moved_at: None,
        }
    }

    #[test]
    fn every_part_of_a_key_makes_another_account() {
        let base = key();
        let mut others = vec![base.clone(); 4];
        others[0].url.set_path("/other");
        others[1].no_resource = true;
        others[2].parameters.insert("tenant".into(), "acme".into());
        others[3].label = "work".into();
        let mut hashes: Vec<String> = others.iter().chain([&base]).map(AccountKey::hash).collect();
        assert_eq!(hashes[4], key().hash(), "the same every time");
        let with_password = Url::parse("https://ann:x@mcp.example/mcp#part").unwrap();
        assert_eq!(
            hashes[4],
            AccountKey::new(with_password, "").hash(),
            "that says nothing about the server"
        );
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), 5);
    }

    #[test]
    fn new_tokens_are_the_next_generation_and_clear_a_rejection() {
        let old = Account { rejected: Some(Rejection::RefreshToken), ..account() };
        let new = old.with_tokens(tokens(2, None), 2000);
        assert_eq!((new.generation, new.obtained_at, new.rejected), (2, 2000, None));
        assert_eq!(new.registration, old.registration);
        let secrets: Vec<&str> = new.secrets().collect();
        assert_eq!(secrets, ["access-2", "refresh-2", "client-secret"]);
        assert!(!format!("{new:?}").contains("access-2"), "Debug shows no secret");
    }
}
