//! Reads how to sign in to a remote server: the option `signIn`, and the members that hosts have for the same.

use std::collections::BTreeMap;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use regrow::transport::http::Http;
use regrow_protocol::oauth::{OWN_PARAMETERS, is_metadata_document};

use super::members::{self, Member};
use super::reading::Reading;

/// What is set about the sign-in at a server. It contains no secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignIn {
    /// The label of the account, where there are several at the server. Empty for the only one.
    pub account: String,
    /// The authorization server, whatever the server says.
    pub issuer: Option<String>,
    /// Where the metadata of the authorization server is.
    pub auth_server_metadata_url: Option<String>,
    /// More parameters of the authorization request.
    pub authorize_params: BTreeMap<String, String>,
    /// Send no `resource` parameter.
    pub no_resource: bool,
    /// Hosts that OAuth traffic may reach although they are in a private network.
    pub private_hosts: Vec<String>,
    /// The client that the operator registered.
    pub client_id: Option<String>,
    /// The variable that contains its secret.
    pub client_secret_env: Option<String>,
    /// The address of a client ID metadata document.
    pub client_metadata_url: Option<String>,
    /// The scopes to sign in for, separated by spaces.
    pub scopes: Option<String>,
    /// The port that the browser returns to.
    pub callback_port: Option<u16>,
    /// Sign in with the client's own secret, without a person.
    pub client_credentials: bool,
}

/// Its members.
const MEMBERS: [&str; 12] = [
    "account",
    "issuer",
    "authServerMetadataUrl",
    "authorizeParams",
    "resource",
    "privateHosts",
    "clientId",
    "clientSecretEnv",
    "clientMetadataUrl",
    "scopes",
    "callbackPort",
    "grant",
];
/// How to write it.
const FORM: &str = "write an object such as { \"account\": \"work\", \"clientId\": \"...\" }; docs/configuration.md lists its members";

/// For a parameter of the authorization request that the operator must not set.
const OWN_PARAMETER: &str =
    "Regrow sets this parameter itself; remove it. \"scopes\" and \"resource\" are members of signIn";

/// None if it cannot be read; then a problem was noted.
pub(super) fn read(reading: &mut Reading<'_>, value: &Value<'_>, field: &str) -> Option<SignIn> {
    let [account, issuer, metadata, params, resource, hosts, client, secret, document, scopes, port, grant] =
        members::of_option(reading, value, field, MEMBERS, (FORM, "is about the account at"))?;
    let sign_in = SignIn {
        account: account.and_then(|it| text(reading, it, field)).unwrap_or_default(),
        issuer: issuer.and_then(|it| address(reading, it, field)),
        auth_server_metadata_url: metadata.and_then(|it| address(reading, it, field)),
        authorize_params: params.map(|it| parameters(reading, it, field)).unwrap_or_default(),
        no_resource: resource.is_some_and(|it| is_none(reading, it, field)),
        private_hosts: hosts.and_then(|it| texts(reading, it, field)).unwrap_or_default(),
        client_id: client.and_then(|it| text(reading, it, field)),
        client_secret_env: secret.and_then(|it| text(reading, it, field)),
        client_metadata_url: document.and_then(|it| document_of(reading, it, field)),
        scopes: scopes.and_then(|it| scopes_of(reading, it, field)),
        callback_port: port.and_then(|it| port_of(reading, it, field)),
        client_credentials: grant.is_some_and(|it| is_client_grant(reading, it, field)),
    };
    if let Some(grant) = grant.filter(|_| secret.is_none()) {
        let text = "a client that signs in without a person requires \"clientSecretEnv\"; add it";
        reading.problem(grant.at, &format!("{field}.{}", grant.name), text);
    }
    if let Some(secret) = secret
        && (issuer.is_none() || client.is_none())
    {
        let text = "a client secret requires \"clientId\" and \"issuer\", so that the secret goes nowhere else; add them";
        reading.problem(secret.at, &format!("{field}.{}", secret.name), text);
    }
    Some(sign_in)
}

/// Whether an object was meant as this option, as far as its members tell.
pub(super) fn is_ours(object: &Object<'_>) -> bool {
    members::all(object).any(|member| MEMBERS.contains(&member.name))
}

impl SignIn {
    /// With what the host itself says where nothing is set: in `oauth`; Cursor in `auth`; Codex in `scopes`, too. What Regrow does not know there
    /// is the host's affair.
    pub(super) fn over_host(mut self, reading: &mut Reading<'_>, entry: &Object<'_>) -> SignIn {
        let [oauth, auth, own_scopes] = members::known(reading, entry, ["oauth", "auth", "scopes"]);
        let is_of_cursor =
            |auth: &Member<'_>| auth.value.as_object().is_some_and(|it| it.get("CLIENT_ID").is_some());
        if let Some((field, settings)) =
            oauth.or(auth.filter(is_of_cursor)).and_then(|it| Some((it.name, it.value.as_object()?)))
        {
            let [client, codex_client, cursor_client] =
                members::known(reading, settings, ["clientId", "client_id", "CLIENT_ID"]);
            let [secret, cursor_secret] =
                members::known(reading, settings, ["clientSecret", "CLIENT_SECRET"]);
            let names = ["callbackPort", "authServerMetadataUrl", "scopes", "scope"];
            let [port, metadata, scopes, scope] = members::known(reading, settings, names);
            let client = client.or(codex_client).or(cursor_client);
            if self.client_id.is_none() && client.is_some() {
                self.client_id = client.and_then(|it| text(reading, it, field));
                if let Some(secret) = secret.or(cursor_secret) {
                    let text = "Regrow does not read it; put the secret into a variable, and set \"clientId\", \"clientSecretEnv\" and \"issuer\" in \"regrow\": { \"signIn\": ... }";
                    reading.remark(secret.at, &format!("{field}.{}", secret.name), text);
                }
            }
            if self.callback_port.is_none() {
                self.callback_port = port.and_then(|it| port_of(reading, it, field));
            }
            if self.auth_server_metadata_url.is_none() && self.issuer.is_none() {
                self.auth_server_metadata_url = metadata.and_then(|it| address(reading, it, field));
            }
            if self.scopes.is_none() {
                self.scopes = scopes.or(scope).and_then(|it| scopes_of(reading, it, field));
            }
        }
        if self.scopes.is_none() {
            self.scopes = own_scopes
                .filter(|it| it.value.as_array().is_some())
                .and_then(|it| scopes_of(reading, it, "entry"));
        }
        self
    }
}

fn text(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<String> {
    let field = format!("{field}.{}", member.name);
    let text = reading.text(member.value, &field)?;
    if text.trim().is_empty() {
        reading.problem(member.value.range(), &field, "it is empty; write something, or remove it");
        return None;
    }
    Some(text)
}

fn address(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<String> {
    let text = text(reading, member, field)?;
    if let Err(error) = Http::new(&text) {
        let problem = format!("{error}; write it as https://host/path");
        reading.problem(member.value.range(), &format!("{field}.{}", member.name), problem);
    }
    Some(text)
}

fn document_of(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<String> {
    let text = text(reading, member, field)?;
    if !is_metadata_document(&text) {
        let problem = "write the address of the document as the document does, as https://host/path";
        reading.problem(member.value.range(), &format!("{field}.{}", member.name), problem);
    }
    Some(text)
}

fn parameters(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> BTreeMap<String, String> {
    let field = format!("{field}.{}", member.name);
    let Value::Object(object) = member.value else {
        reading.problem(member.value.range(), &field, "write { \"name\": \"value\" }");
        return BTreeMap::new();
    };
    let mut parameters = BTreeMap::new();
    for parameter in members::all(object) {
        let field = format!("{field}.{}", parameter.name);
        if OWN_PARAMETERS.contains(&parameter.name) {
            reading.problem(parameter.at, &field, OWN_PARAMETER);
        }
        let Some(value) = reading.text(parameter.value, &field) else { continue };
        if parameters.insert(parameter.name.to_owned(), value).is_some() {
            reading.problem(parameter.at, &field, "it is written twice; keep one of them");
        }
    }
    parameters
}

fn is_none(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> bool {
    let is_none = member.value.as_string_lit().is_some_and(|word| word.value == "none");
    if !is_none {
        let text = "write \"none\" for a server that accepts no such parameter, or remove it";
        reading.problem(member.value.range(), &format!("{field}.{}", member.name), text);
    }
    is_none
}

fn is_client_grant(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> bool {
    let is_known = member.value.as_string_lit().is_some_and(|word| word.value == "client_credentials");
    if !is_known {
        let text = "write \"client_credentials\" to sign in without a person, or remove it";
        reading.problem(member.value.range(), &format!("{field}.{}", member.name), text);
    }
    is_known
}

fn texts(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<Vec<String>> {
    let text = |value: &Value<'_>| Some(value.as_string_lit()?.value.to_string());
    let list = member.value.as_array().and_then(|list| list.elements.iter().map(text).collect());
    if list.is_none() {
        let field = format!("{field}.{}", member.name);
        reading.problem(member.value.range(), &field, "write a list of strings, such as [\"one\", \"two\"]");
    }
    list
}

/// Hosts write a list, or one text with spaces.
fn scopes_of(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<String> {
    match member.value {
        Value::StringLit(_) => text(reading, member, field),
        _ => texts(reading, member, field).map(|scopes| scopes.join(" ")).filter(|scopes| !scopes.is_empty()),
    }
}

fn port_of(reading: &mut Reading<'_>, member: Member<'_>, field: &str) -> Option<u16> {
    let port = member.value.as_number_lit().and_then(|number| number.value.parse().ok());
    let port = port.filter(|port| *port != 0);
    if port.is_none() {
        let text = "write a port from 1 to 65535, without quotes";
        reading.problem(member.value.range(), &format!("{field}.{}", member.name), text);
    }
    port
}
