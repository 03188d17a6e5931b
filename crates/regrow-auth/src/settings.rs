//! What the operator sets about the sign-in at one MCP server, each time the same. It contains no secret.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::account::AccountKey;
use crate::discovery::Overrides;
use crate::guarded::Network;
use crate::login::{Flow, Options};
use crate::records::Secret;
use crate::registration::ClientSettings;

/// The settings. Nothing is set by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Settings {
    /// The label of the account, where there are several at the server. Empty for the only one.
    pub account: String,
    /// The issuer, whatever the server says.
    pub issuer: Option<String>,
    /// Where the metadata of the authorization server is.
    pub auth_server_metadata_url: Option<Url>,
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
    /// The address of a client ID metadata document, for authorization servers that accept those.
    pub client_metadata_url: Option<Url>,
    /// The scopes to sign in for, separated by spaces, in place of those that the server names.
    pub scope: Option<String>,
    /// The port that the browser returns to.
    pub callback_port: Option<u16>,
    /// Sign in with the client's own secret, without a person.
    pub client_credentials: bool,
    /// A PEM file of certificates to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
}

/// The variable that should contain the client's secret is not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is not set; it must contain the secret of the OAuth client")]
pub struct NoSecret(String);

impl Settings {
    /// The account that they are about.
    pub fn key(&self, server: Url) -> AccountKey {
        let mut parameters = self.authorize_params.clone();
        if self.client_credentials {
            // The client is the account.
            parameters.insert("grant_type".into(), "client_credentials".into());
            parameters.insert("client_id".into(), self.client_id.clone().unwrap_or_default());
        }
        AccountKey { no_resource: self.no_resource, parameters, ..AccountKey::new(server, &self.account) }
    }

    /// A sign-in with them, with the secret from the environment.
    pub fn options(&self, server: Url) -> Result<Options, NoSecret> {
        let client_secret = match &self.client_secret_env {
            Some(name) => Some(std::env::var(name).map_err(|_| NoSecret(name.clone()))?),
            None => None,
        };
        Ok(Options {
            overrides: Overrides {
                issuer: self.issuer.clone(),
                metadata_url: self.auth_server_metadata_url.clone(),
                no_resource: self.no_resource,
            },
            client: ClientSettings {
                client_id: self.client_id.clone(),
                client_secret: client_secret.map(Secret::new),
                metadata_document: self.client_metadata_url.clone(),
            },
            scope: self.scope.clone(),
            authorize_params: self.authorize_params.clone().into_iter().collect(),
            callback_port: self.callback_port,
            flow: if self.client_credentials { Flow::ClientCredentials } else { Flow::Browser },
            ..Options::new(server)
        })
    }

    /// How the authorization server is reached.
    pub fn network(&self) -> Network {
        Network {
            ca_file: self.ca_file.clone(),
            private_hosts: self.private_hosts.clone(),
            ..Network::default()
        }
    }
}
